"""A method beside others on the same folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from screening.documents.shape import Setting, document


@document
class RuleFacts:
    """How a threshold is chosen."""

    name: Literal["min_sensitivity", "max_flag_rate", "miss_cost", "g_mean", "threshold"]
    value: float | None
    confidence: float | None
    prevalence: float | None


@document
class Difference:
    """A difference of two methods on the same rows, with its 95 % interval."""

    difference: float | None
    low: float | None
    high: float | None


@document
class Beside:
    """Another method on the same folds, or the reason why it could not be trained."""

    recipe: str
    title: str
    reason: str | None = None
    n_candidates: int | None = None
    chosen: Setting | None = None
    thresholds: Sequence[float] = ()
    figures: Mapping[str, float | None] | None = None
    differences: Mapping[str, Difference] | None = None


@document
class BesideFacts:
    """The method and those beside it."""

    rule: RuleFacts
    n_watched: int
    figures: Mapping[str, float | None]
    beside: Sequence[Beside]
