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
from screening.store.loading import load_model
from screening.store.model import Model, save_model

FIRST = MinSensitivity(0.8)
OTHER = MaxFlagRate(0.25)


def patients(n: int = 240, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    return pd.DataFrame(
        {
            "row": [f"r{i:04d}" for i in range(n)], "who": [f"p{i // 2:04d}" for i in range(n)],
            "crp": rng.normal(1.5 * ill, 1.0).round(3), "age": rng.normal(60, 12, n).round(),
            "sex": rng.choice(["f", "m"], n),
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n), unit="D"),
            "ill": np.where(ill, "yes", "no"),
            "kind": np.where(ill, rng.choice(["a", "b"], n), rng.choice(["none", "well"], n)),
        }
    )  # fmt: skip


# Recipe and other methods; label, group and the values of the condition.
CASES = {
    "two_class": ("svm_weighted", ["logistic"], "ill", None, None),
    "grouped": ("logistic", ["svm"], "ill", "who", None),
    "one_class": ("one_class", ["logistic"], "ill", None, None),
    "multi_class": ("one_vs_rest", ["one_vs_one"], "kind", None, ["a", "b"]),
    "joined": ("logistic", ["random_forest"], "kind", None, ["a+b", "well"]),
    "blended_classes": ("auto", ["logistic"], "kind", None, ["a", "b"]),
    "blended": ("auto", ["svm", "logistic"], "ill", None, None),
}


def trained(case: str, rule: Rule, tmp_path) -> Model:
    """A model of a made ward, with subgroups, dates and other methods beside it, as it is stored."""
    recipe, beside, label, group, positive = CASES[case]
    contract = Contract.from_dict({"cohort": {"time": "day", "subgroup": ["sex"]}})
    roles = {"label": label, "group": group, "positive": positive, "id": "row"}
    drop = [*{"who", "ill", "kind"} - {label, group}]
    cohort = read_cohort(patients(), contract, need_label=True, drop=drop, **roles)
    model = train(cohort, recipe, rule=rule, folds=3, search=1, beside=beside, seed=1)
    return load_model(save_model(model, tmp_path / rule.name))


def told(model: Model) -> dict[str, object]:
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


def test_a_document_with_figures_of_two_rules_is_refused(tmp_path):
    """And a rule that only flagging everybody keeps; what was said of the rows stands after a revision."""
    model, other = (trained("grouped", rule, tmp_path) for rule in (FIRST, OTHER))
    first, of_other = model.facts.validation, other.facts.validation
    reason = Reason("rows_of_one_patient", "Rows repeat age and sex.")
    warned = replace(
        model, document=model.facts.replace(attention=[*model.facts.attention, reason]).to_dict()
    )
    approved = approve(warned, "X", datetime.date(2026, 3, 1), "trial")

    for changed in ({"subgroups": of_other.subgroups}, {"forward": of_other.forward}):
        with pytest.raises(ValueError, match="of another"):
            model.facts.replace(validation=first.replace(**changed))
    with pytest.raises(UsageError, match="too few to promise"):
        set_threshold(model, MinSensitivity(0.999), "safety")
    for revised in (set_threshold(warned, OTHER, "why"), approved):
        assert reason in revised.facts.attention
