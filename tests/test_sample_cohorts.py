"""The sample cohorts are what their README says: sizes, shares, shapes, difficulty, and
made from seeds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from written_files import names_in

from screening.contract.contract import Contract
from screening.data.reading import check_cohort

SAMPLES = Path(__file__).resolve().parents[1] / "sample_cohorts"
NOSOCOMIAL = [
    "nosocomial_past.csv",
    "nosocomial_night.csv",
    "nosocomial_night_labelled.csv",
]
PROSTATE = [
    "prostate_past.parquet",
    "prostate_new.parquet",
    "prostate_new_labelled.parquet",
]


def table_of(name: str, folder: Path = SAMPLES) -> pd.DataFrame:
    path = folder / name
    return (
        pd.read_parquet(path)
        if path.suffix == ".parquet"
        else pd.read_csv(path, dtype=str)
    )


def test_the_folder_holds_the_tables_that_the_script_makes(tmp_path):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        [sys.executable, SAMPLES / "make.py", "--out", tmp_path],
        check=True,
        env=environment,
    )
    assert sorted(names_in(tmp_path)) == sorted(NOSOCOMIAL + PROSTATE)
    for name in NOSOCOMIAL:
        kept = (SAMPLES / name).read_bytes()
        assert kept == (tmp_path / name).read_bytes()
    for name in PROSTATE:  # not bytes: a Parquet file names the pyarrow that wrote it
        assert_frame_equal(table_of(name), table_of(name, tmp_path))


@pytest.mark.parametrize(
    ("contract", "name"),
    [("nosocomial", name) for name in NOSOCOMIAL] + [("prostate", PROSTATE[0])],
)
def test_the_contract_describes_every_column_and_every_value_keeps_it(contract, name):
    contract = Contract.load(SAMPLES / f"{contract}.toml")
    features = set(table_of(name)) - {contract.label}
    assert features == set(contract.columns())
    violations, *_ = check_cohort(SAMPLES / name, contract)
    assert violations == []


def test_tables_have_the_sizes_and_shares_of_the_readme_and_the_paper():
    past, _, labelled = map(table_of, NOSOCOMIAL)
    of_past = past["infected"].value_counts()
    of_labelled = labelled["infected"].value_counts()
    assert of_past.to_dict() == {"no": 608, "yes": 75}
    assert of_labelled.to_dict() == {"no": 216, "yes": 24}
    assert len(Contract.load(SAMPLES / "nosocomial.toml").features) == 49
    past, new, _ = map(table_of, PROSTATE)
    shares = past["gleason"].value_counts(normalize=True)
    assert past["patient"].nunique() == 21
    assert new["patient"].nunique() == 3
    assert not set(past["patient"]) & set(new["patient"])
    assert len(past) == 5973
    assert len(new) == 835
    assert len(shares) == 9
    assert 0.01 <= shares["G4+3"] <= 0.02
    assert shares["G4+5"] < 0.01
    assert shares["OtherProstate"] > 0.45
    files = [path for path in SAMPLES.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10e6
