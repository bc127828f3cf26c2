"""Forests as arrays: they score as scikit-learn's trees do, and a row scores alike in any batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines_cohort import three_clouds, two_clouds
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from screening.estimators.forests import BalancedForest, RandomForest, Trees, rounded_down
from screening.kernels.threads import limit_threads

FORESTS = [RandomForest(n_estimators=10), BalancedForest(n_estimators=10)]
every_forest = pytest.mark.parametrize("forest", FORESTS, ids=lambda forest: type(forest).__name__)


def with_constants(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), np.round(x, 1), np.zeros(len(x))])


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        (two_clouds(400), {}), (two_clouds(3000), {"min_samples_leaf": 1}),
        (two_clouds(400), {"max_depth": 1, "n_estimators": 1}),
        (two_clouds(400), {"class_weight": "balanced_subsample"}),
        (three_clouds(400), {"class_weight": "balanced"}), (three_clouds(400), {"min_samples_leaf": 400}),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else f"{len(given[0])} rows",
)  # fmt: skip
def test_trees_as_arrays_give_the_probabilities_of_scikit_learn(rows, given):
    x, y = with_constants(rows[0]), rows[1]
    forest = RandomForestClassifier(**{"n_estimators": 20, "random_state": 0} | given).fit(x, y)
    new = with_constants(np.random.default_rng(1).normal(scale=2.0, size=(1500, rows[0].shape[1])))

    shares = Trees.of(forest.estimators_).shares(new.astype(np.float32))

    np.testing.assert_allclose(shares, forest.predict_proba(new), rtol=0, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), exponent=st.integers(-30, 30), digits=st.integers(0, 6))
def test_rows_on_a_threshold_go_the_same_way_whatever_the_scale(seed, exponent, digits):
    rng = np.random.default_rng(seed)
    x = (np.round(rng.normal(size=(60, 3)), digits) * 10.0**exponent).astype(np.float32)
    tree = DecisionTreeClassifier(random_state=0).fit(x, np.arange(60) % 3)
    splits = tree.tree_.feature >= 0
    on = np.repeat(rounded_down(tree.tree_.threshold[splits])[:, None], 3, axis=1)
    new = np.concatenate([x, on, np.nextafter(on, np.float32(np.inf))])

    np.testing.assert_allclose(Trees.of([tree]).shares(new), tree.predict_proba(new), rtol=0, atol=1e-6)


@pytest.mark.parametrize("class_weight", ["none", "balanced_subsample"])
@pytest.mark.parametrize("cases", [[60, 240], [2, 50, 148]], ids=["two classes", "a class of two rows"])
def test_a_forest_is_the_one_that_scikit_learn_grows(class_weight, cases):
    """Growing on the drawn rows alone changes no tree, also where a tree draws no row of some class."""
    x = np.random.default_rng(3).normal(size=(sum(cases), 4)).astype(np.float32)
    y = np.repeat(np.arange(len(cases)), cases)
    weight = None if class_weight == "none" else class_weight
    theirs = RandomForestClassifier(40, min_samples_leaf=3, class_weight=weight, random_state=5).fit(x, y)

    own = RandomForest(40, class_weight=class_weight, seed=5).fit(x, y)

    assert np.allclose(own.predict_proba(x), theirs.predict_proba(x), atol=1e-6)


def test_trees_of_a_balanced_forest_stand_on_as_many_rows_of_each_class():
    x = np.random.default_rng(0).normal(size=(2000, 4))
    y = np.where(np.arange(2000) % 40 == 0, "rare", np.where(np.arange(2000) % 3 == 0, "some", "most"))

    # 50 rows of each class are drawn: leaves of more than half of them leave every tree at its root.
    shares = BalancedForest(n_estimators=5, min_samples_leaf=76).fit(x, y).predict_proba(x)

    np.testing.assert_allclose(shares, 1 / 3, atol=1e-7)


@every_forest
def test_a_forest_ranks_what_no_line_can_and_follows_its_seed(forest):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 3))
    y = (np.abs(x[:, 0]) > 1.6).astype(int)
    fitted = forest.fit(x[:600], y[:600])
    scores = fitted.decision_function(x[600:])

    again = type(forest)(**forest.get_params()).fit(x[:600], y[:600]).decision_function(x[600:])
    other = type(forest)(**forest.get_params() | {"seed": 1}).fit(x[:600], y[:600]).decision_function(x[600:])

    assert roc_auc_score(y[600:], scores) > 0.97
    np.testing.assert_array_equal(again, scores)
    assert (other != scores).any()


@every_forest
def test_a_row_scores_the_same_in_any_batch_on_any_number_of_threads(forest):
    x, y = two_clouds(200)
    fitted = forest.fit(x, y)
    table = np.random.default_rng(3).normal(size=(5000, 3))
    with limit_threads(1):
        alone = fitted.decision_function(table)

    with limit_threads(4):
        np.testing.assert_array_equal(fitted.decision_function(table), alone)
    for rows in ([0], [4999, 17, 512], slice(500, 1100)):
        np.testing.assert_array_equal(fitted.decision_function(table[rows]), alone[rows])
