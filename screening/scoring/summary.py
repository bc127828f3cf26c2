"""`run.json` of a night, from the sum of its parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.data.ids import id_shape
from screening.data.stream import CohortStream
from screening.errors import CohortError
from screening.metrics.calibration import p_values
from screening.metrics.performance import per_class, performance, prevalence_tonight
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
from screening.scoring.check_values import check_values_of, odd_channels
from screening.scoring.explaining import cases_of, displayed
from screening.scoring.part import (
    CASES_SHOWN,
    GROUP_COLUMNS,
    AuditDraw,
    BlockScorer,
    NightPart,
    audit_lots,
)
from screening.scoring.reference_distribution import (
    DiscoveryCounts,
    ScoreHistogram,
    is_discovery,
    rarity_range,
)
from screening.scoring.rows import Rows
from screening.store.serialization import versions

# Of the patients who are not flagged the page names as many as there is room for beside the others.
GROUPS_SHOWN = 200


class Summary:
    """What a night comes to, by the sum of its parts.

    Parameters
    ----------
    scorer : BlockScorer
    part : NightPart
        Of all rows.
    """

    def __init__(self, scorer: BlockScorer, part: NightPart):
        self.scorer, self.part = scorer, part
        self.model, self.task = scorer.model, scorer.task
        self.histogram = ScoreHistogram(self.model)
        self.histogram.tonight += part.histogram

    @cached_property
    def groups(self) -> pa.Table | None:
        """What `GROUP_COLUMNS` says of each group, by its name; None where rows come alone."""
        if not self.part.groups:
            return None
        sums = [("rows", "sum"), ("flagged", "sum"), ("top", "max")]
        counted = pa.concat_tables(self.part.groups).group_by("group").aggregate(sums)
        return counted.rename_columns(GROUP_COLUMNS).sort_by("group")

    def flagged_cases(self, rows: Rows) -> Iterator[str]:
        """Ids of what is reviewed as one, each once: flagged groups, or flagged rows."""
        if self.groups is not None:
            yield from self.groups.filter(pc.greater(self.groups["flagged"], 0))[
                "group"
            ].to_pylist()
            return
        for batch in rows.flagged(["id"]):
            yield from batch["id"].to_pylist()

    def id_shape(self) -> IdShape | None:
        """How the table's ids are written; None where the contract names none."""
        return id_shape(np.concatenate(self.part.ids)) if self.part.ids else None

    def document(
        self, stream: CohortStream, rows: Rows, run_id: str, started: str
    ) -> RunDocument:
        """What the rows tell of the night; why it wants attention is not judged yet.

        Raises CohortError: labels that training never met.
        """
        model, part, groups = self.model, self.part, self.groups
        refused = sum(stream.refused.values())
        discoveries, points = self._discoveries(), model.facts.operating_points
        cases = self._listed(discoveries)
        drift = stream.gates.facts() if stream.gates else {}
        days = [str(day.astype("datetime64[D]")) for day in part.days]
        read = part.n_scored + refused
        missing = dict(zip(model.contract.features, part.missing.tolist(), strict=True))
        return RunDocument(
            format_version=FORMAT_VERSION,
            run_id=run_id,
            date=self.scorer.night,
            model=RunModel.from_dict(
                {"id": model.id, "digest": model.digest} | model.sealed
            ),
            input=InputFacts.from_dict(
                stream.source.to_dict() | {"notes": list(stream.notes)}
            ),
            versions=versions(),
            counts=Counts(
                read=read,
                scored=self.part.n_scored,
                refused=refused,
                flagged=self.part.n_flagged,
                flagged_by_class=dict(
                    zip(self.task.watched, part.by_class.tolist(), strict=True)
                ),
                out_of_bounds=part.odd_rows.n_rows,
            ),
            refused=dict(stream.refused),
            evaluation=self._evaluation(),
            # Every feature tonight beside training, as far as the gates know.
            data=[
                NightFeature(
                    name=feature.name,
                    type=feature.type,
                    unit=feature.unit,
                    missing=missing[feature.name] / max(part.n_scored, 1),
                    missing_training=model.facts.training.missing[feature.name],
                    **(vars(drift[feature.name]) if feature.name in drift else {}),
                )
                for feature in model.facts.training.features
            ],
            groups=self._listed_groups(discoveries),
            score_counts=self._score_counts(),
            cases=cases,
            cases_total=self.part.n_flagged,
            cases_shown=len(cases),
            cases_explained=sum(case.contributions is not None for case in cases),
            near_misses=part.near_misses.explained(model),
            scale=self.histogram.facts(),
            attention=(),
            check_values=check_values_of(
                part.odd_rows,
                odd_channels(part.channels, model.facts.training.profile),
            ),
            delivery=Delivery(
                rows=read,
                units=read if groups is None else discoveries.n_screened,
                oldest=min(days, default=None),
                newest=max(days, default=None),
            ),
            sample=self._sample(),
            unflagged=Unflagged(cases=discoveries.n_screened - discoveries.flagged),
            discoveries=discoveries,
            groups_total=None if groups is None else discoveries.n_screened,
            groups_flagged=None if groups is None else discoveries.flagged,
            drift=self.scorer.drift.counts(part.drift),
            subgroups=part.subgroups.facts(),
            prevalence_estimate=prevalence_tonight(
                self.part.n_flagged, self.part.n_scored, points[0]
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

    def _score_counts(self) -> dict[str, ReachingCounts]:
        """How many rows reach each threshold of the validation curves, by class."""
        grids = self.scorer.grids
        ends = np.cumsum([len(thresholds) for thresholds in grids])[:-1]
        counts = np.split(self.part.reaching, ends)
        return {
            name: ReachingCounts(thresholds=grid.tolist(), counts=reaching.tolist())
            for name, grid, reaching in zip(
                self.task.watched, grids, counts, strict=True
            )
        }

    def _discoveries(self) -> Discoveries:
        """What remains rare among so many; where rows come in groups, these are counted here, each once."""
        counts = DiscoveryCounts(self.model.calibration)
        if self.groups is None:
            counts.counts += self.part.discoveries
            return counts.facts("row", self.part.n_flagged)
        tops = self.groups["top"].to_numpy()
        self.histogram.add(tops)
        counts.add(p_values(self.model.calibration, tops))
        flagged = self.groups["flagged"].to_numpy() > 0
        return counts.facts("group", int(np.count_nonzero(flagged)))

    def _sample(self) -> list[Sampled]:
        """Rows, or groups, drawn from those not flagged for the random audit."""
        draw = self.part.drawn
        if self.groups is None:
            return [sampled for _, sampled in draw.drawn]
        is_flagged = pc.greater(self.groups["flagged"], 0)
        names = self.groups["group"].filter(pc.invert(is_flagged))
        lots = audit_lots(self.model, self.scorer.night, 0, len(names))
        drawn = [sampled for _, sampled in AuditDraw.of(lots, names, {}).drawn]
        display = self._display([sampled.id for sampled in drawn])
        return [sampled.replace(display=display.get(sampled.id)) for sampled in drawn]

    def _listed(self, discoveries: Discoveries) -> list[Case]:
        """The flagged as the page lists them, the highest score first: those explained, then the others."""
        cases = self.part.cases.explained(self.model)
        cases += cases_of(self.model, self.part.listed.rows.slice(len(cases)))
        cases = [case.replace(rank=rank) for rank, case in enumerate(cases, start=1)]
        if self.groups is not None:
            return cases
        return [
            case.replace(discovery=is_discovery(case.p_value.ends[0], discoveries))
            for case in cases
        ]

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
        names = [row["group"] for row in listed]
        display, by_class = self._display(names), self._flagged_by_class(names)
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
        """Flagged rows by group and class, the class with most of them first."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for table in self.part.classes:
            is_named = pc.is_in(table["group"], pa.array(groups, pa.string()))
            for row in table.filter(is_named).to_pylist():
                counts[row["group"]][row["class"]] += row["rows"]
        return {name: dict(classes.most_common()) for name, classes in counts.items()}

    def _display(self, groups: list[str]) -> dict[str, dict[str, str | None] | None]:
        """What the contract wants shown beside each of some groups, from its first row."""
        display: dict[str, dict[str, str | None] | None] = {}
        for first in self.part.first_rows:
            for row in first.filter(
                pc.is_in(first["group"], pa.array(groups, pa.string()))
            ).to_pylist():
                display.setdefault(row["group"], displayed(row))
        return display

    def _evaluation(
        self,
    ) -> dict[str, Observed | Confusion | Sequence[PerClass]] | None:
        """How the flags of this cohort agree with its labels, where it has them."""
        if self.part.strange_labels:
            raise CohortError(self.part.strange_labels)
        if not any(len(labels) for labels, *_ in self.part.labelled):
            return None
        label, watched, group, *predicted = map(
            np.concatenate, zip(*self.part.labelled, strict=True)
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
