"""From scores to probabilities, where that is earned; and what acting on them is worth.

A one-class score is never a probability: the machine saw no cases. Any other score becomes one only by
calibration on held-out scores, and only where enough cases show that it helps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import isotonic_regression
from sklearn.linear_model import LogisticRegression

from screening.documents.chances import chance_along
from screening.documents.validation import Bin, Calibration, DecisionCurve, ScoreCurve
from screening.statistics.intervals import design_effect, wilson
from screening.statistics.tally import group_codes

FEWEST_CASES = 50
FEWEST_GROUPS = 20
BINS = 10


def calibrate(
    scores: np.ndarray,
    positive: np.ndarray,
    fold: np.ndarray,
    prevalence: float,
    groups: np.ndarray | None = None,
    one_class: bool = False,
) -> Calibration:
    """Choose between Platt scaling and isotonic regression, and judge whether either deserves to be shown.

    Each is fitted on the held-out scores of all folds but one and judged by its log loss on that one; the
    better is then fitted on all. Rows are weighted so that positives have the local prevalence.

    Parameters
    ----------
    scores : ndarray, shape (n_rows,)
        Out-of-fold scores on the final model's scale.
    positive : ndarray of bool, shape (n_rows,)
    fold : ndarray of int, shape (n_rows,)
    prevalence : float
        Where the model is used, 0 to 1.
    groups : ndarray, shape (n_rows,), optional
        What is one independent observation.

    Returns
    -------
    Calibration
        Its curve lies between the frequencies observed in the first and last bin.
    """
    if one_class:
        return _unearned("a one-class machine learns from patients without the condition only")
    codes = group_codes(groups)
    units = np.arange(len(scores)) if codes is None else codes
    cases, n_units = int(positive.sum()), len(np.unique(units))
    if cases < FEWEST_CASES:
        return _unearned(f"{cases} cases are too few to calibrate it ({FEWEST_CASES} are needed)")
    if codes is not None and n_units < FEWEST_GROUPS:
        return _unearned(f"{n_units} patients are too few to calibrate it ({FEWEST_GROUPS} are needed)")
    share = float(positive.mean())
    weight = np.where(positive, prevalence / share, (1 - prevalence) / (1 - share))
    judged = {name: _cross_fitted(name, scores, positive, weight, fold) for name in METHODS}
    losses = {name: _log_loss(p, positive) for name, p in judged.items()}
    method = min(METHODS, key=lambda name: float(np.average(losses[name], weights=weight)))
    p = judged[method]
    gained = weight * (_log_loss(np.full(len(p), prevalence), positive) - losses[method])
    if _z(gained, units) < 1.645:
        return _unearned("its probabilities would not be shown to be better than the prevalence itself")
    if abs(_z(weight * (positive - p) * (1 - 2 * p), units)) > 2.576:
        return _unearned("predicted and observed frequencies differ (Spiegelhalter's test)")
    brier = float(np.average((p - positive) ** 2, weights=weight))
    reliability = _reliability(p, positive, weight, codes)
    knots, chances = _capped(*METHODS[method](scores, positive, weight), _observed_ends(reliability))
    return Calibration(
        earned=True,
        reason=None,
        method=method,
        log_loss={name: float(np.average(loss, weights=weight)) for name, loss in losses.items()},
        curve=ScoreCurve(score=knots.tolist(), probability=chances.tolist()),
        prevalence=prevalence,
        brier=brier,
        brier_skill=1 - brier / (prevalence * (1 - prevalence)),
        slope=float(_logistic(np.log(p / (1 - p)), positive, weight)[1]),
        reliability=reliability,
        decision_curve=decision_curve(p, positive, weight),
    )


def probability(calibration: Calibration | None, scores: np.ndarray) -> np.ndarray:
    """Calibrated probability of scores, shape (n_rows,); NaN where calibration was not earned."""
    if calibration is None or calibration.curve is None:
        return np.full(len(scores), np.nan)
    curve = calibration.curve
    return chance_along(calibration.method, curve.score, curve.probability, scores)


def chance_range(calibration: Calibration | None, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of how often the condition was observed in the bin of predictions a chance falls in.

    Parameters
    ----------
    chances : ndarray, shape (n_rows,)
        Of `probability`.

    Returns
    -------
    low, high : ndarray, shape (n_rows,)
        They hold the chance itself; NaN where calibration was not earned.
    """
    chances = np.asarray(chances, float)
    if calibration is None or calibration.curve is None:
        return np.full(len(chances), np.nan), np.full(len(chances), np.nan)
    bins = calibration.reliability
    # The largest chance is often cut below the predictions of the last bin, which it speaks for all the same.
    top = max(calibration.curve.probability) * (1 - 1e-9)
    starts = [min(b.predicted if b.least is None else b.least, top) for b in bins]
    place = np.maximum(np.searchsorted(starts, chances, side="right") - 1, 0)
    low, high = (np.array(ends)[place] for ends in ([b.low for b in bins], [b.high for b in bins]))
    return np.minimum(low, chances), np.maximum(high, chances)


