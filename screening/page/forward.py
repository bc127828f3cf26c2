"""The test of time beside the cross-validation: trained on the past, tested on what came after."""

from __future__ import annotations

from collections.abc import Mapping

from screening.documents.model import ModelDocument
from screening.documents.validation import LaterClass
from screening.page import format as shown


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
