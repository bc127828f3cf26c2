"""Forests and boosting as arrays: they score as scikit-learn's and LightGBM's trees do,
in any batch.
"""

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st
from machines_cohort import three_clouds, two_clouds
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from screening import load_model, load_recipe, read_cohort, save_model, train
from screening.data.encoding import Encoder
from screening.errors import ModelError, RecipeError
from screening.estimators import boosting
from screening.estimators.boosting import Boosting, HistogramBoosting
from screening.estimators.ensembles import FoldEnsemble
from screening.estimators.forests import (
    BalancedForest,
    RandomForest,
    Trees,
    rounded_down,
)
from screening.model_selection.compare import expand_all
from screening.recipes.building import read_recipe
from screening.threads import limit_threads

FORESTS = [RandomForest(n_estimators=10), BalancedForest(n_estimators=10)]
every_forest = pytest.mark.parametrize(
    "forest", FORESTS, ids=lambda forest: type(forest).__name__
)


@given(
    seed=st.integers(0, 10_000), exponent=st.integers(-30, 30), digits=st.integers(0, 6)
)
def test_rows_on_a_threshold_go_the_same_way_whatever_the_scale(seed, exponent, digits):
    rng = default_rng(seed)
    values = np.round(rng.normal(size=(60, 3)), digits)
    x = (values * 10.0**exponent).astype(np.float32)
    classes = np.arange(60) % 3
    tree = DecisionTreeClassifier(random_state=0).fit(x, classes)
    splits = tree.tree_.feature >= 0
    thresholds = rounded_down(tree.tree_.threshold[splits])
    on = np.repeat(thresholds[:, None], 3, axis=1)
    above = np.nextafter(on, np.float32(np.inf))
    new = np.concatenate([x, on, above])
    shares = Trees.of([tree]).shares(new)
    expected = tree.predict_proba(new)
    assert_allclose(shares, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n_leaves", [1, 2, 8, 9, 16, 17, 32, 33, 64, 65])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_leaves_of_any_number(n_leaves, n_classes):
    """Leaves are numbered by words of 8 to 64 bits, and not at all in larger trees."""
    rng = default_rng(n_leaves)
    x = rng.normal(size=(2000, 4)).astype(np.float32)
    y = np.arange(2000) % n_classes
    fitted = []
    for seed in range(3):
        tree = DecisionTreeClassifier(
            max_leaf_nodes=max(n_leaves, 2),
            # Of a single leaf: no split leaves so many rows on both sides.
            min_samples_leaf=1001 if n_leaves == 1 else 1,
            random_state=seed,
        )
        fitted.append(tree.fit(x, rng.permutation(y)))
    assert fitted[0].get_n_leaves() == n_leaves

    shares = Trees.of(fitted).shares(x)

    of_each = [tree.predict_proba(x) for tree in fitted]
    expected = np.mean(of_each, axis=0)
    assert_allclose(shares, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced_subsample"])
@pytest.mark.parametrize("least", [1, 3, 400], ids=["pure", "leaves", "roots alone"])
@pytest.mark.parametrize(
    "cases", [[60, 240], [2, 50, 148]], ids=["two classes", "a class of two rows"]
)
def test_a_forest_is_the_one_that_scikit_learn_grows(class_weight, least, cases):
    """Growing on the drawn rows alone changes no tree, also where a tree draws no row
    of some class.
    """
    rng = default_rng(3)
    n_rows = sum(cases)
    numbers = rng.normal(size=(n_rows, 4)).round(1)
    x = np.column_stack([np.ones(n_rows), numbers]).astype(np.float32)
    new = rng.normal(scale=2.0, size=(500, 5)).astype(np.float32)
    y = np.repeat(np.arange(len(cases)), cases)
    theirs = RandomForestClassifier(
        40, min_samples_leaf=least, class_weight=class_weight, random_state=5
    )
    own = RandomForest(
        40, min_samples_leaf=least, class_weight=class_weight or "none", seed=5
    ).fit(x, y)

    expected = theirs.fit(x, y).predict_proba(new)
    found = own.predict_proba(new)
    assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_balanced_forest_rows():
    """Trees of a balanced forest stand on as many rows of each class."""
    x = default_rng(0).normal(size=(2000, 4))
    rows = np.arange(2000)
    y = np.where(rows % 3 == 0, "some", "most")
    y[rows % 40 == 0] = "rare"
    # 50 rows of each class are drawn: leaves of more than half of them leave every tree
    # at its root.
    forest = BalancedForest(n_estimators=5, min_samples_leaf=76).fit(x, y)
    shares = forest.predict_proba(x)
    assert_allclose(shares, 1 / 3, atol=1e-7)


@every_forest
def test_a_row_scores_the_same_in_any_batch_on_any_number_of_threads(forest):
    x, y = two_clouds(200)
    fitted = forest.fit(x, y)
    table = default_rng(3).normal(size=(5000, 3))
    with limit_threads(1):
        alone = fitted.decision_function(table)

    with limit_threads(4):
        assert_array_equal(fitted.decision_function(table), alone)
    for rows in ([0], [4999, 17, 512], slice(500, 1100)):
        assert_array_equal(fitted.decision_function(table[rows]), alone[rows])


lightgbm = boosting.lightgbm()
with_lightgbm = pytest.mark.skipif(
    lightgbm is None, reason="LightGBM (the extra `boosting`) is not installed"
)


PAST = pd.DataFrame(
    {
        "id": range(60),
        "u": [7 * n % 40 for n in range(60)],
        "y": [0, 1] * 30,
    }
)
WHO = {"label": "y", "positive": "1", "id": "id"}


def against_the_rest(raw: np.ndarray) -> np.ndarray:
    others = []
    for m in range(raw.shape[1]):
        rest = np.delete(raw, m, axis=1)
        others.append(logsumexp(rest, axis=1))
    return raw - np.column_stack(others)


HISTOGRAMS = [
    (two_clouds(400), {}),
    (two_clouds(3000), {"max_leaf_nodes": 200, "min_samples_leaf": 1, "n_rounds": 200}),
    (two_clouds(400), {"class_weight": "balanced", "learning_rate": 0.5}),
    (two_clouds(400), {"class_weight": {0: 1.0, 1: 30.0}}),
    (two_clouds(24), {"min_samples_leaf": 20}),
    (three_clouds(400), {}),
    (three_clouds(400), {"class_weight": "balanced", "n_rounds": 3}),
]
histograms = pytest.mark.parametrize(
    ("rows", "given"), HISTOGRAMS, ids=range(len(HISTOGRAMS))
)


def encoded_rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Of a table with values that are missing, categories and ties, and a class a
    row.
    """
    table = patients(n_rows, share=0.3, seed=seed)
    table["fever"] = table["fever"].round(1)
    table.loc[::7, "ward"] = None
    codes = np.where(table["ill"] == "yes", 1, 0)
    return table, codes + (table["fever"] > 37.8)


@pytest.mark.parametrize("classes", [2, 3])
def test_arrays_decide_on_new_rows_as_scikit_learn_does(classes, tmp_path):
    """With missing values, categories and rows that lie on a threshold."""
    table, codes = encoded_rows(700, seed=3)
    codes = np.minimum(codes, classes - 1)
    path = written(table, tmp_path / "t.csv")
    cohort = read_cohort(path, label="ill", id="patient")
    encoder = Encoder(cohort.contract.features).fit(cohort.values)
    x = encoder.transform(cohort.values).astype(np.float32)
    given = {"max_leaf_nodes": 15, "min_samples_leaf": 5, "learning_rate": 0.1}
    theirs = HistGradientBoostingClassifier(
        max_iter=40, early_stopping=False, random_state=0, **given
    )
    theirs.fit(x[:500], codes[:500])
    ours = HistogramBoosting(n_rounds=40, **given)
    ours.fit(x[:500], codes[:500])
    on = x[500:].copy()
    thresholds = ours.trees_.threshold[ours.trees_.feature == 0]
    on[:, 0] = np.resize(thresholds, len(on))

    for new in (x[500:], on):
        raw = theirs.decision_function(new)
        expected = raw if classes == 2 else against_the_rest(raw)
        assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-5)


def test_boosting_shrinks_leaves_by_rows_however_rare_the_cases():
    """The constant of scikit-learn is a number of rows times p (1 - p)."""
    rng = default_rng(0)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = x[:, 0] + rng.normal(size=600) > 2.2
    share = y.mean()
    theirs = HistGradientBoostingClassifier(
        max_iter=20,
        max_leaf_nodes=15,
        min_samples_leaf=10,
        l2_regularization=12 * share * (1 - share),
        early_stopping=False,
        random_state=0,
    )
    expected = theirs.fit(x, y).decision_function(x)

    ours = HistogramBoosting(n_rounds=20, l2_regularization=12.0).fit(x, y)

    decisions = ours.decision_function(x)
    assert_allclose(decisions, expected, rtol=0, atol=1e-5)


@with_lightgbm
@histograms
def test_scores_are_what_lightgbm_predicts_also_of_a_restored_model(
    rows, given, monkeypatch
):
    numbers, _ = rows
    constant = np.ones(len(numbers))
    x = np.column_stack([constant, numbers]).astype(np.float32)
    rng = default_rng(1)
    new = rng.normal(scale=3.0, size=(1500, x.shape[1])).astype(np.float32)
    models = []
    train_theirs = lightgbm.train
    monkeypatch.setattr(
        lightgbm,
        "train",
        lambda *own, **named: models.append(train_theirs(*own, **named)) or models[-1],
    )
    ours = Boosting(**given).fit(x, rows[1])
    raw = models[0].predict(new, raw_score=True)
    expected = raw if raw.ndim == 1 else against_the_rest(raw)

    assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-12)
    state = {name: np.array(value) for name, value in ours.state().items()}
    again = Boosting(**given).restore(state)
    assert_array_equal(again.decision_function(new), ours.decision_function(new))


@with_lightgbm
def test_boosting_without_lightgbm(monkeypatch, tmp_path):
    """Without LightGBM boosting is not among all and says what it needs.

    So does a stored model.
    """
    text = 'name = "mine"\ntitle = "Mine"\npaper = "None"\nmachine = "blend"\n'
    blend = read_recipe(text + 'members = ["logistic", "boosting"]')
    install = r"install \"screening\[boosting\]\""
    model = train(
        PAST,
        "boosting",
        search=1,
        forward=False,
        beside=(),
        **WHO,
    )
    folder = save_model(model, tmp_path / "model")
    monkeypatch.setattr(boosting, "lightgbm", lambda: None)

    past = {"past": read_cohort(PAST, **WHO)}
    assert "boosting" not in expand_all(["all"], past)
    for recipe in (load_recipe("boosting"), blend):
        with pytest.raises(RecipeError, match=install):
            train(PAST, recipe, beside=(), **WHO)
    with pytest.raises(ModelError, match=install):
        load_model(folder)


@pytest.mark.parametrize(
    ("n_repeats", "n_estimators", "n_forests"),
    [
        (3, 100, 3),
        (1, 100, 3),
        (1, 40, 5),
    ],
)
def test_condensed_ensemble_scores_by_forests_of_the_same_size(
    n_repeats, n_estimators, n_forests
):
    """Each has an equal share of every fold's trees, and no tree is there twice."""
    x, y = two_clouds(60)
    folds = []
    for seed in range(5 * n_repeats):
        rows = np.arange(len(x)) % 5 != seed % 5
        forest = RandomForest(n_estimators, seed=seed)
        folds.append(forest.fit(x[rows], y[rows]))
    n_share = n_estimators // 5
    shares = []
    for k in range(5):
        own = folds[k].trees_.take(n_share * k, n_share * (k + 1))
        shares.append(own)

    model = FoldEnsemble(folds, "baseline", 1).condensed(5)

    assert len(model.machines) == n_forests
    n_trees = {forest.trees_.n_trees for forest in model.machines}
    assert n_trees == {n_estimators}
    expected = sum(share.sums(x) for share in shares)
    sums = model.machines[0].trees_.sums(x)
    assert_allclose(sums, expected)
    if n_forests == 5:
        of_folds = [forest.predict_proba(x) for forest in folds]
        of_model = [forest.predict_proba(x) for forest in model.machines]
        mean = np.mean(of_folds, axis=0)
        joined = np.mean(of_model, axis=0)
        assert_allclose(joined, mean)


def test_condensed_ensemble_keeps_forests_that_know_other_classes():
    x, y = three_clouds(30)
    others = y != y[0]
    all_classes = RandomForest(4).fit(x, y)
    two_classes = RandomForest(4).fit(x[others], y[others])
    folds = [all_classes, two_classes]
    ensemble = FoldEnsemble(folds, "baseline", 3)

    assert ensemble.condensed(2) is ensemble
