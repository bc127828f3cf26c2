"""Further blocks of a night's page, gathered batch by batch beside the counts: rarity, subgroups, voxels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from screening.cohort.cohort import Cohort
from screening.discoveries import Discoveries, drift_words, with_discoveries
from screening.night import Scored
from screening.store import Model


class Blocks:
    """Adds up what the blocks below the list of cases need; memory does not grow with unflagged rows."""

    def __init__(self, model: Model):
        self.model = model
        self.discoveries = Discoveries(model.calibration)

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.discoveries.add(scored.p_value)

    def completed(
        self, facts: dict[str, Any], groups: Mapping[str, Iterable[float]] | None
    ) -> dict[str, Any]:
        """The night's facts with these blocks, and with what they find alarming under `attention`."""
        facts = with_discoveries(facts, self.discoveries, groups)
        words, alarm = drift_words(facts["unflagged"], "group" if groups else "row")
        return facts | {"attention": [*facts["attention"], *([words] if alarm else [])]}
