"""Is tonight's table of the kind the model was trained on, and like the nights of its own series?

Training stores a small profile; the pass over a night's table counts on its bins, so memory does not grow
with the table. Every alarm is a test against chance at the night's own size, all together at `ALARMS`.

A ward is not the mean of the wards that a model learned from, and says so every night: nobody can act on it.
From twenty nights on another table than this ward's own is the alarm. What is kept of a night are counts on
bins of training's quantiles: no value, no category that training never had, nobody's id.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.io.columns import Columns, absent, count_rows
from screening.monitoring import tests
from screening.monitoring.tests import effective_units, ks, psi, total_variation
from screening.monitoring.units import UnitShift, conversions_of, unit_shift
from screening.schemas.base import Reason
from screening.schemas.model import NumberProfile, Profile, TextProfile
from screening.schemas.reasons import (
    MISSING_MORE,
    OUTSIDE_RANGE,
    UNIT_CHANGED,
    UNSEEN_CATEGORY,
    VALUES_DIFFER,
    ReasonKind,
)
from screening.schemas.run import FeatureDrift

STEPS, TENTHS = 50, 10
MOST_CATEGORIES = 1000
MOST_UNSEEN = 1000
MOST_SAMPLED = 512
BINS = 20
"""Of a column, as a night is compared and the ledger keeps it."""
N_SHARES = 4
"""Of a column's counts: rows, those with a value, of an unseen category and outside training's range."""


def profile(
    features: Columns, contract: Contract, groups: np.ndarray | None = None
) -> Profile:
    """What a night is compared with: counts of the training rows on bins of their own quantiles.

    `features`: typed columns, before any normalisation within groups; `groups`, shape (n_rows,): rows of one
    are alike, so groups, not rows, tell how sure a difference is.
    """
    n_rows = count_rows(features)
    units = (
        n_rows
        if groups is None
        else effective_units(np.unique(groups, return_counts=True)[1])
    )
    described: dict[str, NumberProfile | TextProfile] = {}
    for name, feature in contract.features.items():
        values = features[name]
        if feature.type == "number":
            described[name] = _numbers(values)
        else:
            ordered = sorted(
                texts(values).items(), key=lambda item: (-item[1], item[0])
            )
            described[name] = TextProfile(
                counts=dict(ordered[:MOST_CATEGORIES]),
                more=sum(n for _, n in ordered[MOST_CATEGORIES:]),
            )
    return Profile(n_rows=n_rows, n_units=units, features=described)


def _numbers(values: np.ndarray) -> NumberProfile:
    values = values[np.isfinite(values)]
    if not values.size:
        return NumberProfile(edges=(), counts=(0,), range=None)
    # Data values as edges, right-closed: then no bin is empty.
    edges = np.unique(
        np.quantile(values, np.arange(1, STEPS) / STEPS, method="inverted_cdf")
    )
    edges = edges[edges < values.max()]
    return NumberProfile(
        edges=edges.tolist(),
        counts=binned(values, edges).tolist(),
        range=(float(values.min()), float(values.max())),
    )


def binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values each right-closed bin holds, shape (n_edges + 1,)."""
    # Sorting the values takes less time than searching the edges for each.
    ends = np.searchsorted(np.sort(values), edges, side="right")
    return np.diff(ends, prepend=0, append=len(values))


def texts(values: np.ndarray) -> dict[str, int]:
    """How often each text, or code written as text, occurs; missing ones apart."""
    counted = Counter(values[~absent(values)].tolist())
    return {
        f"{value:g}" if isinstance(value, float) else value: n
        for value, n in counted.items()
    }


def steps(counts: ArrayLike, n_steps: int) -> np.ndarray:
    """Which of `n_steps` equal shares of the training rows each bin lies in, shape (n_bins,)."""
    counted = np.asarray(counts, float)
    share = counted / max(counted.sum(), 1.0)
    middle = np.cumsum(share) - share / 2
    return np.unique(
        np.minimum((middle * n_steps).astype(int), n_steps - 1), return_inverse=True
    )[1].ravel()


