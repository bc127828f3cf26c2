"""What the threshold costs and what it finds: operating points, tables of classes, evaluation on labels."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from screening.documents.reading import (
    by_class,
    flags_everything,
    mapping,
    multi,
    part,
    points,
    sequence,
    stated,
    unit_of_review,
)
from screening.page import format as shown

EVALUATED = (
    ("sensitivity", "Sensitivity"),
    ("specificity", "Specificity"),
    ("ppv", "Cases among the flagged (PPV)"),
    ("npv", "Non-cases among the unflagged (NPV)"),
    ("auroc", "Area under the ROC curve"),
)


def score_places(model: Mapping[str, Any], others: list[Any]) -> int:
    """Return the decimals with which every score and threshold of the page is shown."""
    thresholds = [p.get("threshold") for p in points(model)]
    places = shown.decimals([*others, *thresholds])
    return max(places, 3) if places <= 3 else places


def operating_points(
    model: Mapping[str, Any], places: int, run: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return each class's operating point: figures with intervals, the rule, and who chose it."""
    return [_operating_point(model, point, places, run) for point in points(model)]


def _operating_point(
    model: Mapping[str, Any], point: Mapping[str, Any], places: int, run: Mapping[str, Any] | None
) -> dict[str, Any]:
    chosen_by = point.get("chosen_by")
    prevalence = point.get("prevalence")
    return {
        "class": shown.name(point.get("class")),
        "threshold": "none" if flags_everything(point) else shown.fixed(point.get("threshold"), places),
        "rule": shown.rule(point.get("rule")),
        "chosen_by": "the training run" if chosen_by in (None, "training") else shown.text(chosen_by),
        "reason": shown.text(point["reason"]) if point.get("reason") else "",
        "figures": [
            _figure("Sensitivity", "of the cases are flagged", point, "sensitivity"),
            _figure("Specificity", "of the others are left alone", point, "specificity"),
            _figure("PPV", "of the flagged are cases", point, "ppv"),
            _figure("NPV", "of the unflagged are not cases", point, "npv"),
            {
                "name": "Reviews per case found",
                "value": shown.ratio(point.get("nne")),
                "interval": "",
                "meaning": "number needed to evaluate (NNE)",
            },
            {
                "name": "Flags per 100 rows",
                "value": shown.ratio(100 * point["flag_rate"])
                if shown.finite(point.get("flag_rate"))
                else shown.NOT_KNOWN,
                "interval": "",
                "meaning": "expected workload",
            },
        ],
        "basis": _basis(model, point, run),
        "prevalence": shown.percent(prevalence),
        "prevalence_from": "given" if shown.finite(stated(model, "prevalence")) else "of the training cohort",
        "sentence": _sentence(point, unit_of_review(model) if multi(model) else ""),
        "notes": [shown.text(n) for n in sequence(point, "notes")],
    }


def _figure(name: str, meaning: str, point: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": shown.percent(point.get(key)),
        "interval": shown.interval(point.get(f"{key}_low"), point.get(f"{key}_high")),
        "meaning": meaning,
    }


def _basis(model: Mapping[str, Any], point: Mapping[str, Any], run: Mapping[str, Any] | None) -> str:
    words = (
        f"From {shown.plural(point.get('n_positive'), 'case')} and "
        f"{shown.plural(point.get('n_negative'), 'other row')}"
    )
    if shown.finite(point.get("n_groups")):
        words += f" in {shown.plural(point['n_groups'], 'group')} (intervals by group)"
    folds = part(model, "validation", "folds")
    if shown.finite(folds):
        words += f", each scored by a model that had not seen it ({shown.count(folds)}-fold cross-validation)"
    return words + "." + _age(model, run)


def _age(model: Mapping[str, Any], run: Mapping[str, Any] | None) -> str:
    """Say of what time the patients are on whom the threshold was chosen, and how long ago that was."""
    window = sequence(model, "training", "window")
    if len(window) != 2:
        return ""
    words = f" They are of {shown.name(window[0])} to {shown.name(window[1])}"
    try:
        last, night = (datetime.date.fromisoformat(str(day)[:10]) for day in (window[1], part(run, "date")))
    except ValueError:
        return words + "."
    days = (night - last).days
    return words + (f"; the last is {shown.plural(days, 'day')} older than this night." if days > 0 else ".")


def _sentence(point: Mapping[str, Any], unit: str) -> str:
    """Say in one sentence what a clinician may expect of the list."""
    sensitivity = point.get("sensitivity")
    if flags_everything(point):
        return "Every row is flagged: with so few past cases no threshold could keep the promise."
    if not shown.finite(sensitivity):
        return ""
    kind, found = f"such {unit}s" if unit else "cases", round(100 * sensitivity)
    limits = shown.interval(point.get("sensitivity_low"), point.get("sensitivity_high")).replace("%", "")
    words = f"Expect it to find about {found} of 100 {kind}"
    words += f" (95% interval {limits})" if limits else ""
    # Rounding must not promise that nothing is missed.
    words += f" and to miss about {100 - found}." if found < 100 else "; that none is missed is not promised."
    prevalence, ppv = point.get("prevalence"), point.get("ppv")
    if shown.finite(ppv):
        whole = 100 if ppv >= 0.01 else 1000
        words += (
            f" Of {whole:,} flagged{' for it' if unit else ''}, about {shown.count(whole * ppv)} are {kind}"
        )
        words += f" (at a prevalence of {shown.percent(prevalence)})." if shown.finite(prevalence) else "."
    return words


