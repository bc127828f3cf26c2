"""Draw what each method does to a plane: c(x), how far it magnifies, and the boundary
before and after.

Used by `python docs/methods.py`; needs matplotlib (extra `docs`). The rows are made,
the machines are real.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from screening.recipes.building import build
from screening.recipes.recipe import Recipe

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import CenteredNorm, LogNorm

SIDE = 140
C, NU = 10.0, 0.1
GAMMA = {"gaussian": 2.0, "laplacian": 1.0}
# Okabe and Ito's colours, which colour-blind readers tell apart; marks differ as well.
COLOURS, MARKS = ("#0072B2", "#D55E00", "#009E73"), ("o", "^", "s")
# Below a thousandth of its largest c is as good as nothing.
FAINTEST = 1e-3
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "figure.dpi": 110,
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Plane:
    """Made rows of the plane, their classes (0 the largest), and a grid over them."""

    rows: np.ndarray
    codes: np.ndarray

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.rows.min(axis=0) - 0.5, self.rows.max(axis=0) + 0.5
        return np.linspace(low[0], high[0], SIDE), np.linspace(low[1], high[1], SIDE)

    @property
    def grid(self) -> np.ndarray:
        """(SIDE^2, 2), row by row from below."""
        across, up = np.meshgrid(*self.axes)
        return np.column_stack([across.ravel(), up.ravel()])


def two_classes() -> Plane:
    """Two half moons that overlap, 200 rows against 30."""
    rng = np.random.default_rng(7)
    turn = [rng.uniform(0, np.pi, n) for n in (200, 30)]
    rows = [np.column_stack([np.cos(turn[0]), np.sin(turn[0])])]
    rows.append(np.column_stack([1 - np.cos(turn[1]), 0.5 - np.sin(turn[1])]))
    noise = rng.normal(scale=0.25, size=(230, 2))
    return Plane(np.concatenate(rows) + noise, np.repeat([0, 1], [200, 30]))


def three_classes() -> Plane:
    """Three clouds that overlap, 150, 40 and 15 rows."""
    rng = np.random.default_rng(3)
    sizes, centres = [150, 40, 15], np.array([[0.0, 0.0], [1.6, 0.3], [0.9, 1.5]])
    codes = np.repeat([0, 1, 2], sizes)
    return Plane(
        centres[codes] + rng.normal(scale=[0.75, 0.6], size=(sum(sizes), 2)), codes
    )


def drawn(recipe: Recipe, target: Path) -> None:
    """Write the picture of one recipe."""
    plane = three_classes() if recipe.machine == "multi_class" else two_classes()
    before, after = fitted(plane, recipe)
    with plt.rc_context(STYLE):
        if recipe.factor:
            figure = with_factor(plane, recipe, before, after)
        else:
            figure = without_factor(plane, before, after)
        figure.savefig(target, metadata={"Software": None})
        plt.close(figure)


def fitted(plane: Plane, recipe: Recipe) -> tuple[Any, Any]:
    """The machine that the method starts from, and the method itself, of the same C
    (nu) and gamma.
    """
    settings = {
        "C": C,
        "nu": NU,
        "gamma": GAMMA.get(recipe.kernel.get("type", ""), 2.0),
        "kernel": recipe.kernel.get("type"),
    }
    own = {
        name: value
        for name, value in settings.items()
        if name in recipe.parameters and recipe.kernel
    }
    rows, codes = plane.rows, plane.codes
    if recipe.machine == "one_class":
        rows, codes = rows[codes == 0], np.zeros(int((codes == 0).sum()), int)
    after = build(recipe, **own).fit(rows, codes)
    if recipe.factor:
        return build(recipe, **own | {"passes": 0}).fit(rows, codes), after
    plain = {"one_class": "one_class", "multi_class": "one_vs_rest"}.get(
        recipe.machine, "svm"
    )
    given: dict[str, object] = {"C": C}
    if plain == "one_class":
        given = {"nu": NU, "kernel": "gaussian"}
    return build(plain, gamma=GAMMA["gaussian"], **given).fit(rows, codes), after


def heights(machine: Any, plane: Plane) -> list[np.ma.MaskedArray]:
    """What is 0 on the machine's boundaries, (SIDE, SIDE) of two classes, of each pair
    of several.
    """
    if hasattr(machine, "decision_function"):
        values = machine.decision_function(plane.grid)
    else:
        values = machine.predict_proba(plane.grid)[:, 1] - 0.5
    if values.ndim == 1:
        return [np.ma.asarray(values.reshape(SIDE, SIDE))]
    top = values.max(axis=1)
    # Two classes have a boundary where no third one is ahead of both.
    pairs = [
        np.ma.masked_where(
            np.maximum(values[:, a], values[:, b]) < top, values[:, a] - values[:, b]
        )
        for a, b in combinations(range(values.shape[1]), 2)
    ]
    return [pair.reshape(SIDE, SIDE) for pair in pairs]


def boundary(
    axes: Any, machine: Any, plane: Plane, line: str, colour: str = "black"
) -> None:
    for one in heights(machine, plane):
        axes.contour(
            *plane.axes,
            one,
            levels=[0.0],
            colors=colour,
            linestyles=line,
            linewidths=1.4,
        )


def points(axes: Any, plane: Plane, size: float) -> None:
    for code in np.unique(plane.codes):
        rows = plane.rows[plane.codes == code]
        style = {
            "color": COLOURS[code],
            "marker": MARKS[code],
            "edgecolor": "white",
            "linewidth": 0.4,
        }
        axes.scatter(*rows.T, s=size, **style)
    axes.set(xticks=[], yticks=[], aspect="equal")


def legend(axes: Any, lines: dict[str, str]) -> None:
    for words, line in lines.items():
        axes.plot([], [], color="black", linestyle=line, label=words)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.02),
        ncols=2,
        fontsize=8,
        frameon=False,
    )


def with_factor(plane: Plane, recipe: Recipe, before: Any, after: Any) -> Any:
    """Three panels: c, how much a small step is lengthened, the two boundaries."""
    c = after.factor_at(plane.grid)[:, -1].reshape(SIDE, SIDE)
    at_rows = after.factor_at(plane.rows)[:, -1]
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.3), layout="constrained")
    norm = LogNorm(max(c.min(), c.max() * FAINTEST), c.max())
    shades = panels[0].pcolormesh(
        *plane.axes,
        np.maximum(c, norm.vmin),
        norm=norm,
        cmap="viridis",
        rasterized=True,
    )
    figure.colorbar(shades, ax=panels[0], shrink=0.85)
    own = " of the rarest class" if after.factor_at(plane.rows[:1]).shape[1] > 1 else ""
    panels[0].set_title(f"c(x){own}")
    boundary(panels[0], before, plane, "dashed", "white")

    longer = magnification(plane, c, recipe, float(np.median(at_rows)))
    shades = panels[1].pcolormesh(
        *plane.axes, longer, norm=CenteredNorm(0.0), cmap="RdBu_r", rasterized=True
    )
    figure.colorbar(shades, ax=panels[1], shrink=0.85)
    panels[1].set_title("Magnification of lengths, log10")
    boundary(panels[1], before, plane, "dashed")
    points(panels[0], plane, 5)
    points(panels[1], plane, 5)

    panels[2].set_title("Boundary before and after")
    points(panels[2], plane, 16)
    boundary(panels[2], before, plane, "dashed")
    boundary(panels[2], after, plane, "solid")
    legend(panels[2], {"first machine": "dashed", "second machine": "solid"})
    return figure


def magnification(
    plane: Plane, c: np.ndarray, recipe: Recipe, usual: float
) -> np.ndarray:
    """log10 of how much longer a small step is under K~ than under K, c being 1 where
    it is ``usual``.

    The Gaussian kernel's metric is 2 gamma on the diagonal, that of K~ is c^2 times
    that plus the outer product of c's gradient: its area element is c^2 sqrt(1 + |grad
    log c|^2 / (2 gamma)), and a length is the root of it. The Laplacian has no metric;
    |Phi(x + dx) - Phi(x)|^2 is 2 gamma c^2 |dx| to first order, a length c.
    """
    log_c = np.log(np.maximum(c / usual, FAINTEST))
    if recipe.kernel["type"] == "laplacian":
        return log_c / np.log(10.0)
    across, up = plane.axes
    slope = np.gradient(log_c, up, across)
    steep = np.square(slope[0]) + np.square(slope[1])
    return (log_c + np.log1p(steep / (2.0 * GAMMA["gaussian"])) / 4.0) / np.log(10.0)


def without_factor(plane: Plane, before: Any, after: Any) -> Any:
    """One panel: the plain machine's boundary and the method's own."""
    figure, axes = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
    points(axes, plane, 18)
    boundary(axes, before, plane, "dashed")
    boundary(axes, after, plane, "solid")
    legend(axes, {"plain machine": "dashed", "this method": "solid"})
    return figure
