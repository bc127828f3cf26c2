"""Scoring against scikit-learn on all cores in threads.

python benchmarks/speed/scoring.py --rows 20000 --support 5000 --repeats 5
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.svm import SVC
from timing import HEADER, Comparison, compare
from training import made_rows

from screening import build
from screening.kernels import Gaussian
from screening.kernels.pairwise import in_double, weighted_sum, weighted_sums
from screening.threads import available_cores


def machine_of(n_support: int, n_features: int) -> SVC:
    """A trained machine most of whose rows are support vectors."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_support, n_features))
    return SVC(gamma=1 / n_features, C=1.0, cache_size=1000).fit(
        x, rng.integers(0, 2, n_support)
    )


def decision(
    n_rows: int, n_support: int, n_features: int, wanted: float, repeats: int
) -> Comparison:
    """Decisions of many rows."""
    svc = machine_of(n_support, n_features)
    x = np.random.default_rng(1).normal(size=(n_rows, n_features))
    kernel, centres, weights = (
        Gaussian(1 / n_features),
        svc.support_vectors_,
        svc.dual_coef_[0],
    )
    cores = available_cores()
    dtype = (
        np.float64 if in_double(kernel, centres, weights[:, None]).any() else np.float32
    )

    def theirs() -> np.ndarray:
        with ThreadPoolExecutor(cores) as pool:
            return np.concatenate(
                list(pool.map(svc.decision_function, np.array_split(x, cores)))
            )

    return compare(
        f"scoring {n_rows} rows, {len(centres)} support vectors, {n_features} features, {dtype.__name__}",
        f"scikit-learn in {cores} threads",
        lambda: (
            weighted_sum(kernel, x, centres, weights, dtype=dtype) + svc.intercept_[0]
        ),
        theirs,
        lambda ours, theirs: (
            f"within {np.abs(ours - theirs).max() / np.abs(theirs).max():.1e} of max abs f"
        ),
        wanted,
        repeats,
    )


def with_factor(
    n_rows: int, n_support: int, n_features: int, repeats: int
) -> Comparison:
    """Decision and bumps of another width in one sweep, against the decision alone: at
    least 1 / 1.6.
    """
    svc = machine_of(n_support, n_features)
    x = np.random.default_rng(1).normal(size=(n_rows, n_features))
    centres, weights = svc.support_vectors_, svc.dual_coef_.T
    gamma = 1 / n_features
    bumps = np.ones((len(centres), 1))
    return compare(
        f"scoring {n_rows} rows with a factor, {len(centres)} support vectors, {n_features} features",
        "scoring without",
        lambda: weighted_sums(2, x, centres, [(gamma, weights), (3 * gamma, bumps)])[0],
        lambda: weighted_sums(2, x, centres, [(gamma, weights)])[0],
        lambda ours, theirs: f"within {np.abs(ours - theirs).max():.0e}",
        1 / 1.6,
        repeats,
    )


def with_bumps(name: str, n_rows: int, repeats: int) -> Comparison:
    """A machine with bumps beside a plain one: at least 1 / 2."""
    x, y = made_rows(4000, 3)
    z, _ = made_rows(n_rows, 3)
    plain, bumps = (build(each).fit(x, y) for each in ("svm", name))
    return compare(
        f"scoring {n_rows} rows by `{name}`, {len(bumps.passes_kept.rows)} support vectors",
        f"by `svm`, {len(plain.passes_kept.rows)}",
        lambda: bumps.decision_function(z),
        lambda: plain.decision_function(z),
        lambda *_: "other decisions",
        1 / 2,
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--support", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(HEADER)
    for n_features, wanted in ((3, 12.0), (49, 5.0)):
        print(
            decision(
                asked.rows, asked.support, n_features, wanted, asked.repeats
            ).row(),
            flush=True,
        )
        print(
            with_factor(asked.rows, asked.support, n_features, asked.repeats).row(),
            flush=True,
        )
    for name in ("amari_wu", "wu_amari", "act_input_space"):
        print(with_bumps(name, asked.rows, asked.repeats).row(), flush=True)


if __name__ == "__main__":
    main()
