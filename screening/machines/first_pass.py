"""A trained pass as factors see it: decisions, support vectors and distances under the current kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from screening.factors.base import Factor
from screening.kernels import input_distances, kernel_cache, pairwise, rescaled_distances
from screening.kernels.base import Kernel
from screening.kernels.neighbors import Neighbors, neighbors, neighbors_in
from screening.machines.kernel_sums import Basis, Key
from screening.machines.training import Pass

# Sums of bumps are told apart down to this share of the highest bump; c ends a long way above.
TINY_SUM = 1e-25

Made = TypeVar("Made")


class Stage:
    """One pass over a basis with the passes before it: the ``JointFirstPass`` of factors.

    Made anew for every block of rows to score, so that what it keeps never outlives the call.
    """

    def __init__(
        self, basis: Basis, one: Pass, previous: Stage | None, factor: Factor | None,
        class_counts: np.ndarray, rows: np.ndarray, places: np.ndarray, number: int = 0,
    ) -> None:  # fmt: skip
        self.basis = basis
        self.rows = rows
        self.places = places  # of the rows in the basis
        self.key: Key = (number, -1)
        self.one = one
        self.previous = previous
        self._factor = factor
        self.class_counts = class_counts
        self._kept: dict[tuple[Hashable, bool], tuple[np.ndarray, Any]] = {}
        self._supports: dict[int, np.ndarray] = {}
        self._remembered: tuple[dict[str, np.ndarray], ...] = one.remembered

    @property
    def outputs(self) -> list[Output]:
        """Made when asked for: kept, they would hold the stage, and it the rows it was asked about."""
        return [Output(self, m) for m in range(self.one.dual.weights.shape[1])]

    def support(self, m: int) -> np.ndarray:
        """Row numbers of the support vectors of an output."""
        if m not in self._supports:
            self._supports[m] = np.flatnonzero(self.one.dual.weights[:, m])
        return self._supports[m]

    def under(self, factor: Factor | None) -> Stage:
        """The same pass for another factor; what is kept of it serves both."""
        other = copy(self)
        other._factor = factor
        return other

    def followed_by(self, one: Pass) -> Stage:
        """The pass after it, of which this one's factor is a part of c."""
        return Stage(self.basis, one, self, self._factor, self.class_counts, self.rows, self.places)

    @property
    def factor(self) -> Factor:
        """Which only a pass has that another follows."""
        assert self._factor is not None
        return self._factor

    def keep(self, what: Hashable, x: np.ndarray, make: Callable[[], Made]) -> Made:
        """What was made for the rows of x: for the training rows, and for the others asked about last."""
        place = (what, x is self.rows)
        known = self._kept.get(place)
        if known is None or known[0] is not x:
            known = self._kept[place] = (x, make())
        made: Made = known[1]
        return made

    def c(self, x: np.ndarray) -> np.ndarray:
        """Product of the factors of all passes before, (n, 1) or (n, n_outputs)."""
        if x is self.rows:
            return self.one.c
        if self.previous is None:
            return np.ones((len(x), 1))
        before = self.previous
        return self.keep("c", x, lambda: c_after([before], x)[0])

    def log_factor_at(self, x: np.ndarray) -> np.ndarray:
        """log of this pass's own factor, as the factor has it, (n, 1) or (n, n_outputs)."""
        if self.factor.scope == "joint":
            return _columns(self.factor.log_at(x, self))
        return np.column_stack([self.factor.log_at(x, output) for output in self.outputs])

    def same_pass(self, other: Stage) -> bool:
        """Whether the other is this pass, if for another factor."""
        return self._kept is other._kept

    def learn(self) -> tuple[dict[str, np.ndarray], ...]:
        """Have the factor take its parameters from the training rows."""
        asked: list[Stage] | list[Output] = [self] if self.factor.scope == "joint" else list(self.outputs)
        self._remembered = tuple(
            {key: np.asarray(value) for key, value in self.factor.parameters(each).items()} for each in asked
        )
        return self._remembered

    def remembered(self, factor: Factor, output: int = 0) -> dict[str, np.ndarray]:
        return self._remembered[output]

    def decisions(self, x: np.ndarray) -> np.ndarray:
        return self.keep("decisions", x, lambda: self._decisions(x))

    def _decisions(self, x: np.ndarray) -> np.ndarray:
        known = self.basis.sum_at(x, self.key)
        sums = self.basis.times(x, self.one.coefficients) if known is None else known
        return sums * self.c(x) + self.one.dual.intercept

    def bumps(self) -> Iterator[tuple[int, np.ndarray, tuple[np.ndarray, np.ndarray, int]]]:
        """Of every output whose factor is a sum of bumps: its number, places in the basis, and the bumps."""
        for m, output in enumerate(self.outputs):
            bumps = self.factor.bumps(output) if hasattr(self.factor, "bumps") else None
            if bumps is not None:
                rates, heights, norm = bumps
                yield m, output.places, (np.broadcast_to(rates, heights.shape), heights, norm)

    def predicted(self, x: np.ndarray) -> np.ndarray:
        """Class number with the largest decision; of one decision, its sign."""
        decisions = self.decisions(x)
        return (decisions[:, 0] > 0).astype(int) if decisions.shape[1] == 1 else decisions.argmax(axis=1)

    @property
    def kernel(self) -> Kernel:
        return self.basis.kernel

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    @property
    def largest_distance(self) -> float:
        with kernel_cache.over(self.rows) as here:
            return here.largest_distance


