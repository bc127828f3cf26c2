"""From a model and a new table to a run directory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients, voxels, written
from written_files import page_in, scores_in

from screening import read_cohort, score, train
from screening.errors import CohortError, UsageError
from screening.io.columns import count_rows
from screening.metrics.operating_point import FLAG_EVERYTHING
from screening.schemas.figures import Threshold
from screening.scoring.explaining import changes
from screening.scoring.reference_distribution import ScoreHistogram
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
    return scores_in(run.directory)


def test_scores_have_the_promised_columns_and_no_label(run):
    scores = table(run)
    assert list(scores.columns) == [
        "id",
        "score",
        "p_value",
        "flagged",
        *CHANCES,
        "out_of_bounds",
        "row",
        "class",
    ]
    assert scores["id"].str.startswith("007").all()
    assert scores["flagged"].dtype == bool
    assert scores["p_value"].between(1 / 300, 1).all()


def test_counts_add_up_everywhere(model, run):
    counts = run.document["counts"]
    scores = table(run)
    flagged = pd.read_csv(run.directory / "flagged.csv", dtype=str)
    assert counts["read"] == len(scores) == 90
    assert counts["scored"] + counts["refused"] == 90
    assert (
        counts["flagged"]
        == scores["flagged"].sum()
        == len(flagged)
        == run.document["cases_total"]
    )
    reaches = scores["score"] >= model.thresholds[0]
    assert np.array_equal(scores["flagged"], reaches)


def test_a_directory_belongs_to_one_night_of_one_model(
    model, cohort, trained, night, run
):
    before = (run.directory / "run.json").read_bytes()
    other = trained(cohort, "logistic", search=1)
    for scoring, date, named in (
        (model, "2026-02-01", "night of 2026-01-31"),
        (other, "2026-01-31", "another model"),
    ):
        with pytest.raises(UsageError, match=f"run contains .*{named}.*another `out`"):
            score(scoring, night, run.directory, date=date)
        assert (run.directory / "run.json").read_bytes() == before
    again = score(model, night, run.directory, date="2026-01-31")
    assert again.document["run_id"] == run.document["run_id"]


def test_scores_do_not_depend_on_the_batches(model, night, run, tmp_path):
    other = score(model, night, tmp_path / "other", date="2026-01-31", batch_rows=7)
    assert table(other).equals(table(run))
    assert (other.directory / "report.html").read_bytes() == (
        run.directory / "report.html"
    ).read_bytes()


def test_score_labels_not_written(model, tmp_path):
    """Labels are used and never written and rows without one judged by nobody."""
    night = patients(90, seed=4)
    known = np.arange(90) < 40
    untold = night.assign(ill=night["ill"].where(known))
    tables = {
        "whole": night,
        "half": night[:40],
        "untold": untold,
        "none": night.assign(ill=""),
    }
    runs = {
        name: score(
            model, written(rows, tmp_path / f"{name}.csv"), tmp_path / name, label="ill"
        )
        for name, rows in tables.items()
    }
    whole, half, run, none = (each.document for each in runs.values())
    pages = [page_in(runs[name].directory) for name in ("untold", "whole")]
    judged = whole["evaluation"]["yes"]

    assert judged["n_positive"] + judged["n_negative"] == 90
    assert "ill" not in set(table(runs["whole"]).columns)
    assert '"label_of_row"' not in (runs["whole"].directory / "run.json").read_text()
    assert run["evaluation"] == half["evaluation"] != whole["evaluation"]
    assert run["counts"] == whole["counts"]
    assert none["evaluation"] is None
    assert ["(50 rows without a label left out)" in page for page in pages] == [
        True,
        False,
    ]


def test_score_label_other_spelling(model, tmp_path):
    """A label spelled otherwise than in training is refused and not taken for the
    other."""
    night = patients(90, seed=4).replace({"ill": {"yes": "YES"}})
    with pytest.raises(
        CohortError,
        match=r"column 'ill', rows .*: the model was not trained on this label",
    ):
        score(
            model, written(night, tmp_path / "night.csv"), tmp_path / "run", label="ill"
        )


def test_score_label_same_number(tmp_path):
    """A label that is the same number in another notation is the same."""
    numbered = patients()
    night = patients(90, seed=4)
    numbered["ill"] = (numbered["ill"] == "yes").astype(int)
    night["ill"] = (night["ill"] == "yes").astype(int)
    past = read_cohort(
        written(numbered, tmp_path / "past.csv"), label="ill", id="patient"
    )
    model = train(past, "svm_weighted", search=1, beside=())
    half = night.assign(ill=night["ill"].astype(float))
    half.loc[40:, "ill"] = np.nan
    run = score(model, half, tmp_path / "run", label="ill")
    assert (
        run.document["evaluation"]["1"]["n_positive"]
        == int((night["ill"][:40] == 1).sum())
        > 0
    )


def test_a_night_without_a_single_flag_is_a_run_too(cohort, night, tmp_path):
    strict = train(
        cohort,
        "svm_weighted",
        search=1,
        rule=Threshold(50.0),
        beside=(),
    )
    run = score(strict, night, tmp_path / "run")
    assert run.document["counts"]["flagged"] == 0
    listed = (run.directory / "flagged.csv").read_text()
    assert listed.count("\n") == 1


def test_night_of_model_that_flags_everybody(cohort, tmp_path):
    """Everybody is to be reviewed, which finds every case; the threshold, far below
    all scores, does not stretch the scale of the scores.
    """
    contract = cohort.contract.model_copy(update={"capacity": 5})
    rows = replace(cohort, contract=contract)
    rule = Threshold(FLAG_EVERYTHING)
    model = train(rows, "logistic", search=1, folds=3, repeats=1, rule=rule, beside=())

    run = score(model, patients(40, seed=7), tmp_path / "run").document

    assert run["counts"]["flagged"] == 40
    assert run["stopping"]["reviews"] == 5
    assert run["stopping"]["found"]["value"] < 1
    assert run["stopping"]["all_found"]["value"] == 1
    assert run["scale"]["low"] > -100


def test_scale_of_scores_that_are_alike(model):
    """Patients' highest scores may all be the threshold: a bin then has a width."""
    alike = np.full(count_rows(model.held_out), model.thresholds[0])
    histogram = ScoreHistogram(
        replace(model, held_out=model.held_out | {"score": alike})
    )
    histogram.add(alike)

    facts = histogram.facts()
    assert facts.low < alike[0] < facts.high
    assert max(facts.tonight) == len(alike)


