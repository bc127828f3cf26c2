"""How time grows with rows: ours beside scikit-learn, plain two-class, from 200 rows upwards.

python benchmarks/speed/growth.py --rows 50000 100000 --repeats 1
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.svm import SVC
from timing import HEADER, Comparison, compare
from training import COST, TOL, Solved, made_rows, passes_of, solved_apart

from screening.kernels import Gaussian
from screening.solvers import gram_within


def plain(n: int, repeats: int) -> Comparison:
    """One fit and the decision at the training rows, 3 features."""
    x, y = made_rows(n, 3)
    machine = SVC(C=COST, gamma=1 / 3, tol=TOL, cache_size=2000)

    def theirs() -> Solved:
        decision = machine.fit(x, y).decision_function(x)
        weights = np.zeros(n)
        weights[machine.support_] = machine.dual_coef_[0]
        return Solved.of(decision, weights, float(machine.intercept_[0]), True)

    return compare(
        f"two-class, n = {n}, 3 features",
        "scikit-learn",
        lambda: passes_of(gram_within(Gaussian(1 / 3), x), y, 0),
        theirs,
        solved_apart,
        1,
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 500, 1000, 2000, 5000, 10_000, 20_000])
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(HEADER)
    for n in asked.rows:
        print(plain(n, asked.repeats).row(), flush=True)


if __name__ == "__main__":
    main()
