"""What a model's nights have shown so far beside what its page promised."""

from __future__ import annotations

from screening.documents.shape import document


@document
class Estimate:
    """A share with its 95 % interval; None is unknown."""

    value: float | None
    low: float | None
    high: float | None

    def below(self, promised: Estimate) -> bool:
        """Whether it lies below a promise by more than both intervals allow."""
        return self.high is not None and promised.low is not None and self.high < promised.low


@document
class SensitivityAndPpv:
    """Share found of those with the condition, and share with it of those flagged."""

    sensitivity: Estimate
    ppv: Estimate


@document
class ForwardNights:
    """The champion's nights in force, by lots and random samples that were judged.

    `seen.ppv` is the share of all new cases by those that lots marked. `seen.sensitivity` sets the cases that
    it makes of a night's flagged against those that the samples make of its unflagged. `promised` is None
    where its rows are not the patients that the ledger counts.
    """

    model: str
    nights: int
    first: str
    last: str
    seen: SensitivityAndPpv
    promised: SensitivityAndPpv | None
