"""What a model must show of itself before it is written: its own cases flagged, rows told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.errors import RecipeError, UsageError
from screening.statistics.operating_point import FLAG_EVERYTHING, OperatingPoint
from screening.validation.choice import FARTHEST_APART, ROUNDING, apart
from screening.validation.task import Task
from screening.validation.validation import Validation

# Training cases flagged may fall short of the promise by this many standard errors, and by so much.
ERRORS_SHORT, SHORT = 3.0, 0.05

REMEDY = (
    "try another recipe (logistic, svm_weighted), more settings with --search, or fewer columns with --drop"
)


def check_promise(task: Task, points: Sequence[OperatingPoint]) -> None:
    """Refuse a rule that only flagging every row can keep.

    Raises
    ------
    UsageError
        Naming the class, its cases and how many the rule needs.
    """
    for name, point in zip(task.watched, points, strict=True):
        if point.threshold > FLAG_EVERYTHING or point.rule.name != "min_sensitivity":
            continue
        asked, m = point.rule.value or 0.0, point.n_positive
        sure = "" if point.rule.confidence is None else f" with confidence {point.rule.confidence:g}"
        least = 1 - 1 / (m + 1)
        if point.rule.confidence is None and asked <= least:
            raise UsageError(
                f"sensitivity {asked:g} of {name} would flag every row: many cases have the same values as "
                "most others, and no threshold parts them. Add a column that tells them apart, ask for less "
                "with --min-sensitivity, or take another rule such as --g-mean"
            )
        raise UsageError(
            f"{m} case(s) of {name} are too few to promise sensitivity {asked:g}{sure}: every row would be "
            f"flagged. Bring {_needed(asked)} cases or more, or ask for less: --min-sensitivity "
            f"{np.floor(100 * least) / 100:g}, or another rule such as --max-flag-rate 0.1"
        )


def _needed(asked: float) -> str:
    return "more" if asked >= 1 else str(int(np.ceil(1 / (1 - asked) - 1 - 1e-9)))


def check_model(
    recipe: str, task: Task, points: Sequence[OperatingPoint], validation: Validation, own: np.ndarray
) -> None:
    """Refuse a model that does not do on its own rows what it promises of others.

    Parameters
    ----------
    recipe : str
        Named in the refusal.
    own : ndarray, shape (n_rows, n_watched)
        Scores of the training rows by the model as it will be stored.

    Raises
    ------
    RecipeError
        Scores that are constant or not finite, folds that lie apart, or training cases that are not flagged.
    """
    for m, (name, point) in enumerate(zip(task.watched, points, strict=True)):
        scores, positive = own[:, m], validation.watched[:, m]
        which = f" of {name}" if task.kind == "multi" else ""
        for words, values in (("", scores), (" on held-out rows", validation.scores[:, m])):
            if not np.isfinite(values).all():
                raise RecipeError(f"recipe {recipe}: its scores{which}{words} are not finite; {REMEDY}")
            if np.ptp(values) <= ROUNDING * np.abs(values).max():
                raise RecipeError(
                    f"recipe {recipe}: it scores all rows alike{which}{words} (but for rounding); {REMEDY}"
                )
        if apart(validation.repeats[0, ~positive, m], validation.fold[~positive]) > FARTHEST_APART:
            raise RecipeError(f"recipe {recipe}: the machines of its folds lie apart{which}; {REMEDY}")
        found = float(np.mean(scores[positive] >= point.threshold))
        promised = point.sensitivity or 0.0
        error = np.sqrt(promised * (1 - promised) / positive.sum())
        if found < promised - max(ERRORS_SHORT * error, SHORT):
            raise RecipeError(
                f"recipe {recipe}: it promises to find {promised:.0%} of new cases{which} and flags "
                f"{found:.0%} of its own training cases; {REMEDY}"
            )
