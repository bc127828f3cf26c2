"""Format numbers and texts for the page."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from screening.metrics.figures import Figure
from screening.schemas.base import Estimate
from screening.schemas.figures import (
    BEYOND_SCORES,
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Rule,
)
from screening.schemas.history import PatientsOfTable
from screening.schemas.model import ModelDocument

NOT_KNOWN = "–"
MAX_TEXT = 2000
MAX_NAME = 64
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Unicode categories of invisible characters.
INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def finite(value: object) -> TypeGuard[float]:
    """Return True for a finite number; False for booleans, None and texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def figure_of(value: object) -> float | None:
    """Return a number, or the value of an estimate; None if it is not finite."""
    if isinstance(value, Estimate):
        value = value.value
    return value if finite(value) else None


def text(value: object, longest: int = MAX_TEXT) -> str:
    """Return `value` as text in which every character is visible.

    A control or direction mark inside an id could make one patient's number read as
    another's, so such characters are spelled out. Text over `longest` characters keeps
    both ends and says how long it was.
    """
    whole = str(value)
    printed = whole.replace("\r\n", "\n")
    if len(printed) > longest:
        printed = (
            f"{printed[: longest - 12]} … {printed[-8:]} ({len(whole):,} characters)"
        )
    if printed.isprintable():
        return printed
    return "".join(map(_spell_out, printed))


def _spell_out(char: str) -> str:
    """Return a character, or its code point if it is invisible and no line break."""
    if char == "\n" or unicodedata.category(char) not in INVISIBLE:
        return char
    return f"⟨U+{ord(char):04X}⟩"


def name(value: object) -> str:
    """Return an id, a group or a column's name as `text`, short and on one line."""
    if value is None:
        return NOT_KNOWN
    return " ".join(text(value, MAX_NAME).split("\n"))


def feature(value: object) -> str:
    """Return a column's name as words."""
    if isinstance(value, str):
        value = value.replace("_", " ")
    return name(value)


def minus(figure: str) -> str:
    """Replace the hyphen of a negative number by a minus sign, as wide as a digit."""
    return figure.replace("-", "−") if figure.startswith("-") else figure


def number(value: object) -> str:
    """Return a value with four significant figures, without exponent below 1e9."""
    if not finite(value):
        return NOT_KNOWN
    size = abs(value)
    if float(value).is_integer() and size < 1e9:
        whole = f"{int(value):,}" if size >= 10_000 else str(int(value))
        return minus(whole)
    figure = f"{value:.4g}"
    if "e" in figure and 1e-4 <= size < 1e9:
        figure = f"{value:,.0f}"
    return minus(figure)


def count(value: object) -> str:
    """Format a whole number with thousands separated."""
    return minus(f"{round(value):,}") if finite(value) else NOT_KNOWN


def percent(value: object, places: int | None = None) -> str:
    """Return a share (0 to 1) in per cent.

    By default with one decimal below 10 % and near 100 %; a share that is neither 0 nor
    1 is not rounded to either.
    """
    share = figure_of(value)
    if share is None:
        return NOT_KNOWN
    percentage = 100 * share
    if places is not None:
        return f"{percentage:.{places}f}%"
    if percentage in (0, 100):
        return f"{percentage:.0f}%"
    if percentage >= 99.995 and percentage < 100:
        return ">99.99%"
    if 0 < percentage < 0.01:
        return "<0.01%"
    if 0 < percentage < 0.095 or percentage >= 99.95:
        return f"{percentage:.2f}%"
    if 10 <= percentage < 99.5:
        return f"{percentage:.0f}%"
    return f"{percentage:.1f}%"


def chance(value: object) -> str:
    """Return the chance of a condition in per cent, from "<0.1%" to ">99.9%"."""
    share = figure_of(value)
    if share is None:
        return NOT_KNOWN
    if share > 0.999:
        return ">99.9%"
    if share < 0.001:
        return "<0.1%"
    return percent(share)


def chance_ci(of: Estimate) -> str:
    """Return the 95 % interval of a chance; empty without one."""
    if not finite(of.low) or not finite(of.high):
        return ""
    if of.low >= 0.001 and of.high <= 0.999:
        return ci(of)
    low = chance(of.low)
    high = chance(of.high)
    return low if low == high else f"{low} to {high}"


def ci(share: Estimate) -> str:
    """Return the 95 % interval of a share, such as `84–95%`; empty without one.

    It has decimals enough for its ends to differ: `100–100%` would deny a doubt.
    """
    if not finite(share.low) or not finite(share.high):
        return ""
    for places in range(0 if share.high >= 0.1 else 1, 4):
        low = f"{100 * share.low:.{places}f}"
        high = f"{100 * share.high:.{places}f}"
        if low != high or share.low == share.high:
            break
    return f"{low}–{high}%"


def p_value(value: object) -> str:
    """Return a p-value with three decimals, four below 0.01; never as zero."""
    p = figure_of(value)
    if p is None:
        return NOT_KNOWN
    if p < 1e-4:
        return "<0.0001"
    return f"{p:.3f}" if p >= 0.01 else f"{p:.4f}"


def ratio(value: object) -> str:
    """Return a small positive figure such as a number needed to evaluate."""
    figure = figure_of(value)
    if figure is None:
        return NOT_KNOWN
    return f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def per_hundred(share: object) -> str:
    """Return a share as a number per hundred."""
    figure = figure_of(share)
    return NOT_KNOWN if figure is None else ratio(100 * figure)


def area_ci(area: Estimate) -> str:
    """Return the 95 % interval of an area or a ratio; empty without one."""
    if area.low is None or area.high is None:
        return ""
    return f"{area.low:.2f}–{area.high:.2f}"


