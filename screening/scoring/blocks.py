"""Further blocks of a night's page, counted beside its cases: rarity, drift, subgroups, voxels."""

from __future__ import annotations

from collections.abc import Sequence

from screening.cohort.cohort import Cohort
from screening.documents.voxels import Geometry
from screening.scoring.discoveries import Discoveries
from screening.scoring.drift import Drift
from screening.scoring.voxels import VoxelTally
from screening.statistics.subgroups import SubgroupCounts
from screening.storage.model import Model, Scored


class Blocks:
    """Adds up what the blocks below the list of cases need; memory does not grow with unflagged rows."""

    def __init__(self, model: Model, n_rows: int, geometries: Sequence[Geometry]):
        self.model = model
        self.drift = Drift(model, n_rows)
        self.discoveries = Discoveries(model.calibration)
        described = model.facts.validation.subgroups
        # The levels are those of the first class; all classes are validated on the same rows.
        self.subgroups = SubgroupCounts(next(iter(described.values()), []))
        self.voxels = VoxelTally(model.contract, geometries) if model.contract.coordinates else None

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.discoveries.add(scored.p_value)
        self.drift.add(batch, scored.encoded)
        if batch.subgroups is not None:
            self.subgroups.add(batch.subgroups, scored.flagged, batch.group)
        if self.voxels is not None:
            self.voxels.add(batch, scored.score, scored.flagged)
