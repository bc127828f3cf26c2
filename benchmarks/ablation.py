"""What does each part add? Blends with a member more or less, and machines with and
without their factor.

    python benchmarks/ablation.py --splits 5 --out ablation.csv
    python benchmarks/ablation.py --out ablation.csv --table

Two-class tasks of the UCI sets in ../shared/data and voxels of one MRI volume, at
random two thirds to one third. Every method is trained once on the two thirds, on the
same folds; a blend of any of them pools their decisions as `auto` does, so all blends
of a split share their members' machines to the last bit. "10 positives": all but ten
positives are taken out of the two thirds. A factor alone is judged at equal settings:
the same machine with `passes` 0 and 1, at gamma `scale` and at a narrow kernel,
`scale*10`; a machine that the self-checks refuse has no row. The sets were seen while
the tool was built. A split that is in the CSV is not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from blend import FIGURES, best_threshold, figures
from promise import SETS, cohort_of, present, trained
from resumed import run_missing
from scipy.stats import t as student
from sets import random_splits, skip_unless_there, table

from screening.data.cohort import Cohort
from screening.errors import RecipeError
from screening.estimators.ensembles import Pooling
from screening.model_selection.held_out import HeldOutDecisions
from screening.recipes.building import load_recipe

TASKS = (*list(SETS)[:10], "voxels")
FEW = 10
# Settings tried, of every method alike; one-class machines are quick and have more to
# search.
SEARCH, SEARCH_ONE_CLASS = 3, 24
ADDED = (
    "svm",
    "williams",
    "maratea",
    "liu_he",
    "act_input_space",
    "amari_wu",
    "one_class",
    "one_class_conformal",
)
FACTORS = (
    "williams",
    "maratea",
    "liu_he",
    "act_input_space",
    "amari_wu",
    "one_class_conformal",
)
WIDTHS = {"scale": "scale", "narrow": "scale*10"}
SHOWN = ("auroc", "average_precision")
COLUMNS = ("set", "seed", "positives", "method", *FIGURES)


@dataclass(frozen=True)
class Scores:
    """Decisions of one method: of held-out rows, and of new ones."""

    held: np.ndarray
    new: np.ndarray

    @classmethod
    def of(cls, part: HeldOutDecisions, rest: Cohort) -> Scores:
        new = part.ensemble.decisions(part.encoder.transform(rest.values))
        return cls(part.decisions.mean(axis=0)[:, 0], new[:, 0])

    @classmethod
    def pooled(cls, members: Sequence[Scores], target: np.ndarray) -> Scores:
        held, new = (
            np.stack([getattr(each, rows) for each in members], axis=1)[:, :, None]
            for rows in ("held", "new")
        )
        pooling = Pooling.of(held, target[:, None])
        return cls(pooling.pooled(held)[:, 0], pooling.pooled(new)[:, 0])


def thinned(past: np.ndarray, ill: np.ndarray, positives: str, seed: int) -> np.ndarray:
    """The rows of the past that are trained on."""
    if positives == "all":
        return past
    few = np.random.default_rng(seed).permutation(past[ill[past]])[:FEW]
    return np.sort(np.concatenate([past[~ill[past]], few]))


def settings_of(name: str) -> int:
    return SEARCH_ONE_CLASS if load_recipe(name).machine == "one_class" else SEARCH


def blends(
    auto: dict[str, Scores], added: dict[str, Scores], target: np.ndarray
) -> Iterator[tuple[str, Scores]]:
    """`auto`, every blend that is one member away from it, and every method alone."""
    without = {
        name: [each for other, each in auto.items() if other != name] for name in auto
    }
    yield "auto", Scores.pooled([*auto.values()], target)
    for name, rest in without.items():
        yield f"auto without {name}", Scores.pooled(rest, target)
    for name, more in added.items():
        yield f"auto with {name}", Scores.pooled([*auto.values(), more], target)
        yield (
            f"auto with {name} for svm_weighted",
            Scores.pooled([*without["svm_weighted"], more], target),
        )
    yield from (auto | added).items()


def split(name: str, seed: int, positives: str) -> Iterator[dict[str, object]]:
    """Every blend and every pair on one split."""
    whole = cohort_of(name, seed)
    ill = whole.labels == "yes"
    old, new = next(random_splits(ill.astype(int), 1 / 3, 1, seed))
    past, rest = whole.take(thinned(old, ill, positives, seed)), whole.take(new)

    def fitted(recipe: str, search: int, **params: object) -> HeldOutDecisions:
        return trained(
            past, recipe, repeats=1, search=search, seed=seed, params=params
        ).held_out

    auto = {
        part.recipe.name: Scores.of(part, rest)
        for part in fitted("auto", SEARCH).members
    }
    added = {each: Scores.of(fitted(each, settings_of(each)), rest) for each in ADDED}
    target = past.labels == "yes"
    methods = dict(blends(auto, added, target))
    for factor in FACTORS:
        for width, gamma in WIDTHS.items():
            for passes in (0, 1):
                with suppress(RecipeError):
                    machines = fitted(factor, 1, gamma=gamma, passes=passes)
                    methods[f"{factor}, {width}, passes {passes}"] = Scores.of(
                        machines, rest
                    )
    for method, scores in methods.items():
        found = figures(scores.new, ill[new], best_threshold(scores.held, target))
        yield {
            "set": name,
            "seed": seed,
            "positives": positives,
            "method": method,
        } | found


def compared_pairs() -> list[tuple[str, str]]:
    """Methods to subtract from each other, the second from the first."""
    auto = load_recipe("auto")
    pairs = [
        ("auto", f"auto without {name}")
        for name in auto.members
        if name != "one_vs_rest"
    ]
    pairs += [(f"auto with {name}", "auto") for name in ADDED]
    pairs += [(f"auto with {name} for svm_weighted", "auto") for name in ADDED]
    pairs += [(name, "svm") for name in FACTORS[:-1]] + [
        ("one_class_conformal", "one_class")
    ]
    widths = [(factor, width) for width in WIDTHS for factor in FACTORS]
    return pairs + [
        (f"{factor}, {width}, passes 1", f"{factor}, {width}, passes 0")
        for factor, width in widths
    ]


def summarised(rows: pd.DataFrame) -> str:
    """Mean paired differences with 95 % intervals (t): over tasks; of voxels, one task,
    over drawn splits.
    """
    heads, columns, notes = [""], [], []
    for (positives, voxels), part in rows.groupby(
        ["positives", rows["set"] == "voxels"], sort=False
    ):
        title = f"{'voxels, ' if voxels else ''}{positives} positives"
        n_splits = part.groupby("set")["seed"].nunique().min()
        notes.append(
            f"{title}: {part['set'].nunique()} tasks, {n_splits} splits or more"
        )
        for figure in SHOWN:
            wide = part.pivot(index=["set", "seed"], columns="method", values=figure)
            gaps = [wide[first] - wide[second] for first, second in compared_pairs()]
            # On the splits that both have: a machine refused on one of them is compared
            # on the others.
            unit = "seed" if voxels else "set"
            columns.append(
                [interval(gap.groupby(unit).mean().dropna()) for gap in gaps]
            )
            heads.append(
                f"{figure.replace('_', ' ').replace('auroc', 'AUROC')}, {title}"
            )
    names = [f"{first} - {second}" for first, second in compared_pairs()]
    lines = [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]
    return "\n".join([table(heads, lines), "", *notes])


def interval(gaps: pd.Series) -> str:
    """Mean and 95 % interval; a star where it leaves out zero; nothing of fewer than
    three.
    """
    if len(gaps) < 3:
        return "-"
    middle, half = (
        gaps.mean(),
        student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)),
    )
    return f"{middle:+.1f} ({middle - half:+.1f} to {middle + half:+.1f}){'*' if abs(middle) > half else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("ablation.csv"))
    parser.add_argument(
        "--table", action="store_true", help="only print what the CSV holds"
    )
    asked = parser.parse_args()
    skip_unless_there()
    pieces = [
        (name, seed, positives)
        for seed in range(0 if asked.table else asked.splits)
        for positives in ("all", str(FEW))
        for name in present(asked.sets)
    ]
    run_missing(asked.out, COLUMNS, ("set", "seed", "positives"), pieces, split)
    print(summarised(pd.read_csv(asked.out)))


if __name__ == "__main__":
    main()
