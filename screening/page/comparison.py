"""The page of a comparison: a table, curves on one axis, paired differences, and ranks over cohorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from screening.documents.reading import mapping, part, sequence
from screening.page import format as shown
from screening.page.comparison_charts import critical_difference, differences, roc
from screening.page.drawing import draw

FIGURES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "g_mean": "G-mean",
    "min_sensitivity": "Minimum sensitivity",
    "auroc": "AUROC",
    "average_precision": "Average precision",
    "specificity_at": "Specificity at the asked sensitivity",
    "own_g_mean": "G-mean, own boundary",
    "macro_recall": "Mean recall",
    "macro_g": "Mean G over classes",
    "geometric_recall": "Geometric mean of recalls",
    "min_recall": "Smallest recall",
    "macro_f1": "Mean F1",
}
IN_TABLE = (
    "sensitivity", "specificity", "g_mean", "min_sensitivity", "auroc", "average_precision", "specificity_at",
    "own_g_mean",
)  # fmt: skip
OF_CLASSES = ("macro_recall", "macro_g", "geometric_recall", "min_recall", "macro_f1")
COMPARED = ("g_mean", "auroc", "average_precision", "specificity_at", "macro_recall", "macro_g")


def render_comparison(document: Mapping[str, Any], templates: Path | None = None) -> str:
    """Return the page of a comparison.

    Parameters
    ----------
    document : mapping
        The parsed ``comparison.json``.
    templates : Path, optional
        A site's own templates, which stand in the place of those of the same name.

    Returns
    -------
    str
        HTML; the same document always gives the same text.
    """
    first = str(document.get("first_figure") or "auroc")
    settings = mapping(document, "settings")
    found = [c for c in sequence(document, "cohorts") if isinstance(c, Mapping)]
    asked = shown.percent(document.get("asked_sensitivity"))
    return draw(
        "compare.html.j2",
        templates=templates,
        styles=("report.css", "compare.css"),
        footer="comparison of methods",
        banner={"title": "Methods compared", "kind": "on the same folds", "date": ""},
        facts=_facts(settings, found),
        rule=shown.rule(settings.get("rule")),
        cohorts=[_cohort(c, i, first, asked) for i, c in enumerate(found)],
        ranks=_ranks(mapping(document, "ranks")),
        words=_words(asked),
        command=shown.text(settings.get("command") or "not recorded", 2000),
        versions=[(shown.name(k), shown.name(v)) for k, v in sorted(mapping(settings, "versions").items())],
    )


def _facts(settings: Mapping[str, Any], cohorts: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    folds = shown.plural(settings.get("folds"), "fold")
    if shown.finite(settings.get("repeats")):
        folds += f", dealt {shown.plural(settings['repeats'], 'time')}"
    return [
        ("Cohorts", shown.count(len(cohorts))),
        ("Methods", shown.count(len(sequence(settings, "recipes")))),
        ("Control", shown.name(settings.get("control"))),
        ("Validation", folds),
        ("Seed", shown.name(settings.get("seed"))),
    ]


def _label(name: str, asked: str) -> str:
    return f"Specificity at {asked} sensitivity" if name == "specificity_at" else FIGURES.get(name, name)


def _cohort(cohort: Mapping[str, Any], number: int, first: str, asked: str) -> dict[str, Any]:
    methods = [m for m in sequence(cohort, "methods") if isinstance(m, Mapping)]
    present = mapping(methods[0], "figures") if methods else {}
    groups = cohort.get("n_groups")
    size = (
        f"{shown.plural(cohort.get('n_rows'), 'row')}, {shown.count(cohort.get('n_positive'))} of them cases"
    )
    return {
        "number": number,
        "name": shown.name(cohort.get("name")),
        "size": size + (f", {shown.plural(groups, 'group')} never split" if shown.finite(groups) else ""),
        "notes": [shown.text(note) for note in sequence(cohort, "notes")],
        "columns": [_label(name, asked) for name in IN_TABLE],
        "rows": [_row(m, IN_TABLE) for m in methods],
        "class_columns": [FIGURES[name] for name in OF_CLASSES if name in present],
        "class_rows": [_row(m, OF_CLASSES) for m in methods] if "macro_recall" in present else [],
        "roc": roc(methods, number, first),
        "differences": [
            differences(methods, name, number, _label(name, asked))
            for name in dict.fromkeys((first, *COMPARED))
            if name in present and len(methods) > 1
        ],
    }


def _row(method: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    figures = mapping(method, "figures")
    return {
        "name": shown.name(method.get("recipe")),
        "title": shown.text(method.get("title") or "", 200),
        "control": bool(method.get("control")),
        "cells": [
            {
                "value": shown.percent(part(figures, name, "value"), 1),
                "interval": shown.interval(part(figures, name, "low"), part(figures, name, "high")),
            }
            for name in names
            if name in figures or names is IN_TABLE
        ],
        "sv_share": shown.percent(method.get("sv_share")),
        "fit": _seconds(method.get("fit_seconds")),
        "score": _seconds(method.get("score_seconds")),
        "declined": "factor declined" if method.get("factor_declined") else "",
    }


def _seconds(value: Any) -> str:
    """Return a time to two figures: it varies from run to run by more than the third."""
    return f"{value:.3f}" if shown.finite(value) and value < 0.1 else shown.number(_rounded(value))


def _rounded(value: Any) -> Any:
    return float(f"{value:.2g}") if shown.finite(value) else value


def _ranks(ranks: Mapping[str, Any]) -> dict[str, Any] | None:
    figures = mapping(ranks, "figures")
    if not figures:
        return None
    first = str(ranks.get("first"))
    order = [first, *(name for name in figures if name != first)] if first in figures else list(figures)
    return {
        "n_cohorts": shown.count(ranks.get("n_cohorts")),
        "control": shown.name(ranks.get("control")),
        "figures": [_rank_table(name, mapping(figures, name), ranks) for name in order],
    }


def _rank_table(name: str, found: Mapping[str, Any], ranks: Mapping[str, Any]) -> dict[str, Any]:
    methods = [m for m in sequence(found, "methods") if isinstance(m, Mapping)]
    ordered = sorted(methods, key=lambda m: m.get("mean_rank") or 0)
    degrees = [shown.count(d) for d in sequence(found, "degrees")]
    f = shown.number(found.get("f")) if shown.finite(found.get("f")) else "without bound"
    return {
        "title": FIGURES.get(name, name),
        "test": f"Friedman, F form: F({', '.join(degrees)}) = {f}, p = {shown.p_value(found.get('p'))}",
        "chart": critical_difference(name, FIGURES.get(name, name), ordered, found),
        "rows": [
            {
                "name": shown.name(m.get("recipe")),
                "control": m.get("recipe") == ranks.get("control"),
                "mean": shown.percent(m.get("mean"), 1),
                "rank": shown.fixed(m.get("mean_rank"), 2),
                "p": shown.p_value(m.get("p")),
                "p_holm": shown.p_value(m.get("p_holm")),
            }
            for m in ordered
        ],
    }


def _words(asked: str) -> list[tuple[str, str]]:
    return [
        (
            "Same folds",
            "Every method scored the same rows by machines that had not seen them. Setting and threshold "
            "are chosen from these scores, as training it would; the rank of the threshold and "
            "the intervals pay for that.",
        ),
        (
            "Own boundary",
            "The G-mean where the machine itself draws its boundary, without a tuned threshold: it tells how "
            "much of a method's gain is the threshold alone.",
        ),
        (
            "Figures",
            f"AUROC, average precision and specificity at {asked} sensitivity are over the rows of all folds "
            "together, because one threshold serves all machines. Sensitivity is what is expected of new "
            "cases, not the share seen.",
        ),
        (
            "Intervals",
            "95%. AUROC and specificity by formula, widened for the folds and for the settings tried; the "
            "other figures by resampling groups (rows, where there are none), with the same draws for every "
            "method. A difference of sensitivity has none: both thresholds aim at the same.",
        ),
    ]
