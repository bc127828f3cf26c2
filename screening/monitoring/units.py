"""Has a column changed its unit? The likelihood of the night converted back, against the night as it is.

A quantity is known by its name or its unit; each unit stands with the number that one and the same amount has
in it, so that the conversion between any two is their ratio (temperature also has an offset).

Both sides grant the night an honest difference (a ward of older or sicker patients): a shift of its median,
by a factor where values are positive, of a size drawn from a Cauchy distribution on the scale of the training
values. So a night is in other units only where the conversion explains what such a shift explains badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import voigt_profile
from scipy.stats import binom, cauchy

from screening.schemas.model import NumberProfile


@dataclass(frozen=True)
class Quantity:
    """What is measured, the words of its name, and the units it is written in."""

    name: str
    words: (
        str  # each one alone names it, or several joined by "_" that must all be there
    )
    # The same amount in each unit; "mg/dL of urea" is the unit mg/dL with what it counts.
    units: tuple[tuple[str, float], ...]
    wide: bool = (
        False  # patients differ by such factors too, so that a factor alone says little
    )


@dataclass(frozen=True)
class Conversion:
    """night = factor * training + offset, the two units where they are known, and how sure one must be."""

    factor: float
    offset: float
    before: str
    after: str
    known: bool  # the factor belongs to this very quantity, and is not one that patients differ by too

    @property
    def words(self) -> str:
        """The arithmetic, as one would write it down."""
        if self.offset:
            return (
                "times 1.8, plus 32" if self.factor > 1 else "minus 32, divided by 1.8"
            )
        return (
            f"times {self.factor:.4g}"
            if self.factor > 1
            else f"divided by {1 / self.factor:.4g}"
        )


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
# A name with one of these tells of something computed from the quantity, in units of its own.
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
# Spellings (UCUM and usual ones, small letters, no brackets) that stand for those above.
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


def _spelled(unit: str) -> str:
    return unit.split(" of ")[0]


_STANDARD = {
    _spelled(unit).lower(): _spelled(unit)
    for kind in (*QUANTITIES, *KINDS)
    for unit, _ in kind.units
} | {
    spelling: unit
    for unit, spellings in SPELLINGS.items()
    for spelling in spellings.split()
}
POWERS_OF_TEN = tuple(
    Conversion(factor, 0.0, "", "", known=False)
    for power in (10.0, 100.0, 1000.0)
    for factor in (power, 1 / power)
)


def standard_unit(unit: str | None) -> str:
    """A unit in the spelling used here, or in small letters where it is not understood."""
    plain = re.sub(r"\{.*?\}", "", unit or "").strip().lower()
    plain = (
        plain.replace("µ", "u")
        .replace("μ", "u")
        .replace(" per ", "/")
        .replace("mm[hg]", "mmhg")
    )
    plain = re.sub(r"[\[\]]", "", plain)
    plain = re.sub(r"\s+", "_" if "/" not in plain else "", plain)
    return _STANDARD.get(plain, plain)


def quantity_named(name: str) -> Quantity | None:
    """The one quantity a column's name speaks of; None for none, several, or something computed."""
    words = set(
        re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    )
    if words & DERIVED:
        return None
    named = [
        kind
        for kind in QUANTITIES
        if any(words >= {*one.split("_")} for one in kind.words.split())
    ]
    return named[0] if len(named) == 1 else None


def conversions_of(name: str, unit: str | None) -> tuple[Conversion, ...]:
    """What can have happened to a column since training: conversions from its unit where that is understood.

    Else those between any two units of the quantity that its name speaks of, or powers of ten.
    """
    quantity, written = quantity_named(name), standard_unit(unit)
    if quantity and not written:
        return tuple(_between(quantity, None))
    for kind in (*filter(None, [quantity]), *KINDS):
        if any(_spelled(unit) == written for unit, _ in kind.units):
            return tuple(_between(kind, written))
    return POWERS_OF_TEN


def _between(quantity: Quantity, written: str | None) -> Iterator[Conversion]:
    seen = set()
    for before, amount in quantity.units:
        if written and _spelled(before) != written:
            continue
        for after, other in quantity.units:
            factor = other / amount
            if before == after or (f"{factor:.3g}" in seen and not written):
                continue
            seen.add(f"{factor:.3g}")
            offset = (
                32.0
                if after == FAHRENHEIT
                else -32 / 1.8
                if before == FAHRENHEIT
                else 0.0
            )
            yield Conversion(factor, offset, before, after, known=not quantity.wide)


# Honest differences in standard deviations of training: where the conversion is known, and elsewhere.
HONEST, HONEST_WIDE = 0.15, 0.5
# How much likelier the converted night must be: to be sure of it, and to say that it may be.
KNOWN_BOUND, OTHER_BOUND, MAY_BE = 30.0, 100.0, 10.0
# A conversion that moves the values by fewer standard deviations is one that a ward can bring too.
LEAST_MOVE = 1.5
# Share of values that fit no distribution at all, and how much wider than the others they lie.
STRAY, STRAY_WIDTH = 0.01, 4.0
LEAST_WIDTH, SMOOTH = 0.02, 0.25
# A single value counts as converted where that makes it so much likelier; chance does that once in as many.
ROW_RATIO = 1000.0
FEWEST_ROWS, LEAST_SHARE, MOST_ROWS = 3, 0.05, 0.6
FEW = 5


