"""The Python surface: a notebook gets what the command writes, Screen is a classifier,
help() is whole."""

import doctest
import importlib
import inspect
import re
import runpy
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from flow_cohorts import night_of_patients, patients, voxels
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from numpydoc.validate import validate
from pandas.testing import assert_frame_equal, assert_series_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from written_files import names_in

import screening
from screening import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    Resources,
    Screen,
    Validation,
    compare,
    open_ledger,
    read_cohort,
    score,
    train,
)
from screening.errors import CohortError, ModelError, ScreenError, UsageError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def model():
    return train(
        patients(),
        "logistic",
        rule=MinSensitivity(0.8),
        search=1,
        beside=(),
        **ROLES,
    )


def test_table_in_memory(model):
    """A table in memory is scored as an arrow table and trained on as the cohort read
    of it."""
    tonight = night_of_patients(60, seed=1)
    cohort = read_cohort(patients(), **ROLES)
    arrow = model.score_frame(pa.Table.from_pandas(tonight))
    again = train(
        cohort,
        "logistic",
        rule=MinSensitivity(0.8),
        search=1,
        beside=(),
    )

    assert_frame_equal(model.score_frame(tonight), arrow)
    assert again.digest == model.digest
    with pytest.raises(UsageError, match="give label to read_cohort"):
        train(cohort, label="ill")


def test_a_notebook_shows_a_model_a_run_and_a_comparison(model, tmp_path):
    night = night_of_patients(40, seed=2)
    run = score(model, night, tmp_path / "run", date="2026-03-01")
    cohort = read_cohort(patients(), **ROLES)
    cohorts = {"past": cohort}
    compared = compare(cohorts, ["logistic"], control="logistic", search=1)
    assert "trained on 240 rows" in model._repr_html_()
    assert "Night of 2026-03-01" in run._repr_html_()
    assert "<td>logistic</td>" in compared._repr_html_()


PUBLIC = [name for name in screening.__all__ if not name.startswith("_")]


# ES01: one sentence may be all there is to say. SA01: thirteen names need no map of
# each other.
LEFT_OUT = {"ES01", "SA01"}
ROLES = {"label": "ill", "positive": "yes", "id": "patient"}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_typed_and_documented_and_its_example_runs(name):
    """A notebook's checker knows what each call gives; numpydoc finds nothing
    missing.
    """
    public = getattr(screening, name)
    methods = [each for key, each in vars(public).items() if key[0] != "_"]
    signatures = [
        inspect.signature(each)
        for each in filter(inspect.isfunction, [public, *methods])
    ]
    types = [each.return_annotation for each in signatures] + [
        one.annotation
        for each in signatures
        for one in each.parameters.values()
        if one.name != "self"
    ]
    errors = validate(f"{public.__module__}.{public.__qualname__}")["errors"]
    module = importlib.import_module(public.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        public, name, module, globs={}
    )
    outcome = doctest.DocTestRunner().run(example, out=sys.stderr.write)

    assert inspect.Signature.empty not in types
    assert [words for code, words in errors if code not in LEFT_OUT] == []
    assert outcome.attempted >= 2
    assert outcome.failed == 0


