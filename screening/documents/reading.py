"""Reading the parts of a model or run document, keys that may be absent included."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

# A threshold beyond this stands for none: the operating point flags every row.
BEYOND_SCORES = 1e11


def finite(value: Any) -> TypeGuard[float]:
    """Whether `value` is a number that can be drawn: not None, text, a truth value, NaN or infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def part(document: Any, *path: str) -> Any:
    """Return the value at `path` of nested mappings, None where any step is missing."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def mapping(document: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at `path`, an empty one where there is none."""
    found = part(document, *path)
    return found if isinstance(found, Mapping) else {}


def sequence(document: Any, *path: str) -> Sequence[Any]:
    """Return the list at `path`, an empty one where there is none."""
    found = part(document, *path)
    return found if isinstance(found, (list, tuple)) else ()


def stated(model: Mapping[str, Any], key: str) -> Any:
    """Return a setting of the contract's cohort section (title, prevalence, capacity, ...)."""
    return part(model, "contract", "cohort", key) or part(model, "contract", key)


def points(model: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the operating points in use, the rarest class first."""
    known = [p for p in sequence(model, "operating_points") if isinstance(p, Mapping)]
    return sorted(known, key=lambda p: p["n_positive"] if finite(p.get("n_positive")) else 0)


def by_excess(model: Mapping[str, Any]) -> bool:
    """Whether rows are ranked by how far they lie above their class's threshold, several being watched."""
    return len(points(model)) > 1


def flags_everything(point: Mapping[str, Any]) -> bool:
    """Whether the operating point's threshold stands for none at all."""
    threshold = point.get("threshold")
    return finite(threshold) and threshold <= -BEYOND_SCORES


def multi(model: Mapping[str, Any]) -> bool:
    """Whether the model tells several classes apart."""
    return part(model, "task", "kind") == "multi"


def unit_of_review(model: Mapping[str, Any]) -> str:
    """Return what one row is called on the page."""
    return "voxel" if sequence(model, "contract", "cohort", "coordinates") else "row"


def to_review(run: Any) -> tuple[Any, str]:
    """Return how many are to be reviewed and what one is called: patients where rows are grouped."""
    exact = part(run, "groups_flagged")
    if finite(exact):
        return exact, "patient"
    found = [group for group in sequence(run, "groups") if isinstance(group, Mapping)]
    if found:
        return sum(bool(group.get("flagged")) for group in found), "patient"
    return part(run, "counts", "flagged"), "row"


def awaited(run: Any) -> tuple[Any, str]:
    """Return how many still wait for a review: those flagged, less those that the ledger says were judged."""
    found, what = to_review(run)
    judged = [n for key in ("reviewed", "known") if finite(n := part(run, "counts", key))]
    return (max(found - sum(judged), 0) if finite(found) else found), what


def words(model: Mapping[str, Any]) -> dict[str, bool]:
    """Return which of its terms a page has to explain."""
    calibrated = mapping(model, "validation", "calibration").values()
    passes = [p for p in sequence(model, "machine", "passes") if isinstance(p, Mapping)]
    return {
        "by_group": bool(part(model, "validation", "grouped")),
        "chance": any(bool(part(found, "earned")) for found in calibrated),
        "factor": any(sequence(one, "factor") for one in passes),
    }


def by_class(found: Any, label: Any, alone: bool) -> Mapping[str, Any]:
    """Return what belongs to class `label`; where there is only one, any one will do."""
    if not isinstance(found, Mapping):
        return {}
    inner = found.get(str(label))
    if isinstance(inner, Mapping):
        return inner
    nested = [v for v in found.values() if isinstance(v, Mapping)]
    return nested[0] if alone and nested else found if alone else {}
