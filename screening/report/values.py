"""Values of a patient as the page shows them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from screening.report import format as fmt
from screening.report.columns import people_of
from screening.schemas.base import Range
from screening.schemas.model import FeatureDeclaration, ModelDocument
from screening.schemas.run import Contribution

ABNORMAL = ("L", "H")
"""Marks of a value below and above its reference range."""
REFERENCE = "reference"
"""Name of a range that a person wrote into the contract."""
MIDDLE = 50
"""Place of the median of past patients on a bar of 100 steps."""


@dataclass(frozen=True)
class Value:
    """A contributing value as the page shows it.

    Parameters
    ----------
    feature, about : str
        Title and description of the column.
    value, unit : str
    range, range_is : str
        The range it is compared with, and what that range is.
    source : str
        Source of a reference range.
    outside : str
        "H" or "L" outside a reference range, "above" or "below" outside that of past
        patients, empty within.
    raises : bool
        It does not lower the score.
    change : str
        By how much it changes the score, with a sign; empty for a value that is only
        shown.
    bar : Markup
        SVG path from the median of past patients to this value's place among them: to
        the right if higher, to the left if lower. Empty for yes or no, and for a
        category, which has no order.
    past : str
        The same in words.
    is_missing : bool
        The value is not recorded.
    """

    feature: str
    about: str
    value: str
    unit: str
    range: str
    range_is: str
    source: str
    outside: str
    raises: bool
    change: str
    bar: Markup
    past: str
    is_missing: bool = False

    @property
    def is_reference(self) -> bool:
        """True if the range is the one that the contract states."""
        return self.range_is == REFERENCE

    @property
    def is_abnormal(self) -> bool:
        """True outside a reference range, which alone makes a value red."""
        return self.outside in ABNORMAL


def value_of(model: ModelDocument, contribution: Contribution, places: int) -> Value:
    """Return a contribution as the page shows it; `places` are decimals of scores."""
    declared = model.declared(contribution.feature)
    value: str | float = contribution.value
    if declared.type == "number":
        with suppress(ValueError):
            value = float(value)
    text = value_text(value, declared)
    is_missing = value == "missing"
    has_range = not declared.on_other_scale and not is_missing
    bounds = contribution.reference if has_range else None
    range_is = REFERENCE
    outside = _outside(value, bounds, *ABNORMAL)
    source = declared.reference_source if bounds is not None else None
    if bounds is None:
        bounds = contribution.seen if has_range else None
        range_is = f"past {people_of(model)}"
        outside = _outside(value, bounds, "below", "above")
    bar, past = _among_past(contribution, text, people_of(model))
    change = ""
    if contribution.direction != "shown":
        change = fmt.minus(f"{contribution.change:+.{places}f}")
    unit = "" if is_missing else fmt.unit(contribution.unit)
    return Value(
        feature=fmt.name(model.title_of(contribution.feature)),
        about=fmt.text(declared.description or "", 200),
        value=text,
        unit=unit,
        range=fmt.value_range(bounds),
        range_is=range_is,
        source=fmt.text(source or "", 200),
        outside=outside,
        raises=contribution.direction != "lowers",
        change=change,
        bar=bar,
        past=past,
        is_missing=is_missing,
    )


def _among_past(
    contribution: Contribution, value: str, people: str
) -> tuple[Markup, str]:
    """Return the bar of a value among those of past patients, and the same in words.

    A value without an order has no bar: more or less of it means nothing.
    """
    same = contribution.alike
    lower = contribution.lower
    if same is not None:
        relation = {"yes": "present in", "no": "absent in"}.get(value, "as in")
        text = f"{relation} {fmt.percent(same)} of past {people}"
    elif lower is not None:
        side = "higher" if lower >= 0.5 else "lower"
        text = f"{side} than in {fmt.percent(max(lower, 1 - lower))} of past {people}"
    else:
        return Markup(""), ""
    if lower is None or value in ("yes", "no"):
        return Markup(""), text
    return Markup(f"M{MIDDLE} 2h{100 * lower - MIDDLE:.0f}"), text


def value_text(value: str | float | None, declared: FeatureDeclaration) -> str:
    """Return a value as the contract declares it: yes or no, a category, a number."""
    if value is None or value != value:
        return "missing"
    is_boolean = declared.type == "boolean" and value in (0, 1)
    if isinstance(value, bool) or is_boolean:
        return fmt.setting(bool(value))
    if not fmt.finite(value):
        return fmt.name(value)
    categories = declared.categories or ()
    if declared.type == "ordinal" and value in range(len(categories)):
        return fmt.name(categories[int(value)])
    return fmt.number(value)


def _outside(value: str | float, bounds: Range | None, below: str, above: str) -> str:
    """Return the word for a value below or above a range; empty for one within."""
    if bounds is None or not fmt.finite(value):
        return ""
    low, high = bounds
    if high is not None and value > high:
        return above
    if low is not None and value < low:
        return below
    return ""
