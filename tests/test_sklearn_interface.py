"""`Screen` is a scikit-learn classifier: its checks, none expected to fail, and what a
classifier is put into.
"""

import pickle
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import sklearn
from faults.amounts import LONG
from flow_cohorts import night_of_patients, patients
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from screening import GMean, MinSensitivity, Resources, Screen, Validation
from screening.errors import PromiseError, PromiseWarning, UsageError

ONCE = Validation(repeats=1, beside=())
QUICK = {"search": 1, "resources": Resources(jobs=1)}
# All defaults take five minutes: `make faults` checks them.
CHECKED = [Screen("logistic", validation=ONCE, **QUICK), *([Screen()] if LONG else [])]


@pytest.mark.repeated
@pytest.mark.filterwarnings("ignore::screening.errors.PromiseWarning")
@parametrize_with_checks(CHECKED)
def test_scikit_learns_checks(estimator, check):
    """None is expected to fail; tables of ten rows are warned about, not refused."""
    check(estimator)


@pytest.fixture(scope="module")
def screen():
    """Return a quick Screen, not fitted."""
    validation = replace(ONCE, independent=True)
    return Screen("logistic", rule=MinSensitivity(0.8), validation=validation, **QUICK)


@pytest.fixture(scope="module")
def rows():
    """Return 240 patients: two numbers with missing values, and who is ill."""
    past = patients()
    return past[["fever", "crp"]], past["ill"]


@pytest.fixture(scope="module")
def visits():
    """Return numbers of 120 patients seen twice, labels, and whose each row is."""
    past = patients()
    return past[["fever", "crp"]], past["ill"], np.repeat(np.arange(120), 2)


@pytest.fixture
def routing():
    """Let metadata be routed."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_pipeline(screen, rows):
    """The last step of a pipeline learns and predicts as it does alone."""
    x, y = rows
    filled = pd.DataFrame(SimpleImputer().fit_transform(x), columns=x.columns)
    pipeline = make_pipeline(SimpleImputer(), screen)

    pipeline.fit(x, y)

    alone = clone(screen).fit(filled.to_numpy(), y)
    assert_array_equal(pipeline.predict(x), alone.predict(filled.to_numpy()))


def test_set_output(screen, rows):
    """A pipeline that hands on frames gives the columns their names."""
    x, y = rows
    pipeline = Pipeline([("fill", SimpleImputer()), ("screen", screen)])

    pipeline.set_output(transform="pandas").fit(x, y)

    assert pipeline["screen"].feature_names_in_.tolist() == ["fever", "crp"]


def test_grid_search(screen, rows):
    """Rules and recipes are searched, and what is best is fitted."""
    x, y = rows
    grid = {"recipe": ["logistic", "svm_weighted"], "rule": [GMean()]}
    search = GridSearchCV(screen, grid, scoring="balanced_accuracy", cv=2)

    search.fit(x, y)

    assert search.best_estimator_.rule == GMean()
    assert search.best_score_ > 0.6


def test_cross_val_score_by_chances(screen, rows):
    """Ranks come from decisions; chances are scored where they were asked for."""
    x, y = rows
    ranks = cross_val_score(screen, x, y, scoring="roc_auc", cv=2)
    offering = clone(screen).set_params(chances=True, rule=GMean())
    many = patients(600)
    is_ill = many["ill"].eq("yes").astype(int)

    briers = cross_val_score(
        offering, many[["fever", "crp"]], is_ill, scoring="neg_brier_score", cv=2
    )

    assert (ranks > 0.7).all()
    share = is_ill.mean()
    assert (briers > -share * (1 - share)).all()


def test_predict_proba_is_asked_for(screen, rows):
    """By default there is none, since it need not agree with the flags."""
    fitted = clone(screen).fit(*rows)

    with pytest.raises(AttributeError) as refused:
        fitted.predict_proba(rows[0])

    assert "Screen(chances=True)" in str(refused.value.__cause__)
    assert not hasattr(fitted, "predict_proba")


@pytest.mark.usefixtures("routing")
def test_routed_groups(screen, visits):
    """Groups reach the splitter outside and the folds inside, in each fit."""
    x, y, patient = visits
    routed = clone(screen).set_fit_request(group="groups")
    routed.set_params(validation=ONCE)

    outcome = cross_validate(
        routed,
        x,
        y,
        cv=GroupKFold(2),
        params={"groups": patient},
        return_estimator=True,
        return_indices=True,
    )

    for fitted, training in zip(
        outcome["estimator"], outcome["indices"]["train"], strict=True
    ):
        held_out = fitted.held_out_
        assert held_out.groupby("group")["fold"].nunique().max() == 1
        assert set(held_out["group"]) == set(patient[training].astype(str))


@pytest.mark.usefixtures("routing")
def test_routed_sample_weight(screen, rows):
    """Weights go through a pipeline and a search to the fit."""
    x, y = rows
    weights = default_rng(0).integers(0, 3, len(x))
    routed = clone(screen).set_fit_request(sample_weight=True)
    unweighted = get_scorer("roc_auc").set_score_request(sample_weight=False)
    pipeline = make_pipeline(SimpleImputer(), routed)
    search = GridSearchCV(
        pipeline, {"screen__rule": [GMean()]}, scoring=unweighted, cv=2
    )

    search.fit(x, y, sample_weight=weights)

    best = search.best_estimator_["screen"]
    assert len(best.held_out_) == weights.sum()


def test_frequency_is_number_of_rows(screen, rows):
    """A weight of 3 is the row three times, for every figure of the model.

    The folds are given, so that copies lie in one fold in both tables.
    """
    x, y = rows
    counts = default_rng(1).integers(0, 4, len(x))
    fold = np.arange(len(x)) % 4
    weighted = clone(screen).set_params(cv=_splits(fold))
    repeated = clone(screen).set_params(cv=_splits(fold.repeat(counts)))

    weighted.fit(x, y, counts)
    again = np.arange(len(x)).repeat(counts)
    repeated.fit(x.iloc[again].reset_index(drop=True), y.iloc[again].to_list())

    assert_array_equal(weighted.decision_function(x), repeated.decision_function(x))
    (ours,) = weighted.model_.facts.operating_points
    (theirs,) = repeated.model_.facts.operating_points
    assert ours == theirs


def _splits(fold: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and test rows of each fold."""
    return [
        (np.flatnonzero(fold != number), np.flatnonzero(fold == number))
        for number in np.unique(fold)
    ]


