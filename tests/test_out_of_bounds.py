"""A cell that no patient can have decides nobody's fate: bounds, lists and exports."""

import csv
import stat
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from commands import screen
from flow_cohorts import night_of_patients, patients, voxels, written
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.random import default_rng
from written_files import page_in, read_json

from screening import (
    MaxFlagRate,
    open_ledger,
    read_cohort,
    save_model,
    score,
    train,
)
from screening.contract.contract import Contract, Feature
from screening.data.out_of_bounds import (
    bounds_of_columns,
    bounds_of_range,
)
from screening.errors import CohortError
from screening.monitoring.other_readings import readings_of_columns
from screening.monitoring.profile import number_profile, profile
from screening.schemas.model import NumberProfile, Profile
from screening.scoring.check_values import count_channels, odd_channels
from screening.scoring.exporting import read_flagged
from screening.scoring.exports import fhir, omop

NIGHT = "2026-03-01"
FINITE = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [
        (36, 41, 0),
        (36, 41, 98.6),
        (36, 41, 999.9),
        (0, 9, -9),
        (50, 160, 1000),
        (-3, 3, 9999),
    ],
)
def test_bounds_of_range_impossible_value(low, high, value):
    assert bounds_of_range(low, high).exceeded_by(
        np.array([value, np.nan])
    ).tolist() == [
        True,
        False,
    ]


@given(FINITE, FINITE)
def test_bounds_of_range_within_once_the_width(low, high):
    """Bounds hold the range itself, and never lie beyond once its width."""
    low, high = sorted((low, high))
    assume(low < high)

    bounds = bounds_of_range(low, high)

    width = high - low
    assert low - width <= bounds.low <= low
    assert high <= bounds.high <= high + width
    assert bounds.low >= 0 or low < 0


def profile_of(values) -> Profile:
    middle = float(np.median(values))
    n_below = len(values) // 2
    numbers = NumberProfile(
        edges=(middle,),
        counts=(n_below, len(values) - n_below),
        range=(min(values), max(values)),
    )
    n = len(values)
    return Profile(n_rows=n, n_units=n, features={"x": numbers})


@pytest.mark.parametrize(
    ("feature", "values", "expected"),
    [
        ({}, range(1, 41), (0.025, 79)),
        ({"plausible": [0, 500]}, range(1, 41), (0, 500)),
        ({"plausible": [0, 500]}, range(1, 4), (0, 500)),
        ({}, range(1, 11), (1 - 9e30, 10 + 9e30)),
        ({}, [7] * 40, None),
        ({"normalise": "within_group"}, range(1, 41), (-1e30, 1e30)),
    ],
)
def test_bounds_of_columns_contract_first(feature, values, expected):
    """`plausible` stands; few or normalised values have bounds against overflow alone,
    and equal ones none.
    """
    features = {"x": {"type": "number"} | feature}
    cohort = {"group": "g"}
    contract = Contract.from_dict({"cohort": cohort, "features": features})

    bounds = bounds_of_columns(contract, profile_of(list(values)))

    assert bounds.get("x") == expected


@pytest.mark.parametrize("recipe", ["logistic", "random_forest", "one_class"])
@pytest.mark.parametrize("value", [1e308, -1e308, 1e200])
def test_number_beyond_computing_is_missing(recipe, value, trained_on_few_values):
    """A number that overflows is out of bounds where a column has few values, too.

    The night ended with a traceback or an infinite score.
    """
    model = trained_on_few_values(recipe)
    night = patients(20, seed=2).drop(columns="ill").assign(lactate=np.nan)
    missing = model.score_frame(night)
    night.loc[3, "lactate"] = value

    odd = model.score_frame(night)

    assert odd["score"].tolist() == missing["score"].tolist()
    assert odd["out_of_bounds"].dropna().to_dict() == {3: "lactate"}


@pytest.fixture(scope="module")
def trained_on_few_values():
    """Train on a past of which 15 rows have a lactate, once for each recipe."""
    past = patients(160, seed=1)
    lactate = default_rng(0).normal(1e-3, 1e-4, len(past))
    past["lactate"] = np.where(np.arange(len(past)) < 15, lactate, np.nan)
    quick = {"search": 1, "repeats": 1, "beside": (), "jobs": 1}
    rule = MaxFlagRate(0.1)

    @cache
    def of_recipe(recipe):
        cohort = read_cohort(past, label="ill", id="patient", need_label=True)
        return train(cohort, recipe, rule=rule, **quick)

    return of_recipe


