"""Several methods on several cohorts: Friedman's test in its F form, Holm's steps, critical differences.

After Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, ndtr
from scipy.stats import rankdata, studentized_range

from screening.schemas.comparison import CohortFacts, FigureRanks, RankedMethod, Ranks


def ranked(figures: np.ndarray) -> np.ndarray:
    """Rank of each method on each cohort, 1 for the largest figure, ties sharing their mean rank.

    `figures`, shape (n_cohorts, n_methods): higher is better; rounded to 9 digits, so that noise in the last
    ones makes no rank.
    """
    return rankdata(-np.round(figures, 9), axis=1)


@dataclass(frozen=True)
class Friedman:
    """Whether any method differs from the others."""

    chi2: float  # Friedman's statistic, corrected for ties.
    # Iman and Davenport's (N - 1) chi2 / (N (k - 1) - chi2); infinite where all cohorts agree on the order.
    f: float
    p: float  # Of `f`, with k - 1 and (k - 1)(N - 1) degrees of freedom.
    mean_ranks: np.ndarray  # Shape (n_methods,).


def friedman(figures: np.ndarray) -> Friedman:
    """Friedman's test in its F form (Iman and Davenport 1980).

    `figures`, shape (n_cohorts, n_methods): higher is better. Raises ValueError: fewer than two cohorts or
    two methods.
    """
    n, k = _size(figures)
    ranks = ranked(figures)
    mean = ranks.mean(axis=0)
    spread = np.square(ranks).sum() - n * k * (k + 1) ** 2 / 4
    if spread <= 0:  # every cohort ties all methods
        return Friedman(0.0, 0.0, 1.0, mean)
    # `scipy.stats.friedmanchisquare` refuses two methods.
    chi2 = float((k - 1) * n**2 * np.square(mean - (k + 1) / 2).sum() / spread)
    left = n * (k - 1) - chi2
    if left <= 1e-9:
        return Friedman(chi2, float("inf"), 0.0, mean)
    f = (n - 1) * chi2 / left
    return Friedman(chi2, f, float(fdtrc(k - 1, (k - 1) * (n - 1), f)), mean)


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's (1979) adjusted p-values: those up to alpha are rejected, with family-wise error alpha."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(
        1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    )
    adjusted = np.empty_like(p)
    adjusted[order] = stepped
    return adjusted


@dataclass(frozen=True)
class AgainstControl:
    """Each method against the control by mean ranks; the control's own entries are NaN."""

    z: (
        np.ndarray
    )  # Shape (n_methods,): positive where the method ranks better than the control.
    # p, p_holm: shape (n_methods,): two-sided, and adjusted over the other methods.
    p: np.ndarray
    p_holm: np.ndarray


def against_control(figures: np.ndarray, control: int) -> AgainstControl:
    """Compare every method's mean rank with that of method number `control`, adjusted after Holm."""
    n, k = _size(figures)
    mean = ranked(figures).mean(axis=0)
    z = (mean[control] - mean) / np.sqrt(k * (k + 1) / (6 * n))
    p = 2 * ndtr(-np.abs(z))
    others = np.arange(k) != control
    adjusted = np.full(k, np.nan)
    adjusted[others] = holm(p[others])
    return AgainstControl(
        np.where(others, z, np.nan), np.where(others, p, np.nan), adjusted
    )


def critical_difference(n_methods: int, n_cohorts: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of mean ranks: any two methods further apart differ at level `alpha`."""
    q = float(studentized_range.ppf(1 - alpha, n_methods, np.inf)) / np.sqrt(2)
    return q * float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_cohorts)))


def cliques(mean_ranks: np.ndarray, difference: float) -> list[tuple[float, float]]:
    """Longest runs of mean ranks no further apart than the critical difference, as (first, last) ranks."""
    ranks = np.sort(mean_ranks)
    runs: list[tuple[float, float]] = []
    for first in ranks:
        last = float(ranks[ranks <= first + difference].max())
        if last > first and not (runs and runs[-1][1] >= last):
            runs.append((float(first), last))
    return runs


def _size(figures: np.ndarray) -> tuple[int, int]:
    n, k = figures.shape
    if n < 2 or k < 2:
        raise ValueError(
            f"ranks need at least two cohorts and two methods, got {n} and {k}"
        )
    return n, k


RANKED = ("g_mean", "auroc", "average_precision", "specificity_at")


def rank_entry(
    cohorts: Sequence[CohortFacts], control: str, first: str
) -> Ranks | None:
    """Friedman and Holm over several cohorts; None for fewer than two cohorts or methods."""
    names = [method.recipe for method in cohorts[0].methods]
    if len(cohorts) < 2 or len(names) < 2:
        return None
    figures = {}
    for figure in RANKED:
        table = np.array(
            [
                [method.figures[figure].value for method in cohort.methods]
                for cohort in cohorts
            ],
            float,
        )
        test = friedman(np.nan_to_num(table, nan=0.0))
        against = against_control(np.nan_to_num(table, nan=0.0), names.index(control))
        distance = critical_difference(len(names), len(cohorts))
        figures[figure] = FigureRanks(
            chi2=test.chi2,
            f=_number(test.f),
            p=test.p,
            degrees=[len(names) - 1, (len(names) - 1) * (len(cohorts) - 1)],
            critical_difference=distance,
            cliques=cliques(test.mean_ranks, distance),
            methods=[
                RankedMethod(
                    recipe=name,
                    mean_rank=float(test.mean_ranks[i]),
                    mean=float(np.nanmean(table[:, i])),
                    z=_number(float(against.z[i])),
                    p=_number(float(against.p[i])),
                    p_holm=_number(float(against.p_holm[i])),
                )
                for i, name in enumerate(names)
            ],
        )
    return Ranks(first=first, control=control, n_cohorts=len(cohorts), figures=figures)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
