"""The table of measurements: which range a column's name and unit stand for."""

import pytest

from screening.contract.quantities import has_name, name_words
from screening.data.measurements import (
    MEASUREMENTS,
    excludes_zero,
    possible_range,
)
from screening.data.reading import starter_contract


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=lambda known: known.names)
def test_measurement_range_in_order(measurement):
    """Every range is in order in each unit, and every name is found by one entry."""
    for unit, _ in measurement.units:
        low, high = measurement.range_in(unit)
        assert 0 <= low < high
    for name in measurement.names.split():
        found = [
            known for known in MEASUREMENTS if has_name(name_words(name), known.names)
        ]
        assert found == [measurement]


@pytest.mark.parametrize(
    ("name", "unit", "low", "high", "expected"),
    [
        ("temp", None, 35.5, 40.2, ("degrees C", 14.2, 47)),
        ("body_temperature", None, 96, 104, ("degrees F", 57.56, 116.6)),
        ("CreatinineMax", "umol/L", 44, 300, ("umol/L", 4.421, 5836)),
        ("Heart Rate", "bpm", 45, 140, ("/min", 10, 390)),
        ("sbp", None, 80, 210, ("mmHg", 5, 375)),
    ],
)
def test_possible_range_name_and_unit(name, unit, low, high, expected):
    """The unit is the contract's, or the only one in which the values are possible."""
    possible = possible_range(name, unit, low, high)

    assert (possible.low, possible.high) == expected[1:]


@pytest.mark.parametrize(
    ("name", "unit", "low", "high"),
    [
        ("creatinine", None, 0.5, 3),
        ("temp", "degC", 96, 104),
        ("urea_creatinine_ratio", None, 5, 30),
        ("pulse_pressure", None, 20, 80),
        ("score", None, 0, 10),
    ],
)
def test_possible_range_unknown(name, unit, low, high):
    """Two possible units, values beyond the range and derived values have no range."""
    assert possible_range(name, unit, low, high) is None


def test_excludes_zero_in_any_unit():
    """Of two possible units both exclude 0; an age of 0 is an age."""
    assert excludes_zero("creatinine", None, 0.5, 3)
    assert not excludes_zero("age", None, 1, 90)
    assert not excludes_zero("crp", "mg/L", 1, 90)
    assert not excludes_zero("cigarettes", None, 1, 40)


def test_init_plausible(tmp_path):
    """`init` writes plausible ranges and says so, but none that the table breaks."""
    rows = [f"p{n},{36 + n / 40},{60 + n},{n % 2}" for n in range(80)]
    rows[7] = "p7,36.2,2,1"
    table = tmp_path / "past.csv"
    table.write_text("\n".join(["id,temp,hr,ill", *rows]))

    contract, notes = starter_contract(table, label="ill", id="id")

    assert contract.features["temp"].plausible == (14.2, 47)
    assert contract.features["hr"].plausible is None
    (note,) = [note for note in notes if note.startswith("plausible ranges")]
    assert "'temp' (14.2 to 47 degrees C)" in note
