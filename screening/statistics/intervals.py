"""How sure a rate is: score, exact and resampling intervals."""

from __future__ import annotations

import numpy as np


def wilson(successes, trials, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Wilson score interval of a proportion of independent rows; (0, 1) where there are no trials.

    Parameters
    ----------
    successes, trials : array_like of shape (...)
        Counts, 0 <= successes <= trials; real numbers (effective sizes) are allowed.
    level : float
        Two-sided confidence, in (0, 1).

    Returns
    -------
    low, high : ndarray of shape (...)
    """
    from scipy.special import ndtri

    k, n = np.asarray(successes, float), np.asarray(trials, float)
    z2 = ndtri(0.5 + level / 2) ** 2
    safe = np.where(n > 0, n, 1.0)
    p = k / safe
    middle = (p + z2 / (2 * safe)) / (1 + z2 / safe)
    half = np.sqrt(z2 * (p * (1 - p) / safe + z2 / (4 * safe**2))) / (1 + z2 / safe)
    low = np.where(k <= 0, 0.0, np.clip(middle - half, 0, 1))
    high = np.where(k >= n, 1.0, np.clip(middle + half, 0, 1))
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def clopper_pearson(successes, trials, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Exact two-sided interval of a proportion; its lower end alone holds with (1 + level) / 2.

    Parameters
    ----------
    successes, trials : array_like of shape (...)
        Counts, or effective (real) sizes as Korn and Graubard (1998) use them.
    """
    k, n = np.asarray(successes, float), np.asarray(trials, float)
    tail = (1 - level) / 2
    return beta_quantile(tail, k, n - k + 1), beta_quantile(1 - tail, k + 1, n - k)


def beta_quantile(q, a, b) -> np.ndarray:
    """Quantile of Beta(a, b); Beta(0, b) is all at 0 and Beta(a, 0) all at 1."""
    from scipy.special import betaincinv

    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    inside = (a > 0) & (b > 0)
    value = betaincinv(np.where(inside, a, 1.0), np.where(inside, b, 1.0), q)
    return np.where(inside, value, np.where(a > 0, 1.0, 0.0))


def percentiles(draws: np.ndarray, n_units: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Expanded percentile interval along axis 0; draws that are not numbers are left out.

    The plain percentiles of a bootstrap over few units are too narrow, by (n-1)/n in variance and by a normal
    quantile where Student's belongs; Hesterberg (2015) widens the nominal level by exactly that much.
    """
    from scipy.special import ndtr, stdtrit

    n = max(n_units, 2)
    tail = ndtr(stdtrit(n - 1, (1 - level) / 2) * np.sqrt(n / (n - 1)))
    finite = draws[np.all(np.isfinite(draws), axis=tuple(range(1, draws.ndim)))]
    if not len(finite):
        raise ValueError("no bootstrap draw holds both classes")
    low, high = np.quantile(finite, [tail, 1 - tail], axis=0)
    return low, high


def design_effect(events: np.ndarray, codes: np.ndarray) -> float:
    """How often a row must be counted to tell as much as an independent one, for a share of rows in groups.

    Variance of the share between whole groups (ratio estimator) over that of independent rows, at least 1
    and at
    most rows per group, which is also the answer where the share is 0 or 1.

    Parameters
    ----------
    events : boolean ndarray of shape (n_rows,)
    codes : int ndarray of shape (n_rows,)
        Group number of each row.
    """
    codes = np.unique(codes, return_inverse=True)[1].ravel()
    sizes, counts = np.bincount(codes), np.bincount(codes, weights=events)
    rows, groups, share = len(codes), len(sizes), float(np.mean(events))
    most = rows / groups
    if share in (0.0, 1.0) or groups < 2:
        return most
    between = groups / (groups - 1) * np.square(counts - share * sizes).sum() / rows**2
    # Groups of unequal size can exceed rows per group: the largest few then decide.
    return float(max(1.0, between / (share * (1 - share) / rows)))


def predictive_interval(prevalence: float, right: tuple, wrong: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Interval of a predictive value at a known prevalence of what is predicted, by Bayes.

    The log odds of PPV are those of the prevalence, plus log sensitivity, minus log(1 - specificity); the two
    intervals are joined by MOVER (Zou and Donner 2008), so each may come from anywhere. For NPV give the
    shares
    of the other side: prevalence of negatives, specificity and 1 - sensitivity.

    Parameters
    ----------
    prevalence : float
    right, wrong : (rate, low, high)
        Share flagged of what should be, and of what should not be.
    """
    from scipy.special import expit, logit

    # A rate of 0 has no logarithm; the floor only has to be small beside any interval's end.
    hit, hit_low, hit_high = (np.log(np.maximum(v, 1e-9)) for v in right)
    false, false_low, false_high = (np.log(np.maximum(v, 1e-9)) for v in wrong)
    odds = logit(prevalence) + hit - false
    down = np.sqrt((hit - hit_low) ** 2 + (false_high - false) ** 2)
    up = np.sqrt((hit_high - hit) ** 2 + (false - false_low) ** 2)
    return expit(odds - down), expit(odds + up)
