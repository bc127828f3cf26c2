"""A model tried on another cohort: what was found beside what was promised, and none of
its own rows.
"""

import re

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import patients, voxels, written
from numpy.random import default_rng
from written_files import page_in, read_json

from screening import load_model, read_cohort, train, validate
from screening.errors import CohortError, UsageError
from screening.metrics.calibration import calibrate, calibration_elsewhere
from screening.metrics.chances import chances_at
from screening.metrics.figures import FIGURES
from screening.metrics.intervals import rate_interval
from screening.metrics.ranking import delong
from screening.report.format import written as written_as
from screening.schemas.comparison import ExternalValidation


@pytest.fixture(scope="module")
def model(logistic_model):
    return load_model(logistic_model)


@pytest.fixture(scope="module")
def elsewhere() -> pd.DataFrame:
    return patients(500, share=0.3, seed=11)


@pytest.fixture(scope="module")
def found(model, elsewhere):
    return validate(model, elsewhere)


def test_figures_are_those_of_the_fixed_threshold_on_the_new_rows(
    model, elsewhere, found
):
    """Nothing is chosen or corrected: shares seen, with Wilson's interval."""
    scored = model.score_frame(elsewhere.drop(columns="ill"))
    ill = (elsewhere["ill"] == "yes").to_numpy()
    flagged = scored["flagged"].to_numpy()
    (point,) = found.operating_points

    assert point.threshold == model.thresholds[0]
    sensitivity = flagged[ill].mean()
    ppv = ill[flagged].mean()
    n_clear = (~flagged[~ill]).sum()
    interval = rate_interval(n_clear, (~ill).sum())
    assert point["sensitivity"].value == pytest.approx(sensitivity)
    assert point["ppv"].value == pytest.approx(ppv)
    assert point["specificity"].value_and_interval[1:] == pytest.approx(
        [float(end) for end in interval]
    )
    (chance, *_), *_ = chances_at(
        model.thresholds, model.facts.validation.calibration["yes"].platt
    )
    benefit = (flagged & ill).mean() - (flagged & ~ill).mean() * chance / (1 - chance)
    assert point["net_benefit"].value == pytest.approx(benefit)
    # Not widened for folds.
    area = delong(scored["score"].to_numpy(), ill)
    assert found.figures.summary["yes"]["auroc"] == area


def test_the_promise_is_at_this_cohorts_share_of_cases(model, elsewhere, found):
    """A predictive value of another prevalence would be of another population; chances
    are as written.
    """
    promise = found.classes["yes"].promise
    ill = elsewhere["ill"] == "yes"
    hit = ill.mean() * promise["sensitivity"].value
    clear = promise["specificity"].value
    false = (1 - ill.mean()) * (1 - clear)
    chances = model.score_frame(elsewhere)["chance"]
    calibration = found.figures.calibration["yes"]

    assert (
        promise["sensitivity"].value
        == model.operating_points[0]["figures"]["sensitivity"]["value"]
    )
    trained_ppv = model.operating_points[0]["figures"]["ppv"]["value"]
    assert promise["ppv"].value == pytest.approx(hit / (hit + false))
    assert promise["ppv"].value > trained_ppv
    assert calibration.platt == model.facts.validation.calibration["yes"].platt
    assert calibration.observed_expected.value == pytest.approx(
        ill.sum() / chances.sum(), rel=1e-3
    )
    assert calibration.observed_expected.low > 1


@pytest.mark.parametrize("n_groups", [None, 6])
def test_intervals_of_true_chances_hold_one(n_groups):
    """Of cohorts whose labels follow the chances 91 in 100 or more have 1 in both, by
    group too.
    """
    groups = None if n_groups is None else np.arange(400) % n_groups
    rng = default_rng(3)
    past = np.arange(900) % 6 == 0
    scores = rng.normal(size=900) + 1.5 * past
    fitted = calibrate(scores, past, np.arange(900) % 5, 1 / 6)
    held = []
    for _ in range(150):
        scores = rng.normal(size=400) * 1.5
        chances, *_ = chances_at(scores, fitted.platt)
        drawn = rng.random(400) < chances
        seen = calibration_elsewhere(fitted, scores, drawn, groups)
        ratio = seen.observed_expected
        slope = seen.slope
        holds = ratio.low <= 1 <= ratio.high
        held.append((holds, slope.low <= 1 <= slope.high))

    assert (np.mean(held, axis=0) >= 0.91).all()


def test_the_rule_is_asked_where_its_threshold_would_lie_here(model, elsewhere, found):
    """Where the condition is twice as common, at most 30 flags in 100 rows ask for a
    higher threshold.
    """
    local = found.classes["yes"].local
    # Labels that have nothing to do with the rows: the ranking is lower than was
    # promised.
    shuffled = elsewhere["ill"].sample(frac=1, random_state=1)
    mixed = elsewhere.assign(ill=shuffled.to_numpy())

    assert local.rule == model.facts.operating_points[0].rule
    before = found.operating_points[0]["flag_rate"].value
    assert local["flag_rate"].value <= 0.3 < before
    assert local.threshold > model.thresholds[0]
    codes = {reason.code for reason in validate(model, mixed).attention}
    assert {"promise_not_kept", "chance_misfit"} <= codes
    with pytest.raises(ValueError, match="belong to another threshold"):
        found.replace(
            operating_points=[found.operating_points[0].replace(threshold=0.0)]
        )


