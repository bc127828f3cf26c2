"""Further blocks of a night's page, gathered beside the counts: rarity, drift, subgroups, voxels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from screening.cohort.cohort import Cohort
from screening.documents.drift_words import reason
from screening.scoring.discoveries import Discoveries, with_discoveries
from screening.scoring.drift import Drift
from screening.scoring.standing import rarity_range
from screening.scoring.voxels import VoxelTally, pictured
from screening.statistics.local import prevalence_tonight
from screening.statistics.subgroups import SubgroupCounts
from screening.storage.chances import Chances
from screening.storage.model import Model
from screening.storage.scored import Scored


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
            "cases": self._with_ranges(self._with_chances(facts["cases"])),
            "near_misses": self._with_ranges(self._with_chances(facts["near_misses"])),
            "groups": facts["groups"] and self._with_ranges(facts["groups"]),
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
        """Cases with their calibrated chance of the condition, None where the model has not earned one."""
        columns = np.array([self.model.watched.index(case["class"]) for case in cases], dtype=np.int64)
        scores = np.array([case["score"] for case in cases], dtype=float)
        chances = Chances(self.model).listed(scores, columns)
        return [case | chance for case, chance in zip(cases, chances, strict=True)]

    def _with_ranges(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Cases with the interval of the share of past negatives that score as high."""
        low, high = rarity_range(np.array([case["p_value"] for case in cases]), len(self.model.calibration))
        return [case | {"p_low": float(low[i]), "p_high": float(high[i])} for i, case in enumerate(cases)]
