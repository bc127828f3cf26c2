"""Control charts of a series: whether workload, yield and data stay as they were, and which nights do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from screening.documents.reason import Reason
from screening.documents.shape import document

Measure = Literal["workload", "yield", "refused", "missing"]


@document
class ControlPoint:
    """A night on a chart: `count` of `of`, and between which shares it was expected to lie.

    None where a night has nothing to count, or the phase has no limits yet.
    """

    night: str
    count: int
    of: int
    share: float | None
    low: float | None
    high: float | None

    @property
    def outside(self) -> bool:
        """Whether it lies beyond a limit."""
        if self.share is None or self.low is None or self.high is None:
            return False
        return not self.low - 1e-12 <= self.share <= self.high + 1e-12


@document
class Phase:
    """Nights under one model and threshold; the first `baseline` of them fix centre and limits.

    `began` says what was new. `spread` is how much more its nights differ than chance explains (Laney's
    sigma of z; 1 is a plain p-chart). `frozen` is False while the baseline still grows.
    """

    began: str
    baseline: int
    frozen: bool
    centre: float | None
    spread: float | None
    points: Sequence[ControlPoint]


@document
class ControlChart:
    """A share night by night, in phases; `signals` has the nights beyond a limit, in words."""

    measure: Measure
    phases: Sequence[Phase]
    signals: Sequence[Reason]
