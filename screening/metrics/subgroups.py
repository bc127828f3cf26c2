"""Performance and flag rates in subgroups; figures of too few patients are withheld."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

import numpy as np

from screening.io.columns import Columns, coded
from screening.metrics.evaluated_rows import EvaluatedRows, is_enough
from screening.metrics.figures import Figure, evaluate, figures_in, withheld
from screening.metrics.intervals import independent_difference, independent_ratio
from screening.schemas.figures import Rule, Threshold
from screening.schemas.run import NightSubgroup
from screening.schemas.validation import CrossedSubgroups, Subgroup, SubgroupFacts

# Levels of a column; further ones are called "other".
_MAX_LEVELS = 12
_OTHER = "other"
MISSING = "missing"
# Cells of two columns that are shown: nobody reads more.
MAX_CELLS = 24
# Rows of all cells' rests above which cells are not compared with theirs: it would take
# longer than training.
MAX_ROWS_BESIDE = 500_000
# Significant digits with which edges of bands are written.
_MIN_DIGITS = 6
_MAX_DIGITS = 17


def band_edges(values: np.ndarray) -> list[float] | None:
    """Return quartiles that split a numeric column with many values into bands.

    None if its values are levels themselves: few, or not all numbers. Missing values
    (None) are ignored.
    """
    present = [text for text in values if text is not None]
    if len(set(present)) <= _MAX_LEVELS:
        return None
    numbers = [_as_number(text) for text in present]
    if None in numbers:
        return None
    quartiles = np.quantile(np.array(numbers, float), [0.25, 0.5, 0.75])
    return np.unique(quartiles).tolist()


def _as_number(text: str) -> float | None:
    """Return the finite number that a text is; "nan" and "inf" are ordinary texts."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def levels_of(
    values: np.ndarray,
    edges: Sequence[float] | None,
    known: Sequence[str] | None = None,
) -> np.ndarray:
    """Return the level of each row as text.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Texts, None if missing.
    edges : sequence of float, optional
        Edges of bands of a numeric column.
    known : sequence of str, optional
        Levels of a column without edges; others become "other".

    Returns
    -------
    ndarray of shape (n_rows,)
        None if missing.
    """
    texts, codes = coded(values)
    # Computed once per distinct text: a night may have millions of rows.
    levels = np.empty(len(texts), dtype=object)
    levels[:] = [_level(text, edges, known) for text in texts]
    return levels[codes]


def _level(
    text: str | None, edges: Sequence[float] | None, known: Sequence[str] | None
) -> str | None:
    if text is None:
        return None
    if edges is None:
        is_known = known is None or text in known
        return text if is_known else _OTHER
    number = _as_number(text)
    if number is None:
        return _OTHER
    return _band_names(edges)[bisect_right(edges, number)]


def _band_names(edges: Sequence[float]) -> list[str]:
    """Name the bands between edges, in as many digits as keep the edges distinct."""
    digits = _MIN_DIGITS
    while digits < _MAX_DIGITS:
        distinct = {f"{edge:.{digits}g}" for edge in edges}
        if len(distinct) == len(edges):
            break
        digits += 1
    texts = [f"{edge:.{digits}g}" for edge in edges]
    between = [f"{low} to {high}" for low, high in pairwise(texts)]
    return [f"under {texts[0]}", *between, f"{texts[-1]} and over"]


def _subgroup(
    rows: EvaluatedRows,
    name: str | None,
    is_level: np.ndarray,
    beside_rest: bool = True,
) -> Subgroup:
    """Return the figures of some rows, beside those of all others."""
    figures = figures_in("subgroups")
    level = rows.take(is_level)
    facts = _figures_of_level(level, name, figures)
    if is_level.all() or not beside_rest:
        return facts
    of_rest = evaluate(rows.take(~is_level), figures)
    differences = {}
    ratios = {}
    for figure in figures:
        beside = facts[figure.name], of_rest[figure.name]
        differences[figure.name] = independent_difference(*beside)
        # What may be negative has no ratio.
        if not figure.form.signed:
            ratios[figure.name] = independent_ratio(*beside)
    return facts.replace(to_the_rest=differences, ratio_to_the_rest=ratios)