@dataclass(frozen=True)
class SampledValues:
    """Values of a column at every k-th row; samples of consecutive rows add up.

    Parameters
    ----------
    most : int
        Largest number of values.
    rows : ndarray of int, shape (n,)
        Rows of the values, counted from 0: multiples of `step`.
    values : ndarray, shape (n,)
    step : int
        k, the smallest power of two that leaves at most `most` values.
    """

    most: int
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    step: int = 1

    @classmethod
    def of(cls, most: int, rows: np.ndarray, values: np.ndarray) -> SampledValues:
        """Return a sample of these values, ascending in their rows."""
        return cls(most, rows, values)._thinned(1)

    def __add__(self, other: SampledValues) -> SampledValues:
        rows = np.concatenate([self.rows, other.rows])
        values = np.concatenate([self.values, other.values])
        joined = SampledValues(self.most, rows, values)
        return joined._thinned(max(self.step, other.step))

    def _thinned(self, step: int) -> SampledValues:
        rows, values = self.rows, self.values
        while True:
            is_kept = rows & (step - 1) == 0
            rows, values = rows[is_kept], values[is_kept]
            if len(rows) <= self.most:
                return SampledValues(self.most, rows, values, step)
            step *= 2


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of one column in some rows; counts of consecutive rows add up.

    Parameters
    ----------
    n_rows : int
    present : int
        Rows with a value, one of an unseen category included.
    outside : int
        Rows with a number outside the range of training.
    bins : ndarray of int, shape (n_bins,)
        Rows in each bin of the training profile.
    unseen : Counter
        Rows of each category that training never had; "" for those beyond
        `MOST_UNSEEN`.
    sample : SampledValues
        Of numbers.
    """

    n_rows: int
    present: int
    outside: int
    bins: np.ndarray
    unseen: Counter[str]
    sample: SampledValues

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        return ColumnCounts(
            self.n_rows + other.n_rows,
            self.present + other.present,
            self.outside + other.outside,
            self.bins + other.bins,
            _first_texts(self.unseen + other.unseen),
            self.sample + other.sample,
        )


def _first_texts(counts: Counter[str]) -> Counter[str]:
    """Keep the first `MOST_UNSEEN` texts in alphabetical order; "" counts the others.

    A text that is kept of a sum was kept of each of its terms, so its count is whole.
    """
    texts = sorted(text for text in counts if text)
    for text in texts[MOST_UNSEEN:]:
        counts[""] += counts.pop(text)
    return counts


class Column:
    """What training knew of a feature, and what the night holds so far.

    `counted`: counts of tonight; `known`: texts that are nothing new, with their bins,
    a missing one too.
    """

    def __init__(self, past: NumberProfile | TextProfile, n_rows_past: int):
        self.past, self.numeric = past, isinstance(past, NumberProfile)
        self.known: dict[str | None, int] = {None: -1}
        self.more = 0
        if isinstance(past, NumberProfile):
            bins = [*past.counts]
        else:
            bins, self.more = [*past.counts.values()], past.more
            self.known |= {text: i for i, text in enumerate(past.counts)}
        self.expected = np.array(bins, dtype=float)
        # At most `BINS` bins: shares of the training rows, or the most frequent categories.
        most_frequent = np.minimum(np.arange(len(bins)), BINS - 1)
        self.place = steps(self.expected, BINS) if self.numeric else most_frequent
        past_bins = np.bincount(self.place, self.expected).astype(int)
        self.training = np.array([n_rows_past, sum(bins) + self.more, 0, 0, *past_bins])
        no_rows = np.zeros(0, dtype=np.int64)
        self.counted = self.count(np.zeros(0), no_rows)

    def tonight(self) -> np.ndarray:
        """The counts of `N_SHARES`, and then the bins; `training` has the same of training."""
        counted = self.counted
        bins = np.bincount(self.place, counted.bins).astype(int)
        n_unseen = counted.unseen.total()
        return np.array(
            [counted.n_rows, counted.present, n_unseen, counted.outside, *bins]
        )

    def count(
        self, values: np.ndarray, rows: np.ndarray, n_unlisted: int = 0
    ) -> ColumnCounts:
        """Count the typed values of some rows.

        `rows`: numbers of the rows, from 0. `n_unlisted`: rows with a text that an
        ordinal does not list, which has no code and is not among the values.
        """
        if isinstance(self.past, NumberProfile):
            return self._count_numbers(self.past, values, rows)
        bins = np.zeros(len(self.expected), dtype=np.int64)
        unseen: Counter[str] = Counter()
        present = n_unlisted
        for text, n in texts(values).items():
            present += n
            if text in self.known:
                bins[self.known[text]] += n
            elif not self.more:
                unseen[text] += n
        if n_unlisted:
            unseen[""] += n_unlisted
        sample = SampledValues(MOST_SAMPLED)
        return ColumnCounts(len(values), present, 0, bins, _first_texts(unseen), sample)

    def _count_numbers(
        self, past: NumberProfile, values: np.ndarray, rows: np.ndarray
    ) -> ColumnCounts:
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        bins = binned(finite, np.asarray(past.edges, float))
        outside = 0
        if past.range:
            low, high = past.range
            outside = int(np.count_nonzero((finite < low) | (finite > high)))
        sample = SampledValues.of(MOST_SAMPLED, rows[is_finite], finite)
        return ColumnCounts(len(values), finite.size, outside, bins, Counter(), sample)

    def distance(self, past: np.ndarray, now: np.ndarray) -> float | None:
        """Largest difference of shares: of cumulative ones for numbers, of any set of known categories."""
        return ks(past, now) if self.numeric else total_variation(past, now)

    def index(self) -> float | None:
        """PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            place = steps(self.expected, TENTHS)
            return psi(
                np.bincount(place, self.expected),
                np.bincount(place, self.counted.bins),
            )
        return psi(
            np.append(self.expected, self.more),
            np.append(self.counted.bins, self.counted.unseen.total()),
        )


