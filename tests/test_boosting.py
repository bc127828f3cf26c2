"""Boosting as arrays: it scores as LightGBM does, is read without it, and nothing forged is walked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines_cohort import three_clouds, two_clouds
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from screening import read_cohort, train
from screening.errors import ModelError, RecipeError
from screening.machines import boosting
from screening.machines.boosting import Boosting, read_text
from screening.recipes.loading import load_recipe, read_recipe

BLEND = """
name = "mine"
title = "Mine"
paper = "None"
machine = "blend"
members = ["logistic", "boosting"]
"""

lightgbm = boosting.lightgbm()
with_lightgbm = pytest.mark.skipif(
    lightgbm is None, reason="LightGBM (the extra `boosting`) is not installed"
)


@pytest.fixture
def no_lightgbm(monkeypatch):
    monkeypatch.setattr(boosting, "lightgbm", lambda: None)


def theirs_and_ours(x: np.ndarray, y: np.ndarray, **given: object) -> tuple[lightgbm.Booster, Boosting]:
    """LightGBM's own model and what was read of it."""
    models = []

    class Kept(Boosting):
        def _by_lightgbm(self, *rows):
            models.append(super()._by_lightgbm(*rows))
            return models[-1]

    fitted = Kept(**given).fit(x, y)
    return models[0], fitted


@with_lightgbm
@pytest.mark.parametrize(
    ("rows", "given"),
    [
        (two_clouds(400), {}),
        (two_clouds(3000), {"max_leaf_nodes": 200, "min_samples_leaf": 1, "n_rounds": 200}),
        (two_clouds(400), {"class_weight": "balanced", "learning_rate": 0.5}),
        (two_clouds(400), {"class_weight": {0: 1.0, 1: 30.0}}),
        (two_clouds(400), {"max_leaf_nodes": 2}),
        (two_clouds(24), {"min_samples_leaf": 20}),
        (three_clouds(400), {}),
        (three_clouds(400), {"class_weight": "balanced", "n_rounds": 3}),
    ],
    ids=str,
)
def test_trees_read_from_the_text_score_as_lightgbm_predicts(rows, given):
    x = np.column_stack([np.ones(len(rows[0])), rows[0]]).astype(np.float32)
    new = np.random.default_rng(1).normal(scale=3.0, size=(1500, x.shape[1])).astype(np.float32)

    theirs, ours = theirs_and_ours(x, rows[1], **given)
    raw = theirs.predict(new, raw_score=True)
    expected = raw if raw.ndim == 1 else log_softmax(raw, axis=1)

    np.testing.assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-6)


@with_lightgbm
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), exponent=st.integers(-30, 30), digits=st.integers(0, 4))
def test_rows_on_a_threshold_go_the_same_way_whatever_the_scale(seed, exponent, digits):
    rng = np.random.default_rng(seed)
    x = (np.round(rng.normal(size=(60, 3)), digits) * 10.0**exponent).astype(np.float32)
    theirs, ours = theirs_and_ours(x, np.arange(60) % 2, min_samples_leaf=2, n_rounds=10)
    limits = ours.trees_.threshold[ours.trees_.feature >= 0]
    # What lies within 1e-35 of zero LightGBM takes for zero, its own threshold there included.
    on = np.repeat(np.where(np.abs(limits) < 1e-34, 0, limits)[:, None], 3, axis=1)
    new = np.concatenate([x, on, np.nextafter(on, np.float32(np.inf))])

    np.testing.assert_allclose(
        ours.decision_function(new), theirs.predict(new, raw_score=True), rtol=0, atol=1e-6
    )


@with_lightgbm
def test_boosting_ranks_what_no_line_can_and_gives_the_same_bytes_again():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 3))
    y = (np.abs(x[:, 0]) > 1.6).astype(int)
    fitted = Boosting().fit(x[:600], y[:600])

    again = Boosting().fit(x[:600], y[:600])

    assert roc_auc_score(y[600:], fitted.decision_function(x[600:])) > 0.97
    assert [a.tobytes() for a in again.state().values()] == [a.tobytes() for a in fitted.state().values()]


@with_lightgbm
@pytest.mark.parametrize("rows", [two_clouds(90), three_clouds(90)], ids=["two classes", "three"])
def test_what_is_stored_is_scored_bit_for_bit_without_lightgbm(rows, monkeypatch):
    x, y = rows
    fitted = Boosting().fit(x, y)
    state = {name: np.array(value) for name, value in fitted.state().items()}
    monkeypatch.setattr(boosting, "lightgbm", lambda: None)

    again = Boosting().restore(state)

    np.testing.assert_array_equal(again.decision_function(x), fitted.decision_function(x))
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))


