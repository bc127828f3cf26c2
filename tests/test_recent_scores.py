"""A case beside its last nights: flagged or not, how rare its score was, and if it has
risen.
"""

import shutil

import pytest
from flow_cohorts import patients, voxels
from written_files import page_in, scores_in

from screening import MaxFlagRate, score
from screening.ledger.database import open_ledger
from screening.scoring import series_history


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.3))


def night(model, folder, day, fever, **options):
    """Score a night on which the first patient has this fever and the second a high
    one.
    """
    table = patients(40, seed=7)
    table.loc[0, ["fever", "crp"]] = [fever, 30.0]
    table.loc[1, ["fever", "crp"]] = [40.0, 60.0]
    with open_ledger(folder / "screening.db", make=True) as ledger:
        run = score(
            model,
            table,
            folder / f"{day}",
            date=f"2026-03-0{day}",
            ledger=ledger,
            **options,
        )
    return run.document


def case_of(document, number=0):
    """Return the first, or another, patient's case of a night."""
    name = patients(40, seed=7)["patient"][number]
    [case] = [case for case in document["cases"] if case["id"] == name]
    return case


def p_of(folder, day, number=0):
    rows = scores_in(folder / f"{day}").set_index("id")
    name = patients(40, seed=7)["patient"][number]
    return rows["p_value"][name]


def test_p_values_of_last_nights(model, tmp_path):
    """A case has its p-value of each night, flagged or not; one that is half as common
    has risen.
    """
    for day, fever in ((1, 36.0), (2, 37.1)):
        night(model, tmp_path, day, fever)
    document = night(model, tmp_path, 3, 39.5)
    case = case_of(document)

    assert case["recent_flags"] == [False, True, True]
    p_values = [p_of(tmp_path, day) for day in (1, 2, 3)]
    assert case["recent_p_values"] == p_values
    assert case["recent_p_values"][2] <= case["recent_p_values"][1] / 2
    page = page_in(tmp_path / "3")
    assert "<b>1</b> risen" in page
    assert page.count("2 nights, risen</small>") == 1
    assert "score risen since the last night" in page


@pytest.mark.parametrize("fate", ["gone", "altered", "of another night", "large"])
def test_p_values_unknown(model, tmp_path, fate, monkeypatch):
    """Without a sound run directory the page says less: flagged or not."""
    night(model, tmp_path, 1, 37.6)
    place = tmp_path / "1"
    if fate == "gone":
        shutil.rmtree(place)
    elif fate == "altered":
        with (place / "scores.parquet").open("ab") as file:
            file.write(b" ")
    elif fate == "of another night":
        shutil.rmtree(place)
        night(model, tmp_path, 2, 37.7)
        shutil.move(tmp_path / "2", place)
    else:
        monkeypatch.setattr(series_history, "MAX_ROWS", 10)
    document = night(model, tmp_path, 3, 39.5)
    case = case_of(document)

    assert case["recent_flags"][0] is True
    assert case["recent_p_values"][0] is None
    page = page_in(tmp_path / "3")
    assert "</b> risen" not in page
    assert "of the last" in page


def test_p_values_of_groups(tissue_model, tmp_path):
    """Of a patient with many rows it is the p-value of the highest."""
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        for day in (1, 2):
            run = score(
                tissue_model,
                voxels(3, 50, seed=9),
                tmp_path / f"{day}",
                date=f"2026-03-0{day}",
                ledger=ledger,
                accept_delivery="the same images",
            )
    rows = scores_in(tmp_path / "1")
    lowest = rows.groupby("group")["p_value"].min()

    for group in run.document["groups"]:
        assert group["recent_p_values"][0] == lowest[group["group"]]