@pytest.mark.parametrize("recipe", ["random_forest", "svm"])
def test_copies_are_held_out_together(screen, rows, recipe):
    """A row that counts twice is in one fold: no machine has seen what it judges."""
    x, y = rows
    doubled = clone(screen).set_params(recipe=recipe)

    doubled.fit(x, y, np.full(len(x), 2))

    held_out = doubled.held_out_
    assert len(held_out) == 2 * len(x)
    assert held_out.groupby("id")["fold"].nunique().max() == 1


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([0.5] * 240, 'Screen\\(weights="importance"\\)'),
        ([1e6] * 240, "more than 10,000,000 rows"),
    ],
)
def test_frequency_refused(screen, rows, weights, words):
    """What is no number of rows is named, with what takes it."""
    with pytest.raises(ValueError, match=words):
        clone(screen).fit(*rows, weights)


def test_weights_of_unknown_kind(screen, rows):
    """Another word for `weights` is refused with those that there are."""
    with pytest.raises(UsageError, match='"frequency" or "importance", got \'none\''):
        clone(screen).set_params(weights="none").fit(*rows, np.ones(240))


def test_cv_of_the_caller(screen, visits):
    """A splitter of scikit-learn deals the folds, by groups too."""
    x, y, patient = visits
    splitter = StratifiedGroupKFold(3)
    fitted = clone(screen).set_params(cv=splitter)

    fitted.fit(x, y, group=patient)

    fold_of_row = np.zeros(len(x), int)
    for number, (_, test) in enumerate(splitter.split(x, y, patient)):
        fold_of_row[test] = number
    by_row = fitted.held_out_.set_index("id")["fold"]
    assert by_row[[str(row) for row in range(1, 241)]].tolist() == fold_of_row.tolist()
    assert fitted.model_.facts.validation.folds == 3


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize(
    ("cv", "error", "words"),
    [
        (RepeatedStratifiedKFold(n_splits=3, n_repeats=2), ValueError, "row out once"),
        (_splits(np.arange(240) % 3)[:2], ValueError, "hold every row out once"),
        (_splits(np.arange(240) % 3), UsageError, "split rows of one group"),
    ],
)
def test_cv_refused(screen, visits, cv, error, words):
    """Folds that miss a row, repeat one or split a group are refused."""
    x, y, patient = visits
    with pytest.raises(error, match=words):
        clone(screen).set_params(cv=cv).fit(x, y, group=patient)


def test_cv_and_groups_refused(screen, visits):
    """Rows of a file have no array beside them."""
    _, _, patient = visits
    past = files("screening.sample_cohorts") / "nosocomial_past.csv"
    with pytest.raises(UsageError, match="cv needs a table in memory"):
        clone(screen).set_params(cv=GroupKFold(2)).fit(past, "infected")
    with pytest.raises(UsageError, match="group needs a table in memory"):
        clone(screen).fit(past, "infected", group=patient)


@pytest.fixture(scope="module")
def weak():
    """Return a Screen with too few cases for its promise, and its rows."""
    x = default_rng(0).normal(size=(60, 2))
    y = np.arange(60) < 6
    x[y] += 1.5
    screen = Screen("logistic", rule=MinSensitivity(0.95), validation=ONCE, **QUICK)
    with pytest.warns(PromiseWarning, match=r"6 case\(s\) of true are too few"):
        screen.fit(x, y)
    return screen, x, y


def test_promise_warning(weak, tmp_path):
    """It promises what so few cases allow, says so, and is stored nowhere."""
    screen, x, y = weak
    (point,) = screen.model_.facts.operating_points

    assert point.rule == MinSensitivity(0.85)
    assert 0 < screen.predict(x).mean() < 1
    assert screen.predict(x)[y].mean() > 0.8
    assert any("refuses this model" in note for note in screen.notes_)
    with pytest.raises(PromiseError, match="too few"):
        screen.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_pickle(screen, rows):
    """A pickle holds all of a fitted Screen."""
    fitted = clone(screen).fit(*rows)

    again = pickle.loads(pickle.dumps(fitted))

    expected = fitted.decision_function(rows[0])
    assert_array_equal(again.decision_function(rows[0]), expected)
    assert again.report() == fitted.report()


def test_night_without_ids(screen, visits):
    """Groups beside the table are no column that a night must have."""
    x, y, patient = visits
    night = night_of_patients(40, seed=3)[["fever", "crp"]]

    fitted = clone(screen).fit(x, y, group=patient)

    assert len(fitted.predict(night)) == 40
