"""Boosting: it scores as LightGBM does, and its stored text needs LightGBM to be read."""

from pathlib import Path

import numpy as np
import pytest
from machines_cohort import three_clouds, two_clouds
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from screening import load_model, read_cohort, save_model, train
from screening.cohort.cohort import Cohort
from screening.errors import ModelError, RecipeError
from screening.machines import baselines
from screening.machines.baselines import Boosting
from screening.recipes.loading import load_recipe, read_recipe

BLEND = """
name = "mine"
title = "Mine"
paper = "None"
machine = "blend"
members = ["logistic", "boosting"]
"""

lightgbm = baselines.lightgbm()
with_lightgbm = pytest.mark.skipif(
    lightgbm is None, reason="LightGBM (the extra `boosting`) is not installed"
)


@pytest.fixture
def no_lightgbm(monkeypatch):
    monkeypatch.setattr(baselines, "lightgbm", lambda: None)


@pytest.fixture
def no_lightgbm_later(monkeypatch):
    return lambda: monkeypatch.setattr(baselines, "lightgbm", lambda: None)


def past_of(folder: Path) -> Cohort:
    (folder / "past.csv").write_text("id,u,y\n" + "".join(f"{i},{3 * i},{i % 2}\n" for i in range(60)))
    return read_cohort(folder / "past.csv", label="y", positive="1", id="id")


def theirs_and_ours(x: np.ndarray, y: np.ndarray, **given: object):
    """LightGBM's own model and the estimator."""
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
        (two_clouds(400), {"class_weight": {0: 1.0, 1: 30.0}}), (two_clouds(400), {"max_leaf_nodes": 2}),
        (two_clouds(24), {"min_samples_leaf": 20}), (three_clouds(400), {}),
        (three_clouds(400), {"class_weight": "balanced", "n_rounds": 3}),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else f"{len(given[0])} rows",
)  # fmt: skip
def test_scores_are_what_lightgbm_predicts(rows, given):
    x = np.column_stack([np.ones(len(rows[0])), rows[0]]).astype(np.float32)
    new = np.random.default_rng(1).normal(scale=3.0, size=(1500, x.shape[1])).astype(np.float32)

    theirs, ours = theirs_and_ours(x, rows[1], **given)
    raw = theirs.predict(new, raw_score=True)
    expected = raw if raw.ndim == 1 else log_softmax(raw, axis=1)

    np.testing.assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-12)


@with_lightgbm
def test_a_restored_model_of_three_classes_scores_bit_for_bit_the_same():
    x, y = three_clouds(90)
    fitted = Boosting().fit(x, y)
    state = {name: np.array(value) for name, value in fitted.state().items()}

    again = Boosting().restore(state)

    np.testing.assert_array_equal(again.decision_function(x), fitted.decision_function(x))
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))


@with_lightgbm
def test_a_stored_model_is_refused_without_lightgbm_with_what_to_install(no_lightgbm_later, tmp_path):
    cohort = past_of(tmp_path)
    folder = save_model(train(cohort, "boosting", search=1, forward=False), tmp_path / "model")
    no_lightgbm_later()

    with pytest.raises(ModelError, match=r"pip install \"screening\[boosting\]\""):
        load_model(folder)


@with_lightgbm
@pytest.mark.parametrize(
    "change",
    [{"text": np.frombuffer(b"tree\nversion=v4\n", np.uint8)}, {"text": np.array([255], np.uint8)},
     {"classes": np.arange(3)}],
    ids=["no trees", "no text", "other classes"],
)  # fmt: skip
def test_a_text_that_is_no_such_model_is_refused(change):
    state = Boosting(n_rounds=3).fit(*two_clouds(90)).state()

    with pytest.raises(ModelError):
        Boosting(n_rounds=3).restore(state | change)
    with pytest.raises(ModelError, match="text"):
        Boosting(n_rounds=3).restore({"classes": state["classes"]})


def test_without_lightgbm_boosting_learns_to_be_compared_with(no_lightgbm):
    x, y = two_clouds(400)
    fitted = Boosting().fit(x[:200], y[:200])

    assert roc_auc_score(y[200:], fitted.decision_function(x[200:])) > 0.8
    assert Boosting().fit(*three_clouds(90)).decision_function(np.zeros((5, 2))).shape == (5, 3)


@pytest.mark.parametrize("recipe", [load_recipe("boosting"), read_recipe(BLEND)], ids=lambda one: one.name)
def test_without_lightgbm_train_says_what_to_install(no_lightgbm, recipe, tmp_path):
    cohort = past_of(tmp_path)

    with pytest.raises(RecipeError, match=r"pip install \"screening\[boosting\]\""):
        train(cohort, recipe)
