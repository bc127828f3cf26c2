"""A value that contributes to a score, in the words of the contract, beside those of past patients."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from screening.documents.base import Range
from screening.documents.model import Declared, ModelDocument
from screening.documents.run import Contribution
from screening.page import format as shown

MIDDLE = 50
"""Of the 100 steps of a bar: the median of past patients."""


@dataclass(frozen=True)
class Value:
    """What the page shows of a contributing value.

    `bar` goes from the middle of past patients to where this value lies among them: to the right where it is
    higher than theirs, to the left where lower; of a category, which has no order, the further the rarer.
    """

    feature: str
    about: str
    value: str
    unit: str
    range: str
    range_is: str
    outside: str
    raises: bool
    change: str
    bar: Markup
    past: str

    @property
    def brief(self) -> str:
        """The value as a line has room for it: that a thing is there needs no "yes" beside its name."""
        return "" if self.value == "yes" else self.value


def value_of(model: ModelDocument, found: Contribution, places: int) -> Value:
    """Return what is shown of a contribution; `places` are the decimals of scores."""
    declared = model.declared(found.feature)
    value = as_number(found.value, declared)
    words = value_text(value, declared)
    absent = value == "missing"
    known = not declared.on_other_scale and not absent
    reference = found.reference if known else None
    seen = found.seen if known and not reference else None
    return Value(
        feature=shown.name(model.title_of(found.feature)),
        about=shown.text(declared.description or "", 200),
        value=words,
        unit="" if absent else shown.unit(found.unit),
        range=shown.value_range(reference or seen),
        range_is="reference range" if reference else f"range in past {others(model)}",
        outside=_outside(value, reference, "L", "H") or _outside(value, seen, "below", "above"),
        raises=found.direction != "lowers",
        change=shown.minus(f"{found.change:+.{places}f}"),
        bar=_bar(found),
        past=_past(found, words, others(model)),
    )


def others(model: ModelDocument) -> str:
    """What the rows of training are called beside one of tonight."""
    return "patients" if model.unit_of_review == "row" else f"{model.unit_of_review}s"


def _bar(found: Contribution) -> Markup:
    if found.lower is not None:
        return Markup(f"M{MIDDLE} 2h{100 * found.lower - MIDDLE:.0f}")
    if found.alike is not None:
        return Markup(f"M{MIDDLE} 2h{MIDDLE * (1 - found.alike):.0f}")
    return Markup("")


def _past(found: Contribution, value: str, people: str) -> str:
    if found.alike is not None:
        as_in = {"yes": "present in", "no": "absent in"}.get(value, "as in")
        return f"{as_in} {shown.percent(found.alike)} of past {people}"
    if found.lower is None:
        return ""
    share = max(found.lower, 1 - found.lower)
    return f"{'higher' if found.lower >= 0.5 else 'lower'} than {shown.percent(share)} of past {people}"


def as_number(value: str, declared: Declared) -> str | float:
    """Return the number in a text where the contract declares a number; anything else as it came."""
    if declared.type != "number":
        return value
    try:
        return float(value)
    except ValueError:
        return value


def value_text(value: str | float | None, declared: Declared) -> str:
    """Return a patient's value as the contract means it: yes or no, the category, or a number."""
    if value is None or value != value:
        return "missing"
    kind, categories = declared.type, declared.categories or ()
    if isinstance(value, bool) or (kind == "boolean" and value in (0, 1)):
        return "yes" if value else "no"
    if not shown.finite(value):
        return shown.name(value)
    if kind == "ordinal" and float(value).is_integer() and 0 <= value < len(categories):
        return shown.name(categories[int(value)])
    return shown.number(value)


def _outside(value: str | float, bounds: Range | None, below: str, above: str) -> str:
    """Return the word for a value below or above a range, nothing for one within."""
    if not shown.finite(value) or bounds is None:
        return ""
    low, high = bounds
    if high is not None and value > high:
        return above
    return below if low is not None and value < low else ""
