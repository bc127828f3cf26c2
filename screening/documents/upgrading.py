"""Documents of earlier versions, with what they lack filled in as not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from screening.documents.tables import elements, table, tables

CHANCES = ("chance", "chance_low", "chance_high")
INTERVALS = ("ppv", "npv", "nne", "flag_rate")


def model_of_any_version(stored: Mapping[str, object]) -> dict[str, object]:
    """`model.json` as this version writes it: keys that came later are empty, or None for not known."""
    validation, training = table(stored, "validation"), table(stored, "training")
    unknown = {
        "repeats": 1,
        "n_positive": None,
        "n_groups": None,
        "n_machines": None,
        "encoded_by": "all rows",
    }
    empty: dict[str, object] = {name: {} for name in ("subgroups", "predictive", "calibration")}
    upgraded = unknown | empty | validation
    upgraded.pop("placement", None)
    search = {key: value for key, value in table(validation, "search").items() if key != "chosen_in_folds"}
    upgraded["search"] = {"dropped": [None] * len(elements(search, "scores"))} | search
    expected = table(upgraded, "predictive")
    upgraded["predictive"] = {
        name: found | {"rows": [_intervals() | row for row in tables(found, "rows")]}
        for name, found in ((name, table(expected, name)) for name in expected)
    }
    points = table(validation, "points")
    upgraded["points"] = {name: [_point(point) for point in tables(points, name)] for name in points}
    chances = table(upgraded, "calibration")
    upgraded["calibration"] = {name: {"reason": None} | table(chances, name) for name in chances}
    told: dict[str, object] = {"attention": []} | dict(stored)
    return told | {
        "attention": _reasons(elements(told, "attention")),
        "operating_points": [_point(point) for point in tables(stored, "operating_points")],
        "validation": upgraded,
        "training": {"leaks": [], "window": None}
        | training
        | {"profile": profile_of_any_version(training.get("profile"))},
    }


def run_of_any_version(stored: Mapping[str, object]) -> dict[str, object]:
    """`run.json` as this version writes it."""
    defaults: dict[str, object] = {
        "near_misses": [],
        "subgroups": [],
        "prevalence_estimate": None,
        "attention": [],
    }
    upgraded = defaults | dict(stored) | {"model": model_of_any_version(table(stored, "model"))}
    chances = dict.fromkeys(CHANCES)
    upgraded.setdefault("sha256", "")
    upgraded["unflagged"] = {"cases": table(upgraded, "unflagged")["cases"]}
    for name in ("cases", "near_misses"):
        upgraded[name] = [chances | case for case in tables(upgraded, name)]
    upgraded["attention"] = _reasons(elements(upgraded, "attention"))
    return upgraded


def _reasons(stored: Sequence[object]) -> list[object]:
    """Reasons; earlier versions kept each as a bare sentence."""
    return [{"code": "noted", "words": each} if isinstance(each, str) else each for each in stored]


def profile_of_any_version(stored: object) -> object:
    """A model's profile without what only the first format kept."""
    if not isinstance(stored, Mapping) or stored.get("format") != 1:
        return stored
    features = table(stored, "features")
    features = {
        name: {key: value for key, value in table(features, name).items() if key != "core"}
        for name in features
    }
    return dict(stored) | {"features": features}


def _point(point: Mapping[str, object]) -> dict[str, object]:
    return {"notes": [], "misses": None} | _intervals() | dict(point)


def _intervals() -> dict[str, object]:
    return dict.fromkeys(f"{name}{end}" for name in INTERVALS for end in ("_low", "_high"))
