"""Every recipe on the sample cohorts: what out-of-fold scores promise, and what a new
night then holds.

python benchmarks/samples.py --recipes one_class,one_class_conformal,svm
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from screening import read_cohort, save_model, score, train
from screening.recipes.building import list_recipes

SAMPLES = Path(__file__).parents[1] / "sample_cohorts"
MAX_VOXELS = 2000
SLOW = ("auto", "sv_pruning")


def judged(
    recipe: str, past: str, new: str, contract: str, label: str, max_rows: int | None
) -> list[str]:
    """One row a watched class: out of fold, then on the new cohort."""
    began = time.perf_counter()
    cohort = read_cohort(SAMPLES / past, SAMPLES / contract, need_label=True)
    model = train(cohort, recipe, max_rows=max_rows, beside=())
    seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "model")
        run = score(model, SAMPLES / new, Path(folder) / "run", label=label)
    found = run.document["evaluation"]
    rows = []
    for point in model.facts.operating_points:
        auroc = model.facts.validation.summary[point.label]["auroc"].value
        sensitivity, low, high = point["sensitivity"].value_and_interval
        rates = [point["specificity"].value]
        rates += [
            found[point.label]["figures"][name]["value"]
            for name in ("sensitivity", "specificity")
        ]
        rows.append(
            f"| `{recipe}` | {point.label} | {auroc:.3f} | {sensitivity:.2f} ({low:.2f}-{high:.2f}) "
            f"| {' | '.join(f'{rate:.2f}' for rate in rates)} | {seconds:.1f} |"
        )
    return rows


def main() -> None:
    """Print one Markdown table a cohort."""
    known = [
        recipe
        for recipe in list_recipes()
        if recipe.persistable and recipe.name not in SLOW
    ]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", default=",".join(recipe.name for recipe in known))
    asked = parser.parse_args().recipes.split(",")
    head = "| recipe | class | AUROC | sensitivity | specificity | new: sensitivity | specificity | s |"
    for title, several, job in (
        (
            "Nosocomial infection, 683 patients, then a night of 240",
            False,
            ("nosocomial", "infected", "csv", None),
        ),
        (
            "Prostate voxels, 21 patients, then three new",
            True,
            ("prostate", "gleason", "parquet", MAX_VOXELS),
        ),
    ):
        name, label, ending, max_rows = job
        new = (
            f"{name}_night_labelled.{ending}"
            if not several
            else f"{name}_new_labelled.{ending}"
        )
        print(f"\n{title}\n\n{head}\n|---|---|---|---|---|---|---|---|")
        for recipe in known:
            if recipe.name in asked and (recipe.machine == "multi_class") == several:
                past, contract = f"{name}_past.{ending}", f"{name}.toml"
                print(
                    *judged(recipe.name, past, new, contract, label, max_rows),
                    sep="\n",
                    flush=True,
                )


if __name__ == "__main__":
    main()