def test_python_notebook():
    """The notebook on python runs and draws the pictures that it shows."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    script = runpy.run_path(str(ROOT / "docs" / "plots.py"))
    drawn = script["pictures"]()

    pyplot.close("all")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme + script["PAGE"].read_text(encoding="utf-8")
    names = {
        name
        for line in re.findall(r"from screening import (.*)", shown)
        for name in line.split(", ")
    }
    assert len(names) <= 10, "names that a first hour needs"
    # That of the benchmark of promises is drawn by its own script.
    assert drawn.keys() == names_in(script["FOLDER"]) - {"promises.png"}
    files = script["FOLDER"].iterdir()
    sizes = [path.stat().st_size for path in files]
    assert max(sizes) < 50_000


def test_chances_that_were_not_earned_are_refused_with_the_reason(trained, cohort):
    tissue = read_cohort(
        voxels(),
        label="tissue",
        group="patient",
        positive=["zone", "lesion"],
    )
    several = train(
        tissue,
        "one_vs_rest",
        search=1,
        folds=4,
        forward=False,
        beside=(),
    )
    ten = np.flatnonzero(cohort.label == "yes")[10:]
    rows = np.setdiff1d(np.arange(cohort.n_rows), ten)
    few = trained(cohort.take(rows), "one_class", search=1)
    with pytest.raises(ModelError, match="10 cases are too few to calibrate"):
        few.predict_proba(patients(60, seed=1))
    with pytest.raises(ModelError, match="several classes are watched"):
        several.predict_proba(voxels(2, seed=5))


def test_one_class_model_gives_chances_where_cases_were_held_out(trained, cohort):
    """The machine learns from no case; Platt's regression of held-out scores does."""
    model = trained(cohort, "one_class", search=1)
    night = patients(60, seed=1)
    chances = model.predict_proba(night)[:, 1]
    scores = model.score_frame(night)["score"].to_numpy()

    assert 0 < chances.min() < chances.max() < 1
    by_score = chances[np.argsort(scores)]
    assert (np.diff(by_score) >= 0).all()


ONCE = Validation(repeats=1, beside=())
QUICK = {"search": 1, "validation": ONCE, "resources": Resources(jobs=1)}
PAST = patients()
NIGHT = night_of_patients(60, seed=1)
SAMPLES = files("screening.sample_cohorts")


@pytest.fixture(scope="module")
def screen():
    return Screen("logistic", rule=MinSensitivity(0.8), **QUICK).fit(
        PAST, "ill", id="patient"
    )


@pytest.fixture(scope="module")
def calibrated():
    past = pd.read_csv(SAMPLES / "nosocomial_past.csv", dtype={"patient_id": str})
    return Screen("logistic", **QUICK).fit(
        past, "infected", id="patient_id", drop="admission_date"
    )


@pytest.fixture(scope="module")
def few():
    return Screen("logistic", **QUICK).fit(patients(110), "ill", id="patient")


@pytest.mark.parametrize(
    "recipe", ["logistic", "svm_weighted", "random_forest", "histogram_boosting"]
)
def test_sample_weight_raises_scores(recipe):
    """Rows score higher where cases weigh more; figures count every row once."""
    rng = default_rng(0)
    numbers = rng.normal(size=(300, 2))
    x = pd.DataFrame(numbers, columns=["crp", "urea"])
    chance = np.where(x["urea"] > 0, 0.6, 0.2)
    is_case = rng.random(300) < chance
    is_high = x["crp"] > 0
    independent = replace(ONCE, independent=True)
    settings = QUICK | {"validation": independent, "rule": GMean()}

    raised = {}
    weighed = {"high": is_high, "low": ~is_high}
    for name, cases_weigh_more in weighed.items():
        weights = np.where(is_case == cases_weigh_more, 5.0, 1.0)
        screen = Screen(recipe, weights="importance", **settings).fit(
            x, np.where(is_case, "yes", "no"), weights
        )
        scores = screen.score_frame(x)["score"]
        gap = scores[is_high].mean() - scores[~is_high].mean()
        raised[name] = gap
        assert any("sample_weight" in note for note in screen.notes_)
        n_by_class = screen.model_.facts.training.n_by_class
        assert sum(n_by_class.values()) == 300

    assert raised["high"] > 0 > raised["low"]


def test_sample_weight_zero_leaves_out():
    past = patients(110)
    x = past.drop(columns="ill")
    is_early = np.arange(len(past)) < 100
    weights = np.where(is_early, 2.0, 0.0)

    ill = past["ill"]
    part = Screen("logistic", **QUICK).fit(x[:100], ill[:100], id="patient")
    weighted = Screen("logistic", weights="importance", **QUICK)
    weighted.fit(x, ill, weights, id="patient")

    ours = weighted.held_out_.set_index("id")["score"]
    theirs = part.held_out_.set_index("id")["score"]
    assert_series_equal(ours, theirs[ours.index])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([-1.0] * 110, "one number >= 0 for each row"),
        ([1.0] * 109, "inconsistent numbers of samples"),
        ([0.0] * 110, "weight of every row is zero"),
        ([1e307] * 110, "sum of sample_weight is infinite"),
    ],
)
def test_sample_weight_refused(weights, words):
    past = patients(110)

    with pytest.raises(ValueError, match=words):
        Screen("logistic", **QUICK).fit(past, "ill", weights, id="patient")


