"""What the threshold costs and finds: operating points, classes, subgroups, lesions, later patients."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace

from screening.documents.external_validation import Promise
from screening.documents.figures import Area, Ends, Observed, OperatingPoint
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.validation import LaterClass, LesionFacts, Level, OperatingPointFacts, PerClass
from screening.page import format as shown
from screening.page.charts import Axes


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
        "threshold": "none" if point.flags_everything else shown.fixed(point.threshold, places),
        "rule": _lesion_rule(point.lesions) if point.lesions else shown.rule(point.rule),
        "chosen_by": "the training run" if point.chosen_by == "training" else shown.text(point.chosen_by),
        "reason": shown.text(point.reason or ""),
        "figures": [
            ("Sensitivity", *_share(point.sensitivity_ends), "of the cases are flagged"),
            ("Specificity", *_share(point.specificity_ends), "of the others are left alone"),
            ("PPV", *_share(point.ppv_ends), "of the flagged are cases"),
            ("NPV", *_share(point.npv_ends), "of the unflagged are not cases"),
            ("Reviews per case found", shown.ratio(point.nne), "", "number needed to evaluate (NNE)"),
            ("Flags per 100 rows", shown.per_hundred(point.flag_rate), "", "expected workload"),
        ],
        "basis": _basis(model, point, run),
        "prevalence": shown.percent(point.prevalence),
        "prevalence_from": "of the training cohort" if point.rule.prevalence is None else "given",
        "sentence": promise(model, point),
        "lesions": _lesion_words(point.lesions) if point.lesions else "",
        "notes": [shown.text(note) for note in point.notes],
    }


def _share(ends: Ends) -> tuple[str, str]:
    value, low, high = ends
    return shown.percent(value), shown.interval(low, high)


def _area(ends: Ends) -> tuple[str, str]:
    value, low, high = ends
    return shown.fixed(value, 2), shown.area_interval(low, high)


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
        return _lesion_promise(point.lesions)
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


def choices(model: ModelDocument) -> list[dict[str, object]]:
    """Return the operating points of each class, the one in use among them."""
    tables: list[dict[str, object]] = []
    for point in model.points:
        rows = model.validation.points[point.label]
        if all(row.threshold != point.threshold for row in rows):
            rows = [point, *rows]
        tables.append({"class": shown.name(point.label), "in_use": point.threshold, "rows": rows})
    return tables


def per_class(model: ModelDocument) -> list[PerClass]:
    """Return recall with precision of every class, rare classes first."""
    return sorted(model.validation.per_class or (), key=lambda row: (row.n, row.label))


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


def evaluation(run: RunDocument) -> list[dict[str, object]]:
    """Return promised against observed figures where the night's file carried labels."""
    tables: list[dict[str, object]] = []
    for point in run.model.points:
        seen, past = run.observed(point.label), run.model.validation.summary[point.label]
        if seen is None:
            continue
        rows = beside_promise(seen, seen, point, past)
        ill, others = seen.n_positive, seen.n_negative
        unlabelled = run.counts.scored - ill - others
        left_out = f" ({shown.plural(unlabelled, 'row')} without a label left out)" if unlabelled else ""
        if rows:
            tables.append(
                {
                    "class": shown.name(point.label),
                    "size": f"{shown.plural(ill, 'case')}, {shown.plural(others, 'other')}{left_out}",
                    "rows": rows,
                    "note": "PPV and NPV move with how common the condition is: "
                    f"{shown.percent(ill / (ill + others))} tonight; validation’s hold at "
                    f"{shown.percent(point.prevalence)}.",
                }
            )
    return tables


def beside_promise(
    seen: Observed | OperatingPoint, seen_area: Area, promised: OperatingPoint | Promise, past_area: Area
) -> list[dict[str, object]]:
    """What was seen of labelled rows beside what validation promised of them, in words."""
    return _compared(
        ("Sensitivity", _share, seen.sensitivity_ends, promised.sensitivity_ends),
        ("Specificity", _share, seen.specificity_ends, promised.specificity_ends),
        ("Cases among the flagged (PPV)", _share, seen.ppv_ends, promised.ppv_ends),
        ("Non-cases among the unflagged (NPV)", _share, seen.npv_ends, promised.npv_ends),
        ("Area under the ROC curve", _area, seen_area.auroc_ends, past_area.auroc_ends),
    )


def _compared(*figures: tuple[str, Callable[[Ends], tuple[str, str]], Ends, Ends]) -> list[dict[str, object]]:
    """Figures with their intervals in words, those that are known of what was seen."""
    return [
        {"name": name, "seen": written(seen), "promised": written(promised)}
        for name, written, seen, promised in figures
        if seen[0] is not None
    ]


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
        "rows": _later(model, found.classes or {}),
    }


