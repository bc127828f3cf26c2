"""Ranges that the usual clinical measurements cannot leave in a living patient.

Upper limits are the outlier limits of MIMIC-Extract (Wang et al. 2020,
`resources/mimiciv_variable_ranges.csv`, which follows Harutyunyan et al. 2019), rounded
up where patients beyond them were reported. Where its lower limit is 0 although a
living patient has some of the quantity, the lower limit lies below what was reported in
patients. The ranges are wide on purpose: a value outside is a mistake, a value inside
may be one.
"""

from __future__ import annotations

from dataclasses import dataclass

from screening.contract.quantities import (
    DERIVED,
    FAHRENHEIT,
    LENGTH,
    MASS,
    TEMPERATURE,
    has_name,
    name_words,
    standard_unit,
    units_of_quantity,
)

Units = tuple[tuple[str, float], ...]
PRESSURE: Units = (("mmHg", 1.0), ("kPa", 0.133322))
PER_LITRE: Units = (
    ("10^9/L", 1.0),
    ("10*9/L", 1.0),
    ("10^3/uL", 1.0),
    ("10*3/uL", 1.0),
    ("K/uL", 1.0),
    ("/uL", 1000.0),
    ("/nL", 1.0),
    ("G/L", 1.0),
)
PER_MINUTE: Units = (("/min", 1.0), ("1/min", 1.0), ("bpm", 1.0), ("beats/min", 1.0))
SHARE: Units = (("%", 1.0), ("1", 0.01))
ELECTROLYTE: Units = (("mmol/L", 1.0), ("mEq/L", 1.0))
YEARS: Units = (("a", 1.0), ("y", 1.0), ("yr", 1.0), ("years", 1.0))
ENZYME: Units = (("U/L", 1.0), ("IU/L", 1.0))


@dataclass(frozen=True)
class Measurement:
    """A clinical measurement and the range of its possible values.

    Parameters
    ----------
    names : str
        Names of its columns, parted by spaces; of a name with "_" all words must be
        there.
    low, high : float
        Least and greatest value, in the first of the units.
    units : tuple of (str, float)
        The same amount in each unit.
    """

    names: str
    low: float
    high: float
    units: Units

    def range_in(self, unit: str) -> tuple[float, float]:
        """Return the range in one of the units, to four digits."""
        factor = dict(self.units)[unit] / self.units[0][1]
        offset = 32.0 if unit == FAHRENHEIT else 0.0
        low = float(f"{factor * self.low + offset:.4g}")
        high = float(f"{factor * self.high + offset:.4g}")
        return low, high