# Of nights from the population of training at most the sum of these raise any alarm: one in a hundred.
ALARMS = {
    "values": 0.004,
    "missing": 0.003,
    "unseen": 0.002,
    "outside": 0.0005,
    "units": 0.0005,
}
# A conversion is looked for only where values differ at least so surely.
DIFFERS = 0.001
# Beside the test, what is worth a word.
WORTH_SAYING = 0.1
SHARES = {
    "missing": (MISSING_MORE, "without a value", 0.05),
    "unseen": (UNSEEN_CATEGORY, "with a category never seen in training", 0.0),
    "outside": (OUTSIDE_RANGE, "outside the training range", 0.02),
}
"""By gate: the kind of reason, its words, and the difference of shares that is worth a word."""
LEAST, WINDOW = 20, 56
"""Nights from which on a series has its own reference, and of how many of the last it is made."""
STAY_UNKNOWN = 0.9
"""Share of patients taken to be there on the next night too, where no column names them."""


@dataclass(frozen=True)
class Reference:
    """What a night's columns are held against: training, or the last nights of the series.

    `where`: in words. `columns`: counts as `Column.tonight` has them. `worth`: what one of its rows is worth
    in independent ones.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    worth: float
    remedy: str


def own_nights(counts: Sequence[Mapping[str, Any]], worth: float) -> Reference:
    """The last nights of a series, summed, as `Gates.counts` gave each."""
    names = counts[0]["columns"]
    return Reference(
        f"on this series' last {len(counts)} nights",
        {
            name: np.sum([night["columns"][name] for night in counts], axis=0)
            for name in names
        },
        worth,
        "Ask the source of the column what has changed since the nights before.",
    )


def independent(stay: float | None) -> float:
    """What a patient's row is worth where so many stay: nights are alike like those of a Markov chain.

    `stay`: share that is there on the next night too; None where nobody is recognised.
    """
    share = STAY_UNKNOWN if stay is None else stay
    return (1 - share) / (1 + share)


@dataclass(frozen=True)
class GateCounts:
    """Counts of some rows against a training profile; of consecutive rows they add up.

    Parameters
    ----------
    columns : mapping from str to ColumnCounts
        By feature.
    groups : tuple of pyarrow.Table
        Tables of `group` and `rows`: how many rows each group has.
    """

    columns: Mapping[str, ColumnCounts]
    groups: tuple[pa.Table, ...]

    def __add__(self, other: GateCounts) -> GateCounts:
        columns = {
            name: counts + other.columns[name] for name, counts in self.columns.items()
        }
        return GateCounts(columns, self.groups + other.groups)


class Gates:
    """Counts a night's rows against a training profile; features that it does not know are let through."""

    def __init__(self, past: Profile, contract: Contract):
        self.contract, self.past = contract, past
        self.groups: tuple[pa.Table, ...] = ()
        names = [name for name in contract.features if name in past.features]
        self.columns = {
            name: Column(past.features[name], past.n_rows) for name in names
        }
        self.training = Reference(
            "in training",
            {name: column.training for name, column in self.columns.items()},
            min(1.0, past.n_units / max(past.n_rows, 1)),
            "Check the source of the column; where the difference is meant, train again on rows like "
            "tonight's.",
        )
        # Scale and centre of the others are taken out before scoring.
        self.measured = {
            name for name in names if contract.features[name].normalise is None
        }
        self.numbers = [
            name
            for name in names
            if name in self.measured and self.columns[name].numeric
        ]
        concerned = {"missing": len(names), "values": len(self.measured)}
        concerned["unseen"] = sum(
            not column.numeric for column in self.columns.values()
        )
        # The chance one column may have of a false alarm, so that all together keep to `ALARMS`.
        self.allowed = {
            gate: chance / max(concerned.get(gate, len(self.numbers)), 1)
            for gate, chance in ALARMS.items()
        }

    def count(
        self,
        features: Columns,
        rows: np.ndarray,
        groups: np.ndarray | None = None,
        unlisted: Mapping[str, np.ndarray] | None = None,
    ) -> GateCounts:
        """Count the rows of one block, before normalisation.

        `rows`: numbers of the rows, from 0; `unlisted`: by feature the rows with a text
        that the contract does not list.
        """
        columns = {}
        for name, column in self.columns.items():
            n_unlisted = 0
            ordinal = self.contract.features[name].type == "ordinal"
            if unlisted and name in unlisted and ordinal:
                n_unlisted = int(np.count_nonzero(unlisted[name]))
            columns[name] = column.count(features[name], rows, n_unlisted)
        if groups is None:
            return GateCounts(columns, ())
        counted = pa.table({"group": pa.array(groups)}).group_by("group")
        sizes = counted.aggregate([([], "count_all")]).rename_columns(["group", "rows"])
        return GateCounts(columns, (sizes,))

    def add(self, counts: GateCounts) -> None:
        """Take in the counts of further rows."""
        self.__dict__.pop("shifts", None)
        self.groups += counts.groups
        for name, column in self.columns.items():
            column.counted += counts.columns[name]

    def unseen_rows(self, features: Columns) -> dict[str, np.ndarray]:
        """Per category feature the rows whose text no training row had, as masks."""
        return {
            name: np.array(
                [text not in column.known for text in features[name].tolist()],
                dtype=bool,
            )
            for name, column in self.columns.items()
            if self.contract.features[name].type == "category" and not column.more
        }

    def stops(self) -> list[Reason]:
        """Reasons not to score at all: columns in other units than the model's, by contract."""
        return [
            _unit_changed(name, shift)
            for name, shift in self.shifts.items()
            if shift.sure and self.contract.policy("on_unit_change", name) == "stop"
        ]

    def notes(self) -> list[str]:
        """What is worth counting aloud and is no alarm: rows of unseen categories that are scored."""
        return [
            f"{name}: {unseen} row{'s' * (unseen != 1)} with a category never seen in training, scored as "
            "unknown"
            for name, column in self.columns.items()
            if (unseen := column.counted.unseen.total())
            and self.contract.policy("on_unseen", name) == "unknown"
        ]

    def attention(self, own: Reference | None = None) -> list[Reason]:
        """Reasons to distrust tonight's scores; empty on 99 of 100 nights like those of the reference.

        `own`: the series' own nights in place of training. A column that is in other units, surely or in some
        rows, is an alarm whatever the nights before were: the model reads wrong numbers.
        """
        reasons = list[Reason]()
        for name in self.columns:
            shift = self.shifts.get(name)
            if (
                shift is not None
                and own is not None
                and not shift.sure
                and shift.share == 1
            ):
                shift = None
            reasons += [] if shift is None else [_unit_changed(name, shift)]
            reasons += self._differences(
                own or self.training, name, name in self.measured and shift is None
            )
        return reasons

    def counts(self) -> dict[str, Any]:
        """What a night's features count, and a digest of the training whose bins they are counted on."""
        return {
            "bins": hashlib.sha256(
                json.dumps(self.past.to_dict()).encode()
            ).hexdigest()[:16],
            "columns": {
                name: column.tonight().tolist() for name, column in self.columns.items()
            },
        }

    def facts(self) -> dict[str, FeatureDrift]:
        """Every feature beside training."""
        differences = {
            name: self._differences(self.training, name, True) for name in self.measured
        }
        return {
            name: FeatureDrift(
                psi=column.index(),
                ks=column.distance(column.expected, column.counted.bins),
                outside=column.counted.outside / max(column.counted.present, 1),
                unseen=column.counted.unseen.total(),
                normalised=name not in self.measured,
                alarm=any(
                    reason.code == "values_differ"
                    for reason in differences.get(name, ())
                ),
            )
            for name, column in self.columns.items()
        }

    @property
    def worth(self) -> float:
        """What a row of tonight is worth in independent ones."""
        if not self.groups:
            return 1.0
        sizes = (
            pa.concat_tables(self.groups).group_by("group").aggregate([("rows", "sum")])
        )
        rows = sizes["rows_sum"].to_numpy()
        return tests.effective_units(rows) / int(rows.sum())

    @cached_property
    def shifts(self) -> dict[str, UnitShift]:
        """Of numbers the conversion that explains their values better than an honest difference would."""
        shifts = {}
        for name in self.numbers:
            column = self.columns[name]
            rows, rows_past = (
                column.counted.present * self.worth,
                column.expected.sum() * self.training.worth,
            )
            distance = column.distance(column.expected, column.counted.bins)
            if distance is not None and isinstance(column.past, NumberProfile):
                shifts[name] = unit_shift(
                    column.counted.sample.values,
                    column.past,
                    conversions_of(name, self.contract.features[name].unit),
                    night_units=rows,
                    chance=self.allowed["units"],
                    differs=tests.other_distribution(distance, rows, rows_past)
                    < DIFFERS,
                )
        return {name: shift for name, shift in shifts.items() if shift is not None}

    def _differences(self, past: Reference, name: str, values: bool) -> list[Reason]:
        """In what a column differs from a reference by more than chance; `values`: in its values too."""
        column, now, before = (
            self.columns[name],
            self.columns[name].tonight(),
            past.columns[name],
        )
        # By gate, of how many rows how many it counts.
        shares, shares_before = (
            {
                "missing": (rows - present, rows),
                "unseen": (unseen, present),
                "outside": (outside, present),
            }
            for rows, present, unseen, outside in (
                now[:N_SHARES].tolist(),
                before[:N_SHARES].tolist(),
            )
        )
        differences = list[
            tuple[str, ReasonKind, str, float]
        ]()  # Gate, kind of reason, words, and how likely by chance.
        for gate, (kind, words, least) in SHARES.items():
            (events, rows), (earlier, rows_before) = shares[gate], shares_before[gate]
            # Categories and range are training's own.
            usual, own = (
                earlier / max(rows_before, 1),
                past is self.training and gate != "missing",
            )
            if (
                not events
                or events / rows - usual < least
                or (gate == "outside" and not values)
            ):
                continue
            counts = (
                events * self.worth,
                rows * self.worth,
                earlier * past.worth,
                rows_before * past.worth,
            )
            if own and gate == "unseen":
                unseen = [n * self.worth for n in column.counted.unseen.values()]
                p = tests.never_seen(unseen, column.expected * past.worth, counts[1])
            else:
                p = (
                    tests.outside(counts[0], counts[1], counts[3])
                    if own
                    else tests.more_often(*counts)
                )
            beside = "" if own else f", {past.where} {usual:.0%}"
            differences.append(
                (gate, kind, f"{events} of {rows} rows {words}{beside}", p)
            )
        bins, bins_before = now[N_SHARES:] * self.worth, before[N_SHARES:] * past.worth
        distance = column.distance(bins_before, bins) or 0.0
        if values and distance >= WORTH_SAYING:
            if column.numeric:
                p = tests.other_distribution(distance, bins.sum(), bins_before.sum())
            else:
                p = tests.other_shares(bins, bins_before)
            words = f"distributed otherwise than {past.where} (distance {distance:.2f})"
            differences.append(("values", VALUES_DIFFER, words, p))
        return [
            kind(
                column=name,
                figure=p,
                threshold=self.allowed[gate],
                description=words,
                remedy=past.remedy,
            )
            for gate, kind, words, p in differences
            if p < self.allowed[gate]
        ]


def _unit_changed(name: str, shift: UnitShift) -> Reason:
    """Return the reason that a column is in another unit than in training."""
    conversion = shift.conversion
    if conversion.after:
        units = f"in {conversion.after} instead of {conversion.before}"
    else:
        units = "in another unit"
    if shift.share < 1:
        description = (
            f"in {shift.share:.0%} of the rows the values look {units} "
            f"({conversion.words})"
        )
    elif shift.sure:
        description = f"the values look {units} ({conversion.words})"
    else:
        description = (
            f"the values may be {units} ({conversion.words}), or those of quite other "
            "patients"
        )
    # A conversion that is never certain has no bound, and JSON no infinity.
    bound = shift.bound if np.isfinite(shift.bound) else None
    return UNIT_CHANGED(
        column=name, figure=shift.ratio, threshold=bound, description=description
    )
