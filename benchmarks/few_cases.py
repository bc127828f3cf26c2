"""What does a blend gain by one-class machines where cases are few?

    python benchmarks/few_cases.py --splits 2 --out few_cases.csv
    python benchmarks/few_cases.py --out few_cases.csv --table

Of the two-class UCI sets in ../shared/data two thirds are trained on, with all cases
but a few taken out and up to 900 others, and one third is ranked. Members are at their
recipes' own settings. Compared: the blend as `auto` makes it with few cases (members
weighed by held-out scores, one-class ones less the more cases), its machines of labels
alone, its one-class machines alone, one-class machines with a weight of min(.5, 2.5 /
cases), and a balanced forest. A piece that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from promise import SETS, uci
from resumed import run_missing

sys.path.insert(0, str(Path(__file__).parent / "papers"))
from sets import random_splits, skip_unless_there

from screening.errors import ScreenError
from screening.estimators.ensembles import Pooling
from screening.metrics.ranking import area_under_roc, average_precision
from screening.model_selection.folds import split_study
from screening.model_selection.held_out import encode, plan_method
from screening.model_selection.plans import run_plan
from screening.model_selection.task import infer_task
from screening.recipes.building import load_recipe
from screening.recipes.recipe import ENOUGH_POSITIVES
from screening.settings import Resources, Validation

CASES = (2, 3, 5, 9, 15, 30)
MAX_NEGATIVES = 900
COLUMNS = ("set", "cases", "seed", "method", "auroc", "average_precision")
AUTO = load_recipe("auto")
OTHER = "balanced_forest"


@dataclass(frozen=True)
class Member:
    """Decisions of a member, on rows held out and on new ones, (n_rows,) each."""

    held_out: np.ndarray
    new: np.ndarray
    is_one_class: bool


def piece(name: str, n_cases: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the figures of every method on one set, number of cases and split."""
    whole = uci(name)
    is_case = whole.labels == "yes"
    old, new = next(random_splits(is_case.astype(int), 1 / 3, 1, seed))
    rng = np.random.default_rng(seed)
    cases = rng.permutation(old[is_case[old]])[:n_cases]
    others = rng.permutation(old[~is_case[old]])[:MAX_NEGATIVES]
    past = whole.take(np.sort(np.concatenate([cases, others])))
    task, _ = infer_task(past, several=False)
    study = replace(
        split_study(
            past, task.target(past.labels), task, Validation(repeats=1, seed=seed)
        ),
        n_settings=1,
    )
    members: dict[str, Member] = {}
    for recipe in (*AUTO.members, *AUTO.scarce):
        if AUTO.every[recipe].machine == "multi_class":
            continue
        try:
            loaded = load_recipe(recipe)
            plan = plan_method(study, loaded, encode(study, loaded))
            fitted = run_plan(plan, Resources(jobs=1))
        except ScreenError as error:
            print(f"{name}, {n_cases} cases: {recipe} left out: {error}")
            continue
        x = fitted.encoder.transform(whole.take(new).values)
        members[recipe] = Member(
            held_out=fitted.decisions.mean(axis=0)[:, 0].astype(float),
            new=fitted.ensemble.decisions(x)[:, 0],
            is_one_class=recipe in AUTO.scarce,
        )
    past_cases = study.sample.labels == "yes"
    for method, scores in _methods(members, past_cases, n_cases).items():
        yield {
            "set": name,
            "cases": n_cases,
            "seed": seed,
            "method": method,
            "auroc": 100 * area_under_roc(scores, is_case[new]),
            "average_precision": 100 * average_precision(scores, is_case[new]),
        }


def _methods(
    members: dict[str, Member], is_case: np.ndarray, n_cases: int
) -> dict[str, np.ndarray]:
    """Return the scores of new rows by every method."""
    every = list(members.values())
    of_labels = [member for member in every if not member.is_one_class]
    one_class = [member for member in every if member.is_one_class]
    labels = _pooled(of_labels, is_case)
    normal = _pooled(one_class, None)
    share = min(0.5, 2.5 / n_cases)
    remaining = max(1 - n_cases / ENOUGH_POSITIVES, 0.0)
    fading = np.where([member.is_one_class for member in every], remaining, 1.0)
    return {
        "all by held-out scores (auto)": _pooled(every, is_case, fading),
        "labels alone": labels,
        "one-class alone": normal,
        "one-class by min(.5, 2.5 / cases)": (1 - share) * _standardised(labels)
        + share * _standardised(normal),
        OTHER: members[OTHER].new,
    }


def _pooled(
    members: list[Member],
    is_case: np.ndarray | None,
    fading: np.ndarray | None = None,
) -> np.ndarray:
    held_out = np.stack([member.held_out for member in members], axis=1)[:, :, None]
    new = np.stack([member.new for member in members], axis=1)[:, :, None]
    positive = None if is_case is None else is_case[:, None]
    return Pooling.of(held_out, positive, fading).pooled(new)[:, 0]


def _standardised(scores: np.ndarray) -> np.ndarray:
    return (scores - scores.mean()) / (scores.std() or 1.0)


def main() -> None:
    """Print mean AUROC and average precision by number of cases and method."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=[*SETS])
    parser.add_argument("--out", type=Path, default=Path("few_cases.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    skip_unless_there()
    pieces = [
        (name, n_cases, seed)
        for seed in range(0 if asked.table else asked.splits)
        for n_cases in CASES
        for name in asked.sets
    ]
    run_missing(asked.out, COLUMNS, ("set", "cases", "seed"), pieces, piece)
    rows = pd.read_csv(asked.out)
    for figure in ("auroc", "average_precision"):
        print(figure)
        print(rows.groupby(["method", "cases"])[figure].mean().unstack().round(1))


if __name__ == "__main__":
    main()
