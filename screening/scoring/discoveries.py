"""Which of the many screened tonight would be rare even so: false discovery rate over rows or groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

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

    def facts(self, per: str, flagged: int, q: float = RATE) -> dict[str, Any]:
        """What `run.json` says: how many of the screened would be reported, and whether any could be."""
        cut, screened = self.cut(q), int(self.counts.sum())
        found = 0 if cut is None else int(self.counts[: round(cut * len(self.counts))].sum())
        return {
            "q": q,
            "per": per,
            "n_screened": screened,
            "n_calibration": len(self.calibration),
            "p_cut": cut,
            "found": found,
            "flagged": flagged,
            "warning": resolution_warning(len(self.calibration), screened, q) if screened else None,
        }


def with_discoveries(
    facts: dict[str, Any], rows: Discoveries, groups: Mapping[str, Iterable[float]] | None
) -> dict[str, Any]:
    """A night's facts with the false discovery rate among its rows, or among its groups where it has any.

    Parameters
    ----------
    facts : dict
        Of `Night.facts`: `cases` are marked where rows are independent, `groups` where they are not.
    groups : mapping of group to (rows, flagged rows, highest score), or None
    """
    if not groups:
        said = rows.facts("row", facts["counts"]["flagged"])
        cases = [case | {"discovery": _within(case["p_value"], said["p_cut"])} for case in facts["cases"]]
        return facts | {"discoveries": said, "cases": cases}
    of_groups = Discoveries(rows.calibration)
    _, flagged, top = np.array([tuple(entry) for entry in groups.values()], dtype=float).T
    of_groups.add(p_values(rows.calibration, top))
    said = of_groups.facts("group", int(np.count_nonzero(flagged)))
    listed = []
    for entry in facts["groups"] or ():
        p = float(p_values(rows.calibration, np.array([entry["top_score"]]))[0])
        listed.append(entry | {"p_value": p, "discovery": _within(p, said["p_cut"])})
    counted = {"groups_total": said["n_screened"], "groups_flagged": said["flagged"]}
    return facts | {"discoveries": said, "groups": listed} | counted


def _within(p: float, cut: float | None) -> bool:
    return cut is not None and p <= cut * (1 + 1e-12)
