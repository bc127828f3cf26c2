"""From scores to probabilities, where that is earned; and what acting on them is worth.

A one-class score is never a probability: the machine saw no cases. Any other score becomes one by Platt's
logistic regression on held-out scores, where enough cases show that it helps.

Conformal p-values, ranks among known negatives, stand at the end; the kernels' conformal factor is geometry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from screening.metrics.intervals import (
    design_effect,
    share_range,
    students_share,
    wilson,
)
from screening.metrics.tally import group_codes
from screening.schemas.base import Estimate
from screening.schemas.validation import Bin, Calibration, DecisionCurve, Platt

FEWEST_CASES = 20
FEWEST_GROUPS = 20
BINS = 10
# Weaker than any data: perfectly separated scores keep a finite slope.
SHRINKAGE = 1e-3


def calibrate(
    scores: np.ndarray,
    positive: np.ndarray,
    fold: np.ndarray,
    prevalence: float,
    groups: np.ndarray | None = None,
    one_class: bool = False,
) -> Calibration:
    """Platt scaling of held-out scores, and whether its chances deserve to be shown.

    It is judged on chances that each fold gets from the others. Rows are weighted so that positives have the
    local prevalence.

    Parameters
    ----------
    scores : ndarray, shape (n_rows,)
        Held-out scores.
    positive : ndarray of bool, shape (n_rows,)
    fold : ndarray of int, shape (n_rows,)
    prevalence : float
        Where the model is used, 0 to 1.
    groups : ndarray, shape (n_rows,), optional
        What is one independent observation.

    Returns
    -------
    Calibration
        Misfit is no reason to withhold a chance: it is stated, and the reliability shows it.

    Notes
    -----
    Platt 1999. On held-out thirds of 192 tables nobody had tuned on, bins of new patients lay within what
    this band and the binomial allow in 98 %, with 21 to 47 cases too; a curve cut at what the end bins had
    observed had a larger log loss.
    """
    if one_class:
        return _unearned(
            "a one-class machine learns from patients without the condition only"
        )
    codes = group_codes(groups)
    units = np.arange(len(scores)) if codes is None else codes
    cases, n_units = int(positive.sum()), len(np.unique(units))
    if cases < FEWEST_CASES:
        return _unearned(
            f"{cases} cases are too few to calibrate it ({FEWEST_CASES} are needed)"
        )
    if codes is not None and n_units < FEWEST_GROUPS:
        return _unearned(
            f"{n_units} patients are too few to calibrate it ({FEWEST_GROUPS} are needed)"
        )
    weight = _weights_at(positive, prevalence)
    p = _cross_fitted(scores, positive, weight, fold)
    loss = _log_loss(p, positive)
    gained = weight * (_log_loss(np.full(len(p), prevalence), positive) - loss)
    if _z(gained, units) < 1.645:
        return _unearned(
            "its probabilities would not be shown to be better than the prevalence itself"
        )
    platt = fit_platt(scores, positive, weight, codes)
    if platt.slope <= 0:
        return _unearned("a higher score does not mean a higher chance")
    return _assessed(platt, p, positive, weight, prevalence, codes)


def _weights_at(positive: np.ndarray, prevalence: float) -> np.ndarray:
    """Weights of rows that make the share of cases the stated one."""
    share = float(positive.mean())
    return np.where(positive, prevalence / share, (1 - prevalence) / (1 - share))


def calibration_elsewhere(
    written: Calibration,
    scores: np.ndarray,
    positive: np.ndarray,
    groups: np.ndarray | None = None,
    prevalence: float | None = None,
) -> Calibration:
    """How the chances that a model writes agree with another cohort, nothing being fitted to it.

    `scores`, `positive`, `groups` are as of `calibrate`, of rows that took no part in the training; there are
    some of either class. Where the share of cases in that place is another than among these rows, rows are
    weighted to the `prevalence` stated.

    Notes
    -----
    `observed_expected` is calibration in the large, `slope` that of Cox's logistic recalibration, each with
    a 95 % interval, by groups where rows come in groups (Steyerberg 2019).
    """
    if written.platt is None:
        return written
    codes, weight = group_codes(groups), np.ones(len(scores))
    p = _bounded(written.platt.chances(scores)[0])
    share, low, high = share_range(positive, codes)
    if prevalence is not None:
        weight = _weights_at(positive, prevalence)
        share = low = high = prevalence
    refitted = fit_platt(np.log(p / (1 - p)), positive, weight, codes)
    # A few groups tell neither a figure nor the spread of it.
    few = 1.0 if codes is None else float(np.sqrt(students_share(int(codes.max()) + 1)))
    low, high = max(share - (share - low) / few, 0.0), share + (high - share) / few
    reach = 1.96 * float(np.sqrt(refitted.covariance[2])) / few
    expected = float(np.average(p, weights=weight))
    if (
        prevalence is not None
    ):  # not known is then what the chances of either class add up to
        pull = (
            weight
            * (p - np.where(positive, p[positive].mean(), p[~positive].mean()))
            / weight.sum()
        )
        sums = pull if codes is None else np.bincount(codes, weights=pull)
        wide = 1.96 * float(np.sqrt(np.square(sums).sum())) / few
        low, high = (
            share * expected / (expected + wide),
            share * expected / max(expected - wide, 1e-9),
        )
    return _assessed(written.platt, p, positive, weight, share, codes).replace(
        slope=Estimate(refitted.slope, refitted.slope - reach, refitted.slope + reach),
        observed_expected=Estimate(share / expected, low / expected, high / expected),
    )


def _assessed(
    platt: Platt,
    p: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    prevalence: float,
    codes: np.ndarray | None,
) -> Calibration:
    """What chances of rows that did not make them are worth."""
    units = np.arange(len(p)) if codes is None else codes
    brier = float(np.average((p - positive) ** 2, weights=weight))
    return Calibration(
        earned=True,
        reason=None,
        platt=platt,
        log_loss=float(np.average(_log_loss(p, positive), weights=weight)),
        misfit=float(2 * ndtr(-abs(_z(weight * (positive - p) * (1 - 2 * p), units)))),
        prevalence=prevalence,
        brier=brier,
        brier_skill=1 - brier / (prevalence * (1 - prevalence)),
        slope=Estimate(fit_platt(np.log(p / (1 - p)), positive, weight).slope),
        reliability=_reliability(p, positive, weight, codes),
        decision_curve=decision_curve(p, positive, weight),
    )


def fit_platt(
    scores: np.ndarray,
    positive: np.ndarray,
    weight: np.ndarray,
    codes: np.ndarray | None = None,
) -> Platt:
    """Logistic regression of the label on the score, with the covariance of its two coefficients.

    The covariance is the inverse information; of rows in groups (`codes`), and of rows weighted to a stated
    prevalence, the sandwich of it around the squares of what groups or rows contribute to the gradient.
    """
    centre, spread = float(np.mean(scores)), float(np.std(scores)) or 1.0
    z = (scores - centre) / spread
    model = LogisticRegression(C=1 / SHRINKAGE, solver="newton-cholesky", tol=1e-9)
    model.fit(z[:, None], positive, sample_weight=weight)
    p = model.predict_proba(z[:, None])[:, 1]
    design = np.column_stack([np.ones(len(z)), z])
    covariance = np.linalg.inv(
        design.T @ (design * (weight * p * (1 - p))[:, None])
        + np.diag([0.0, SHRINKAGE])
    )
    stated = not np.allclose(weight, weight[0])
    if codes is not None or stated:
        pull = design * (weight * (positive - p))[:, None]
        if stated:  # how many positives there happen to be says nothing then
            for side in (positive, ~positive):
                pull[side] -= pull[side].mean(axis=0)
        if codes is not None:
            pull = np.column_stack(
                [np.bincount(codes, weights=column) for column in pull.T]
            )
        covariance = (
            covariance @ (pull.T @ pull) @ covariance * len(pull) / (len(pull) - 1)
        )
    scale = np.diag([1.0, 1.0 / spread])
    (variance, both), (_, slope_variance) = scale @ covariance @ scale
    return Platt(
        centre=centre,
        intercept=float(model.intercept_[0]),
        slope=float(model.coef_[0, 0]) / spread,
        covariance=(float(variance), float(both), float(slope_variance)),
    )


def likeliest(curves: Sequence[Platt], decisions: np.ndarray) -> np.ndarray:
    """Number of the class with the highest chance, (n_rows,); `decisions`, (n_rows, n_classes).

    Scores of different classes are on scales of their own, and say nothing of how common a class is.
    """
    return np.argmax(
        [one.log_odds(own) for one, own in zip(curves, decisions.T, strict=True)],
        axis=0,
    )


def chances(
    calibration: Calibration | None, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chance of each score with the ends of its 95 % interval, (n_rows,) each; NaN where not earned."""
    if calibration is None or calibration.platt is None:
        none = np.full(len(scores), np.nan)
        return none, none, none
    return calibration.platt.chances(scores)


