"""The head of the page: what this is, whether it can be relied on tonight, and counts that add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.attention import attention_of
from screening.documents.reading import (
    awaited,
    mapping,
    multi,
    part,
    points,
    sequence,
    stated,
    to_review,
    unit_of_review,
)
from screening.page import format as shown

CHANGES = (
    ("new", "new since the last run"),
    ("ongoing", "ongoing"),
    ("reviewed", "judged not a case"),
    ("known", "already known to have it"),
    ("resolved", "resolved since the last run (not flagged any more)"),
)


def run_banner(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the banner of a run: date, model, intended use, and OK or ATTENTION with its reasons."""
    model = mapping(run, "model")
    return {
        "title": _title(model),
        "kind": "Night of",
        "date": shown.name(run.get("date")),
        "facts": [
            ("Model", f"{_recipe(model)} · {shown.name(model.get('id'))}"),
            ("Model digest", _digest(model.get("digest"))),
            ("Trained on", _trained_on(model)),
            ("Run", shown.name(run.get("run_id"))),
            *([("Copy", "for teaching: every id is a pseudonym")] if run.get("pseudonymised") else []),
        ],
        "intended_use": _use(model),
        "reasons": _reasons(run),
    }


def model_banner(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the banner of a trained model."""
    return {
        "title": _title(model),
        "kind": "Trained model",
        "date": "",
        "facts": [
            ("Method", _recipe(model)),
            ("Model digest", _digest(model.get("digest") or model.get("sha256"))),
            ("Trained on", _trained_on(model)),
        ],
        "intended_use": _use(model),
        "reasons": _reasons(model),
    }


def _title(model: Mapping[str, Any]) -> str:
    label = part(model, "task", "label")
    return shown.name(stated(model, "title") or (f"Screening for {label}" if label else "Screening"))


def _recipe(model: Mapping[str, Any]) -> str:
    return shown.name(part(model, "recipe", "title") or part(model, "recipe", "name"))


def _digest(value: Any) -> str:
    """Return the head of a digest; the model card has the whole."""
    return f"{shown.text(str(value)[:16])}…" if value else shown.NOT_KNOWN


def _trained_on(model: Mapping[str, Any]) -> str:
    words = shown.plural(part(model, "training", "n_rows_used"), "row")
    window = sequence(model, "training", "window")
    if len(window) == 2:
        words += f", {shown.name(window[0])} to {shown.name(window[1])}"
    return words


def _use(model: Mapping[str, Any]) -> str:
    return shown.text(stated(model, "intended_use") or "Not stated in the contract.")


def _reasons(document: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {"words": shown.text(reason.words, 400), "remedy": shown.text(reason.remedy or "", 400)}
        for reason in attention_of(document)
    ]


def _in_groups(run: Mapping[str, Any]) -> str:
    """Say in how many patients the flagged rows lie: patients, not rows, are reviewed."""
    found = [g for g in sequence(run, "groups") if isinstance(g, Mapping)]
    hit, total = to_review(run)[0], part(run, "groups_total")
    whole = total if shown.finite(total) else len(found)
    return f"in {shown.count(hit)} of {shown.plural(whole, 'patient')}" if found else ""


def _noun(how_many: Any, unit: str) -> str:
    return shown.plural(how_many, unit).split(" ", 1)[1]


def tonight(run: Mapping[str, Any], operating: list[dict[str, Any]], differing: int = 0) -> dict[str, Any]:
    """Return the counts of the night and what to expect, given how many features differ from training."""
    model, counts = mapping(run, "model"), mapping(run, "counts")
    flagged, minutes, capacity = (
        counts.get("flagged"),
        stated(model, "minutes_per_review"),
        stated(model, "capacity"),
    )
    workload = []
    reviews, unit = awaited(run)[0], unit_of_review(model)
    if shown.finite(reviews) and reviews != to_review(run)[0]:
        workload.append(f"{shown.count(reviews)} not yet reviewed")
    if shown.finite(minutes) and shown.finite(reviews):
        workload.append(f"about {shown.plural(minutes * reviews, 'reviewer minute')}")
    if shown.finite(capacity):
        workload.append(f"capacity {shown.plural(capacity, 'review')} a night")
    by_class = mapping(counts, "flagged_by_class")
    order = {str(p.get("class")): i for i, p in enumerate(points(model))}
    return {
        "what": f"{_noun(flagged, unit)} flagged, {within}"
        if (within := _in_groups(run))
        else "flagged for review",
        "read": shown.count(counts.get("read")),
        "scored": shown.count(counts.get("scored")),
        "unit": _noun(counts.get("scored"), unit),
        "refused": shown.count(counts.get("refused")),
        "flagged": shown.count(flagged),
        "rate": shown.percent(flagged / counts["scored"])
        if shown.finite(flagged) and counts.get("scored")
        else shown.NOT_KNOWN,
        "why_refused": [
            (shown.text(reason, 300), shown.count(n)) for reason, n in sorted(mapping(run, "refused").items())
        ],
        "classes": [
            (shown.name(label), shown.count(by_class[label]))
            for label in sorted(by_class, key=lambda c: (order.get(str(c), len(order)), str(c)))
        ]
        if multi(model)
        else [],
        "changes": [
            (words, shown.count(counts[key])) for key, words in CHANGES if shown.finite(counts.get(key))
        ],
        "workload": "; ".join(workload),
        "sentences": [
            (f"{point['class']}: " if multi(model) else "") + point["sentence"]
            for point in operating
            if point["sentence"]
        ]
        + (
            [
                f"That was found on data like those of training; tonight "
                f"{shown.plural(differing, 'feature differs', 'features differ')} notably (see Data)."
            ]
            if differing
            else []
        ),
    }
