"""The sample cohorts are what their README says: sizes, shares, shapes, difficulty, and made from seeds."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from screening.contract.contract import Contract

SAMPLES = Path(__file__).resolve().parents[1] / "sample_cohorts"
NOSOCOMIAL = ["nosocomial_past.csv", "nosocomial_night.csv", "nosocomial_night_labelled.csv"]
PROSTATE = ["prostate_past.parquet", "prostate_new.parquet", "prostate_new_labelled.parquet"]


def patients(name):
    return pd.read_csv(SAMPLES / name, dtype={"patient_id": str, "asa_score": "Int64"})


def voxels(name):
    return pd.read_parquet(SAMPLES / name)


def make(out):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, SAMPLES / "make.py", "--out", out], check=True, env=environment)
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made")
    return out, make(out)


def test_the_script_makes_every_table_of_the_folder(made):
    assert sorted(made[1]) == sorted(NOSOCOMIAL + PROSTATE)


@pytest.mark.parametrize("name", NOSOCOMIAL)
def test_the_folder_holds_the_csv_the_script_makes(made, name):
    assert (SAMPLES / name).read_bytes() == made[1][name]


@pytest.mark.parametrize("name", PROSTATE)
def test_the_folder_holds_the_voxels_the_script_makes(made, name):
    # Not bytes: a Parquet file names the pyarrow that wrote it.
    pd.testing.assert_frame_equal(voxels(name), pd.read_parquet(made[0] / name))


def test_the_samples_are_under_ten_megabytes():
    assert sum(path.stat().st_size for path in SAMPLES.iterdir() if path.is_file()) < 10e6


def test_the_past_has_683_patients_of_whom_75_are_infected():
    assert patients(NOSOCOMIAL[0])["infected"].value_counts().to_dict() == {"no": 608, "yes": 75}


def test_the_night_is_the_labelled_night_without_its_label():
    pd.testing.assert_frame_equal(patients(NOSOCOMIAL[1]), patients(NOSOCOMIAL[2]).drop(columns="infected"))
    assert len(patients(NOSOCOMIAL[1])) == 240
    assert 0.06 < (patients(NOSOCOMIAL[2])["infected"] == "yes").mean() < 0.16


@pytest.mark.parametrize("name", NOSOCOMIAL)
def test_the_contract_describes_every_column_and_its_49_variables(name):
    contract = Contract.load(SAMPLES / "nosocomial.toml")
    columns = [column for column in patients(name).columns if column != "infected"]
    assert columns == [contract.id, contract.time, *contract.features]
    assert len(contract.features) == 49


@pytest.mark.parametrize("name", NOSOCOMIAL)
def test_every_number_is_plausible_and_every_text_is_in_the_contract(name):
    contract = Contract.load(SAMPLES / "nosocomial.toml")
    table = pd.read_csv(SAMPLES / name, dtype=str)
    for column, feature in contract.features.items():
        values = table[column].dropna()
        known = {
            "number": lambda v, f: v.astype(float).between(*f.plausible),
            "boolean": lambda v, f: v.isin(["yes", "no"]),
        }.get(feature.type, lambda v, f: v.isin(f.categories))(values, feature)
        assert known.all(), column


def test_the_prostates_are_21_past_and_3_new_patients():
    past, new = set(voxels(PROSTATE[0])["patient"]), set(voxels(PROSTATE[1])["patient"])
    assert (len(past), len(new), len(past & new)) == (21, 3, 0)
    assert 5000 < len(voxels(PROSTATE[0])) < 9000


def test_the_new_voxels_are_the_labelled_ones_without_their_label():
    pd.testing.assert_frame_equal(voxels(PROSTATE[1]), voxels(PROSTATE[2]).drop(columns="gleason"))


def test_the_prostate_contract_describes_every_column():
    contract = Contract.load(SAMPLES / "prostate.toml")
    assert contract.columns() == ["patient", "x", "y", "z", "t2w", "adc", "c_grade"]
    assert [*voxels(PROSTATE[0]).columns] == [*contract.columns(), contract.label]
    for name, feature in contract.features.items():
        assert voxels(PROSTATE[0])[name].between(*feature.plausible).all()


def test_nine_classes_with_the_papers_shares():
    shares = voxels(PROSTATE[0])["gleason"].value_counts(normalize=True)
    assert len(shares) == 9
    assert 0.01 <= shares["G4+3"] <= 0.02
    assert shares["G4+5"] < 0.01
    assert shares["OtherProstate"] > 0.45
