"""One matrix of held-out scores, and the folds are the model: nobody is judged by a
machine that saw them."""

import gc
import re
import weakref
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from compared_methods import BINARY_TASK
from flow_cohorts import patients, voxels
from fold_machines import held_out_by
from hypothesis import given
from hypothesis import strategies as st
from machines_cohort import two_clouds
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from screening import (
    MaxFlagRate,
    MinSensitivity,
    build,
    load_recipe,
    read_cohort,
    train,
)
from screening.errors import RecipeError, UsageError
from screening.estimators.ensembles import FoldEnsemble, oriented
from screening.metrics.calibration import p_values
from screening.metrics.operating_point import choose
from screening.metrics.ranking import area_under_roc
from screening.model_selection.folds import split_study
from screening.model_selection.judge import check_model, refuse_too_few
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.search import (
    APART,
    CONSTANT,
    NOT_FINITE,
    TIED,
    choose_setting,
    criterion,
    n_settings_within_budget,
    unusable,
)
from screening.recipes.recipe import Criterion
from screening.settings import Validation

BINARY = {
    "svm_weighted": {},
    "logistic": {},
    "random_forest": {},
    "balanced_forest": {},
    "williams": {"passes": 1},
    "one_class_conformal": {"passes": 1, "width": 3.0},
    "act_feature_space": {"passes": 1},
    "e_smote_svm": {},
}
SEVERAL = {
    "one_vs_one": {},
    "crammer_singer": {},
    "shao_weighted": {"passes": 1},
}
METHODS = (
    "svm",
    "svm_weighted",
    "williams",
    "maratea",
    "liu_he",
    "wu_amari",
    "amari_wu",
    "act_input_space",
    "act_feature_space",
    "one_class",
    "one_class_conformal",
)
WHO = {"label": "ill", "id": "patient"}
TISSUE = {"label": "tissue", "drop": ["x", "y", "z"]}


FORESTS = ("random_forest", "balanced_forest")


@pytest.mark.parametrize("recipe", FORESTS)
def test_held_out_row_of_forest_is_scored_by_unseen_trees(cohort, recipe):
    """The model mixes trees of all folds; held-out rows are scored before that."""
    study = replace(
        split_study(
            cohort,
            BINARY_TASK.target(cohort.labels),
            BINARY_TASK,
            Validation(repeats=1),
        ),
        n_settings=1,
    )
    held_out = held_out_by(study, load_recipe(recipe))
    forests = held_out.ensemble.machines

    by_forest = [forest.decision_function(held_out.encoded.x) for forest in forests]
    decisions = np.array(by_forest)
    expected = decisions[study.fold[0], np.arange(cohort.n_rows)]

    assert_array_equal(held_out.decisions[0, :, 0], expected)
    assert len(held_out.model.machines) == 3


@pytest.mark.parametrize("recipe", [name for name in BINARY if name not in FORESTS])
def test_a_row_is_scored_by_the_machine_that_has_not_seen_it(cohort, recipe, trained):
    model = trained(
        cohort,
        recipe,
        params=BINARY[recipe],
        search=1,
        repeats=1,
    )
    held_out = model.validation.set_index("id").loc[cohort.id]
    encoded = model.encoder.transform(cohort.values)
    kind = model.ensemble.kind
    by_machine = [
        oriented(each.decide(encoded), each, kind, 1)[:, 0]
        for each in model.ensemble.machines
    ]
    decisions = np.array(by_machine)
    own = decisions[held_out["fold"], np.arange(cohort.n_rows)]
    apart = np.abs(held_out["score"].to_numpy() - own)
    assert len(by_machine) == 5
    assert apart.max() <= 1e-6 * np.ptp(own)


@pytest.mark.parametrize("recipe", ["one_class", "one_class_conformal"])
def test_linear_score_far_from_everything_is_one_in_every_fold(cohort, recipe, trained):
    """As in the paper f tends to -rho, so that far rows tie."""
    linear = {"score_scale": "linear"}
    model = trained(cohort, recipe, params=linear, search=3, repeats=1)
    n_features = model.encoder.transform(cohort.values).shape[1]
    far = np.full((1, n_features), 1e6)
    ensemble = model.ensemble
    of_each = [ensemble.decision_of(k, far)[0, 0] for k in range(5)]
    assert of_each == pytest.approx([1.0] * 5, rel=1e-6)


