"""Pictures of a comparison: curves on one axis, paired differences, critical differences of mean ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from screening.documents.beside import Difference
from screening.documents.comparison import FigureRanks, MethodFacts, RankedMethod
from screening.page import format as shown
from screening.page.charts import Axes, Label, Tick

MOST_CURVES = 8
"""Curves on one axis that an eye can still tell apart; there are as many kinds of line."""


@dataclass(frozen=True)
class Legend:
    """Which kind of line is whose, and the area below it."""

    kind: str
    name: str
    area: str


@dataclass
class Curves(Axes):
    """The curves of several methods on one axis; so many had no room."""

    legend: list[Legend] = field(default_factory=list)
    left_out: int = 0


@dataclass(frozen=True)
class Titled:
    """A chart that stands below a title of its own."""

    title: str
    chart: Axes


def roc(methods: Sequence[MethodFacts], number: int, first: str) -> Curves:
    """All methods on one axis: the control, and the best of the others by the first figure."""

    def place(method: MethodFacts) -> tuple[bool, float]:
        value = method.figures[first].value
        return not method.control, 1.0 if value is None else -value

    ordered = sorted(methods, key=place)[:MOST_CURVES]
    axes = Curves(
        f"roc-{number}",
        "Sensitivity against 1 − specificity of the methods",
        "; ".join(
            f"{shown.name(m.recipe)}: area {shown.fixed(m.figures['auroc'].value, 3)}" for m in ordered
        ),
        (0, 1),
        (0, 1),
        "1 − specificity",
        "sensitivity",
        width=470,
        height=440,
        margins=(14, 14, 46, 56),
        as_percent=(True, True),
        left_out=len(methods) - len(ordered),
    )
    axes.line([0, 1], [0, 1], "chance")
    for i, method in enumerate(ordered):
        curve = method.curve
        grid = [j / max(len(curve) - 1, 1) for j in range(len(curve))]
        # A step up at each sensitivity that is reached, as the curve of finitely many cases is.
        axes.line([x for x in curve for _ in "ab"][1:], [y for y in grid for _ in "ab"][:-1], f"m{i}")
        area = shown.fixed(method.figures["auroc"].value, 3)
        axes.legend.append(Legend(f"m{i}", shown.name(method.recipe), area))
    return axes


def differences(methods: Sequence[MethodFacts], name: str, number: int, words: str) -> Titled:
    """A line a method: the difference from the control with its interval, and a rule at no difference."""
    found = [(m, m.differences[name]) for m in methods if m.differences is not None]
    ends = [abs(end) for _, d in found for end in (d.low, d.difference, d.high) if end is not None]
    reach = max(ends or [0.01]) * 1.05 or 0.01
    axes = Axes(
        f"difference-{number}-{name}".replace("_", "-"),
        f"{words}: difference from the control",
        "; ".join(f"{shown.name(m.recipe)} {_in_points(d)} points" for m, d in found),
        (-100 * reach, 100 * reach),
        (0, len(found)),
        "points better than the control",
        "",
        width=660,
        height=66 + 24 * len(found),
        margins=(10, 150, 46, 190),
    )
    axes.y_ticks = []
    for i, (method, gap) in enumerate(found):
        y = len(found) - i - 0.5
        axes.y_ticks.append(Tick(axes.up.at(y), shown.name(method.recipe)))
        if gap.difference is None:
            continue
        if gap.low is not None and gap.high is not None:
            axes.line([100 * gap.low, 100 * gap.high], [y, y], "first")
        axes.dot(100 * gap.difference, y, "validated")
        axes.labels.append(Label(axes.right + 7, axes.up.at(y) + 4, "plain", _in_points(gap), "start"))
    axes.line([0, 0], [0, len(found)], "chance")
    return Titled(words, axes)


def _in_points(gap: Difference) -> str:
    return f"{shown.points(gap.difference)} ({shown.points(gap.low)} to {shown.points(gap.high)})"


def critical_difference(name: str, words: str, ordered: Sequence[RankedMethod], found: FigureRanks) -> Axes:
    """Mean ranks on a line, best at the left; bars join methods that the data cannot tell apart."""
    cliques, distance, rows = found.cliques, found.critical_difference, len(ordered)
    axes = Axes(
        f"ranks-{name}".replace("_", "-"),
        f"Mean ranks by {words}",
        f"Best first: {', '.join(shown.name(m.recipe) for m in ordered)}. Ranks less than "
        f"{shown.fixed(distance, 2)} apart cannot be told apart (Nemenyi, 5%).",
        (1, max(rows, 2)),
        (0, rows + 0.6 * len(cliques) + 2),
        "mean rank (1 is best)",
        "",
        width=660,
        height=104 + 22 * rows + 13 * len(cliques),
        margins=(14, 60, 46, 190),
    )
    top = axes.up.high
    axes.y_ticks = []
    for i, method in enumerate(ordered):
        y, rank = rows - i - 0.5, method.mean_rank
        axes.line([rank, rank], [y, rows], "stem")
        axes.dot(rank, y, "validated")
        axes.y_ticks.append(Tick(axes.up.at(y), shown.name(method.recipe)))
    for i, (low, high) in enumerate(cliques):
        y = rows + 0.4 + 0.6 * i
        axes.line([low, high], [y, y], "clique")
    axes.line([1, 1 + distance], [top - 0.8, top - 0.8], "first")
    words = f"critical difference {shown.fixed(distance, 2)}"
    axes.labels.append(Label(axes.left, axes.up.at(top - 0.8) - 6, "first", words, "start"))
    return axes
