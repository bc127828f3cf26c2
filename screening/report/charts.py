"""One axis-and-scale helper that serves every chart; the template only writes down what it computed.

Coordinates are those of the SVG's view box. Kinds (`first`, `second`, `chance`, ...) become CSS classes, and
each kind has its own dash or shape as well as its colour, so that no difference lies in colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from screening.report import format as fmt

# About the width of a letter of a label, a little too wide rather than too narrow.
LETTER = 7.6
Values = Sequence[float | None] | np.ndarray


@dataclass(frozen=True)
class Scale:
    """A linear map from values [low, high] to positions [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the position of `value`, held inside the plot and rounded to a tenth of a unit."""
        span = self.high - self.low
        share = (value - self.low) / span if span > 0 else 0.5
        return round(
            self.start + min(1.0, max(0.0, share)) * (self.stop - self.start), 1
        )

    def ticks(self, about: int = 6) -> list[float]:
        """Return round values (steps of 1, 2 or 5) inside the scale, about as many as asked for."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        rough = span / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next(m for m in (1, 2, 5, 10) if rough <= m * power * 1.0001)
        first, last = (
            math.ceil(self.low / step - 1e-9),
            math.floor(self.high / step + 1e-9),
        )
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and what stands there."""

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
    """Words beside what they name; `anchor` says which side of the place they lie on."""

    x: float
    y: float
    kind: str
    text: str
    anchor: str

    def covers(self, other: Label) -> bool:
        """Whether the words of both would lie on each other."""
        (left, right), (begin, end) = (
            sorted(
                (
                    label.x,
                    label.x
                    + LETTER * len(label.text) * (-1 if label.anchor == "end" else 1),
                )
            )
            for label in (self, other)
        )
        return abs(self.y - other.y) < 15 and left < end and begin < right


@dataclass
class Axes:
    """A chart: two scales, and what lies on them. The template writes down what stands here.

    `name` is unique on the page: it prefixes the ids that tie the picture to its text alternative. That is
    written by the template, or is `title` and `description` where a chart's data decide on the words. `x` and
    `y` are the ranges of values on the axes.
    """

    name: str
    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
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
        self.left, self.right = self.across.start, self.across.stop
        self.upper, self.lower = self.up.stop, self.up.start
        self._about = max(4, round((self.right - self.left) / 60))
        self.x_ticks = _ticks(self.across, self.as_percent[0], self._about)
        self.y_ticks = _ticks(self.up, self.as_percent[1], 5)

    def _path(self, points: list[tuple[float, float]]) -> str:
        kept: list[tuple[float, float]] = []
        for x, y in points:
            place = self.across.at(x), self.up.at(y)
            # A step of a curve is known from its two ends.
            if len(kept) > 1 and (
                _level(kept[-2], kept[-1], place, 0)
                or _level(kept[-2], kept[-1], place, 1)
            ):
                kept.pop()
            if not kept or kept[-1] != place:
                kept.append(place)
        steps = (_step(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(kept))
        return f"M{kept[0][0]:g} {kept[0][1]:g}" + "".join(steps)

    def line(self, xs: Values, ys: Values, kind: str, label: str | None = None) -> None:
        """Draw a line; `label` stands at its right end, in the margin."""
        points = _drawable(xs, ys)
        if not points:
            return
        self.lines.append(Stroke(Markup(self._path(points)), kind))
        if label:
            y = self.up.at(points[-1][1]) + 4
            for other in self.labels:
                if other.anchor == "start" and abs(other.y - y) < 15:
                    y = other.y + (15 if y >= other.y else -15)
            self.labels.append(Label(self.right + 7, round(y, 1), kind, label, "start"))

    def band(self, xs: Values, low: Values, high: Values, kind: str) -> None:
        """Shade between two lines (a 95 % interval)."""
        under, over = _drawable(xs, low), _drawable(xs, high)
        if under and over:
            self.bands.append(
                Stroke(Markup(self._path(over + under[::-1]) + "Z"), kind)
            )

    def upright(self, value: float, kind: str, label: str) -> None:
        """Draw a vertical rule at `value` with its label beside it, on the side that has room."""
        x = self.across.at(value)
        on_the_right = x < (self.left + self.right) / 2
        self.rules.append((x, kind))
        place, anchor = (x + 6, "begin") if on_the_right else (x - 6, "end")
        beside = Label(
            place, round((self.upper + self.lower) / 2, 1), kind, label, anchor
        )
        for other in self.labels:
            if beside.covers(other):
                beside = replace(beside, y=min(round(other.y + 16, 1), self.lower - 6))
        self.labels.append(beside)

    def dot(self, x: float, y: float, kind: str) -> None:
        """Draw one point."""
        self.marks.append(Mark(self.across.at(x), self.up.at(y), kind))

    def mark(
        self, x: float, y: float, kind: str, label: str, side: str = "begin"
    ) -> None:
        """Draw one point with a label beside it."""
        self.dot(x, y, kind)
        self.note(x, y, kind, label, side)

    def note(
        self, x: float, y: float, kind: str, label: str, side: str = "begin"
    ) -> None:
        """Write a label beside a point; where there is no room, below it as far right as it goes."""
        at_x, at_y = self.across.at(x), self.up.at(y)
        furthest = round(self.width - LETTER * len(label), 1)
        place = min(at_x + 9, furthest) if side == "begin" else at_x - 9
        height = at_y + (16 if at_x + 9 <= furthest or side == "end" else 26)
        for other in self.labels:
            reach = LETTER * max(len(label), len(other.text))
            if (
                other.anchor == side
                and abs(other.y - height) < 15
                and abs(other.x - place) < reach
            ):
                height = other.y + 16
        self.labels.append(Label(place, min(height, self.lower - 6), kind, label, side))

    def second_axis(self, label: str, at: Callable[[float], str]) -> None:
        """Put a second axis above the plot: at each tick of the first, what `at` says."""
        ticks = self.across.ticks(self._about)
        self.top = label, [Tick(self.across.at(value), at(value)) for value in ticks]


def _drawable(xs: Values, ys: Values) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for x, y in zip(xs, ys, strict=False)
        if fmt.finite(x) and fmt.finite(y)
    ]


def _step(right: float, down: float) -> str:
    """A move of the pen in the shortest of SVG's ways; positions are whole tenths, so none drifts."""
    x, y = f"{round(right, 1):g}", f"{round(down, 1):g}"
    return f"v{y}" if x == "0" else f"h{x}" if y == "0" else f"l{x} {y}"


def _level(
    one: tuple[float, float],
    two: tuple[float, float],
    three: tuple[float, float],
    axis: int,
) -> bool:
    """Whether `two` lies between the others on one straight line along an axis."""
    same, other = 1 - axis, axis
    between = (
        min(one[other], three[other]) <= two[other] <= max(one[other], three[other])
    )
    return one[same] == two[same] == three[same] and between


def _ticks(scale: Scale, as_percent: bool, about: int) -> list[Tick]:
    """Ticks whose labels have just enough decimals to tell them apart."""
    values, times, unit = (
        scale.ticks(about),
        100 if as_percent else 1,
        "%" if as_percent else "",
    )
    step = times * (
        abs(values[1] - values[0]) if len(values) > 1 else abs(values[0]) or 1 / times
    )
    places = min(9, max(0, -math.floor(math.log10(step) + 1e-9)))
    return [
        Tick(scale.at(value), f"{fmt.fixed(times * value, places)}{unit}")
        for value in values
    ]
