"""Settings whose folds' machines disagree carry no threshold; those that only score coarsely do."""

from __future__ import annotations

import numpy as np
import pytest

from screening.validation.choice import APART, CONSTANT, NOT_FINITE, unusable

N = 300
FOLD = np.arange(N) % 5
TARGET = (np.arange(N) % 7 == 0).astype(int)


def why(decisions):
    return unusable(np.asarray(decisions, float)[:, None], TARGET, FOLD)


@pytest.mark.parametrize("share", [0.1, 0.16, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_folds_that_score_yes_and_no_a_little_differently_do_not_lie_apart(share, seed):
    rng = np.random.default_rng(seed)
    yes = rng.random(N) < share

    assert why(np.where(yes, 0.1, -2.3) + rng.normal(0, 0.1, 5)[FOLD]) is None


def test_a_fold_whose_intercept_flipped_lies_apart():
    decisions = np.random.default_rng(0).normal(size=N)

    assert why(decisions) is None
    assert why(decisions + 6 * (FOLD == 3)) == APART


def test_scores_that_are_constant_or_not_finite_carry_no_threshold():
    decisions = np.random.default_rng(0).normal(size=N)

    assert why(np.full(N, 3.0)) == CONSTANT
    assert why(np.where(np.arange(N) == 7, np.inf, decisions)) == NOT_FINITE
