"""Several methods on several cohorts: Friedman's test in its F form, and Holm's steps.

After Demšar (2006), Statistical comparisons of classifiers over multiple data sets,
JMLR 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, ndtr
from scipy.stats import rankdata, studentized_range

from screening.metrics.figures import figures_in, gain
from screening.schemas.comparison import CohortFacts, FigureRanks, RankedMethod, Ranks

# Digits to which figures are rounded, so that rounding errors make no ranks.
_DIGITS = 9


def _mean_ranks(ranks: np.ndarray) -> np.ndarray:
    return ranks.mean(axis=0)


def _ranks(figures: np.ndarray) -> np.ndarray:
    """Return the rank of each method on each cohort, 1 for the largest figure.

    Ties share their mean rank. `figures` (n_cohorts, n_methods): higher is better.
    """
    return rankdata(-np.round(figures, _DIGITS), axis=1)


@dataclass(frozen=True)
class Friedman:
    """Result of Friedman's test of whether any method differs from the others.

    Parameters
    ----------
    chi2 : float
        Friedman's statistic, corrected for ties.
    f : float
        Iman and Davenport's (N - 1) chi2 / (N (k - 1) - chi2); infinite if all cohorts
        agree on the order.
    p : float
        p-value of `f`, with k - 1 and (k - 1)(N - 1) degrees of freedom.
    mean_ranks : ndarray of shape (n_methods,)
    """

    chi2: float
    f: float
    p: float
    mean_ranks: np.ndarray


def friedman(figures: np.ndarray) -> Friedman:
    """Return Friedman's test in its F form (Iman and Davenport 1980).

    Parameters
    ----------
    figures : ndarray of shape (n_cohorts, n_methods)
        Higher is better. Of at least two cohorts and two methods.
    """
    n, k = figures.shape
    ranks = _ranks(figures)
    mean = _mean_ranks(ranks)
    spread = np.square(ranks).sum() - n * k * (k + 1) ** 2 / 4
    if spread <= 0:  # every cohort ties all methods
        return Friedman(0.0, 0.0, 1.0, mean)
    # `scipy.stats.friedmanchisquare` rejects two methods.
    distance = np.square(mean - (k + 1) / 2).sum()
    chi2 = float((k - 1) * n**2 * distance / spread)
    left = n * (k - 1) - chi2
    if left <= 1e-9:
        return Friedman(chi2, float("inf"), 0.0, mean)
    f = (n - 1) * chi2 / left
    freedom = (k - 1) * (n - 1)
    p = float(fdtrc(k - 1, freedom, f))
    return Friedman(chi2, f, p, mean)


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return Holm's (1979) adjusted p-values.

    Rejecting those up to alpha has a family-wise error of alpha.
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    n_left = np.arange(len(p), 0, -1)
    stepped = np.maximum.accumulate(p[order] * n_left)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


@dataclass(frozen=True)
class AgainstControl:
    """Each method against the control by mean ranks; NaN for the control itself.

    Parameters
    ----------
    z : ndarray of shape (n_methods,)
        Positive if the method ranks better than the control.
    p, p_holm : ndarray of shape (n_methods,)
        Two-sided p-values, and those adjusted for the number of other methods.
    """

    z: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray


def against_control(figures: np.ndarray, control: int) -> AgainstControl:
    """Compare every method's mean rank with that of one method, adjusted by Holm.

    Parameters
    ----------
    figures : ndarray of shape (n_cohorts, n_methods)
        Higher is better.
    control : int
        Number of the method that the others are compared with.
    """
    n, k = figures.shape
    mean = _mean_ranks(_ranks(figures))
    error = np.sqrt(k * (k + 1) / (6 * n))
    z = (mean[control] - mean) / error
    p = 2 * ndtr(-np.abs(z))
    z[control] = np.nan
    p[control] = np.nan
    is_other = np.arange(k) != control
    adjusted = np.full(k, np.nan)
    adjusted[is_other] = holm(p[is_other])
    return AgainstControl(z, p, adjusted)


def nemenyi_difference(n_methods: int, n_cohorts: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of mean ranks.

    Any two methods further apart differ at level `alpha`.
    """
    q = float(studentized_range.ppf(1 - alpha, n_methods, np.inf)) / np.sqrt(2)
    error = np.sqrt(n_methods * (n_methods + 1) / (6 * n_cohorts))
    return q * float(error)


