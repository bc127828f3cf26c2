"""Format numbers and texts for the page."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from screening.schemas.base import Estimate
from screening.schemas.figures import (
    BEYOND_SCORES,
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Rule,
)
from screening.schemas.model import ModelDocument

NOT_KNOWN = "–"
LONGEST_TEXT = 2000
LONGEST_NAME = 64
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def finite(value: object) -> TypeGuard[float]:
    """Whether `value` is a number that can be drawn: not None, text, a truth value, NaN or infinite."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def figure_of(value: object) -> float | None:
    """Return a number, or the figure of an estimate; None for what cannot be drawn."""
    value = value.value if isinstance(value, Estimate) else value
    return value if finite(value) else None


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return `value` as text in which every character is visible.

    A control or direction mark inside an id could make one patient's number read as another's, so such
    characters are spelled out. Text over `longest` characters keeps both ends and says how long it was.
    """
    whole = str(value)
    shown = whole.replace("\r\n", "\n")
    if len(shown) > longest:
        shown = f"{shown[: longest - 12]} … {shown[-8:]} ({len(whole):,} characters)"
    if shown.isprintable():
        return shown
    return "".join(
        f"⟨U+{ord(c):04X}⟩" if c != "\n" and unicodedata.category(c) in _UNSEEN else c
        for c in shown
    )


def name(value: object) -> str:
    """Return an id, a group or a feature name: `text`, on one line and short enough for a table cell."""
    return (
        NOT_KNOWN if value is None else " ".join(text(value, LONGEST_NAME).split("\n"))
    )


def feature(value: object) -> str:
    """Return a column's name as words."""
    return name(value.replace("_", " ") if isinstance(value, str) else value)


def minus(figure: str) -> str:
    """Replace the hyphen of a negative figure by a minus sign, which is as wide as a digit."""
    return figure.replace("-", "−") if figure.startswith("-") else figure


def number(value: object) -> str:
    """Return a measured value to four significant figures, never in exponent form below a million."""
    if not finite(value):
        return NOT_KNOWN
    if float(value).is_integer() and abs(value) < 1e9:
        return minus(f"{int(value):,}" if abs(value) >= 10_000 else str(int(value)))
    figure = f"{value:.4g}"
    if "e" in figure and abs(value) >= 1e-4 and abs(value) < 1e9:
        figure = f"{value:,.0f}"
    return minus(figure)


def count(value: object) -> str:
    """Return a whole number with thousands separated."""
    return minus(f"{round(value):,}") if finite(value) else NOT_KNOWN


def percent(value: object, places: int | None = None) -> str:
    """Return a share (0 to 1) in per cent; one decimal below 10 % and next to 100 %, where it matters.

    What is neither nobody nor everybody is not rounded to it.
    """
    share = figure_of(value)
    if share is None:
        return NOT_KNOWN
    share *= 100
    if places is None:
        if 99.995 <= share < 100:
            return ">99.99%"
        if 0 < share < 0.095:
            return "<0.01%" if share < 0.01 else f"{share:.2f}%"
        places = (
            0 if share in (0, 100) or 10 <= share < 99.5 else 1 if share < 99.95 else 2
        )
    return f"{share:.{places}f}%"


def chance(value: object) -> str:
    """Return the chance of a condition in per cent, as far as past cases can tell it: `>99.9%` at most."""
    share = figure_of(value)
    if share is None:
        return NOT_KNOWN
    return ">99.9%" if share > 0.999 else "<0.1%" if share < 0.001 else percent(share)


def chance_ci(of: Estimate) -> str:
    """Return the 95 % interval of a chance, empty where there is none."""
    if not (finite(of.low) and finite(of.high)):
        return ""
    if of.low >= 0.001 and of.high <= 0.999:
        return ci(of)
    low, high = chance(of.low), chance(of.high)
    return low if low == high else f"{low} to {high}"


def ci(share: Estimate) -> str:
    """Return the 95 % interval of a share as `84–95%`, or an empty text where there is none.

    Rounding may not close it: `100–100%` would deny what is left.
    """
    low, high = share.low, share.high
    if not (finite(low) and finite(high)):
        return ""
    for places in range(0 if high >= 0.1 else 1, 4):
        ends = [f"{100 * end:.{places}f}" for end in (low, high)]
        if ends[0] != ends[1] or low == high:
            break
    return f"{ends[0]}–{ends[1]}%"


def p_value(value: object) -> str:
    """Return a p-value with three decimals, four below 0.01; never as zero."""
    p = figure_of(value)
    if p is None:
        return NOT_KNOWN
    return "<0.0001" if p < 1e-4 else f"{p:.3f}" if p >= 0.01 else f"{p:.4f}"


def ratio(value: object) -> str:
    """Return a small positive figure such as a number needed to evaluate."""
    figure = figure_of(value)
    return (
        NOT_KNOWN
        if figure is None
        else f"{figure:.1f}"
        if figure < 100
        else f"{figure:,.0f}"
    )