@with_lightgbm
@pytest.mark.parametrize(
    ("given", "categories", "missing"),
    [({}, "auto", [np.nan]), ({"zero_as_missing": True}, "auto", [0.0]), ({}, [0], [])],
    ids=["a side for missing values", "zero as missing", "categories"],
)
def test_a_split_that_our_trees_do_not_know_is_refused_and_not_misread(given, categories, missing):
    rng = np.random.default_rng(4)
    x = rng.integers(1, 5, size=(400, 1)).astype(float)
    x[: 100 * len(missing), 0] = np.resize(missing, 100 * len(missing))
    y = np.isin(x[:, 0], [2, 4]) | ~(x[:, 0] > 0)
    asked = {"objective": "binary", "verbosity": -1, "min_data_per_group": 1} | given
    rows = lightgbm.Dataset(x, y, categorical_feature=categories, params=asked)
    text = lightgbm.train(asked, rows, 2).model_to_string()

    with pytest.raises(ValueError, match="only numeric splits"):
        read_text(text, 2)


@with_lightgbm
def test_a_missing_value_reaches_no_tree():
    x, y = two_clouds(90)
    fitted = Boosting(n_rounds=3).fit(x, y)
    x[3, 1] = np.nan

    with pytest.raises(ValueError, match="NaN"):
        fitted.decision_function(x)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(x, y)


def forged(n_trees: int, n_outputs: int) -> dict[str, np.ndarray]:
    """State of trees that are leaves alone."""
    return {
        "classes": np.arange(max(2, n_outputs)),
        "n_features": np.asarray(1),
        "feature": np.full(n_trees, -1, np.int32),
        "threshold": np.zeros(n_trees, np.float32),
        "value": np.ones((n_trees, n_outputs)),
    }


@pytest.mark.parametrize(("n_trees", "n_outputs"), [(2, 1), (3, 1), (3, 3), (9, 3)])
def test_trees_may_be_fewer_than_rounds_and_values_of_any_size(n_trees, n_outputs):
    scores = Boosting(n_rounds=3).restore(forged(n_trees, n_outputs)).decision_function([[0.0]])

    np.testing.assert_allclose(scores.ravel(), n_trees if n_outputs == 1 else [np.log(1 / 3)] * 3)


@pytest.mark.parametrize(("n_trees", "n_outputs"), [(4, 1), (4, 3), (12, 3)])
def test_more_trees_than_rounds_or_not_as_many_of_each_class_are_refused(n_trees, n_outputs):
    with pytest.raises(ModelError, match=f"{n_trees} trees"):
        Boosting(n_rounds=3).restore(forged(n_trees, n_outputs))


@pytest.mark.parametrize(
    "value", [np.full((3, 1), np.inf), np.ones((3, 1), np.float16), np.ones((2, 1))], ids=str
)
def test_values_that_are_not_finite_or_of_another_type_are_refused(value):
    with pytest.raises(ModelError):
        Boosting(n_rounds=3).restore(forged(3, 1) | {"value": value})


def test_without_lightgbm_boosting_learns_to_be_compared_with(no_lightgbm):
    x, y = two_clouds(400)
    fitted = Boosting().fit(x[:200], y[:200])

    assert roc_auc_score(y[200:], fitted.decision_function(x[200:])) > 0.8
    assert Boosting().fit(*three_clouds(90)).decision_function(np.zeros((5, 2))).shape == (5, 3)


@pytest.mark.parametrize("recipe", [load_recipe("boosting"), read_recipe(BLEND)], ids=lambda one: one.name)
def test_without_lightgbm_train_says_what_to_install(no_lightgbm, recipe, tmp_path):
    (tmp_path / "past.csv").write_text("id,u,y\n" + "".join(f"{i},{3 * i},{i % 2}\n" for i in range(60)))
    cohort = read_cohort(tmp_path / "past.csv", label="y", positive="1", id="id")

    with pytest.raises(RecipeError, match=r"pip install \"screening\[boosting\]\""):
        train(cohort, recipe)


@pytest.mark.parametrize(
    ("machine", "word"),
    [
        (Boosting(n_rounds=0), "n_rounds"),
        (Boosting(learning_rate=np.inf), "learning_rate"),
        (Boosting(max_leaf_nodes=1), "max_leaf_nodes"),
        (Boosting(min_samples_leaf=2.5), "min_samples_leaf"),
        (Boosting(class_weight="much"), "class_weight"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(machine, word):
    with pytest.raises(ValueError, match=word):
        machine.fit(*two_clouds())