def _later(model: ModelDocument, classes: Mapping[str, LaterClass]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for point in model.points if classes else ():
        later, ranking = classes[point.label], model.validation.summary[point.label]
        which = f", {shown.name(point.label)}" if model.multi else ""
        rows += _compared(
            (f"Sensitivity{which}", _share, later.sensitivity_ends, point.sensitivity_ends),
            (f"Specificity{which}", _share, later.specificity_ends, point.specificity_ends),
            (f"Area under the ROC curve{which}", _area, later.auroc_ends, ranking.auroc_ends),
        )
    return rows


def subgroups(model: ModelDocument, run: RunDocument | None) -> list[dict[str, object]]:
    """Return past performance by level of each watched class, beside what was flagged there tonight."""
    tonight = {(row.column, row.level): row for row in run.subgroups} if run else {}
    tables: list[dict[str, object]] = []
    for point in model.points:
        columns = []
        for column in model.validation.subgroups.get(point.label, ()):
            known = [row.level for row in column.rows]
            # A level that training never met has no past performance, and is shown for that very reason.
            unmet = [level for name, level in tonight if name == column.column and level not in known]
            levels = [*column.rows, *(replace(UNMET, level=level) for level in unmet)]
            rows = [(level, tonight.get((column.column, level.level))) for level in levels]
            columns.append({"name": shown.feature(column.column), "rows": rows})
        if any(column["rows"] for column in columns):
            name = shown.name(point.label) if model.multi else ""
            tables.append({"class": name, "tonight": run is not None, "columns": columns})
    return tables


UNMET = Level(
    level=None, n=None, events=None, few=(), flag_rate=None,
    sensitivity=None, sensitivity_low=None, sensitivity_high=None,
    specificity=None, specificity_low=None, specificity_high=None,
)  # fmt: skip


TOUCHING = {26: "voxels that share a face, an edge or a corner touch (26-connectivity)"}


def _lesion_promise(facts: LesionFacts) -> str:
    """Say in one sentence what a reader of the images may expect."""
    limits = shown.interval(facts.sensitivity_low, facts.sensitivity_high).replace("%", "")
    return (
        f"Expect it to find about {round(100 * facts.sensitivity)} of 100 lesions (95% interval {limits}), "
        f"and to flag about {facts.false_positives:.1f} false clusters a patient "
        f"({facts.false_positives_low:.1f} to {facts.false_positives_high:.1f})."
    )


def _lesion_rule(facts: LesionFacts) -> str:
    """The rule that chose the threshold, in words."""
    return f"at least {facts.asked:.0%} of lesions found, with the fewest false clusters"


def _lesion_words(facts: LesionFacts) -> str:
    """What is done to a patient's map of scores, and on whom the figures rest."""
    smoothing = (
        f"smoothed within the mask (Gaussian, sd {facts.smoothing:g} voxels)"
        if facts.smoothing
        else "not smoothed"
    )
    size = (
        f"clusters of fewer than {facts.min_voxels} voxels do not count"
        if facts.min_voxels > 1
        else "clusters of any size count"
    )
    return (
        f"A patient's scores are {smoothing}, and {size}; "
        f"{TOUCHING[facts.connectivity]}. A lesion is found where a flagged voxel lies in it; a false "
        f"cluster touches none. From {shown.plural(facts.n_lesions, 'lesion')} in "
        f"{shown.plural(facts.n_patients, 'patient')}, each scored whole by a model that had not seen it; "
        f"{facts.missed} missed. The best of {facts.n_settings} ways to smooth and to leave out. "
        "The figures below are of single voxels."
    )


def froc(model: ModelDocument) -> dict[str, object] | None:
    """The FROC curve and its table; None where the operating point is none by lesions."""
    facts = model.points[0].lesions
    if facts is None:
        return None
    curve = facts.froc
    # Far right of the threshold in use nobody reads; the table has the rest.
    most = max(min(max(curve.false_positives), 4 * facts.false_positives), 1.0)
    drawn = [place for place, false in enumerate(curve.false_positives) if false <= most]
    share = 1 - facts.missed / facts.n_lesions
    axes = Axes(
        name="froc",
        title="Lesions found against false clusters a patient",
        description=(
            f"FROC curve of patients held out: {share:.0%} of {facts.n_lesions} lesions found at "
            f"{facts.false_positives:.1f} false clusters a patient, the threshold in use; the table below "
            "has the other thresholds."
        ),
        x=(0.0, most),
        y=(0.0, 1.0),
        x_label="false clusters a patient",
        y_label="lesions found",
        margins=(16, 24, 46, 66),
    )
    axes.line(
        [curve.false_positives[place] for place in drawn],
        [curve.sensitivity[place] for place in drawn],
        "first",
    )
    axes.mark(facts.false_positives, share, "validated", "threshold in use")
    return {
        "chart": axes,
        "rows": [
            {
                "threshold": shown.fixed(threshold, 3),
                "sensitivity": shown.percent(found),
                "false": f"{false:.1f}",
                "chosen": threshold == model.points[0].threshold,
            }
            for threshold, found, false in zip(
                curve.threshold, curve.sensitivity, curve.false_positives, strict=True
            )
        ],
    }
