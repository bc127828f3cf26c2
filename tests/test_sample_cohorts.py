"""The sample cohorts are what their README says: sizes, shares, shapes, difficulty, and made from seeds."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from screening.contract.contract import Contract

SAMPLES = Path(__file__).resolve().parents[1] / "sample_cohorts"
NOSOCOMIAL = ["nosocomial_past.csv", "nosocomial_night.csv", "nosocomial_night_labelled.csv"]
DEVICE_DAYS = ["central_line_days", "peripheral_line_days", "urinary_catheter_days", "ventilator_days"]
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


def test_making_twice_gives_the_same_bytes(made, tmp_path):
    assert made[1] == make(tmp_path / "again")


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


def test_ids_are_unique_over_past_and_night_and_have_leading_zeros():
    ids = pd.concat([patients(NOSOCOMIAL[0]), patients(NOSOCOMIAL[1])])["patient_id"]
    assert ids.is_unique
    assert ids.str.fullmatch(r"0\d{6}").all()


def test_the_night_was_admitted_before_its_date_and_the_past_before_the_night():
    past, night = (pd.to_datetime(patients(name)["admission_date"]) for name in NOSOCOMIAL[:2])
    assert night.max() == pd.Timestamp("2026-01-12")
    assert past.max() < pd.Timestamp("2026-01-01")


def test_infections_are_spread_over_the_past_year():
    infected = patients(NOSOCOMIAL[0]).sort_values("admission_date")["infected"].to_numpy() == "yes"
    shares = [part.mean() for part in np.array_split(infected, 4)]
    assert min(shares) > 0.05
    assert max(shares) < 0.2


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


def test_laboratory_values_are_missing_and_not_at_random():
    past = patients(NOSOCOMIAL[0])
    missing = past["crp"].isna().groupby(past["infected"]).mean()
    assert past[["crp", "albumin", "neutrophils"]].isna().mean().between(0.1, 0.5).all()
    assert missing["yes"] < missing["no"] - 0.1


def test_an_operation_asa_score_and_wound_class_go_together():
    past = patients(NOSOCOMIAL[0])
    operated = past["surgery_class"] != "none"
    assert (past["asa_score"].notna() == operated).all()
    assert (past["days_since_surgery"].notna() == operated).all()
    assert ((past["surgery_minutes"] > 0) == operated).all()


@pytest.mark.parametrize("days", DEVICE_DAYS)
def test_no_device_was_in_longer_than_the_patient(days):
    past = patients(NOSOCOMIAL[0])
    assert (past[days] <= past["days_in_hospital"]).all()


def plain_svm(C):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    encoder = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
        sparse_threshold=0,
    )
    return make_pipeline(encoder, SVC(C=C))


@pytest.mark.parametrize("C", [1, 10])
def test_a_plain_svm_reaches_an_auroc_of_080_to_090_on_nosocomial(C):
    past = patients(NOSOCOMIAL[0])
    y = (past["infected"] == "yes").to_numpy()
    x = past.drop(columns=["patient_id", "admission_date", "infected"]).astype({"asa_score": float})
    x[x.select_dtypes("number").columns] = x.select_dtypes("number").astype(float)
    score = np.empty(len(y))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
        score[test] = plain_svm(C).fit(x.iloc[train], y[train]).decision_function(x.iloc[test])
    assert 0.80 < roc_auc_score(y, score) < 0.90


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


def test_every_rare_class_has_at_least_three_patients():
    past = voxels(PROSTATE[0])
    assert past.groupby("gleason")["patient"].nunique().min() >= 3


@pytest.mark.parametrize("name", [PROSTATE[0], PROSTATE[2]])
def test_every_class_is_one_connected_region_of_a_patient(name):
    for (patient, tissue), region in voxels(name).groupby(["patient", "gleason"]):
        grid = np.zeros(region[["x", "y", "z"]].max() + 1, dtype=bool)
        grid[tuple(region[["x", "y", "z"]].to_numpy().T)] = True
        assert grid.sum() == len(region), (patient, tissue)
        assert ndimage.label(grid)[1] == 1, (patient, tissue)
        assert len(region) >= 5, (patient, tissue)


def test_intensities_shift_between_patients_more_than_within_healthy_tissue():
    past = voxels(PROSTATE[0])
    healthy = past[past["gleason"] == "OtherProstate"].groupby("patient")["t2w"]
    assert healthy.mean().std() > healthy.std().mean()


def test_a_plain_svm_errs_on_9_to_20_percent_of_the_voxels_of_unseen_patients():
    past = voxels(PROSTATE[0])
    x = past[["t2w", "adc", "c_grade"]].copy()
    for channel in ("t2w", "adc"):
        of_patient = past.groupby("patient")[channel]
        x[channel] = (x[channel] - of_patient.transform("mean")) / of_patient.transform("std")
    x, y = x.to_numpy(), past["gleason"].to_numpy()
    predicted = np.empty_like(y)
    for train, test in GroupKFold(7).split(x, y, past["patient"]):
        machine = make_pipeline(StandardScaler(), SVC(C=5)).fit(x[train], y[train])
        predicted[test] = machine.predict(x[test])
    assert 0.09 < (predicted != y).mean() < 0.20