def _figures_of_level(
    level: EvaluatedRows, name: str | None, figures: Sequence[Figure]
) -> Subgroup:
    """Return the figures of the rows of one level, and the names of those withheld."""
    few = withheld(level, figures)
    n = len(level.scores)
    events = int(level.positive.sum())
    shows_rows = level.may_show("rows")
    shows_cases = level.may_show("cases")
    if not shows_rows:
        few.append("n")
    if not shows_cases:
        few.append("events")
    return Subgroup(
        level=name,
        n=n if shows_rows else None,
        events=events if shows_cases else None,
        few=few,
        figures=evaluate(level, figures),
    )


def _has_enough(rows: EvaluatedRows, is_cell: np.ndarray) -> bool:
    """Return True if enough cases and enough others are among some rows."""
    cell = rows.take(is_cell)
    return cell.may_show("cases") and cell.may_show("others")


@dataclass(frozen=True)
class _LevelsOfColumn:
    """The level of each row in a column of subgroups."""

    edges: list[float] | None
    known: list[str] | None
    level: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> _LevelsOfColumn:
        edges = band_edges(values)
        known = None if edges else _commonest(values)
        return cls(edges, known, levels_of(values, edges, known))

    @property
    def names(self) -> list[str | None]:
        """Levels in the order of the page; missing (None) last."""
        return _ordered_levels(self.level, self.edges)


def performance_by_subgroup(
    subgroups: Columns, rows: EvaluatedRows, rule: Rule | None = None
) -> list[SubgroupFacts]:
    """Return the figures of each level of each column, beside those of all other rows.

    Levels of missing values (None) come last. A figure of too few rows (or groups,
    which are then the independent units) is None, and `few` names it.

    Parameters
    ----------
    subgroups : dict of str to ndarray of shape (n_rows,)
    rows : EvaluatedRows
    rule : Rule, optional
        Rule that chose the threshold; None if it was set by hand.
    """
    facts = []
    for column, values in subgroups.items():
        of_column = _LevelsOfColumn.of(values)
        levels = [
            _subgroup(rows, name, _is_of_level(of_column.level, name))
            for name in of_column.names
        ]
        facts.append(
            SubgroupFacts(
                rule=rule or Threshold(rows.threshold),
                threshold=rows.threshold,
                column=column,
                edges=of_column.edges,
                known=of_column.known,
                rows=levels,
            )
        )
    return facts


def performance_in_cells(
    subgroups: Columns, rows: EvaluatedRows, rule: Rule | None = None
) -> list[CrossedSubgroups]:
    """Return the figures of the cells of each two columns.

    Only of columns with enough patients in all cells, with the condition and without: a
    single cell that is withheld follows from the totals of the levels. More than
    `MAX_CELLS` cells are not listed either, and those of large tables are alone.

    Parameters
    ----------
    subgroups, rows, rule
        As for ``performance_by_subgroup``.
    """
    facts = []
    columns = {name: _LevelsOfColumn.of(values) for name, values in subgroups.items()}
    for first, second in combinations(columns, 2):
        masks = _masks_of_cells(columns[first], columns[second])
        has_enough = [_has_enough(rows, is_cell) for is_cell in masks.values()]
        if len(masks) > MAX_CELLS or not all(has_enough):
            continue
        beside_rest = len(masks) * len(rows.scores) <= MAX_ROWS_BESIDE
        cells = [
            _subgroup(rows, title, is_cell, beside_rest)
            for title, is_cell in masks.items()
        ]
        facts.append(
            CrossedSubgroups(
                rule=rule or Threshold(rows.threshold),
                threshold=rows.threshold,
                columns=(first, second),
                rows=cells,
            )
        )
    return facts


def _commonest(values: np.ndarray) -> list[str]:
    """Return the commonest texts, at most 12."""
    present = [text for text in values if text is not None]
    texts, counts = np.unique(present, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MAX_LEVELS]
    return [str(texts[i]) for i in order]


