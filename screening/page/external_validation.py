"""The page of an external validation: promise beside what was found, and the blocks of a model's page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from screening.documents.external_validation import ClassElsewhere, ExternalValidation
from screening.documents.stored import validation_in
from screening.documents.validation import OperatingPointFacts
from screening.page import chances, night, performance, tradeoff
from screening.page import format as shown
from screening.page.drawing import draw

BASIS = "patients of this cohort, scored by a model that had not seen them"


def render_validation(document: Mapping[str, object], templates: Path | None = None) -> str:
    """Return the page of a parsed ``validation.json``; `templates` as of `screening.page.render_model`."""
    found = validation_in(document)
    here = found.here
    places = performance.score_places(here, [])
    return draw(
        "validation.html.j2",
        {
            "banner": night.model_banner(here)
            | {"kind": "External validation", "facts": _facts(found)}
            | night.reasons(found.attention),
            "words": _verdict(found),
            "evaluation": [_promise_and_found(found, point) for point in here.points],
            "thresholds": [_thresholds(found, point, places) for point in here.points],
            "panels": tradeoff.panels(here, None, places),
            "choices": performance.choices(here),
            "places": places,
            "watched": [point.label for point in here.points],
            "per_class": performance.per_class(here),
            "confusion": performance.confusion(here),
            "predictive": chances.predictive(here, "this cohort"),
            "workload": chances.workload(here, None),
            "calibration": chances.calibration(here),
            "subgroups": performance.subgroups(here, None),
            "basis": BASIS,
            "lead": True,
            "multi": here.multi,
            "unit": here.unit_of_review,
            "explained": night.terms(here),
            "notes": [shown.text(note) for note in found.notes],
            "command": shown.text(found.command or "not recorded", 2000),
            "versions": [(shown.name(k), shown.name(v)) for k, v in sorted(found.versions.items())],
        },
        templates=templates,
        styles=("report.css", "model.css"),
        scripts=("report.js",),
        footer=f"external validation of model {shown.name(found.model.id)}",
    )


def _facts(found: ExternalValidation) -> list[tuple[str, str]]:
    figures, model = found.figures, found.model
    groups = "" if figures.n_groups is None else f" in {shown.plural(figures.n_groups, 'group')}"
    refused = f"; {shown.count(found.n_refused)} refused" if found.n_refused else ""
    return [
        ("Model", f"{shown.name(model.recipe.title)} · {shown.name(model.id)}"),
        ("Cohort", ", ".join(shown.name(file.name) for file in found.source.files)),
        ("Rows", f"{shown.count(figures.n_rows)}{groups}{refused}"),
        ("Label", f"{shown.name(found.label)}, cases: {', '.join(map(shown.name, found.positive))}"),
    ]


def _verdict(found: ExternalValidation) -> str:
    lower = [each for each in found.attention if each.code == "promise_not_kept"]
    if lower:
        return "The promise is not kept here."
    return "No figure is shown to be lower here than was promised."


def _promise_and_found(found: ExternalValidation, point: OperatingPointFacts) -> dict[str, object]:
    """The table of one class, as a night's with labels; all at this cohort's share of cases."""
    one, ranking = found.classes[point.label], found.figures.summary[point.label]
    return {
        "class": shown.name(point.label),
        "size": f"{shown.plural(point.n_positive, 'case')}, {shown.plural(point.n_negative, 'other')}",
        "rows": performance.beside_promise(point, ranking, one.promise, one.promise),
        "note": f"Here minus promised: {'; '.join(_difference(one, name) for name in one.differences)}. "
        f"{shown.percent(point.prevalence)} of these rows are cases.",
    }


def _difference(one: ClassElsewhere, name: str) -> str:
    gap = one.differences[name]
    words = "AUROC" if name == "auroc" else name
    if gap.difference is None:
        return f"{words} not known"
    ends = (gap.difference, gap.low, gap.high)
    value, low, high = (shown.signed(end, 2) if name == "auroc" else shown.points(end) for end in ends)
    return f"{words} {value}{'' if name == 'auroc' else ' points'} (95% interval {low} to {high})"


def _thresholds(found: ExternalValidation, point: OperatingPointFacts, places: int) -> dict[str, object]:
    """The model's threshold and the one that its rule would choose from these scores, with what each does."""
    one = found.classes[point.label]
    rows = [("the model's", point)] + ([] if one.local is None else [("for this place", one.local)])
    return {
        "class": shown.name(point.label),
        "rule": shown.rule(point.rule),
        "rows": rows,
        "why": shown.text(one.local_reason or ""),
    }
