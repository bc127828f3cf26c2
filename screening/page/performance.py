"""What the threshold costs and finds: operating points, classes, evaluation on labels, the test of time."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from screening.documents.figures import OperatingPoint
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.validation import LaterClass, OperatingPointFacts
from screening.page import format as shown
from screening.page import lesions


@dataclass(frozen=True)
class Figure:
    """A figure with its interval and what it says, in words."""

    name: str
    value: str
    interval: str
    meaning: str


@dataclass(frozen=True)
class Choice:
    """What a rule would choose, in words."""

    rule: str
    threshold: str
    sensitivity: str
    specificity: str
    ppv: str
    nne: str
    flags: str
    in_use: bool


def score_places(model: ModelDocument, others: list[float]) -> int:
    """Return the decimals with which every score and threshold of the page is shown."""
    return max(shown.decimals([*others, *(point.threshold for point in model.points)]), 3)


def operating_points(
    model: ModelDocument, places: int, run: RunDocument | None = None
) -> list[dict[str, object]]:
    """Return each class's operating point: figures with intervals, the rule, and who chose it."""
    return [_operating_point(model, point, places, run) for point in model.points]


def _operating_point(
    model: ModelDocument, point: OperatingPointFacts, places: int, run: RunDocument | None
) -> dict[str, object]:
    return {
        "class": shown.name(point.label),
        "threshold": _threshold(point, places),
        "rule": lesions.rule(point.lesions) if point.lesions else shown.rule(point.rule),
        "chosen_by": "the training run" if point.chosen_by == "training" else shown.text(point.chosen_by),
        "reason": shown.text(point.reason or ""),
        "figures": [
            _figure("Sensitivity", "of the cases are flagged", *point.sensitivity_ends),
            _figure("Specificity", "of the others are left alone", *point.specificity_ends),
            _figure("PPV", "of the flagged are cases", *point.ppv_ends),
            _figure("NPV", "of the unflagged are not cases", *point.npv_ends),
            Figure("Reviews per case found", shown.ratio(point.nne), "", "number needed to evaluate (NNE)"),
            Figure("Flags per 100 rows", shown.per_hundred(point.flag_rate), "", "expected workload"),
        ],
        "basis": _basis(model, point, run),
        "prevalence": shown.percent(point.prevalence),
        "prevalence_from": "of the training cohort" if point.rule.prevalence is None else "given",
        "sentence": promise(model, point),
        "lesions": lesions.words(point.lesions) if point.lesions else "",
        "notes": [shown.text(note) for note in point.notes],
    }


def _threshold(point: OperatingPoint, places: int) -> str:
    return "none" if point.flags_everything else shown.fixed(point.threshold, places)


def _figure(name: str, meaning: str, value: float | None, low: float | None, high: float | None) -> Figure:
    return Figure(name, shown.percent(value), shown.interval(low, high), meaning)


def _basis(model: ModelDocument, point: OperatingPoint, run: RunDocument | None) -> str:
    words = f"From {shown.plural(point.n_positive, 'case')} and {shown.plural(point.n_negative, 'other row')}"
    if point.n_groups is not None:
        words += f" in {shown.plural(point.n_groups, 'group')} (intervals by group)"
    folds = shown.count(model.validation.folds)
    words += f", each scored by a model that had not seen it ({folds}-fold cross-validation)"
    return words + "." + _age(model, run)


def _age(model: ModelDocument, run: RunDocument | None) -> str:
    """Say of what time the patients are on whom the threshold was chosen, and how long ago that was."""
    window = model.training.window
    if not window:
        return ""
    words = f" They are of {shown.name(window[0])} to {shown.name(window[1])}"
    if run is None:
        return words + "."
    last, night = (datetime.date.fromisoformat(day[:10]) for day in (window[1], run.date))
    days = (night - last).days
    return words + (f"; the last is {shown.plural(days, 'day')} older than this night." if days > 0 else ".")


def promise(model: ModelDocument, point: OperatingPointFacts) -> str:
    """Say in one sentence what a clinician may expect of the list."""
    if point.lesions:
        return lesions.sentence(point.lesions)
    rows = f"{model.unit_of_review}s"
    if model.multi:
        return _sentence(point, f"such {rows}", "flagged for it")
    # The page counts patients; what is promised is of their rows or voxels.
    grouped = point.n_groups is not None
    return _sentence(
        point, f"positive {rows}" if grouped else "cases", f"flagged {rows}" if grouped else "flagged"
    )


def _sentence(point: OperatingPoint, kind: str, flagged: str) -> str:
    """The promise: of what `kind` of rows, and what the flagged are called."""
    if point.flags_everything:
        return "Every row is flagged: with so few past cases no threshold could keep the promise."
    if point.sensitivity is None:
        return ""
    found = round(100 * point.sensitivity)
    limits = shown.interval(point.sensitivity_low, point.sensitivity_high).replace("%", "")
    words = f"Expect it to find about {found} of 100 {kind}"
    words += f" (95% interval {limits})" if limits else ""
    # Rounding must not promise that nothing is missed.
    words += f" and to miss about {100 - found}." if found < 100 else "; that none is missed is not promised."
    if point.ppv is None:
        return words
    whole = 100 if point.ppv >= 0.01 else 1000
    return (
        f"{words} Of {whole:,} {flagged}, about {shown.count(whole * point.ppv)} "
        f"are {kind} (at a prevalence of {shown.percent(point.prevalence)})."
    )


