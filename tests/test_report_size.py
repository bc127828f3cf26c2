"""How large a page grows: in real runs of a ward, and of thousands of flagged rows."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from screening import score, train
from screening.report import render_run
from screening.schemas.figures import MaxFlagRate
from screening.scoring.summary import CASES_EXPLAINED, CASES_SHOWN

COHORTS = Path(str(files("screening.sample_cohorts")))


@pytest.fixture(scope="module")
def model():
    # Of the rows it learned from it flags fewer, and still more than half: more than get a line each.
    quick = {"search": 1, "folds": 3, "rule": MaxFlagRate(0.8), "forward": False, "beside": ()}
    past, contract = COHORTS / "nosocomial_past.csv", COHORTS / "nosocomial.toml"
    return train(past, "one_class_conformal", contract=contract, label="infected", **quick)


@pytest.fixture(scope="module")
def nights(model, tmp_path_factory):
    """Runs of 683 and of 10,000 patients, drawn with replacement from the past and named anew."""
    folder = tmp_path_factory.mktemp("nights")
    past = pd.read_csv(COHORTS / "nosocomial_past.csv", dtype=str, keep_default_na=False)
    runs = {}
    for n in (683, 10_000):
        night = past.iloc[np.random.default_rng(n).integers(0, len(past), n)].drop(columns="infected")
        night = night.assign(patient_id=[f"{i:08d}" for i in range(n)])
        night.to_csv(folder / f"{n}.csv", index=False)
        runs[n] = score(model, folder / f"{n}.csv", folder / str(n), date="2026-03-01")
    return runs


@pytest.mark.parametrize(("rows", "flagged", "size"), [(683, 300, 400_000), (10_000, CASES_SHOWN, 1_500_000)])
def test_size_of_a_page(nights, rows, flagged, size):
    assert nights[rows].document["counts"]["flagged"] > flagged
    assert (nights[rows].directory / "report.html").stat().st_size < size


def test_the_first_hundred_have_reasons_and_all_up_to_the_cap_have_a_line(nights):
    run = nights[10_000].document
    page = render_run(run)
    explained = [case for case in run["cases"] if case["contributions"] is not None]
    folds = page.count("<details><summary><span class=f><i class=r>")

    assert [case["rank"] for case in run["cases"]] == list(range(1, CASES_SHOWN + 1))
    assert len(explained) == run["cases_explained"] == CASES_EXPLAINED
    assert folds == CASES_EXPLAINED + len(run["near_misses"])
    assert page.count("<div class=t></div>") == CASES_SHOWN + len(run["sample"])
    assert f"5,000 of {run['cases_total']:,} shown" in page
