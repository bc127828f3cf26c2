"""What a model must show of itself before it is written: its own cases flagged, rows told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.errors import RecipeError, UsageError
from screening.statistics.operating_point import FLAG_EVERYTHING, OperatingPoint
from screening.statistics.threshold_search import Rule, pick
from screening.validation.search import FARTHEST_APART, ROUNDING, apart
from screening.validation.task import Task
from screening.validation.validation import Validation

# Training cases flagged may fall short of the promise by this many standard errors, and by so much.
ERRORS_SHORT, SHORT = 3.0, 0.05

REMEDY = (
    "try another recipe (logistic, svm_weighted), more settings with --search, or fewer columns with --drop"
)


def refuse_too_few(task: Task, watched: np.ndarray, rules: Sequence[Rule]) -> None:
    """Refuse a sensitivity that no method could promise from so few cases, before any is trained.

    `watched` (n_rows, n_watched) says of which class the rows to train on are cases; the UsageError names the
    class, its cases and how many the rule needs.
    """
    for name, positive, rule in zip(task.watched, watched.T, rules, strict=True):
        if rule.name != "min_sensitivity":
            continue
        m, n = int(positive.sum()), int((~positive).sum())
        # The best there could be: beside flagging everything, all cases and nobody else.
        if pick(rule, np.array([m, m]), np.array([n, 0]), design=1.0) == 0:
            raise UsageError(_too_few(name, m, rule))


def check_promise(task: Task, points: Sequence[OperatingPoint]) -> None:
    """Refuse a rule that only flagging every row can keep.

    The UsageError names the class, its cases and how many the rule needs.
    """
    for name, point in zip(task.watched, points, strict=True):
        if point.threshold > FLAG_EVERYTHING or point.rule.name != "min_sensitivity":
            continue
        asked, m = point.rule.value or 0.0, point.n_positive
        if point.rule.confidence is None and asked <= _most(m, point.rule):
            raise UsageError(
                f"sensitivity {asked:g} of {name} would flag every row: many cases have the same values as "
                "most others, and no threshold parts them. Add a column that tells them apart, ask for less "
                "with --min-sensitivity, or take another rule such as --g-mean"
            )
        raise UsageError(_too_few(name, m, point.rule))


def _too_few(name: str, m: int, rule: Rule) -> str:
    asked = rule.value or 0.0
    sure = "" if rule.confidence is None else f" with confidence {rule.confidence:g}"
    return (
        f"{m} case(s) of {name} are too few to promise sensitivity {asked:g}{sure}: every row would be "
        f"flagged. Bring {_needed(rule)} cases or more, or ask for less: --min-sensitivity "
        f"{np.floor(100 * _most(m, rule)) / 100:g}, or another rule such as --max-flag-rate 0.1"
    )


def _most(m: int, rule: Rule) -> float:
    """The sensitivity that a threshold at the lowest of m cases promises."""
    return 1 - 1 / (m + 1) if rule.confidence is None else float((1 - rule.confidence) ** (1 / m))


def _needed(rule: Rule) -> str:
    """How many cases promise what is asked with a threshold at the lowest."""
    asked = rule.value or 0.0
    if asked >= 1:
        return "more"
    cases = 1 / (1 - asked) - 1 if rule.confidence is None else np.log(1 - rule.confidence) / np.log(asked)
    return str(int(np.ceil(cases - 1e-9)))


def check_model(
    recipe: str, task: Task, points: Sequence[OperatingPoint], validation: Validation, own: np.ndarray
) -> None:
    """Refuse a model that does not do on its own rows what it promises of others (RecipeError).

    That is where scores are constant or not finite, folds lie apart, or training cases are not flagged. `own`
    (n_rows, n_watched) are scores of the training rows by the model as it will be stored.
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