def test_validate_stated_prevalence(model, elsewhere):
    """A stated share of cases counts each row as often as that place has it.

    Half of these are cases: with one in ten stated, the others count as nine rows each
    would.
    """
    ill = elsewhere["ill"] == "yes"
    cases = elsewhere[ill]
    others = elsewhere[~ill][: ill.sum()]
    copies = []
    for k in range(9):
        copies.append(others.assign(patient=f"{k} " + others["patient"]))
    both = pd.concat([cases, others])
    stated = validate(model, both, prevalence=0.1)
    there = validate(model, pd.concat([cases, *copies]))

    for name in ("ppv", "npv", "flag_rate", "nne", "net_benefit"):
        point = stated.operating_points[0][name].value
        own = there.operating_points[0][name].value
        assert point == pytest.approx(own), name
    weighted = stated.figures.calibration["yes"]
    counted = there.figures.calibration["yes"]
    slope = counted.slope.value
    assert weighted.slope.value == pytest.approx(slope, rel=0.01)
    assert weighted.observed_expected.value == pytest.approx(
        counted.observed_expected.value, rel=0.01
    )
    for name in ("log_loss", "brier"):
        assert getattr(weighted, name) == pytest.approx(
            getattr(counted, name), rel=0.01
        ), name
    assert (
        stated.classes["yes"].promise.prevalence
        == stated.classes["yes"].local.prevalence
        == 0.1
    )


def test_rows_that_were_trained_on_are_refused_and_nothing_is_written(
    logistic_model, table, tmp_path
):
    """One patient of the training among others is enough, and is not named."""
    past = pd.read_csv(table, dtype={"patient": str})
    new = patients(60, seed=11)
    with_one_of_past = pd.concat([new, past[5:6]])
    mixed = written(with_one_of_past, tmp_path / "mixed.csv")
    words = screen(
        "validate", logistic_model, mixed, "--out", tmp_path / "out", code=2
    ).stderr
    assert "1 of 61 rows" in words
    assert "rows 61" in words
    assert past["patient"][5] not in words
    assert not (tmp_path / "out").exists()


def test_the_training_file_is_known_where_no_column_names_the_rows(
    table, model, elsewhere, found
):
    """Labels may be written otherwise there."""
    past = read_cohort(table, label="ill", drop=["patient"])
    first_half = past.take(np.arange(120))
    learned = train(first_half, "logistic", search=1, beside=())
    numbers = elsewhere.drop(columns="ill")
    numbers["sick"] = np.where(elsewhere["ill"] == "yes", 1, 0)

    with pytest.raises(UsageError, match="from a file that it was trained on"):
        validate(learned, past)
    other_half = past.take(np.arange(120, 240))
    assert validate(learned, other_half).figures.n_rows == 120
    with pytest.raises(CohortError, match="`positive`"):
        validate(model, numbers, label="sick")
    by_number = validate(model, numbers, label="sick", positive="1")
    assert by_number.figures == found.figures


def test_classes_of_patients_are_judged_by_patient(judged):
    """Of several classes each that occurs has its figures; voxels of one patient do not
    count as patients.
    """
    tissue = voxels(6, seed=9)
    model = load_model(judged / "tissue")
    by_patient = validate(model, tissue)
    ids = [f"v{i}" for i in range(len(tissue))]
    by_row = tissue.assign(patient=ids)
    by_voxel = validate(model, by_row)
    (point,) = by_patient.operating_points
    (alone,) = by_voxel.operating_points

    assert point.label == "lesion"
    assert point.n_groups == 6
    assert by_patient.figures.confusion.classes == list(model.facts.task.classes)
    width = point["sensitivity"].high - point["sensitivity"].low
    own = alone["sensitivity"].high - alone["sensitivity"].low
    assert width > own
    with pytest.raises(UsageError, match="some of both"):
        validate(model, tissue[tissue["tissue"] != "lesion"])


def test_the_command_writes_a_document_and_a_page_that_draws_again(
    logistic_model, elsewhere, found, tmp_path
):
    table = written(elsewhere, tmp_path / "elsewhere.csv")
    out = tmp_path / "out"
    told = as_json("validate", logistic_model, table, "--out", out)
    screen(
        "validate",
        logistic_model,
        table,
        "--prevalence",
        "0.05",
        "--out",
        tmp_path / "rare",
    )
    page = page_in(out)
    again = screen("report", out, "--out", tmp_path / "again.html")

    stored = ExternalValidation.from_dict(read_json(out / "validation.json"))
    assert stored.figures == found.figures
    assert (
        told["classes"]["yes"]["promise"]["threshold"]
        == found.operating_points[0].threshold
    )
    assert (tmp_path / "again.html").read_text() == page
    assert "attention" in again.stdout
    assert "A threshold for this place" in page
    assert "Observed and validation estimate" in page
    assert elsewhere["patient"][3] not in page
    assert "the stated share of cases, 5.0%" in page_in(tmp_path / "rare")


def test_model_and_validations_side_by_side(logistic_model, elsewhere, found, tmp_path):
    """A row for the held-out rows of training, and one for each other place."""
    table = written(elsewhere, tmp_path / "elsewhere.csv")
    screen("validate", logistic_model, table, "--out", tmp_path / "out")
    words = ["report", logistic_model, tmp_path / "out"]

    screen(*words, "--out", tmp_path / "both.html")
    refused = screen(*words, code=2)

    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    cells = re.findall(r'data-is="?Sensitivity"?>([^<]*)', page)
    model = load_model(logistic_model).facts
    (point,) = model.operating_points
    (here,) = found.operating_points
    assert page.count(model.recipe.title) == 2
    figure = FIGURES["sensitivity"]
    assert cells == [written_as(each["sensitivity"], figure) for each in (point, here)]
    assert "elsewhere.csv" in page
    assert f"{here.n_positive + here.n_negative}" in page
    assert "name it with --out FILE" in refused.stderr
