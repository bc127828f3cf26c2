"""Those not flagged: a few drawn at random for review, and whether they look as negatives do."""

from __future__ import annotations

from typing import Any

import numpy as np

from screening.conformal_p import RankCounts
from screening.store import Model

SAMPLED = 5
"""How many of the unflagged are drawn for review each night, so that misses can be estimated."""


class Unflagged:
    """Draws from the unflagged rows and tallies their ranks, batch by batch, in bounded memory.

    Parameters
    ----------
    model : Model
    seed : int
        Of the draw; the run's identity, so that the same night draws the same.
    """

    def __init__(self, model: Model, seed: int):
        self.rng = np.random.default_rng(seed)
        # With several watched classes the score is the excess over a class's own threshold.
        threshold = float(model.thresholds[0]) if len(model.thresholds) == 1 else 0.0
        self.ranks = RankCounts(model.calibration, threshold)
        self.n = 0
        self.drawn: list[tuple[float, str]] = []

    def add(self, names: np.ndarray, score: np.ndarray, flagged: np.ndarray) -> None:
        """Count in rows (or groups with their highest score); the draw does not depend on the batches."""
        lots = self.rng.random(len(names))
        quiet = np.flatnonzero(~flagged)
        self.n += len(quiet)
        self.ranks.add(score[quiet])
        lowest = quiet[np.argsort(lots[quiet], kind="stable")[:SAMPLED]]
        self.drawn = sorted([*self.drawn, *((float(lots[i]), str(names[i])) for i in lowest)])[:SAMPLED]

    def facts(self) -> dict[str, Any]:
        """The parts of `run.json` that speak of the unflagged."""
        return {
            "sample": [name for _, name in self.drawn],
            "unflagged": {"cases": self.n} | self.ranks.to_dict(),
        }
