"""First pass, factor, second pass: the one loop every machine trains by."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np

from screening.factors.base import Factor
from screening.kernels import Scale, shared
from screening.kernels.base import Kernel
from screening.machines.basis import Basis
from screening.machines.first_pass import Stage
from screening.machines.passes import Dual, Pass, Passes
from screening.solvers.kernel_rows import Gram


def fit_passes(
    kernel: Kernel,
    rows: np.ndarray,
    gram: Gram,
    labels: np.ndarray,
    class_counts: np.ndarray,
    solve: Callable[[np.ndarray], Dual],
    factor: Factor | None = None,
    n_passes: int = 0,
    normalise: bool = False,
    name: Hashable = None,
) -> Passes:
    """Train, build c from what was learned, train again: ``n_passes`` times.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    rows : ndarray of shape (n_rows, n_features)
    gram : ndarray of shape (n_rows, n_rows)
        K over ``rows``; never changed.
    labels : ndarray of shape (n_rows, n_outputs)
    solve : callable
        From c, (n_rows, 1) or (n_rows, n_outputs), to the Dual of K~.
    factor : Factor or None
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
            one = Pass(solve(ones), labels, ones)
            first = Stage(
                Basis(kernel, rows, gram), one, None, None, class_counts, rows, np.arange(len(rows))
            )
            if plain is not None:
                plain["first", name] = first
        passes, before = _passes(
            first.under(factor), factor, solve, n_passes if factor is not None else 0, normalise
        )
        here.trained(kernel, passes.rows, before)
        return passes


def _passes(
    stage: Stage, factor: Factor | None, solve: Callable[[np.ndarray], Dual], n_passes: int, normalise: bool
) -> tuple[Passes, Stage | None]:
    """A first pass and those that follow it, and the last but one of them over all rows."""
    basis, rows = stage.basis, stage.rows
    chain: list[Pass] = []
    for _ in range(n_passes):
        remembered = stage.learn()
        before, now = np.log(stage.one.c), stage.log_factor_at(rows)
        scale = Scale.over(before, now, normalise)
        stage.one = replace(stage.one, scale=scale, remembered=remembered)
        chain.append(stage.one)
        c = np.exp(scale.added(before, now))
        one = Pass(solve(c), stage.one.labels, c)
        stage = Stage(basis, one, stage, factor, stage.class_counts, rows, stage.places)
    chain.append(stage.one)
    kept = np.flatnonzero(np.any([np.any(one.dual.weights != 0, axis=1) for one in chain], axis=0))
    taken = tuple(one.take(kept) for one in chain)
    return Passes(basis.kernel, rows[kept], kept, taken, factor, stage.class_counts), stage.previous
