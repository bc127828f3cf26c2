"""Drift over nights: false alarms, power and speed, as markdown tables.

python benchmarks/drift.py            # simulated scores: some minutes of one core
python benchmarks/drift.py --models   # nights that trained models score
python benchmarks/drift.py --history  # `screen history` over 1,096 nights
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from screening import read_cohort, train
from screening.ledger.database import open_ledger
from screening.ledger.entries import Night
from screening.ledger.history import history
from screening.ledger.nights import open_night
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.metrics.control import (
    RECENT_NIGHTS,
    drift_over,
    inner_edges,
    score_cells,
    shift,
)
from screening.report.night_attention import is_alarming
from screening.schemas.run import ScoreCounts
from screening.scoring.reference_distribution import reference_counts

sys.path.insert(0, str(Path(__file__).parents[1] / "sample_cohorts"))

ILL, APART = 0.1, 2.0
"""Share of patients with the condition, and how many standard deviations higher they
score."""


def scores_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Scores of n patients."""
    return rng.normal(size=n) + APART * (rng.random(n) < ILL)


SPREAD = (1 + APART**2 * ILL * (1 - ILL)) ** 0.5


def counted(known: np.ndarray, cell: np.ndarray) -> ScoreCounts:
    """A night's counts with their test, as a run has them."""
    counts = np.bincount(cell, minlength=len(known))
    found = shift(known, counts)
    assert found is not None
    return ScoreCounts(
        unit="row",
        known=known,
        counted=counts,
        distance=found.distance,
        p=found.p,
        higher=found.higher,
    )


def nights_alone(times: int) -> None:
    """Alarms of single nights, by rows of training, rows of the night and shift of the
    score.
    """
    print(
        _line(
            ["training rows", "rows tonight", "no change", "0.25 sd", "0.5 sd", "1 sd"]
        ),
        _rule(6),
        sep="\n",
    )
    rng = np.random.default_rng(0)
    for trained, tonight in (
        (240, 60),
        (240, 300),
        (683, 20),
        (683, 60),
        (683, 300),
        (683, 2000),
    ):
        row = []
        for by in (0.0, 0.25, 0.5, 1.0):
            alarmed, draws = 0, times if by == 0 else times // 5
            for _ in range(draws):
                past = scores_of(rng, trained)
                edges = inner_edges(past)
                known = np.bincount(score_cells(past, edges), minlength=len(edges) + 1)
                alarmed += is_alarming(
                    counted(
                        known, score_cells(scores_of(rng, tonight) + by * SPREAD, edges)
                    )
                )
            row.append(f"{100 * alarmed / draws:.1f}")
        print(f"| {trained} | {tonight} | {' | '.join(row)} |", flush=True)


