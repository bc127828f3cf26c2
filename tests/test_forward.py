"""The past tested on what came after, and a model's appraisal on its night's page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, written

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.model_selection.train import split_by_time


def cohort(tmp_path, n_rows=300, seed=0, share=0.25):
    table = patients(n_rows, share, seed=seed)
    table["day"] = pd.date_range("2025-01-01", periods=n_rows, freq="D").strftime("%Y-%m-%d")
    table["sex"] = np.where(np.arange(n_rows) % 3 == 0, "f", "m")
    contract = Contract.from_dict(
        {
            "cohort": {
                "id": "patient", "label": "ill", "time": "day", "subgroup": ["sex"], "capacity": 10,
                "minutes_per_review": 4,
            },
            "features": {
                "fever": {"type": "number"}, "crp": {"type": "number"}, "ward": {"type": "category"},
            },
        }
    )  # fmt: skip
    return read_cohort(written(table, tmp_path / f"past{seed}.csv"), contract, need_label=True)


def test_the_past_ends_before_what_came_after_and_no_group_stands_on_both_sides(tmp_path):
    rows = cohort(tmp_path)
    groups = np.array([f"g{i % 40}" for i in range(300)], dtype=object)
    past, later, cut = split_by_time(rows)
    grouped_past, grouped_later, _ = split_by_time(rows, groups)

    assert rows.time[past].max() < np.datetime64(cut) <= rows.time[later].min()
    assert len(past) == 210 and len(past) + len(later) == 300
    assert not set(groups[grouped_past]) & set(groups[grouped_later])


def test_rows_without_a_date_belong_to_the_past(tmp_path):
    rows = cohort(tmp_path)
    time = rows.time.copy()
    time[-5:] = np.datetime64("NaT", "ns")

    past, later, _ = split_by_time(replace(rows, time=time))

    assert set(range(295, 300)) <= set(past)
    assert len(past) + len(later) == 300


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(cohort(tmp_path_factory.mktemp("past")), "svm_weighted", search=1, beside=())


def test_training_records_the_test_of_time_and_learns_nothing_from_what_came_after(model, tmp_path):
    forward = model.document["validation"]["forward"]
    rows = cohort(tmp_path)
    fever = np.where(np.arange(rows.n_rows) < 210, rows.values["fever"], 30.0)
    changed = replace(rows, values={**rows.values, "fever": fever})
    other = train(changed, "svm_weighted", search=1, beside=()).document["validation"]["forward"]

    assert (forward["cut"], forward["n_past"], forward["n_later"]) == ("2025-07-30", 210, 90)
    assert forward["reason"] is None
    assert forward["classes"]["yes"]["n_positive"] + forward["classes"]["yes"]["n_negative"] == 90
    assert other["classes"]["yes"]["threshold"] == forward["classes"]["yes"]["threshold"]
    assert other["classes"]["yes"]["sensitivity"] != forward["classes"]["yes"]["sensitivity"]


def test_too_few_later_cases_are_a_stated_reason(tmp_path):
    rows = cohort(tmp_path)
    label = rows.label.copy()
    label[210:] = "no"

    forward = train(replace(rows, label=label), "svm_weighted", search=1, beside=()).document["validation"][
        "forward"
    ]

    assert "holds 0 cases; 5 are needed" in forward["reason"]


def test_a_night_and_its_page_show_all_of_it(model, tmp_path):
    night = patients(80, seed=7).assign(day="2026-01-31", sex=["f", None] + ["m"] * 78)
    run = score(model, written(night, tmp_path / "night.csv"), tmp_path / "run", date="2026-01-31")
    page = (run.directory / "report.html").read_text()
    levels = {row["level"]: row["n"] for row in run.document["subgroups"]}

    assert levels == {"f": None, "m": 78, None: None}
    assert run.document["prevalence_estimate"]["low"] <= run.document["prevalence_estimate"]["value"]
    for words in (
        "Subgroups", "suppressed", "What a flag means here", "Temporal validation", "2025-07-30",
        "Capacity is 10 reviews a night", "TRIPOD+AI", "Drift tonight",
    ):  # fmt: skip
        assert words in page