def decision_curve(p: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> DecisionCurve:
    """Net benefit of reviewing everyone above a threshold probability, against reviewing all or none.

    Net benefit = TP / n - FP / n x t / (1 - t) (Vickers and Elkin 2006): found cases per patient, less the
    needless reviews at the rate of exchange that the threshold t states. Reviewing none is 0.
    """
    prevalence = float(np.average(positive, weights=weight))
    at = np.linspace(0.01, float(np.clip(4 * prevalence, 0.2, 0.6)), 40)
    called = p >= at[:, None]
    total = weight.sum()
    true, false = called @ (weight * positive) / total, called @ (weight * ~positive) / total
    odds = at / (1 - at)
    return DecisionCurve(
        threshold=at.tolist(),
        model=(true - false * odds).tolist(),
        all=(prevalence - (1 - prevalence) * odds).tolist(),
    )


def _unearned(reason: str) -> Calibration:
    return Calibration(earned=False, reason=reason)


def _platt(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    intercept, slope = _logistic(scores, positive, weight)
    knots = np.array([scores.min(), scores.max()])
    return knots, _squeezed(1 / (1 + np.exp(-intercept - slope * knots)), 10**9)


def _observed_ends(reliability: Sequence[Bin]) -> tuple[float, float]:
    """The least and the largest chance that observation bears out: frequencies of the first and last bin.

    Eight patients of eight do not make a chance of 1: a bin counts half a patient more on either side, as far
    as that draws it in.
    """
    first, last = reliability[0], reliability[-1]
    inwards = [(b.observed * b.size + 0.5) / (b.size + 1) for b in (first, last)]
    low, high = sorted((max(first.observed, inwards[0]), min(last.observed, inwards[1])))
    return low, high


def _capped(
    knots: np.ndarray, chances: np.ndarray, ends: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The curve between two chances: a line of two knots keeps its slope and is cut, steps are lowered."""
    capped = np.clip(chances, *ends)
    if len(knots) == 2 and chances[0] != chances[1]:
        odds, cut = (np.log(p / (1 - p)) for p in (chances, capped))
        knots = knots[0] + (cut - odds[0]) * (knots[1] - knots[0]) / (odds[1] - odds[0])
    return knots, capped


def _isotonic(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    knots, place = np.unique(scores, return_inverse=True)
    size = np.bincount(place, weights=weight)
    share = np.bincount(place, weights=weight * positive) / size
    chances = isotonic_regression(share, weights=size).x
    # Between two knots that are level with it, a knot says nothing.
    kept = np.concatenate([[True], np.diff(chances) != 0, [True]])
    kept = kept[:-1] | kept[1:]
    # No number of rows proves a chance of 0 or 1.
    return knots[kept], _squeezed(chances[kept], len(scores))


Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
METHODS: dict[str, Method] = {"platt": _platt, "isotonic": _isotonic}


def _cross_fitted(
    method: str, scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    p = np.empty(len(scores))
    for number in np.unique(fold):
        test = fold == number
        knots, chances = METHODS[method](scores[~test], positive[~test], weight[~test])
        p[test] = chance_along(method, knots, chances, scores[test])
    return _squeezed(p, len(scores))


def _logistic(x: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Intercept and slope of a logistic regression on one variable."""
    centre, spread = float(np.mean(x)), float(np.std(x)) or 1.0
    # A trace of shrinkage keeps perfectly separated scores from an infinite slope.
    model = LogisticRegression(C=1e3, solver="newton-cholesky", tol=1e-9)
    model.fit((x[:, None] - centre) / spread, positive, sample_weight=weight)
    slope = float(model.coef_[0, 0]) / spread
    return np.array([float(model.intercept_[0]) - slope * centre, slope])


def _squeezed(p: np.ndarray, n: int) -> np.ndarray:
    return np.clip(p, 0.5 / n, 1 - 0.5 / n)


def _log_loss(p: np.ndarray, positive: np.ndarray) -> np.ndarray:
    return -np.log(np.where(positive, p, 1 - p))


def _z(values: np.ndarray, units: np.ndarray) -> float:
    """Mean over its standard error, values of one unit taken together."""
    sums = np.bincount(np.unique(units, return_inverse=True)[1].ravel(), weights=values)
    error = float(np.std(sums)) * np.sqrt(len(sums))
    return float(sums.sum()) / error if error > 0 else 0.0


def _reliability(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray, codes: np.ndarray | None
) -> list[Bin]:
    """Mean predicted and observed frequency in tenths of the predictions, with 95 % intervals."""
    # Each tenth holds a tenth of the cases to be expected, so the rare high end keeps its bins; equal
    # predictions stay together.
    number = np.unique(p, return_inverse=True)[1]
    among = np.cumsum(np.bincount(number, weights=weight * p)) / (weight * p).sum()
    place = np.minimum((among * BINS * (1 - 1e-12)).astype(int), BINS - 1)[number]
    described = []
    for number in np.unique(place):
        rows = place == number
        w, observed = weight[rows], float(np.average(positive[rows], weights=weight[rows]))
        size = float(w.sum() ** 2 / np.square(w).sum())
        if codes is not None:
            size /= design_effect(positive[rows], codes[rows])
        low, high = wilson(observed * size, size)
        described.append(
            Bin(
                least=float(p[rows].min()),
                predicted=float(np.average(p[rows], weights=w)),
                observed=observed,
                low=float(low),
                high=float(high),
                n=int(rows.sum()),
                size=size,
            )
        )
    return described
