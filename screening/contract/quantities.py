"""Quantities that are measured, their names, and the units that they are written in.

Each unit has the number that one and the same amount has in it, so that the conversion
between two is their ratio (temperature also has an offset).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A quantity that is measured, its names, and the units it is written in.

    Parameters
    ----------
    name : str
    words : str
        Names, parted by spaces; of a name with "_" all words must be there.
    units : tuple of (str, float)
        The same amount in each unit; "mg/dL of urea" is the unit mg/dL with what it
        counts.
    wide : bool
        Patients differ by such factors too, so that a factor alone says little.
    """

    name: str
    words: str
    units: tuple[tuple[str, float], ...]
    wide: bool = False


CELSIUS, FAHRENHEIT = "degrees C", "degrees F"
TEMPERATURE = Quantity(
    "temperature", "temperature temp fever", ((CELSIUS, 1.0), (FAHRENHEIT, 1.8))
)
MASS = (("kg", 1.0), ("g", 1000.0), ("lb", 2.20462))
LENGTH = (("m", 1.0), ("cm", 100.0), ("mm", 1000.0), ("in", 39.3701))
MOLAR = (
    ("mol/L", 1e-3),
    ("mmol/L", 1.0),
    ("umol/L", 1e3),
    ("nmol/L", 1e6),
    ("pmol/L", 1e9),
)
TIME = (("s", 86400.0), ("min", 1440.0), ("h", 24.0), ("d", 1.0), ("wk", 1 / 7))
PRESSURE = (("mmHg", 7.50062), ("kPa", 1.0), ("cmH2O", 10.1972))
QUANTITIES = (
    TEMPERATURE,
    Quantity(
        "creatinine",
        "creatinine creat crea scr kreatinin",
        (("mg/dL", 1.0), ("umol/L", 88.42), ("mmol/L", 0.08842), ("mg/L", 10.0)),
    ),
    Quantity(
        "urea",
        "urea bun harnstoff blood_urea_nitrogen urea_nitrogen",
        (
            ("mmol/L", 1.0),
            ("mg/dL of urea nitrogen", 2.801),
            ("mg/dL of urea", 6.006),
            ("g/L of urea", 0.06006),
        ),
    ),
    Quantity(
        "glucose",
        "glucose gluc bg blood_sugar",
        (("mmol/L", 1.0), ("mg/dL", 18.016), ("g/L", 0.18016)),
    ),
    Quantity(
        "bilirubin",
        "bilirubin bili tbil",
        (("mg/dL", 1.0), ("umol/L", 17.104), ("mg/L", 10.0)),
    ),
    Quantity(
        "haemoglobin",
        "haemoglobin hemoglobin hb hgb",
        (("g/dL", 1.0), ("g/L", 10.0), ("mmol/L", 0.6206)),
    ),
    Quantity(
        "calcium", "calcium ca", (("mmol/L", 1.0), ("mg/dL", 4.008), ("mEq/L", 2.0))
    ),
    Quantity(
        "albumin", "albumin alb", (("g/dL", 1.0), ("g/L", 10.0), ("umol/L", 150.5))
    ),
    Quantity(
        "CRP",
        "crp c_reactive_protein reactive_protein",
        (("mg/L", 1.0), ("mg/dL", 0.1)),
        wide=True,
    ),
    Quantity("lactate", "lactate lact lac lactic", (("mmol/L", 1.0), ("mg/dL", 9.009))),
    Quantity("weight", "weight wt mass", MASS),
    Quantity("height", "height stature", LENGTH),
    Quantity(
        "pressure",
        "pressure sbp dbp map bp systolic diastolic pao2 paco2 po2 pco2",
        PRESSURE,
    ),
)
# A unit that is understood where the name is not: its own kind of units.
KINDS = (
    TEMPERATURE,
    Quantity("pressure", "", PRESSURE),
    Quantity("mass", "", MASS, wide=True),
    Quantity("length", "", LENGTH, wide=True),
    Quantity("amount", "", MOLAR, wide=True),
    Quantity(
        "concentration",
        "",
        (
            ("g/dL", 0.1),
            ("g/L", 1.0),
            ("mg/dL", 100.0),
            ("mg/L", 1e3),
            ("ug/dL", 1e5),
            ("ug/L", 1e6),
            ("ng/dL", 1e8),
            ("ng/L", 1e9),
        ),
        wide=True,
    ),
    Quantity("time", "", TIME, wide=True),
)
# A name with one of these is of something computed from the quantity, in units of its
# own.
DERIVED = frozenset(
    {
        "ratio",
        "clearance",
        "log",
        "delta",
        "change",
        "score",
        "rank",
        "z",
        "flag",
        "missing",
        "count",
        "a1c",
    }
    | {"per", "index", "bmi", "surface", "days", "pulse"}
)
# Spellings (UCUM and usual ones, small letters, no brackets) of those above.
SPELLINGS = {
    CELSIUS: "cel degc °c c celsius deg_c degrees_c",
    FAHRENHEIT: "degf °f f fahrenheit deg_f degrees_f",
    "mmHg": "mmhg mm_hg torr",
    "cmH2O": "cmh2o cm_h2o",
    "lb": "lb lbs lb_av pound pounds",
    "kg": "kg kilogram kilograms",
    "g": "g gram grams",
    "m": "m metre meter metres meters",
    "in": "in in_i inch inches",
    "umol/L": "umol/l mcmol/l micromol/l",
    "ug/L": "ug/l mcg/l ng/ml",
    "ug/dL": "ug/dl mcg/dl",
    "mg/L": "mg/l ug/ml mcg/ml",
    "ng/L": "ng/l pg/ml",
    "g/L": "g/l mg/ml",
    "mg/dL": "mg/dl mg/100ml mg%",
    "g/dL": "g/dl g% g/100ml",
    "s": "s sec second seconds",
    "min": "min minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "wk": "wk week weeks",
}


