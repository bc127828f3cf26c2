"""`run.json` of a night: counted while its rows are scored, with the values of those that a page lists."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.data.cohort import Cohort
from screening.data.ids import id_shape
from screening.data.stream import CohortStream
from screening.errors import CohortError
from screening.io.columns import absent
from screening.metrics.calibration import p_values
from screening.metrics.performance import per_class, performance, prevalence_tonight
from screening.metrics.subgroups import SubgroupCounts
from screening.model_selection.task import Task, known_labels
from screening.registry import optional
from screening.schemas.base import FORMAT_VERSION, Estimate
from screening.schemas.figures import Observed
from screening.schemas.model import IdShape
from screening.schemas.run import (
    Case,
    Counts,
    Delivery,
    Discoveries,
    GroupFacts,
    InputFacts,
    NightFeature,
    ReachingCounts,
    RunDocument,
    RunModel,
    Sampled,
    Times,
    Unflagged,
)
from screening.schemas.validation import Confusion, PerClass
from screening.scoring.explaining import Top, cases_of, displayed
from screening.scoring.reference_distribution import (
    DiscoveryCounts,
    ScoreDrift,
    ScoreHistogram,
    is_discovery,
    rarity_range,
)
from screening.scoring.rows import Rows
from screening.store.model import DISPLAY, Model, Scored
from screening.store.serialization import versions

CASES_EXPLAINED = 100
# The others come as one line each; a page of more than this nobody reads.
CASES_SHOWN = 5000
# Of a voxel run the page names patients first; single voxels are examples.
VOXELS_SHOWN = 40
NEAR_MISSES_SHOWN = 20
# Of the patients who are not flagged the page names as many as there is room for beside the others.
GROUPS_SHOWN = 200
GROUP_COLUMNS = ["group", "rows", "flagged", "top"]
SAMPLED = 5
"""How many of the unflagged are drawn for review each night, so that misses can be estimated."""
SHAPED = 100_000
"""Rows whose ids tell how ids are written."""


class Summary:
    """Counts a night's rows batch by batch, keeps those that a page lists, and tells what they come to.

    Memory grows with groups, and with rows only where they have labels.
    """

    def __init__(self, model: Model, night: str):
        self.model, self.night, contract, validation = (
            model,
            night,
            model.contract,
            model.facts.validation,
        )
        self.task = Task.of(model.facts.task)
        self.shown = VOXELS_SHOWN if contract.coordinates else CASES_SHOWN
        self.cases = Top(VOXELS_SHOWN if contract.coordinates else CASES_EXPLAINED)
        self.near_misses = Top(NEAR_MISSES_SHOWN)
        self.n_scored = self.n_flagged = 0
        self.by_class = np.zeros(len(model.watched), dtype=np.int64)
        self.grid = [
            np.asarray(validation.curves[name].threshold, float)
            for name in self.task.watched
        ]
        self.reaching = [
            np.zeros(len(thresholds), dtype=np.int64) for thresholds in self.grid
        ]
        self.missing: Counter[str] = Counter()
        self.histogram, self.discoveries = (
            ScoreHistogram(model),
            DiscoveryCounts(model.calibration),
        )
        self.drift = ScoreDrift(model)
        # The levels are those of the first class; all classes are validated on the same rows.
        self.subgroups = SubgroupCounts(next(iter(validation.subgroups.values()), []))
        self.classes: dict[str, Counter[str]] = defaultdict(
            Counter
        )  # Flagged rows of each group.
        # Of every batch: its groups, the first row of each, and what there is of labelled rows.
        self.counted: list[pa.Table] = []
        self.first_rows: list[pa.Table] = []
        self.labelled: list[tuple[np.ndarray, ...]] = []
        self.strange_labels: list[str] = []
        # Of the table as a whole: the first and last day of each batch, and its first ids.
        self.days: list[np.datetime64] = []
        self.ids: list[np.ndarray] = []
        # The same night draws the same rows for the random audit, however they come in batches.
        seed = hashlib.sha256(f"{model.digest} {night}".encode()).hexdigest()
        self.rng, self.drawn = (
            np.random.default_rng(int(seed[:16], 16)),
            list[tuple[float, Sampled]](),
        )

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        model, rows = self.model, scored.rows
        flagged, watched = (
            rows["flagged"].to_numpy(),
            scored.decisions[:, model.watched_columns],
        )
        self.n_scored += batch.n_rows
        self.n_flagged += int(np.count_nonzero(flagged))
        self.by_class += (watched >= model.thresholds).sum(axis=0)
        for thresholds, count, column in zip(
            self.grid, self.reaching, watched.T, strict=True
        ):
            count += batch.n_rows - np.searchsorted(
                np.sort(column), thresholds, side="left"
            )
        self.missing.update(
            {name: int(absent(values).sum()) for name, values in batch.values.items()}
        )
        self.cases.add(batch, rows, np.flatnonzero(flagged))
        self.near_misses.add(batch, rows, np.flatnonzero(~flagged))
        self.drift.add(batch, scored.encoded)
        if batch.subgroups is not None:
            self.subgroups.add(batch.subgroups, flagged, batch.group)
        if batch.group is None:
            self.histogram.add(rows["score"].to_numpy())
            self.discoveries.add(rows["p_value"].to_numpy())
            self._draw(rows["id"], flagged, batch.display or {})
        else:
            sums = [("score", "count"), ("flagged", "sum"), ("score", "max")]
            self.counted.append(
                rows.group_by("group").aggregate(sums).rename_columns(GROUP_COLUMNS)
            )
            hit = rows.filter(rows["flagged"])
            for row in (
                hit.group_by(["group", "class"])
                .aggregate([([], "count_all")])
                .to_pylist()
            ):
                self.classes[row["group"]][row["class"]] += row["count_all"]
            if batch.display is not None:
                first = np.unique(batch.group, return_index=True)[1]
                display = {
                    DISPLAY + name: batch.display[name][first] for name in batch.display
                }
                self.first_rows.append(
                    pa.table({"group": batch.group[first]} | display)
                )
        if batch.label is not None:
            self._label(batch, scored, watched)
        if batch.time is not None and batch.n_rows:
            self.days += [batch.time.min(), batch.time.max()]
        named = batch.contract.id and not batch.contract.coordinates
        if named and sum(map(len, self.ids)) < SHAPED:
            self.ids.append(batch.id)

    def _label(self, batch: Cohort, scored: Scored, watched: np.ndarray) -> None:
        remedy = "correct them, or score without --label"
        try:
            labels = known_labels(self.model.facts, self.model.contract, batch, remedy)
        except CohortError as error:
            # Said at the end: what else is wrong with the table comes first.
            self.strange_labels += error.violations
            return
        of_rows = [
            labels,
            watched,
            np.zeros(batch.n_rows) if batch.group is None else batch.group,
        ]
        if self.task.kind == "multi":
            of_rows.append(self.model.predicted(scored.decisions))
        self.labelled.append(tuple(values[labels != ""] for values in of_rows))

    @cached_property
    def groups(self) -> pa.Table | None:
        """What `GROUP_COLUMNS` says of each group, by its name; None where rows come alone."""
        if not self.counted:
            return None
        sums = [("rows", "sum"), ("flagged", "sum"), ("top", "max")]
        counted = pa.concat_tables(self.counted).group_by("group").aggregate(sums)
        return counted.rename_columns(GROUP_COLUMNS).sort_by("group")

    def flagged_cases(self, rows: Rows) -> Iterator[str]:
        """Ids of what is reviewed as one, each once: flagged groups, or flagged rows."""
        if self.groups is not None:
            yield from self.groups.filter(pc.greater(self.groups["flagged"], 0))[
                "group"
            ].to_pylist()
            return
        for batch in rows.batches(["id", "flagged"]):
            yield from batch["id"].filter(batch["flagged"]).to_pylist()

    def id_shape(self) -> IdShape | None:
        """How the table's ids are written; None where the contract names none."""
        return id_shape(np.concatenate(self.ids)) if self.ids else None

    def document(
        self, stream: CohortStream, rows: Rows, run_id: str, started: str
    ) -> RunDocument:
        """What the rows tell of the night; why it wants attention is not judged yet.

        Raises CohortError: labels that training never met.
        """
        model, groups, refused = self.model, self.groups, sum(stream.refused.values())
        discoveries, points = self._discoveries(), model.facts.operating_points
        sample = [sampled for _, sampled in self.drawn]
        if groups is not None:
            display = self._display([sampled.id for sampled in sample])
            sample = [
                sampled.replace(display=display.get(sampled.id)) for sampled in sample
            ]
        cases = self._listed(rows, discoveries)
        drift = stream.gates.facts() if stream.gates else {}
        days, read = (
            [str(day.astype("datetime64[D]")) for day in self.days],
            self.n_scored + refused,
        )
        return RunDocument(
            format_version=FORMAT_VERSION,
            run_id=run_id,
            date=self.night,
            model=RunModel.from_dict(
                {"id": model.id, "digest": model.digest} | model.sealed
            ),
            input=InputFacts.from_dict(
                stream.source.to_dict() | {"notes": list(stream.notes)}
            ),
            versions=versions(),
            counts=Counts(
                read=read,
                scored=self.n_scored,
                refused=refused,
                flagged=self.n_flagged,
                flagged_by_class=dict(
                    zip(self.task.watched, self.by_class.tolist(), strict=True)
                ),
            ),
            refused=dict(stream.refused),
            evaluation=self._evaluation(),
            # Every feature tonight beside training, as far as the gates know.
            data=[
                NightFeature(
                    name=feature.name,
                    type=feature.type,
                    unit=feature.unit,
                    missing=self.missing[feature.name] / max(self.n_scored, 1),
                    missing_training=model.facts.training.missing[feature.name],
                    **(vars(drift[feature.name]) if feature.name in drift else {}),
                )
                for feature in model.facts.training.features
            ],
            groups=self._listed_groups(discoveries),
            score_counts={
                name: ReachingCounts(
                    thresholds=thresholds.tolist(), counts=count.tolist()
                )
                for name, thresholds, count in zip(
                    self.task.watched, self.grid, self.reaching, strict=True
                )
            },
            cases=cases,
            cases_total=self.n_flagged,
            cases_shown=len(cases),
            cases_explained=sum(case.contributions is not None for case in cases),
            near_misses=self.near_misses.explained(model),
            scale=self.histogram.facts(),
            attention=(),
            delivery=Delivery(
                rows=read,
                units=read if groups is None else discoveries.n_screened,
                oldest=min(days, default=None),
                newest=max(days, default=None),
            ),
            sample=sample,
            unflagged=Unflagged(cases=discoveries.n_screened - discoveries.flagged),
            discoveries=discoveries,
            groups_total=None if groups is None else discoveries.n_screened,
            groups_flagged=None if groups is None else discoveries.flagged,
            drift=self.drift.counts(stream.n_rows),
            subgroups=self.subgroups.facts(),
            prevalence_estimate=prevalence_tonight(
                self.n_flagged, self.n_scored, points[0]
            )
            if groups is None and len(points) == 1
            else None,
            voxels=optional("voxels").pictured(
                model.contract, model.watched, rows, stream.source.geometries
            )
            if model.contract.coordinates
            else None,
            geometries=tuple(stream.source.geometries),
            times=Times(started=started, seconds=0.0),
            sha256="",
        )

    def _discoveries(self) -> Discoveries:
        """What remains rare among so many; where rows come in groups, these are counted here, each once."""
        if self.groups is None:
            return self.discoveries.facts("row", self.n_flagged)
        tops, flagged = (
            self.groups["top"].to_numpy(),
            self.groups["flagged"].to_numpy() > 0,
        )
        self.histogram.add(tops)
        self.discoveries.add(p_values(self.model.calibration, tops))
        self._draw(
            self.groups["group"].filter(pa.array(~flagged)),
            np.zeros((~flagged).sum(), bool),
            {},
        )
        return self.discoveries.facts("group", int(np.count_nonzero(flagged)))

    def _listed(self, rows: Rows, discoveries: Discoveries) -> list[Case]:
        """The flagged as the page lists them, the highest score first: those explained, then the others."""
        cases = self.cases.explained(self.model)
        if len(cases) < min(self.n_flagged, self.shown):
            cases += cases_of(
                self.model, rows.first(rows.schema.names, self.shown).slice(len(cases))
            )
        cases = [case.replace(rank=rank) for rank, case in enumerate(cases, start=1)]
        if self.groups is not None:
            return cases
        return [
            case.replace(discovery=is_discovery(case.p_value.ends[0], discoveries))
            for case in cases
        ]

    def _draw(
        self,
        names: pa.ChunkedArray,
        flagged: np.ndarray,
        display: Mapping[str, np.ndarray],
    ) -> None:
        """Draw some of those not flagged, with what the contract wants shown beside each."""
        lots = np.where(flagged, np.inf, self.rng.random(len(names)))
        lowest = np.flatnonzero(
            lots < (self.drawn[-1][0] if len(self.drawn) == SAMPLED else 1.0)
        )
        for i in lowest[np.argsort(lots[lowest])[:SAMPLED]]:
            beside = {name: texts[i] for name, texts in display.items()} or None
            self.drawn.append(
                (float(lots[i]), Sampled(id=names[i].as_py(), display=beside))
            )
        self.drawn = sorted(self.drawn, key=lambda drawn: drawn[0])[:SAMPLED]

    def _listed_groups(self, discoveries: Discoveries) -> list[GroupFacts] | None:
        """The patients that the page names, those flagged first; None where rows come alone."""
        if self.groups is None:
            return None
        worst = sorted(
            self.groups.to_pylist(),
            key=lambda row: (not row["flagged"], -row["top"], row["group"]),
        )
        listed = worst[: min(max(discoveries.flagged, GROUPS_SHOWN), CASES_SHOWN)]
        p = p_values(self.model.calibration, np.array([row["top"] for row in listed]))
        low, high = rarity_range(p, len(self.model.calibration))
        display = self._display([row["group"] for row in listed])
        return [
            GroupFacts(
                group=row["group"],
                rows=row["rows"],
                flagged=row["flagged"],
                by_class=dict(self.classes[row["group"]].most_common()),
                top_score=row["top"],
                display=display.get(row["group"]),
                p_value=Estimate(p[i], low[i], high[i]),
                discovery=is_discovery(p[i], discoveries),
            )
            for i, row in enumerate(listed)
        ]

    def _display(self, groups: list[str]) -> dict[str, dict[str, str | None] | None]:
        """What the contract wants shown beside each of some groups, from its first row."""
        display: dict[str, dict[str, str | None] | None] = {}
        for first in self.first_rows:
            for row in first.filter(
                pc.is_in(first["group"], pa.array(groups, pa.string()))
            ).to_pylist():
                display.setdefault(row["group"], displayed(row))
        return display

    def _evaluation(
        self,
    ) -> dict[str, Observed | Confusion | Sequence[PerClass]] | None:
        """How the flags of this cohort agree with its labels, where it has them."""
        if self.strange_labels:
            raise CohortError(self.strange_labels)
        if not any(len(labels) for labels, *_ in self.labelled):
            return None
        label, watched, group, *predicted = map(
            np.concatenate, zip(*self.labelled, strict=True)
        )
        codes = self.task.target(label)
        together = None if self.groups is None else group
        facts: dict[str, Observed | Confusion | Sequence[PerClass]] = {
            name: performance(scores, codes == code, threshold, together)
            for name, code, scores, threshold in zip(
                self.task.watched,
                self.task.watched_codes,
                watched.T,
                self.model.thresholds,
                strict=True,
            )
        }
        if predicted:
            facts["confusion"], facts["per_class"] = per_class(
                codes, predicted[0], self.task.classes
            )
        return facts
