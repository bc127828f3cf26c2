"""When something is mistyped: one line, what was probably meant, and JSON where that was asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import screen
from flow_cohorts import patients, written

from screening.contract.contract import Contract
from screening.errors import CohortError, RecipeError
from screening.recipes.building import build
from screening.recipes.loading import read_recipe

QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--beside", "none"]


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    return written(patients(), tmp_path_factory.mktemp("words") / "past.csv")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tarin", "past.csv"], "'tarin'. Did you mean 'train'?"),
        (["train", "past.csv", "--recpie", "svm"], "no option --recpie; did you mean '--recipe'?"),
        (["train"], "missing argument 'COHORT'"),
        (["train", "past.csv", "--out", "m", "--folds", "x"], "'--folds'"),
        (["recipes", "svm_weigthed"], "did you mean 'svm_weighted'?"),
    ],
)
def test_a_mistyped_command_gets_one_line_and_json_where_asked_for(words, told):
    plain, asked = screen(*words, code=2), screen(*words, "--json", code=2)

    (line,) = plain.stderr.splitlines()
    assert line.startswith("screen: ")
    assert told in line
    assert plain.stdout == ""
    answer = json.loads(asked.stdout)["error"]
    assert (answer["kind"], answer["exit_code"]) == ("usage", 2)
    assert told in answer["message"]


def test_the_command_alone_shows_its_help():
    assert "Commands:" in screen(code=2).stderr


@pytest.mark.parametrize(
    ("option", "name", "told"),
    [("--label", "ll", "'ill'"), ("--id", "Patient", "'patient'"), ("--drop", "warrd", "'ward'")],
)
def test_a_column_that_is_not_there_asks_for_the_one_most_like_it(past, tmp_path, option, name, told):
    answer = screen("train", past, option, name, *QUICK, "--out", tmp_path / "m", code=3)

    assert f"missing column '{name}'; did you mean {told}?" in answer.stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[cohort]\nlable = 'ill'\n", "cohort.lable; did you mean 'label'?"),
        ("[features.crp]\ntype = 'number'\nplausable = [0, 9]\n", "plausable; did you mean 'plausible'?"),
        ("[feature.crp]\ntype = 'number'\n", "'feature'.*did you mean 'features'?"),
    ],
)
def test_a_mistyped_key_of_a_contract_asks_for_the_right_one(tmp_path, text, meant):
    (tmp_path / "c.toml").write_text(text)

    with pytest.raises(CohortError, match=meant.replace("?", r"\?")):
        Contract.load(tmp_path / "c.toml")


def test_mistyped_keys_and_parameters_of_a_recipe_ask_for_the_right_ones():
    with pytest.raises(RecipeError, match=r"'machin' is not a key of a recipe; did you mean 'machine'\?"):
        read_recipe('name = "a"\nmachin = "two_class"\n', "a.toml")
    with pytest.raises(RecipeError, match=r"did you mean 'gamma'\?"):
        build("svm", gama=1.0)


# --- another model in the place


def trained(past, out, *more, code=0):
    return screen("train", past, "--label", "ill", "--id", "patient", *QUICK, *more, "--out", out, code=code)


def test_a_model_of_another_recipe_cohort_or_label_is_replaced_by_force_alone(past, tmp_path):
    out = tmp_path / "model"
    trained(past, out)
    before = (out / "model.json").read_bytes()
    table = patients(seed=1)
    table["cold"] = np.where(table["fever"] < 37, "yes", "no")
    other = written(table, tmp_path / "other.csv")

    recipe = trained(past, out, "--recipe", "svm", code=2)
    cohort = trained(other, out, "--label", "cold", code=2)

    assert "holds a model of another recipe; give another --out, or --force" in recipe.stderr
    assert "another cohort and label" in cohort.stderr
    assert (out / "model.json").read_bytes() == before
    trained(other, out, "--force")
    assert (out / "model.json").read_bytes() != before


def test_the_same_training_may_replace_its_own_model_byte_for_byte(past, tmp_path):
    trained(past, tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_bytes()
    trained(past, tmp_path / "model")

    assert (tmp_path / "model" / "model.json").read_bytes() == before


def test_a_damaged_model_is_not_swept_away_unasked(past, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{")

    assert "cannot be read; give another --out" in trained(past, tmp_path / "model", code=2).stderr
