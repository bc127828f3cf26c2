"""Ranks among past scores in place of scores and thresholds, whose digits would give a patient away."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screening.documents.figures import BEYOND_SCORES
from screening.documents.model import ModelDocument


@dataclass(frozen=True)
class Ranks:
    """Where a score lies among the thresholds of a class's curve, from 0 (below all) to 100 (above all).

    `knots` ascend; between two of them the rank is a straight line. `origin` is what a stored score is
    counted from: the class's threshold where several classes are watched.
    """

    knots: Sequence[float]
    origin: float | None = None

    def of_threshold(self, value: float) -> float:
        """The rank of a threshold; one beyond all scores stands for none, and stays."""
        if abs(value) >= BEYOND_SCORES:
            return value
        right = bisect.bisect_left(self.knots, value)
        if right in (0, len(self.knots)):
            return 0.0 if right == 0 else 100.0
        low, high = self.knots[right - 1], self.knots[right]
        return round(100 * (right - 1 + (value - low) / (high - low)) / (len(self.knots) - 1), 1)

    def of_score(self, score: float) -> float:
        """The rank of a stored score, counted from the rank of what the score is counted from."""
        return round(self._above(score), 1)

    def of_change(self, score: float, change: float) -> float:
        """How many ranks a change of the score is worth."""
        return round(self._above(score) - self._above(score - change), 1)

    def _above(self, score: float) -> float:
        if self.origin is None:
            return self.of_threshold(score)
        return self.of_threshold(self.origin + score) - self.of_threshold(self.origin)


def ranks_of(model: ModelDocument) -> Mapping[str, Ranks]:
    """The ranks of each watched class."""
    ranks = {}
    for point in model.operating_points:
        curve = model.validation.curves.get(point.label)
        knots = {each for each in (curve.threshold if curve else ()) if each is not None}
        finite = sorted(each for each in knots if math.isfinite(each) and abs(each) < BEYOND_SCORES)
        ranks[point.label] = Ranks(finite, point.threshold if model.by_excess else None)
    return ranks
