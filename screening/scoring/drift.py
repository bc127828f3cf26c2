"""Whether tonight's scores lie as those of training did: all of them, flagged or not.

A held-out score was given by one machine, a night's score is the mean of several and spreads less. So for
this test, and for it alone, every unit of tonight is scored by one machine drawn by lot: then it is
exchangeable with the held-out rows wherever nothing has changed. Of a group one row counts: of an image its
highest voxel, of a patient one visit drawn by lot, since a patient has more visits in years of training than
in a night, and the highest of more lies higher.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.data.cohort import Cohort
from screening.data.ids import kept_half, keyed_lots
from screening.io.columns import coded
from screening.metrics.operating_point import OperatingPoint, overall
from screening.metrics.shift import cells_of, inner_edges, shift
from screening.model_selection.task import Task
from screening.schemas.run import ScoreCounts
from screening.store.model import Model

MOST_ROWS = 20_000
REMEMBERED = 500
"""Units whose place the ledger keeps, so that a patient counts once over several nights."""


class Drift:
    """Counts a night's units in the cells of the held-out scores; groups and `MOST_ROWS` bound the memory.

    Of very many rows only some units are scored again, the same ones on every night.
    """

    def __init__(self, model: Model):
        self.model = model
        self.grouped, self.imaged = bool(model.contract.group), bool(model.contract.coordinates)
        self.edges, self.known = reference(model)
        self.machines = model.facts.validation.folds
        self.of_group: dict[int, tuple[float, float]] = {}
        self.rows: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, batch: Cohort, encoded: np.ndarray) -> None:
        """Count one batch in."""
        if not len(self.known):
            return
        lots = keyed_lots(batch.group if batch.group is not None else batch.id, self.model.digest)
        # How many rows there will be is not known yet: fewer units count in the end.
        mine = np.flatnonzero(_among(kept_half(lots), int(batch.rows[-1])))
        lots, scores = lots[mine], np.empty(len(mine))
        machine = (lots >> np.uint64(32)) % np.uint64(self.machines)
        for k in range(self.machines):
            rows = np.flatnonzero(machine == k)
            if len(rows):
                found = self.model.ensemble.of_one(k, encoded[mine[rows]])[:, self.model.watched_columns]
                scores[rows] = overall(found, self.model.thresholds)
        who = kept_half(lots)
        if not self.grouped:
            self.rows.append((who, scores))
            return
        rank = scores if self.imaged else keyed_lots(batch.id[mine], self.model.digest).astype(float)
        for name, entry in zip(who.tolist(), zip(rank.tolist(), scores.tolist(), strict=True), strict=True):
            self.of_group[name] = max(self.of_group.get(name, entry), entry)

    def counts(self, n_rows: int) -> ScoreCounts | None:
        """What `run.json` and the ledger hold of it; None for a model without held-out scores.

        `n_rows`: of the night's table.
        """
        if not len(self.known):
            return None
        if self.grouped:
            who = np.array(list(self.of_group), np.int64)
            scores = np.array([score for _, score in self.of_group.values()], float)
        else:
            parts = self.rows or [(np.empty(0), np.empty(0))]
            who, scores = (np.concatenate(each) for each in zip(*parts, strict=True))
        mine = _among(who, n_rows)
        who, scores = who[mine], scores[mine]
        cell = cells_of(scores, self.edges)
        counted = np.bincount(cell, minlength=len(self.known))
        tonight = compared(
            ScoreCounts(unit="group" if self.grouped else "row", known=(), counted=tuple(counted.tolist())),
            self.known,
        )
        if not (self.model.contract.id or self.grouped):
            return tonight
        # The lowest hashes are a random sample, and the same patients on every night.
        kept = np.argsort(who, kind="stable")[:REMEMBERED]
        return tonight.replace(who=who[kept], cell=cell[kept])


def compared(tonight: ScoreCounts, known: np.ndarray) -> ScoreCounts:
    """The counts of a night beside those known on the same cells."""
    found = shift(known, tonight.counted)
    distance, p, higher = (None, None, False) if found is None else (found.distance, found.p, found.higher)
    return tonight.replace(known=tuple(known.tolist()), distance=distance, p=p, higher=higher)


def _among(who: np.ndarray, n_rows: int) -> np.ndarray:
    """Which units are scored again where the night has so many rows, as a mask."""
    return who < min(1.0, MOST_ROWS / max(n_rows, 1)) * 2**32


def reference(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the cells, and what the held-out scores of training count in them.

    Where the stated prevalence is not that of the training rows, positives and negatives are weighed to it,
    and the counts are those of the rows that would know the shares as well. A group counts by one row.

    `edges`, shape (n_cells - 1,). `counts`, shape (n_cells,): empty where the model holds no held-out
    scores.
    """
    table, task = model.held_out, Task.of(model.facts.task)
    names = task.score_columns
    # Of several dealings the first: a mean over them would spread less, as a night's score does.
    names = [f"{name}@0" if f"{name}@0" in table else name for name in names]
    if not table.n_rows or not set(names) <= set(table):
        return np.empty(0), np.empty(0, np.int64)
    scores = overall(np.column_stack([table[name] for name in names]), model.thresholds)
    if model.contract.group:
        # Of a group's rows the one with the highest lot.
        rank = scores if model.contract.coordinates else keyed_lots(table["id"], model.digest).astype(float)
        _, group = coded(table["group"])
        order = np.lexsort((rank, group))
        scores = scores[order[np.append(np.diff(group[order]) > 0, True)]]
        weights = np.ones(len(scores))
    else:
        watched = task.is_watched(table["label"])
        weights = _weights(np.asarray(watched.any(axis=1)), model.facts.operating_points)
    edges = inner_edges(scores, weights)
    share = np.bincount(cells_of(scores, edges), weights, minlength=len(edges) + 1) / weights.sum()
    effective = weights.sum() ** 2 / np.square(weights).sum()
    return edges, np.rint(share * effective).astype(np.int64)


def _weights(positive: np.ndarray, points: Sequence[OperatingPoint]) -> np.ndarray:
    """Weights that bring a two-class table to the prevalence in use, shape (n_rows,)."""
    stated, seen = points[0].prevalence, positive.mean()
    if len(points) > 1 or not 0 < seen < 1:
        return np.ones(len(positive))
    return np.where(positive, stated / seen, (1 - stated) / (1 - seen))
