"""Columns that may be the answer itself, and a model that is too good: what would explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort, labels_of
from screening.data.summary import is_after_outcome
from screening.errors import RecipeError, UsageError
from screening.io.columns import absent
from screening.metrics.ranking import auroc, auroc_either_way, auroc_of_levels
from screening.model_selection.folds import Study
from screening.model_selection.held_out import held_out_by
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import Task
from screening.recipes.building import load_recipe
from screening.schemas.model import Leak

# A single value that ranks this well is rarely a value known beforehand.
SUSPICIOUS = 0.99
# A category with more levels than this, most rows having one of their own, is a name.
MANY_LEVELS, OWN_LEVEL = 20, 0.5
# A column whose being missing alone ranks at least this well says how patients were cared for.
MISSING_TELLS = 0.65
# A column called `time` and no more is named where it ranks as well as this.
RANKS = 0.65


def leaks(cohort: Cohort, task: Task) -> list[Leak]:
    """Columns to look at before the model is believed: they tell too much, or are named as what comes after.

    No patient's value is in them.
    """
    watched = task.is_watched(labels_of(cohort)).T
    named = []
    for name, feature in cohort.contract.features.items():
        values = cohort.values[name]
        gone = absent(values)
        alone = max(column_alone(cohort, name, positive) for positive in watched)
        missing = max(
            auroc_either_way(gone.astype(float), positive) for positive in watched
        )
        levels = len(set(values[~gone].tolist())) if feature.type == "category" else 0
        if levels > MANY_LEVELS and levels > OWN_LEVEL * (~gone).sum():
            sentence = f"{name}: {levels} categories, nearly one a row, like an id"
            named.append(
                Leak(
                    code="nearly_unique",
                    column=name,
                    figure=float(levels),
                    said=sentence,
                )
            )
        elif alone > SUSPICIOUS:
            sentence = f"{name}: alone it ranks with AUROC {alone:.3f}; is it known before the outcome?"
            named.append(
                Leak(code="ranks_alone", column=name, figure=alone, said=sentence)
            )
        if missing >= MISSING_TELLS:
            sentence = (
                f"{name}: missingness alone predicts the outcome (AUROC {missing:.2f}): "
                "possible care-process leakage"
            )
            named.append(
                Leak(code="missing_tells", column=name, figure=missing, said=sentence)
            )
        if is_after_outcome(name, or_any_time=alone >= RANKS):
            sentence = f"{name}: by its name it is known only after the outcome (follow-up, discharge); is it?"
            named.append(
                Leak(code="named_after", column=name, figure=alone, said=sentence)
            )
    return named


def column_alone(cohort: Cohort, name: str, positive: np.ndarray) -> float:
    """AUROC of one column by itself, whichever way it points; missing values rank in the middle."""
    values = cohort.values[name]
    if cohort.contract.features[name].type == "category":
        return auroc_of_levels(pd.factorize(values, use_na_sentinel=False)[0], positive)
    gone = absent(values)
    return auroc_either_way(
        np.where(gone, np.nanmedian(values) if (~gone).any() else 0.0, values), positive
    )


def before_the_outcome(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """The cohort without the columns that its contract says exist only after the outcome, and their names."""
    late = [
        name
        for name, feature in cohort.contract.features.items()
        if feature.available == "after"
    ]
    return without(cohort, late) if late else cohort, late


def without(cohort: Cohort, columns: Sequence[str]) -> Cohort:
    """The cohort with fewer features."""
    kept = {
        name: feature
        for name, feature in cohort.contract.features.items()
        if name not in columns
    }
    contract = cohort.contract.model_copy(update={"features": kept})
    return replace(
        cohort, contract=contract, values={name: cohort.values[name] for name in kept}
    )


# A column alone with this AUROC at least, and this share of what the model has above chance, carries it.
STRONG, CARRIES = 0.85, 0.95
# Models seldom rank so well, nor clear every non-case at a sensitivity of 90 %.
NEARLY_PERFECT, SENSITIVITY, CLEARED = 0.98, 0.9, 0.9995
# Columns that may explain it rank so well alone; more than a few explain nothing.
TELLING, MOST_COLUMNS = 0.75, 3
FEWEST_COLUMNS = 3  # carry a ranking by their number alone


def too_good(study: Study, held_out: HeldOutScores) -> list[Leak]:
    """What would explain a ranking that is too good to be true, one leak a watched class.

    `held_out`: what the model says of the rows that were held out.
    Gives each with the AUROC that is left without the columns it names, or the model's where nothing is.
    """
    named, cohort, task = [], study.sample, study.task
    for m, name in enumerate(task.watched):
        scores, positive = held_out.scores[:, m], held_out.watched[:, m]
        whole = auroc(scores, positive)
        alone = {
            column: column_alone(cohort, column, positive)
            for column in cohort.contract.features
        }
        ranked = sorted(alone, key=lambda column: -alone[column])
        least = max(STRONG, 0.5 + CARRIES * (whole - 0.5))
        carrying = [column for column in ranked if alone[column] >= least]
        threshold = np.quantile(scores[positive], 1 - SENSITIVITY, method="lower")
        cleared = float(np.mean(scores[~positive] < threshold))
        perfect = whole > NEARLY_PERFECT or cleared >= CLEARED
        if len(ranked) < FEWEST_COLUMNS:
            carrying = carrying if perfect else []
        if not carrying and not perfect:
            continue
        telling = [column for column in ranked if alone[column] >= TELLING]
        # What is left without one column may be too good still: then more of them explain it.
        for columns in filter(
            None, (carrying[:MOST_COLUMNS], (telling or ranked)[:MOST_COLUMNS])
        ):
            left = _without(study, columns, positive)
            if left is None or left <= NEARLY_PERFECT:
                break
        areas = " and ".join(f"{alone[column]:.3f}" for column in columns)
        which = f" for {name}" if task.kind == "multi" else ""
        sentence = f"{', '.join(columns)}: alone AUROC {areas}, the whole model{which} has {whole:.3f}"
        if cleared >= CLEARED:
            sentence += (
                f" and flags no other row where it finds {SENSITIVITY:.0%} of the cases"
            )
        if left is not None:
            them = "it" if len(columns) == 1 else "them"
            sentence += (
                f"; without {them} logistic regression on the same folds has {left:.3f}"
            )
        sentence += "; known before the outcome?"
        named.append(
            Leak(
                code="too_good",
                column=columns[0],
                figure=whole if left is None else left,
                said=sentence,
            )
        )
    return named


def _without(
    study: Study, columns: Sequence[str], positive: np.ndarray
) -> float | None:
    """AUROC of logistic regression on the same folds without some columns; None where nothing is left."""
    fewer = without(study.sample, columns)
    if not fewer.contract.features:
        return None
    fewer = replace(fewer, label=np.where(positive, "1", "0").astype(object))
    task = Task(
        kind="binary",
        label="label",
        positive=["1"],
        classes=["negative", "1"],
        watched=["1"],
    )
    once = replace(
        study, sample=fewer, task=task, fold=study.fold[:1], params={}, search=1
    )
    try:
        held_out = held_out_by(once, load_recipe("logistic"))
    except (RecipeError, UsageError):
        return None
    return float(auroc(held_out.decisions.mean(axis=0, dtype=float)[:, 0], positive))
