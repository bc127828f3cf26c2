"""What looks like the answer itself is named; what is known only afterwards is never used."""

import numpy as np
import pytest
from flow_cohorts import patients, written

from screening import read_cohort, train
from screening.report import render_model

CONTRACT = (
    'format = 1\n[cohort]\nid = "patient"\nlabel = "ill"\npositive = ["yes"]\n'
    '[features.fever]\ntype = "number"\n[features.crp]\ntype = "number"\n'
)
SEEDS = np.random.default_rng(1)


def trained(table, folder, contract=None):
    path = written(table, folder / "past.csv")
    cohort = read_cohort(path, contract, label="ill", id="patient", positive="yes", need_label=True)
    return train(cohort, "logistic", search=1, repeats=1, beside=())


def codes(model):
    return {(each["code"], each["column"]) for each in model.document["training"]["leaks"]}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_column_that_ranks_alone_is_named_on_the_page_too(tmp_path, sign):
    table = patients()
    table["discharge_code"] = sign * ((table["ill"] == "yes") + SEEDS.normal(0, 0.05, len(table)))
    model = trained(table, tmp_path)
    assert codes(model) == {
        ("ranks_alone", "discharge_code"), ("named_after", "discharge_code"), ("too_good", "discharge_code"),
    }  # fmt: skip
    assert "Look at discharge_code: alone it ranks with AUROC" in render_model(model.sealed)


def test_a_category_that_is_the_answer_is_named_and_one_of_many_levels_is_not(tmp_path):
    table = patients()
    table["code"] = np.where(table["ill"] == "yes", SEEDS.choice(["A41.9", "R65.2"], len(table)), "Z00")
    table["room"] = [f"room {i}" for i in SEEDS.integers(0, len(table) // 4, len(table))]
    assert codes(trained(table, tmp_path)) == {("ranks_alone", "code"), ("too_good", "code")}


def test_a_category_that_is_nearly_a_name_is_named(tmp_path):
    table = patients()
    table["ward"] = [f"note {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(len(table))]
    contract = tmp_path / "cohort.toml"
    contract.write_text(CONTRACT + '[features.ward]\ntype = "category"\n')
    assert ("nearly_unique", "ward") in codes(trained(table, tmp_path, contract))


def test_missing_values_that_tell_are_named(tmp_path):
    table = patients()
    table["lactate"] = SEEDS.normal(1, 0.3, len(table))
    table.loc[(table["ill"] == "no") & (np.arange(len(table)) % 2 == 0), "lactate"] = np.nan
    assert ("missing_tells", "lactate") in codes(trained(table, tmp_path))


def test_a_column_known_only_after_the_outcome_is_left_out_and_that_is_said(tmp_path):
    table = patients().assign(icu_days=lambda table: (table["ill"] == "yes") * 5.0)
    contract = tmp_path / "cohort.toml"
    late = '[features.icu_days]\ntype = "number"\navailable = "after"\n'
    contract.write_text(CONTRACT + late + '[features.ward]\ntype = "category"\n')
    model = trained(table, tmp_path, contract)
    assert "icu_days" not in model.contract.features
    said = "icu_days is left out: it is known only after the outcome (contract)"
    assert said in model.document["training"]["notes"]


def test_a_column_that_carries_the_whole_ranking_is_named_with_what_is_left_without_it(tmp_path):
    table = patients()
    table["marker"] = (table["ill"] == "yes") + SEEDS.normal(0, 0.36, len(table))

    model = trained(table, tmp_path)

    (leak,) = [each for each in model.document["training"]["leaks"] if each["code"] == "too_good"]
    assert leak["column"] == "marker"
    whole = model.document["validation"]["summary"]["yes"]["auroc"]["value"]
    assert leak["figure"] < whole - 0.03
    assert f"without it logistic regression on the same folds has {leak['figure']:.3f}" in leak["said"]
    assert any("the whole model has" in reason["words"] for reason in model.document["attention"])


def test_a_model_that_is_nearly_perfect_names_the_columns_that_would_explain_it(tmp_path):
    table = patients()
    for name in ("a", "b", "c"):
        table[name] = (table["ill"] == "yes") + SEEDS.normal(0, 0.35, len(table))
    model = trained(table, tmp_path)
    (leak,) = [each for each in model.document["training"]["leaks"] if each["code"] == "too_good"]
    assert leak["said"].startswith(("a, ", "b, ", "c, ")) and "without them" in leak["said"]


AFTERWARDS = ["followUpDays", "LOS", "Entlassungsdatum_num", "durée de séjour", "décès"]
BEFORE = ["prior_discharges", "family_death_history", "days_in_hospital", "time"]


def test_names_that_speak_of_a_time_after_the_outcome_are_said_and_of_before_are_not(tmp_path):
    """And nothing else of a clean table."""
    table = patients()
    table[AFTERWARDS + BEFORE] = SEEDS.normal(size=(len(table), 9))
    assert codes(trained(table, tmp_path)) == {("named_after", name) for name in AFTERWARDS}
