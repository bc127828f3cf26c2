"""From a model and a new table to a run directory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, voxels, written

from screening import read_cohort, score, train
from screening.errors import CohortError, UsageError
from screening.schemas.figures import Threshold
from screening.scoring.explaining import changes
from screening.store.model import CHANCES


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm_weighted", search=1)


@pytest.fixture
def night(tmp_path):
    return written(patients(90, seed=7), tmp_path / "night.csv")


@pytest.fixture
def run(model, night, tmp_path):
    return score(model, night, tmp_path / "run", date="2026-01-31")


def table(run):
    return pd.read_parquet(run.directory / "scores.parquet")


def test_scores_have_the_promised_columns_and_no_label(run):
    scores = table(run)
    assert list(scores.columns) == ["id", "score", "p_value", "flagged", *CHANCES, "row", "class"]
    assert scores["id"].str.startswith("007").all()
    assert scores["flagged"].dtype == bool
    assert scores["p_value"].between(1 / 300, 1).all()


def test_counts_add_up_everywhere(run):
    counts = run.document["counts"]
    flagged = pd.read_csv(run.directory / "flagged.csv", dtype=str)
    assert counts["read"] == counts["scored"] + counts["refused"] == len(table(run)) == 90
    assert counts["flagged"] == table(run)["flagged"].sum() == len(flagged) == run.document["cases_total"]


def test_a_directory_belongs_to_one_night_of_one_model(model, cohort, trained, night, run, tmp_path):
    before = (run.directory / "run.json").read_bytes()
    other = trained(cohort, "logistic", search=1)

    for scoring, date, named in (
        (model, "2026-02-01", "night of 2026-01-31"),
        (other, "2026-01-31", "another model"),
    ):
        with pytest.raises(UsageError, match=f"run holds .*{named}.*another --out"):
            score(scoring, night, run.directory, date=date)
        assert (run.directory / "run.json").read_bytes() == before
    assert score(model, night, run.directory, date="2026-01-31").document["run_id"] == run.document["run_id"]


def test_scores_do_not_depend_on_the_batches(model, night, run, tmp_path):
    other = score(model, night, tmp_path / "other", date="2026-01-31", batch_rows=7)
    assert table(other).equals(table(run))
    assert (other.directory / "report.html").read_bytes() == (run.directory / "report.html").read_bytes()


def test_flagged_means_at_or_above_the_threshold(model, run):
    scores = table(run)
    assert np.array_equal(scores["flagged"], scores["score"] >= model.thresholds[0])


def test_labels_are_used_and_never_written(model, night, tmp_path):
    run = score(model, night, tmp_path / "run", label="ill")
    evaluation = run.document["evaluation"]["yes"]
    assert evaluation["n_positive"] + evaluation["n_negative"] == 90
    assert "ill" not in set(table(run).columns)
    assert '"label_of_row"' not in (run.directory / "run.json").read_text()


def test_rows_without_a_label_are_judged_by_nobody(model, tmp_path):
    night = patients(90, seed=4)
    whole = score(model, written(night, tmp_path / "whole.csv"), tmp_path / "a", label="ill")
    half = score(model, written(night[:40], tmp_path / "half.csv"), tmp_path / "b", label="ill")
    untold = night.assign(ill=night["ill"].where(np.arange(90) < 40))
    run = score(model, written(untold, tmp_path / "untold.csv"), tmp_path / "c", label="ill")
    none = score(model, written(night.assign(ill=""), tmp_path / "none.csv"), tmp_path / "d", label="ill")

    assert run.document["evaluation"] == half.document["evaluation"] != whole.document["evaluation"]
    assert run.document["counts"] == whole.document["counts"]
    assert none.document["evaluation"] is None
    pages = [(each.directory / "report.html").read_text() for each in (run, whole)]
    assert ["(50 rows without a label left out)" in page for page in pages] == [True, False]


def test_a_label_spelled_otherwise_than_in_training_is_refused_and_not_taken_for_the_other(model, tmp_path):
    night = patients(90, seed=4).replace({"ill": {"yes": "YES"}})
    with pytest.raises(CohortError, match=r"column 'ill', rows .*: a label the model was not trained on"):
        score(model, written(night, tmp_path / "night.csv"), tmp_path / "run", label="ill")


def test_a_label_that_is_the_same_number_in_another_notation_is_the_same(tmp_path):
    numbered, night = (
        table.assign(ill=(table["ill"] == "yes").astype(int)) for table in (patients(), patients(90, seed=4))
    )
    past = read_cohort(written(numbered, tmp_path / "past.csv"), label="ill", id="patient")
    model = train(past, "svm_weighted", search=1, beside=())
    half = night.assign(ill=night["ill"].astype(float).where(np.arange(90) < 40))

    run = score(model, half, tmp_path / "run", label="ill")

    assert run.document["evaluation"]["1"]["n_positive"] == int((night["ill"][:40] == 1).sum()) > 0


def test_a_broken_table_leaves_nothing_behind(model, tmp_path):
    broken = patients(30, seed=3).astype({"fever": object})
    broken.loc[4, "fever"] = "hot"
    path = written(broken, tmp_path / "night.csv")

    with pytest.raises(CohortError, match="fever"):
        score(model, path, tmp_path / "run")

    assert [p.name for p in tmp_path.iterdir()] == ["night.csv"]


def test_a_night_without_a_single_flag_is_a_run_too(cohort, night, tmp_path):
    strict = train(cohort, "svm_weighted", search=1, rule=Threshold(50.0), beside=())
    run = score(strict, night, tmp_path / "run")
    assert run.document["counts"]["flagged"] == 0
    assert (run.directory / "flagged.csv").read_text().count("\n") == 1


def test_the_same_night_has_the_same_identity_and_another_date_label_or_table_another(
    model, night, run, tmp_path
):
    again = score(model, night, tmp_path / "again", date="2026-01-31")
    other = written(patients(30, seed=8), tmp_path / "other.csv")
    others = [
        score(model, night, tmp_path / "later", date="2026-02-01"),
        score(model, night, tmp_path / "labelled", date="2026-01-31", label="ill"),
        score(model, other, tmp_path / "another", date="2026-01-31"),
    ]

    assert again.document["run_id"] == run.document["run_id"]
    assert len({each.document["run_id"] for each in (run, *others)}) == 4


def test_a_value_at_the_training_median_contributes_nothing(model, cohort):
    middle = cohort.take([0, 1])
    middle.values["fever"][:] = model.encoder.medians["fever"]
    moved = changes(model, middle, np.zeros(2, dtype=int))
    assert moved[:, cohort.names.index("fever")] == pytest.approx(0, abs=1e-12)
    assert np.abs(moved).max() > 0


def test_contributions_are_the_change_of_the_score_when_the_value_is_replaced(model, cohort):
    rows = cohort.take(np.arange(5))
    usual = {**rows.values, "crp": np.full(5, model.encoder.medians["crp"])}
    neutral = model.scores(model.encoder.transform(replace(rows, values=usual)))[:, 0]
    moved = changes(model, rows, np.zeros(5, dtype=int))[:, cohort.names.index("crp")]
    assert moved == pytest.approx(model.scores(model.encoder.transform(rows))[:, 0] - neutral)


def test_a_voxel_run_counts_by_patient_and_scores_every_class(tissue, trained, tmp_path):
    model = trained(tissue, "one_vs_rest", search=1, folds=4)

    new = written(voxels(2, 50, seed=9), tmp_path / "new.parquet")
    run = score(model, new, tmp_path / "run", label="tissue")

    scores = table(run)
    classes = [f"score_{name}" for name in ("gland", "lesion", "zone")]
    figures = ["score", "p_value", "flagged", "predicted", *classes]
    assert list(scores.columns) == ["id", "group", "x", "y", "z", *figures, "row", "class", "tissue"]
    assert sum(group["flagged"] for group in run.document["groups"]) == run.document["counts"]["flagged"]
    assert [group["rows"] for group in run.document["groups"]] == [50, 50]
    assert len(run.document["evaluation"]["per_class"]) == 3
