"""How often do the tests of a night raise a false alarm in wards where nothing changes?

    python benchmarks/quiet_wards.py --wards 200 --jobs 2

Each ward has 5 to 100 beds, stays of its own law, and patients unlike those of
training, as wards are. No model is trained: columns and scores come from known laws,
and go through the tests of a night as `screen score --ledger` calls them. Printed as
markdown: the share of nights with a false reason, by test and on the whole, from the
twenty-first night on.
"""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from screening.contract.contract import Contract
from screening.ledger.past_nights import PastNights
from screening.metrics.control import inner_edges, score_cells
from screening.metrics.usual_events import usual_events
from screening.monitoring.delivery import examine, independent, share_that_stays
from screening.monitoring.drift import (
    MIN_REFERENCE_NIGHTS,
    REFERENCE_NIGHTS,
    Gates,
)
from screening.monitoring.profile import profile
from screening.report.night_attention import STANDARD_ERRORS
from screening.schemas.run import Delivery, ScoreCounts
from screening.scoring.reference_distribution import compared
from screening.scoring.series_history import (
    _drift_of_scores,
    _drift_of_values,
)

N_NUMBERS = 8
N_TEXTS = 4
N_PAST = 1500
NIGHTS = 60
# Standard deviation of a patient's values from night to night; between patients it is
# 1.
WITHIN = 0.4
# How far the mean of a ward lies from that of training, in standard deviations.
WARD_EFFECT = 0.3
MISSING = 0.05
ILL = 0.12
APART = 2.0
FIRST_DAY = datetime.date(2026, 1, 1)
LAWS = ("geometric", "uniform", "short and long")
CONTRACT = Contract.from_dict(
    {
        "cohort": {"id": "patient", "label": "ill"},
        "features": {
            **{f"n{i}": {"type": "number"} for i in range(N_NUMBERS)},
            **{f"t{i}": {"type": "category"} for i in range(N_TEXTS)},
        },
    }
)


@dataclass
class Ward:
    """Beds with patients who stay several nights; nothing ever changes.

    Parameters
    ----------
    rng : numpy.random.Generator
    beds : int
    law : str
        Of the lengths of stays, one of `LAWS`.
    effect : float
        Standard deviation of the ward's means around those of training.
    """

    rng: np.random.Generator
    beds: int
    law: str
    effect: float = WARD_EFFECT

    def __post_init__(self) -> None:
        n_columns = N_NUMBERS + N_TEXTS + 1
        self.means = self.rng.normal(size=n_columns) * self.effect
        self.mean_stay = self.rng.uniform(2, 10)
        self.left = np.zeros(self.beds, int)
        self.values = np.zeros((self.beds, n_columns))
        self.missing = np.zeros((self.beds, N_NUMBERS), bool)
        self.ill = np.zeros(self.beds, bool)
        self.name = np.zeros(self.beds, np.int64)
        self.admitted = 0
        for _ in range(40):
            self.night()

    def _stays(self, n: int) -> np.ndarray:
        """Return lengths of stays in nights."""
        if self.law == "geometric":
            return self.rng.geometric(1 / self.mean_stay, n)
        if self.law == "uniform":
            return self.rng.integers(1, int(2 * self.mean_stay), n)
        is_long = self.rng.random(n) < 0.1
        return np.where(
            is_long, self.rng.integers(10, 40, n), self.rng.integers(1, 4, n)
        )

    def night(self) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Return names, columns and scores of a night; then patients leave and come."""
        new = np.flatnonzero(self.left == 0)
        self.left[new] = self._stays(len(new))
        self.values[new] = self.rng.normal(size=(len(new), self.values.shape[1]))
        self.missing[new] = self.rng.random((len(new), N_NUMBERS)) < MISSING
        self.ill[new] = self.rng.random(len(new)) < ILL
        self.name[new] = self.admitted + np.arange(len(new))
        self.admitted += len(new)
        self.left -= 1
        is_present = self.rng.random(self.beds) < self.occupancy
        seen = self.values[is_present] + self.means
        columns = {}
        for i in range(N_NUMBERS):
            noise = WITHIN * self.rng.normal(size=len(seen))
            numbers = np.exp(seen[:, i] + noise)
            numbers[self.missing[is_present, i]] = np.nan
            columns[f"n{i}"] = numbers
        for i in range(N_TEXTS):
            cuts = [-0.5, 0.8, 1.8]
            codes = np.searchsorted(cuts, seen[:, N_NUMBERS + i])
            columns[f"t{i}"] = np.array(list("abcd"), dtype=object)[codes]
        scores = (
            0.9 * seen[:, -1]
            + APART * self.ill[is_present]
            + 0.45 * self.rng.normal(size=len(seen))
        )
        return self.name[is_present], columns, scores

    @property
    def occupancy(self) -> float:
        """Share of the beds that is filled."""
        return 1.0 if self.beds < 10 else 0.93


def nights_of(
    seed: int, n_nights: int = NIGHTS
) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yield the beds, and by kind of test the codes of the reasons of a night."""
    rng = np.random.default_rng(seed)
    training = Ward(np.random.default_rng(10_000 + seed), N_PAST, "geometric", effect=0)
    _, past_columns, past_scores = training.night()
    stored = profile(past_columns, CONTRACT)
    edges = inner_edges(past_scores)
    known = np.bincount(score_cells(past_scores, edges), minlength=len(edges) + 1)
    threshold = float(np.quantile(past_scores, 0.85))
    flag_rate = float((past_scores >= threshold).mean())
    ward = Ward(rng, int(rng.integers(5, 101)), LAWS[seed % 3])
    past = PastNights({}, {}, {}, None, (), flags={})
    before: np.ndarray | None = None
    for number in range(n_nights):
        date = str(FIRST_DAY + datetime.timedelta(days=number))
        names, columns, scores = ward.night()
        flagged = int((scores >= threshold).sum())
        gates = Gates(stored, CONTRACT)
        gates.add(gates.count(columns, np.arange(len(names))))
        delivery = Delivery(rows=len(names), units=len(names))
        if before is not None:
            still = len(np.intersect1d(before, names))
            delivery = delivery.replace(before=len(before), still=still)
        delivery, findings = examine(date, delivery, past.deliveries)
        share = independent(share_that_stays(past.deliveries.values()))
        values, _ = _drift_of_values(gates, past, share)
        cells = np.bincount(score_cells(scores, edges), minlength=len(known))
        counted = ScoreCounts(unit="row", known=(), counted=tuple(cells.tolist()))
        drift = compared(counted, known)
        of_scores, _ = _drift_of_scores(_RunOf(drift), past, share)
        if number >= MIN_REFERENCE_NIGHTS:
            yield (
                ward.beds,
                {
                    "delivery": [finding.reason.code for finding in findings],
                    "values": [reason.code for reason in values],
                    "scores": [reason.code for reason in of_scores],
                    "flags, by validation": _flags(flagged, len(names), flag_rate),
                    "flags": _flags_beside_own(past, share, flagged, len(names)),
                },
            )
        past.deliveries[date] = delivery
        past.columns[date] = gates.counts()
        past.scores[date] = drift
        past.flags[date] = (flagged, len(names))
        for kept in (past.deliveries, past.columns, past.scores, past.flags):
            while len(kept) > REFERENCE_NIGHTS:
                del kept[min(kept)]
        before = names