def choices(model: ModelDocument, places: int) -> list[dict[str, object]]:
    """Return the table of operating points of each class, the one in use marked in words."""
    tables: list[dict[str, object]] = []
    for point in model.points:
        table = [_choice(row, point, places) for row in model.validation.points[point.label]]
        if not any(row.in_use for row in table):
            table.insert(0, _choice(point, point, places))
        tables.append({"class": shown.name(point.label), "rows": table})
    return tables


def _choice(row: OperatingPoint, used: OperatingPoint, places: int) -> Choice:
    return Choice(
        rule=shown.rule(row.rule),
        threshold=_threshold(row, places),
        sensitivity=shown.percent(row.sensitivity),
        specificity=shown.percent(row.specificity),
        ppv=shown.percent(row.ppv),
        nne=shown.ratio(row.nne),
        flags=shown.per_hundred(row.flag_rate),
        in_use=row.threshold == used.threshold,
    )


def per_class(model: ModelDocument) -> list[dict[str, object]]:
    """Return recall with precision of every class, rare classes first."""
    rows = sorted(model.validation.per_class or (), key=lambda row: (row.n, row.label))
    total = sum(row.n for row in rows)
    return [
        {
            "class": shown.name(row.label),
            "watched": row.label in model.task.watched,
            "n": shown.count(row.n),
            "share": shown.percent(row.n / total),
            "recall": shown.percent(row.recall),
            "recall_interval": shown.interval(row.recall_low, row.recall_high),
            "precision": shown.percent(row.precision),
        }
        for row in rows
    ]


def confusion(model: ModelDocument) -> dict[str, object] | None:
    """Return the confusion matrix, rare classes first: true classes down, predicted ones across."""
    found = model.validation.confusion
    if found is None:
        return None
    classes, counts = found.classes, found.counts
    order = sorted(range(len(classes)), key=lambda i: (sum(counts[i]), classes[i]))
    rows = []
    for i in order:
        total = sum(counts[i])
        cells = [
            {
                "count": shown.count(counts[i][j]),
                "right": i == j,
                "shade": min(4, int(5 * counts[i][j] / total)) if total else 0,
            }
            for j in order
        ]
        rows.append({"class": shown.name(classes[i]), "cells": cells, "total": shown.count(total)})
    return {"classes": [shown.name(classes[i]) for i in order], "rows": rows}


def _untold(rows: int) -> str:
    """What is said of rows without a label."""
    return f" ({shown.plural(rows, 'row')} without a label left out)" if rows else ""


def evaluation(run: RunDocument) -> list[dict[str, object]]:
    """Return promised against observed figures where the night's file carried labels."""
    tables: list[dict[str, object]] = []
    for point in run.model.points:
        seen, past = run.observed(point.label), run.model.validation.summary[point.label]
        if seen is None:
            continue
        compared = (
            ("Sensitivity", shown.share_ends, seen.sensitivity_ends, point.sensitivity_ends),
            ("Specificity", shown.share_ends, seen.specificity_ends, point.specificity_ends),
            ("Cases among the flagged (PPV)", shown.share_ends, seen.ppv_ends, point.ppv_ends),
            ("Non-cases among the unflagged (NPV)", shown.share_ends, seen.npv_ends, point.npv_ends),
            ("Area under the ROC curve", shown.area_ends, seen.auroc_ends, past.auroc_ends),
        )
        rows = [
            {"name": name, "observed": written(*observed), "promised": written(*promised)}
            for name, written, observed, promised in compared
            if observed[0] is not None
        ]
        if rows:
            ill, others = seen.n_positive, seen.n_negative
            tables.append(
                {
                    "class": shown.name(point.label),
                    "cases": shown.plural(ill, "case"),
                    "others": shown.plural(others, "other"),
                    "untold": _untold(run.counts.scored - ill - others),
                    "prevalence": shown.percent(ill / (ill + others)),
                    "promised_at": shown.percent(point.prevalence),
                    "rows": rows,
                }
            )
    return tables


def forward(model: ModelDocument) -> dict[str, object] | None:
    """Return the forward validation beside the cross-validation; None where the contract names no time."""
    found = model.validation.forward
    if found is None:
        return None
    return {
        "cut": shown.name(found.cut),
        "past": shown.plural(found.n_past, "row"),
        "later": shown.plural(found.n_later, "row"),
        "why": shown.text(found.reason or ""),
        "rows": _rows(model, found.classes or {}),
    }


def _rows(model: ModelDocument, classes: Mapping[str, LaterClass]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for point in model.points if classes else ():
        later, ranking = classes[point.label], model.validation.summary[point.label]
        which = f", {shown.name(point.label)}" if model.multi else ""
        compared = (
            ("Sensitivity", shown.share_ends, later.sensitivity_ends, point.sensitivity_ends),
            ("Specificity", shown.share_ends, later.specificity_ends, point.specificity_ends),
            ("Area under the ROC curve", shown.area_ends, later.auroc_ends, ranking.auroc_ends),
        )
        rows += [
            {"name": words + which, "later": written(*seen), "crossed": written(*crossed)}
            for words, written, seen, crossed in compared
            if seen[0] is not None
        ]
    return rows
