"""`run.json` of a night: a summary of its rows, and of the little that the pass keeps beside them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from screening.cohort.cohort import Cohort
from screening.cohort.ids import said_of_ids
from screening.cohort.stream import CohortStream
from screening.documents.base import FORMAT_VERSION, Estimate
from screening.documents.drift import reason
from screening.documents.figures import Observed
from screening.documents.model import SourceFacts
from screening.documents.run import (
    Case,
    Counts,
    GroupFacts,
    InputFacts,
    NightFeature,
    ReachingCounts,
    RunDocument,
    RunModel,
    Times,
    Unflagged,
)
from screening.documents.run import Discoveries as DiscoveryFacts
from screening.documents.validation import Confusion, PerClass
from screening.errors import CohortError
from screening.gates.drift import Gates
from screening.scoring.cases import Top, cases_of, displayed
from screening.scoring.drift import Drift
from screening.scoring.reference_distribution import Discoveries, Standing, is_discovery, rarity_range
from screening.scoring.rows import DISPLAY, Rows
from screening.scoring.voxels import pictured
from screening.sources.columns import absent
from screening.statistics.operating_point import excess, performance
from screening.statistics.p_values import p_values
from screening.statistics.performance import per_class, prevalence_tonight
from screening.statistics.subgroups import SubgroupCounts
from screening.storage.model import Model, Scored
from screening.storage.serialization import versions
from screening.validation.task import Task, known_labels

CASES_EXPLAINED = 100
# The others come as one line each; a page of more than this nobody reads.
CASES_SHOWN = 5000
# Of a voxel run the page names patients first; single voxels are examples.
VOXELS_SHOWN = 40
NEAR_MISSES_SHOWN = 20
# Of the patients who are not flagged the page names as many as there is room for beside the others.
GROUPS_SHOWN = 200
SAMPLED = 5
"""How many of the unflagged are drawn for review each night, so that misses can be estimated."""


class Kept:
    """What the pass keeps of a night beside the table of its rows: counts, and the values of the listed.

    Memory grows with groups, and with rows only where they have labels.
    """

    def __init__(self, model: Model):
        self.model = model
        self.missing: Counter[str] = Counter()
        explained = VOXELS_SHOWN if model.contract.coordinates else CASES_EXPLAINED
        self.cases, self.near_misses = Top(explained), Top(NEAR_MISSES_SHOWN)
        self.drift = Drift(model)
        described = model.facts.validation.subgroups
        # The levels are those of the first class; all classes are validated on the same rows.
        self.subgroups = SubgroupCounts(next(iter(described.values()), []))
        self.labels: list[np.ndarray] = []
        self.strange_labels: list[str] = []

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.missing.update({name: int(absent(values).sum()) for name, values in batch.values.items()})
        self.cases.add(batch, scored, np.flatnonzero(scored.flagged))
        self.near_misses.add(batch, scored, np.flatnonzero(~scored.flagged))
        self.drift.add(batch, scored.encoded)
        if batch.subgroups is not None:
            self.subgroups.add(batch.subgroups, scored.flagged, batch.group)
        if batch.label is not None:
            remedy = "correct them, or score without --label"
            try:
                self.labels.append(known_labels(self.model.facts, self.model.contract, batch, remedy))
            except CohortError as error:
                # Said at the end: what else is wrong with the table comes first.
                self.strange_labels += error.violations


class Summary:
    """A night in figures, from its rows.

    `seed`: draws the unflagged that are to be reviewed; the run's identity, so that the same night draws the
    same.
    """

    def __init__(self, model: Model, kept: Kept, rows: Rows, seed: int):
        self.model, self.kept, self.rows, self.seed = model, kept, rows, seed
        self.task = Task.of(model.facts.task)
        multi = self.task.kind == "multi"
        # Columns of the decisions for the watched classes.
        self.watched = [f"score_{name}" for name in model.watched] if multi else ["score"]
        self.standing = Standing(model)

    @cached_property
    def groups(self) -> pa.Table | None:
        """`group`, `rows`, `flagged` and `top` of each group by its name; None where rows come alone."""
        if "group" not in self.rows.schema.names:
            return None
        parts = [
            pa.Table.from_batches([batch])
            .group_by("group")
            .aggregate([("score", "count"), ("flagged", "sum"), ("score", "max")])
            .rename_columns(["group", "rows", "flagged", "top"])
            for batch in self.rows.batches(["group", "score", "flagged"])
        ]
        groups = pa.concat_tables(parts).group_by("group")
        counted = groups.aggregate([("rows", "sum"), ("flagged", "sum"), ("top", "max")])
        return counted.rename_columns(["group", "rows", "flagged", "top"]).sort_by("group")

    def flagged_cases(self) -> tuple[str, ...]:
        """Ids of what is reviewed as one, the highest score first: flagged groups, or flagged rows."""
        if self.groups is None:
            return tuple(self.rows.listed(0, None, ["id"])["id"].to_pylist())
        hit = [row for row in self.groups.to_pylist() if row["flagged"]]
        return tuple(row["group"] for row in sorted(hit, key=lambda row: (-row["top"], row["group"])))

    def document(self, stream: CohortStream, *, key: str, date: str, started: str) -> RunDocument:
        """What the rows tell, with what the gates found in them under `attention`.

        Raises CohortError: labels that training never met.
        """
        model, kept, gates = self.model, self.kept, stream.gates
        drift, quiet = kept.drift.counts(stream.n_rows), self._unflagged()
        counted, scores, discovered = self._counted(stream.refused)
        groups, said = self.groups, discovered.facts("row", counted.flagged)
        if groups is not None:
            tops = groups["top"].to_numpy()
            self.standing.add(tops)
            discovered = Discoveries(model.calibration)
            discovered.add(p_values(model.calibration, tops))
            said = discovered.facts("group", int(np.count_nonzero(groups["flagged"].to_numpy())))
        cases = self._listed()
        if groups is None:
            cases = [case.replace(discovery=is_discovery(case.p_value.ends[0], said)) for case in cases]
        # What the gates found, and what was said of the ids at training, which are of the same column.
        found = [*(gates.attention() if gates else []), *said_of_ids(model.facts), reason(drift)]
        source = SourceFacts.from_dict(stream.source.to_dict())
        return RunDocument(
            format_version=FORMAT_VERSION,
            run_id=key[:12],
            date=date,
            model=RunModel.from_dict({"id": model.id, "digest": model.digest} | model.sealed),
            input=InputFacts(
                files=source.files,
                delimiter=source.delimiter,
                encoding=source.encoding,
                rows=source.rows,
                notes=list(stream.notes),
            ),
            versions=versions(),
            counts=counted,
            refused=dict(stream.refused),
            evaluation=self._evaluation(),
            data=self._features(gates, counted.scored),
            groups=self._listed_groups(said),
            score_counts=scores,
            cases=cases,
            cases_total=counted.flagged,
            cases_shown=len(cases),
            cases_explained=sum(case.contributions is not None for case in cases),
            near_misses=kept.near_misses.explained(model),
            scale=self.standing.facts(),
            attention=[each for each in found if each],
            sample=quiet.sample,
            unflagged=Unflagged(cases=quiet.n),
            discoveries=said,
            groups_total=said.n_screened if groups is not None else None,
            groups_flagged=said.flagged if groups is not None else None,
            drift=drift,
            subgroups=kept.subgroups.facts(),
            prevalence_estimate=self._prevalence(counted) if groups is None else None,
            voxels=pictured(model.contract, model.watched, self.rows, stream.source.geometries)
            if model.contract.coordinates
            else None,
            geometries=tuple(stream.source.geometries),
            times=Times(started=started, seconds=0.0),
            sha256="",
        )

    def _counted(self, refused: Mapping[str, int]) -> tuple[Counts, dict[str, ReachingCounts], Discoveries]:
        """Rows read, scored, refused and flagged, how many reach each threshold, and p-values by rank."""
        curves, names = self.model.facts.validation.curves, self.task.watched
        grid = [np.asarray(curves[name].threshold, dtype=float) for name in names]
        reaching = [np.zeros(len(each), dtype=np.int64) for each in grid]
        by_class, n_scored = np.zeros(len(names), dtype=np.int64), 0
        discovered = Discoveries(self.model.calibration)
        for batch in self.rows.batches(list(dict.fromkeys(["score", "p_value", *self.watched]))):
            scores = np.column_stack([batch[name].to_numpy() for name in self.watched])
            by_class += (excess(scores, self.model.thresholds) >= 0).sum(axis=0)
            for thresholds, count, column in zip(grid, reaching, scores.T, strict=True):
                count += batch.num_rows - np.searchsorted(np.sort(column), thresholds, side="left")
            n_scored += batch.num_rows
            discovered.add(batch["p_value"].to_numpy())
            if self.groups is None:
                self.standing.add(batch["score"].to_numpy())
        counts = Counts(
            read=n_scored + sum(refused.values()),
            scored=n_scored,
            refused=sum(refused.values()),
            flagged=len(self.rows.flagged),
            flagged_by_class=dict(zip(names, by_class.tolist(), strict=True)),
        )
        scores_of = {
            name: ReachingCounts(thresholds=thresholds.tolist(), counts=count.tolist())
            for name, thresholds, count in zip(names, grid, reaching, strict=True)
        }
        return counts, scores_of, discovered

    def _features(self, gates: Gates | None, n_scored: int) -> list[NightFeature]:
        """Every feature tonight beside training, as far as the gates know."""
        training = self.model.facts.training
        drift = gates.facts() if gates else {}
        return [
            NightFeature(
                name=feature.name,
                type=feature.type,
                unit=feature.unit,
                missing=self.kept.missing[feature.name] / max(n_scored, 1),
                missing_training=training.missing[feature.name],
                **(vars(drift[feature.name]) if feature.name in drift else {}),
            )
            for feature in training.features
        ]

    def _listed(self) -> list[Case]:
        """The flagged as the page lists them, the highest score first: those explained, then the others."""
        explained = self.kept.cases.explained(self.model)
        shown = VOXELS_SHOWN if self.model.contract.coordinates else CASES_SHOWN
        further = self.rows.listed(len(explained), shown)
        cases = [*explained, *cases_of(self.model, further)]
        return [case.replace(rank=rank) for rank, case in enumerate(cases, start=1)]

    def _unflagged(self) -> Drawn:
        """Those not flagged, and who is drawn from them."""
        drawn = Drawn(self.seed)
        if self.groups is not None:
            drawn.add(self.groups["group"], self.groups["flagged"].to_numpy() > 0)
            return drawn
        for batch in self.rows.batches(["id", "flagged"]):
            drawn.add(batch["id"], batch["flagged"].to_numpy(zero_copy_only=False))
        return drawn

    def _prevalence(self, counts: Counts) -> Estimate | None:
        points = self.model.facts.operating_points
        return prevalence_tonight(counts.flagged, counts.scored, points[0]) if len(points) == 1 else None

    def _listed_groups(self, said: DiscoveryFacts) -> list[GroupFacts] | None:
        """The patients that the page names, those flagged first; None where rows come alone."""
        if self.groups is None:
            return None
        worst = sorted(
            self.groups.to_pylist(), key=lambda row: (not row["flagged"], -row["top"], row["group"])
        )
        hit = sum(bool(row["flagged"]) for row in worst)
        shown = worst[: min(max(hit, GROUPS_SHOWN), CASES_SHOWN)]
        p = p_values(self.model.calibration, np.array([row["top"] for row in shown]))
        low, high = rarity_range(p, len(self.model.calibration))
        display = self._display({row["group"] for row in shown})
        by_class = self._by_class()
        return [
            GroupFacts(
                group=row["group"],
                rows=row["rows"],
                flagged=row["flagged"],
                by_class=dict(by_class[row["group"]].most_common()),
                top_score=row["top"],
                display=display.get(row["group"]),
                p_value=Estimate(p[i], low[i], high[i]),
                discovery=is_discovery(p[i], said),
            )
            for i, row in enumerate(shown)
        ]

    def _by_class(self) -> dict[str, Counter[str]]:
        """Flagged rows of each group by class."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for batch in self.rows.batches(["group", "class", "flagged"]):
            hit = pa.Table.from_batches([batch.filter(batch["flagged"])])
            for row in hit.group_by(["group", "class"]).aggregate([([], "count_all")]).to_pylist():
                counts[row["group"]][row["class"]] += row["count_all"]
        return counts

    def _display(self, groups: set[str]) -> dict[str, dict[str, str | None] | None]:
        """What the contract wants shown beside each of some groups, from its first row."""
        shown: dict[str, dict[str, str | None] | None] = {}
        columns = [name for name in self.rows.schema.names if name.startswith(DISPLAY)]
        for batch in self.rows.batches(["group", *columns]) if columns else ():
            _, first = np.unique(batch["group"].to_numpy(zero_copy_only=False), return_index=True)
            for row in batch.take(pa.array(first)).to_pylist():
                if row["group"] in groups:
                    shown.setdefault(row["group"], displayed(row))
        return shown

    def _evaluation(self) -> dict[str, Observed | Confusion | Sequence[PerClass]] | None:
        """How the flags of this cohort agree with its labels, where it has them."""
        if self.kept.strange_labels:
            raise CohortError(self.kept.strange_labels)
        label = np.concatenate(self.kept.labels or [np.zeros(0, "U1")])
        labelled = np.flatnonzero(label != "")
        if not len(labelled):
            return None
        multi, grouped = self.task.kind == "multi", self.groups is not None
        more = ["group"] * grouped + ["predicted"] * multi
        rows = self.rows.taken(labelled, list(dict.fromkeys([*self.watched, *more])))
        codes = self.task.target(label[labelled])
        together = rows["group"].to_numpy() if grouped else None
        facts: dict[str, Observed | Confusion | Sequence[PerClass]] = {
            name: performance(rows[column].to_numpy(), codes == code, threshold, together)
            for name, code, column, threshold in zip(
                self.task.watched, self.task.watched_codes, self.watched, self.model.thresholds, strict=True
            )
        }
        if multi:
            places = {name: place for place, name in enumerate(self.task.classes)}
            predicted = np.array([places[name] for name in rows["predicted"].to_pylist()])
            facts["confusion"], facts["per_class"] = per_class(codes, predicted, self.task.classes)
        return facts


class Drawn:
    """Draws from the unflagged rows or groups, batch by batch, in bounded memory.

    `n`: how many they are; `seed`: of the draw.
    """

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.n = 0
        self._lowest: list[tuple[float, str]] = []

    def add(self, names: pa.Array | pa.ChunkedArray, flagged: np.ndarray) -> None:
        """Count in rows (or groups); the draw does not depend on the batches."""
        lots = self.rng.random(len(names))
        quiet = np.flatnonzero(~flagged)
        self.n += len(quiet)
        lowest = quiet[np.argsort(lots[quiet], kind="stable")[:SAMPLED]]
        drawn = [(float(lots[i]), names[i].as_py()) for i in lowest]
        self._lowest = sorted([*self._lowest, *drawn])[:SAMPLED]

    @property
    def sample(self) -> list[str]:
        """Those drawn."""
        return [name for _, name in self._lowest]