def test_model_without_profile_of_training(model, night, run, tmp_path):
    """Where a model does not say how its features were distributed, a night has the
    same scores, and no drift.
    """
    training = model.document["training"] | {"profile": None}
    bare = replace(model, document=model.document | {"training": training})

    other = score(bare, night, tmp_path / "bare", date="2026-01-31")

    assert table(other)["score"].tolist() == table(run)["score"].tolist()
    assert {feature["psi"] for feature in other.document["data"]} == {None}
    assert None not in {feature["psi"] for feature in run.document["data"]}


def test_date_before_there_were_tables(model, night, tmp_path):
    with pytest.raises(UsageError, match="the year is before 1900"):
        score(model, night, tmp_path / "run", date="0206-01-31")


def test_run_id_is_that_of_night_date_label_and_table(model, night, run, tmp_path):
    again = score(model, night, tmp_path / "again", date="2026-01-31").document[
        "run_id"
    ]
    other = written(patients(30, seed=8), tmp_path / "other.csv")
    others = [
        score(model, night, tmp_path / "later", date="2026-02-01"),
        score(model, night, tmp_path / "labelled", date="2026-01-31", label="ill"),
        score(model, other, tmp_path / "another", date="2026-01-31"),
    ]
    assert again == run.document["run_id"]
    other_ids = {each.document["run_id"] for each in others}
    assert len({again, *other_ids}) == 4


def test_contribution_of_value(model, cohort):
    """Contribution is the change of the score when the value is the usual one.

    A value at the training median contributes nothing.
    """
    rows = cohort.take(np.arange(5))
    middle = cohort.take([0, 1])
    middle.values["fever"][:] = model.encoder.medians["fever"]
    crp = np.full(5, model.encoder.medians["crp"])
    usual = replace(rows, values={**rows.values, "crp": crp})
    encoded = model.encoder.transform(usual.values)
    neutral = model.scores(encoded)[:, 0]
    still = changes(model, middle, np.zeros(middle.n_rows, dtype=int))
    moved = changes(model, rows, np.zeros(rows.n_rows, dtype=int))
    of_fever = still[:, cohort.names.index("fever")]
    of_crp = moved[:, cohort.names.index("crp")]

    assert of_fever == pytest.approx(0, abs=1e-12)
    assert np.abs(still).max() > 0
    encoded = model.encoder.transform(rows.values)
    own = model.scores(encoded)[:, 0]
    assert of_crp == pytest.approx(own - neutral)


def test_a_voxel_run_counts_by_patient_and_scores_every_class(tissue_model, tmp_path):
    night = voxels(2, 50, seed=9)
    run = score(tissue_model, night, tmp_path / "run", label="tissue")
    classes = [f"score_{name}" for name in ("gland", "lesion", "zone")]
    figures = ["score", "p_value", "flagged", "out_of_bounds", "predicted", *classes]
    assert list(table(run).columns) == [
        "id",
        "group",
        "x",
        "y",
        "z",
        *figures,
        "row",
        "class",
        "tissue",
    ]
    assert (
        sum(group["flagged"] for group in run.document["groups"])
        == run.document["counts"]["flagged"]
    )
    assert [group["rows"] for group in run.document["groups"]] == [50, 50]
    assert len(run.document["evaluation"]["per_class"]) == 3
