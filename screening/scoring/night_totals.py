"""Totals of a night: what consecutive rows add to its document.

Totals of consecutive blocks add up to those of them all, to the bit, so that a night
may be scored in any blocks and by any number of processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa

from screening.data.block_reader import BlockReader, Piece, ReadCounts
from screening.data.cohort import Cohort
from screening.errors import CohortError
from screening.metrics.subgroups import SubgroupCounts
from screening.model_selection.task import Task, known_labels
from screening.monitoring.other_readings import ColumnReadings, readings_of_columns
from screening.schemas.run import Sampled
from screening.scoring.alike_rows import RowContents
from screening.scoring.check_values import OddRows, count_channels
from screening.scoring.expected import count_expected, curve_of
from screening.scoring.explaining import TopCases, TopRows
from screening.scoring.reference_distribution import (
    ALL_HASHES,
    DiscoveryCounts,
    DriftUnits,
    ScoreDrift,
    ScoreHistogram,
)
from screening.store.model import (
    CHANCES,
    DISPLAY,
    OUT_OF_BOUNDS,
    Model,
    Scored,
    score_batch,
)

# Flagged rows that the page lists with their reasons, and in all.
CASES_EXPLAINED = 100
CASES_SHOWN = 5000
# Of a voxel run the page names patients first; single voxels are examples.
VOXELS_SHOWN = 40
NEAR_MISSES_SHOWN = 20
# Unflagged rows, or patients, that are drawn for review each night: misses are
# estimated from them.
N_AUDITED = 5
# Rows whose ids show how ids are written.
N_ROWS_OF_IDS = 100_000
GROUP_COLUMNS = ["group", "rows", "flagged", "top"]


@dataclass(frozen=True)
class AuditDraw:
    """At most `N_AUDITED` of the unflagged, those with the lowest random keys."""

    drawn: tuple[tuple[float, Sampled], ...] = ()

    @classmethod
    def of(
        cls, keys: np.ndarray, names: pa.ChunkedArray, display: Mapping[str, np.ndarray]
    ) -> AuditDraw:
        """Draw from rows by their keys; `display`: texts to be shown beside a row."""
        candidates = np.arange(len(keys))
        if len(keys) > N_AUDITED:
            highest = np.partition(keys, N_AUDITED - 1)[N_AUDITED - 1]
            candidates = np.flatnonzero(keys <= highest)
        order = np.argsort(keys[candidates], kind="stable")
        lowest = candidates[order][:N_AUDITED]
        drawn = []
        for i in lowest:
            texts = {name: column[i] for name, column in display.items()}
            sampled = Sampled(id=names[int(i)].as_py(), display=texts or None)
            drawn.append((float(keys[i]), sampled))
        return cls(tuple(drawn))

    def __add__(self, other: AuditDraw) -> AuditDraw:
        by_key = sorted(self.drawn + other.drawn, key=lambda drawn: drawn[0])
        return AuditDraw(tuple(by_key[:N_AUDITED]))


@dataclass(frozen=True)
class NightTotals:
    """Everything that a page needs of some rows, in fields that add up exactly.

    Parameters
    ----------
    n_scored, n_flagged : int
    odd_rows : OddRows
        Rows with cells out of bounds.
    channels : tuple of pyarrow.Table
        Figures of the channels of images, by patient.
    by_class : ndarray of int, shape (n_watched,)
        Rows at or above the threshold of each watched class.
    reaching : ndarray of int, shape (n_thresholds,)
        Rows at or above each threshold of the validation curves, class after class.
    expected : ndarray of int, shape (2, 6)
        See ``scoring.expected.count_expected``.
    missing : ndarray of int, shape (n_features,)
        Rows without a value.
    cases, near_misses : TopCases
        Of the flagged, and of the others, those with the highest scores.
    listed : TopRows
        More of the flagged, without their values.
    histogram, discoveries : ndarray of int
        Rows that come alone, by score and by rank of their p-value.
    drift : DriftUnits
    subgroups : SubgroupCounts
    drawn : AuditDraw
        From rows that come alone.
    groups : tuple of pyarrow.Table
        `GROUP_COLUMNS` of the groups of each block.
    classes : tuple of pyarrow.Table
        `group`, `class`, and the number of `rows` flagged of them.
    first_rows : tuple of pyarrow.Table
        What the contract wants shown beside each group.
    labelled : tuple of tuple of ndarray
        Labels, scores of watched classes, groups, and predicted classes of several.
    strange_labels : tuple of str
        Violations: labels that training never had.
    days : tuple of datetime64
        First and last instant of each block.
    taken : tuple of datetime64
        Newest instant at which the rows of each block were taken, by their own column.
    ids : tuple of ndarray
        Of the first `N_ROWS_OF_IDS` rows of the table.
    contents : tuple of RowContents
        Of the first rows too.
    """

    n_scored: int
    n_flagged: int
    odd_rows: OddRows
    channels: tuple[pa.Table, ...]
    by_class: np.ndarray
    reaching: np.ndarray
    expected: np.ndarray
    missing: np.ndarray
    cases: TopCases
    near_misses: TopCases
    listed: TopRows
    histogram: np.ndarray
    discoveries: np.ndarray
    drift: DriftUnits
    subgroups: SubgroupCounts
    drawn: AuditDraw
    groups: tuple[pa.Table, ...]
    classes: tuple[pa.Table, ...]
    first_rows: tuple[pa.Table, ...]
    labelled: tuple[tuple[np.ndarray, ...], ...]
    strange_labels: tuple[str, ...]
    days: tuple[np.datetime64, ...]
    taken: tuple[np.datetime64, ...]
    ids: tuple[np.ndarray, ...]
    contents: tuple[RowContents, ...]

    def __add__(self, other: NightTotals) -> NightTotals:
        sums = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
        }
        return NightTotals(**sums)


@dataclass(frozen=True)
class ScoredPiece:
    """A piece of the table, scored.

    Parameters
    ----------
    rows : pyarrow.Table or None
        Of `scores.parquet`; None if no row was scored.
    totals : NightTotals or None
        None if no row was scored.
    counts : ReadCounts
        Of all rows, valid or not.
    """

    rows: pa.Table | None
    totals: NightTotals | None
    counts: ReadCounts


@dataclass
class BlockScorer:
    """Scores pieces of a night's table, in this process or another, in any order.

    Parameters
    ----------
    model : Model
    date : str
        YYYY-MM-DD; the same night draws the same rows for the random audit.
    reader : BlockReader
    """

    model: Model
    date: str
    reader: BlockReader

    @cached_property
    def task(self) -> Task:
        """The classes of the model, and those it watches."""
        return Task.of(self.model.facts.task)

    @cached_property
    def grids(self) -> list[np.ndarray]:
        """Thresholds of the validation curve of each watched class, if it has one."""
        curves = self.model.facts.validation.curves
        grids = []
        for name in self.task.watched:
            thresholds = curves[name].threshold if name in curves else ()
            grids.append(np.asarray(thresholds, float))
        return grids

    @cached_property
    def readings(self) -> dict[str, ColumnReadings]:
        """Other readings of values outside training, by column."""
        profile = self.model.facts.training.profile
        return readings_of_columns(self.model.contract, profile)

    @cached_property
    def histogram(self) -> ScoreHistogram:
        """Bins of the scores."""
        return ScoreHistogram(self.model)

    @cached_property
    def discoveries(self) -> DiscoveryCounts:
        """Ranks of the p-values."""
        return DiscoveryCounts(self.model.calibration)

    @cached_property
    def drift(self) -> ScoreDrift:
        """The units that are scored again, beside the held-out ones."""
        return ScoreDrift(self.model)

    @property
    def _n_explained(self) -> int:
        is_voxel = bool(self.model.contract.coordinates)
        return VOXELS_SHOWN if is_voxel else CASES_EXPLAINED

    @property
    def n_listed(self) -> int:
        """Largest number of flagged rows that a page lists."""
        is_voxel = bool(self.model.contract.coordinates)
        return VOXELS_SHOWN if is_voxel else CASES_SHOWN

    def score_piece(
        self,
        piece: Piece,
        is_refused: bool = False,
        drift_limit: int = ALL_HASHES,
    ) -> ScoredPiece:
        """Read and score a piece of the table.

        Parameters
        ----------
        piece : Piece
        is_refused : bool
            The table is refused anyway: its rows are only read.
        drift_limit : int
            Highest hash of units that may still count as drift: it spares work and
            changes no sum.
        """
        rows = []
        totals = None
        counts = self.reader.no_counts()
        for block in self.reader.read(piece):
            counts += block.counts
            if is_refused or counts.violations.is_refused or block.rows is None:
                continue
            scored = score_batch(self.model, block.rows)
            of_block = self.totals_of(block.rows, scored, block.id_hashes, drift_limit)
            totals = of_block if totals is None else totals + of_block
            rows.append(scored.rows)
        return ScoredPiece(
            rows=pa.concat_tables(rows) if rows else None,
            totals=totals,
            counts=counts,
        )

    def totals_of(
        self,
        batch: Cohort,
        scored: Scored,
        id_hashes: np.ndarray | None = None,
        drift_limit: int = ALL_HASHES,
    ) -> NightTotals:
        """Return the totals of some rows.

        `id_hashes`, shape (n_rows,): keyed hashes of their ids, computed by default.
        """
        rows = scored.rows
        flagged = rows["flagged"].to_numpy()
        watched = scored.decisions[:, self.model.watched_columns]
        labelled, strange_labels = self._labelled(batch, scored, watched)
        # Groups are counted once each, when the night is summed up.
        scores = np.zeros(0)
        p_of_rows = np.zeros(0)
        drawn = AuditDraw()
        groups: tuple[pa.Table, ...] = ()
        classes: tuple[pa.Table, ...] = ()
        if batch.group is not None:
            groups = (_count_groups(rows),)
            classes = (_count_classes(rows),)
        else:
            scores = rows["score"].to_numpy()
            p_of_rows = rows["p_value"].to_numpy()
            drawn = self._draw(batch, rows, flagged)
        return NightTotals(
            n_scored=batch.n_rows,
            n_flagged=int(np.count_nonzero(flagged)),
            odd_rows=OddRows.of(
                batch,
                flagged,
                rows[OUT_OF_BOUNDS].combine_chunks(),
                self.model.bounds,
                self.readings,
            ),
            channels=count_channels(batch, self.model.bounds),
            by_class=(watched >= self.model.thresholds).sum(axis=0),
            reaching=self._reaching(watched),
            expected=self._expected(rows, flagged),
            missing=_missing(batch),
            cases=TopCases.of(self._n_explained, batch, rows, np.flatnonzero(flagged)),
            near_misses=TopCases.of(
                NEAR_MISSES_SHOWN, batch, rows, np.flatnonzero(~flagged)
            ),
            listed=TopRows.of(self.n_listed, rows.filter(rows["flagged"])),
            histogram=self.histogram.count(scores),
            discoveries=self.discoveries.count(p_of_rows),
            drift=self.drift.count(batch, scored.encoded, id_hashes, drift_limit),
            subgroups=self._subgroups(batch, flagged),
            drawn=drawn,
            groups=groups,
            classes=classes,
            first_rows=_first_rows(batch),
            labelled=labelled,
            strange_labels=strange_labels,
            days=_first_and_last_time(batch),
            taken=_newest_time_taken(batch),
            ids=self._first_ids(batch),
            contents=RowContents.of(batch, flagged),
        )

    def _reaching(self, watched: np.ndarray) -> np.ndarray:
        """Count the rows that reach each threshold of the curves, by class."""
        n_rows = len(watched)
        counts = [
            n_rows - np.searchsorted(np.sort(scores), thresholds, side="left")
            for thresholds, scores in zip(self.grids, watched.T, strict=True)
        ]
        return np.concatenate(counts)

    def _expected(self, rows: pa.Table, flagged: np.ndarray) -> np.ndarray:
        """Count what the expected number of cases is computed from."""
        scores = rows["score"].to_numpy()
        chances = np.full(len(scores), np.nan)
        if CHANCES[0] in rows.column_names:
            chances = rows[CHANCES[0]].to_numpy(zero_copy_only=False).astype(float)
        return count_expected(curve_of(self.model), scores, chances, flagged)

    def _subgroups(self, batch: Cohort, flagged: np.ndarray) -> SubgroupCounts:
        """Count rows and flags by the subgroups of the validation."""
        # The levels are those of the first class; all classes are validated on the
        # same rows.
        by_class = self.model.facts.validation.subgroups.values()
        described = next(iter(by_class), [])
        counts = SubgroupCounts(described, self.model.contract.suppress)
        if batch.subgroups is not None:
            counts.add(batch.subgroups, flagged, batch.group)
        return counts

    def _draw(self, batch: Cohort, rows: pa.Table, flagged: np.ndarray) -> AuditDraw:
        """Draw unflagged rows for the random audit."""
        # Each row of the table has its key, whatever the block it comes in.
        first = int(batch.rows[0])
        keys = audit_keys(self.model, self.date, first - 1, int(batch.rows[-1]))
        is_drawn = ~flagged
        display = {
            name: texts[is_drawn] for name, texts in (batch.display or {}).items()
        }
        names = rows["id"].filter(pa.array(is_drawn))
        return AuditDraw.of(keys[batch.rows - first][is_drawn], names, display)

    def _labelled(
        self, batch: Cohort, scored: Scored, watched: np.ndarray
    ) -> tuple[tuple[tuple[np.ndarray, ...], ...], tuple[str, ...]]:
        """Return the labelled rows, and the violations of labels."""
        if batch.label is None:
            return (), ()
        remedy = "correct them, or score without --label"
        try:
            labels = known_labels(self.model.facts, self.model.contract, batch, remedy)
        except CohortError as error:
            # Raised at the end: what else is wrong with the table comes first.
            return (), tuple(error.violations)
        group = np.zeros(batch.n_rows) if batch.group is None else batch.group
        columns = [labels, watched, group]
        if self.task.kind == "multi":
            columns.append(self.model.predicted(scored.decisions))
        return (tuple(values[labels != ""] for values in columns),), ()

    def _first_ids(self, batch: Cohort) -> tuple[np.ndarray, ...]:
        """Return the ids among the first `N_ROWS_OF_IDS` rows of the table."""
        is_named = batch.contract.id and not batch.contract.coordinates
        is_first = batch.rows <= N_ROWS_OF_IDS
        return (batch.id[is_first],) if is_named and is_first.any() else ()


def audit_keys(model: Model, night: str, start: int, stop: int) -> np.ndarray:
    """Return the random keys of rows `start` to `stop`, shape (stop - start,).

    The audit draws the rows with the lowest keys of a night.
    """
    seed = hashlib.sha256(f"{model.digest} {night}".encode()).hexdigest()
    bits = np.random.PCG64(int(seed[:16], 16)).advance(start)
    return np.random.Generator(bits).random(stop - start)


def _missing(batch: Cohort) -> np.ndarray:
    """Count the rows without a value, for each feature."""
    counts = [np.count_nonzero(pd.isna(values)) for values in batch.values.values()]
    return np.array(counts, dtype=np.int64)


def _count_groups(rows: pa.Table) -> pa.Table:
    """Count rows and flagged rows of each group, as `GROUP_COLUMNS`."""
    sums = [("score", "count"), ("flagged", "sum"), ("score", "max")]
    counted = rows.group_by("group", use_threads=False).aggregate(sums)
    return counted.rename_columns(GROUP_COLUMNS)


def _count_classes(rows: pa.Table) -> pa.Table:
    """Count flagged rows by group and class."""
    flagged = rows.filter(rows["flagged"])
    by_class = flagged.group_by(["group", "class"], use_threads=False)
    counted = by_class.aggregate([([], "count_all")])
    return counted.rename_columns(["group", "class", "rows"])


def _first_rows(batch: Cohort) -> tuple[pa.Table, ...]:
    """Return the texts to show beside each group, from its first row."""
    if batch.group is None or batch.display is None:
        return ()
    first = np.unique(batch.group, return_index=True)[1]
    display = {DISPLAY + name: texts[first] for name, texts in batch.display.items()}
    return (pa.table({"group": batch.group[first]} | display),)


def _first_and_last_time(batch: Cohort) -> tuple[np.datetime64, ...]:
    """Return the first and last time of some rows."""
    if batch.time is None or not batch.n_rows:
        return ()
    return (batch.time.min(), batch.time.max())


def _newest_time_taken(batch: Cohort) -> tuple[np.datetime64, ...]:
    """Return the newest instant at which some rows were taken."""
    if batch.hour is None:
        return ()
    times = batch.hour[~np.isnat(batch.hour)]
    return (times.max(),) if len(times) else ()
