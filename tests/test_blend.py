"""The blend: every member on the same folds, their scores weighted, and nothing chosen
between them."""

import json

import numpy as np
import pytest
from flow_cohorts import patients
from numpy.random import default_rng
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.utils.estimator_checks import check_estimator

from screening import (
    MaxFlagRate,
    build,
    load_model,
    read_cohort,
    save_model,
    train,
)
from screening.errors import RecipeError
from screening.estimators.baselines import Logistic
from screening.estimators.ensembles import BlendedClassifier, Pooling
from screening.model_selection import held_out
from screening.recipes.building import read_recipe
from screening.report import render_model
from screening.scoring.explaining import explained
from screening.store.model import score_batch

TEXT = 'name = "ours"\ntitle = "Ours"\npaper = "none"\nmachine = "blend"\nmembers = {members}\n'


def blend(*members):
    return read_recipe(TEXT.format(members=json.dumps(members)))


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(
        cohort, blend("svm_weighted", "logistic", "one_class_conformal"), search=3
    )


def test_the_score_is_the_weighted_mean_of_its_members(model, cohort):
    encoded = model.encoder.transform(cohort.values)
    log_odds = model.ensemble.by_member(encoded)[:, :, 0]
    weights = [
        member["classes"][model.watched[0]]["weight"]
        for member in model.document["blend"]
    ]
    assert log_odds.shape == (cohort.n_rows, 3)
    decisions = model.decisions(encoded)[:, 0]
    assert np.allclose(decisions, log_odds @ weights)
    assert sum(weights) == pytest.approx(1)


def test_blend_weights(cohort, trained):
    """Held out rows are weighted by average precision and put on log odds."""
    alone = {
        name: trained(cohort, name, search=3, repeats=1)
        for name in ("svm_weighted", "logistic")
    }
    both = trained(cohort, blend(*alone), search=3, repeats=1)
    ids = sorted(cohort.id)
    columns = [
        each.validation.set_index("id")["score"][ids].to_numpy()
        for each in alone.values()
    ]
    validation = both.validation.set_index("id").loc[ids]
    ill = (validation["label"] == both.watched[0]).to_numpy()
    standardised = [(own - own.mean()) / own.std() for own in columns]
    n_cases = ill.sum()
    steepness = 15 * n_cases / (n_cases + 30)
    precision = [average_precision_score(ill, own) for own in columns]
    weights = np.exp(steepness * np.array(precision))
    mean = np.average(standardised, axis=0, weights=weights)[:, None]

    second_stage = LogisticRegression(C=1e6).fit(mean, ill)
    expected = second_stage.decision_function(mean)
    assert np.allclose(validation["score"], expected, rtol=1e-2, atol=1e-2)


def test_no_member_is_turned_dropped_or_stretched_by_the_labels():
    """Where labels mean nothing, that alone would give scores an AUROC; without labels
    all weigh alike.
    """
    ill = np.arange(60) % 4 == 0
    right = ill + np.linspace(0, 0.9, 60)
    inverted = 5.0 - ill
    decisions = np.stack([right, inverted], axis=1)[:, :, None]
    precision = [average_precision_score(ill, own) for own in decisions[:, :, 0].T]
    pooling = Pooling.of(decisions, ill[:, None])
    blind = Pooling.of(decisions, None)
    spread = decisions.std(axis=0)
    standardised = (decisions - decisions.mean(axis=0)) / spread
    (good,), (wrong,) = pooling.weights
    first, second = (pooling.slopes * spread)[:, 0]

    advantage = precision[0] - precision[1]
    assert good / wrong == pytest.approx(np.exp(5 * advantage))
    assert first == pytest.approx(second)
    assert first > 0
    assert_allclose(blind.by_member(decisions), standardised, atol=1e-9)
    pooled = standardised.mean(axis=1)
    assert_allclose(blind.pooled(decisions), pooled, atol=1e-9)


def test_a_member_that_cannot_be_fitted_is_left_out_and_that_is_said(
    cohort, monkeypatch
):
    real = held_out.hold_out

    def failing(sample, recipe, *given, **named):
        if recipe.name == "logistic":
            raise RecipeError("it will not")
        outcome = yield from real(sample, recipe, *given, **named)
        return outcome

    monkeypatch.setattr(held_out, "hold_out", failing)
    recipe = blend("svm", "logistic")
    document = train(cohort, recipe, search=1, beside=()).document

    members = [each["name"] for each in document["recipe"]["members"]]
    assert members == ["svm"]
    assert "member logistic left out: it will not" in document["training"]["notes"]