def choices(model: Mapping[str, Any], places: int) -> list[dict[str, Any]]:
    """Return the table of operating points of each class, the one in use marked in words."""
    tables, used = [], points(model)
    offered = mapping(model, "validation", "points")
    for point in used:
        label = str(point.get("class"))
        rows = sequence(offered, label)
        if not rows and len(used) == 1:
            rows = next((v for v in offered.values() if isinstance(v, (list, tuple))), ())
        table = [_choice(row, point, places) for row in rows if isinstance(row, Mapping)]
        if table and not any(row["in_use"] for row in table):
            table.insert(0, _choice(point, point, places))
        if table:
            tables.append({"class": shown.name(label), "rows": table})
    return tables


def _choice(row: Mapping[str, Any], used: Mapping[str, Any], places: int) -> dict[str, Any]:
    rate = row.get("flag_rate")
    return {
        "rule": shown.rule(row.get("rule")),
        "threshold": "none" if flags_everything(row) else shown.fixed(row.get("threshold"), places),
        "sensitivity": shown.percent(row.get("sensitivity")),
        "specificity": shown.percent(row.get("specificity")),
        "ppv": shown.percent(row.get("ppv")),
        "nne": shown.ratio(row.get("nne")),
        "flags": shown.ratio(100 * rate) if shown.finite(rate) else shown.NOT_KNOWN,
        "in_use": row.get("threshold") == used.get("threshold"),
    }


def per_class(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return recall with precision of every class, rare classes first."""
    rows = [r for r in sequence(model, "validation", "per_class") if isinstance(r, Mapping)]
    rows = sorted(rows, key=lambda r: (r["n"] if shown.finite(r.get("n")) else 0, str(r.get("class"))))
    total = sum(r["n"] for r in rows if shown.finite(r.get("n")))
    watched = {str(c) for c in sequence(model, "task", "watched")}
    return [
        {
            "class": shown.name(r.get("class")),
            "watched": str(r.get("class")) in watched,
            "n": shown.count(r.get("n")),
            "share": shown.percent(r["n"] / total) if shown.finite(r.get("n")) and total else shown.NOT_KNOWN,
            "recall": shown.percent(r.get("recall")),
            "recall_interval": shown.interval(r.get("recall_low"), r.get("recall_high")),
            "precision": shown.percent(r.get("precision")),
        }
        for r in rows
    ]


def confusion(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the confusion matrix, rare classes first: true classes down, predicted ones across."""
    classes = sequence(model, "validation", "confusion", "classes")
    counts = sequence(model, "validation", "confusion", "counts")
    if not multi(model) or not classes or len(counts) != len(classes):
        return None
    order = sorted(range(len(classes)), key=lambda i: (sum(counts[i]), str(classes[i])))
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


def evaluation(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return promised against observed figures where the night's file carried labels."""
    found = part(run, "evaluation")
    if not isinstance(found, Mapping):
        return []
    model, tables = mapping(run, "model"), []
    used = points(model)
    for point in used:
        seen = by_class(found, point.get("class"), len(used) == 1)
        past = {**mapping(model, "validation", "summary", str(point.get("class"))), **point}
        rows = [
            {
                "name": words,
                "observed": _plain(key, seen.get(key)),
                "interval": _bounds(key, seen),
                "promised": _plain(key, past.get(key)),
                "promised_interval": _bounds(key, past),
            }
            for key, words in EVALUATED
            if shown.finite(seen.get(key))
        ]
        if rows:
            ill, others = seen.get("n_positive"), seen.get("n_negative")
            tables.append(
                {
                    "class": shown.name(point.get("class")),
                    "cases": shown.plural(ill, "case"),
                    "others": shown.plural(others, "other"),
                    "prevalence": shown.percent(ill / (ill + others))
                    if shown.finite(ill) and shown.finite(others) and ill + others > 0
                    else shown.NOT_KNOWN,
                    "promised_at": shown.percent(point.get("prevalence")),
                    "rows": rows,
                }
            )
    return tables


def _plain(key: str, value: Any) -> str:
    if key == "auroc":
        return f"{value:.2f}" if shown.finite(value) else shown.NOT_KNOWN
    return shown.percent(value)


def _bounds(key: str, seen: Mapping[str, Any]) -> str:
    low, high = seen.get(f"{key}_low"), seen.get(f"{key}_high")
    if not (shown.finite(low) and shown.finite(high)):
        return ""
    return f"{low:.2f}–{high:.2f}" if key == "auroc" else shown.interval(low, high)