def _masks_of_cells(
    first: _LevelsOfColumn, second: _LevelsOfColumn
) -> dict[str, np.ndarray]:
    """Return a mask of the rows of each cell of two columns that has any, by title."""
    masks = {}
    for name in first.names:
        is_first = _is_of_level(first.level, name)
        for other_name in second.names:
            is_cell = is_first & _is_of_level(second.level, other_name)
            if is_cell.any():
                masks[f"{name or MISSING}, {other_name or MISSING}"] = is_cell
    return masks


def _is_of_level(level: np.ndarray, name: str | None) -> np.ndarray:
    # Not `level == name`: NumPy compares with None in its own way.
    return np.fromiter([text == name for text in level], dtype=bool)


def _ordered_levels(level: np.ndarray, edges: list[float] | None) -> list[str | None]:
    """Return bands from low to high, other levels by name; "other" and missing last."""
    present = set(level.tolist())
    if edges is None:
        names: list[str | None] = sorted(present - {None, _OTHER})
    else:
        names = [name for name in _band_names(edges) if name in present]
    names += [name for name in (_OTHER, None) if name in present]
    return names


@dataclass
class _LevelCount:
    """Rows of one level, flags among them, and the groups of each batch of them."""

    rows: int = 0
    flagged: int = 0
    groups: tuple[np.ndarray, ...] = ()

    def __add__(self, other: _LevelCount) -> _LevelCount:
        return _LevelCount(
            self.rows + other.rows,
            self.flagged + other.flagged,
            self.groups + other.groups,
        )

    @property
    def units(self) -> int:
        """Number of groups, or of rows that come alone."""
        if not self.groups:
            return self.rows
        return len(np.unique(np.concatenate(self.groups)))


@dataclass
class SubgroupCounts:
    """Counts of rows and flags of a night in the subgroups of training.

    Parameters
    ----------
    described : sequence of SubgroupFacts
        Those of training.
    min_units : int
        Rows, or groups, below which a level is withheld: the contract's `suppress`.
    """

    described: Sequence[SubgroupFacts]
    min_units: int
    counts: dict[tuple[str, str | None], _LevelCount] = field(default_factory=dict)

    def add(
        self, subgroups: Columns, flagged: np.ndarray, groups: np.ndarray | None = None
    ) -> None:
        """Count the rows of one batch.

        Parameters
        ----------
        subgroups : dict of str to ndarray of shape (n_rows,)
        flagged : bool ndarray of shape (n_rows,)
        groups : ndarray of shape (n_rows,), optional
            Group of each row, an independent unit.
        """
        for entry in self.described:
            texts, codes = coded(subgroups[entry.column])
            rows = np.bincount(codes)
            hits = np.bincount(codes, weights=flagged)
            for code, text in enumerate(texts):
                key = entry.column, _level(text, entry.edges, entry.known)
                of_level: tuple[np.ndarray, ...] = ()
                if groups is not None:
                    of_level = (np.unique(groups[codes == code]),)
                count = _LevelCount(int(rows[code]), int(hits[code]), of_level)
                self._add_level(key, count)

    def __add__(self, other: SubgroupCounts) -> SubgroupCounts:
        total = replace(self, counts=dict(self.counts))
        for key, count in other.counts.items():
            total._add_level(key, count)
        return total

    def _add_level(self, key: tuple[str, str | None], count: _LevelCount) -> None:
        self.counts[key] = self.counts.get(key, _LevelCount()) + count

    def facts(self) -> list[NightSubgroup]:
        """Return rows and flag rate of each level, None for too few units."""
        facts = []
        for (column, level), count in self.counts.items():
            subgroup = NightSubgroup(column=column, level=level, n=None, flag_rate=None)
            if is_enough(count.units, self.min_units):
                rate = count.flagged / count.rows
                subgroup = subgroup.replace(n=count.rows, flag_rate=rate)
            facts.append(subgroup)

        def in_order(row: NightSubgroup) -> tuple[str, bool, str]:
            return row.column, row.level is None, row.level or ""

        return sorted(facts, key=in_order)
