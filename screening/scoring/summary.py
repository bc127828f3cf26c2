"""Make the document of a night, `run.json`, from its totals."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.clock.conversion import local_times, text_of
from screening.clock.night import hour_of_night
from screening.clock.zone import Clock
from screening.data.stream import CohortStream
from screening.data.unused_rows import UnusedCells
from screening.errors import CohortError
from screening.metrics.calibration import p_values
from screening.metrics.chances import chance_at_threshold
from screening.metrics.performance import per_class, performance, prevalence_tonight
from screening.monitoring.drift import Gates
from screening.registry import optional
from screening.schemas.base import FORMAT_VERSION, Estimate
from screening.schemas.figures import Observed
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
from screening.scoring.alike_rows import alike_rows
from screening.scoring.check_values import check_values_of, odd_channels
from screening.scoring.expected import curve_of, expected_cases
from screening.scoring.explaining import cases_of, displayed_texts
from screening.scoring.night_totals import (
    CASES_SHOWN,
    GROUP_COLUMNS,
    AuditDraw,
    BlockScorer,
    NightTotals,
    audit_keys,
)
from screening.scoring.reference_distribution import (
    DiscoveryCounts,
    ScoreHistogram,
    is_discovery,
    rarity_range,
)
from screening.scoring.rows import Rows
from screening.store.serialization import versions

# Patients that the page names at least, if so many were scored.
GROUPS_SHOWN = 200


class Summary:
    """Turns the totals of a night into its document.

    Parameters
    ----------
    scorer : BlockScorer
    totals : NightTotals
        Of all rows.
    """

    def __init__(self, scorer: BlockScorer, totals: NightTotals):
        self.scorer = scorer
        self.totals = totals
        self.model = scorer.model
        self.task = scorer.task
        self.histogram = ScoreHistogram(self.model)
        self.histogram.tonight += totals.histogram

    @cached_property
    def groups(self) -> pa.Table | None:
        """`GROUP_COLUMNS` of each group, by name; None if rows come alone."""
        if not self.totals.groups:
            return None
        sums = [("rows", "sum"), ("flagged", "sum"), ("top", "max")]
        counted = pa.concat_tables(self.totals.groups).group_by("group").aggregate(sums)
        return counted.rename_columns(GROUP_COLUMNS).sort_by("group")

    def flagged_cases(self, rows: Rows) -> Iterator[str]:
        """Yield the ids of flagged groups, or rows: each is reviewed as one."""
        if self.groups is not None:
            is_flagged = pc.greater(self.groups["flagged"], 0)
            yield from self.groups.filter(is_flagged)["group"].to_pylist()
            return
        for batch in rows.flagged(["id"]):
            yield from batch["id"].to_pylist()

    def first_ids(self) -> np.ndarray | None:
        """Return ids that show how they are written; None without, or for voxels."""
        return np.concatenate(self.totals.ids) if self.totals.ids else None

    def document(
        self,
        stream: CohortStream,
        rows: Rows,
        gates: Gates | None,
        unused: UnusedCells,
        *,
        run_id: str,
        started: str,
    ) -> RunDocument:
        """Return the night's document; `score` adds attention, seconds and digests.

        Raises
        ------
        CohortError
            If a label did not occur in training.
        """
        model = self.model
        totals = self.totals
        discoveries = self._discoveries()
        cases = self._listed(discoveries)
        n_refused = sum(stream.refused.values())
        n_read = totals.n_scored + n_refused
        n_units = n_read
        n_groups = None
        n_groups_flagged = None
        if self.groups is not None:
            n_units = discoveries.n_screened
            n_groups = discoveries.n_screened
            n_groups_flagged = discoveries.flagged
        clock = self.scorer.reader.row_typer.clock
        times = local_times(np.array(totals.days, "datetime64[us]"), clock)
        days = [str(day) for day in times.astype("datetime64[D]")]
        night_hour = hour_of_night(
            self.scorer.date,
            clock,
            self.scorer.reader.row_typer.contract.hour,
            totals.taken,
            stream.source.written_at,
        )
        by_class = zip(self.task.watched, totals.by_class.tolist(), strict=True)
        channels = odd_channels(totals.channels, model.facts.training.profile)
        facts_of_model = {"id": model.id, "digest": model.digest} | model.sealed
        facts_of_input = stream.source.to_dict() | {"notes": list(stream.notes)}
        voxels = None
        if model.contract.coordinates:
            voxels = optional("voxels").pictured(
                model.contract, model.watched, rows, stream.source.geometries
            )
        return RunDocument(
            format_version=FORMAT_VERSION,
            run_id=run_id,
            date=self.scorer.date,
            model=RunModel.from_dict(facts_of_model),
            input=InputFacts.from_dict(facts_of_input),
            versions=versions(),
            counts=Counts(
                read=n_read,
                scored=totals.n_scored,
                refused=n_refused,
                flagged=totals.n_flagged,
                flagged_by_class=dict(by_class),
                out_of_bounds=totals.odd_rows.n_rows,
            ),
            refused=dict(stream.refused),
            evaluation=self._evaluation(),
            data=self._features(gates),
            groups=self._listed_groups(discoveries),
            score_counts=self._score_counts(),
            cases=cases,
            cases_total=totals.n_flagged,
            cases_shown=len(cases),
            cases_explained=sum(case.contributions is not None for case in cases),
            near_misses=totals.near_misses.explained(model),
            scale=self.histogram.facts(),
            attention=(),
            check_values=check_values_of(
                totals.odd_rows,
                channels,
                unused,
                model.bounds,
                alike_rows(totals.contents, model.contract.group is not None),
            ),
            delivery=Delivery(
                rows=n_read,
                units=n_units,
                oldest=min(days, default=None),
                newest=max(days, default=None),
                newest_at=_clock_time(times),
                ends_in_newline=stream.source.ends_in_newline,
            ),
            sample=self._sample(),
            unflagged=Unflagged(cases=discoveries.n_screened - discoveries.flagged),
            discoveries=discoveries,
            groups_total=n_groups,
            groups_flagged=n_groups_flagged,
            drift=self.scorer.drift.counts(totals.drift),
            subgroups=totals.subgroups.facts(),
            prevalence_estimate=self._prevalence(),
            expected=expected_cases(curve_of(model), totals.expected),
            voxels=voxels,
            geometries=tuple(stream.source.geometries),
            times=Times(
                started=started,
                seconds=0.0,
                table_written=_minute(stream.source.written_at, clock),
                taken_at=text_of(night_hour.at, clock),
                taken_from=night_hour.taken_from,
                time_zone=clock.name,
                is_zone_of_host=clock.is_of_host,
            ),
            sha256="",
        )

    def _features(self, gates: Gates | None) -> list[NightFeature]:
        """Return each feature's missing values, and its drift if gates counted it."""
        training = self.model.facts.training
        drift = {} if gates is None else gates.facts()
        missing = dict(
            zip(self.model.contract.features, self.totals.missing.tolist(), strict=True)
        )
        features = []
        for feature in training.features:
            facts = {}
            if feature.name in drift:
                facts = vars(drift[feature.name])
            night_feature = NightFeature(
                name=feature.name,
                type=feature.type,
                unit=feature.unit,
                missing=missing[feature.name] / max(self.totals.n_scored, 1),
                missing_training=training.missing[feature.name],
                **facts,
            )
            features.append(night_feature)
        return features

    def _prevalence(self) -> Estimate | None:
        """Estimate tonight's prevalence, of rows that come alone and of one class."""
        points = self.model.facts.operating_points
        if self.groups is not None or len(points) != 1:
            return None
        return prevalence_tonight(
            self.totals.n_flagged, self.totals.n_scored, points[0]
        )

    def _score_counts(self) -> dict[str, ReachingCounts]:
        """Count the rows that reach each threshold of the curves, by class."""
        grids = self.scorer.grids
        boundaries = np.cumsum([len(thresholds) for thresholds in grids])[:-1]
        counts = np.split(self.totals.reaching, boundaries)
        return {
            name: ReachingCounts(thresholds=grid.tolist(), counts=reaching.tolist())
            for name, grid, reaching in zip(
                self.task.watched, grids, counts, strict=True
            )
        }

    def _discoveries(self) -> Discoveries:
        """Return the discoveries at a false discovery rate; each group counts once.

        Also adds the groups' scores to `histogram`: call it once, before its facts.
        """
        counts = DiscoveryCounts(self.model.calibration)
        if self.groups is None:
            counts.counts += self.totals.discoveries
            return counts.facts("row", self.totals.n_flagged)
        tops = self.groups["top"].to_numpy()
        self.histogram.add(tops)
        counts.add(p_values(self.model.calibration, tops))
        flagged = self.groups["flagged"].to_numpy() > 0
        return counts.facts("group", int(np.count_nonzero(flagged)))

    def _sample(self) -> list[Sampled]:
        """Draw unflagged rows, or groups, for the random audit."""
        draw = self.totals.drawn
        if self.groups is None:
            return [sampled for _, sampled in draw.drawn]
        is_flagged = pc.greater(self.groups["flagged"], 0)
        names = self.groups["group"].filter(pc.invert(is_flagged))
        keys = audit_keys(self.model, self.scorer.date, 0, len(names))
        drawn = [sampled for _, sampled in AuditDraw.of(keys, names, {}).drawn]
        display = self._display([sampled.id for sampled in drawn])
        return [sampled.replace(display=display.get(sampled.id)) for sampled in drawn]

    def _listed(self, discoveries: Discoveries) -> list[Case]:
        """Return the flagged as the page lists them, the highest score first.

        The first of them have reasons.
        """
        cases = self.totals.cases.explained(self.model)
        cases += cases_of(self.model, self.totals.listed.rows.slice(len(cases)))
        ranked = []
        for rank, case in enumerate(cases, start=1):
            found: dict[str, object] = {"rank": rank}
            if self.groups is None:
                p_value = case.p_value.value_and_interval[0]
                found["discovery"] = is_discovery(p_value, discoveries)
            ranked.append(case.replace(**found))
        return ranked

    def _listed_groups(self, discoveries: Discoveries) -> list[GroupFacts] | None:
        """Return the patients that the page names, those flagged first."""
        if self.groups is None:
            return None
        worst = sorted(
            self.groups.to_pylist(),
            key=lambda row: (not row["flagged"], -row["top"], row["group"]),
        )
        listed = worst[: min(max(discoveries.flagged, GROUPS_SHOWN), CASES_SHOWN)]
        p = p_values(self.model.calibration, np.array([row["top"] for row in listed]))
        low, high = rarity_range(p, len(self.model.calibration))
        names = [row["group"] for row in listed]
        display = self._display(names)
        by_class = self._flagged_by_class(names)
        return [
            GroupFacts(
                group=row["group"],
                rows=row["rows"],
                flagged=row["flagged"],
                by_class=by_class.get(row["group"], {}),
                top_score=row["top"],
                display=display.get(row["group"]),
                p_value=Estimate(p[i], low[i], high[i]),
                discovery=is_discovery(p[i], discoveries),
            )
            for i, row in enumerate(listed)
        ]

    def _flagged_by_class(self, groups: list[str]) -> dict[str, dict[str, int]]:
        """Return flagged rows by group and class, the class with most of them first."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for table in self.totals.classes:
            is_named = pc.is_in(table["group"], pa.array(groups, pa.string()))
            for row in table.filter(is_named).to_pylist():
                counts[row["group"]][row["class"]] += row["rows"]
        return {name: dict(classes.most_common()) for name, classes in counts.items()}

    def _display(self, groups: list[str]) -> dict[str, dict[str, str | None] | None]:
        """Return the texts to show beside each of some groups, from its first row."""
        display: dict[str, dict[str, str | None] | None] = {}
        names = pa.array(groups, pa.string())
        for table in self.totals.first_rows:
            for row in table.filter(pc.is_in(table["group"], names)).to_pylist():
                display.setdefault(row["group"], displayed_texts(row))
        return display

    def _evaluation(
        self,
    ) -> dict[str, Observed | Confusion | Sequence[PerClass]] | None:
        """Compare the flags with the labels of this cohort; None if it has none."""
        if self.totals.strange_labels:
            raise CohortError(self.totals.strange_labels)
        if not any(len(labels) for labels, *_ in self.totals.labelled):
            return None
        columns = zip(*self.totals.labelled, strict=True)
        label, watched, group, *predicted = map(np.concatenate, columns)
        codes = self.task.target(label)
        groups = None if self.groups is None else group
        facts: dict[str, Observed | Confusion | Sequence[PerClass]] = {}
        for number, name in enumerate(self.task.watched):
            is_positive = codes == self.task.watched_codes[number]
            threshold = self.model.thresholds[number]
            chance = chance_at_threshold(
                self.model.facts.validation.calibration.get(name), threshold
            )
            scores = watched[:, number]
            facts[name] = performance(scores, is_positive, threshold, groups, chance)
        if predicted:
            confusion, by_class = per_class(codes, predicted[0], self.task.classes)
            facts["confusion"] = confusion
            facts["per_class"] = by_class
        return facts


def _minute(time: datetime.datetime | None, clock: Clock) -> str | None:
    """Return a day, hour and minute by a clock as text."""
    if time is None:
        return None
    return time.astimezone(clock.zone).strftime("%Y-%m-%d, %H:%M")


def _clock_time(times: np.ndarray) -> str | None:
    """Return hour and minute of the newest time; None where times are days."""
    if not len(times):
        return None
    minute = str(max(times).astype("datetime64[m]"))[-5:]
    return None if minute == "00:00" else minute