@pytest.mark.parametrize("n_cases", [3, 9])
def test_few_cases(n_cases):
    """Without a recipe it is the blend, which has both kinds of machines and says
    so.
    """
    is_case = np.arange(300) < n_cases
    few = patients(300)
    few["ill"] = np.where(is_case, "yes", "no")
    few.loc[few["ill"] == "yes", "fever"] += 2
    roles = {"label": "ill", "id": "patient"}
    model = train(
        few,
        search=2,
        rule=MaxFlagRate(0.1),
        beside=(),
        **roles,
    )
    document = model.document

    weights = {
        member["recipe"]: member["classes"]["yes"]["weight"]
        for member in document["blend"]
    }
    one_class = [weights.pop(name) for name in ("one_class", "one_class_conformal")]
    assert document["recipe"]["name"] == "auto"
    assert 0.1 < sum(one_class) < 0.5
    assert {"svm_weighted", "logistic", "balanced_forest"} <= weights.keys()
    notes = " ".join(document["training"]["notes"])
    assert f"{n_cases} cases: methods that learn only from rows without" in notes


def test_a_case_tells_which_members_would_flag_it_alone(model, cohort):
    encoded = model.encoder.transform(cohort.values)
    scores = model.scores(encoded)[:, 0]
    flagged = np.flatnonzero(scores >= model.thresholds[0])[:5]
    rows = cohort.take(flagged)
    cases = explained(model, rows, score_batch(model, rows).rows)
    votes = [case.votes for case in cases]
    assert {name for each in votes for name in each} == {
        "svm_weighted",
        "logistic",
        "one_class_conformal",
    }
    assert all(sum(each.values()) >= 1 for each in votes)


def test_the_blend_is_a_scikit_learn_estimator_and_scales_by_itself():
    members = (build("svm_weighted"), build("logistic"))
    estimator = BlendedClassifier(members, folds=3)
    rng = default_rng(0)
    y = (rng.random(120) < 0.3).astype(int)
    x = rng.normal(size=(120, 3)) + y[:, None]
    moved = x * np.array([2.0**12, 1.0, 2.0**-9])
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    plain = clone(estimator).fit(x, y).decision_function(x)
    scaled = clone(estimator).fit(moved, y).decision_function(moved)

    failed = [one["check_name"] for one in results if one["status"] == "failed"]
    assert failed == []
    assert_allclose(scaled, plain)


@pytest.mark.parametrize(
    ("params", "rows"),
    [
        ({}, 30),
        ({"n_landmarks": 40}, 40),
        ({"approximation": "none"}, None),
    ],
)
def test_blend_many_rows_landmarks(cohort, monkeypatch, params, rows):
    """Of many rows a kernel member learns in the span of some unless told otherwise."""
    monkeypatch.setattr(held_out, "MANY_ROWS", 50)
    monkeypatch.setattr(held_out, "N_LANDMARKS", 30)
    model = train(
        cohort,
        blend("svm_weighted", "logistic"),
        search=1,
        repeats=1,
        params=params,
        beside=(),
    )
    notes = [
        note
        for note in model.document["training"]["notes"]
        if "landmarks (Nystroem)" in note
    ]
    machines = model.ensemble.members[0].machines
    sizes = {len(machine.support_) for machine in machines}
    assert [f"{rows} landmarks (Nystroem)" in note for note in notes] == [True] * (
        rows is not None
    )
    assert sizes == {rows} or (rows is None and min(sizes) > 40)


def test_members_are_fitted_once_a_fold(cohort, monkeypatch):
    """Without `repeats` members are dealt once; their settings compete on few rows,
    and those of the comparison are not fitted again.
    """
    monkeypatch.setattr(held_out, "MAX_COMPETING_ROWS", 100)
    learned = []
    fit = Logistic.fit
    monkeypatch.setattr(
        Logistic, "fit", lambda own, x, y: learned.append(len(x)) or fit(own, x, y)
    )
    # What a ranking rests on is found by logistic regressions too.
    monkeypatch.setattr(
        "screening.model_selection.train.reliance_of", lambda study, jobs: None
    )
    model = train(cohort, blend("logistic", "random_forest"), search=3)
    comparison = model.facts.validation.comparison

    n_of_settings = [n for n in learned if n <= 100]
    assert len(n_of_settings) == 3 * 5
    assert len(learned) == 4 * 5
    assert [other.recipe for other in comparison.beside] == [
        "logistic",
        "random_forest",
    ]
    forests = model.ensemble.members[1].machines
    assert {forest.n_estimators for forest in forests} == {40}


