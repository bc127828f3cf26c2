"""A stream of rows as a stream of patients: each batch is one whole group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from screening.cohort.cohort import Cohort, joined
from screening.cohort.stream import CohortStream
from screening.cohort.stretches import gathered, stretches
from screening.errors import CohortError


class GroupStream(CohortStream):
    """A cohort read group by group; memory is bounded by the largest of them."""

    def __iter__(self) -> Iterator[Cohort]:
        return whole_groups(super().__iter__())


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """The same rows, one group a batch.

    Raises
    ------
    CohortError
        Rows of a group come after those of another.
    """
    seen: set[str] = set()
    parts = (
        (name, batch.take(np.arange(rows.start, rows.stop)))
        for batch in batches
        for name, rows in stretches(np.asarray(batch.group))
    )
    for name, mine in gathered(parts):
        if name in seen:
            raise CohortError(
                "rows of a group do not stand together, as lesions need it; sort the table by its group"
            )
        seen.add(name)
        yield joined(mine)
