"""An estimator of the caller's, cross-validated and judged like every other method."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from screening import MinSensitivity, Screen, Validation
from screening.errors import RecipeError
from screening.store.model import save_model


def past(n_rows=300, seed=0):
    rng = default_rng(seed)
    ill = rng.random(n_rows) < 0.3
    return pd.DataFrame(
        {
            "x": rng.normal(size=n_rows) + 1.5 * ill,
            "ward": rng.choice(["a", "b"], n_rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def fitted(estimator, **more):
    screen = Screen(
        estimator,
        rule=MinSensitivity(0.8),
        validation=Validation(beside=("logistic",)),
        search=1,
        **more,
    )
    return screen.fit(past(), "ill")


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        RandomForestClassifier(50, min_samples_leaf=8, random_state=0),
        LinearSVC(),
    ],
    ids=["naive_bayes", "trees", "decisions_alone"],
)
def test_estimator_is_judged_like_a_recipe(estimator):
    screen = fitted(estimator)

    facts = screen.model_.facts
    (point,) = facts.operating_points
    assert point["sensitivity"].value == pytest.approx(0.8, abs=0.06)
    new = past(4000, seed=1)
    flagged = screen.predict(new) == "yes"
    ill = new.ill == "yes"
    sensitivity = point["sensitivity"].value
    assert flagged[ill].mean() == pytest.approx(sensitivity, abs=0.1)
    assert facts.recipe.name == type(estimator).__name__
    assert "logistic" in str(facts.validation.comparison)


def test_estimator_of_the_caller_is_not_touched():
    estimator = GaussianNB()

    screen = fitted(estimator)

    assert not hasattr(estimator, "classes_")
    assert clone(screen).recipe is not estimator


def test_model_of_an_estimator_is_not_stored(tmp_path):
    screen = fitted(GaussianNB())

    with pytest.raises(RecipeError, match="model files contain no pickles"):
        save_model(screen.model_, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_is_no_classifier_is_refused():
    with pytest.raises(RecipeError, match="or a classifier of scikit-learn, not"):
        fitted(GaussianNB)


@pytest.mark.parametrize(
    "estimator",
    [
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}),
        make_pipeline(FunctionTransformer(lambda x: x), GaussianNB()),
    ],
    ids=["search", "lambda"],
)
def test_estimator_need_not_be_serializable(estimator):
    new = past(5, seed=1)

    assert len(fitted(estimator).predict(new)) == 5


def test_decisions_of_pairs_of_classes_are_refused():
    table = past()
    table["ill"] = np.resize(["a", "b", "c"], 300)
    pairwise = Screen(SVC(decision_function_shape="ovo"))

    with pytest.raises((RecipeError, ValueError), match="set it to 'ovr'"):
        pairwise.fit(table, "ill")


def test_weights_are_refused_with_a_remedy():
    with pytest.raises(RecipeError, match="name a recipe that does"):
        fitted_with_weights = Screen(GaussianNB(), weights="importance")
        ones = np.ones(300)
        fitted_with_weights.fit(past(), "ill", sample_weight=ones)
