"""Those not flagged: how many, and a few drawn at random for review."""

from __future__ import annotations

import numpy as np

SAMPLED = 5
"""How many of the unflagged are drawn for review each night, so that misses can be estimated."""


class Unflagged:
    """Draws from the unflagged rows, batch by batch, in bounded memory.

    Parameters
    ----------
    seed : int
        Of the draw; the run's identity, so that the same night draws the same.
    """

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.n = 0
        self.drawn: list[tuple[float, str]] = []

    def add(self, names: np.ndarray, flagged: np.ndarray) -> None:
        """Count in rows (or groups); the draw does not depend on the batches."""
        lots = self.rng.random(len(names))
        quiet = np.flatnonzero(~flagged)
        self.n += len(quiet)
        lowest = quiet[np.argsort(lots[quiet], kind="stable")[:SAMPLED]]
        self.drawn = sorted([*self.drawn, *((float(lots[i]), str(names[i])) for i in lowest)])[:SAMPLED]

    @property
    def sample(self) -> list[str]:
        """Those drawn."""
        return [name for _, name in self.drawn]