def test_sample_weight_vanishing_leaves_class():
    """A weight that is 0 beside the others counts as 0, and its class as empty."""
    past = patients(110)
    weights = np.where(past["ill"] == "yes", 1e-320, 1e10)

    with pytest.raises(ValueError, match="leaves a class without rows"):
        Screen("logistic", weights="importance", **QUICK).fit(
            past, "ill", weights, id="patient"
        )


def test_sample_weight_of_file_is_refused():
    with pytest.raises(UsageError, match="needs a table in memory"):
        Screen("logistic").fit(
            SAMPLES / "nosocomial_past.csv", "infected", np.ones(2000)
        )


def test_predictions_are_the_flags_of_the_scored_table(screen):
    """Labels keep their type; where the case sorts first, decisions turn round; classes
    are told apart.
    """
    rows = screen.score_frame(NIGHT)
    x = PAST.drop(columns="ill")
    ill = PAST["ill"]
    words = ill.map({"yes": "a case", "no": "none"})
    turned = clone(screen).fit(x, words, id="patient", positive="a case")
    is_case = (ill == "yes").astype(int)
    codes = clone(screen).fit(x, is_case, id="patient")
    with pytest.warns(UserWarning, match="guessed role coordinates: x, y, z"):
        tissue = Screen("one_vs_rest", cv=4, chances=True, **QUICK).fit(
            voxels(), "tissue", group="patient"
        )
    new = voxels(2, seed=5).drop(columns="tissue")

    assert screen.classes_.tolist() == ["no", "yes"]
    assert screen.positive_ == "yes"
    flagged = rows["flagged"]
    is_positive = screen.decision_function(NIGHT) >= 0
    assert_array_equal(screen.predict(NIGHT) == "yes", flagged)
    assert_array_equal(is_positive, flagged)
    assert turned.classes_.tolist() == ["a case", "none"]
    assert turned.positive_ == "a case"
    assert_allclose(turned.decision_function(NIGHT), -screen.decision_function(NIGHT))
    is_a_case = turned.predict(NIGHT) == "a case"
    assert_array_equal(is_a_case, flagged)
    assert codes.classes_.dtype.kind == "i"
    assert codes.positive_ == 1
    assert set(codes.predict(NIGHT)) <= {0, 1}
    assert tissue.classes_.tolist() == ["gland", "lesion", "zone"]
    assert set(tissue.predict(new)) <= set(tissue.classes_)
    assert tissue.decision_function(new).shape == (len(new), 3)
    assert not hasattr(tissue, "predict_proba")


def test_chances_are_there_where_they_were_earned(few, calibrated):
    night = pd.read_csv(SAMPLES / "nosocomial_night.csv", dtype={"patient_id": str})
    calibrated.set_params(chances=True)
    chances = calibrated.predict_proba(night)
    expected = calibrated.score_frame(night)["chance"]
    assert_array_equal(chances[:, 1], expected)
    few.set_params(chances=True)
    with pytest.raises(AttributeError) as refused:
        few.predict_proba(NIGHT)
    assert "too few to calibrate" in str(refused.value.__cause__)


def test_what_is_saved_is_loaded(screen, tmp_path):
    """A frame with its label column, X with y, and an Arrow table give the same
    model.
    """
    again = Screen.load(screen.save(tmp_path / "model"))
    x = PAST.drop(columns="ill")
    apart = clone(screen).fit(x, PAST["ill"], id="patient")
    arrow = clone(screen).fit(
        pa.Table.from_pandas(PAST, preserve_index=False), "ill", id="patient"
    )

    assert (tmp_path / "model" / "report.html").exists()
    assert again.model_.id == apart.model_.id == screen.model_.id
    assert again.rule == screen.rule
    expected = screen.predict(NIGHT)
    assert_array_equal(again.predict(NIGHT), expected)
    assert_array_equal(arrow.predict(NIGHT), expected)


