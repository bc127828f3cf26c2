"""Performance and flag rates in subgroups; figures of too few patients are withheld."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from screening.io.columns import Columns, coded
from screening.metrics.intervals import independent_difference, weighted_share
from screening.metrics.performance import UNDEFINED
from screening.metrics.ranking import auroc_with_interval
from screening.metrics.tally import ThresholdCounts, group_codes, rate_at_last
from screening.schemas.base import Estimate
from screening.schemas.figures import Rule, Threshold
from screening.schemas.run import NightSubgroup
from screening.schemas.validation import Level, SubgroupFacts

# Rows, or groups, below which a figure is withheld by default.
FEWEST = 5
# Figures that are compared with those of all other rows.
COMPARED = ("sensitivity", "specificity", "ppv", "auroc")
# Levels of a column; further ones are called "other".
_MAX_LEVELS = 12
_OTHER = "other"
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
    quartiles = np.quantile(np.array(numbers, dtype=float), [0.25, 0.5, 0.75])
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
    return _band_names(edges)[int(np.searchsorted(edges, number, side="right"))]


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


def performance_by_subgroup(
    subgroups: Columns,
    scores: np.ndarray,
    positive: np.ndarray,
    threshold: float,
    groups: np.ndarray | None = None,
    share: float | None = None,
    rule: Rule | None = None,
    fewest: int = FEWEST,
) -> list[SubgroupFacts]:
    """Return the figures of each level of each column, beside those of all other rows.

    Levels of missing values (None) come last. A figure of fewer than `fewest` rows (or
    groups, which are then the independent units) is None, and `few` names it.

    Parameters
    ----------
    subgroups : dict of str to ndarray of shape (n_rows,)
    scores : ndarray of shape (n_rows,)
        Held-out.
    positive : bool ndarray of shape (n_rows,)
    threshold : float
    groups : ndarray of shape (n_rows,), optional
    share : float, optional
        Share of positives of the table for which flag rates hold, if the rows are a
        sample with more of them.
    rule : Rule, optional
        Rule that chose the threshold; None if it was set by hand.
    fewest : int
    """
    sample_share = float(np.mean(positive))
    table_share = sample_share if share is None else share
    weight = np.ones(len(scores))
    if positive.any():
        weight = np.where(
            positive, table_share / sample_share, (1 - table_share) / (1 - sample_share)
        )
    facts = []
    for column, values in subgroups.items():
        edges = band_edges(values)
        known = None if edges else _commonest(values)
        level = levels_of(values, edges, known)
        levels = []
        for name in _ordered_levels(level, edges):
            is_level = _is_of_level(level, name)
            sides = [is_level]
            if not is_level.all():
                sides.append(~is_level)
            # The level, and all other rows if there are any.
            both = [
                _level_facts(
                    name,
                    scores[rows],
                    positive[rows],
                    weight[rows],
                    threshold,
                    None if groups is None else groups[rows],
                    fewest,
                )
                for rows in sides
            ]
            levels.append(both[0].replace(to_the_rest=_differences(*both)))
        facts.append(
            SubgroupFacts(
                rule=rule or Threshold(threshold),
                threshold=threshold,
                column=column,
                edges=edges,
                known=known,
                rows=levels,
            )
        )
    return facts


def _differences(of_level: Level, of_rest: Level | None = None) -> dict[str, Estimate]:
    """Return the figures of a level minus those of all other rows, by name."""
    if of_rest is None:
        return {}
    differences = {}
    for figure in COMPARED:
        differences[figure] = independent_difference(
            getattr(of_level, figure), getattr(of_rest, figure)
        )
    return differences


def _commonest(values: np.ndarray) -> list[str]:
    """Return the commonest texts, at most 12."""
    present = [text for text in values if text is not None]
    texts, counts = np.unique(present, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MAX_LEVELS]
    return [str(texts[i]) for i in order]


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


def _level_facts(
    level: str | None,
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    threshold: float,
    groups: np.ndarray | None,
    fewest: int,
) -> Level:
    codes = group_codes(groups)
    thresholds = np.array([-np.inf, threshold])
    counts = ThresholdCounts(scores, positive, codes, thresholds)
    n_events = counts.n_units(positive)
    n_others = counts.n_units(~positive)
    few: list[str] = []
    sensitivity = UNDEFINED
    specificity = UNDEFINED
    if n_events < fewest:
        few.append("sensitivity")
    else:
        sensitivity = Estimate(*rate_at_last(counts, True))
    if n_others < fewest:
        few.append("specificity")
    else:
        specificity = Estimate(*rate_at_last(counts, False))
    enough = counts.n_units(np.ones(len(scores), dtype=bool)) >= fewest
    if not enough:
        few += ["n", "flag_rate"]
    if n_events < fewest:
        few.append("events")
    auroc = UNDEFINED
    if min(n_events, n_others) >= fewest:
        auroc = Estimate(*auroc_with_interval(scores, positive, codes, 1.0))
    flag_rate = float(np.average(scores >= threshold, weights=weight))
    return Level(
        level=level,
        n=len(scores) if enough else None,
        events=None if n_events < fewest else int(positive.sum()),
        few=few,
        flag_rate=flag_rate if enough else None,
        sensitivity=sensitivity,
        specificity=specificity,
        auroc=auroc,
        ppv=_ppv(scores >= threshold, positive, weight, codes, fewest),
    )


def _ppv(
    flagged: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None,
    fewest: int,
) -> Estimate:
    """Return the share of cases among the flagged, at the prevalence of the table."""
    units = np.arange(len(flagged)) if codes is None else codes
    if len(np.unique(units[flagged])) < fewest:
        return UNDEFINED
    share = weighted_share(positive[flagged], weight[flagged], units[flagged])
    return Estimate(*share)


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
        return len(np.unique(np.concatenate(self.groups))) if self.groups else self.rows


@dataclass
class SubgroupCounts:
    """Counts of rows and flags of a night in the subgroups of training.

    Parameters
    ----------
    described : sequence of SubgroupFacts
        Those of training.
    """

    described: Sequence[SubgroupFacts]
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
                self.counts[key] = self.counts.get(key, _LevelCount()) + count

    def __add__(self, other: SubgroupCounts) -> SubgroupCounts:
        total = SubgroupCounts(self.described, dict(self.counts))
        for key, count in other.counts.items():
            total.counts[key] = total.counts.get(key, _LevelCount()) + count
        return total

    def facts(self) -> list[NightSubgroup]:
        """Return rows and flag rate of each level, None for fewer than 5 units."""
        facts = []
        for (column, level), count in self.counts.items():
            enough = count.units >= FEWEST
            facts.append(
                NightSubgroup(
                    column=column,
                    level=level,
                    n=count.rows if enough else None,
                    flag_rate=count.flagged / count.rows if enough else None,
                )
            )
        return sorted(
            facts, key=lambda row: (row.column, row.level is None, row.level or "")
        )
