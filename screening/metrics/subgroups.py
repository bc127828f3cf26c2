"""How well the model does in subgroups, and whom it flags there; what too few patients tell is withheld."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from screening.io.columns import Columns, coded
from screening.metrics.performance import UNDEFINED
from screening.metrics.tally import Tally, group_codes, rate_at_last
from screening.schemas.base import Estimate
from screening.schemas.figures import Rule, Threshold
from screening.schemas.run import NightSubgroup
from screening.schemas.validation import Level, SubgroupFacts

FEWEST = 5
MOST_LEVELS = 12
OTHER = "other"


def banded(values: np.ndarray) -> list[float] | None:
    """Quartiles to cut a column of many different numbers by; None where its texts are levels themselves."""
    given = [text for text in values if text is not None]
    if len(set(given)) <= MOST_LEVELS:
        return None
    numbers = [_number(text) for text in given]
    if None in numbers:
        return None
    return np.unique(
        np.quantile(np.array(numbers, dtype=float), [0.25, 0.5, 0.75])
    ).tolist()


def _number(text: str) -> float | None:
    """The finite number that a text is; "nan" and "inf" are texts like others."""
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
    """The level of each row as text; None where it is missing, "other" where it is not among `known`."""
    texts, codes = coded(values)
    # Asked once a distinct text: a night may have millions of rows.
    levels = np.empty(len(texts), dtype=object)
    levels[:] = [_level(text, edges, known) for text in texts]
    return levels[codes]


def _level(
    text: str | None, edges: Sequence[float] | None, known: Sequence[str] | None
) -> str | None:
    if text is None:
        return None
    if edges is None:
        return text if known is None or text in known else OTHER
    number = _number(text)
    return (
        OTHER
        if number is None
        else _bands(edges)[int(np.searchsorted(edges, number, side="right"))]
    )


def _bands(edges: Sequence[float]) -> list[str]:
    """Names of the bands between the edges, from low to high, in as many digits as tell the edges apart."""
    digits = next(
        (
            n
            for n in range(6, 17)
            if len({f"{edge:.{n}g}" for edge in edges}) == len(edges)
        ),
        17,
    )
    ends = [f"{edge:.{digits}g}" for edge in edges]
    return [
        f"under {ends[0]}",
        *(f"{a} to {b}" for a, b in pairwise(ends)),
        f"{ends[-1]} and over",
    ]


def performance_by_subgroup(
    subgroups: Columns,
    scores: np.ndarray,
    positive: np.ndarray,
    threshold: float,
    groups: np.ndarray | None = None,
    share: float | None = None,
    rule: Rule | None = None,
) -> list[SubgroupFacts]:
    """Sensitivity, specificity and flag rate a level of each subgroup column, from held-out scores.

    Levels of missing values (None) come last. Where fewer than 5 rows (or groups, which then are the
    independent observations) stand behind a number it is None, and `few` names it. Flag rates are those of a
    table with this `share` of positives, where the rows are a sample that holds more of them. `rule` chose
    the threshold; None where it is somebody's own.
    """
    own = float(np.mean(positive))
    whole = own if share is None else share
    weight = np.where(positive, whole / own, (1 - whole) / (1 - own))
    described = []
    for column, values in subgroups.items():
        edges = banded(values)
        known = None if edges else _commonest(values)
        level = levels_of(values, edges, known)
        rows = [
            _of_level(
                name,
                scores[rows],
                positive[rows],
                weight[rows],
                threshold,
                None if groups is None else groups[rows],
            )
            for name, rows in (
                (name, _at(level, name)) for name in _ordered(level, edges)
            )
        ]
        own_rule = rule or Threshold(threshold)
        described.append(
            SubgroupFacts(
                rule=own_rule,
                threshold=threshold,
                column=column,
                edges=edges,
                known=known,
                rows=rows,
            )
        )
    return described


def _commonest(values: np.ndarray) -> list[str]:
    given, counts = np.unique(
        [text for text in values if text is not None], return_counts=True
    )
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return [str(given[i]) for i in order]


def _at(level: np.ndarray, name: str | None) -> np.ndarray:
    # Not level == name: NumPy compares with None in its own way.
    return np.flatnonzero(
        np.fromiter((text == name for text in level), dtype=bool, count=len(level))
    )


def _ordered(level: np.ndarray, edges: list[float] | None) -> list[str | None]:
    """Bands from low to high, other levels by name; "other" and missing last."""
    present = set(level.tolist())
    names = sorted(present - {None, OTHER})
    if edges is not None:
        names = [name for name in _bands(edges) if name in present]
    return [
        *names,
        *([OTHER] if OTHER in present else []),
        *([None] if None in present else []),
    ]


def _of_level(
    level: str | None,
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    threshold: float,
    groups: np.ndarray | None,
) -> Level:
    codes = group_codes(groups)
    tally = Tally(scores, positive, codes, np.array([-np.inf, threshold]))
    events, others = tally.n_units(positive), tally.n_units(~positive)
    few: list[str] = []
    rates: dict[str, Estimate] = {}
    for name, of_positives, units in (
        ("sensitivity", True, events),
        ("specificity", False, others),
    ):
        if units < FEWEST:
            few.append(name)
        rates[name] = (
            Estimate(*rate_at_last(tally, of_positives))
            if units >= FEWEST
            else UNDEFINED
        )
    enough = tally.n_units(np.ones(len(scores), dtype=bool)) >= FEWEST
    if not enough:
        few += ["n", "flag_rate"]
    if events < FEWEST:
        few.append("events")
    rate = float(np.average(scores >= threshold, weights=weight))
    return Level(
        level=level,
        n=len(scores) if enough else None,
        events=None if events < FEWEST else int(positive.sum()),
        few=few,
        flag_rate=rate if enough else None,
        **rates,
    )


@dataclass
class _Counted:
    """Rows, flags among them, and what is one independent observation."""

    rows: int = 0
    flagged: int = 0
    groups: set[object] = field(default_factory=set)


@dataclass
class SubgroupCounts:
    """Rows and flags of a night in the subgroups that training knows, batch by batch."""

    described: Sequence[SubgroupFacts]
    counts: dict[tuple[str, str | None], _Counted] = field(default_factory=dict)

    def add(
        self, subgroups: Columns, flagged: np.ndarray, groups: np.ndarray | None = None
    ) -> None:
        """Count in one batch; `groups` are what is one independent observation."""
        for entry in self.described:
            texts, codes = coded(subgroups[entry.column])
            rows, hits = np.bincount(codes), np.bincount(codes, weights=flagged)
            for code, text in enumerate(texts):
                key = entry.column, _level(text, entry.edges, entry.known)
                count = self.counts.setdefault(key, _Counted())
                count.rows += int(rows[code])
                count.flagged += int(hits[code])
                if groups is not None:
                    count.groups.update(groups[codes == code])

    def facts(self) -> list[NightSubgroup]:
        """Rows and flag rate a level tonight, withheld where fewer than 5 rows (or groups) tell them."""
        facts = []
        for (column, level), count in self.counts.items():
            enough = (len(count.groups) or count.rows) >= FEWEST
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
