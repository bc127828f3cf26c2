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
    return np.bincount(
        np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1
    )


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


@dataclass
class SampledValues:
    """Every k-th value of a column, k doubling as the table grows; `most` at the most."""

    most: int
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    _step: int = 1
    _seen: int = 0

    def add(self, values: np.ndarray) -> None:
        """Take in finite values in the order of the table."""
        self.values = np.concatenate(
            [self.values, values[-self._seen % self._step :: self._step]]
        )
        self._seen += values.size
        while self.values.size > self.most:
            self.values = self.values[::2]
            self._step *= 2


class Column:
    """What training knew of a feature, and what the night holds so far.

    `present`: rows of tonight with a value, one of an unseen category included; `known`: texts that are
    nothing new, with their bins, a missing one too; `unseen`: rows of each category that training never had.
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
        self.counts = np.zeros(len(bins), dtype=np.int64)
        self.n_rows = self.present = self.outside = 0
        self.unseen: Counter[str] = Counter()
        self.sample = SampledValues(MOST_SAMPLED)

    def tonight(self) -> np.ndarray:
        """The counts of `N_SHARES`, and then the bins; `training` has the same of training."""
        bins = np.bincount(self.place, self.counts).astype(int)
        return np.array(
            [self.n_rows, self.present, self.unseen.total(), self.outside, *bins]
        )

    def add(self, values: np.ndarray) -> None:
        """Count the typed values of one batch."""
        self.n_rows += len(values)
        if isinstance(self.past, NumberProfile):
            values = values[np.isfinite(values)]
            self.present += values.size
            self.counts += binned(values, np.asarray(self.past.edges, float))
            if self.past.range:
                low, high = self.past.range
                self.outside += int(np.count_nonzero((values < low) | (values > high)))
            self.sample.add(values)
            return
        for text, n in texts(values).items():
            self.present += n
            if text in self.known:
                self.counts[self.known[text]] += n
            elif not self.more:
                # Past the bound single texts are no longer told apart.
                self.unseen[
                    text
                    if text in self.unseen or len(self.unseen) < MOST_UNSEEN
                    else ""
                ] += n

    def distance(self, past: np.ndarray, now: np.ndarray) -> float | None:
        """Largest difference of shares: of cumulative ones for numbers, of any set of known categories."""
        return ks(past, now) if self.numeric else total_variation(past, now)

    def index(self) -> float | None:
        """PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            place = steps(self.expected, TENTHS)
            return psi(
                np.bincount(place, self.expected), np.bincount(place, self.counts)
            )
        return psi(
            np.append(self.expected, self.more),
            np.append(self.counts, self.unseen.total()),
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


class Gates:
    """Counts a night's rows against a training profile; features that it does not know are let through."""

    def __init__(self, past: Profile, contract: Contract):
        self.contract, self.past = contract, past
        self.n_rows = 0
        self.groups: Counter[str] = Counter()
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

    def add(
        self,
        features: Columns,
        groups: np.ndarray | None = None,
        unlisted: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Take in the rows of one batch, before normalisation; `unlisted` texts are not in the contract."""
        self.__dict__.pop("shifts", None)
        self.n_rows += count_rows(features)
        if groups is not None:
            self.groups.update(groups)
        for name, column in self.columns.items():
            column.add(features[name])
            ordinal = self.contract.features[name].type == "ordinal"
            if unlisted and name in unlisted and ordinal and unlisted[name].any():
                # Such a row has no code, so its text is not among the values.
                n_unlisted = int(np.count_nonzero(unlisted[name]))
                column.present += n_unlisted
                column.unseen[""] += n_unlisted

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
            if (unseen := column.unseen.total())
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
                ks=column.distance(column.expected, column.counts),
                outside=column.outside / column.present if column.present else 0.0,
                unseen=column.unseen.total(),
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
        return (
            tests.effective_units(self.groups.values()) / self.n_rows
            if self.groups
            else 1.0
        )

    @cached_property
    def shifts(self) -> dict[str, UnitShift]:
        """Of numbers the conversion that explains their values better than an honest difference would."""
        shifts = {}
        for name in self.numbers:
            column = self.columns[name]
            rows, rows_past = (
                column.present * self.worth,
                column.expected.sum() * self.training.worth,
            )
            distance = column.distance(column.expected, column.counts)
            if distance is not None and isinstance(column.past, NumberProfile):
                shifts[name] = unit_shift(
                    column.sample.values,
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
                unseen = [n * self.worth for n in column.unseen.values()]
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
