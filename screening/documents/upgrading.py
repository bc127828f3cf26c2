"""Documents of earlier versions, with what they lack filled in as not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CHANCES = ("chance", "chance_low", "chance_high")
INTERVALS = ("ppv", "npv", "nne", "flag_rate")


def model_of_any_version(stored: Mapping[str, Any]) -> dict[str, Any]:
    """`model.json` as this version writes it: keys that came later are empty, or None for not known."""
    validation, training = stored["validation"], stored["training"]
    unknown = {
        "repeats": 1,
        "n_positive": None,
        "n_groups": None,
        "n_machines": None,
        "encoded_by": "all rows",
    }
    tables: dict[str, Any] = {name: {} for name in ("subgroups", "predictive", "calibration")}
    upgraded = unknown | tables | validation
    upgraded.pop("placement", None)
    search = {key: value for key, value in validation["search"].items() if key != "chosen_in_folds"}
    upgraded["search"] = {"dropped": [None] * len(search["scores"])} | search
    upgraded["predictive"] = {
        name: found | {"rows": [_intervals() | row for row in found["rows"]]}
        for name, found in upgraded["predictive"].items()
    }
    upgraded["points"] = {
        name: [_point(point) for point in points] for name, points in validation["points"].items()
    }
    upgraded["calibration"] = {
        name: {"reason": None} | found for name, found in upgraded["calibration"].items()
    }
    return dict(stored) | {
        "attention": _reasons(stored.get("attention", [])),
        "operating_points": [_point(point) for point in stored["operating_points"]],
        "validation": upgraded,
        "training": {"leaks": [], "window": None}
        | training
        | {"profile": profile_of_any_version(training.get("profile"))},
    }


def run_of_any_version(stored: Mapping[str, Any]) -> dict[str, Any]:
    """`run.json` as this version writes it."""
    defaults: dict[str, Any] = {
        "near_misses": [],
        "subgroups": [],
        "prevalence_estimate": None,
        "attention": [],
    }
    upgraded = defaults | dict(stored) | {"model": model_of_any_version(stored["model"])}
    chances = dict.fromkeys(CHANCES)
    upgraded.setdefault("sha256", "")
    upgraded["unflagged"] = {"cases": upgraded["unflagged"]["cases"]}
    for name in ("cases", "near_misses"):
        upgraded[name] = [chances | case for case in upgraded[name]]
    upgraded["attention"] = _reasons(upgraded["attention"])
    return upgraded


def _reasons(stored: Sequence[Any]) -> list[Any]:
    """Reasons; earlier versions kept each as a bare sentence."""
    return [{"code": "noted", "words": each} if isinstance(each, str) else each for each in stored]


def profile_of_any_version(stored: Any) -> Any:
    """A model's profile without what only the first format kept."""
    if not isinstance(stored, Mapping) or stored.get("format") != 1:
        return stored
    features = {
        name: {key: value for key, value in one.items() if key != "core"}
        for name, one in stored["features"].items()
    }
    return dict(stored) | {"features": features}


def _point(point: Mapping[str, Any]) -> dict[str, Any]:
    return {"notes": [], "misses": None} | _intervals() | dict(point)


def _intervals() -> dict[str, Any]:
    return dict.fromkeys(f"{name}{end}" for name in INTERVALS for end in ("_low", "_high"))
