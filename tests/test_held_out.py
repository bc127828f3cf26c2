"""One matrix of held-out scores, and the folds are the model: nobody is judged by a machine that saw them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from comparison_outcomes import BINARY_TASK
from flow_cohorts import patients, voxels, written
from hypothesis import given
from hypothesis import strategies as st

from screening import read_cohort, train
from screening.errors import RecipeError, UsageError
from screening.estimators.ensembles import oriented_decisions
from screening.metrics.calibration import p_values
from screening.metrics.operating_point import choose
from screening.model_selection.judge import check_model, refuse_too_few
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.search import CONSTANT, choose_setting
from screening.schemas.figures import MaxFlagRate, MinSensitivity

BINARY = {
    "svm_weighted": {}, "logistic": {}, "random_forest": {}, "balanced_forest": {}, "williams": {"passes": 1},
    "one_class_conformal": {"passes": 1, "width": 3.0}, "act_feature_space": {"passes": 1}, "e_smote_svm": {},
}  # fmt: skip
SEVERAL = {"one_vs_one": {}, "crammer_singer": {}, "shao_weighted": {"passes": 1}}


def read(table, folder, name="past.csv", **roles):
    return read_cohort(written(table, folder / name), need_label=True, **roles)


@pytest.mark.parametrize("recipe", BINARY)
def test_a_row_is_scored_by_the_machine_that_has_not_seen_it(cohort, recipe, trained):
    model = trained(cohort, recipe, params=BINARY[recipe], search=1, repeats=1)
    held_out = model.validation.set_index("id")["score"][cohort.id].to_numpy()
    fold = model.validation.set_index("id")["fold"][cohort.id].to_numpy()
    encoded, kind = model.encoder.transform(cohort), model.ensemble.kind

    by_machine = [oriented_decisions(each, encoded, kind, 1)[:, 0] for each in model.ensemble.machines]

    own = np.array(by_machine)[fold, np.arange(len(fold))]
    assert len(by_machine) == 5
    assert np.abs(held_out - own).max() <= 1e-6 * np.ptp(own)


@pytest.mark.parametrize("recipe", ["one_class", "one_class_conformal"])
def test_what_lies_far_from_everything_has_one_score_in_every_fold_of_one_class(cohort, recipe, trained):
    model = trained(cohort, recipe, search=3, repeats=1)
    far = np.full((1, model.encoder.transform(cohort).shape[1]), 1e6)

    of_each = [model.ensemble.decision_of(k, far)[0, 0] for k in range(5)]

    assert of_each == pytest.approx([1.0] * 5, rel=1e-6)


@pytest.mark.parametrize(("recipe", "params"), [*BINARY.items(), *SEVERAL.items()], ids=[*BINARY, *SEVERAL])
def test_the_model_is_the_mean_of_its_machines_however_it_is_summed(cohort, tissue, recipe, params, trained):
    rows = tissue if recipe in SEVERAL else cohort
    model = trained(rows, recipe, params=params, search=1, repeats=1)
    encoded, kind = model.encoder.transform(rows), model.ensemble.kind

    alone = [
        oriented_decisions(each, encoded, kind, model.ensemble.n_outputs) for each in model.ensemble.machines
    ]

    together = model.ensemble.decisions(encoded)
    assert np.abs(together - np.mean(alone, axis=0)).max() <= 2e-5 * np.abs(together).max()


@pytest.mark.parametrize("recipe", ["svm_weighted", "one_class"])
def test_the_order_of_rows_and_columns_changes_no_flag_and_no_threshold(tmp_path, recipe):
    table = patients()
    mixed = table.sample(frac=1, random_state=3)[["ward", "ill", "crp", "patient", "fever"]]

    first, second = (
        train(read(each, tmp_path, f"{n}.csv", label="ill", id="patient"), recipe, search=3, beside=())
        for n, each in enumerate((table, mixed))
    )

    one, other = (each.validation.set_index("id").sort_index() for each in (first, second))
    assert second.thresholds == pytest.approx(first.thresholds, rel=1e-6)
    assert ((one["score"] >= first.thresholds[0]) == (other["score"] >= second.thresholds[0])).all()


def test_two_patients_are_enough_and_that_is_said(tmp_path):
    table = voxels(n_patients=2, each=120)
    table["tissue"] = np.where(table["tissue"] == "lesion", "lesion", "other")
    cohort = read(table, tmp_path, label="tissue", group="patient", drop=["x", "y", "z"])

    model = train(cohort, "svm_weighted", search=3, beside=())

    assert model.document["validation"]["folds"] == 2
    assert any("2 group(s) for 5 folds" in note for note in model.document["training"]["notes"])


def test_too_few_cases_for_the_promise_are_refused_before_anything_is_trained(tmp_path, monkeypatch):
    table = patients()
    table["ill"] = np.where(np.arange(len(table)) < 3, "yes", "no")
    monkeypatch.setattr("screening.model_selection.train.held_out_by", None)

    with pytest.raises(UsageError, match=r"3 case\(s\) of yes are too few.*9 cases.*--min-sensitivity 0.75"):
        train(read(table, tmp_path, label="ill", id="patient"), beside=())


@given(st.integers(2, 30), st.floats(0.97, 0.985), st.sampled_from([None, 0.8, 0.95]))
def test_what_is_advised_where_cases_are_too_few_is_enough(m, asked, confidence):
    def refuse(cases, sensitivity):
        rule = MinSensitivity(sensitivity, confidence=confidence)
        refuse_too_few("yes", cases, rule)

    with pytest.raises(UsageError) as refused:
        refuse(m, asked)

    cases, less = re.search(
        r"At least (\d+) cases are needed.* --min-sensitivity ([\d.]+),", str(refused.value)
    ).groups()
    refuse(int(cases), asked)
    refuse(m, float(less))
    with pytest.raises(UsageError):
        refuse(int(cases) - 1, asked)


def test_of_several_classes_one_too_rare_is_refused_where_no_other_can_be_watched(tmp_path):
    table = voxels(n_patients=6)
    rare = np.flatnonzero(table["tissue"] == "lesion")
    table.loc[rare[3:], "tissue"] = "gland"
    cohort = read(table, tmp_path, label="tissue", id=None, drop=["patient", "x", "y", "z"])

    with pytest.raises(UsageError, match=r"lesion are too few to promise"):
        train(cohort, "one_vs_rest", search=1, beside=())


def test_a_rule_that_few_cases_can_keep_still_trains_on_three(tmp_path):
    table = patients()
    table["ill"] = np.where(np.arange(len(table)) < 3, "yes", "no")

    model = train(
        read(table, tmp_path, label="ill", id="patient"),
        "svm_weighted",
        search=1,
        rule=MaxFlagRate(0.2),
        beside=(),
    )

    assert model.document["validation"]["folds"] == 3


def folds_of(n_rows=200, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    target = (rng.random(n_rows) < share).astype(int)
    return target, np.arange(n_rows) % 5, rng.normal(size=n_rows) + target


def test_where_every_setting_is_dropped_the_refusal_says_why_and_what_to_try():
    target, fold, scores = folds_of()
    constant = np.where(scores > 0, 1.0, 1.0 + 1e-14)

    with pytest.raises(RecipeError, match=f"recipe svm.*{CONSTANT}.*--search"):
        choose_setting("auroc", "svm", [{}], constant[None, :, None], target, fold)


def test_a_model_that_does_not_flag_its_own_cases_is_refused():
    target, fold, scores = folds_of()
    held = HeldOutScores(BINARY_TASK, target, scores[None, :, None], fold, groups=None)
    point = choose(scores, target == 1, MinSensitivity(0.9), fold=fold)

    def check(trained):
        check_model(replace(held, trained=trained, recipe="svm"), 0, point)

    check(scores[:, None])
    with pytest.raises(RecipeError, match=r"recipe svm: it promises to find .* and flags 0%"):
        check(scores[:, None] - 100.0)
    with pytest.raises(RecipeError, match="scores all rows alike"):
        check(np.full((len(scores), 1), 5.0))


@pytest.mark.parametrize("recipe", ["svm_weighted", "one_class"])
def test_a_p_value_of_one_in_twenty_comes_once_in_twenty_fresh_negatives(tmp_path, recipe):
    fresh = read(patients(6000, seed=99), tmp_path, "fresh.csv", label="ill", id="patient")
    negatives = fresh.take(fresh.label == "no")
    shares = []

    for seed in range(8):  # one calibration set of 340 is itself off by 0.012
        past = read(patients(400, seed=seed), tmp_path, label="ill", id="patient")
        model = train(past, recipe, search=1, forward=False, beside=())
        p = p_values(model.calibration, model.scores(model.encoder.transform(negatives))[:, 0])
        shares.append(np.mean(p <= 0.05))

    assert 0.04 <= np.mean(shares) <= 0.06