def test_a_notebook_shows_the_head_of_the_page_and_no_patient(screen):
    """Held-out scores are a frame, and a row's reasons too."""
    shown = screen._repr_mimebundle_()["text/html"]
    reasons = screen.explain(NIGHT, NIGHT["patient"][3])

    assert "Fit for local use?" in shown
    printed = shown + repr(screen)
    assert not any(name in printed for name in PAST["patient"])
    assert "Fit for local use?" in screen.report()
    assert "<iframe" in screen.report()._repr_html_()
    assert "<pre>Screen(" in Screen()._repr_html_()
    assert len(screen.held_out_) == len(PAST)
    assert {"id", "fold", "label", "score"} <= set(screen.held_out_)
    assert reasons["change"].abs().is_monotonic_decreasing
    with pytest.raises(UsageError, match="no row of this table has this id"):
        screen.explain(NIGHT, "nobody")


def test_recipes_and_rules_are_searched_with_scikit_learn():
    grid = {"recipe": ["svm", "logistic"], "rule": [GMean(), MaxFlagRate(0.3)]}
    search = GridSearchCV(
        Screen(**QUICK),
        grid,
        scoring="roc_auc",
        cv=2,
        error_score="raise",
    )
    x = PAST.drop(columns="ill")
    search.fit(x, PAST["ill"], id="patient")
    assert search.best_params_.keys() == grid.keys()
    assert len(search.predict(NIGHT)) == len(NIGHT)


@pytest.mark.parametrize(
    ("settings", "column", "words"),
    [
        ({}, "ilk", "missing column 'ilk'; did you mean 'ill'"),
        ({"rule": 0.9}, "ill", r"such as MinSensitivity\(0.9\), not 0.9"),
        ({"recipe": "logistik"}, "ill", "did you mean 'logistic'"),
    ],
)
def test_slips_of_a_first_hour_are_told_with_what_was_meant(
    screen, settings, column, words
):
    """Rows that break the contract are named and not left out of predictions."""
    with pytest.raises(ScreenError, match=words):
        Screen(**QUICK | settings).fit(PAST, column, id="patient")
    crp = ["?!"] * 2 + ["1"] * (len(NIGHT) - 2)
    with pytest.raises(CohortError, match="rows 1, 2"):
        screen.predict(NIGHT.assign(crp=crp))


@pytest.fixture
def pictures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.mark.usefixtures("pictures")
def test_pictures_show_the_figures_of_the_page(screen, few, calibrated, tmp_path):
    nights = {"2026-03-01": NIGHT, "2026-03-02": NIGHT.iloc[5:]}
    with open_ledger(tmp_path / "l.db", make=True) as ledger:
        for day, table in nights.items():
            out = tmp_path / day
            score(screen.model_, table, out, date=day, ledger=ledger)
    flagged = 0
    for table in nights.values():
        flagged += int(screen.score_frame(table)["flagged"].sum())
    point = screen.model_.facts.operating_points[0]
    patient = NIGHT["patient"][3]

    reasons = screen.plot("contributions", NIGHT, patient)
    bars = screen.plot("history", ledger=tmp_path / "l.db")

    *_, threshold_line = screen.plot().lines
    *_, point_on_curve = screen.plot("roc").lines
    assert threshold_line.get_xdata()[0] == point.threshold
    assert point_on_curve.get_ydata()[0] == point["sensitivity"].value
    changes = screen.explain(NIGHT, patient)["change"].tolist()
    widths = [bar.get_width() for bar in reasons.patches]
    assert widths == changes[::-1]
    assert sum(bar.get_height() for bar in bars.patches) == flagged
    assert len(calibrated.plot("calibration").lines) > 1
    with pytest.raises(ModelError, match="too few to calibrate"):
        few.plot("calibration")
    wrong = {
        "pie": "choose from trade_off, roc",
        "contributions": "belong to a row",
        "history": "needs a ledger",
    }
    for kind, words in wrong.items():
        with pytest.raises(UsageError, match=words):
            screen.plot(kind)
