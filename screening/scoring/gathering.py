"""What one night's scoring adds up to, gathered batch by batch: counts, cases, groups, evaluation."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pandas as pd

from screening.cohort.cohort import Cohort, joined
from screening.cohort.drift import Gates
from screening.cohort.identity import said_of_ids
from screening.documents.reason import Reason
from screening.scoring.contributions import contributions
from screening.scoring.standing import Standing
from screening.scoring.unflagged import Unflagged
from screening.statistics.operating_point import performance
from screening.storage.model import Model
from screening.storage.scored import Scored
from screening.training.per_class import per_class
from screening.validation.task import Task

CASES_EXPLAINED = 100
# The others come as one line each; a page of more than this nobody reads.
CASES_SHOWN = 5000
# Of a voxel run the page names patients first; single voxels are examples.
VOXELS_SHOWN = 40
NEAR_MISSES_SHOWN = 20
# Of the patients who are not flagged the page names as many as there is room for beside the others.
GROUPS_SHOWN = 200


class _Top:
    """The rows with the highest scores seen so far, at most `size` of them."""

    def __init__(self, size: int):
        self.size = size
        self.cohort: Cohort | None = None
        self.score = self.p_value = np.empty(0)
        self.column = self.row = np.empty(0, dtype=np.int64)

    def add(self, batch: Cohort, scored: Scored, chosen: np.ndarray) -> None:
        rows = chosen[np.argsort(-scored.score[chosen], kind="stable")[: self.size]]
        if len(rows) == 0:
            return
        kept = batch.take(rows)
        self.cohort = kept if self.cohort is None else joined([self.cohort, kept])
        self.score = np.concatenate([self.score, scored.score[rows]])
        self.p_value = np.concatenate([self.p_value, scored.p_value[rows]])
        self.column = np.concatenate([self.column, scored.column[rows]])
        self.row = np.concatenate([self.row, batch.rows[rows]])
        best = np.argsort(-self.score, kind="stable")[: self.size]
        self.cohort = self.cohort.take(best)
        self.score, self.p_value = self.score[best], self.p_value[best]
        self.column, self.row = self.column[best], self.row[best]

    def listed(self, model: Model) -> list[dict[str, Any]]:
        if self.cohort is None:
            return []
        group = self.cohort.group
        return [
            {
                "id": str(self.cohort.id[i]),
                "group": None if group is None else str(group[i]),
                "row": int(self.row[i]),
                "score": float(self.score[i]),
                "p_value": float(self.p_value[i]),
                "class": model.watched[self.column[i]],
                "display": _displayed(self.cohort.display, i),
            }
            | reasons
            for i, reasons in enumerate(contributions(model, self.cohort, self.column))
        ]


def _displayed(table: pd.DataFrame | None, row: int) -> dict[str, str | None] | None:
    """What the contract wants shown beside a row."""
    return None if table is None else dict(table.iloc[row])


class Night:
    """Adds up the batches of one run; memory grows with flagged rows and groups, not with rows.

    Parameters
    ----------
    model : Model
    seed : int
        Draws the unflagged that are to be reviewed.
    """

    def __init__(self, model: Model, seed: int = 0):
        self.model = model
        self.unflagged = Unflagged(seed)
        self.task = Task.from_dict(model.document["task"])
        self.n_scored = 0
        self.missing: Counter[str] = Counter()
        self.flagged: list[tuple[np.ndarray, ...]] = []
        self.displayed: list[pd.DataFrame] = []
        self.standing = Standing(model)
        self.flagged_by_class = np.zeros(len(self.task.watched), dtype=np.int64)
        voxels = bool(model.contract.coordinates)
        self.shown = VOXELS_SHOWN if voxels else CASES_SHOWN
        explained = VOXELS_SHOWN if voxels else CASES_EXPLAINED
        self.cases, self.near_misses = _Top(explained), _Top(NEAR_MISSES_SHOWN)
        self.groups: dict[str, list[float]] = defaultdict(lambda: [0, 0, -np.inf])
        self.group_display: dict[str, dict[str, str | None] | None] = {}
        self.grid = [
            np.asarray(model.document["validation"]["curves"][name]["threshold"], dtype=float)
            for name in self.task.watched
        ]
        self.counts = [np.zeros(len(grid), dtype=np.int64) for grid in self.grid]
        self.labelled: list[tuple[np.ndarray, ...]] = []

    def add(self, batch: Cohort, scored: Scored) -> None:
        """Count one batch in."""
        self.n_scored += batch.n_rows
        self.missing.update({str(name): int(n) for name, n in batch.features.isna().sum().items()})
        flagged = np.flatnonzero(scored.flagged)
        self.flagged_by_class += (scored.excess >= 0).sum(axis=0)
        self.cases.add(batch, scored, flagged)
        self.near_misses.add(batch, scored, np.flatnonzero(~scored.flagged))
        group = np.full(len(flagged), "") if batch.group is None else batch.group[flagged]
        self.flagged.append(
            (
                batch.id[flagged],
                group,
                scored.score[flagged],
                scored.p_value[flagged],
                scored.column[flagged],
                batch.rows[flagged],
            )
        )
        if batch.display is not None:
            self.displayed.append(batch.display.iloc[flagged])
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
            self._add_labels(batch.label, batch.group, scored, scores)

    def _add_groups(self, group: np.ndarray, scored: Scored, display: pd.DataFrame | None) -> None:
        names, first, place = np.unique(group, return_index=True, return_inverse=True)
        for name, row in zip(names, first, strict=True):
            self.group_display.setdefault(str(name), _displayed(display, row))
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
        codes = self.task.target(label)
        group = np.full(len(codes), "") if group is None else group
        self.labelled.append((codes, scores, scored.decisions.argmax(axis=1), group))

    def facts(self, refused: dict[str, int], gates: Gates | None = None) -> dict[str, Any]:
        """The parts of `run.json` that come from the rows, and what the gates make of them."""
        cases = self._cases()
        n_flagged = sum(len(ids) for ids, *_ in self.flagged)
        training = self.model.document["training"]
        drift = gates.facts() if gates else {}
        return {
            "counts": {
                "read": self.n_scored + sum(refused.values()),
                "scored": self.n_scored,
                "refused": sum(refused.values()),
                "flagged": n_flagged,
                "flagged_by_class": dict(zip(self.task.watched, self.flagged_by_class.tolist(), strict=True)),
            },
            "refused": dict(refused),
            "evaluation": self._evaluation(),
            "data": [
                {
                    "name": feature["name"],
                    "type": feature["type"],
                    "unit": feature["unit"],
                    "missing": self.missing[feature["name"]] / max(self.n_scored, 1),
                    "missing_training": training["missing"][feature["name"]],
                }
                | drift.get(feature["name"], {})
                for feature in training["features"]
            ],
            "groups": self._groups(),
            "score_counts": {
                name: {"thresholds": grid.tolist(), "counts": counts.tolist()}
                for name, grid, counts in zip(self.task.watched, self.grid, self.counts, strict=True)
            },
            "cases": [{"rank": rank} | case for rank, case in enumerate(cases, start=1)],
            "cases_total": n_flagged,
            "cases_shown": len(cases),
            "cases_explained": sum("contributions" in case for case in cases),
            "near_misses": self.near_misses.listed(self.model),
            "scale": self._scale(),
            "attention": [reason.to_dict() for reason in self._reasons(gates)],
        } | self._of_unflagged()

    def _reasons(self, gates: Gates | None) -> list[Reason]:
        """What the gates found, and what was said of the ids at training, which are of the same column."""
        return [*(gates.attention() if gates else []), *said_of_ids(self.model.document)]

    def _cases(self) -> list[dict[str, Any]]:
        """The flagged as the page lists them, the highest score first: those explained, then the others."""
        explained = self.cases.listed(self.model)
        ids, group, score, p_value, column, row = self.all_flagged()
        further = np.argsort(-score, kind="stable")[len(explained) : self.shown]
        display = self.all_displayed()
        return explained + [
            {
                "id": str(ids[i]),
                "group": str(group[i]) if self.groups else None,
                "row": int(row[i]),
                "score": float(score[i]),
                "p_value": float(p_value[i]),
                "class": self.task.watched[column[i]],
                "display": _displayed(display, i),
            }
            for i in further
        ]

    def all_flagged(self) -> list[np.ndarray]:
        """Id, group, score, p-value, watched class and row number of every flagged row, in row order."""
        if not self.flagged:
            return [np.empty(0, dtype=kind) for kind in (object, object, float, float, np.int64, np.int64)]
        return [np.concatenate(parts) for parts in zip(*self.flagged, strict=True)]

    def all_displayed(self) -> pd.DataFrame | None:
        """What the contract wants shown of every flagged row, in row order; None where it names nothing."""
        return pd.concat(self.displayed, ignore_index=True) if self.displayed else None

    def _scale(self) -> dict[str, Any]:
        if self.groups:
            self.standing.add(np.array([top for *_, top in self.groups.values()]))
        return self.standing.facts()

    def _of_unflagged(self) -> dict[str, Any]:
        if self.groups:
            names = sorted(self.groups)
            self.unflagged.add(np.array(names), np.array([self.groups[name][1] > 0 for name in names]))
        return self.unflagged.facts()

    def flagged_cases(self) -> tuple[str, ...]:
        """Ids of what is reviewed as one, the highest score first: flagged groups, or flagged rows."""
        if self.groups:
            hit = [name for name, (_, flagged, _top) in self.groups.items() if flagged]
            return tuple(sorted(hit, key=lambda name: (-self.groups[name][2], name)))
        ids, _, scores, *_ = self.all_flagged()
        return tuple(str(name) for name in ids[np.argsort(-scores, kind="stable")])

    def _groups(self) -> list[dict[str, Any]] | None:
        if not self.groups:
            return None
        worst = sorted(self.groups.items(), key=lambda item: (not item[1][1], -item[1][2], item[0]))
        hit = sum(bool(entry[1]) for entry in self.groups.values())
        listed = worst[: min(max(hit, GROUPS_SHOWN), CASES_SHOWN)]
        return [
            {
                "group": name,
                "rows": rows,
                "flagged": flagged,
                "top_score": float(top),
                "display": self.group_display[name],
            }
            for name, (rows, flagged, top) in listed
        ]

    def _evaluation(self) -> dict[str, Any] | None:
        """How the flags of this cohort agree with its labels, where it has them."""
        if not self.labelled:
            return None
        codes, scores, predicted, group = (
            np.concatenate(parts) for parts in zip(*self.labelled, strict=True)
        )
        together = group if self.groups else None
        columns = [1] if self.task.kind == "binary" else self.task.watched_columns
        facts: dict[str, Any] = {
            name: performance(scores[:, m], codes == column, self.model.thresholds[m], together)
            for m, (name, column) in enumerate(zip(self.task.watched, columns, strict=True))
        }
        if self.task.kind == "multi":
            facts |= per_class(codes, predicted, self.task.classes)
        return facts
