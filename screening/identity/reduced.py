"""Reduced forms of many ids, and ids that a program wrote with an exponent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.identity.writing import reduced_form

# Digits behind a zero: a name or a code, and no quantity.
LED_BY_ZERO = r"^[+-]?0[0-9]+$"
# Texts whose reduced form takes more than small letters and zeros out.
_UNUSUAL = r"[^a-z0-9]|^[0-9]+e[0-9]{1,3}$"
# A mark or a sign says that a number was written with an exponent; `12E5` may be a
# code.
_SURELY_EXPONENT = r"^[0-9]+([.,][0-9]+[eE][+]?|[eE][+])[0-9]{1,3}$"
_MAYBE_EXPONENT = r"^[0-9]+[eE][0-9]{1,3}$"
# Numbers of rows that are kept.
N_ROWS_KEPT = 1000


def reduced_forms(names: np.ndarray) -> np.ndarray:
    """Return the reduced form of each id, shape (n,); None where an id is missing.

    Unicode NFKC, case folded, without blanks and separators, an exponent among digits
    expanded, without zeros in front.
    """
    texts = pa.array(names, pa.string())
    lower = pc.ascii_lower(texts)
    forms = _without_zeros(lower)
    is_unusual = _mask(pc.match_substring_regex(lower, _UNUSUAL))
    reduced = forms.to_numpy(zero_copy_only=False)
    if is_unusual.any():
        reduced = reduced.copy()
        unusual = np.flatnonzero(is_unusual)
        reduced[unusual] = [reduced_form(name) for name in np.asarray(names)[unusual]]
    return reduced


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Return texts without zeros in front; "0" for zeros alone."""
    trimmed = pc.ascii_ltrim(texts, "0")
    is_zero = pc.and_(pc.equal(trimmed, ""), pc.not_equal(texts, ""))
    return pc.if_else(is_zero, "0", trimmed)


def n_colliding(names: np.ndarray) -> int:
    """Return how many of some distinct ids have the reduced form of another one."""
    reduced = pa.chunked_array([pa.array(reduced_forms(names), pa.string())])
    counts = reduced.value_counts().field("counts")
    return int(pc.sum(pc.if_else(pc.greater(counts, 1), counts, 0)).as_py() or 0)


@dataclass(frozen=True)
class ExponentRows:
    """Rows whose id is digits with an exponent; those of consecutive rows add up.

    Parameters
    ----------
    surely : tuple of int
        Numbers of rows with a decimal mark or a plus sign, as in 1.2E+05.
    maybe : tuple of int
        Such as 12E5, which is a number only where all other ids are digits.
    n_digits, n_others : int
        Ids that are digits alone, and all others.
    """

    surely: tuple[int, ...] = ()
    maybe: tuple[int, ...] = ()
    n_digits: int = 0
    n_others: int = 0

    def __add__(self, other: ExponentRows) -> ExponentRows:
        return ExponentRows(
            (self.surely + other.surely)[:N_ROWS_KEPT],
            (self.maybe + other.maybe)[:N_ROWS_KEPT],
            self.n_digits + other.n_digits,
            self.n_others + other.n_others,
        )

    def rows(self) -> list[int]:
        """Return the numbers of the rows whose id was a number before."""
        rows: list[int] = []
        if self.n_digits >= self.n_others:
            rows += self.surely
        if self.n_digits and not self.n_others:
            rows += self.maybe
        return sorted(rows)


def find_exponents(names: np.ndarray, rows: np.ndarray) -> ExponentRows:
    """Find the ids, of rows with these numbers, that are digits with an exponent."""
    texts = pa.array(names, pa.string())
    is_digits = _mask(pc.ascii_is_decimal(texts))
    is_other = ~is_digits & _mask(pc.is_valid(texts))
    others = texts.filter(pa.array(is_other))
    numbers = rows[is_other]
    surely = _mask(pc.match_substring_regex(others, _SURELY_EXPONENT))
    maybe = _mask(pc.match_substring_regex(others, _MAYBE_EXPONENT))
    return ExponentRows(
        tuple(numbers[surely][:N_ROWS_KEPT].tolist()),
        tuple(numbers[maybe][:N_ROWS_KEPT].tolist()),
        int(np.count_nonzero(is_digits)),
        int(np.count_nonzero(~surely & ~maybe)),
    )


def _mask(values: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(values, False))
