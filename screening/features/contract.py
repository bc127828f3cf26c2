"""The contract of a table of features, so that training needs nothing else."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from screening.contract.contract import Contract
from screening.features.spec import Feature, Spec

UNDATED = (
    "made from events without known_since, so for past nights it may include values "
    "that were not known then"
)
STATIC_TYPES = {
    "age": {"type": "number", "unit": "years"},
    "sex": {"type": "category"},
    "ward": {"type": "category"},
    "days_in_hospital": {"type": "number", "unit": "days"},
}
# Units of features that are no longer in the unit of the values.
UNITS = {"hours_since": "h"}
UNITLESS = ("count", "any", "slope")


def contract_of(spec: Spec, undated: Collection[str]) -> Contract:
    """Return the contract of the past that a spec makes.

    Parameters
    ----------
    spec : Spec
    undated : collection of str
        Features with events that do not state since when they were known. Those of
        other features were certainly known at the hour.
    """
    features = {}
    for name, feature in spec.features.items():
        declared: dict[str, Any] = (
            _declared(feature)
            if isinstance(feature, Feature)
            else dict(STATIC_TYPES[feature])
        )
        if name in undated:
            declared |= {"available": "unknown", "description": UNDATED}
        else:
            declared["available"] = "before"
        features[name] = declared
    cohort: dict[str, Any] = {
        "id": "id",
        "group": "group",
        "time": "time",
        "time_zone": spec.zone,
        "hour": spec.hour,
    }
    content: dict[str, Any] = {"cohort": cohort, "features": features}
    if spec.outcome is not None:
        cohort |= {"label": "label", "positive": ["1"]}
        content["outcome"] = {
            "within": spec.outcome.within,
            "after": spec.outcome.after,
            "by": "patient" if spec.stays.row == "every" else "stay",
            "id": "id",
            "time": "time",
            "until": "until",
            "as_of": "as_of",
        }
    return Contract.from_dict(content)


def _declared(feature: Feature) -> dict[str, Any]:
    """Return type and unit of a feature of events."""
    if feature.text:
        return {"type": "category"}
    if feature.take == "any":
        return {"type": "boolean"}
    unit = UNITS.get(feature.take, feature.unit)
    if unit is None or feature.take in UNITLESS:
        return {"type": "number"}
    return {"type": "number", "unit": unit}