@pytest.mark.parametrize("recipe", ["one_class", "one_class_conformal"])
def test_log_score_orders_far_rows_by_distance(cohort, recipe, trained):
    """No kernel value is left at these distances, in the model or in a fold."""
    model = trained(cohort, recipe, search=1, repeats=1)
    steps = np.array([1e2, 1e3, 1e3 + 1e-3, 1e6])
    n_features = model.encoder.transform(cohort.values).shape[1]
    far = np.tile(steps[:, None], n_features)
    ensemble = model.ensemble
    scores = [ensemble.decisions(far)[:, 0]]
    scores += [ensemble.decision_of(k, far)[:, 0] for k in range(5)]

    assert np.isfinite(scores).all()
    assert (np.diff(scores, axis=1) > 0).all()


@pytest.mark.parametrize("recipe", ["one_class", "one_class_conformal"])
def test_log_score_is_the_linear_one_on_another_scale(cohort, recipe, trained):
    """It is -log(1 - linear score), so order and boundary at 0 stay."""
    first = trained(cohort, recipe, search=1, repeats=1)
    encoded = first.encoder.transform(cohort.values)
    decisions = []
    for scale in ("log", "linear"):
        params = {"score_scale": scale}
        model = trained(cohort, recipe, params=params, search=1, repeats=1)
        decisions.append(model.ensemble.decisions(encoded))
    log, linear = decisions

    on_linear_scale = 1 - np.exp(-log)
    assert_allclose(on_linear_scale, linear, rtol=0, atol=2e-5)


def mean_of_machines(decisions: list[np.ndarray], kind: str) -> np.ndarray:
    """Return the mean of machines, which of one-class machines is that of f / rho."""
    if kind != "one_class":
        return np.mean(decisions, axis=0)
    ratios = np.exp(-np.array(decisions))
    return -np.log(ratios.mean(axis=0))


@pytest.mark.parametrize(
    ("recipe", "params"), [*BINARY.items(), *SEVERAL.items()], ids=[*BINARY, *SEVERAL]
)
def test_the_model_is_the_mean_of_its_machines_however_it_is_summed(
    cohort, tissue, recipe, params, trained
):
    rows = tissue if recipe in SEVERAL else cohort
    model = trained(rows, recipe, params=params, search=1, repeats=1)
    encoded = model.encoder.transform(rows.values)
    ensemble = model.ensemble
    kind = ensemble.kind
    n = ensemble.n_outputs
    machines = ensemble.machines
    alone = [oriented(each.decide(encoded), each, kind, n) for each in machines]
    together = ensemble.decisions(encoded)

    expected = mean_of_machines(alone, kind)
    difference = np.abs(together - expected).max()
    assert difference <= 2e-5 * np.abs(together).max()


def ensemble_of(name: str) -> FoldEnsemble:
    """Three machines on overlapping rows, a third of which stand there twice with
    either label.
    """
    x, y = two_clouds(90)
    x[60:] = x[:30]
    y[60:75] = 1 - y[:15]
    kind = "one_class" if name.startswith("one_class") else "two_class"
    learned = {"one_class": y == 0}.get(kind, y >= 0)
    machines = []
    for k in range(3):
        is_in_part = np.arange(90) % 3 != k
        part = np.flatnonzero(is_in_part & learned)
        machine = build(name).scaled_to(x)
        machines.append(machine.fit(x[part], y[part]))
    if kind == "one_class":
        machines = [machine.relative() for machine in machines]
    return FoldEnsemble(machines, kind, 1)


@pytest.mark.parametrize("name", METHODS)
def test_ensemble_repeated_rows(name):
    """The mean of machines with repeated rows is the mean of their decisions."""
    ensemble = ensemble_of(name)
    new = two_clouds(40, seed=1)[0]
    alone = [
        oriented(each.decide(new), each, ensemble.kind, 1) for each in ensemble.machines
    ]
    expected = mean_of_machines(alone, ensemble.kind)
    close = 1e-4 * np.ptp(expected)
    assert_allclose(ensemble.decisions(new), expected, rtol=0, atol=close)


