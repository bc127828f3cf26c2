"""Boosting: it scores as scikit-learn and LightGBM do, from arrays and from LightGBM's own text."""

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, written
from machines_cohort import three_clouds, two_clouds
from scipy.special import logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier

from screening import load_model, read_cohort, save_model, train
from screening.data.encoding import Encoder
from screening.errors import ModelError, RecipeError
from screening.estimators import boosting
from screening.estimators.boosting import Boosting, HistogramBoosting, boosted_trees
from screening.model_selection.compare import comparable
from screening.recipes.building import load_recipe, read_recipe

lightgbm = boosting.lightgbm()
with_lightgbm = pytest.mark.skipif(
    lightgbm is None, reason="LightGBM (the extra `boosting`) is not installed"
)


PAST = pd.DataFrame({"id": range(60), "u": range(0, 180, 3), "y": [0, 1] * 30})
WHO = {"label": "y", "positive": "1", "id": "id"}


def against_the_rest(raw: np.ndarray) -> np.ndarray:
    """Log odds of each class of a softmax."""
    others = [logsumexp(np.delete(raw, m, axis=1), axis=1) for m in range(raw.shape[1])]
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
histograms = pytest.mark.parametrize(("rows", "given"), HISTOGRAMS, ids=range(len(HISTOGRAMS)))


def encoded_rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Of a table with values that are missing, categories and ties, and a class a row."""
    table = patients(n_rows, share=0.3, seed=seed)
    table["fever"] = table["fever"].round(1)
    table.loc[::7, "ward"] = None
    return table, np.where(table["ill"] == "yes", 1, 0) + (table["fever"] > 37.8)


@pytest.mark.parametrize("classes", [2, 3])
def test_arrays_decide_on_new_rows_as_scikit_learn_does(classes, tmp_path):
    """With missing values, categories and rows that lie on a threshold."""
    table, codes = encoded_rows(700, seed=3)
    codes = np.minimum(codes, classes - 1)
    cohort = read_cohort(written(table, tmp_path / "t.csv"), label="ill", id="patient")
    x = Encoder(cohort.contract).fit(cohort).transform(cohort).astype(np.float32)
    given = {"max_leaf_nodes": 15, "min_samples_leaf": 5, "learning_rate": 0.1}
    theirs = HistGradientBoostingClassifier(max_iter=40, early_stopping=False, random_state=0, **given)
    theirs.fit(x[:500], codes[:500])

    ours = HistogramBoosting(n_rounds=40, **given).fit(x[:500], codes[:500])
    on = x[500:].copy()
    on[:, 0] = np.resize(ours.trees_.threshold[ours.trees_.feature == 0], len(on))

    for new in (x[500:], on):
        raw = theirs.decision_function(new)
        expected = raw if classes == 2 else against_the_rest(raw)
        np.testing.assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-5)


def test_trees_that_are_read_wrongly_are_noticed_at_the_fit(monkeypatch):
    def upside_down(model):
        trees = boosted_trees(model)
        trees.value *= -1
        return trees

    monkeypatch.setattr(boosting, "boosted_trees", upside_down)

    with pytest.raises(RecipeError, match="scikit-learn"):
        HistogramBoosting().fit(*two_clouds(90))


@with_lightgbm
@histograms
def test_scores_are_what_lightgbm_predicts_also_of_a_restored_model(rows, given, monkeypatch):
    x = np.column_stack([np.ones(len(rows[0])), rows[0]]).astype(np.float32)
    new = np.random.default_rng(1).normal(scale=3.0, size=(1500, x.shape[1])).astype(np.float32)
    models, train_theirs = [], lightgbm.train
    monkeypatch.setattr(
        lightgbm, "train", lambda *own, **named: models.append(train_theirs(*own, **named)) or models[-1]
    )

    ours = Boosting(**given).fit(x, rows[1])
    raw = models[0].predict(new, raw_score=True)
    expected = raw if raw.ndim == 1 else against_the_rest(raw)

    np.testing.assert_allclose(ours.decision_function(new), expected, rtol=0, atol=1e-12)
    again = Boosting(**given).restore({name: np.array(value) for name, value in ours.state().items()})
    np.testing.assert_array_equal(again.decision_function(new), ours.decision_function(new))


@with_lightgbm
def test_a_stored_model_is_refused_without_lightgbm_with_what_to_install(monkeypatch, tmp_path):
    model = train(PAST, "boosting", search=1, forward=False, beside=(), **WHO)
    folder = save_model(model, tmp_path / "model")
    monkeypatch.setattr(boosting, "lightgbm", lambda: None)

    with pytest.raises(ModelError, match=r"pip install \"screening\[boosting\]\""):
        load_model(folder)


def test_without_lightgbm_boosting_is_not_among_all_and_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(boosting, "lightgbm", lambda: None)
    text = 'name = "mine"\ntitle = "Mine"\npaper = "None"\nmachine = "blend"\n'
    blend = read_recipe(text + 'members = ["logistic", "boosting"]')

    assert "boosting" not in comparable(["all"], {"past": read_cohort(PAST, **WHO)})
    for recipe in (load_recipe("boosting"), blend):
        with pytest.raises(RecipeError, match=r"pip install \"screening\[boosting\]\""):
            train(PAST, recipe, beside=(), **WHO)
