"""The step that takes all free alphas to their common optimum."""

from __future__ import annotations

import numpy as np
import pytest
from machines_cohort import problem_of, rows_and_labels

from screening.kernels import Gaussian
from screening.kernels.pairwise import gram
from screening.solvers import smo
from screening.solvers.smo import KernelRows


@pytest.mark.parametrize("form", ["gram", "rows"])
def test_free_alphas_meet_at_one_level_and_keep_their_bounds(form):
    from screening.solvers.free_set import newton_on_free_set

    x, y = rows_and_labels(400)
    matrix = {"gram": gram(Gaussian(0.2), x), "rows": KernelRows(x, Gaussian(0.2))}[form]
    problem = problem_of("two_class", matrix, x, y)
    engine = smo._Engine(problem, 1e-3, smo.DEFAULT_MEMORY)
    engine.alpha = smo.solve(problem, 0.1).alphas * engine.unit
    engine.v = engine._levels()
    s, c, _, upper, alpha, v = engine._gathered(np.arange(400))
    free = (alpha > 0) & (alpha < upper)
    spread = np.ptp(v[free])
    before = problem.objective(alpha / engine.unit)

    newton_on_free_set(s, c, upper, alpha, v, *engine.active.rows())

    after = problem.objective(alpha / engine.unit)
    still = free & (alpha > 0) & (alpha < upper)
    engine.alpha = alpha
    assert np.ptp(v[still]) < 0.01 * spread
    assert (alpha >= 0).all() and (alpha <= upper).all()
    assert abs(s @ alpha) < 1e-9 * alpha.sum()
    assert after < before
    np.testing.assert_allclose(v, engine._levels(), atol=1e-5)
