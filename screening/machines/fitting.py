"""First pass, factor, second pass: the one loop every machine trains by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from screening.factors.base import Factor
from screening.kernels import Scale, shared
from screening.kernels.base import Kernel
from screening.machines.basis import Basis
from screening.machines.first_pass import Stage, log_factors_at
from screening.machines.passes import Dual, Pass, Passes
from screening.solvers.kernel_rows import Gram


def fit_passes(
    kernel: Kernel,
    rows: np.ndarray,
    gram: Gram,
    labels: np.ndarray,
    class_counts: np.ndarray,
    solve: Callable[[Sequence[np.ndarray]], list[Dual]],
    factors: Sequence[Factor | None],
    n_passes: int,
    normalise: bool,
    name: Hashable = None,
) -> list[Passes]:
    """Train, build c from what was learned, train again: ``n_passes`` times, for each of several factors.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    rows : ndarray of shape (n_rows, n_features)
    gram : ndarray of shape (n_rows, n_rows)
        K over ``rows``; never changed.
    labels : ndarray of shape (n_rows, n_outputs)
    solve : callable
        From several c, each (n_rows, 1) or (n_rows, n_outputs), to the Duals of K~.
    factors : sequence of Factor or None
        On one first pass; equal but for fields that they let vary, where they are several.
    n_passes : int
        Number of rescalings; 0 is the plain machine.
    normalise : bool
        Divide each factor by its root mean square over the training rows.
    name : hashable, optional
        Of what ``solve`` does: where fits share these rows, those of one name share their first pass too.
    """
    with shared.over(rows) as here:
        here.keep(kernel, gram)
        plain = None if name is None else here.solutions_on(gram)
        first = None if plain is None else plain.get(("first", name))
        if first is None:
            ones = np.ones((len(rows), 1))
            one = Pass(solve([ones])[0], labels, ones)
            first = Stage(
                Basis(kernel, rows, gram), one, None, None, class_counts, rows, np.arange(len(rows))
            )
            if plain is not None:
                plain["first", name] = first
        stages = [first.under(factor) for factor in factors]
        for _ in range(n_passes if factors[0] is not None else 0):
            stages = _next(stages, solve, normalise)
        machines = [_passes(stage, factor) for stage, factor in zip(stages, factors, strict=True)]
        here.trained(
            kernel, [(each.rows, last.previous) for each, last in zip(machines, stages, strict=True)]
        )
        return machines


def _next(
    stages: list[Stage], solve: Callable[[Sequence[np.ndarray]], list[Dual]], normalise: bool
) -> list[Stage]:
    """The pass that follows each of these, which get their factors."""
    remembered = [stage.learn() for stage in stages]
    factors = []
    for stage, kept, now in zip(stages, remembered, log_factors_at(stages, stages[0].rows), strict=True):
        before = np.log(stage.one.c)
        scale = Scale.over(before, now, normalise)
        stage.one = replace(stage.one, scale=scale, remembered=kept)
        factors.append(np.exp(scale.added(before, now)))
    return [
        stage.followed_by(Pass(dual, stage.one.labels, c))
        for stage, dual, c in zip(stages, solve(factors), factors, strict=True)
    ]


def _passes(last: Stage, factor: Factor | None) -> Passes:
    """All passes up to the last one, on the union of their support vectors."""
    chain: list[Pass] = []
    stage: Stage | None = last
    while stage is not None:
        chain.insert(0, stage.one)
        stage = stage.previous
    kept = np.flatnonzero(np.any([np.any(one.dual.weights != 0, axis=1) for one in chain], axis=0))
    taken = tuple(one.take(kept) for one in chain)
    return Passes(last.kernel, last.rows[kept], kept, taken, factor, last.class_counts)
