"""A model in another place: same ranking, chances and threshold fitted there."""

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from numpy.random import default_rng
from scipy.special import expit
from written_files import scores_in

from screening import MinSensitivity, load_model, open_ledger, score, train, validate
from screening.errors import UsageError
from screening.metrics.calibration import (
    fit_curve,
    fit_platt,
    refit_calibration,
    refitted_curve,
)
from screening.metrics.chances import chances_at, log_odds_at
from screening.model_selection.recalibrating import recalibrate
from screening.store.model import save_model


def place(n_rows, seed, intercept=-2.0, slope=1.5, name="a"):
    """Return patients whose log odds are a line in x."""
    rng = default_rng(seed)
    x = rng.normal(size=n_rows)
    ill = rng.random(n_rows) < expit(intercept + slope * x)
    return pd.DataFrame(
        {
            "id": [f"{name}{number:05d}" for number in range(n_rows)],
            "x": x,
            "noise": rng.normal(size=n_rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def model():
    return train(
        place(2000, 0),
        "logistic",
        label="ill",
        id="id",
        search=1,
        beside=(),
        rule=MinSensitivity(0.8),
        jobs=1,
    )


SHIFTS = {
    "intercept": {"intercept": -0.8},
    "slope": {"slope": 0.7},
    "prevalence": {"intercept": -3.5},
}


def ratio_and_slope(model, rows):
    """Return observed over expected cases, and the slope of the chances."""
    calibration = validate(model, rows).figures.calibration["yes"]
    return calibration.observed_expected.value, calibration.slope.value


@pytest.fixture(scope="module", params=SHIFTS)
def shifted(request, model):
    """How another place differs, new rows of it, and the model's figures on them."""
    new = place(20_000, 2, name="c", **SHIFTS[request.param])
    return request.param, new, ratio_and_slope(model, new)


@pytest.mark.parametrize("n_rows", [150, 600, 3000])
def test_chances_are_right_after_recalibration(model, shifted, n_rows):
    """On new rows of the place slope and observed over expected come closer to 1."""
    shift, new, (before_ratio, before_slope) = shifted
    learned = place(n_rows, 1, name="b", **SHIFTS[shift])

    after = recalibrate(model, learned)

    ratio, slope = ratio_and_slope(after, new)
    n_cases = int((learned.ill == "yes").sum())
    error = abs(np.log(ratio))
    assert error <= 3.5 / np.sqrt(n_cases)
    if shift != "slope":
        assert error < abs(np.log(before_ratio))
    if shift == "slope" and n_cases >= 100:
        assert abs(slope - 1) < abs(before_slope - 1)


def test_ranking_stays_and_origin_is_stated(model, tmp_path):
    learned = place(600, 1, name="b", intercept=-1.0)
    saved = save_model(recalibrate(model, learned), tmp_path / "there")

    after = load_model(saved)

    new = place(50, 3, name="d")
    first = score(model, new, tmp_path / "first")
    second = score(after, new, tmp_path / "second")
    tables = [scores_in(run.directory) for run in (first, second)]
    before, now = tables
    assert before.score.tolist() == now.score.tolist()
    assert before.chance.lt(now.chance).all()
    facts = after.facts
    assert facts.origin.model == model.id
    assert facts.origin.n_rows == 2000
    assert facts.approval is None
    assert facts.validation.n_rows == facts.training.n_rows_used == 600
    assert facts.operating_points[0].chosen_by == "screen validate --recalibrate"


def test_threshold_is_chosen_on_rows_of_the_place(model):
    learned = place(3000, 1, name="b", intercept=-0.8, slope=0.7)
    new = place(20_000, 2, name="c", intercept=-0.8, slope=0.7)

    after = recalibrate(model, learned)

    point = validate(after, new).operating_points[0]
    assert point["sensitivity"].value == pytest.approx(0.8, abs=0.04)


def test_few_cases_move_the_intercept_alone():
    written = fit_platt(
        np.array([-2.0, -1.0, 0.0, 1.0, 2.0] * 40),
        np.array([False, False, False, True, True] * 40),
        np.ones(200),
    )
    rng = default_rng(0)
    scores = rng.normal(size=400)
    positive = np.arange(400) < 20
    curve = refitted_curve(written, scores, positive, np.ones(400))

    assert curve.slope == written.slope
    chances, *_ = chances_at(scores, curve)
    assert chances.sum() == pytest.approx(20, abs=1e-6)


def test_floor_of_chances_is_moved_with_the_curve():
    """With few cases all odds change by one factor, those of the floor too."""
    rng = default_rng(3)
    scores = rng.normal(size=4_000)
    positive = rng.random(4_000) < 0.02 + 0.98 * expit(2 * scores - 4)
    written = fit_curve(scores, positive, np.ones(4_000))
    here = rng.normal(size=400)
    curve = refitted_curve(written, here, np.arange(400) < 20, np.ones(400))

    shifts = log_odds_at(here, curve) - log_odds_at(here, written)
    assert written.floor is not None
    assert shifts == pytest.approx(shifts[0])
    assert chances_at(here, curve)[0].sum() == pytest.approx(20, abs=1e-6)


def test_no_chances_where_a_higher_score_means_a_lower_chance():
    rng = default_rng(0)
    scores = rng.normal(size=600)
    positive = rng.random(600) < expit(-scores)
    written = fit_platt(scores, ~positive, np.ones(600))

    found = refit_calibration(written, scores, positive, np.arange(600) % 5, 0.5)

    assert not found.earned
    assert found.platt is None
    assert found.reason == "a higher score does not mean a higher chance here"


def test_no_shift_is_shrunk_to_the_models_own_curve():
    """With 30 to 99 cases what chance alone explains changes next to nothing."""
    rng = default_rng(1)
    scores = rng.normal(size=20_000)
    positive = rng.random(20_000) < expit(scores - 3)
    written = fit_platt(scores, positive, np.ones(20_000))
    changes = []
    for seed in range(30):
        rng = default_rng(seed)
        here = rng.normal(size=800)
        ill = rng.random(800) < expit(here - 3)
        assert 30 <= ill.sum() < 100
        curve = refitted_curve(written, here, ill, np.ones(800))
        alone = fit_platt(here, ill, np.ones(800))
        of_shrunk = abs(curve.slope - written.slope)
        of_alone = abs(alone.slope - written.slope)
        changes.append([of_shrunk, of_alone])
    shrunk, free = np.mean(changes, axis=0)
    assert shrunk < 0.7 * free


def test_recalibrated_by_command(model, tmp_path):
    save_model(model, tmp_path / "model")
    table = tmp_path / "there.csv"
    there = place(600, 1, name="b", intercept=-1.0)
    there.to_csv(table, index=False)

    answer = as_json(
        *("validate", tmp_path / "model", table, "--label", "ill"),
        *("--recalibrate", "--out", tmp_path / "there"),
    )

    assert load_model(tmp_path / "there").id == answer["id"] != model.id
    assert (tmp_path / "there" / "report.html").exists()
    screen("approve", tmp_path / "there", "--by", "Dr. T", "--known-before", "x,noise")


def test_rows_of_training_are_refused(model):
    with pytest.raises(UsageError, match="figures would be too good"):
        recalibrate(model, place(2000, 0))


def test_rows_that_taught_the_ranking_are_refused(model, tmp_path):
    """A recalibrated model has other rows, and the ranking still knows its own."""
    past = tmp_path / "past.csv"
    place(400, 0).to_csv(past, index=False)
    taught = train(
        *(past, "logistic"),
        **{
            "label": "ill",
            "id": "id",
            "search": 1,
            "beside": (),
            "jobs": 1,
        },
        rule=MinSensitivity(0.8),
    )
    once = recalibrate(taught, place(400, 31, name="b"))
    twice = recalibrate(once, place(400, 32, name="c"))

    for moved in (once, twice):
        assert moved.facts.origin.model == taught.id
        assert moved.facts.origin.n_rows == taught.facts.training.n_rows_used
        with pytest.raises(UsageError, match="was trained on this file"):
            validate(moved, past)


@pytest.fixture
def brought(tmp_path):
    """A kernel model, and the model that another place made of it."""
    past = place(300, 0)
    past.to_csv(tmp_path / "past.csv", index=False)
    kernel = train(
        tmp_path / "past.csv",
        "svm_weighted",
        label="ill",
        id="id",
        search=1,
        folds=3,
        beside=(),
        rule=MinSensitivity(0.8),
        jobs=1,
    )
    save_model(kernel, tmp_path / "models" / "there")
    learned = place(400, 1, name="b", intercept=-0.8)
    after = recalibrate(kernel, learned)
    save_model(after, tmp_path / "models" / "here")
    with open_ledger(tmp_path / "l.db", make=True):
        pass
    stored = kernel.held_out["held"]
    return tmp_path, kernel.held_out["id"][stored][0]


def test_forget_finds_a_patient_of_the_origin(brought):
    """Its machines store the row, though the place never had the patient."""
    folder, patient = brought
    ledger = ("--ledger", folder / "l.db", "--models", folder / "models")

    listed = as_json("forget", patient, *ledger, "--dry-run")
    report = as_json("forget", patient, *ledger, "--retrain-by", "2099-01-01")
    nobody = as_json("forget", "nobody", *ledger)

    models = folder / "models"
    both = {str(models / name) for name in ("here", "there")}
    assert set(listed["retrain"]) == both
    assert report["retrain"] == dict.fromkeys(both, "2099-01-01")
    assert nobody["retrain"] == {}
    here = load_model(folder / "models" / "here")
    assert here.facts.retrain_by == "2099-01-01"
    assert "recalibrate it here" in here.facts.training.notes[-1]


def test_forget_names_an_origin_that_is_not_here(brought):
    folder, patient = brought
    ledger = ("--ledger", folder / "l.db", "--models", folder / "models" / "here")

    answer = screen("forget", patient, *ledger)

    assert "may contain rows of this patient" in answer.stderr
    assert patient not in answer.stderr
    assert load_model(folder / "models" / "here").facts.retrain_by is None