def signed_ci(of: Estimate, places: int) -> str:
    """Return the 95 % interval of a figure that may be negative; empty without one."""
    if of.low is None or of.high is None:
        return ""
    separator = " to " if of.low < 0 else "–"
    return f"{fixed(of.low, places)}{separator}{fixed(of.high, places)}"


def decimals(values: Iterable[object]) -> int:
    """Return the decimals that distinguish scores: three figures of their range."""
    scores = [float(v) for v in values if finite(v) and abs(v) < BEYOND_SCORES]
    width = 1.0
    if len(scores) == 1:
        width = abs(scores[0])
    elif scores:
        width = max(scores) - min(scores)
    if width <= 0:
        return 3
    return min(9, max(0, 3 - math.ceil(math.log10(width))))


def fixed(value: object, places: int) -> str:
    """Return a score with `places` decimals."""
    score = figure_of(value)
    if score is None or abs(score) >= BEYOND_SCORES:
        return NOT_KNOWN
    figure = f"{score:.{places}f}"
    if float(figure) == 0:
        figure = figure.lstrip("-")
    return minus(figure)


def signed(value: object, places: int) -> str:
    """Return a difference with `places` decimals, and a sign unless it rounds to 0."""
    figure = fixed(value, places)
    is_positive = figure[0].isdigit() and float(figure) > 0
    return f"+{figure}" if is_positive else figure


def points(share: float | None) -> str:
    """Return a difference of two shares in percentage points, with its sign."""
    in_points = None if share is None else 100 * share
    return signed(in_points, 1)


def value_range(bounds: object) -> str:
    """Return a range as `0–10`, `≤ 10` or `≥ 3`; empty without one."""
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
    printed = name(value) if value else ""
    printed = re.sub(
        r"\^(-?\d+)", lambda power: power[1].translate(SUPERSCRIPTS), printed
    )
    return {"degC": "°C", "degF": "°F"}.get(printed, printed)


def of_class(model: ModelDocument, label: str) -> str:
    """Return " of LABEL" if a model watches several classes, else an empty text."""
    return f" of {label}" if model.multi else ""


def plural(number: object, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{count(number)} {noun}"


def seconds(value: float | None) -> str:
    """Return a time in seconds with two figures: the third varies from run to run."""
    if value is None:
        return NOT_KNOWN
    return f"{value:.3f}" if value < 0.1 else number(float(f"{value:.2g}"))


def moment(recorded: str) -> str:
    """Return a time of ISO 8601 as people read it."""
    return name(recorded).replace("T", " ").replace("+00:00", " UTC")


def days_after(day: str, other: str) -> int:
    """Return the days from `other`, a day or time of ISO 8601, to `day`."""
    since = datetime.date.fromisoformat(other[:10])
    return (datetime.date.fromisoformat(day) - since).days


def rule(value: Rule) -> str:
    """Return the rule that chose a threshold, in words."""
    match value:
        case MinSensitivity():
            sentence = f"sensitivity at least {percent(value.value)}"
            if value.confidence is not None:
                sentence += f", with {percent(value.confidence)} confidence"
            return sentence
        case MaxFlagRate():
            return f"at most {number(100 * value.value)} flags per 100 rows"
        case MissCost():
            return f"one missed case costs as much as {number(value.value)} reviews"
        case GMean():
            return "largest geometric mean of sensitivity and specificity"
    return "threshold given by the user"


def setting(value: object) -> str:
    """Return a parameter of a recipe: a number, a word, or several of them."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return minus(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return text(", ".join(map(setting, value)), 300)
    if isinstance(value, Mapping):
        pairs = [f"{key} {setting(item)}" for key, item in sorted(value.items())]
        return text(", ".join(pairs), 300)
    return text(value, 300)


def patients_words(table: PatientsOfTable | None) -> str:
    """Return how many patients of a table of outcomes no night scored, and before."""
    if table is None:
        return NOT_KNOWN
    words = f"{table.unknown:,} of {table.patients:,}"
    if table.usual_patients is not None:
        words += f", {table.usual_unknown:,} of {table.usual_patients:,} before"
    if table.grown:
        words += ": more than chance explains"
    return words


def in_sentence(figure: Figure) -> str:
    """Return the title of a figure within a sentence: an acronym as it is."""
    title = figure.title
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def written(value: float | Estimate | None, figure: Figure) -> str:
    """Return the value of a figure."""
    if figure.form.percent == "everywhere":
        return percent(value)
    return fixed(value, figure.form.decimals)


def interval(of: Estimate, figure: Figure) -> str:
    """Return the 95 % interval of a figure; empty without one."""
    if figure.form.percent == "everywhere":
        return ci(of)
    return signed_ci(of, figure.form.decimals)


def with_ends(value: str, ends: str) -> str:
    """Return a value with its 95 % interval in brackets, if there is one."""
    return f"{value} (95% CI {ends})" if ends else value


def with_interval(of: Estimate, figure: Figure) -> str:
    """Return a figure with its interval in brackets, if there is one."""
    return with_ends(written(of, figure), interval(of, figure))


def share_words(share: Estimate) -> str:
    """Return a share in per cent with its interval in brackets, if there is one."""
    return with_ends(percent(share), ci(share))


def gap(value: float | None, figure: Figure, places: int = 2) -> str:
    """Return a difference of a figure with its sign, of shares in percentage points.

    `places` are the decimals of other figures, if more than those of their form.
    """
    if figure.form.percent == "everywhere":
        return points(value)
    return signed(value, max(places, figure.form.decimals))


_FORMATS = (
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
    patients_words,
    in_sentence,
    written,
    interval,
    with_interval,
    gap,
)
FILTERS = {function.__name__: function for function in _FORMATS}
"""Filters of the templates."""