MEASUREMENTS = (
    Measurement("temperature temp", 14.2, 47, TEMPERATURE.units),
    Measurement("heart_rate heartrate hr pulse_rate", 10, 390, PER_MINUTE),
    Measurement("respiratory_rate resp_rate resprate rr", 1, 150, PER_MINUTE),
    Measurement("systolic sbp sysbp", 5, 375, PRESSURE),
    Measurement("diastolic dbp diasbp", 5, 375, PRESSURE),
    Measurement("blood_pressure bloodpressure bp map", 5, 375, PRESSURE),
    Measurement("saturation spo2 sao2 o2sat sat", 10, 100, SHARE),
    Measurement("pao2 po2", 5, 770, PRESSURE),
    Measurement("paco2 pco2", 5, 250, PRESSURE),
    Measurement("age", 0, 125, YEARS),
    Measurement("weight wt", 0.2, 650, MASS),
    Measurement("height stature", 0.2, 2.75, LENGTH),
    Measurement("bmi body_mass_index", 5, 210, (("kg/m2", 1.0), ("kg/m^2", 1.0))),
    Measurement(
        "glucose gluc bg blood_sugar", 5, 3000, units_of_quantity("glucose", "mg/dL")
    ),
    Measurement(
        "creatinine creat crea scr kreatinin",
        0.05,
        66,
        units_of_quantity("creatinine", "mg/dL"),
    ),
    Measurement(
        "urea bun harnstoff",
        0.5,
        275,
        units_of_quantity("urea", "mg/dL of urea nitrogen"),
    ),
    Measurement("bilirubin bili tbil", 0, 66, units_of_quantity("bilirubin", "mg/dL")),
    Measurement(
        "haemoglobin hemoglobin hb hgb",
        0.5,
        30,
        units_of_quantity("haemoglobin", "g/dL"),
    ),
    Measurement("haematocrit hematocrit hct", 2, 80, SHARE),
    Measurement("calcium ca", 0.1, 7.5, units_of_quantity("calcium", "mmol/L")),
    Measurement("albumin alb", 0.1, 9, units_of_quantity("albumin", "g/dL")),
    Measurement("crp c_reactive_protein", 0, 1500, units_of_quantity("CRP", "mg/L")),
    Measurement(
        "lactate lact lac lactic", 0, 40, units_of_quantity("lactate", "mmol/L")
    ),
    Measurement("sodium na", 50, 250, ELECTROLYTE),
    Measurement("potassium", 0.5, 15, ELECTROLYTE),
    Measurement("chloride cl", 30, 200, ELECTROLYTE),
    Measurement("bicarbonate hco3", 1, 66, ELECTROLYTE),
    Measurement("magnesium", 0.05, 10, (("mmol/L", 1.0), ("mg/dL", 2.431))),
    Measurement("phosphate", 0.05, 10, (("mmol/L", 1.0), ("mg/dL", 3.097))),
    Measurement("wbc leukocytes leucocytes leukozyten", 0, 1100, PER_LITRE),
    Measurement("platelets plt thrombocytes thrombozyten", 0, 2200, PER_LITRE),
    Measurement("alt alat got_alt sgpt", 0, 25000, ENZYME),
    Measurement("ast asat sgot", 0, 35000, ENZYME),
)


@dataclass(frozen=True)
class PossibleRange:
    """The range of possible values of a column, in the unit that it is written in."""

    unit: str
    low: float
    high: float


def possible_range(
    name: str, unit: str | None, low: float, high: float
) -> PossibleRange | None:
    """Return the range of possible values of a column, None where it is not known.

    Parameters
    ----------
    name : str
        Name of the column.
    unit : str or None
        Its unit. Without one it is the only unit in which the usual values are
        possible.
    low, high : float
        Least and greatest usual value, without codes for missing.
    """
    ranges = _ranges_that_hold(name, unit, low, high)
    return ranges[0] if len(ranges) == 1 else None


def excludes_zero(name: str, unit: str | None, low: float, high: float) -> bool:
    """Return True if a 0 is not a measurement, in whatever unit the column is.

    Parameters are those of `possible_range`; `low` is the least value that is not 0.
    """
    ranges = _ranges_that_hold(name, unit, low, high)
    return bool(ranges) and all(possible.low > 0 for possible in ranges)


def _ranges_that_hold(
    name: str, unit: str | None, low: float, high: float
) -> list[PossibleRange]:
    """Return the range in each unit in which usual values are possible."""
    measurement = _measurement_named(name)
    if measurement is None:
        return []
    standard = standard_unit(unit)
    ranges: dict[tuple[float, float], PossibleRange] = {}
    for known_unit, _ in measurement.units:
        spelled = standard_unit(known_unit.split(" of ")[0])
        bounds = measurement.range_in(known_unit)
        is_possible = bounds[0] <= low and high <= bounds[1]
        if standard in ("", spelled) and is_possible:
            ranges.setdefault(bounds, PossibleRange(known_unit, *bounds))
    return list(ranges.values())


def _measurement_named(name: str) -> Measurement | None:
    """Return the measurement that a column's name speaks of, None for none or several.

    None also for what is computed from a measurement, such as a ratio.
    """
    words = name_words(name)
    named = [quantity for quantity in MEASUREMENTS if has_name(words, quantity.names)]
    if len(named) != 1:
        return None
    (measurement,) = named
    own_words = set(measurement.names.replace("_", " ").split())
    is_derived = bool((words & DERIVED) - own_words)
    return None if is_derived else measurement
