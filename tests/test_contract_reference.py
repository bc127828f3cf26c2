"""Every key of a contract stands in the reference and in what `init` writes, with what it means."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from flow_cohorts import patients, written

from screening.cohort.reading import starter_contract
from screening.contract.contract import Contract, Feature
from screening.contract.keys import keys_of

DOCS = Path(__file__).parents[1] / "docs"
MODELS = (Contract, Feature)


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """Text of a starter contract."""
    path = written(patients(), tmp_path_factory.mktemp("starter") / "past.csv")
    contract, notes = starter_contract(path)
    return contract.to_toml(notes)


def test_the_reference_is_the_one_the_types_give():
    assert runpy.run_path(str(DOCS / "contract.py"))["reference"]() == (DOCS / "contract.md").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("model", MODELS)
def test_every_key_has_a_meaning_and_nothing_that_is_no_key_has_one(model):
    documented = {key.name for key in keys_of(model) if key.meaning}

    assert documented == set(model.model_fields) - {"features", "format"}


def test_a_starter_contract_names_and_explains_every_key(starter):
    words = " ".join(line.lstrip("# ") for line in starter.splitlines())

    for key in (key for model in MODELS for key in keys_of(model)):
        assert re.search(rf"^(# )?{key.name} = |^#   {key.name} \(", starter, flags=re.MULTILINE)
        assert key.meaning in words


def test_a_starter_contract_says_what_was_guessed(starter):
    assert "# guessed role id: patient" in starter
    assert "# guessed role label: ill" in starter


def test_a_key_of_the_cohort_may_be_set_by_taking_its_mark_away(starter):
    freed = re.sub(r"^# (\w+ = )", r"\1", starter, flags=re.MULTILINE)

    assert {key.name for key in keys_of(Contract)} == set(tomllib.loads(freed)["cohort"])
    Contract.from_dict(tomllib.loads(freed))
