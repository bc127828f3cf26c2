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
from dataclasses import dataclass
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
from screening.schemas.run import FeatureDrift

STEPS, TENTHS = 50, 10
MOST_CATEGORIES = 1000
MOST_UNSEEN = 1000
MOST_SAMPLED = 8192
N_SHARES = 4
"""Of a column's counts: rows, those with a value, of an unseen category and outside training's range."""


def profile(features: Columns, contract: Contract, groups: np.ndarray | None = None) -> Profile:
    """What a night is compared with: counts of the training rows on bins of their own quantiles.

    `features` (shape (n_rows, n_features)): typed columns, before any normalisation within groups; `groups`
    (shape (n_rows,)): rows of one group are alike, so groups, not rows, tell how sure a difference is.
    `n_units` of the profile is the effective number of rows; texts and codes come the most frequent first.
    """
    n_rows = count_rows(features)
    units = n_rows if groups is None else effective_units(np.unique(groups, return_counts=True)[1])
    described: dict[str, NumberProfile | TextProfile] = {}
    for name, feature in contract.features.items():
        values = features[name]
        if feature.type == "number":
            described[name] = _numbers(values)
        else:
            ordered = sorted(texts(values).items(), key=lambda item: (-item[1], item[0]))
            described[name] = TextProfile(
                counts=dict(ordered[:MOST_CATEGORIES]), more=sum(n for _, n in ordered[MOST_CATEGORIES:])
            )
    return Profile(n_rows=n_rows, n_units=units, features=described)


def _numbers(values: np.ndarray) -> NumberProfile:
    values = values[np.isfinite(values)]
    if not values.size:
        return NumberProfile(edges=(), counts=(0,), range=None)
    # Data values as edges, right-closed: then no bin is empty.
    edges = np.unique(np.quantile(values, np.arange(1, STEPS) / STEPS, method="inverted_cdf"))
    edges = edges[edges < values.max()]
    return NumberProfile(
        edges=edges.tolist(),
        counts=binned(values, edges).tolist(),
        range=(float(values.min()), float(values.max())),
    )


def binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values each right-closed bin holds, shape (n_edges + 1,)."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def texts(values: np.ndarray) -> dict[str, int]:
    """How often each text, or code written as text, occurs, the most frequent first; missing ones apart."""
    counted = Counter(values[~absent(values)].tolist()).most_common()
    return {f"{value:g}" if isinstance(value, float) else value: n for value, n in counted}


def steps(counts: ArrayLike, n_steps: int) -> np.ndarray:
    """Which of `n_steps` equal shares of the training rows each bin lies in, shape (n_bins,)."""
    counted = np.asarray(counts, float)
    share = counted / max(counted.sum(), 1.0)
    middle = np.cumsum(share) - share / 2
    return np.unique(np.minimum((middle * n_steps).astype(int), n_steps - 1), return_inverse=True)[1].ravel()


class SampledValues:
    """Every k-th value of a column, k doubling as the table grows; `most` at the most."""

    def __init__(self, most: int):
        self.values = np.zeros(0)
        self._most, self._step, self._seen = most, 1, 0

    def add(self, values: np.ndarray) -> None:
        """Take in finite values in the order of the table."""
        self.values = np.concatenate([self.values, values[-self._seen % self._step :: self._step]])
        self._seen += values.size
        while self.values.size > self._most:
            self.values = self.values[::2]
            self._step *= 2