@pytest.fixture(scope="module")
def model(cohort, trained):
    # An export to OMOP needs to know that an id is a person.
    contract = cohort.contract.model_copy(update={"id_is_person": True})
    return trained(replace(cohort, contract=contract), "logistic", search=1)


def night_with_odd_cells() -> pd.DataFrame:
    """A night whose rows 1 to 3 have a fever of 0, and row 4 a CRP of 9999."""
    night = night_of_patients(60, seed=7).assign(ward="icu")
    night.loc[:2, "fever"] = 0.0
    night.loc[3, "crp"] = 9999.0
    return night


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    out = tmp_path_factory.mktemp("odd") / "run"
    return score(model, night_with_odd_cells(), out, date=NIGHT)


def test_odd_rows_scored_as_missing(model, run):
    """The cell changes no score: the row is scored as if it were empty."""
    night = night_with_odd_cells()
    empty = night.copy()
    empty.loc[:2, "fever"] = np.nan
    empty.loc[3, "crp"] = np.nan

    odd = model.score_frame(night)
    missing = model.score_frame(empty)

    assert odd["score"].tolist() == missing["score"].tolist()
    listed = odd["out_of_bounds"].dropna()
    assert listed.tolist() == ["fever", "fever", "fever", "crp"]
    assert odd["chance"][:4].isna().all()
    assert odd["chance"][4:].notna().all()


def test_odd_rows_listed(run):
    """Page, counts, attention and flagged.csv name every such row."""
    document = run.document
    night = night_with_odd_cells()
    page = page_in(run.directory)
    with (run.directory / "flagged.csv").open(encoding="utf-8-sig") as file:
        listed = {line["id"]: line for line in csv.DictReader(file)}

    assert document["counts"]["out_of_bounds"] == 4
    assert document["check_values"]["by_column"] == {"crp": 1, "fever": 3}
    assert "values_out_of_bounds" in [
        reason["code"] for reason in document["attention"]
    ]
    assert page.index('id="check"') < page.index('id="list"')
    for name in night["patient"][:4]:
        assert name in page
        assert listed[name]["out_of_bounds"]
        assert not listed[name]["chance"]
    unflagged = [line for line in listed.values() if not line["rank"]]
    assert len(listed) == document["counts"]["flagged"] + len(unflagged)
    assert "9999" not in (run.directory / "flagged.csv").read_text()


def readings(name: str, unit: str | None, low: float, high: float):
    """Other readings of a column whose training values are spread evenly by factors."""
    past = np.geomspace(low, high, 200)
    contract = Contract(features={name: Feature(type="number", unit=unit)})
    profile = Profile(n_rows=200, n_units=200, features={name: number_profile(past)})
    return readings_of_columns(contract, profile)[name]


@pytest.mark.parametrize(
    ("name", "unit", "low", "high", "written", "meant", "other"),
    [
        ("pao2", "mmHg", 42, 223, 16.7, 125.3, "kPa"),
        ("glucose", "mg/dL", 60, 400, 8.8, 158.5, "mmol/L"),
        ("creatinine", "umol/L", 28, 963, 1.0, 88.4, "mg/dL"),
        ("respiratory_rate", None, 8, 40, 2.2, 22.0, ""),
    ],
)
def test_reading_in_another_unit(name, unit, low, high, written, meant, other):
    """A number outside training that is a usual one in another unit, or by a digit."""
    reading = readings(name, unit, low, high).readings(np.array([written]))[0]

    assert reading.value == pytest.approx(meant, rel=1e-3)
    assert reading.unit == other


@pytest.mark.parametrize("value", [224.0, 30.0, 0.001])
def test_value_without_another_reading(value):
    """What no unit of the quantity makes a usual value is not doubted."""
    assert readings("pao2", "mmHg", 42, 223).readings(np.array([value])) == {}


def test_doubtful_value_listed(model, tmp_path):
    """It is used, and listed with both readings; the row keeps its chance."""
    night = night_of_patients(60, seed=7)
    low, _ = model.facts.training.profile.features["crp"].range
    night.loc[5, "crp"] = 0.3 * low

    run = score(model, night, tmp_path / "run")

    (value,) = run.document["check_values"]["values"]
    page = page_in(run.directory)
    assert (value["column"], value["treatment"]) == ("crp", "scored_with")
    assert value["reading"] == pytest.approx(3 * low)
    assert run.document["check_values"]["doubtful"] == 1
    assert run.document["counts"]["out_of_bounds"] == 0
    assert "if it is in mg/dL" in page
    assert "scored as it is" in page


