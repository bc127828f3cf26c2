"""A method beside others on the same folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.documents.rule import Rule
from screening.documents.shape import Setting, document, rare


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
    reason: str | None = rare()
    n_candidates: int | None = rare()
    chosen: Setting | None = rare()
    thresholds: Sequence[float] = rare(())
    figures: Mapping[str, float | None] | None = rare()
    differences: Mapping[str, Difference] | None = rare()


@document
class BesideFacts:
    """The method and those beside it, each at thresholds by the same rules.

    `rules` are the method's, one a watched class; `rule` is what chose the others' thresholds: the first of
    them, or the sensitivity that a threshold given by hand has.
    """

    rules: Sequence[Rule]
    rule: Rule
    n_watched: int
    figures: Mapping[str, float | None]
    beside: Sequence[Beside]
