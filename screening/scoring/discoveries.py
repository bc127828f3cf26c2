"""Which of the many screened tonight would be rare even so: false discovery rate over rows or groups."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from screening.documents.run import Discoveries as DiscoveryFacts
from screening.statistics.p_values import p_values, resolution_warning

RATE = 0.1


class Discoveries:
    """Counts p-values by rank, so that memory grows with the calibration scores and not with the table.

    Parameters
    ----------
    calibration : ndarray, shape (n,)
        What the p-values are ranks in, one a row or one a group.
    """

    def __init__(self, calibration: np.ndarray):
        self.calibration = calibration
        self.counts = np.zeros(len(calibration) + 1, dtype=np.int64)

    def add(self, p: np.ndarray) -> None:
        """Count in p-values of this calibration, each (rank) / (n + 1)."""
        ranks = np.rint(np.asarray(p) * len(self.counts)).astype(np.int64)
        self.counts += np.bincount(ranks - 1, minlength=len(self.counts))

    def cut(self, q: float = RATE) -> float | None:
        """The largest p-value that Benjamini and Hochberg report at rate q; None for no discovery."""
        among = np.cumsum(self.counts)
        ranks = np.arange(1, len(among) + 1)
        # Multiplied out: whole numbers on one side, so only q can be rounded.
        small = np.flatnonzero(
            (self.counts > 0) & (ranks * among[-1] <= among * q * len(among) * (1 + 1e-12))
        )
        return float(ranks[small[-1]] / len(among)) if len(small) else None

    def facts(self, per: str, flagged: int, q: float = RATE) -> DiscoveryFacts:
        """What `run.json` says: how many of the screened would be reported, and whether any could be."""
        cut, screened = self.cut(q), int(self.counts.sum())
        found = 0 if cut is None else int(self.counts[: round(cut * len(self.counts))].sum())
        return DiscoveryFacts(
            q=q,
            per=per,
            n_screened=screened,
            n_calibration=len(self.calibration),
            p_cut=cut,
            found=found,
            flagged=flagged,
            warning=resolution_warning(len(self.calibration), screened, q) if screened else None,
        )


def of_groups(rows: Discoveries, entries: Iterable[Iterable[float]]) -> DiscoveryFacts:
    """The false discovery rate among groups, each (rows, flagged rows, highest score)."""
    groups = Discoveries(rows.calibration)
    _, flagged, top = np.array([tuple(entry) for entry in entries], dtype=float).T
    groups.add(p_values(rows.calibration, top))
    return groups.facts("group", int(np.count_nonzero(flagged)))


def is_discovery(p: float, said: DiscoveryFacts) -> bool:
    """Whether a p-value is among those that would be reported."""
    return said.p_cut is not None and p <= said.p_cut * (1 + 1e-12)
