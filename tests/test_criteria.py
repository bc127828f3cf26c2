"""Inner validation judges by the figure it names."""

import numpy as np
import pytest

from screening.errors import RecipeError
from screening.recipes.recipe import CRITERIA
from screening.validation.search import criterion

DECISION = np.array([-2.0, -1.0, 0.5, -0.2, 1.0, 2.0])
TARGET = np.array([0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auroc", 8 / 9),
        ("g_mean", 2 / 3),
        ("best_g_mean", np.sqrt(2 / 3)),
        ("balanced_accuracy", 2 / 3),
        ("average_precision", (1 + 1 + 3 / 4) / 3),
    ],
)
def test_a_binary_criterion_has_its_textbook_value(name, value):
    assert criterion(name, DECISION, TARGET) == pytest.approx(value)


@pytest.mark.parametrize("name", CRITERIA)
def test_a_perfect_ranking_is_worth_one(name):
    assert criterion(name, TARGET - 0.5, TARGET) == pytest.approx(1.0)


@pytest.mark.parametrize("name", CRITERIA)
def test_perfect_decisions_for_three_classes_are_worth_one(name):
    target = np.array([0, 1, 2, 2, 1, 0])
    assert criterion(name, np.eye(3)[target], target) == pytest.approx(1.0)


def test_an_unknown_criterion_is_refused_with_the_list():
    with pytest.raises(RecipeError, match="auroc"):
        criterion("accuracy", DECISION, TARGET)
