"""The recipe that chooses a recipe: under the caller's rule, and with the runner-up told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from screening.auto import Auto, account, criterion_of
from screening.cohort import read_cohort
from screening.errors import RecipeError
from screening.operating_point import Rule
from screening.recipe import Recipe, list_recipes, load_recipe
from screening.report import render_model
from screening.store import load_model, save_model
from screening.training import train
from screening.validation.choice import Search, choose_setting
from screening.validation.criteria import criterion

FEW = ("svm_weighted", "svm", "logistic", "boosting", "one_vs_rest")
TEXT = """
name = "mine"
title = "Mine"
paper = "None"
machine = "auto"
among = {among}
[parameters]
recipe = "svm"
baselines = false
"""


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Cases inside a ring of others: no straight line parts them, a Gaussian kernel does."""
    rng = np.random.default_rng(0)
    case = np.arange(120) % 4 == 0
    angle, radius = rng.uniform(0, 2 * np.pi, 120), np.where(case, 0.4, 2.0) + rng.normal(0, 0.25, 120)
    place = tmp_path_factory.mktemp("ring") / "ring.csv"
    pd.DataFrame(
        {"a": radius * np.cos(angle), "b": radius * np.sin(angle), "case": np.where(case, "yes", "no")}
    ).to_csv(place, index=False)
    return read_cohort(str(place), label="case", need_label=True)


@pytest.fixture(scope="module")
def chosen(ring):
    auto = replace(load_recipe("auto"), among=("logistic", "svm"), parameters={"recipe": "svm"})
    return train(
        ring, auto, rule=Rule("g_mean"), folds=3, search=2, jobs=1, params={"baselines": True}, seed=1
    )


def test_the_method_that_can_solve_the_task_is_chosen_and_stored_as_itself(chosen, tmp_path):
    assert chosen.document["recipe"]["name"] == "svm"
    assert chosen.recipe == load_recipe("svm")

    save_model(chosen, tmp_path / "model", render_model)
    again = load_model(tmp_path / "model")

    np.testing.assert_array_equal(again.scores(chosen.selftest), chosen.scores(chosen.selftest))


def test_the_card_keeps_the_runner_up(chosen):
    found = chosen.document["validation"]["auto"]

    assert [row["recipe"] for row in found["table"]] == ["svm", "logistic"]
    assert found["table"][0]["score"] > found["table"][1]["score"] + 0.2
    assert found["score"] == found["table"][0]["score"]
    assert found["criterion"] == chosen.document["validation"]["search"]["criterion"] == "best_g_mean"


def test_settings_compete_by_the_criterion_on_the_held_out_rows_of_the_first_dealing(chosen):
    table = chosen.validation
    expected = criterion(
        "best_g_mean", table["score@0"].to_numpy(), (table["label"] == "yes").to_numpy().astype(int)
    )

    assert chosen.document["validation"]["auto"]["score"] == pytest.approx(expected)


def test_baselines_take_part_only_where_allowed_and_only_what_can_be_stored_is_trained():
    auto = replace(load_recipe("auto"), among=FEW)
    rule = Rule("g_mean")

    assert auto.suited(False, rule, {}, stored=False).among == ("svm_weighted", "svm")
    assert auto.suited(False, rule, {"baselines": True}, stored=True).among == FEW[:3]
    assert auto.suited(False, rule, {"baselines": True}, stored=False).among == FEW[:4]
    assert auto.suited(True, rule, {}, stored=True).among == ("one_vs_rest",)
    assert auto.suited(False, rule, {"recipe": "svm"}, stored=True).among == ("svm",)


def test_baselines_that_cannot_be_stored_are_refused_by_train(ring):
    with pytest.raises(RecipeError, match=r"screen compare.*logistic"):
        train(ring, "boosting", folds=3)


def test_what_is_not_stored_is_exactly_what_boosts_trees():
    assert {recipe.name for recipe in list_recipes() if not recipe.persistable} == {
        "boosting",
        "easy_ensemble",
    }