class Column:
    """What training knew of a feature, and what the night holds so far.

    `past`: its entry of the profile; `n_rows_past`: of training. `present`: rows of tonight with a value, one
    of an unseen category included; `known`: texts that are nothing new, None being a missing value; `unseen`:
    rows of each category that training never had.
    """

    def __init__(self, past: NumberProfile | TextProfile, n_rows_past: int):
        self.past, self.numeric = past, isinstance(past, NumberProfile)
        texts_past = past.counts if isinstance(past, TextProfile) else {}
        bins = past.counts if isinstance(past, NumberProfile) else [*texts_past.values()]
        self.more = past.more if isinstance(past, TextProfile) else 0
        self.expected = np.array(bins, dtype=float)
        self.training = np.array([n_rows_past, sum(bins) + self.more, 0, 0, *bins])
        self.counts = np.zeros(len(bins), dtype=np.int64)
        self.n_rows = self.present = self.outside = 0
        self.unseen: Counter[str] = Counter()
        self.sample = SampledValues(MOST_SAMPLED)
        self._places = {text: i for i, text in enumerate(texts_past)}
        self.known = {*texts_past, None}

    def tonight(self, n_bins: int | None = None) -> np.ndarray:
        """The counts of `N_SHARES`, and then the bins.

        `n_bins`: at most so many, as shares of the training rows, or the most frequent categories; None: as
        training has them, which is `training`.
        """
        bins = self.counts
        if n_bins is not None:
            place = np.minimum(np.arange(len(bins)), n_bins - 1)
            bins = np.bincount(steps(self.expected, n_bins) if self.numeric else place, bins).astype(int)
        return np.array([self.n_rows, self.present, self.unseen.total(), self.outside, *bins])

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
            if text in self._places:
                self.counts[self._places[text]] += n
            elif not self.more:
                # Past the bound single texts are no longer told apart.
                self.unseen[text if text in self.unseen or len(self.unseen) < MOST_UNSEEN else ""] += n

    def add_unlisted(self, n_rows: int) -> None:
        """Count rows whose text stands for no value at all."""
        self.present += n_rows
        if n_rows:
            self.unseen[""] += n_rows

    def distance(self, past: np.ndarray, now: np.ndarray) -> float | None:
        """Largest difference of shares: of cumulative ones for numbers, of any set of known categories."""
        return ks(past, now) if self.numeric else total_variation(past, now)

    def index(self) -> float | None:
        """PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            place = steps(self.expected, TENTHS)
            return psi(np.bincount(place, self.expected), np.bincount(place, self.counts))
        return psi(np.append(self.expected, self.more), np.append(self.counts, self.unseen.total()))


# Of nights from the population of training at most the sum of these raise any alarm: one in a hundred.
ALARMS = {"values": 0.004, "missing": 0.003, "unseen": 0.002, "outside": 0.0005, "units": 0.0005}
# A conversion is looked for only where values differ at least so surely.
DIFFERS = 0.001
# Beside the test, what is worth a word.
WORTH_SAYING = 0.1
SHARES = {
    "missing": ("missing_more", "without a value", 0.05),
    "unseen": ("unseen_category", "with a category never seen in training", 0.0),
    "outside": ("outside_range", "outside the training range", 0.02),
}
"""By gate: the reason's code and words, and the difference of shares that is worth a word."""
LEAST, WINDOW = 20, 56
"""Nights from which on a series has its own reference, and of how many of the last it is made."""
BINS = 20
"""Of a column, as the ledger keeps a night."""
STAY_UNKNOWN = 0.9
"""Share of patients taken to be there on the next night too, where no column names them."""


