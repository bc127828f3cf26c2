"""What one night's scoring adds up to, gathered batch by batch: counts, cases, groups, evaluation, blocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from screening.cohort.cohort import Cohort
from screening.documents.case import Case, GroupFacts
from screening.documents.figures import Observed
from screening.documents.run import (
    Counts,
    NightFeature,
    ReachingCounts,
    ScoreScale,
)
from screening.documents.run import Discoveries as DiscoveryFacts
from screening.documents.validation import Confusion, PerClass
from screening.documents.voxels import Geometry
from screening.errors import CohortError
from screening.gates.drift import Gates
from screening.scoring.cases import Top, cases_of, displayed
from screening.scoring.drift import Drift
from screening.scoring.flags import Flags
from screening.scoring.reference_distribution import Discoveries, Standing, is_discovery, rarity_range
from screening.scoring.voxels import VoxelTally
from screening.sources.columns import Columns, absent
from screening.statistics.operating_point import performance
from screening.statistics.p_values import p_values
from screening.statistics.performance import per_class
from screening.statistics.subgroups import SubgroupCounts
from screening.storage.model import Model, Scored
from screening.validation.task import Task, known_labels

CASES_EXPLAINED = 100
# The others come as one line each; a page of more than this nobody reads.
CASES_SHOWN = 5000
# Of a voxel run the page names patients first; single voxels are examples.
VOXELS_SHOWN = 40
NEAR_MISSES_SHOWN = 20
# Of the patients who are not flagged the page names as many as there is room for beside the others.
GROUPS_SHOWN = 200


class Night:
    """Adds up the batches of one run; memory grows with groups, and with rows only where they have labels.

    `seed`: draws the unflagged that are to be reviewed.
    """

    def __init__(self, model: Model, seed: int = 0):
        self.model = model
        self.unflagged = Unflagged(seed)
        self.task = Task.of(model.facts.task)
        self.n_scored = 0
        self.missing: Counter[str] = Counter()
        self.flags = Flags(model.contract.display)
        self.standing = Standing(model)
        self.flagged_by_class = np.zeros(len(self.task.watched), dtype=np.int64)
        voxels = bool(model.contract.coordinates)
        self.shown = VOXELS_SHOWN if voxels else CASES_SHOWN
        explained = VOXELS_SHOWN if voxels else CASES_EXPLAINED
        self.cases, self.near_misses = Top(explained), Top(NEAR_MISSES_SHOWN)
        self.groups: dict[str, list[float]] = defaultdict(lambda: [0, 0, -np.inf])
        self.group_display: dict[str, dict[str, str | None] | None] = {}
        self.grid = [
            np.asarray(model.facts.validation.curves[name].threshold, dtype=float)
            for name in self.task.watched
        ]
        self.counts = [np.zeros(len(grid), dtype=np.int64) for grid in self.grid]
        self.labelled: list[tuple[np.ndarray, ...]] = []
        self.strange_labels: list[str] = []

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.n_scored += batch.n_rows
        self.missing.update({name: int(absent(values).sum()) for name, values in batch.values.items()})
        flagged = np.flatnonzero(scored.flagged)
        self.flagged_by_class += (scored.excess >= 0).sum(axis=0)
        self.cases.add(batch, scored, flagged)
        self.near_misses.add(batch, scored, np.flatnonzero(~scored.flagged))
        self.flags.add(batch, scored)
        scores = scored.decisions[:, self.model.watched_columns]
        for grid, count, column in zip(self.grid, self.counts, scores.T, strict=True):
            ordered = np.sort(column)
            count += len(ordered) - np.searchsorted(ordered, grid, side="left")
        if batch.group is not None:
            self._add_groups(batch.group, scored, batch.display)
        else:
            self.standing.add(scored.score)
            self.unflagged.add(batch.id, scored.flagged)
        if batch.label is not None:
            remedy = "correct them, or score without --label"
            try:
                label = known_labels(self.model.facts, self.model.contract, batch, remedy)
            except CohortError as error:
                # Said at the end: what else is wrong with the table comes first.
                self.strange_labels += error.violations
            else:
                self._add_labels(label, batch.group, scored, scores)

    def _add_groups(self, group: np.ndarray, scored: Scored, display: Columns | None) -> None:
        names, first, place = np.unique(group, return_index=True, return_inverse=True)
        for name, row in zip(names, first, strict=True):
            self.group_display.setdefault(str(name), displayed(display, row))
        rows, flagged = np.bincount(place), np.bincount(place, weights=scored.flagged)
        top = np.full(len(names), -np.inf)
        np.maximum.at(top, place, scored.score)
        for name, n, n_flagged, highest in zip(names, rows, flagged, top, strict=True):
            entry = self.groups[str(name)]
            entry[0], entry[1], entry[2] = (
                entry[0] + int(n),
                entry[1] + int(n_flagged),
                max(entry[2], highest),
            )

    def _add_labels(
        self, label: np.ndarray, group: np.ndarray | None, scored: Scored, scores: np.ndarray
    ) -> None:
        told = np.flatnonzero(label != "")
        if not len(told):
            return
        group = np.full(len(label), "") if group is None else group
        multi = self.task.kind == "multi"
        predicted = self.model.predicted(scored.decisions) if multi else np.zeros(len(label), int)
        self.labelled.append((self.task.target(label[told]), scores[told], predicted[told], group[told]))

    def counted(self, refused: Mapping[str, int]) -> Counts:
        """Rows read, scored, refused and flagged."""
        return Counts(
            read=self.n_scored + sum(refused.values()),
            scored=self.n_scored,
            refused=sum(refused.values()),
            flagged=self.flags.n,
            flagged_by_class=dict(zip(self.task.watched, self.flagged_by_class.tolist(), strict=True)),
        )

    def features(self, gates: Gates | None) -> list[NightFeature]:
        """Every feature tonight beside training, as far as the gates know."""
        training = self.model.facts.training
        drift = gates.facts() if gates else {}
        return [
            NightFeature(
                name=feature.name,
                type=feature.type,
                unit=feature.unit,
                missing=self.missing[feature.name] / max(self.n_scored, 1),
                missing_training=training.missing[feature.name],
                **(vars(drift[feature.name]) if feature.name in drift else {}),
            )
            for feature in training.features
        ]

    def reaching(self) -> dict[str, ReachingCounts]:
        """How many rows reach each threshold, by watched class."""
        return {
            name: ReachingCounts(thresholds=grid.tolist(), counts=counts.tolist())
            for name, grid, counts in zip(self.task.watched, self.grid, self.counts, strict=True)
        }

    def listed(self) -> list[Case]:
        """The flagged as the page lists them, the highest score first: those explained, then the others."""
        explained = self.cases.listed(self.model)
        further = self.flags.first(self.shown).slice(len(explained))
        names = [name for name in further.column_names if name != "group" or self.groups]
        rows = Columns({name: further[name].to_numpy() for name in names}, further.num_rows)
        shown = {name: rows[f"display {k}"] for k, name in enumerate(self.flags.display)}
        cases = explained + cases_of(self.model, rows, Columns(shown, rows.n_rows) if shown else None)
        return [replace(case, rank=rank) for rank, case in enumerate(cases, start=1)]

    def scale(self) -> ScoreScale:
        """Scores of what is reviewed as one, beside those of past cases."""
        if self.groups:
            self.standing.add(np.array([top for *_, top in self.groups.values()]))
        return self.standing.facts()

    def not_flagged(self) -> Unflagged:
        """Those not flagged, and who is drawn from them."""
        if self.groups:
            names = sorted(self.groups)
            self.unflagged.add(np.array(names), np.array([self.groups[name][1] > 0 for name in names]))
        return self.unflagged

    def flagged_cases(self) -> tuple[str, ...]:
        """Ids of what is reviewed as one, the highest score first: flagged groups, or flagged rows."""
        if self.groups:
            hit = [name for name, (_, flagged, _top) in self.groups.items() if flagged]
            return tuple(sorted(hit, key=lambda name: (-self.groups[name][2], name)))
        return tuple(name for rows in self.flags.tables() for name in rows["id"].to_pylist())

    def listed_groups(self, said: DiscoveryFacts) -> list[GroupFacts] | None:
        """The patients that the page names, those flagged first; None where rows come alone."""
        if not self.groups:
            return None
        worst = sorted(self.groups.items(), key=lambda item: (not item[1][1], -item[1][2], item[0]))
        hit = sum(bool(entry[1]) for entry in self.groups.values())
        shown = worst[: min(max(hit, GROUPS_SHOWN), CASES_SHOWN)]
        known = self.model.calibration
        p = p_values(known, np.array([top for _, (_, _, top) in shown]))
        low, high = rarity_range(p, len(known))
        return [
            GroupFacts(
                group=name,
                rows=int(rows),
                flagged=int(flagged),
                top_score=float(top),
                display=self.group_display[name],
                p_value=float(p[i]),
                discovery=is_discovery(float(p[i]), said),
                p_low=float(low[i]),
                p_high=float(high[i]),
            )
            for i, (name, (rows, flagged, top)) in enumerate(shown)
        ]

    def evaluation(self) -> dict[str, Observed | Confusion | Sequence[PerClass]] | None:
        """How the flags of this cohort agree with its labels, where it has them.

        Raises CohortError: labels that training never met.
        """
        if self.strange_labels:
            raise CohortError(self.strange_labels)
        if not self.labelled:
            return None
        codes, scores, predicted, group = (
            np.concatenate(parts) for parts in zip(*self.labelled, strict=True)
        )
        together = group if self.groups else None
        facts: dict[str, Observed | Confusion | Sequence[PerClass]] = {
            name: performance(scores[:, m], codes == code, self.model.thresholds[m], together)
            for m, (name, code) in enumerate(zip(self.task.watched, self.task.watched_codes, strict=True))
        }
        if self.task.kind == "multi":
            facts["confusion"], facts["per_class"] = per_class(codes, predicted, self.task.classes)
        return facts


class Blocks:
    """Adds up what the blocks below the list of cases need; memory does not grow with unflagged rows."""

    def __init__(self, model: Model, geometries: Sequence[Geometry]):
        self.model = model
        self.drift = Drift(model)
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


SAMPLED = 5
"""How many of the unflagged are drawn for review each night, so that misses can be estimated."""


class Unflagged:
    """Draws from the unflagged rows, batch by batch, in bounded memory.

    `seed`: of the draw; the run's identity, so that the same night draws the same.
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
