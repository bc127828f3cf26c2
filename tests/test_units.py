"""Units: conversions are told by their exact factor, honest differences are not taken
for one.
"""

import re

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import columns_of
from gated_tables import gated
from numpy.random import default_rng

from screening.contract.contract import Contract
from screening.contract.quantities import quantity_named, standard_unit
from screening.errors import CohortError
from screening.monitoring import units
from screening.monitoring.drift import Gates
from screening.monitoring.profile import number_profile, profile
from screening.monitoring.units import Conversion, conversions_of, unit_shift

DRAWS = {
    "creatinine": lambda rng, n: rng.lognormal(0, 0.35, n),
    "urea": lambda rng, n: rng.lognormal(3.6, 0.45, n),
    "haemoglobin": lambda rng, n: rng.normal(12.8, 1.9, n).clip(5),
    "marker": lambda rng, n: rng.lognormal(2, 1, n),
    "dose": lambda rng, n: np.where(rng.random(n) < 0.75, 0, rng.lognormal(1, 0.5, n)),
    "balance": lambda rng, n: rng.normal(0, 1, n),
}


def compared(
    past: object, night: object, name: str = "creatinine", **feature: str
) -> Gates:
    """Gates that have compared a night's values of a column with those of training."""
    feature = {"type": "number", **feature}
    contract = Contract.from_dict({"features": {name: feature}})
    tonight = pd.DataFrame({name: night})
    return gated(tonight, pd.DataFrame({name: past}), contract)


def stopped(
    name: str,
    factor: float,
    n_rows: int,
    nights: int = 12,
    **feature: str,
) -> float:
    """Share of the nights, drawn anew, of which a column times a factor stops the
    run.
    """
    hits = 0
    for seed in range(nights):
        rng = default_rng(seed)
        past = DRAWS[name](rng, 600)
        night = DRAWS[name](rng, n_rows)
        gates = compared(past, factor * night, name, **feature)
        hits += bool(gates.stops())
    return hits / nights


@pytest.mark.parametrize(
    ("name", "factor", "feature", "fewest"),
    [
        ("creatinine", 88.42, {}, 5),
        ("haemoglobin", 0.6206, {}, 5),
        ("urea", 1 / 2.801, {}, 20),
        ("urea", 1 / 2.801, {"unit": "mg/dL"}, 20),
    ],
)
def test_a_column_in_other_units_is_recognised(name, factor, feature, fewest):
    for n_rows in (fewest, 240):
        assert stopped(name, factor, n_rows, **feature) >= 0.75


@pytest.mark.parametrize("n_rows", [20, 240])
@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("marker", 8),
        ("creatinine", 1.5),
        ("dose", 1),
        ("dose", 8),
        ("balance", 8),
    ],
)
def test_honest_differences_zeros_and_signs_do_not_stop_a_night(name, factor, n_rows):
    assert stopped(name, factor, n_rows) == 0


@pytest.mark.parametrize(
    ("changed", "n_rows", "spoken"),
    [
        (1, 40, 0),
        (2, 40, 0),
        (3, 100, 0),
        (6, 40, 6),
        (10, 100, 6),
    ],
)
def test_unit_share_of_rows(changed, n_rows, spoken):
    """Some rows in another unit are said by their share and never stop a night."""
    said = []
    for seed in range(6):
        rng = default_rng(seed)
        past = DRAWS["creatinine"](rng, 600)
        night = DRAWS["creatinine"](rng, n_rows)
        night[:changed] *= 88.42
        gates = compared(past, night)
        assert gates.stops() == []
        said += [
            reason.words
            for reason in gates.attention()
            if reason.code == "unit_changed"
        ]
    shares = []
    for words in said:
        percent = re.search(r"in (\d+)% of the rows", words)[1]
        shares.append(float(percent) / 100)
    assert len(shares) == spoken
    assert all(
        0.7 * changed / n_rows <= share <= changed / n_rows + 0.01 for share in shares
    )


@pytest.mark.parametrize("value", [35.5, 37.0, 41.0])
def test_one_default_in_every_row_is_no_other_unit(value):
    past = default_rng(0).normal(37.1, 0.6, 600).round(1)
    gates = compared(past, [value] * 60, "temperature")
    assert gates.stops() == []
    assert {reason.code for reason in gates.attention()} <= {
        "values_differ",
        "outside_range",
    }


@pytest.mark.parametrize("night_units", [3, 5, 380])
def test_column_nearly_always_zero(night_units):
    """A few values beside thousands of zeros do not say how such values lie."""
    days = [7, 20, 3, 4, 7, 30, 2, 10, 2, 2, 8, 4, 2, 3, 7, 6, 4, 2, 14]
    past = number_profile(np.concatenate([np.zeros(1669), days]))
    night = np.concatenate([np.zeros(379), [3]])

    shift = unit_shift(
        night,
        past,
        conversions_of("actdays", None),
        night_units=night_units,
        differs=False,
        chance=1e-4,
    )

    assert shift is None


