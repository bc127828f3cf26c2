"""Do the 95 % intervals of sensitivity hold where rows come in groups, and what do
intervals by row do?

Every cohort is drawn anew: positive patients of several voxels each, whose scores share
what belongs to the patient (a normal random intercept; the within-patient correlation
is its share of the variance). The truth is the sensitivity over all voxels of the
population: known, because the threshold is. A 95 % interval is good if it covers the
truth in 92 to 98 % of cohorts.

Three tables: at a threshold fixed beforehand (`performance`); at one chosen on the same
scores so that the sensitivity is at least 0.9 (`choose`), as `screen train` chooses it
from held-out scores; and, with rows that are independent, every figure of an operating
point of a model that is its folds, for every rule. The last model is linear
(`tests/fold_machines.py`), so that its truth is known exactly; intervals of the second
table are widened for fold machines that its scores do not have, and hold more often for
it.

    python benchmarks/interval_coverage.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fold_machines import drawn, folded

from screening.metrics.intervals import rate_interval
from screening.metrics.operating_point import choose
from screening.metrics.predictive_intervals import predictive
from screening.metrics.tally import ThresholdCounts, rate_bands
from screening.schemas.figures import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Rule,
    Threshold,
)

PATIENTS = (10, 20, 40, 80)
# Voxels of a patient; the last are log-normal with a standard deviation of 0.8, mean
# 30.
VOXELS = {"5": 5, "30": 30, "1 to 240": None}
CORRELATIONS = (0.3, 0.5, 0.8)
RULES = (MinSensitivity(0.9), MaxFlagRate(0.1), MissCost(20.0), GMean(), Threshold(0.0))
FOLDED = {
    "500 rows, 6 %": (500, 0.06),
    "500 rows, 18 %": (500, 0.18),
    "1,500 rows, 4 %": (1500, 0.04),
}
FIGURES = ("sensitivity", "specificity", "flag_rate", "ppv", "npv", "nne")


def cohorts(
    n: int, patients: int, voxels: int | None, correlation: float
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Seed, scores of positive voxels (standard normal over the population), and the
    patient of each.
    """
    for seed in range(n):
        rng = np.random.default_rng(seed)
        drawn = np.clip(
            np.round(30 * np.exp(0.8 * rng.normal(size=patients) - 0.32)), 1, 240
        )
        patient = np.repeat(
            np.arange(patients), drawn.astype(int) if voxels is None else voxels
        )
        shared = np.sqrt(correlation) * rng.normal(size=patients)
        yield (
            seed,
            shared[patient] + np.sqrt(1 - correlation) * rng.normal(size=len(patient)),
            patient,
        )


def at_fixed_threshold(n: int, sensitivity: float, *setting) -> list[float]:
    """Shares of cohorts whose interval by patient, and by row, covers the sensitivity;
    mean width of both.
    """
    threshold, found = norm.isf(sensitivity), []
    for seed, scores, patient in cohorts(n, *setting):
        tally = ThresholdCounts(
            scores,
            np.ones(len(scores), bool),
            patient,
            np.array([-np.inf, threshold]),
            seed,
        )
        low, high = (float(end[1]) for end in rate_bands(tally, True))
        row_low, row_high = (
            float(end) for end in rate_interval(tally.counts[0][1], len(scores))
        )
        found.append(
            [
                low <= sensitivity <= high,
                row_low <= sensitivity <= row_high,
                high - low,
                row_high - row_low,
            ]
        )
    return np.mean(found, axis=0).tolist()


def at_chosen_threshold(n: int, *setting) -> list[float]:
    """Share of cohorts whose interval covers the sensitivity of the threshold chosen;
    its mean; mean width.

    Neither the threshold nor the interval depends on the negatives: a few are there
    because it takes both classes.
    """
    rule, negatives, found = MinSensitivity(0.9), np.linspace(-4, 0, 5), []
    for seed, scores, patient in cohorts(n, *setting):
        y = np.arange(len(scores) + len(negatives)) < len(scores)
        group = np.concatenate([patient, patient.max() + 1 + np.arange(len(negatives))])
        point = choose(np.concatenate([scores, negatives]), y, rule, group, seed)
        truth = norm.sf(point.threshold)
        inside = point["sensitivity"].low <= truth <= point["sensitivity"].high
        found.append(
            [inside, truth, point["sensitivity"].high - point["sensitivity"].low]
        )
    return np.mean(found, axis=0).tolist()


def of_fold_machines(
    n: int, rule: Rule, rows: int, prevalence: float, repeats: int
) -> list[float]:
    """Share of cohorts whose interval covers, a figure each; promises that flag
    everything are left out.
    """
    found = []
    for seed in range(n):
        model = folded(*drawn(seed, rows, prevalence), seed, repeats)
        held = model.scores.mean(axis=0)
        point = choose(
            held, model.y, rule, seed=seed, fold=model.fold, repeats=model.scores
        )
        hit, clear = (
            model.sensitivity(point.threshold),
            model.specificity(point.threshold),
        )
        true = {"sensitivity": hit, "specificity": clear} | predictive(
            prevalence, hit, 1 - clear
        )
        shown = vars(point)
        if shown["npv"].value is not None:
            found.append([shown[f].low <= true[f] <= shown[f].high for f in FIGURES])
    return np.mean(found, axis=0).tolist()


def settings() -> Iterator[tuple[str, int, int | None, float]]:
    """Every number of voxels, of patients, and every correlation."""
    for name, voxels in VOXELS.items():
        for patients in PATIENTS:
            for correlation in CORRELATIONS:
                yield name, patients, voxels, correlation


def main() -> None:
    """Print the tables, as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=1000)
    asked = parser.parse_args()
    print(f"fixed threshold, {asked.cohorts} cohorts a line\n")
    print(
        "| sensitivity | voxels | patients | correlation | by patient | by row | widths |"
    )
    print("|---|---|---|---|---|---|---|")
    for sensitivity in (0.9, 0.75):
        for name, *setting in settings():
            patient, row, width, row_width = at_fixed_threshold(
                asked.cohorts, sensitivity, *setting
            )
            line = f"| {sensitivity} | {name} | {setting[0]} | {setting[2]} | {100 * patient:.1f} % "
            print(
                line + f"| {100 * row:.1f} % | {width:.2f}, {row_width:.2f} |",
                flush=True,
            )
    print(f"\nchosen threshold (at least 0.9), {asked.cohorts} cohorts a line\n")
    print("| voxels | patients | correlation | by patient | true sensitivity | width |")
    print("|---|---|---|---|---|---|")
    for name, *setting in settings():
        patient, truth, width = at_chosen_threshold(asked.cohorts, *setting)
        line = f"| {name} | {setting[0]} | {setting[2]} | {100 * patient:.1f} % "
        print(line + f"| {truth:.3f} | {width:.2f} |", flush=True)
    print(f"\na model that is its folds, {asked.cohorts} cohorts a line\n")
    print(f"| cohort | repeats | rule | {' | '.join(FIGURES)} |")
    print("|---" * (3 + len(FIGURES)) + "|")
    for name, cohort in FOLDED.items():
        for repeats in (1, 3):
            for rule in RULES:
                held = of_fold_machines(asked.cohorts, rule, *cohort, repeats)
                shares = " | ".join(f"{100 * share:.1f} %" for share in held)
                print(f"| {name} | {repeats} | {rule.name} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
