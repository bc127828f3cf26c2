"""Is tonight's table like the nights of its own series? The counts of each, as the ledger keeps them, summed.

A ward is not the mean of the wards that a model learned from, and says so every night: nobody can act on it.
From twenty nights on another table than this ward's own is the alarm. What is kept of a night are counts on
bins of training's quantiles: no value, no category that training never had, nobody's id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from screening.documents.base import Reason
from screening.gates import tests
from screening.gates.column_profile import Column, steps
from screening.gates.drift import MORE_MISSING, OUTSIDE, WORTH_SAYING, Gates

LEAST, WINDOW = 20, 56
"""Nights from which on a series has its own reference, and of how many of the last it is made."""
BINS = 20
STAY_UNKNOWN = 0.9
"""Share of patients taken to be there on the next night too, where no column names them."""
CHECK = "Ask the source of the column what has changed since the nights before."
# Of a column: rows, those with a value, of an unseen category and outside training's range; then its bins.
N_SUMS = 4
Share = tuple[str, str, str, Callable[[np.ndarray], tuple[float, float]], float]
SHARES: tuple[Share, ...] = (
    ("missing", "missing_more", "missing", lambda sums: (sums[0] - sums[1], sums[0]), MORE_MISSING),
    ("unseen", "unseen_category", "never seen in training", lambda sums: (sums[2], sums[1]), 0.0),
    ("outside", "outside_range", "outside the training range", lambda sums: (sums[3], sums[1]), OUTSIDE),
)
"""Gate, code, words, events of how many rows, and what is worth a word."""


def counts_of(gates: Gates) -> dict[str, Any]:
    """What a night's features count, and a digest of the training whose bins they are counted on."""
    return {
        "bins": hashlib.sha256(json.dumps(gates.past.to_dict()).encode()).hexdigest()[:16],
        "columns": {name: _sums(gates.n_rows, column) for name, column in gates.columns.items()},
    }


def _sums(n_rows: int, column: Column) -> list[int]:
    """With at most `BINS` bins: twentieths of the training rows, or the most frequent categories."""
    place = np.minimum(np.arange(len(column.counts)), BINS - 1)
    bins = np.bincount(steps(column.expected, BINS) if column.numeric else place, column.counts)
    return [n_rows, column.present, column.n_unseen, column.outside, *bins.astype(int).tolist()]


def independent(stay: float | None) -> float:
    """What a patient's row is worth where so many stay: nights are alike like those of a Markov chain.

    `stay`: share that is there on the next night too; None where nobody is recognised.
    """
    share = STAY_UNKNOWN if stay is None else stay
    return (1 - share) / (1 + share)


class OwnNights:
    """The sum of a series' nights: `counts` as `counts_of` gave them, `worth` what a row of them is worth."""

    def __init__(self, counts: Sequence[Mapping[str, Any]], worth: float):
        self.n_nights, self.worth = len(counts), worth
        self.columns = {
            name: np.sum([night["columns"][name] for night in counts], axis=0)
            for name in counts[0]["columns"]
        }

    def reasons(self, gates: Gates) -> list[Reason]:
        """In what tonight differs by more than chance, with the false alarms that `Gates` allows."""
        return [
            reason
            for name, column in gates.columns.items()
            for reason in self._of_column(gates, name, np.array(_sums(gates.n_rows, column)))
        ]

    def _of_column(self, gates: Gates, name: str, now: np.ndarray) -> Iterator[Reason]:
        past, weight = self.columns[name], gates.per_row()
        own = f"on this series' last {self.n_nights} nights"
        for gate, code, words, counted, least in SHARES:
            (events, rows), (before, rows_before) = counted(now), counted(past)
            share, usual = events / max(rows, 1), before / max(rows_before, 1)
            p = tests.more_often(
                events * weight, rows * weight, before * self.worth, rows_before * self.worth
            )
            counts = gate in ("missing", "unseen") or not gates.normalised(name)
            if counts and share - usual >= least and p < gates.allowed(gate):
                said = f"{name}: {share:.0%} of the rows {words}, {own} {usual:.0%}."
                yield Reason(code, said, name, p, gates.allowed(gate), CHECK)
        distance, p = self._values(gates, name, now[N_SUMS:], past[N_SUMS:])
        if not gates.normalised(name) and distance >= WORTH_SAYING and p < gates.allowed("values"):
            said = f"{name}: distributed otherwise than {own} (distance {distance:.2f})."
            yield Reason("values_differ", said, name, p, gates.allowed("values"), CHECK)

    def _values(self, gates: Gates, name: str, now: np.ndarray, past: np.ndarray) -> tuple[float, float]:
        """Distance of the shares of the bins, and the chance of so large a one."""
        numeric, rows, before = gates.columns[name].numeric, now * gates.per_row(), past * self.worth
        distance = (tests.ks if numeric else tests.total_variation)(past, now) or 0.0
        if numeric:
            return distance, tests.other_distribution(distance, rows.sum(), before.sum())
        return distance, tests.other_shares(rows, before)


def told_apart(gates: Gates, own: OwnNights | None) -> tuple[list[Reason], list[Reason]]:
    """Why tonight's columns deserve attention, and in what they are merely unlike those of training.

    A series without nights enough is held against training. A column in other units is an alarm whatever the
    nights before were: the model reads wrong numbers.
    """
    beside_training = gates.attention()
    if own is None:
        return beside_training, []
    units = gates.changed_units()
    return [*units, *own.reasons(gates)], [reason for reason in beside_training if reason not in units]
