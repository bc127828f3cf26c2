"""The past tested on what came after, and a model's appraisal on its night's page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.model_selection.train import split_by_time

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
def model(rows):
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


def test_training_records_the_test_of_time_and_learns_nothing_from_what_came_after(model, rows):
    """Too few later cases are a stated reason."""
    fever = np.where(np.arange(300) < 210, rows.values["fever"], 30.0)
    label = np.where(np.arange(300) < 210, rows.label, "no")
    changed = replace(rows, values={**rows.values, "fever": fever}), replace(rows, label=label.astype(object))
    forward, other, few = (
        each.facts.validation.forward
        for each in (model, *(train(each, "svm_weighted", **SETTINGS) for each in changed))
    )
    own, others = forward.classes["yes"], other.classes["yes"]

    assert (forward.cut, forward.n_past, forward.n_later, forward.reason) == ("2025-07-30", 210, 90, None)
    assert own.n_positive + own.n_negative == 90
    assert others.threshold == own.threshold
    assert others.sensitivity != own.sensitivity
    assert "holds 0 cases; 5 are needed" in few.reason


def test_a_night_and_its_page_show_all_of_it(model, tmp_path):
    night = patients(80, seed=7).assign(day="2026-01-31", sex=["f", None] + ["m"] * 78)
    run = score(model, night, tmp_path / "run", date="2026-01-31")
    page = (run.directory / "report.html").read_text()
    levels = {row["level"]: row["n"] for row in run.document["subgroups"]}

    assert levels == {"f": None, "m": 78, None: None}
    assert run.document["prevalence_estimate"]["low"] <= run.document["prevalence_estimate"]["value"]
    for words in (
        "Subgroups", "suppressed", "What a flag means here", "Temporal validation", "2025-07-30",
        "Capacity is 10 reviews a night", "TRIPOD+AI", "Drift tonight",
    ):  # fmt: skip
        assert words in page
