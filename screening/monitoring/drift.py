"""Comparing tonight's table with the training rows, and with its series' own nights.

Every alarm is a test against chance at the night's own size; all together have the
chance `ALARMS` of a false one.

A ward differs every night from the mean of the wards that a model learned from, and
that cannot be acted on. From `MIN_REFERENCE_NIGHTS` nights on an alarm is a difference
from the ward's own nights. What is kept of a night are counts on bins of training's
quantiles: no values, no ids, and no categories that training never had.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from screening.contract.contract import Contract
from screening.data.observers import CheckedBlock, Observer
from screening.data.sentinels import is_usual_code, sentinel_counts
from screening.io.columns import Columns
from screening.monitoring import chance
from screening.monitoring.profile import N_SHARES, ColumnCounts, ColumnGate
from screening.monitoring.units import (
    UnitShift,
    conversions_of,
    fault_of_scale,
    scale_counts,
    unit_shift,
)
from screening.schemas.base import Reason
from screening.schemas.model import NumberProfile, Profile
from screening.schemas.reasons import (
    MISSING_MORE,
    NUMBER_FOR_UNKNOWN,
    OUTSIDE_RANGE,
    UNIT_CHANGED,
    UNSEEN_CATEGORY,
    VALUES_DIFFER,
)
from screening.schemas.run import FeatureDrift
from screening.spelling import first_of

# Rate of false alarms by gate, on nights from the population of training: together
# one in a hundred. A new gate is added here, in `KINDS`, in `SHARES` and in
# `_met_by_gate`, and its number of columns in `Gates`.
ALARMS = {
    "values": 0.004,
    "missing": 0.003,
    "unseen": 0.002,
    "outside": 0.0005,
    "units": 0.0005,
}
# A conversion is looked for only where values differ with a p-value below this.
MAX_P_OF_CONVERSION = 0.001
# Smallest distance that is reported, whatever its p-value.
MIN_REPORTED_DISTANCE = 0.1
KINDS = {
    "values": VALUES_DIFFER,
    "missing": MISSING_MORE,
    "unseen": UNSEEN_CATEGORY,
    "outside": OUTSIDE_RANGE,
}
# By gate: the words, and the smallest difference worth a word.
SHARES = {
    "missing": ("without a value", 0.05),
    "unseen": ("with a category never seen in training", 0.0),
    "outside": ("outside the training range", 0.02),
}
# Unseen categories that are named: as many, of so many letters, in so many rows.
MOST_NAMED = 3
MAX_NAME = 40
MIN_NAMED_ROWS = 5
# Nights after which a series is its own reference.
MIN_REFERENCE_NIGHTS = 20
# Last nights that this reference is made of.
REFERENCE_NIGHTS = 56


@dataclass(frozen=True)
class Reference:
    """Reference for a night's columns: training, or the series' last nights.

    Parameters
    ----------
    where : str
        Phrase that names the reference, such as "in training".
    columns : mapping from str to ndarray
        Counts as `ColumnGate.tonight` returns them.
    worth : float
        Effective number of independent rows per row.
    remedy : str
        What to do about a difference.
    """

    where: str
    columns: Mapping[str, np.ndarray]
    worth: float
    remedy: str


def own_nights(counts: Sequence[Mapping[str, Any]], worth: float) -> Reference:
    """Return the sum of a series' last nights, each as `Gates.counts` returned it.

    `worth`: independent rows that one of their rows is worth.
    """
    columns = {}
    for name in counts[0]["columns"]:
        nights = [night["columns"][name] for night in counts]
        columns[name] = np.sum(nights, axis=0)
    return Reference(
        f"on this series' last {len(counts)} nights",
        columns,
        worth,
        "Ask the source of the column what has changed since the nights before.",
    )


@dataclass(frozen=True)
class GateCounts:
    """Counts of some rows against a training profile; of consecutive rows they add up.

    Parameters
    ----------
    columns : mapping from str to ColumnCounts
        By feature.
    groups : tuple of pyarrow.StructArray
        Rows of each group, as `value_counts` returns them.
    score_scale : ndarray of int, shape (2,)
        `scale_counts` of a score made elsewhere.
    """

    columns: Mapping[str, ColumnCounts]
    groups: tuple[pa.StructArray, ...]
    score_scale: np.ndarray

    def __add__(self, other: GateCounts) -> GateCounts:
        columns = {
            name: counts + other.columns[name] for name, counts in self.columns.items()
        }
        score_scale = self.score_scale + other.score_scale
        return GateCounts(columns, self.groups + other.groups, score_scale)


class Gates(Observer):
    """Counts a night's rows on the bins of a training profile.

    Features that the profile does not have are not tested.
    """

    def __init__(self, past: Profile, contract: Contract):
        self.contract = contract
        self.past = past
        self.groups: tuple[pa.StructArray, ...] = ()
        self.score_scale = np.zeros(2, dtype=np.int64)
        names = [name for name in contract.features if name in past.features]
        self.columns = {
            name: ColumnGate(past.features[name], past.n_rows) for name in names
        }
        self.training = Reference(
            "in training",
            {name: column.training for name, column in self.columns.items()},
            min(1.0, past.n_units / max(past.n_rows, 1)),
            "Check the source of the column. If the difference is intended, train "
            "again on rows like tonight's.",
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
        n_columns = {
            "values": len(self.measured),
            "missing": len(self.columns),
            "unseen": sum(not column.numeric for column in self.columns.values()),
            "outside": len(self.numbers),
            "units": len(self.numbers),
        }
        # Chance of a false alarm of one column: all together keep to `ALARMS`.
        self.allowed = {
            gate: rate / max(n_columns[gate], 1) for gate, rate in ALARMS.items()
        }

    @property
    def counter(self) -> Callable[[CheckedBlock], GateCounts]:
        """Counts the rows that are taken, also those that break the contract.

        Other units may break it in each.
        """
        return self._count_block

    def _count_block(self, block: CheckedBlock) -> GateCounts:
        rows = block.rows
        unlisted = block.faults.unlisted
        if block.is_taken is not None:
            rows = rows.take(block.is_taken)
            unlisted = {name: mask[block.is_taken] for name, mask in unlisted.items()}
        return self.count(rows.values, rows.rows - 1, rows.group, unlisted)

    @property
    def categories(self) -> dict[str, Set[str | None]]:
        """The categories of training, where all were kept."""
        return {
            name: frozenset(column.known)
            for name, column in self.columns.items()
            if self.contract.features[name].type == "category" and not column.more
        }

    def count(
        self,
        features: Columns,
        rows: np.ndarray,
        groups: np.ndarray | None = None,
        unlisted: Mapping[str, np.ndarray] | None = None,
    ) -> GateCounts:
        """Count the rows of a block, before normalisation.

        Parameters
        ----------
        features : dict of str to ndarray
        rows : ndarray of int, shape (n_rows,)
            Numbers of the rows, from 0.
        groups : ndarray of shape (n_rows,), optional
        unlisted : mapping of str to ndarray of bool, optional
            By feature the rows with a text that the contract does not list.
        """
        columns = {}
        for name, column in self.columns.items():
            n_unlisted = 0
            ordinal = self.contract.features[name].type == "ordinal"
            if unlisted and name in unlisted and ordinal:
                n_unlisted = int(np.count_nonzero(unlisted[name]))
            columns[name] = column.count(features[name], rows, n_unlisted)
        score = self.contract.score
        scores = features[score] if score and score in features else np.zeros(0)
        by_group = () if groups is None else (pa.array(groups).value_counts(),)
        return GateCounts(columns, by_group, scale_counts(scores))

    def add(self, counts: GateCounts) -> None:
        """Take in the counts of further rows."""
        for computed in ("worth", "shifts", "sentinels"):
            self.__dict__.pop(computed, None)
        self.groups += counts.groups
        self.score_scale = self.score_scale + counts.score_scale
        for name, column in self.columns.items():
            column.counted += counts.columns[name]

    def faults(self) -> list[str]:
        """Return why nothing is to be scored: values in other units than training's."""
        faults = [f"column {stop.words} {stop.remedy}" for stop in self.stops()]
        of_score = fault_of_scale(self.score_scale, self.contract, self.past)
        return faults if of_score is None else [*faults, of_score]

    def stops(self) -> list[Reason]:
        """Return reasons to score nothing: columns in other units than the model's."""
        reasons = []
        for name, shift in self.shifts.items():
            policy = self.contract.policy("on_unit_change", name)
            if shift.sure and policy == "stop":
                reasons.append(_unit_changed(name, shift))
        return reasons

    def notes(self) -> list[str]:
        """Return notes on rows of unseen categories that are scored."""
        notes = []
        for name, column in self.columns.items():
            n_unseen = column.counted.unseen.total()
            if n_unseen and self.contract.policy("on_unseen", name) == "unknown":
                rows = "row" if n_unseen == 1 else "rows"
                notes.append(
                    f"{name}: {n_unseen} {rows} with a category never seen in "
                    "training, scored as unknown"
                )
        return notes

    def attention(self, own_nights: Reference | None = None) -> list[Reason]:
        """Return reasons to distrust tonight's scores.

        There are none on 99 of 100 nights like those of the reference. A column that
        is in other units, surely or in some rows, is an alarm whatever the nights
        before were: the model gets wrong numbers.

        Parameters
        ----------
        own_nights : Reference, optional
            The series' own nights, in place of training.
        """
        reasons: list[Reason] = []
        for name in self.columns:
            shift = self.shifts.get(name)
            if own_nights and shift and shift.share == 1 and not shift.sure:
                # An uncertain shift of all rows may be usual in the ward.
                shift = None
            if shift is not None:
                reasons.append(_unit_changed(name, shift))
            sentinels = self.sentinels.get(name)
            if sentinels:
                reasons.append(self._number_for_unknown(name, sentinels))
            values = name in self.measured and shift is None and not sentinels
            reasons += self._differences(own_nights or self.training, name, values)
        return reasons

    def counts(self) -> dict[str, Any]:
        """Return counts by column that the ledger keeps of a night.

        `bins` is a digest of the profile: only nights with the same one may be summed.
        """
        bins = json.dumps(self.past.to_dict()).encode()
        digest = hashlib.sha256(bins).hexdigest()[:16]
        columns = {
            name: column.tonight().tolist() for name, column in self.columns.items()
        }
        return {"bins": digest, "columns": columns}

    def facts(self) -> dict[str, FeatureDrift]:
        """Return what every feature has tonight beside training."""
        facts = {}
        for name, column in self.columns.items():
            counted = column.counted
            is_measured = name in self.measured
            tested = self._difference_of_values(self.training, name)
            facts[name] = FeatureDrift(
                psi=column.index(),
                ks=column.distance(column.expected, counted.bins),
                outside=counted.outside / max(counted.present, 1),
                unseen=counted.unseen.total(),
                normalised=not is_measured,
                alarm=is_measured
                and any(p < self.allowed[gate] for gate, _, p in tested),
                counts=counted.bins.tolist(),
            )
        return facts

    @cached_property
    def worth(self) -> float:
        """Number of independent rows that a row of tonight is worth."""
        if not self.groups:
            return 1.0
        blocks = pa.Table.from_struct_array(pa.concat_arrays(self.groups))
        counted = blocks.group_by("values").aggregate([("counts", "sum")])
        sizes = counted["counts_sum"].to_numpy()
        return chance.effective_units(sizes) / int(sizes.sum())

    @cached_property
    def sentinels(self) -> dict[str, dict[float, int]]:
        """Numbers that mean "not known", by column, with their sampled rows.

        Training had no such number. Columns without one are left out.
        """
        sentinels = {}
        for name in self.numbers:
            column = self.columns[name]
            values = column.counted.sample.values
            if not isinstance(column.past, NumberProfile) or not values.size:
                continue
            low, high = column.past.range or (-np.inf, np.inf)
            counts = {
                value: count
                for value, count in sentinel_counts(values).items()
                if is_usual_code(value) and not low <= value <= high
            }
            if counts:
                sentinels[name] = counts
        return sentinels

    def _number_for_unknown(self, name: str, sentinels: Mapping[float, int]) -> Reason:
        """Return the reason that a number of a column means "not known"."""
        sampled = self.columns[name].counted.sample.values
        share = sum(sentinels.values()) / sampled.size
        numbers = " or ".join(f"{value:g}" for value in sentinels)
        return NUMBER_FOR_UNKNOWN(
            column=name, figure=share, share=share, numbers=numbers
        )

    @cached_property
    def shifts(self) -> dict[str, UnitShift]:
        """Conversions of units, by column, that explain the values best.

        Columns of numbers without one are left out.
        """
        by_name = {name: self._shift_of(name) for name in self.numbers}
        return {name: shift for name, shift in by_name.items() if shift is not None}

    def _shift_of(self, name: str) -> UnitShift | None:
        column = self.columns[name]
        distance = column.distance(column.expected, column.counted.bins)
        if distance is None or not isinstance(column.past, NumberProfile):
            return None
        units = column.counted.present * self.worth
        units_before = column.expected.sum() * self.training.worth
        p = chance.other_distribution(distance, units, units_before)
        values = column.counted.sample.values
        is_sentinel = np.isin(values, [*self.sentinels.get(name, {})])
        return unit_shift(
            values[~is_sentinel],
            column.past,
            conversions_of(name, self.contract.features[name].unit),
            night_units=units,
            chance=self.allowed["units"],
            differs=p < MAX_P_OF_CONVERSION,
        )

    def _differences(self, past: Reference, name: str, values: bool) -> list[Reason]:
        """Return reasons for what a column has otherwise than by chance.

        `values`: its values are compared too, and not only shares of rows.
        """
        tested = [*self._differences_of_shares(past, name, values)]
        if values:
            tested += self._difference_of_values(past, name)
        return [
            KINDS[gate](
                column=name,
                figure=p,
                threshold=self.allowed[gate],
                description=description,
                remedy=past.remedy,
            )
            for gate, description, p in tested
            if p < self.allowed[gate]
        ]

    def _differences_of_shares(
        self, past: Reference, name: str, values: bool
    ) -> Iterator[tuple[str, str, float]]:
        """Yield the gates that more rows meet than in a reference, in words, and p."""
        column = self.columns[name]
        tonight = _met_by_gate(column.tonight())
        earlier = _met_by_gate(past.columns[name])
        for gate, (description, least) in SHARES.items():
            n_met, n_rows = tonight[gate]
            n_met_before, n_rows_before = earlier[gate]
            usual = n_met_before / max(n_rows_before, 1)
            if not n_met or n_met / n_rows - usual < least:
                continue
            if gate == "outside" and not values:
                continue
            met = n_met * self.worth
            units = n_rows * self.worth
            units_before = n_rows_before * past.worth
            # No row of training can be of an unseen category, or outside the range.
            is_of_training = past is self.training and gate != "missing"
            if not is_of_training:
                met_before = n_met_before * past.worth
                p = chance.more_often(met, units, met_before, units_before)
                description = f"{description}, {past.where} {usual:.0%}"
            elif gate == "unseen":
                unseen = np.array([*column.counted.unseen.values()])
                p = chance.never_seen(
                    unseen * self.worth, column.expected * past.worth, units
                )
            else:
                p = chance.outside(met, units, units_before)
            if gate == "unseen":
                description += self._named_categories(name)
            yield gate, f"{n_met} of {n_rows} rows {description}", p

    def _named_categories(self, name: str) -> str:
        """Return the unseen categories of a column in brackets, "" for none to name.

        They are named only if the contract lists the column's categories, and if they
        are in so many rows that none is a patient's.
        """
        if self.contract.features[name].categories is None:
            return ""
        names = [
            repr(text)
            for text, n_rows in self.columns[name].counted.unseen.most_common()
            if 0 < len(text) <= MAX_NAME and n_rows * self.worth >= MIN_NAMED_ROWS
        ]
        return f" ({first_of(names, MOST_NAMED)})" if names else ""

    def _difference_of_values(
        self, past: Reference, name: str
    ) -> Iterator[tuple[str, str, float]]:
        """Yield the same for a column's values, if their difference is worth a word."""
        column = self.columns[name]
        bins = column.tonight()[N_SHARES:] * self.worth
        bins_before = past.columns[name][N_SHARES:] * past.worth
        distance = column.distance(bins_before, bins) or 0.0
        if distance < MIN_REPORTED_DISTANCE:
            return
        if column.numeric:
            p = chance.other_distribution(distance, bins.sum(), bins_before.sum())
        else:
            p = chance.other_shares(bins, bins_before)
        where = f"{past.where} (distance {distance:.2f})"
        yield "values", f"distributed differently than {where}", p


def _met_by_gate(counts: np.ndarray) -> dict[str, tuple[int, int]]:
    """Return by gate how many rows meet it, and of how many; `ColumnGate.tonight`."""
    n_rows, present, unseen, outside = counts[:N_SHARES].tolist()
    return {
        "missing": (n_rows - present, n_rows),
        "unseen": (unseen, present),
        "outside": (outside, present),
    }


def _unit_changed(name: str, shift: UnitShift) -> Reason:
    """Return the reason that a column is in another unit than in training."""
    conversion = shift.conversion
    if conversion.after:
        units = f"in {conversion.after} instead of {conversion.before}"
    else:
        units = "in another unit"
    if shift.share < 1:
        description = (
            f"in {shift.share:.0%} of the rows the values appear to be {units} "
            f"({conversion.words})"
        )
    elif shift.sure:
        description = f"the values appear to be {units} ({conversion.words})"
    else:
        description = (
            f"the values may be {units} ({conversion.words}), or come from very "
            "different patients"
        )
    # A conversion that is never certain has no bound, and JSON no infinity.
    bound = shift.bound if np.isfinite(shift.bound) else None
    return UNIT_CHANGED(
        column=name, figure=shift.ratio, threshold=bound, description=description
    )