def per_hundred(share: object) -> str:
    """Return a share as so many in a hundred."""
    figure = figure_of(share)
    return NOT_KNOWN if figure is None else ratio(100 * figure)


def area_ci(area: Estimate) -> str:
    """Return the 95 % interval of an area or a ratio, or an empty text where there is none."""
    return (
        ""
        if area.low is None or area.high is None
        else f"{area.low:.2f}–{area.high:.2f}"
    )


def decimals(values: Iterable[object]) -> int:
    """Return how many decimals tell scores of this spread apart: about three figures of the spread."""
    known = [float(v) for v in values if finite(v) and abs(v) < BEYOND_SCORES]
    spread = (
        max(known) - min(known) if len(known) > 1 else abs(known[0]) if known else 1.0
    )
    return min(9, max(0, 3 - math.ceil(math.log10(spread)))) if spread > 0 else 3


def fixed(value: object, places: int) -> str:
    """Return a score with `places` decimals."""
    score = figure_of(value)
    if score is None or abs(score) >= BEYOND_SCORES:
        return NOT_KNOWN
    figure = f"{score:.{places}f}"
    return minus(figure if float(figure) != 0 else figure.lstrip("-"))


def signed(value: object, places: int) -> str:
    """Return a difference: `fixed`, with its sign unless it rounds to zero."""
    figure = fixed(value, places)
    return f"+{figure}" if figure[0].isdigit() and float(figure) > 0 else figure


def points(share: float | None) -> str:
    """Return a difference of two shares in percentage points, with its sign."""
    return signed(None if share is None else 100 * share, 1)


def value_range(bounds: object) -> str:
    """Return a range of values as `0–10`, `≤ 10` or `≥ 3`; empty where there is none."""
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        return ""
    low, high = bounds
    if finite(low) and finite(high):
        separator = " to " if low < 0 else "–"
        return f"{number(low)}{separator}{number(high)}"
    if finite(high):
        return f"≤ {number(high)}"
    return f"≥ {number(low)}" if finite(low) else ""


def unit(value: object) -> str:
    """Return a unit as it is printed: `degC` as °C, `10^9/L` as 10⁹/L."""
    written = name(value) if value else ""
    written = re.sub(r"\^(-?\d+)", lambda power: power[1].translate(_RAISED), written)
    return {"degC": "°C", "degF": "°F"}.get(written, written)


def of_class(model: ModelDocument, label: str) -> str:
    """Return " of LABEL" if a model watches several classes, else an empty text."""
    return f" of {label}" if model.multi else ""


def plural(how_many: object, one: str, many: str | None = None) -> str:
    """Return `1 row`, `2 rows`."""
    return f"{count(how_many)} {one if how_many == 1 else many or one + 's'}"


def seconds(value: float | None) -> str:
    """Return a time to two figures: it varies from run to run by more than the third."""
    if value is None:
        return NOT_KNOWN
    return f"{value:.3f}" if value < 0.1 else number(float(f"{value:.2g}"))


def moment(recorded: str) -> str:
    """Return a time of ISO 8601 as it is read."""
    return name(recorded).replace("T", " ").replace("+00:00", " UTC")


def days_after(day: str, other: str) -> int:
    """Return how many days a day of ISO 8601 lies after another, whose time of day does not count."""
    return (
        datetime.date.fromisoformat(day) - datetime.date.fromisoformat(other[:10])
    ).days


def rule(value: Rule) -> str:
    """Return the rule that chose a threshold, in words."""
    match value:
        case MinSensitivity():
            sure = (
                ""
                if value.confidence is None
                else f", with {percent(value.confidence)} confidence"
            )
            return f"sensitivity at least {percent(value.value)}{sure}"
        case MaxFlagRate():
            return f"at most {number(100 * value.value)} flags per 100 rows"
        case MissCost():
            return f"one missed case costs as much as {number(value.value)} reviews"
        case GMean():
            return "largest geometric mean of sensitivity and specificity"
    return "threshold given by the user"


def setting(value: object) -> str:
    """Return a parameter of a recipe: a number, a word, or several of them."""
    if isinstance(value, float):
        return minus(f"{value:.6g}")
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, (list, tuple)):
        return text(", ".join(setting(each) for each in value), 300)
    if isinstance(value, Mapping):
        return text(
            ", ".join(f"{key} {setting(each)}" for key, each in sorted(value.items())),
            300,
        )
    return text(value, 300)


FILTERS = {
    each.__name__: each
    for each in (
        text,
        name,
        feature,
        unit,
        value_range,
        number,
        percent,
        ci,
        chance,
        area_ci,
        p_value,
        ratio,
        per_hundred,
        fixed,
        signed,
        points,
        plural,
        seconds,
        moment,
        days_after,
        rule,
        setting,
        count,
    )
}
"""What templates write figures and names with."""
