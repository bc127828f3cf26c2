"""Figures as pages write them, by the form that their entry declares."""

from __future__ import annotations

from screening.metrics.figures import Figure
from screening.report import format as fmt
from screening.schemas.base import Estimate


def in_sentence(figure: Figure) -> str:
    """Return the title of a figure within a sentence: an acronym as it is."""
    title = figure.title
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def written(value: float | Estimate | None, figure: Figure) -> str:
    """Return the value of a figure."""
    if figure.form == "share":
        return fmt.percent(value)
    return fmt.fixed(value, _decimals(figure))


def interval(of: Estimate, figure: Figure) -> str:
    """Return the 95 % interval of a figure; empty where there is none."""
    if figure.form == "share":
        return fmt.ci(of)
    if figure.form == "benefit":
        return fmt.signed_ci(of, _decimals(figure))
    return fmt.area_ci(of)


def with_interval(of: Estimate, figure: Figure) -> str:
    """Return a figure with its interval in brackets, if there is one."""
    ends = interval(of, figure)
    return f"{written(of, figure)} (95% CI {ends})" if ends else written(of, figure)


def gap(value: float | None, figure: Figure, places: int = 2) -> str:
    """Return a difference of a figure with its sign, of shares in percentage points.

    `places` are the decimals of other figures, if more than those of their form.
    """
    if figure.form == "share":
        return fmt.points(value)
    return fmt.signed(value, max(places, _decimals(figure)))


def _decimals(figure: Figure) -> int:
    """Return the decimals of a figure that is not written in per cent."""
    return 3 if figure.form == "benefit" else 2
