"""The head of the page: what this is, whether it can be relied on tonight, and counts that add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from screening.documents import reasons_in
from screening.report import format as shown
from screening.report.document import (
    awaited,
    flags_everything,
    mapping,
    multi,
    part,
    points,
    sequence,
    stated,
    to_review,
    unit_of_review,
)

MUCH_MORE_MISSING = 0.2
FEW_CASES = 30
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
        "reasons": _reasons_tonight(run)
        + [shown.text(r.words, 400) for r in reasons_in(sequence(run, "attention"))],
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
        "reasons": _reasons_trained(model) + [shown.text(r) for r in sequence(model, "attention")],
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


def _reasons_trained(model: Mapping[str, Any]) -> list[str]:
    reasons = []
    for point in points(model):
        which = f" of {shown.name(point.get('class'))}" if multi(model) else ""
        cases = point.get("n_positive")
        if shown.finite(cases) and cases < FEW_CASES:
            reasons.append(f"Only {shown.plural(cases, 'case')}{which} to learn and validate from.")
        if flags_everything(point):
            reasons.append(f"Every row is flagged{which}: the rule could not be met otherwise.")
        low = part(model, "validation", "summary", str(point.get("class")), "auroc_low")
        if shown.finite(low) and low <= 0.5:
            reasons.append(f"The ranking{which} is not shown to be better than chance.")
    leaks = [each for each in sequence(model, "training", "leaks") if isinstance(each, Mapping)]
    return reasons + [f"Look at {shown.text(each.get('said'), 300)}." for each in leaks]


def _reasons_tonight(run: Mapping[str, Any]) -> list[str]:
    model, counts = mapping(run, "model"), mapping(run, "counts")
    everything = [shown.name(p.get("class")) for p in points(model) if flags_everything(p)]
    read, scored, refused = counts.get("read"), counts.get("scored"), counts.get("refused")
    flagged, reasons = counts.get("flagged"), []
    blind = [shown.name(p.get("class")) for p in points(model) if p.get("sensitivity") == 0]
    if blind:
        reasons.append(f"This threshold would have found none of the past cases of {', '.join(blind)}.")
    if everything:
        whole = ", ".join(everything)
        reasons.append(
            f"No threshold could meet the rule for {whole}: every row is flagged, so none is singled out."
        )
    if not (shown.finite(scored) and shown.finite(refused)) or read != scored + refused:
        reasons.append("The counts do not add up: rows read are not rows scored plus rows refused.")
    # A run from before cases were known counts none.
    states = [counts.get("new"), counts.get("ongoing"), counts.get("reviewed"), counts.get("known", 0)]
    known = [n for n in states if shown.finite(n)]
    if len(known) == len(states) and counts.get("cases") != sum(known):
        reasons.append("The counts do not add up: cases are not new plus ongoing plus reviewed plus known.")
    if shown.finite(refused) and refused > 0:
        reasons.append(f"{shown.plural(refused, 'row')} refused and not scored: see the reasons below.")
    if scored == 0:
        reasons.append("No row was scored.")
    elif flagged == 0:
        reasons.append("No row was flagged.")
    capacity = stated(model, "capacity")
    reviews, what = awaited(run)
    if shown.finite(capacity) and shown.finite(reviews) and reviews > capacity:
        one = " patients" if what == "patient" else ""
        state = "wait for a review" if reviews != to_review(run)[0] else "flagged"
        reasons.append(
            f"{shown.count(reviews)}{one} {state}, but capacity is "
            f"{shown.plural(capacity, 'review')} a night."
        )
    expected = _expected(model, scored)
    if expected and shown.finite(flagged) and not expected[0] <= flagged <= expected[1]:
        reasons.append(
            f"{shown.count(flagged)} flagged where {shown.count(expected[0])} to {shown.count(expected[1])} "
            "were expected from validation: the patients or the data may have changed."
        )
    missing = [
        shown.feature(f.get("name"))
        for f in sequence(run, "data")
        if shown.finite(f.get("missing"))
        and shown.finite(f.get("missing_training"))
        and f["missing"] - f["missing_training"] > MUCH_MORE_MISSING
    ]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        reasons.append(f"Missing far more often than in training: {', '.join(missing[:5])}{more}.")
    return reasons


def _expected(model: Mapping[str, Any], scored: Any) -> tuple[int, int] | None:
    """Return the range of flags for 998 of 1,000 nights; only where rows are independent patients."""
    used = points(model)
    grouped = part(model, "validation", "grouped") or part(model, "contract", "cohort", "group")
    if len(used) != 1 or grouped or not shown.finite(scored) or not shown.finite(used[0].get("flag_rate")):
        return None
    rate, known = used[0]["flag_rate"], part(model, "validation", "n_rows")
    # The rate itself is known from so many rows only; its own error widens the range.
    widen = 1 + scored / known if shown.finite(known) and known > 0 else 1.0
    spread = 3.1 * math.sqrt(max(scored * rate * (1 - rate), 1.0) * widen)
    return max(0, math.floor(scored * rate - spread)), math.ceil(scored * rate + spread)


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