def stays(
    rng: np.random.Generator, beds: int, stay: int, by: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Hashes and scores of each night's patients; a patient's score varies little while
    they stay.
    """
    own, left = scores_of(rng, beds), rng.integers(1, stay + 1, beds)
    names, last = np.arange(beds), beds
    for _ in range(RECENT_NIGHTS):
        yield names.copy(), own + 0.2 * rng.normal(size=beds) + by * SPREAD
        left -= 1
        gone = left == 0
        own[gone], left[gone] = scores_of(rng, int(gone.sum())), stay
        names[gone] = last + np.arange(gone.sum())
        last += int(gone.sum())


def nights_together(times: int) -> None:
    """Alarms over the last 14 nights, by length of stay."""
    heads = [
        "stay, nights",
        "beds",
        "patients",
        "no change",
        "the same, each night's patients as new ones",
    ]
    print("", _line([*heads, "0.5 sd", "1 sd"]), _rule(7), sep="\n")
    rng = np.random.default_rng(1)
    for stay, beds in ((1, 60), (5, 60), (7, 60), (7, 20)):
        row, naive, patients = [], 0, 0
        for by in (0.0, 0.5, 1.0):
            alarmed, draws = 0, times if by == 0 else times // 5
            for _ in range(draws):
                past = scores_of(rng, 683)
                edges = inner_edges(past)
                known = np.bincount(score_cells(past, edges), minlength=len(edges) + 1)
                nights, every = [], np.zeros(len(known), int)
                for who, scores in stays(rng, beds, stay, by):
                    cell = score_cells(scores, edges)
                    every += np.bincount(cell, minlength=len(known))
                    nights.append(
                        ScoreCounts(
                            unit="row", known=known, counted=(), who=who, cell=cell
                        )
                    )
                told = drift_over(nights)
                alarmed += told.reason is not None
                if by == 0:
                    naive += shift(known, every).p <= 0.005
                    patients += told.patients
            row.append(f"{100 * alarmed / draws:.1f}")
        middle = f"{100 * naive / times:.1f}"
        print(
            f"| {stay} | {beds} | {patients / times:.0f} | {row[0]} | {middle} | {row[1]} | {row[2]} |",
            flush=True,
        )


class Ward:
    """The sample ward: a model trained on 683 of its patients, and 4,000 more to draw
    nights from.
    """

    def __init__(self, recipe: str, seed: int):
        import nosocomial

        self.rng = np.random.default_rng(seed)
        table = nosocomial.census(self.rng, 4683)
        table.insert(0, "patient_id", [f"P{i:06d}" for i in range(len(table))])
        self.pool = table[683:].reset_index(drop=True)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "past.csv"
            table[:683].to_csv(place, index=False)
            cohort = read_cohort(
                place, label="infected", positive="yes", id="patient_id"
            )
            self.model = train(cohort, recipe, forward=False, beside=())
        self.edges, self.known = reference_counts(self.model)
        self.folds = int(self.model.document["validation"]["folds"])
        self.machine = self.rng.integers(self.folds, size=len(self.pool))

    def best(self) -> list[str]:
        """The five measured inputs that differ most between those with and without the
        condition.
        """
        ill = self.pool["infected"] == "yes"
        numbers = self.pool.select_dtypes("number")
        numbers = numbers.loc[:, numbers.nunique() > 10]
        gap = (numbers[ill].mean() - numbers[~ill].mean()).abs() / numbers.std()
        return list(gap.sort_values(ascending=False).index[:5])

    def cells(self, columns: list[str], by: float, *, mean: bool = False) -> np.ndarray:
        """Cells of the pool's scores, inputs shifted by so many standard deviations."""
        frame = self.pool.copy()
        frame[columns] = frame[columns] + by * frame[columns].std()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "night.csv"
            frame.to_csv(place, index=False)
            x = self.model.encoder.transform(
                read_cohort(place, contract=self.model.contract).values
            )
        scores = self.model.decisions(x)[:, 0]
        for k in range(0 if mean else self.folds):
            scores[self.machine == k] = self.model.ensemble.decision_of(
                k, x[self.machine == k]
            )[:, 0]
        return score_cells(scores, self.edges)

    def alarmed(self, cell: np.ndarray, nights: int) -> str:
        """Percentage of nights of 300 patients with an alarm."""
        picks = (self.rng.choice(len(cell), 300, replace=False) for _ in range(nights))
        return f"{100 * np.mean([is_alarming(counted(self.known, cell[rows])) for rows in picks]):.1f}"


def models(recipes: list[str], trainings: int, nights: int) -> None:
    """Alarms of nights of 300 rows of the sample ward: unchanged, or with inputs
    shifted.
    """
    heads = ["recipe", "training", "no change", "same, by the mean of machines"]
    print(
        _line([*heads, "best input, 0.5 sd", "1 sd", "five best, 0.5 sd", "1 sd"]),
        _rule(8),
        sep="\n",
    )
    for recipe in recipes:
        for seed in range(trainings):
            ward = Ward(recipe, seed)
            best = ward.best()
            row = [
                ward.alarmed(ward.cells([], 0.0, mean=mean), nights)
                for mean in (False, True)
            ]
            for names in (best[:1], best):
                row += [
                    ward.alarmed(ward.cells(names, by), nights) for by in (0.5, 1.0)
                ]
            print(_line([f"`{recipe}`", seed + 1, *row]), flush=True)


def _line(cells: list) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rule(columns: int) -> str:
    return "|---" * columns + "|"


def long_history(nights: int) -> None:
    """Seconds of `history` over so many nights, each with 240 patients, 30 flagged, 15
    judged.
    """
    rng = np.random.default_rng(3)
    facts = {
        "run_id": "r",
        "model": "m" * 64,
        "recipe": "svm",
        "thresholds": {"yes": 0.5},
        "title": None,
        "minutes_per_review": 10.0,
        "capacity": 20,
        "unflagged": {"cases": 210},
        "series": "ward-7",
        "read": 240,
        "scored": 240,
        "refused": 0,
        "flagged": 30,
        "question": {
            "label": "infected",
            "positive": ["yes"],
            "id": "patient",
            "group": None,
        },
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        open_ledger(Path(folder) / "l.db", make=True) as ledger,
    ):
        for night in range(nights):
            date = str(datetime.date(2023, 1, 1) + datetime.timedelta(days=night))
            who, cell = (
                rng.integers(2**32, size=240).tolist(),
                rng.integers(20, size=240).tolist(),
            )
            drift = ScoreCounts(
                unit="row",
                known=(34,) * 20,
                counted=(12,) * 20,
                distance=0.05,
                p=0.5,
                who=who,
                cell=cell,
            )
            names = tuple(
                f"P{night // 5 * 100 + i:06d}"
                for i in rng.choice(100, 30, replace=False)
            )
            brought = Night.from_dict(
                facts | {"key": date, "night": date, "drift": drift}
            )
            with open_night(ledger, brought, names) as tonight:
                tonight.enter()
                judged = {*names[:15], *tonight.drawn}
            record_verdicts(
                ledger, date, [Verdict(name, "ruled out") for name in judged]
            )
        began = time.perf_counter()
        told = history(ledger)
        seconds = time.perf_counter() - began
    print(
        f"`history` over {len(told['runs'])} nights with 240 patients each: {seconds:.2f} s"
    )


TABLES = {"nights": nights_alone, "stays": nights_together}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", metavar="RECIPE")
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument(
        "--only", choices=tuple(TABLES), help="one of the simulated tables"
    )
    chosen = parser.parse_args()
    if chosen.history:
        long_history(1096)
    elif chosen.models is not None:
        models(chosen.models or ["svm_weighted", "logistic", "random_forest"], 3, 200)
    else:
        for table in [TABLES[chosen.only]] if chosen.only else TABLES.values():
            table(chosen.times)


if __name__ == "__main__":
    main()
