"""A stream of rows as a stream of patients: each batch is one whole group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from screening.cohort.cohort import Cohort, joined
from screening.cohort.stream import CohortStream
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
    held: list[Cohort] = []
    seen: set[str] = set()
    for batch in batches:
        group = np.asarray(batch.group)
        starts = [0, *(1 + np.flatnonzero(group[1:] != group[:-1])), len(group)]
        for start, end in pairwise(starts):
            if held and group[start] != np.asarray(held[0].group)[0]:
                yield joined(held)
                held = []
            if not held and group[start] in seen:
                raise CohortError(
                    "rows of a group do not stand together, as lesions need it; sort the table by its group"
                )
            seen.add(group[start])
            held.append(batch.take(np.arange(start, end)))
    if held:
        yield joined(held)
