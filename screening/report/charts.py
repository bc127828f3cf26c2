"""Axes, scales and marks of every chart; templates write down what is computed here.

Coordinates are those of the SVG's view box. Kinds (`first`, `second`, `chance`, ...)
become CSS classes. Each kind has its own dash or shape as well as its colour, so that
no difference lies in colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from screening.report import format as fmt
from screening.schemas.base import Estimate

# About the width of a letter of a label, rather too wide than too narrow.
LETTER_WIDTH = 7.6
# Least distance of the base lines of two labels.
LINE_HEIGHT = 15
Values = Sequence[float | None] | np.ndarray


@dataclass(frozen=True)
class Scale:
    """A linear map of values [low, high] to positions [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the position of `value` in tenths, at most at an end of the scale."""
        span = self.high - self.low
        share = (value - self.low) / span if span > 0 else 0.5
        share = min(1.0, max(0.0, share))
        return round(self.start + share * (self.stop - self.start), 1)

    def ticks(self, about: int = 6) -> list[float]:
        """Return `about` as many round values (steps of 1, 2 or 5) inside the scale."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        least_step = span / about
        power = 10.0 ** math.floor(math.log10(least_step))
        steps = (factor * power for factor in (1, 2, 5, 10))
        # The tolerances are for rounding.
        step = next(step for step in steps if least_step <= step * 1.0001)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass(frozen=True)
class Tick:
    """A position on an axis, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Stroke:
    """A line, or the outline of an area."""

    d: Markup
    kind: str


@dataclass(frozen=True)
class Mark:
    """One point."""

    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class Label:
    """A text at a position; `anchor` says whether it begins or ends there."""

    x: float
    y: float
    kind: str
    text: str
    anchor: str

    def overlaps(self, other: Label) -> bool:
        """Return True if both texts would lie on each other."""
        left, right = self._extent()
        other_left, other_right = other._extent()
        is_same_line = abs(self.y - other.y) < LINE_HEIGHT
        return is_same_line and left < other_right and other_left < right

    def _extent(self) -> tuple[float, float]:
        """Return the left and the right end of the text."""
        width = LETTER_WIDTH * len(self.text)
        if self.anchor == "end":
            return self.x - width, self.x
        return self.x, self.x + width


@dataclass
class Axes:
    """A chart: two scales, and what lies on them.

    Parameters
    ----------
    name : str
        Unique on the page: it prefixes the ids that tie the picture to its text
        alternative.
    x_label, y_label : str
    x, y : (float, float)
        Ranges of values on the axes, by default of shares.
    title, description : str
        Text alternative, where the template does not write it.
    width, height : int
    margins : (int, int, int, int)
        Above, to the right, below and to the left of the plot.
    as_percent : (bool, bool)
        Write the ticks of x and y in per cent.
    """

    name: str
    x_label: str
    y_label: str
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    title: str = ""
    description: str = ""
    width: int = 660
    height: int = 340
    margins: tuple[int, int, int, int] = (24, 96, 46, 56)
    as_percent: tuple[bool, bool] = (False, True)
    bands: list[Stroke] = field(default_factory=list)
    lines: list[Stroke] = field(default_factory=list)
    rules: list[tuple[float, str]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    top: tuple[str, list[Tick]] | None = None

    def __post_init__(self) -> None:
        above, right, below, left = self.margins
        self.across = Scale(*self.x, left, self.width - right)
        self.up = Scale(*self.y, self.height - below, above)
        self.left = self.across.start
        self.right = self.across.stop
        self.upper = self.up.stop
        self.lower = self.up.start
        width = self.right - self.left
        self._n_ticks = max(4, round(width / 60))
        x_as_percent, y_as_percent = self.as_percent
        self.x_ticks = _ticks(self.across, x_as_percent, self._n_ticks)
        self.y_ticks = _ticks(self.up, y_as_percent, 5)

    def _path(self, points: list[tuple[float, float]]) -> str:
        """Return the SVG path through points given as values."""
        corners: list[tuple[float, float]] = []
        for x, y in points:
            position = (self.across.at(x), self.up.at(y))
            # A straight step is drawn from its two ends.
            if len(corners) > 1 and _is_on_step(corners[-2], corners[-1], position):
                corners.pop()
            if not corners or corners[-1] != position:
                corners.append(position)
        start_x, start_y = corners[0]
        path = f"M{start_x:g} {start_y:g}"
        for (x, y), (next_x, next_y) in pairwise(corners):
            path += _move(next_x - x, next_y - y)
        return path

    def line(self, xs: Values, ys: Values, kind: str, label: str | None = None) -> None:
        """Draw a line; `label` is at its right end, in the margin."""
        points = _finite_points(xs, ys)
        if not points:
            return
        self.lines.append(Stroke(Markup(self._path(points)), kind))
        if label is None:
            return
        _, last_y = points[-1]
        y = self.up.at(last_y) + 4
        for other in self.labels:
            if other.anchor == "start" and abs(other.y - y) < LINE_HEIGHT:
                y = other.y + (LINE_HEIGHT if y >= other.y else -LINE_HEIGHT)
        self.write_beside(round(y, 1), kind, label)

    def write_beside(self, y: float, kind: str, label: str) -> None:
        """Write a label in the right margin, at a height of the picture."""
        self.labels.append(Label(self.right + 7, y, kind, label, "start"))

    def estimates(
        self,
        xs: Values,
        estimates: Sequence[Estimate],
        kind: str,
        label: str | None = None,
    ) -> None:
        """Draw a line through estimates, over the band of their intervals."""
        lows = [estimate.low for estimate in estimates]
        highs = [estimate.high for estimate in estimates]
        self.band(xs, lows, highs, kind)
        self.line(xs, [estimate.value for estimate in estimates], kind, label)

    def band(self, xs: Values, low: Values, high: Values, kind: str) -> None:
        """Shade between two lines (a 95 % interval)."""
        lower = _finite_points(xs, low)
        upper = _finite_points(xs, high)
        if lower and upper:
            outline = self._path(upper + lower[::-1]) + "Z"
            self.bands.append(Stroke(Markup(outline), kind))

    def cells(self, xs: Values, ys: Values, where: np.ndarray, kind: str) -> None:
        """Fill the cells of a grid around values, where a mask is True.

        Parameters
        ----------
        xs, ys : ndarray of shape (n_x,), (n_y,)
            Evenly spaced, from one end of the axis to the other.
        where : bool ndarray of shape (n_x, n_y)
        kind : str
        """
        lefts = np.linspace(self.left, self.right, len(xs) + 1)
        tops = np.linspace(self.lower, self.upper, len(ys) + 1)
        width = lefts[1] - lefts[0]
        height = tops[1] - tops[0]
        path = ""
        for i, j in np.argwhere(where):
            path += (
                f"M{lefts[i]:.1f} {tops[j]:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
            )
        if path:
            self.bands.append(Stroke(Markup(path), kind))

    def upright(self, value: float, kind: str, label: str) -> None:
        """Draw a vertical line at `value`, labelled on the side that has room."""
        x = self.across.at(value)
        self.rules.append((x, kind))
        middle = round((self.upper + self.lower) / 2, 1)
        if x < (self.left + self.right) / 2:
            text = Label(x + 6, middle, kind, label, "begin")
        else:
            text = Label(x - 6, middle, kind, label, "end")
        for other in self.labels:
            if text.overlaps(other):
                below = round(other.y + LINE_HEIGHT + 1, 1)
                text = replace(text, y=min(below, self.lower - 6))
        self.labels.append(text)

    def mark(
        self, x: float, y: float, kind: str, label: str = "", side: str = "begin"
    ) -> None:
        """Draw one point, with a label beside it if there is one."""
        self.marks.append(Mark(self.across.at(x), self.up.at(y), kind))
        if label:
            self.note(x, y, kind, label, side)

    def note(
        self, x: float, y: float, kind: str, label: str, side: str = "begin"
    ) -> None:
        """Write a label right of a point (`side` "begin") or left of it ("end").

        Without room to the right, it is below the point.
        """
        point_x = self.across.at(x)
        point_y = self.up.at(y)
        furthest = round(self.width - LETTER_WIDTH * len(label), 1)
        if side == "end":
            label_x = point_x - 9
            label_y = point_y + 16
        else:
            label_x = min(point_x + 9, furthest)
            label_y = point_y + (16 if point_x + 9 <= furthest else 26)
        for other in self.labels:
            if other.anchor != side or abs(other.y - label_y) >= LINE_HEIGHT:
                continue
            width = LETTER_WIDTH * max(len(label), len(other.text))
            if abs(other.x - label_x) < width:
                label_y = other.y + LINE_HEIGHT + 1
        label_y = min(label_y, self.lower - 6)
        self.labels.append(Label(label_x, label_y, kind, label, side))

    def second_axis(self, label: str, text_at: Callable[[float], str]) -> None:
        """Put an axis above the plot, with `text_at(value)` at each tick."""
        values = self.across.ticks(self._n_ticks)
        ticks = [Tick(self.across.at(value), text_at(value)) for value in values]
        self.top = (label, ticks)


def _finite_points(xs: Values, ys: Values) -> list[tuple[float, float]]:
    """Return the points with two finite coordinates."""
    points = np.column_stack([np.array(xs, float), np.array(ys, float)])
    return list(map(tuple, points[np.isfinite(points).all(axis=1)].tolist()))


def _move(right: float, down: float) -> str:
    """Return a move of the pen in SVG's shortest form; positions are whole tenths."""
    x = f"{round(right, 1):g}"
    y = f"{round(down, 1):g}"
    if x == "0":
        return f"v{y}"
    if y == "0":
        return f"h{x}"
    return f"l{x} {y}"


def _is_on_step(
    first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]
) -> bool:
    """Return True if `middle` lies on an upright or level line between the others."""
    xs, ys = zip(first, middle, last, strict=True)
    is_in_order = sorted(xs)[1] == middle[0] and sorted(ys)[1] == middle[1]
    return is_in_order and (len(set(xs)) == 1 or len(set(ys)) == 1)


def _ticks(scale: Scale, as_percent: bool, about: int) -> list[Tick]:
    """Return ticks, with labels of just enough decimals to differ."""
    values = scale.ticks(about)
    factor = 100 if as_percent else 1
    unit = "%" if as_percent else ""
    if len(values) > 1:
        step = factor * abs(values[1] - values[0])
    else:
        step = factor * abs(values[0]) or 1
    magnitude = math.floor(math.log10(step) + 1e-9)
    places = min(9, max(0, -magnitude))
    return [
        Tick(scale.at(value), f"{fmt.fixed(factor * value, places)}{unit}")
        for value in values
    ]
