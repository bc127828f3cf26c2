"""Dates in every notation that tables have, as texts and as numbers."""

import datetime

import numpy as np
import pandas as pd
import pytest

from screening.contract.contract import Contract
from screening.data.reading import read_cohort, starter_contract
from screening.io.date_formats import parse_time, times_of_numbers

NOON = datetime.datetime(2025, 1, 31, 12, 5)
DAY = datetime.datetime(2025, 1, 31)
TEXTS = {
    "20250131": DAY,
    "202501311205": NOON,
    "20250131120500": NOON,
    "20250131120500.000": NOON,
    "20250131130500+0100": NOON,
    "01FEB2025": datetime.datetime(2025, 2, 1),
    "31-Jan-2025": DAY,
    "31. Januar 2025": DAY,
    "31 ene 25": DAY,
    "Jan-25": datetime.datetime(2025, 1, 1),
    "2025-01-31 12:05 PM": NOON,
    "2025-01-31 12:05 am": datetime.datetime(2025, 1, 31, 0, 5),
    "20251301": None,
    "Jam-25": None,
    "31JAN2025 25:00": None,
}


@pytest.mark.parametrize(("text", "time"), TEXTS.items())
def test_parse_time_notation(text, time):
    """Compact dates, names of months and hours of half a day are read."""
    assert parse_time(text, None) == time


def test_parse_time_half_day_in_order():
    """AM and PM are read behind a day or month that comes first."""
    time = datetime.datetime(2025, 2, 1, 15, 5)

    assert parse_time("1/2/2025 3:05 PM", "dmy") == time
    assert parse_time("2/1/2025 3:05 p.m.", "mdy") == time


NUMBERS = {
    "days_1900": 45_688,
    "days_1904": 44_226,
    "days_1960": 23_772,
    "seconds_1970": 1_738_281_600,
    "milliseconds_1970": 1_738_281_600_000,
}


@pytest.mark.parametrize(("counted", "number"), NUMBERS.items())
def test_times_of_numbers(counted, number):
    """A number counts days or seconds from its origin; one out of range is no time."""
    numbers = np.array([number, np.nan, 1e30])
    times = times_of_numbers(numbers, counted)

    assert times[0] == np.datetime64(DAY)
    assert np.isnat(times[1:]).all()


DAYS = pd.date_range("2025-01-01", periods=60)
SECONDS = (DAYS - pd.Timestamp("1970-01-01")).total_seconds()
COLUMNS = {
    "YYYYMMDD": ("admit_date", DAYS.strftime("%Y%m%d"), None),
    "HL7": ("admit_date", DAYS.strftime("%Y%m%d%H%M%S"), None),
    "01JAN2025": ("admit_date", DAYS.strftime("%d%b%Y").str.upper(), None),
    "AM and PM": ("admit_date", DAYS.strftime("%m/%d/%Y 03:15 PM"), None),
    "days since 1900": ("admit_date", 45_658 + np.arange(60), "days_1900"),
    "days since 1960": ("admit_date", 23_742 + np.arange(60), "days_1960"),
    "seconds": ("timestamp", SECONDS.astype("int64"), "seconds_1970"),
    "milliseconds": ("timestamp", SECONDS.astype("int64") * 1000, "milliseconds_1970"),
}


@pytest.mark.parametrize(("name", "cells", "counted"), COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_are_offered_as_time(tmp_path, name, cells, counted, suffix):
    """The only date of the row is its time, in whatever notation, and no feature."""
    crp = np.linspace(1, 9, 60)
    table = pd.DataFrame({"crp": crp, name: cells})
    path = tmp_path / f"past{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)

    contract, _ = starter_contract(path)
    cohort = read_cohort(path, contract)

    assert contract.time == name
    assert contract.date_numbers == counted
    assert [*contract.features] == ["crp"]
    assert cohort.time[0].astype("datetime64[D]") == np.datetime64("2025-01-01")


def test_instants_of_any_name(tmp_path):
    """Milliseconds are times whatever the column's name; of ten digits a name tells.

    Ten digits may be a number of somebody, so that they are neither time nor feature.
    """
    path = tmp_path / "past.csv"
    found = {}
    for name, cells in (
        ("x17", SECONDS.astype("int64") * 1000 + 123),
        ("x18", SECONDS.astype("int64") + 7),
        ("admission", SECONDS.astype("int64") + 7),
        ("x19", 4_010_000_000 + 7_654_321 * np.arange(60)),
    ):
        pd.DataFrame({"crp": np.linspace(1, 9, 60), name: cells}).to_csv(path)
        contract, _ = starter_contract(path)
        assert name not in contract.features
        found[name] = (contract.time, contract.date_numbers)

    assert found == {
        "x17": ("x17", "milliseconds_1970"),
        "x18": (None, None),
        "admission": ("admission", "seconds_1970"),
        "x19": (None, None),
    }


def test_other_dates_are_no_features(tmp_path):
    """Dates of birth and of follow-up are dropped in whatever notation."""
    table = pd.DataFrame(
        {
            "crp": np.linspace(1, 9, 60),
            "birth_date": DAYS.strftime("%Y%m%d"),
            "last_review": DAYS.strftime("%b-%y").where(DAYS.day > 3, "Mar-24"),
        }
    )
    path = tmp_path / "past.csv"
    table.to_csv(path, index=False)

    contract, _ = starter_contract(path)

    assert contract.time is None
    assert [*contract.features] == ["crp"]


def test_date_numbers_key_is_written():
    """The key survives the contract's file."""
    contract = Contract(time="day", date_numbers="days_1904")

    assert Contract.from_dict(contract.to_dict()) == contract