@dataclass(frozen=True)
class Reference:
    """What a night's columns are held against: training, or the last nights of the series.

    `where`: in words. `columns`: counts as `Column.tonight` has them, with at most `n_bins` bins. `worth`:
    what one of its rows is worth in independent ones.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    worth: float
    remedy: str
    n_bins: int | None = None


def own_nights(counts: Sequence[Mapping[str, Any]], worth: float) -> Reference:
    """The last nights of a series, summed, as `Gates.counts` gave each."""
    names = counts[0]["columns"]
    return Reference(
        f"on this series' last {len(counts)} nights",
        {name: np.sum([night["columns"][name] for night in counts], axis=0) for name in names},
        worth,
        "Ask the source of the column what has changed since the nights before.",
        BINS,
    )


def independent(stay: float | None) -> float:
    """What a patient's row is worth where so many stay: nights are alike like those of a Markov chain.

    `stay`: share that is there on the next night too; None where nobody is recognised.
    """
    share = STAY_UNKNOWN if stay is None else stay
    return (1 - share) / (1 + share)


class Gates:
    """Counts a night's rows against a training profile; a `CohortStream` feeds it in its first pass.

    `past`: features it does not know are let through.
    """

    def __init__(self, past: Profile, contract: Contract):
        self.contract, self.past = contract, past
        self.n_rows = 0
        self.groups: Counter[str] = Counter()
        self.columns = {
            name: Column(past.features[name], past.n_rows)
            for name in contract.features
            if name in past.features
        }
        self.training = Reference(
            "in training",
            {name: column.training for name, column in self.columns.items()},
            min(1.0, past.n_units / max(past.n_rows, 1)),
            "Check the source of the column; where the difference is meant, train again on rows like "
            "tonight's.",
        )
        normalised = {name for name in self.columns if contract.features[name].normalise is not None}
        # Scale and centre of the others are not taken out before scoring.
        self.measured = {name: column for name, column in self.columns.items() if name not in normalised}
        self.numbers = {name: column for name, column in self.measured.items() if column.numeric}
        concerned = {"missing": len(self.columns), "values": len(self.measured)}
        concerned["unseen"] = sum(not column.numeric for column in self.columns.values())
        # The chance one column may have of a false alarm, so that all together keep to `ALARMS`.
        self.allowed = {
            gate: chance / max(concerned.get(gate, len(self.numbers)), 1) for gate, chance in ALARMS.items()
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
            if unlisted and name in unlisted and self.contract.features[name].type == "ordinal":
                # Such a row has no code, so its text is not among the values.
                column.add_unlisted(int(np.count_nonzero(unlisted[name])))

    def unseen_rows(self, features: Columns) -> dict[str, np.ndarray]:
        """Per category feature the rows whose text no training row had, as masks."""
        return {
            name: np.array([text not in column.known for text in features[name].tolist()], dtype=bool)
            for name, column in self.columns.items()
            if self.contract.features[name].type == "category" and not column.more
        }

    def stops(self) -> list[Reason]:
        """Reasons not to score at all: columns in other units than the model's, by contract."""
        return [
            _unit_changed(name, shift)
            for name, shift in self.shifts.items()
            if shift and shift.sure and self.contract.policy("on_unit_change", name) == "stop"
        ]

    def notes(self) -> list[str]:
        """What is worth counting aloud and is no alarm: rows of unseen categories that are scored."""
        return [
            f"{name}: {unseen} row{'s' * (unseen != 1)} with a category never seen in training, scored as "
            "unknown"
            for name, column in self.columns.items()
            if (unseen := column.unseen.total()) and self.contract.policy("on_unseen", name) == "unknown"
        ]

    def attention(self, own: Reference | None = None) -> list[Reason]:
        """Reasons to distrust tonight's scores; empty on 99 of 100 nights like those of the reference.

        `own`: the series' own nights in place of training. A column that is in other units, surely or in some
        rows, is an alarm whatever the nights before were: the model reads wrong numbers.
        """
        reasons = list[Reason]()
        for name, column in self.columns.items():
            shift = self.shifts.get(name)
            changed = shift is not None and (own is None or shift.sure or shift.share < 1)
            if shift is not None and changed:
                reasons.append(_unit_changed(name, shift))
            values = name in self.measured and not changed
            reasons += self._differences(own or self.training, name, column, values)
        return reasons

    def counts(self) -> dict[str, Any]:
        """What a night's features count, and a digest of the training whose bins they are counted on."""
        return {
            "bins": hashlib.sha256(json.dumps(self.past.to_dict()).encode()).hexdigest()[:16],
            "columns": {name: column.tonight(BINS).tolist() for name, column in self.columns.items()},
        }

    def facts(self) -> dict[str, FeatureDrift]:
        """Every feature beside training."""
        return {
            name: FeatureDrift(
                psi=column.index(),
                ks=column.distance(column.expected, column.counts),
                outside=column.outside / column.present if column.present else 0.0,
                unseen=column.unseen.total(),
                normalised=name not in self.measured,
                alarm=name in self.measured
                and "values_differ"
                in {reason.code for reason in self._differences(self.training, name, column, True)},
            )
            for name, column in self.columns.items()
        }

    @property
    def worth(self) -> float:
        """What a row of tonight is worth in independent ones."""
        return tests.effective_units(self.groups.values()) / self.n_rows if self.groups else 1.0

    @cached_property
    def shifts(self) -> dict[str, UnitShift | None]:
        """Per number the conversion that explains its values better than an honest difference would."""
        return {name: self._shift(name, column) for name, column in self.numbers.items()}

    def _shift(self, name: str, column: Column) -> UnitShift | None:
        rows, rows_past = column.present * self.worth, column.expected.sum() * self.training.worth
        distance = column.distance(column.expected, column.counts)
        if distance is None or not isinstance(column.past, NumberProfile):
            return None
        return unit_shift(
            column.sample.values, column.past, conversions_of(name, self.contract.features[name].unit),
            n_units=rows_past, night_units=rows, chance=self.allowed["units"],
            differs=tests.other_distribution(distance, rows, rows_past) < DIFFERS,
        )  # fmt: skip

    def _differences(self, past: Reference, name: str, column: Column, values: bool) -> list[Reason]:
        """In what a column differs from a reference by more than chance; `values`: in its values too."""
        now, before = column.tonight(past.n_bins), past.columns[name]
        shares, shares_before = _shares(now), _shares(before)
        differences = list[tuple[str, str, str, float]]()  # Gate, code, words, and how likely by chance.
        for gate, (code, words, least) in SHARES.items():
            (events, rows), (earlier, rows_before) = shares[gate], shares_before[gate]
            # Categories and range are training's own.
            usual, own = earlier / max(rows_before, 1), past is self.training and gate != "missing"
            if not events or events / rows - usual < least or (gate == "outside" and not values):
                continue
            counts = events * self.worth, rows * self.worth, earlier * past.worth, rows_before * past.worth
            if own and gate == "unseen":
                unseen = [n * self.worth for n in column.unseen.values()]
                p = tests.never_seen(unseen, before[N_SHARES:] * past.worth, counts[1])
            else:
                p = tests.outside(counts[0], counts[1], counts[3]) if own else tests.more_often(*counts)
            beside = "" if own else f", {past.where} {usual:.0%}"
            differences.append((gate, code, f"{events} of {rows} rows {words}{beside}", p))
        bins, bins_before = now[N_SHARES:] * self.worth, before[N_SHARES:] * past.worth
        distance = column.distance(bins_before, bins) or 0.0
        if values and distance >= WORTH_SAYING:
            if column.numeric:
                p = tests.other_distribution(distance, bins.sum(), bins_before.sum())
            else:
                p = tests.other_shares(bins, bins_before)
            words = f"distributed otherwise than {past.where} (distance {distance:.2f})"
            differences.append(("values", "values_differ", words, p))
        return [
            Reason(code, f"{name}: {words}.", name, p, self.allowed[gate], past.remedy)
            for gate, code, words, p in differences
            if p < self.allowed[gate]
        ]


def _shares(counts: np.ndarray) -> dict[str, tuple[float, float]]:
    """By gate, of how many rows how many it counts."""
    rows, present, unseen, outside = counts[:N_SHARES].tolist()
    return {"missing": (rows - present, rows), "unseen": (unseen, present), "outside": (outside, present)}


def _unit_changed(name: str, shift: UnitShift) -> Reason:
    conversion = shift.conversion
    units = f"in {conversion.after} instead of {conversion.before}" if conversion.after else "in another unit"
    if shift.share < 1:
        words = f"{name}: in {shift.share:.0%} of the rows the values look {units} ({conversion.words})."
    elif shift.sure:
        units += "" if conversion.after else " than in training"
        words = f"{name}: the values look {units} ({conversion.words})."
    else:
        words = f"{name}: the values may be {units} ({conversion.words}), or those of quite other patients."
    remedy = (
        "Convert the column, or have the source send the old unit again."
        if shift.sure
        else "Ask the source of the column for its unit."
    )
    # A conversion that is never sure has no bound, and JSON no infinity.
    bound = shift.bound if np.isfinite(shift.bound) else None
    return Reason("unit_changed", words, name, shift.ratio, bound, remedy)