def test_sound_night_lists_nothing(model, tmp_path):
    run = score(model, night_of_patients(60, seed=7), tmp_path / "run")

    assert run.document["check_values"] is None
    assert "Check these values" not in page_in(run.directory)


def test_check_lists_odd_rows(model, tmp_path):
    """`screen check --model` names column and rows, and is no refusal."""
    save_model(model, tmp_path / "model")
    table = written(night_with_odd_cells(), tmp_path / "night.csv")

    answer = screen("check", table, "--model", tmp_path / "model").stdout

    assert "column 'fever', rows 1, 2, 3: out of bounds" in answer
    assert "9999" not in answer


@pytest.mark.parametrize("text", ["not done", "NA", "<5", "9 kg"])
def test_one_odd_text_is_missing(model, tmp_path, text):
    """One cell that is no number is missing and listed; the night is scored."""
    night = night_of_patients(60, seed=7).astype({"fever": object})
    empty = night.copy()
    night.loc[4, "fever"] = text
    empty.loc[4, "fever"] = None

    table = written(night, tmp_path / "night.csv")
    run = score(model, table, tmp_path / "run")
    scored = model.score_frame(table)
    missing = model.score_frame(written(empty, tmp_path / "empty.csv"))

    (value,) = run.document["check_values"]["values"]
    page = page_in(run.directory)
    assert value["column"] == "fever"
    assert value["value"] is None
    assert value["id"] == night["patient"][4]
    assert "a text that is not a number" in page
    assert scored["score"].tolist() == missing["score"].tolist()
    assert np.isnan(scored["chance"][4])


def test_many_odd_texts_stop(model, tmp_path):
    """A night with more such cells in a column than 1 % of them is refused."""
    night = night_of_patients(60, seed=7).astype({"fever": object})
    night.loc[[4, 5], "fever"] = "not done"

    with pytest.raises(
        CohortError, match="column 'fever', rows 5, 6: a text that is not a number"
    ) as refusal:
        score(model, written(night, tmp_path / "night.csv"), tmp_path / "run")

    assert "not done" not in str(refusal.value)


def test_one_odd_text_in_training_is_refused(tmp_path):
    """A table to train on is not scored: its odd texts are named and refused."""
    past = patients(60, seed=7).astype({"fever": object})
    past.loc[4, "fever"] = "not done"
    contract = Contract.from_dict({"features": {"fever": {"type": "number"}}})

    with pytest.raises(CohortError, match="row 5: not a number"):
        read_cohort(written(past, tmp_path / "past.csv"), contract)


def test_explain_names_odd_columns(run):
    """A case whose value was not used says so, on a terminal too."""
    first = night_with_odd_cells()["patient"][0]
    listed = {case["id"] for case in run.document["cases"]}
    listed |= {case["id"] for case in run.document["near_misses"]}
    assert first in listed

    answer = screen("explain", run.directory, first).stdout

    assert "check, not used  fever" in answer
    assert "chance " not in answer


