"""Every figure of a model's page is of one rule: `threshold` gives those of a training with that rule."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from screening import read_cohort, train
from screening.contract.contract import Contract
from screening.errors import UsageError
from screening.model_selection.revising import approve, set_threshold
from screening.schemas.base import Reason
from screening.schemas.figures import MaxFlagRate, MinSensitivity, Rule
from screening.schemas.model import ModelDocument
from screening.store.loading import load_model
from screening.store.model import Model, save_model

FIRST = MinSensitivity(0.8)
OTHER = MaxFlagRate(0.25)


def patients(n: int = 240, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    return pd.DataFrame(
        {
            "row": [f"r{i:04d}" for i in range(n)],
            "who": [f"p{i // 2:04d}" for i in range(n)],
            "crp": rng.normal(1.5 * ill, 1.0).round(3),
            "age": rng.normal(60, 12, n).round(),
            "sex": rng.choice(["f", "m"], n),
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n), unit="D"),
            "ill": np.where(ill, "yes", "no"),
            "kind": np.where(ill, rng.choice(["a", "b"], n), rng.choice(["none", "well"], n)),
        }
    )


CASES = {
    "two_class": dict(recipe="svm_weighted", label="ill", beside=("logistic",), drop=["who", "kind"]),
    "grouped": dict(recipe="logistic", label="ill", group="who", beside=("svm",), drop=["kind"]),
    "one_class": dict(recipe="one_class", label="ill", beside=("logistic",), drop=["who", "kind"]),
    "multi_class": dict(
        recipe="one_vs_rest", label="kind", positive=["a", "b"], beside=("one_vs_one",), drop=["who", "ill"]
    ),
    "joined": dict(
        recipe="logistic",
        label="kind",
        positive=["a+b", "well"],
        beside=("random_forest",),
        drop=["who", "ill"],
    ),
    "blended_classes": dict(
        recipe="auto", label="kind", positive=["a", "b"], beside=("logistic",), drop=["who", "ill"]
    ),
    "blended": dict(recipe="auto", label="ill", beside=("svm", "logistic"), drop=["who", "kind"]),
}


def trained(case: str, rule: Rule, tmp_path) -> Model:
    """A model of a made ward, with subgroups, dates and other methods beside it, as it is stored."""
    asked = dict(CASES[case])
    recipe, beside = asked.pop("recipe"), asked.pop("beside")
    contract = Contract.from_dict({"cohort": {"time": "day", "subgroup": ["sex"]}})
    cohort = read_cohort(patients(), contract, need_label=True, id="row", **asked)
    model = train(cohort, recipe, rule=rule, folds=3, search=1, beside=beside, seed=1)
    return load_model(save_model(model, tmp_path / rule.name))


def told(model: Model) -> dict[str, object]:
    """All that the document says, but for who chose the rule, and the digests."""
    points = [each.replace(chosen_by="", reason=None) for each in model.facts.operating_points]
    same = model.facts.replace(operating_points=points, arrays_sha256="", validation_sha256="", sha256="")
    return same.to_dict()


@pytest.mark.parametrize("case", CASES)
def test_threshold_gives_every_number_of_a_training_with_that_rule(case, tmp_path):
    """`screen threshold` leaves no figure of the rule before."""
    first, other = trained(case, FIRST, tmp_path), trained(case, OTHER, tmp_path)

    rechosen = set_threshold(first, OTHER, "fewer reviews")

    assert told(rechosen) != told(first)
    assert told(rechosen) == told(other)
    np.testing.assert_array_equal(rechosen.calibration, other.calibration)
    pd.testing.assert_frame_equal(rechosen.validation, other.validation)


def test_what_training_said_of_the_rows_stands_after_a_revision(tmp_path):
    """Another threshold and an approval leave the warning that rows may be of the same patients."""
    model = trained("grouped", FIRST, tmp_path)
    said = Reason("rows_of_one_patient", "Rows repeat age and sex.")
    warned = replace(model, document=model.facts.replace(attention=[*model.facts.attention, said]).to_dict())

    for revised in (
        set_threshold(warned, OTHER, "why"),
        approve(warned, "X", datetime.date(2026, 3, 1), "trial"),
    ):
        assert said in revised.facts.attention


def test_a_document_with_figures_of_two_rules_is_refused(tmp_path):
    """Subgroups of another rule than the operating point's fail when the document is read."""
    first, other = (
        ModelDocument.from_dict(trained("grouped", rule, tmp_path).facts.to_dict()) for rule in (FIRST, OTHER)
    )

    with pytest.raises(ValueError, match="of another"):
        first.replace(validation=first.validation.replace(subgroups=other.validation.subgroups))
    with pytest.raises(ValueError, match="of another rule"):
        first.replace(validation=first.validation.replace(forward=other.validation.forward))
    assert isinstance(first, ModelDocument)


def test_threshold_refuses_a_rule_that_only_flagging_everybody_keeps(tmp_path):
    """What `train` refuses, `threshold` refuses in the same words."""
    with pytest.raises(UsageError, match="too few to promise"):
        set_threshold(trained("grouped", FIRST, tmp_path), MinSensitivity(0.999), "safety")
