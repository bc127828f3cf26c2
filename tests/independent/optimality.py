"""The optimality conditions of a dual, from nothing but its matrix."""

import numpy as np

from screening.solvers.problem import AT_BOUND, Problem


def certificate(problem: Problem, alphas: np.ndarray) -> tuple[float, float]:
    """Intercept, and the largest violation in units of ``Problem.unit``; 0 at the optimum."""
    gradient = problem.gradient(alphas)
    down = alphas > AT_BOUND * problem.upper  # may decrease
    up = alphas < (1.0 - AT_BOUND) * problem.upper  # may increase
    if problem.total is None:
        wrong = np.where(up, -gradient, 0.0).max(), np.where(down, gradient, 0.0).max()
        return 0.0, float(max(*wrong, 0.0) / problem.scale)
    levels, plus = -problem.signs * gradient, problem.signs > 0
    highest = levels[np.where(plus, up, down)].max(initial=-np.inf)
    lowest = levels[np.where(plus, down, up)].min(initial=np.inf)
    # The mean level of the free alphas; where there is none the middle of the interval that is allowed.
    known = levels[up & down] if (up & down).any() else np.array([highest, lowest])
    known = known[np.isfinite(known)]
    intercept = float(known.mean()) if len(known) else 0.0
    return intercept, float(max(0.0, highest - lowest)) / problem.unit(alphas, problem.signs, levels)