@dataclass(frozen=True)
class UnitShift:
    """A likely change of unit."""

    conversion: Conversion
    ratio: float  # how much likelier the converted night is
    bound: float  # how much likelier it has to be to be sure
    share: float = 1.0  # rows it concerns; 1 where it is the column as a whole

    @property
    def sure(self) -> bool:
        """Whether the column as a whole has changed, and nothing honest explains it."""
        return self.share == 1.0 and self.ratio >= self.bound


class Density:
    """Density of the training values (of their logarithms, `log`), smooth and with wide tails.

    `width`: standard deviation of the values, robust; `middle`: their median.
    """

    def __init__(self, training: NumberProfile, log: bool):
        assert training.range is not None, "it has values"
        low, high = training.range
        ends, counts = (
            np.array([low, *training.edges, high]),
            np.array([0, *training.counts]),
        )
        if log:
            ends, counts = np.log(ends[ends > 0]), counts[ends > 0]
        share = np.cumsum(counts)
        self.ends, self.share = ends, share / share[-1]
        below, self.middle, above = np.interp((0.1, 0.5, 0.9), self.share, ends)
        least = LEAST_WIDTH * (1.0 if log else max(abs(self.middle), 1e-12))
        self.width = max(float(above - below) / 2.563, least)

    def log_at(self, x: np.ndarray) -> np.ndarray:
        """Log density; same shape."""
        near = SMOOTH * self.width
        below, above = (
            np.interp(x + side, self.ends, self.share, left=0.0)
            for side in (-near, near)
        )
        stray = cauchy.pdf(x, self.middle, STRAY_WIDTH * self.width)
        return np.log((1 - STRAY) * (above - below) / (2 * near) + STRAY * stray)

    def honestly(self, x: np.ndarray, units: float, honest: float) -> float:
        """Likelihood of the median of a night worth `units` rows, over all honest shifts of it."""
        off = (float(np.median(x)) - self.middle) / self.width
        return float(voigt_profile(off, 1 / np.sqrt(max(units, 1.0)), honest))


def unit_shift(
    values: np.ndarray,
    training: NumberProfile,
    conversions: Sequence[Conversion],
    *,
    night_units: float,
    differs: bool,
    chance: float,
) -> UnitShift | None:
    """The conversion that explains the night, if one does or may; the whole column goes before some rows.

    `values`, shape (n,): finite values of tonight; `night_units`: their effective number; `differs`: whether
    they differ from those of training beyond chance; `chance`: allowed; a ratio of 1 / chance needs no other
    test beside it.
    """
    if training.range is None:
        return None
    least, largest = training.range
    whole, part = list[UnitShift](), list[UnitShift]()
    for conversion in conversions:
        log = not conversion.offset
        # Zero says nothing of a unit that only multiplies; where signs differ, nor does anything else.
        now = values[values > 0] if log else values
        if not now.size or (log and (least < 0 or largest <= 0)):
            continue
        density, then = (
            Density(training, log),
            (now - conversion.offset) / conversion.factor,
        )
        # On logarithms a factor is a shift; elsewhere it stretches the density.
        stretch = 0.0 if log else float(np.log(conversion.factor))
        if log:
            now, then = np.log(now), np.log(then)
        units = min(night_units * len(now) / len(values), len(now))
        # Each row taken alone: how much likelier it is converted back.
        gains = density.log_at(then) - density.log_at(now) - stretch
        # Where the night looks like training as a whole, only very few rows can still have changed together.
        if np.mean(gains > 0) >= MOST_ROWS and (differs or units < FEW):
            honest, bound = (
                (HONEST, KNOWN_BOUND)
                if conversion.known
                else (HONEST_WIDE, OTHER_BOUND)
            )
            ratio = density.honestly(then, units, honest) / density.honestly(
                now, units, honest
            )
            if (
                abs(float(np.median(then) - np.median(now)))
                < LEAST_MOVE * density.width
            ):
                bound = np.inf
            if ratio >= (MAY_BE if differs else max(bound, 1 / chance)):
                whole.append(UnitShift(conversion, ratio, bound))
        share = float(np.mean(gains >= np.log(ROW_RATIO)))
        hits = int(share * units)
        often = hits >= FEWEST_ROWS and share >= LEAST_SHARE
        if often and binom.sf(hits - 1, int(units), 1 / ROW_RATIO) <= chance:
            part.append(UnitShift(conversion, ROW_RATIO, ROW_RATIO, share))
    if whole:
        return max(whole, key=lambda shift: shift.ratio)
    return max(part, key=lambda shift: shift.share) if part else None