# Signs and words that are the same to every spelling.
REPLACED = (("µ", "u"), ("μ", "u"), (" per ", "/"), ("mm[hg]", "mmhg"))


def spelled(unit: str) -> str:
    """Return a unit without what it counts."""
    return unit.split(" of ")[0]


def _standard_spellings() -> dict[str, str]:
    """Return how a unit is spelled here, by each spelling in small letters."""
    standard = {}
    for kind in (*QUANTITIES, *KINDS):
        for unit, _ in kind.units:
            standard[spelled(unit).lower()] = spelled(unit)
    for unit, spellings in SPELLINGS.items():
        standard |= dict.fromkeys(spellings.split(), unit)
    return standard


_STANDARD = _standard_spellings()


def standard_unit(unit: str | None) -> str:
    """Return a unit as it is spelled here, in small letters if it is not known."""
    plain = re.sub(r"\{.*?\}", "", unit or "").strip().lower()
    for spelling, standard in REPLACED:
        plain = plain.replace(spelling, standard)
    plain = re.sub(r"[\[\]]", "", plain)
    space = "" if "/" in plain else "_"
    plain = re.sub(r"\s+", space, plain)
    return _STANDARD.get(plain, plain)


def quantity_named(name: str) -> Quantity | None:
    """Return the quantity that a column's name speaks of.

    None for no quantity, several, or what is computed from one.
    """
    words = name_words(name)
    if words & DERIVED:
        return None
    named = [quantity for quantity in QUANTITIES if has_name(words, quantity.words)]
    return named[0] if len(named) == 1 else None


def name_words(name: str) -> set[str]:
    """Return the words of a column's name in small letters."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return set(re.findall(r"[a-z0-9]+", parted))


def has_name(words: set[str], names: str) -> bool:
    """Return True if `words` have one of the names, parted by spaces, in full."""
    return any(words >= set(name.split("_")) for name in names.split())


def units_of_quantity(quantity: str, first: str) -> tuple[tuple[str, float], ...]:
    """Return the units of a quantity of `QUANTITIES`, `first` before the others."""
    units = next(
        candidate.units for candidate in QUANTITIES if candidate.name == quantity
    )
    return tuple(sorted(units, key=lambda unit: unit[0] != first))


def offset(before: str, after: str) -> float:
    """Return what is added after the factor of a conversion; temperatures have it."""
    if after == FAHRENHEIT:
        return 32.0
    if before == FAHRENHEIT:
        return -32 / 1.8
    return 0.0