def log_factors_at(stages: Sequence[Stage], x: np.ndarray) -> list[np.ndarray]:
    """Each stage's ``log_factor_at``, at once where they are one pass and their factors know how."""
    first = stages[0]
    at_once = getattr(first.factor, "log_each", None)
    if at_once is None or not all(each.same_pass(first) for each in stages):
        return [each.log_factor_at(x) for each in stages]
    return [_columns(log_c) for log_c in at_once(x, first, [each.remembered(each.factor) for each in stages])]


def c_after(stages: Sequence[Stage], x: np.ndarray) -> list[np.ndarray]:
    """c of the pass that follows each of the stages, at the rows of x."""
    c = []
    for each, now in zip(stages, log_factors_at(stages, x), strict=True):
        assert each.one.scale is not None
        c.append(np.exp(each.one.scale.added(np.log(each.c(x)), now)))
    return c


def _columns(log_c: np.ndarray) -> np.ndarray:
    log_c = np.asarray(log_c)
    return log_c[:, None] if log_c.ndim == 1 else log_c


class Output:
    """One decision function of a pass: the ``FirstPass`` of factors."""

    def __init__(self, stage: Stage, m: int) -> None:
        self._stage = stage
        self._m = m
        self._at = stage.support(m)

    @property
    def places(self) -> np.ndarray:
        """Of the support vectors in the basis."""
        return self._stage.places[self._at]

    def _c(self, c: np.ndarray) -> np.ndarray:
        return c[:, self._m if c.shape[1] > 1 else 0]

    @property
    def rows(self) -> np.ndarray:
        return self._stage.rows

    @property
    def labels(self) -> np.ndarray:
        return self._stage.one.labels[:, self._m]

    @property
    def class_counts(self) -> np.ndarray:
        return np.array([(self.labels < 0).sum(), (self.labels > 0).sum()])

    @property
    def support_vectors(self) -> np.ndarray:
        return self.rows[self._at]

    @property
    def support_labels(self) -> np.ndarray:
        return self.labels[self._at]

    @property
    def support_decision(self) -> np.ndarray:
        return self.decision(self.rows)[self._at]

    @property
    def alphas(self) -> np.ndarray:
        return np.abs(self._stage.one.dual.weights[self._at, self._m])

    @property
    def margin(self) -> np.ndarray:
        return self._stage.one.dual.margin[self._at, self._m]

    @property
    def max_decision(self) -> float:
        return float(np.abs(self.decision(self.rows)[self.labels != 0]).max())

    @property
    def largest_distance(self) -> float:
        return self._stage.largest_distance

    @property
    def n_features(self) -> int:
        return self._stage.n_features

    @property
    def kernel(self) -> Kernel:
        return self._stage.kernel

    def decision(self, x: np.ndarray) -> np.ndarray:
        return self._stage.decisions(x)[:, self._m]

    def feature_distances(self, x: np.ndarray) -> np.ndarray:
        return self._distances(self._stage.basis.columns(x, self.places), self._c(self._stage.c(x)), x)

    def near(
        self, x: np.ndarray, mine: np.ndarray, sides: np.ndarray, reaches: Sequence[float] | None
    ) -> Neighbors:
        labels, held = self.support_labels, self._stage.basis.held(x)
        looked = np.ones(len(labels), bool)
        if reaches is not None:  # then a side at which no row looks says nothing
            looked = np.isin(labels, sides)
        c_x, c = self._both_c(x, mine)
        told = (c_x, c[looked], labels[looked], sides, reaches)
        if held is not None and held.dtype == np.float64:
            return neighbors_in(held, self.places[looked], mine, *told)
        return neighbors(self.kernel, x[mine], self.support_vectors[looked], *told)

    def mean_distance(self, x: np.ndarray, mine: np.ndarray) -> np.ndarray:
        c_x, c = self._both_c(x, mine)
        weights = np.zeros((len(self._stage.basis.rows), 1))
        weights[self.places, 0] = c / len(c)
        across = c_x * self._stage.basis.times(x[mine], weights)[:, 0]
        own = np.square(c_x) * self.kernel.diagonal(x[mine])
        there = np.mean(np.square(c) * self.kernel.diagonal(self.support_vectors))
        return np.maximum(own + there - 2.0 * across, 0.0)

    def _both_c(self, x: np.ndarray, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._c(self._stage.c(x))[mine], self._c(self._stage.one.c)[self._at]

    def support_distances(self) -> np.ndarray:
        gram = self._stage.basis.among(self.places)
        return self._distances(gram, self._c(self._stage.one.c)[self._at], self.support_vectors)

    def _distances(self, gram: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
        own, diagonal = self._c(self._stage.one.c)[self._at], self.kernel.diagonal
        return rescaled_distances(gram, c, own, diagonal(x), diagonal(self.support_vectors))

    def input_distances(self, x: np.ndarray, norm: int = 2) -> np.ndarray:
        return input_distances(x, self.support_vectors, norm)

    def log_bump_sum(
        self, x: np.ndarray, rates: np.ndarray, heights: np.ndarray, norm: int = 2
    ) -> np.ndarray:
        heights = np.asarray(heights, float)
        known = self._stage.basis.sum_at(x, (self._stage.key[0], self._m))
        total = self._bump_sum(x, rates, heights, norm) if known is None else known[:, 0]
        # What lies further below the highest bump is below the floor of c, whatever it is exactly.
        return np.log(np.maximum(total, max(TINY_SUM * heights.max(initial=0.0), np.finfo(float).tiny)))

    def _bump_sum(self, x: np.ndarray, rates: np.ndarray, heights: np.ndarray, norm: int) -> np.ndarray:
        used = np.flatnonzero(heights)
        centres, rates = self.support_vectors[used], np.broadcast_to(rates, heights.shape)[used]
        dtype = pairwise.precise_bumps(norm, centres, rates)
        return pairwise.weighted_sums(norm, x, centres, [(rates, heights[used, None])], dtype=dtype)[0][:, 0]

    def remembered(self, factor: Factor) -> dict[str, np.ndarray]:
        return self._stage.remembered(factor, self._m)