def test_of_many_rows_every_member_learns_within_its_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(held_out, "MANY_ROWS", 100)
    monkeypatch.setattr(Logistic, "max_rows", 60)
    learned = []
    fit = Logistic.fit
    monkeypatch.setattr(
        Logistic, "fit", lambda own, x, y: learned.append(len(x)) or fit(own, x, y)
    )
    past = patients(300)
    past["ward"] = np.resize([*"ABCDE"], 300)
    cohort = read_cohort(past, label="ill", id="patient", need_label=True)

    own = blend("logistic", "random_forest", "histogram_boosting")
    model = train(cohort, own, search=1, repeats=1, beside=())
    again = load_model(save_model(model, tmp_path / "model"))

    members = model.ensemble.members
    logistic, forest, boosted = (member.machines for member in members)
    assert max(learned) == 60
    assert {machine.n_estimators for machine in forest} == {40}
    # Trees of boosting see the five wards as one column, also once the model was
    # stored.
    n_encoded = len(model.encoder.names)
    assert {machine.n_features_in_ for machine in logistic + forest} == {n_encoded}
    assert {machine.n_features_in_ for machine in boosted} == {n_encoded - 4}
    encoded = model.encoder.transform(cohort.values)
    assert again.digest == model.digest
    decisions = model.decisions(encoded)
    assert np.array_equal(again.decisions(encoded), decisions)


@pytest.fixture
def noise(cohort, monkeypatch):
    noise = default_rng(0).normal(size=cohort.n_rows)
    monkeypatch.setattr(Logistic, "decide", lambda own, x: np.resize(noise, len(x)))


def test_blend_many_rows_chance_member(cohort, noise, monkeypatch):
    """Of many rows a member by chance is not kept and not fitted again to stand
    beside.
    """
    monkeypatch.setattr(held_out, "MANY_ROWS", 100)
    # What a ranking rests on is found by logistic regressions too.
    monkeypatch.setattr(
        "screening.model_selection.train.reliance_of", lambda study, jobs: None
    )
    fits = []
    steps = []
    fit = Logistic.fit
    monkeypatch.setattr(
        Logistic, "fit", lambda own, x, y: fits.append(1) or fit(own, x, y)
    )
    settings = {"search": 1, "repeats": 1, "beside": ["logistic", "svm"]}
    own = blend("logistic", "histogram_boosting")
    document = train(
        cohort, own, **settings, progress=lambda *step: steps.append(step)
    ).document

    assert [member["recipe"] for member in document["blend"]] == ["histogram_boosting"]
    notes = document["training"]["notes"]
    assert "member logistic is not kept: it ranks no better than chance" in notes
    assert len(fits) == 5
    done = [finished / total for finished, total in steps]
    assert done == sorted(done)
    assert 0 < done[0] < 0.1
    assert done[-1] == 1
    assert len(done) > 12  # a fold of a member is a step


def test_only_members_that_surely_add_to_the_auroc_carry_the_ranking(cohort, noise):
    model = train(
        cohort,
        blend("logistic", "histogram_boosting"),
        search=1,
        repeats=1,
        beside=(),
    )
    label = model.watched[0]
    rows = model.validation
    logistic, boosting = (member.classes[label] for member in model.facts.blend)
    auroc = roc_auc_score(rows["label"] == label, rows["score"])
    without = auroc - logistic.gains["auroc"].value

    assert [member.recipe for member in model.facts.carrying(label)] == [
        "histogram_boosting"
    ]
    assert boosting.gains["auroc"].low > 0 > logistic.gains["auroc"].low
    assert without == pytest.approx(boosting["auroc"].value)
    page = render_model(model.document)
    assert (
        "Members that improve the ranking: <bdi>histogram_boosting</bdi> adds" in page
    )


def test_of_many_cases_the_weights_are_those_of_the_best_mean():
    rng = default_rng(3)
    ill = rng.random(10_000) < 0.4
    told = ill + rng.normal(size=10_000)
    similar = told + rng.normal(0, 2, 10_000)
    blind = rng.normal(size=10_000)
    decisions = np.stack([told, similar, blind], axis=1)[..., None]
    ill = ill[:, None]
    many = Pooling.of(decisions, ill).weights[:, 0]
    some = slice(0, 4000)
    few = Pooling.of(decisions[some], ill[some]).weights[:, 0]
    assert many[0] > 0.95
    assert (many > 0).all()
    assert 0.6 < few[0] < many[0]