@pytest.mark.parametrize("name", ["svm", "williams", "act_input_space"])
def test_rows_are_let_go_as_soon_as_they_are_scored(name):
    """A night of ten million rows would else hold half of them until garbage is looked
    for.
    """
    ensemble = ensemble_of(name)
    x = default_rng(1).normal(size=(300, 3))
    held = weakref.ref(x)
    gc.disable()
    try:
        ensemble.decisions(x)
        del x
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("recipe", ["svm_weighted", "one_class"])
def test_training_order_of_rows_and_columns(recipe):
    """The order of rows and columns changes no flag and no threshold."""
    mixed = patients().sample(frac=1, random_state=3)[
        ["ward", "ill", "crp", "patient", "fever"]
    ]
    first = train(
        patients(),
        recipe,
        search=3,
        beside=(),
        **WHO,
    )
    second = train(mixed, recipe, search=3, beside=(), **WHO)
    one = first.validation.set_index("id").sort_index()
    other = second.validation.set_index("id").sort_index()
    assert second.thresholds == pytest.approx(first.thresholds, rel=1e-6)
    assert (
        (one["score"] >= first.thresholds[0])
        == (other["score"] >= second.thresholds[0])
    ).all()


def test_too_few_cases_of_a_guessed_class(monkeypatch):
    """Without a named class the refusal says which would be watched."""
    few = patients()
    few["ill"] = np.repeat(["no", "flu", "sepsis"], [200, 35, 5])
    monkeypatch.setattr("screening.model_selection.train.plan_training", None)

    with pytest.raises(UsageError, match="watch the rare ones: sepsis, flu") as guessed:
        train(few, "logistic", beside=(), **WHO)
    with pytest.raises(UsageError, match="of sepsis are too few") as named:
        train(few, "logistic", positive=["flu", "sepsis"], beside=(), **WHO)
    assert "positive" in guessed.value.parameters
    assert "watch" not in str(named.value)


def test_training_too_few_cases(monkeypatch):
    """Too few cases for the promise are refused before anything is trained.

    A rule that few cases can keep still trains on three.
    """
    few = patients()
    is_case = np.arange(240) < 3
    few["ill"] = np.where(is_case, "yes", "no")
    rare = voxels(n_patients=6)
    lesions = np.flatnonzero(rare["tissue"] == "lesion")
    rare.loc[lesions[3:], "tissue"] = "gland"
    model = train(
        few,
        "svm_weighted",
        search=1,
        rule=MaxFlagRate(0.2),
        beside=(),
        **WHO,
    )
    monkeypatch.setattr("screening.model_selection.train.plan_training", None)

    assert model.document["validation"]["folds"] == 3
    with pytest.raises(
        UsageError,
        match=r"3 case\(s\) of yes are too few.*9 cases.*`min_sensitivity` 0.75",
    ):
        train(few, beside=(), **WHO)
    with pytest.raises(UsageError, match=r"lesion are too few to promise"):
        train(
            rare.drop(columns="patient"),
            "one_vs_rest",
            search=1,
            beside=(),
            **TISSUE,
        )


M = st.integers(2, 30)
SENSITIVITY = st.floats(0.97, 0.985)
CONFIDENCE = st.sampled_from([None, 0.8, 0.95])


@given(M, SENSITIVITY, CONFIDENCE)
def test_what_is_advised_where_cases_are_too_few_is_enough(m, asked, confidence):
    def refuse(cases, sensitivity):
        refuse_too_few("yes", cases, MinSensitivity(sensitivity, confidence=confidence))

    with pytest.raises(UsageError) as refused:
        refuse(m, asked)

    advice = r"At least (\d+) cases are needed.* `min_sensitivity` ([\d.]+),"
    cases, less = re.search(advice, str(refused.value)).groups()
    refuse(int(cases), asked)
    refuse(m, float(less))
    with pytest.raises(UsageError):
        refuse(int(cases) - 1, asked)


def folds_of(n_rows=200, share=0.2, seed=0):
    rng = default_rng(seed)
    target = (rng.random(n_rows) < share).astype(int)
    noise = rng.normal(size=n_rows)
    return target, np.arange(n_rows) % 5, noise + target


def test_a_model_that_does_not_flag_its_own_cases_is_refused():
    """Where every setting is dropped, the refusal says why and what to try."""
    target, fold, scores = folds_of()
    decisions = scores[None, :, None]
    held = HeldOutScores(BINARY_TASK, target, decisions, fold, groups=None)
    point = choose(scores, target == 1, MinSensitivity(0.9), fold=fold)
    levels = np.where(scores > 0, 1.0, 1.0 + 1e-14)
    constant = levels[None, :, None]

    def check(trained):
        check_model(replace(held, trained=trained, recipe="svm"), 0, point)

    check(scores[:, None])
    with pytest.raises(
        RecipeError, match=r"recipe svm: it promises to find .* and flags 0%"
    ):
        check(scores[:, None] - 100.0)
    with pytest.raises(RecipeError, match="scores all rows alike"):
        check(np.full((len(scores), 1), 5.0))
    with pytest.raises(RecipeError, match=f"recipe svm.*{CONSTANT}.*`search`"):
        choose_setting("auroc", "svm", [{}], constant, target, fold)