def test_every_candidate_of_the_shipped_list_builds():
    auto = load_recipe("auto")
    assert isinstance(auto, Auto)
    assert set(auto.among) <= {recipe.name for recipe in list_recipes()}
    for candidate in auto.candidates(2, np.random.default_rng(0)):
        assert auto.build(**candidate) is not None


@pytest.mark.parametrize(
    ("among", "word"),
    [
        ("[]", "among"),
        ("['svm', 'nothing']", "nothing"),
        ("['svm', 'auto']", "auto"),
        ("['logistic']", "recipe"),
    ],
)
def test_a_list_that_cannot_work_is_refused(among, word):
    with pytest.raises(RecipeError, match=word):
        Recipe.from_text(TEXT.format(among=among))


def test_a_parameter_of_no_method_is_refused_with_the_list():
    with pytest.raises(RecipeError, match=r"colour.*baselines"):
        load_recipe("auto").build(colour=1)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (Rule("g_mean"), "best_g_mean"),
        (Rule("threshold", 0.3), "auroc"),
        (Rule("min_sensitivity", 0.9), "min_sensitivity=0.9"),
        (Rule("max_flag_rate", 0.1, prevalence=0.02), "max_flag_rate=0.1@0.02"),
        (Rule("miss_cost", 20), "miss_cost=20"),
    ],
)
def test_each_rule_has_its_criterion(rule, name):
    assert criterion_of(rule) == name


def test_rules_judge_an_order_as_they_promise():
    target = np.array([0] * 90 + [1] * 10)
    perfect, reverse = target.astype(float), -target.astype(float)

    assert criterion("min_sensitivity=0.9", perfect, target) == 1.0
    assert criterion("min_sensitivity=0.9", reverse, target) == 0.0
    assert criterion("max_flag_rate=0.1", perfect, target) == pytest.approx(1.0)
    assert criterion("max_flag_rate=0.05", perfect, target) == pytest.approx(0.5)
    assert criterion("miss_cost=20", perfect, target) == pytest.approx(-0.1)
    assert criterion("miss_cost=20@0.01", perfect, target) == pytest.approx(-0.01)


def test_the_account_orders_methods_by_their_best_setting():
    candidates = [{"recipe": "a", "C": 1}, {"recipe": "b", "C": 1}, {"recipe": "a", "C": 2}, {"recipe": "c"}]
    search = Search("auroc", 1, candidates, [0.7, 0.8, 0.9, None], [None, None, None, "its folds lie apart"])

    found = account(search)

    assert [(row["recipe"], row["parameters"]) for row in found["table"]] == [
        ("a", {"C": 2}),
        ("b", {"C": 1}),
    ]
    assert found["score"] == 0.8


def settled(candidates, decisions, target):
    """The number of the setting that is chosen by the AUROC of these held-out decisions."""
    matrix = np.array(decisions)[:, :, None]
    return choose_setting("auroc", "auto", candidates, matrix, target, np.arange(len(target)) % 5, 0).number


def test_another_recipe_must_be_ahead_by_more_than_luck():
    rng = np.random.default_rng(3)
    target = (rng.random(200) < 0.1).astype(int)
    known = target + rng.normal(size=200)
    twin = known + rng.normal(scale=0.3, size=(2, 200))[1]
    better = known + 3.0 * target
    candidates = [{"recipe": "first"}, {"recipe": "second"}]

    ahead = [criterion("auroc", each, target) - criterion("auroc", known, target) for each in (twin, better)]
    assert 0 < ahead[0] < 0.02 < ahead[1]
    assert settled(candidates, [known, twin], target) == 0
    assert settled(candidates, [known, better], target) == 1


def test_among_settings_of_one_recipe_the_highest_score_wins_and_the_first_of_equals():
    rng = np.random.default_rng(3)
    target = (rng.random(200) < 0.1).astype(int)
    known = target + rng.normal(size=200)
    twin = known + 0.05 * target

    assert settled([{"recipe": "first", "C": 1}, {"recipe": "first", "C": 2}], [known, twin], target) == 1
    assert settled([{"C": 1}, {"C": 2}], [known, twin], target) == 1
    assert settled([{"C": 1}, {"C": 2}], [known, known], target) == 0
