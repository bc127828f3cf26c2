"""What a model learned from the verdicts of a series, beside its past cohort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from screening.documents.shape import document, named


@document
class TrainedOn:
    """Judged rows that a training took in, and those it left out, by reason.

    `already` of the judged rows stood in the past cohort, where each counts once, by the cohort's label; on
    `disagreeing` of them the verdict says something else.
    """

    series: str
    champion: str
    first: str
    last: str
    nights: int
    confirmed: int
    not_: Annotated[int, named("not")]
    already: int
    disagreeing: int
    left_out: Mapping[str, int]

    @property
    def taken(self) -> int:
        """Rows that the past cohort did not have."""
        return self.confirmed + self.not_