def test_a_declared_unit_allows_its_own_conversions_only():
    assert stopped("creatinine", 88.42, 20, unit="mg/dL") == 1
    assert stopped("creatinine", 88.42, 20, unit="umol/L") == 0
    assert stopped("creatinine", 1 / 88.42, 20, unit="umol/L") == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mm[Hg]", "mmHg"),
        ("Cel", "degrees C"),
        ("[degF]", "degrees F"),
        ("[lb_av]", "lb"),
        ("µmol/L", "umol/L"),
        ("μmol/l", "umol/L"),
        ("mg/dl", "mg/dL"),
        ("MG/DL", "mg/dL"),
        ("furlong", "furlong"),
    ],
)
def test_ucum_and_usual_spellings_of_a_unit_are_understood(written, meant):
    assert standard_unit(written) == meant


@pytest.mark.parametrize(
    ("column", "quantity"),
    [
        ("serum_creatinine", "creatinine"),
        ("BUN", "urea"),
        ("Hb", "haemoglobin"),
        ("temperature_max", "temperature"),
        ("urea_creatinine_ratio", None),
        ("creatinine_urea", None),
        ("creatinine_clearance", None),
        ("hemoglobin_a1c", None),
        ("age", None),
    ],
)
def test_unit_of_column_name(column, quantity):
    """A column is known by the words of its name unless it is computed."""
    assert getattr(quantity_named(column), "name", None) == quantity


@pytest.mark.parametrize("n_rows", [1, 3])
def test_unit_very_few_rows(n_rows):
    """A very few rows like those of training are not said to be in another unit."""
    past = DRAWS["urea"](default_rng(0), 600)
    for seed in range(1, 130):
        night = DRAWS["urea"](default_rng(seed), n_rows)
        gates = compared(past, night, "urea")
        codes = {reason.code for reason in gates.attention()}
        assert "unit_changed" not in codes


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("crp", False),
        ("lactate", True),
        ("marker", False),
    ],
)
def test_factors_that_patients_differ_by_too_are_not_taken_as_known(name, known):
    conversions = conversions_of(name, None)
    assert {each.known for each in conversions} == {known}


def test_rows_far_down_a_long_night_are_looked_at_too():
    rng = default_rng(0)
    past = DRAWS["creatinine"](rng, 600)
    night = DRAWS["creatinine"](rng, 1000)
    night[500:] *= 88.42
    reasons = compared(past, night).attention()
    said = {reason.code: reason.words for reason in reasons}
    assert "in 4" in said["unit_changed"]


QUANTITIES = "marker creatinine urea glucose bilirubin calcium weight height pressure"


@pytest.mark.parametrize("name", QUANTITIES.split())
def test_a_conversion_and_its_way_back_cancel_out(name):
    factors = [each.factor for each in conversions_of(name, None)]
    for factor in factors:
        assert np.isclose(factors, 1 / factor, rtol=0.01).any()


def test_the_contract_says_whether_other_units_stop_the_night():
    assert stopped("creatinine", 88.42, 20, on_unit_change="attention") == 0
    with pytest.raises(CohortError, match="on_unit_change"):
        Contract.from_dict(
            {"features": {"creatinine": {"type": "number", "on_unit_change": "maybe"}}}
        )


@pytest.mark.parametrize(
    ("unit", "before", "after", "words"),
    [
        ("degF", 98.6, 37.0, "minus 32, divided by 1.8"),
        ("degC", 37.0, 98.6, "times 1.8, plus 32"),
    ],
)
def test_unit_temperature(unit, before, after, words):
    """A temperature is converted and said as every thermometer has it."""
    (conversion,) = conversions_of("temperature", unit)
    assert conversion.factor * before + conversion.offset == pytest.approx(after)
    assert conversion.words == words


def shift_of(night: np.ndarray, factor: float, chance: float = 5e-4):
    """What is said of a night beside 600 values of a log-normal distribution (sd
    0.35).
    """
    feature = {"type": "number"}
    contract = Contract.from_dict({"features": {"creatinine": feature}})
    values = DRAWS["creatinine"](default_rng(0), 600)
    past = pd.DataFrame({"creatinine": values})
    training = profile(columns_of(past), contract).features["creatinine"]
    conversion = Conversion(factor, 0.0, "", "", known=True)
    return unit_shift(
        night,
        training,
        [conversion],
        night_units=len(night),
        differs=True,
        chance=chance,
    )


def test_a_conversion_that_a_ward_can_bring_too_is_never_sure():
    night = DRAWS["creatinine"](default_rng(1), 240)
    # 1.6 is 1.3 standard deviations; 3 is three.
    brought = shift_of(1.6 * night, 1.6)
    assert brought.ratio > units.KNOWN_BOUND
    assert not brought.sure
    assert shift_of(3 * night, 3).sure


def test_unit_few_rows():
    """A few rows in another unit are said only where chance would not bring as many."""
    night = DRAWS["creatinine"](default_rng(1), 60)
    night[:4] *= 88.42
    assert shift_of(night, 88.42).share == pytest.approx(4 / 60)
    assert shift_of(night, 88.42, chance=1e-7) is None


def test_unit_huge_values():
    """Values farther off than can be squared are no fault of the night."""
    rng = default_rng(0)
    far = [1e299] * 30 + [1e300]
    past = [*rng.normal(37, 1, 600), *far]
    fahrenheit = rng.normal(37, 1, 60) * 1.8 + 32
    gates = compared(past, fahrenheit, "temperature")
    assert "degrees F instead of degrees C" in " ".join(
        reason.words for reason in gates.stops()
    )
