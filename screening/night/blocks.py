"""Further blocks of a night's page, gathered beside the counts: rarity, drift, subgroups, voxels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort
from screening.night.discoveries import Discoveries, with_discoveries
from screening.night.drift import Drift
from screening.night.drift_words import reason
from screening.night.gathering import Scored
from screening.night.voxels import VoxelTally, pictured
from screening.statistics.chances import chance_range, probability
from screening.statistics.local import prevalence_tonight
from screening.statistics.subgroups import SubgroupCounts
from screening.store import Model


class Blocks:
    """Adds up what the blocks below the list of cases need; memory does not grow with unflagged rows."""

    def __init__(self, model: Model, n_rows: int):
        self.model = model
        self.drift = Drift(model, n_rows)
        self.discoveries = Discoveries(model.calibration)
        described = model.document["validation"].get("subgroups") or {}
        # The levels are those of the first class; all classes are validated on the same rows.
        self.subgroups = SubgroupCounts(next(iter(described.values()), []))
        self.voxels = VoxelTally(model.contract) if model.contract.coordinates else None

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.discoveries.add(scored.p_value)
        self.drift.add(batch, scored.encoded)
        if batch.subgroups is not None:
            self.subgroups.add(batch.subgroups, scored.flagged, batch.group)
        if self.voxels is not None:
            self.voxels.add(batch, scored.score, scored.flagged)

    def completed(
        self, facts: dict[str, Any], groups: Mapping[str, Iterable[float]] | None
    ) -> dict[str, Any]:
        """The night's facts with these blocks, and with what they find alarming under `attention`."""
        facts = with_discoveries(facts, self.discoveries, groups)
        scores = self.drift.counts()
        found = reason(scores)
        points, counts = self.model.operating_points, facts["counts"]
        alone = len(points) == 1 and not groups
        return facts | {
            "attention": [*facts["attention"], *([found.to_dict()] if found else [])],
            "drift": scores and scores.to_dict(),
            "subgroups": self.subgroups.facts(),
            "prevalence_estimate": prevalence_tonight(counts["flagged"], counts["scored"], points[0])
            if alone
            else None,
            "cases": self._with_chances(facts["cases"]),
            "near_misses": self._with_chances(facts["near_misses"]),
        }

    def pictured(self, facts: dict[str, Any], batches: Iterable[Cohort], scores: Path) -> dict[str, Any]:
        """The facts with volumes, clusters and slices of a voxel run; its batches are read once more for it.

        Parameters
        ----------
        scores : Path
            `scores.parquet` as just written, one row group a batch.
        """
        if self.voxels is None:
            return facts
        return facts | {"voxels": pictured(self.voxels.facts(), batches, scores)}

    def _with_chances(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Cases with their calibrated chance of the condition, where the model has earned one."""
        calibration = self.model.document["validation"].get("calibration") or {}
        thresholds = dict(zip(self.model.watched, self.model.thresholds.tolist(), strict=True))
        told = []
        for case in cases:
            found = calibration.get(case["class"], {})
            # With several watched classes the score is the excess over the class's own threshold.
            own = case["score"] + (thresholds[case["class"]] if len(thresholds) > 1 else 0.0)
            told.append(case | _chance(found, own))
        return told


def _chance(calibration: Mapping[str, Any], score: float) -> dict[str, float | None]:
    """The chance that belongs to a score, with the interval of what was observed of such scores."""
    if not calibration.get("earned"):
        return dict.fromkeys(("chance", "chance_low", "chance_high"))
    chance = probability(calibration, np.array([score]))
    low, high = chance_range(calibration, chance)
    return {"chance": float(chance[0]), "chance_low": float(low[0]), "chance_high": float(high[0])}
