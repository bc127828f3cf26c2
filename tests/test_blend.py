"""The blend: every member on the same folds, its scores standardised, and nothing chosen between them."""

import json

import numpy as np
import pytest
from flow_cohorts import patients, written
from sklearn.utils.estimator_checks import check_estimator

from screening import build, read_cohort, train
from screening.errors import RecipeError
from screening.machines.ensembles import BlendedClassifier
from screening.recipes.loading import read_recipe
from screening.scoring.cases import contributions
from screening.storage.loading import load_model
from screening.storage.model import save_model

TEXT = """
name = "ours"
title = "Ours"
paper = "none"
machine = "blend"
members = {members}
"""


def blend(*members):
    return read_recipe(TEXT.format(members=json.dumps(members)))


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, blend("svm_weighted", "logistic", "one_class_conformal"), search=3)


def test_the_score_is_the_mean_of_standardised_members(model, cohort):
    encoded = model.encoder.transform(cohort)
    parts = [
        (member.decisions(encoded) - centre) / scale
        for member, centre, scale in zip(
            model.ensemble.members, model.ensemble.centres, model.ensemble.scales, strict=True
        )
    ]

    assert len(parts) == 3
    assert np.allclose(model.decisions(encoded), np.mean(parts, axis=0))


def test_members_weigh_alike_on_held_out_rows(cohort, trained):
    alone = {name: trained(cohort, name, search=3, repeats=1) for name in ("svm_weighted", "logistic")}
    both = trained(cohort, blend(*alone), search=3, repeats=1)
    ids = sorted(cohort.id)

    columns = [each.validation.set_index("id")["score"][ids].to_numpy() for each in alone.values()]

    expected = np.mean([(own - own.mean()) / own.std() for own in columns], axis=0)
    assert np.allclose(both.validation.set_index("id")["score"][ids], expected, atol=1e-6)


def test_a_stored_blend_scores_as_before_and_is_itself(model, cohort, tmp_path):
    again = load_model(save_model(model, tmp_path / "blend"))
    encoded = model.encoder.transform(cohort)

    assert again.digest == model.digest
    assert np.array_equal(again.decisions(encoded), model.decisions(encoded))


def test_a_member_that_cannot_be_fitted_is_left_out_and_that_is_said(cohort, monkeypatch):
    from screening.validation import held_out

    real = held_out.hold_out

    def failing(sample, recipe, *given, **named):
        if recipe.name == "logistic":
            raise RecipeError("it will not")
        return real(sample, recipe, *given, **named)

    monkeypatch.setattr(held_out, "hold_out", failing)

    model = train(cohort, blend("svm", "logistic"), search=1)

    assert [each["name"] for each in model.document["recipe"]["members"]] == ["svm"]
    assert "member logistic left out: it will not" in model.document["training"]["notes"]


def test_with_very_few_positives_the_one_class_machines_carry_it(tmp_path):
    few = patients(300)
    few["ill"] = np.where(np.arange(300) < 9, "yes", "no")
    few.loc[few["ill"] == "yes", "fever"] += 2

    model = train(
        read_cohort(written(few, tmp_path / "few.csv"), label="ill", id="patient", need_label=True), search=6
    )

    assert {each["name"] for each in model.document["recipe"]["members"]} <= {
        "one_class",
        "one_class_conformal",
    }
    assert model.document["validation"]["encoded_by"] == "negatives"


def test_several_classes_are_blended_too(tissue, trained):
    model = trained(tissue, blend("one_vs_rest", "logistic"), search=2)

    assert model.watched == ["lesion"]
    assert model.decisions(model.encoder.transform(tissue)).shape == (tissue.n_rows, 3)
    assert len(model.document["blend"]) == 2


def test_a_case_tells_which_members_would_flag_it_alone(model, cohort):
    flagged = np.flatnonzero(model.scores(model.encoder.transform(cohort))[:, 0] >= model.thresholds[0])[:5]

    told = contributions(model, cohort.take(flagged), np.zeros(len(flagged), int))

    assert {name for each in told for name in each.votes} == {
        "svm_weighted",
        "logistic",
        "one_class_conformal",
    }
    assert all(sum(each.votes.values()) >= 1 for each in told)


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([], "members"),
        (["nope"], "nope"),
        (["auto"], "blend cannot have"),
        (["easy_ensemble"], "cannot be"),
        (["svm", "svm"], "once"),
    ],
)
def test_a_list_that_cannot_work_is_refused(members, word):
    with pytest.raises(RecipeError, match=word):
        blend(*members)


def test_parameters_belong_to_members_and_are_refused_by_the_blend():
    with pytest.raises(RecipeError, match="parameters belong to its members"):
        build("auto", C=3.0)


def test_the_blend_is_a_scikit_learn_estimator():
    estimator = BlendedClassifier((build("svm_weighted"), build("logistic")), folds=3)

    results = check_estimator(estimator, on_fail=None, on_skip=None)

    assert [one["check_name"] for one in results if one["status"] == "failed"] == []


def test_training_without_a_recipe_is_the_blend(cohort, trained):
    assert trained(cohort, search=1, repeats=1).document["recipe"]["name"] == "auto"
