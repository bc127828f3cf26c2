"""From a labelled table to a model: what is tuned on what, what came after the past, and what is stored."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients

from screening import load_model, read_cohort, save_model, score, train
from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.model_selection.train import split_by_time


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm", search=4)


def test_every_row_is_held_out_once_and_again_in_every_repeat(model, cohort, trained):
    """Calibration holds the negatives alone; nothing depends on the number of threads."""
    columns = {"id", "held", "fold", "label", "score", "trained:score"}
    once, twice = (trained(cohort, "svm", search=1, repeats=repeats) for repeats in (1, 2))
    negatives = model.validation.loc[model.validation["label"] == "no", "score"]

    assert sorted(model.validation["id"]) == sorted(once.validation["id"]) == sorted(cohort.id)
    assert set(once.validation.columns) == columns
    assert set(model.validation.columns) == columns | {"score@0", "score@1", "score@2"}
    assert [len(each.ensemble.machines) for each in (once, twice, model)] == [5, 10, 15]
    assert np.array_equal(twice.validation["score@0"], once.validation["score"])
    assert np.array_equal(model.calibration, np.sort(negatives))
    assert trained(cohort, "svm", search=4, jobs=2).digest == model.digest


def test_patients_are_never_split_and_the_rare_class_is_watched(tissue, trained):
    found = trained(tissue, "one_vs_rest", search=1, folds=4)

    folds_of = found.validation.groupby("group")["fold"].nunique()
    assert found.watched == ["lesion"]
    assert (folds_of == 1).all()
    assert np.sum(found.document["validation"]["confusion"]["counts"]) == tissue.n_rows


def test_a_sub_sample_is_stated_and_keeps_the_prevalence_of_the_table(cohort, trained):
    """A parameter that the caller fixes is not searched; a one-class recipe learns from negatives alone."""
    part = trained(cohort, "svm", search=1, max_rows=150).document
    fixed = trained(cohort, "svm", search=5, params={"C": 0.5}).document
    alone = trained(cohort, "one_class", search=1)
    negatives = {row.tobytes() for row in alone.encoder.transform(cohort.take(cohort.label == "no"))}
    learned = {row.tobytes() for row in alone.ensemble.union[0]}

    assert "trained and validated on 150 of 240 rows" in " ".join(part["training"]["notes"])
    assert part["operating_points"][0]["prevalence"] == pytest.approx((cohort.label == "yes").mean())
    assert {choice["C"] for choice in fixed["validation"]["search"]["candidates"]} == {0.5}
    assert fixed["recipe"]["parameters"]["C"] == 0.5
    assert learned and learned <= negatives


@pytest.mark.parametrize(
    ("recipe", "machines"), [("svm", 15), ("logistic", 15), ("balanced_forest", 5), ("williams", 5)]
)
def test_folds_are_dealt_again_where_nobody_asks_only_if_the_machines_average_to_one(
    cohort, recipe, machines, trained
):
    assert len(trained(cohort, recipe, search=1).ensemble.machines) == machines


def test_labels_that_cannot_be_trained_on_are_refused(tissue):
    """A row without a label is not taken for one without the condition."""
    table = patients()
    night = read_cohort(table.drop(columns="ill"), id="patient")
    table.loc[:9, "ill"] = None
    past = read_cohort(table, label="ill", id="patient")

    with pytest.raises(UsageError, match="--positive"):
        train(tissue, "svm", beside=())
    with pytest.raises(UsageError, match="--label"):
        train(night, "svm", beside=())
    with pytest.raises(CohortError, match=rf"column 'ill': 10 of {len(table)} rows have no label"):
        train(past, "logistic", search=1, beside=())


def test_a_column_that_holds_nothing_has_no_range_and_ends_no_training(tmp_path):
    table = patients().assign(lactate=np.nan)
    whole = read_cohort(table.drop(columns="lactate"), label="ill", id="patient").contract.to_dict()
    features = whole["features"] | {"lactate": {"type": "number"}}
    contract = Contract.from_dict(whole | {"features": features, "feature_order": [*features]})
    model = train(read_cohort(table, contract), "logistic", search=1, beside=())

    facts = load_model(save_model(model, tmp_path / "model")).facts.training.features

    (lactate,) = [each for each in facts if each.name == "lactate"]
    assert lactate.reference is lactate.seen is None


ROLES = {
    "id": "patient", "label": "ill", "time": "day", "subgroup": ["sex"], "capacity": 10,
    "minutes_per_review": 4,
}  # fmt: skip
KINDS = {"fever": "number", "crp": "number", "ward": "category"}
SETTINGS = {"search": 1, "beside": ()}


@pytest.fixture(scope="module")
def rows():
    """300 days, a patient each."""
    table = patients(300, 0.25).assign(sex=np.where(np.arange(300) % 3 == 0, "f", "m"))
    table["day"] = pd.date_range("2025-01-01", periods=300, freq="D").strftime("%Y-%m-%d")
    features = {name: {"type": kind} for name, kind in KINDS.items()}
    return read_cohort(table, Contract.from_dict({"cohort": ROLES, "features": features}), need_label=True)


@pytest.fixture(scope="module")
def dated(rows):
    return train(rows, "svm_weighted", **SETTINGS)


def test_the_past_ends_before_what_came_after_and_no_group_stands_on_both_sides(rows):
    """Rows without a date belong to the past."""
    groups = np.array([f"g{i % 40}" for i in range(300)], dtype=object)
    time = rows.time.copy()
    time[-5:] = np.datetime64("NaT", "ns")
    past, later, cut = split_by_time(rows)
    grouped_past, grouped_later, _ = split_by_time(rows, groups)
    undated_past, undated_later, _ = split_by_time(replace(rows, time=time))

    assert rows.time[past].max() < np.datetime64(cut) <= rows.time[later].min()
    assert len(past) == 210 and len(past) + len(later) == len(undated_past) + len(undated_later) == 300
    assert not set(groups[grouped_past]) & set(groups[grouped_later])
    assert set(range(295, 300)) <= set(undated_past)


def test_training_records_the_test_of_time_and_learns_nothing_from_what_came_after(dated, rows):
    """Too few later cases are a stated reason."""
    fever = np.where(np.arange(300) < 210, rows.values["fever"], 30.0)
    label = np.where(np.arange(300) < 210, rows.label, "no")
    changed = replace(rows, values={**rows.values, "fever": fever}), replace(rows, label=label.astype(object))
    forward, other, few = (
        each.facts.validation.forward
        for each in (dated, *(train(each, "svm_weighted", **SETTINGS) for each in changed))
    )
    own, others = forward.classes["yes"], other.classes["yes"]

    assert (forward.cut, forward.n_past, forward.n_later, forward.reason) == ("2025-07-30", 210, 90, None)
    assert own.n_positive + own.n_negative == 90
    assert others.threshold == own.threshold
    assert others.sensitivity != own.sensitivity
    assert "holds 0 cases; 5 are needed" in few.reason


def test_a_night_and_its_page_show_all_of_it(dated, tmp_path):
    night = patients(80, seed=7).assign(day="2026-01-31", sex=["f", None] + ["m"] * 78)
    run = score(dated, night, tmp_path / "run", date="2026-01-31")
    page = (run.directory / "report.html").read_text()
    levels = {row["level"]: row["n"] for row in run.document["subgroups"]}

    assert levels == {"f": None, "m": 78, None: None}
    assert run.document["prevalence_estimate"]["low"] <= run.document["prevalence_estimate"]["value"]
    for words in (
        "Subgroups", "suppressed", "What a flag means here", "Temporal validation", "2025-07-30",
        "Capacity is 10 reviews a night", "TRIPOD+AI", "Drift tonight",
    ):  # fmt: skip
        assert words in page