@dataclass
class _RunOf:
    """The part of a run document that the test of scores reads."""

    drift: ScoreCounts


def _flags(flagged: int, n_rows: int, rate: float) -> list[str]:
    """Return the code if flags lie beyond what validation expects."""
    variance = max(n_rows * rate * (1 - rate), 1.0) * (1 + n_rows / N_PAST)
    margin = STANDARD_ERRORS * variance**0.5
    low = np.floor(n_rows * rate - margin)
    high = np.ceil(n_rows * rate + margin)
    return [] if low <= flagged <= high else ["flags_unexpected"]


def _flags_beside_own(
    past: PastNights, share: float, flagged: int, n_rows: int
) -> list[str]:
    """Return the code if flags lie beyond what the ward's own nights allow."""
    counts = np.array(list(past.flags.values()), float)
    low, high = usual_events(counts[:, 0], counts[:, 1], n_rows, worth=share)
    return [] if low <= flagged <= high else ["flags_unexpected"]


@dataclass(frozen=True)
class WardNights:
    """Tests of the nights of one ward.

    Parameters
    ----------
    beds : int
    counts : Counter
        Nights with a reason of each kind.
    before, after : ndarray of bool, shape (n_nights,)
        Nights with any reason; flags held to validation, and to the ward's own nights.
    """

    beds: int
    counts: Counter[str]
    before: np.ndarray
    after: np.ndarray


def of_ward(seed: int) -> WardNights:
    """Return the nights of a ward with a reason."""
    counts: Counter[str] = Counter()
    before = []
    after = []
    beds = 0
    for n_beds, by_test in nights_of(seed):
        beds = n_beds
        others = [by_test[kind] for kind in ("delivery", "values", "scores")]
        is_other = any(others)
        before.append(is_other or bool(by_test["flags, by validation"]))
        after.append(is_other or bool(by_test["flags"]))
        for kind, codes in by_test.items():
            counts[kind] += bool(codes)
            for code in set(codes):
                counts[f"{kind}: {code}"] += 1
    return WardNights(beds, counts, np.array(before), np.array(after))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wards", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    wards = Parallel(options.jobs)(delayed(of_ward)(i) for i in range(options.wards))
    total: Counter[str] = Counter()
    for ward in wards:
        total += ward.counts
    before = np.array([ward.before for ward in wards])
    after = np.array([ward.after for ward in wards])
    print(f"{len(wards)} wards, {after.size} nights", "", sep="\n")
    print("| test | nights with a false reason, % |", "|---|---|", sep="\n")
    print(f"| any, flags held to validation | {100 * before.mean():.2f} |")
    print(f"| any | {100 * after.mean():.2f} |")
    for kind, count in sorted(total.items()):
        print(f"| {kind} | {100 * count / after.size:.2f} |")
    beds = np.array([ward.beds for ward in wards])
    for low, high in ((5, 20), (20, 50), (50, 101)):
        chosen = after[(beds >= low) & (beds < high)]
        print(f"| any, {low} to {high - 1} beds | {100 * chosen.mean():.2f} |")
    for name, nights in (("validation", before), ("own nights", after)):
        sites = nights[: len(nights) // 40 * 40].reshape(-1, 40, nights.shape[1])
        mornings = 60 * sites.any(axis=1).mean() if len(sites) else np.nan
        print(f"{name}: {mornings:.0f} of 60 mornings of a site of forty wards")


if __name__ == "__main__":
    main()