def decision_curve(
    p: np.ndarray, positive: np.ndarray, weight: np.ndarray
) -> DecisionCurve:
    """Net benefit of reviewing everyone above a threshold probability, against reviewing all or none.

    Net benefit = TP / n - FP / n x t / (1 - t) (Vickers and Elkin 2006): true cases per patient, less the
    needless reviews at the rate of exchange that the threshold t states. Reviewing none is 0.
    """
    prevalence = float(np.average(positive, weights=weight))
    at = np.linspace(0.01, float(np.clip(4 * prevalence, 0.2, 0.6)), 40)
    called = p >= at[:, None]
    total = weight.sum()
    true, false = (
        called @ (weight * positive) / total,
        called @ (weight * ~positive) / total,
    )
    odds = at / (1 - at)
    return DecisionCurve(
        threshold=at.tolist(),
        model=(true - false * odds).tolist(),
        all=(prevalence - (1 - prevalence) * odds).tolist(),
    )


def _unearned(reason: str) -> Calibration:
    return Calibration(earned=False, reason=reason)


def _cross_fitted(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    p = np.empty(len(scores))
    for number in np.unique(fold):
        test = fold == number
        p[test] = fit_platt(scores[~test], positive[~test], weight[~test]).chances(
            scores[test]
        )[0]
    return _bounded(p)


def _bounded(p: np.ndarray) -> np.ndarray:
    # No number of rows proves a chance of 0 or 1.
    return np.clip(p, 0.5 / len(p), 1 - 0.5 / len(p))


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
    tenth = np.minimum((among * BINS * (1 - 1e-12)).astype(int), BINS - 1)[number]
    described = []
    for number in np.unique(tenth):
        rows = tenth == number
        w, observed = weight[rows], np.average(positive[rows], weights=weight[rows])
        size = float(w.sum() ** 2 / np.square(w).sum())
        if codes is not None:
            size /= design_effect(positive[rows], codes[rows])
        described.append(
            Bin(
                predicted=np.average(p[rows], weights=w),
                observed=Estimate(observed, *map(float, wilson(observed * size, size))),
                n=rows.sum(),
                size=size,
            )
        )
    return described


def p_values(calibration: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Share of negatives, the new one counted among them, that score at least as high.

    p = (1 + number of calibration scores >= s) / (n + 1). For a negative exchangeable with the calibration
    negatives, P(p <= j / (n + 1)) is j / (n + 1) where scores do not tie, and less where they do (Vovk et al.
    2005): class-conditional, since positives have no part in it. `calibration` are held-out scores of known
    negatives, sorted ascending; where rows come in groups, one a group (`group_maxima`), and then a p-value
    is asked for a group's highest score.
    """
    calibration = np.asarray(calibration, float)
    below = np.searchsorted(calibration, np.asarray(scores, float), side="left")
    return (1 + len(calibration) - below) / (len(calibration) + 1)


def group_maxima(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The highest score of each group, sorted ascending: rows of one patient are no independent witnesses."""
    codes = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    highest = np.full(codes.max(initial=-1) + 1, -np.inf)
    np.maximum.at(highest, codes, np.asarray(scores, float))
    return np.sort(highest)


def resolution_warning(
    n_calibration: int, n_screened: int, q: float = 0.1
) -> str | None:
    """Why no discovery may be possible at rate q, or None where a single case could be one.

    The smallest p-value is 1 / (n + 1): q is reached only if m / (q (n + 1)) of m screened tie there.
    """
    needed = n_screened / (q * (n_calibration + 1))
    if needed <= 1:
        return None
    return (
        f"{n_calibration} negatives resolve p-values down to {1 / (n_calibration + 1):.2g}: among "
        f"{n_screened} screened, a false discovery rate of {q:g} needs at least "
        f"{np.ceil(needed - 1e-9):.0f} of them above every known negative"
    )