def test_refused_file(model, tmp_path):
    """Every refused and odd cell has a line, also where the table is refused."""
    save_model(model, tmp_path / "model")
    night = night_with_odd_cells().astype({"fever": object})
    night.loc[[9, 10], "fever"] = "hot"
    table = written(night, tmp_path / "night.csv")
    path = tmp_path / "refused.csv"
    words = ("--out", tmp_path / "run", "--date", NIGHT, "--refused", path)

    screen("score", tmp_path / "model", table, *words, code=3)

    with path.open(encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    first_three = night["patient"][:3]
    of_lines = [(line["id"], line["column"]) for line in lines]
    assert of_lines == [
        *((name, "fever") for name in first_three),
        (night["patient"][3], "crp"),
        (night["patient"][9], "fever"),
        (night["patient"][10], "fever"),
    ]
    assert lines[0]["reason"].startswith("out of bounds: under ")
    assert lines[-1]["reason"] == "a text that is not a number"
    assert "hot" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (tmp_path / "run").exists()


def test_refused_file_by_processes(model, tmp_path, monkeypatch):
    """Processes list the same cells in the same order."""
    monkeypatch.setattr("screening.scoring.scoring_pass.WORTH_STARTS", 0)
    monkeypatch.setattr("screening.io.readers.RANGE_ROWS", 25)
    table = written(night_with_odd_cells(), tmp_path / "night.parquet")
    files = []
    for jobs in (1, 2):
        files.append(tmp_path / f"refused{jobs}.csv")
        out = tmp_path / f"run{jobs}"
        score(
            model,
            table,
            out,
            date=NIGHT,
            jobs=jobs,
            refused=files[-1],
        )

    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes().count(b"\n") == 5


def test_exports_not_ordinary(run, tmp_path):
    """FHIR says that a value is to be checked; OMOP, which cannot, leaves the row
    out.
    """
    flagged = read_flagged(run.directory)
    night = night_with_odd_cells()
    fhir.write(flagged, out=tmp_path / "night.json")
    entries = read_json(tmp_path / "night.json")["entry"]
    by_patient = {}
    for entry in entries:
        resource = entry["resource"]
        if resource["resourceType"] in ("RiskAssessment", "Flag"):
            patient = resource["subject"]["identifier"]["value"]
            by_patient.setdefault(patient, []).append(resource)

    for name in night["patient"][:4]:
        assessment, flag = by_patient[name]
        assert assessment["status"] == "preliminary"
        assert "probabilityDecimal" not in assessment["prediction"][0]
        assert "out of bounds" in assessment["note"][0]["text"]
        assert "Check these values" in flag["code"]["text"]
    numbered = flagged.rows.set_column(
        flagged.rows.column_names.index("id"),
        "id",
        [[str(number) for number in range(1, flagged.rows.num_rows + 1)]],
    )
    listed = numbered["out_of_bounds"].to_pylist()
    n_odd = sum(bool(text) for text in listed)
    odd_flagged = flagged.__class__(
        flagged.directory, flagged.run, numbered, flagged.to_check
    )
    omop.write(odd_flagged, out=tmp_path / "omop")
    cohort = (tmp_path / "omop" / "cohort.csv").read_text().splitlines()
    assert len(cohort) == 1 + numbered.num_rows - n_odd


def test_ledger_keeps_states(model, tmp_path):
    """A flagged row keeps its state; the entry counts rows with odd cells."""
    night = night_with_odd_cells()
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        run = score(model, night, tmp_path / "run", date=NIGHT, ledger=ledger)
    with (run.directory / "flagged.csv").open(encoding="utf-8-sig") as file:
        listed = list(csv.DictReader(file))

    counts = run.document["counts"]
    assert counts["out_of_bounds"] == 4
    assert counts["new"] == counts["flagged"]
    for line in listed:
        assert bool(line["state"]) == bool(line["rank"])


def test_violation_still_stops(model, tmp_path):
    night = night_with_odd_cells()
    night.loc[5, "crp"] = np.inf
    with pytest.raises(CohortError, match="infinite") as refused:
        score(model, night, tmp_path / "run")
    assert "out of bounds" not in str(refused.value)


def test_channel_of_image_unusable(tissue, tissue_model, tmp_path):
    """A channel of one value, of none, or out of bounds in all voxels is named."""
    night = voxels(4, seed=5).drop(columns="tissue")
    by_patient = night.groupby("patient").groups
    first, second, third, _ = by_patient
    night.loc[by_patient[first], "t2"] = 0.0
    night.loc[by_patient[second], "t2"] = np.nan
    night.loc[by_patient[third], "adc"] = 9000.0
    night.loc[by_patient[third][0], "adc"] = 8000.0

    run = score(tissue_model, night, tmp_path / "run", date=NIGHT)

    channels = run.document["check_values"]["channels"]
    faults = [(odd["group"], odd["column"], odd["fault"]) for odd in channels]
    assert faults == [
        (first, "t2", "one value"),
        (second, "t2", "missing"),
        (third, "adc", "out of bounds"),
    ]
    reasons = {reason.code: reason.words for reason in run.attention}
    assert "Images of 3 patients" in reasons["channels_unusable"]


def test_channel_of_one_value_everywhere():
    """A channel that had one value in training, too, is not named."""
    roles = {"label": "tissue", "group": "patient", "coordinates": ["x", "y", "z"]}
    features = {name: Feature(type="number") for name in ("t2", "coil")}
    contract = Contract(**roles, features=features)
    past = read_cohort(voxels().assign(coil=1.0), contract, need_label=True)
    profiles = profile(past.measured, contract, past.group)
    bounds = bounds_of_columns(contract, profiles)

    counted = count_channels(past, bounds)

    assert counted[0]["column"].unique().to_pylist() == ["t2", "coil"]
    assert odd_channels(counted, profiles) == []
