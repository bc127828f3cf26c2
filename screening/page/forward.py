"""The test of time beside the cross-validation: trained on the past, tested on what came after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import mapping, multi, points
from screening.page import format as shown

FIGURES = (
    ("sensitivity", "Sensitivity"),
    ("specificity", "Specificity"),
    ("auroc", "Area under the ROC curve"),
)


def forward(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the forward validation beside the cross-validation; None where the contract names no time."""
    found = mapping(model, "validation", "forward")
    if not found:
        return None
    rows: list[dict[str, Any]] = []
    head = {
        "cut": shown.name(found.get("cut")),
        "past": shown.plural(found.get("n_past"), "row"),
        "later": shown.plural(found.get("n_later"), "row"),
        "why": shown.text(found.get("reason") or ""),
        "rows": rows,
    }
    for point in points(model):
        label = str(point.get("class"))
        seen = mapping(found, "classes", label)
        crossed = {
            **point,
            **{k: v for k, v in mapping(model, "validation", "summary", label).items() if "auroc" in k},
        }
        rows += [
            {
                "name": words + (f", {shown.name(label)}" if multi(model) else ""),
                "later": _figure(key, seen),
                "crossed": _figure(key, crossed),
            }
            for key, words in FIGURES
            if shown.finite(seen.get(key))
        ]
    return head


def _figure(key: str, found: Mapping[str, Any]) -> dict[str, str]:
    value, low, high = (found.get(f"{key}{end}") for end in ("", "_low", "_high"))
    if key != "auroc":
        return {"value": shown.percent(value), "interval": shown.interval(low, high)}
    ends = f"{low:.2f}–{high:.2f}" if shown.finite(low) and shown.finite(high) else ""
    return {"value": f"{value:.2f}" if shown.finite(value) else shown.NOT_KNOWN, "interval": ends}