@pytest.mark.parametrize("recipe", ["svm_weighted", "one_class"])
def test_p_value_of_fresh_negatives(recipe):
    """A p-value of one in twenty comes once in twenty fresh negatives."""
    fresh = read_cohort(patients(6000, seed=99), **WHO)
    negatives = fresh.take(fresh.label == "no")
    shares = []
    for seed in range(8):  # one calibration set of 340 is itself off by 0.012
        model = train(
            patients(400, seed=seed),
            recipe,
            search=1,
            forward=False,
            beside=(),
            **WHO,
        )
        encoded = model.encoder.transform(negatives.values)
        scores = model.scores(encoded)[:, 0]
        p = p_values(model.calibration, scores)
        shares.append(np.mean(p <= 0.05))

    assert 0.04 <= np.mean(shares) <= 0.06


N = 300
FOLD = np.arange(N) % 5
TARGET = (np.arange(N) % 7 == 0).astype(int)


def why(decisions):
    decisions = np.asarray(decisions, float)
    return unusable(decisions[:, None], TARGET, FOLD)


@pytest.mark.parametrize("share", [0.1, 0.16, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_folds_apart_two_scores(share, seed):
    """Folds that score yes and no a little differently do not lie apart."""
    rng = default_rng(seed)
    yes = rng.random(N) < share
    levels = np.where(yes, 0.1, -2.3)
    of_fold = rng.normal(0, 0.1, 5)
    assert why(levels + of_fold[FOLD]) is None


@pytest.mark.parametrize("rule", [MaxFlagRate(0.1), MinSensitivity(0.9)])
def test_setting_whose_scores_tie_at_the_rule_is_dropped(rule):
    """It has the larger AUROC, which counts a tie as half a row; no row may tie so.

    Where all settings tie, the largest AUROC decides as without a rule.
    """
    noise = default_rng(1).normal(size=N)
    scores = 0.5 * TARGET + noise
    better = scores + TARGET
    least_case = np.sort(better[TARGET == 1])[3]
    highest = min(np.quantile(better, 0.8), least_case)
    tied = np.minimum(better, highest)
    decisions = np.array([tied, scores])[..., None]

    def choose_among(settings):
        candidates = [{"C": float(number)} for number in settings]
        rows = decisions[settings]
        return choose_setting("auroc", "svm", candidates, rows, TARGET, FOLD, rule)

    assert area_under_roc(tied, TARGET == 1) > area_under_roc(scores, TARGET == 1)
    assert choose_among([0, 1]).chosen == {"C": 1.0}
    assert choose_among([0, 1]).dropped == [TIED, None]
    assert choose_among([0]).chosen == {"C": 0.0}


def test_the_better_of_two_settings_wins_by_a_hundredth():
    """Of settings alike the first."""
    noise = default_rng(1).normal(size=N)
    settings = [0.8 * TARGET + noise, 0.9 * TARGET + noise]
    decisions = np.array(settings)[..., None]
    worse = area_under_roc(decisions[0, :, 0], TARGET == 1)
    better = area_under_roc(decisions[1, :, 0], TARGET == 1)
    settings = [{}, {"C": 2.0}]
    alike = decisions[[0, 0]]
    best = choose_setting("auroc", "svm", settings, decisions, TARGET, FOLD)
    first = choose_setting("auroc", "svm", settings, alike, TARGET, FOLD)

    assert 0 < better - worse < 0.03
    assert best.chosen == {"C": 2.0}
    assert best.scores == [worse, better]
    assert first.chosen == {}


@pytest.mark.parametrize(
    ("n_narrow", "said"),
    [
        (15, None),
        (60, APART),
    ],
)
def test_folds_apart_narrow_scores(n_narrow, said):
    """A fold scored far more narrowly lies apart where it has rows to tell."""
    decisions = default_rng(4).normal(size=N)
    narrow = np.arange(N) < n_narrow
    own_folds = np.arange(N) % 4
    fold = np.where(narrow, 4, own_folds)
    decisions[narrow] *= 1e-4
    labels = np.zeros(N, int)
    assert unusable(decisions[:, None], labels, fold) == said


def test_unusable_scores():
    """Scores that are constant not finite or flipped in a fold carry no threshold."""
    decisions = default_rng(0).normal(size=N)
    assert why(decisions) is None
    assert why(decisions + 6 * (FOLD == 3)) == APART
    with_infinity = np.where(np.arange(N) == 7, np.inf, decisions)
    assert why(np.full(N, 3.0)) == CONSTANT
    assert why(1 + 1e-13 * decisions) == CONSTANT
    assert why(with_infinity) == NOT_FINITE


DECISION = np.array([-2.0, -1.0, 0.5, -0.2, 1.0, 2.0])
TRUTH = np.array([0, 0, 0, 1, 1, 1])


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
    """Perfect decisions for two or three classes are worth one."""
    target = np.array([0, 1, 2, 2, 1, 0])
    assert criterion(name, DECISION, TRUTH) == pytest.approx(value)
    for each in get_args(Criterion):
        assert criterion(each, TRUTH - 0.5, TRUTH) == pytest.approx(1.0)
        perfect = np.eye(3)[target]
        assert criterion(each, perfect, target) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["g_mean", "balanced_accuracy", "macro_recall"])
def test_criterion_of_several_classes_named(name):
    """With several classes these are the mean recall, and the document says so."""
    target = np.repeat([0, 1, 2], 20)
    fold = np.arange(60) % 5
    decisions = default_rng(0).normal(size=(1, 60, 3))
    decisions[0, np.arange(60), target] += 1.0
    predicted = decisions[0].argmax(axis=1)
    recalls = []
    for code in range(3):
        recalls.append(np.mean(predicted[target == code] == code))

    facts = choose_setting(name, "one_vs_rest", [{}], decisions, target, fold)

    assert facts.criterion == "macro_recall"
    assert facts.scores[0] == pytest.approx(np.mean(recalls))
    assert facts.sensitivity == []


def test_rates_of_settings():
    """Every setting has the rates of its own boundary on held-out rows."""
    noise = default_rng(1).normal(size=N)
    decisions = np.array([TARGET + noise, noise - 0.5])[..., None]
    settings = [{}, {"C": 2.0}]

    facts = choose_setting("auroc", "svm", settings, decisions, TARGET, FOLD)

    ill = TARGET == 1
    for number, decision in enumerate(decisions[..., 0]):
        assert facts.sensitivity[number] == np.mean(decision[ill] > 0)
        specificity = np.mean(decision[~ill] <= 0)
        assert facts.specificity[number] == pytest.approx(specificity)


def test_factor_map_of_two_strongest_columns(cohort, trained):
    """c(x) is that of the machines at typical rows; without a factor there is none."""
    model = trained(
        cohort,
        "williams",
        params={"passes": 1},
        search=1,
        repeats=1,
    )
    declined = trained(
        cohort,
        "williams",
        params={"passes": 0},
        search=1,
        repeats=1,
    )
    factor = model.facts.machine.factor_map
    assert factor is not None
    log_c = np.array(factor.log_c)
    values = {
        name: np.full(2, median, dtype=object)
        for name, median in model.encoder.medians.items()
    }
    first, second = factor.columns
    first_values, second_values = factor.values
    values[first] = np.array([first_values[3], first_values[17]])
    values[second] = np.array([second_values[5], second_values[5]])
    x = model.encoder.transform(values)
    machines = model.ensemble.machines
    logs = [np.log(machine.factor_at(x)[:, 0]) for machine in machines]
    near, far = np.mean(logs, axis=0)

    assert log_c.shape == (21, 21)
    assert log_c.max() == 0
    gap = log_c[17, 5] - log_c[3, 5]
    assert gap == pytest.approx(far - near, abs=2e-4)
    assert declined.facts.machine.factor_map is None


def test_settings_of_several_classes_within_budget():
    """Some thousand rows of several classes are worth twenty settings and more."""

    def n_settings(name, n_rows, n_classes):
        recipe = load_recipe(name)
        return n_settings_within_budget(recipe, n_rows, n_classes, n_folds=5)

    assert n_settings("one_vs_rest", 3_000, 6) == 24
    assert n_settings("shao_local", 3_000, 6) == 24
    assert n_settings("one_vs_rest", 5_000, 10) >= 16
    assert n_settings("one_vs_rest", 5_000, 40) == 8
    assert n_settings("crammer_singer", 3_000, 6) == 4
    assert n_settings("svm", 500, 1) == 8
    assert n_settings("williams", 500, 1) == 8