def cliques(mean_ranks: np.ndarray, difference: float) -> list[tuple[float, float]]:
    """Return the longest runs of mean ranks within the critical difference.

    Each is (first, last) mean rank.
    """
    ranks = np.sort(mean_ranks)
    runs: list[tuple[float, float]] = []
    for first in ranks:
        last = float(ranks[ranks <= first + difference].max())
        is_contained = bool(runs) and runs[-1][1] >= last
        if last > first and not is_contained:
            runs.append((float(first), last))
    return runs


def _ranked_figures() -> list[str]:
    """Return the names of the figures by which methods are ranked."""
    ranked = [figure.name for figure in figures_in("compare_ranks")]
    own = [f"own_{figure.name}" for figure in figures_in("compare_own_ranks")]
    return [*ranked, "specificity_at", *own, "macro_recall", "macro_g"]


def rank_entry(
    cohorts: Sequence[CohortFacts], control: str, first: str
) -> Ranks | None:
    """Compute Friedman's and Holm's tests of all figures over several cohorts.

    Parameters
    ----------
    cohorts : sequence of CohortFacts
        With the same methods.
    control : str
        Recipe that the others are compared with.
    first : str
        Figure that is shown first.

    Returns
    -------
    Ranks or None
        None for fewer than two cohorts or two methods.
    """
    names = [method.recipe for method in cohorts[0].methods]
    if len(cohorts) < 2 or len(names) < 2:
        return None
    figures = {
        figure: _figure_ranks(cohorts, names, control, figure)
        for figure in _ranked_figures()
        if _is_known(cohorts, figure)
    }
    return Ranks(
        first=first,
        control=control,
        n_cohorts=len(cohorts),
        figures=figures,
    )


def _is_known(cohorts: Sequence[CohortFacts], figure: str) -> bool:
    """Return True if every method has the figure on every cohort."""
    for cohort in cohorts:
        for method in cohort.methods:
            if figure not in method.figures:
                return False
    return True


def _figure_ranks(
    cohorts: Sequence[CohortFacts], names: list[str], control: str, figure: str
) -> FigureRanks:
    values = []
    gains = []
    name_of_figure = figure.removeprefix("own_")
    for cohort in cohorts:
        figures = [method.figures[figure] for method in cohort.methods]
        values.append([estimate.value for estimate in figures])
        gains.append([gain(name_of_figure, estimate).value for estimate in figures])
    table = np.array(values, float)
    ranked_table = np.nan_to_num(np.array(gains, float), nan=-np.inf)
    test = friedman(ranked_table)
    against = against_control(ranked_table, names.index(control))
    distance = nemenyi_difference(len(names), len(cohorts))
    freedom = len(names) - 1
    methods = [
        RankedMethod(
            recipe=name,
            mean_rank=float(test.mean_ranks[i]),
            mean=float(np.nanmean(table[:, i])),
            z=_none_if_not_finite(float(against.z[i])),
            p=_none_if_not_finite(float(against.p[i])),
            p_holm=_none_if_not_finite(float(against.p_holm[i])),
        )
        for i, name in enumerate(names)
    ]
    return FigureRanks(
        chi2=test.chi2,
        f=_none_if_not_finite(test.f),
        p=test.p,
        degrees=[freedom, freedom * (len(cohorts) - 1)],
        critical_difference=distance,
        cliques=cliques(test.mean_ranks, distance),
        methods=methods,
    )


def _none_if_not_finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
