"""Settings whose folds' machines disagree carry no threshold, and are judged by the figure that is named."""

from typing import get_args

import numpy as np
import pytest

from screening.metrics.ranking import auroc
from screening.model_selection.search import APART, CONSTANT, NOT_FINITE, choose_setting, criterion, unusable
from screening.recipes.recipe import Criterion

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


def test_the_better_of_two_settings_wins_by_a_hundredth():
    """Of settings alike the first."""
    noise = np.random.default_rng(1).normal(size=N)
    decisions = np.array([0.8 * TARGET + noise, 0.9 * TARGET + noise])[..., None]
    worse, better = (auroc(each[:, 0], TARGET == 1) for each in decisions)

    best, first = (
        choose_setting("auroc", "svm", [{}, {"C": 2.0}], decisions[rows], TARGET, FOLD)
        for rows in ([0, 1], [0, 0])
    )

    assert 0 < better - worse < 0.03
    assert (best.chosen, best.scores, first.chosen) == ({"C": 2.0}, [worse, better], {})


@pytest.mark.parametrize(("n_narrow", "said"), [(15, None), (60, APART)])
def test_a_fold_scored_far_more_narrowly_lies_apart_where_it_has_rows_to_tell(n_narrow, said):
    decisions = np.random.default_rng(4).normal(size=N)
    narrow = np.arange(N) < n_narrow
    fold = np.where(narrow, 4, np.arange(N) % 4)
    decisions[narrow] *= 1e-4

    assert unusable(decisions[:, None], np.zeros(N, int), fold) == said


def test_scores_that_are_constant_not_finite_or_flipped_in_a_fold_carry_no_threshold():
    decisions = np.random.default_rng(0).normal(size=N)

    assert why(decisions) is None
    assert why(decisions + 6 * (FOLD == 3)) == APART
    assert why(np.full(N, 3.0)) == why(1 + 1e-13 * decisions) == CONSTANT
    assert why(np.where(np.arange(N) == 7, np.inf, decisions)) == NOT_FINITE


DECISION = np.array([-2.0, -1.0, 0.5, -0.2, 1.0, 2.0])
TRUTH = np.array([0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auroc", 8 / 9), ("g_mean", 2 / 3), ("best_g_mean", np.sqrt(2 / 3)), ("balanced_accuracy", 2 / 3),
        ("average_precision", (1 + 1 + 3 / 4) / 3),
    ],
)  # fmt: skip
def test_a_binary_criterion_has_its_textbook_value(name, value):
    assert criterion(name, DECISION, TRUTH) == pytest.approx(value)


@pytest.mark.parametrize("name", get_args(Criterion))
def test_perfect_decisions_for_two_or_three_classes_are_worth_one(name):
    target = np.array([0, 1, 2, 2, 1, 0])

    assert criterion(name, TRUTH - 0.5, TRUTH) == pytest.approx(1.0)
    assert criterion(name, np.eye(3)[target], target) == pytest.approx(1.0)
