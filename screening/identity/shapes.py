"""How ids are written, and in what tonight's are written unlike those of training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import hypergeom

from screening.identity.reduced import LED_BY_ZERO, n_colliding
from screening.schemas.model import CheckDigit, IdShape

DIGITS = "^[0-9]+$"
HEX = "^[0-9A-Fa-f-]+$"
SEPARATED = r"[^\p{L}\p{N}]"
UPPER = r"\p{Lu}"
LOWER = r"\p{Ll}"
# Probability below which ids without a property of training's ids are spelled
# differently, and are not only other ids.
ALPHA = 1e-4
# By chance one id in ten, or in eleven, has a right check digit: all of so many do not.
MIN_CHECKED = 20
# A shorter number has no check digit.
MIN_CHECKED_DIGITS = 6
# More ids do not change the result.
MAX_CHECKED = 10_000
# Share of wrong check digits from which they are not typing errors.
MAX_WRONG = 0.1


def id_shape(ids: np.ndarray, past: IdShape | None = None) -> IdShape | None:
    """Return how the ids of some rows are written, None if no row has an id.

    `past`: of training, whose check digit is tested.
    """
    texts = pa.array(ids, pa.string()).drop_null()
    if not len(texts):
        return None
    lengths = pc.min_max(pc.utf8_length(texts)).as_py()
    digits = _count_matches(texts, DIGITS)
    return IdShape(
        n_rows=len(texts),
        shortest=lengths["min"],
        longest=lengths["max"],
        digits=digits,
        hex=_count_matches(texts, HEX) - digits,
        leading_zeros=_count_matches(texts, LED_BY_ZERO),
        separators=_count_matches(texts, SEPARATED),
        upper=_count_matches(texts, UPPER),
        lower=_count_matches(texts, LOWER),
        check_digit=_check_digit(texts, digits),
        wrong_check_digits=_count_wrong(texts, past),
    )


def trained_shape(ids: np.ndarray) -> IdShape | None:
    """Return the shape of training's ids, each once, with how many collide."""
    distinct = pa.array(ids, pa.string()).drop_null().unique()
    names = distinct.to_numpy(zero_copy_only=False)
    shape = id_shape(names)
    return shape and shape.replace(colliding=n_colliding(names))


def _count_matches(texts: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py())


def _check_digit(texts: pa.Array, n_digits: int) -> CheckDigit | None:
    """Return the check digit that all ids have, None without one."""
    shortest = pc.min(pc.utf8_length(texts)).as_py()
    is_numeric = n_digits == len(texts) >= MIN_CHECKED
    if not is_numeric or shortest < MIN_CHECKED_DIGITS:
        return None
    names = texts[:MAX_CHECKED].to_pylist()
    for name, is_right in CHECK_DIGITS.items():
        if all(map(is_right, names)):
            return name
    return None


def _is_luhn(digits: str) -> bool:
    """Return True if the last digit is right by ISO/IEC 7812-1 (Luhn)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _is_mod_11(digits: str) -> bool:
    """Return True if the sum of digits, weighted 1, 2, 3... from the last, is 0 mod 11.

    So are NHS numbers.
    """
    weighted = sum(
        weight * int(digit) for weight, digit in enumerate(reversed(digits), start=1)
    )
    return weighted % 11 == 0


CHECK_DIGITS: dict[CheckDigit, Callable[[str], bool]] = {
    "luhn": _is_luhn,
    "mod 11": _is_mod_11,
}


def _count_wrong(texts: pa.Array, past: IdShape | None) -> int:
    """Count ids without the check digit that all of training's have."""
    if past is None or past.check_digit is None:
        return 0
    is_right = CHECK_DIGITS[past.check_digit]
    wrong = [
        name
        for name in texts.to_pylist()
        if not (name.isascii() and name.isdecimal() and is_right(name))
    ]
    return len(wrong)


def other_shape(past: IdShape, tonight: IdShape) -> list[str]:
    """Return in what tonight's ids are written unlike those of training.

    Differences that other patients explain are left out.
    """
    differences = []
    if _has_other_length(past, tonight):
        differences.append(
            f"{_length(tonight)} characters long, but {_length(past)} in training"
        )
    if has_lost_zeros(past, tonight):
        differences.append("without the leading zeros of training; export them as text")
    if not past.leading_zeros and 2 * tonight.leading_zeros > tonight.n_rows > 1:
        differences.append("with leading zeros, unlike in training")
    differences += _other_characters(past, tonight)
    differences += _other_writing(past, tonight)
    n_wrong = tonight.wrong_check_digits
    if past.check_digit is not None and n_wrong > MAX_WRONG * tonight.n_rows:
        differences.append(
            f"{n_wrong} of {tonight.n_rows} with a wrong check digit, although every "
            "id in training has a correct one"
        )
    return differences


def _other_writing(past: IdShape, tonight: IdShape) -> list[str]:
    """Return separators and case that all ids have on one side, and none on the other.

    Case is compared where all ids have letters.
    """
    if _chance_of_none(past.n_rows, past, tonight) >= ALPHA:
        return []
    differences = []
    if past.separators == past.n_rows and not tonight.separators:
        differences.append("without the separators of the ids in training")
    if tonight.separators == tonight.n_rows and not past.separators:
        differences.append("with separators, unlike in training")
    for ours, others, word in (
        ("upper", "lower", "capital"),
        ("lower", "upper", "small"),
    ):
        is_past_alone = getattr(past, ours) == past.n_rows and not getattr(past, others)
        is_tonight_other = getattr(tonight, others) == tonight.n_rows
        if is_past_alone and is_tonight_other and not getattr(tonight, ours):
            differences.append(f"without the {word} letters of the ids in training")
    return differences


def _has_other_length(past: IdShape, tonight: IdShape) -> bool:
    """Return True if all of tonight's ids are longer, or shorter, than in training."""
    # Running numbers may have grown by a digit.
    is_numbered = past.digits == past.n_rows and not past.leading_zeros
    slack = 1 if is_numbered else 0
    is_longer = tonight.shortest > past.longest + slack
    is_shorter = tonight.longest < past.shortest - slack
    return is_longer or is_shorter


def has_lost_zeros(past: IdShape, tonight: IdShape) -> bool:
    """Return True if zeros in front are gone, as where ids were read as numbers."""
    if not past.leading_zeros or tonight.leading_zeros:
        return False
    if past.shortest == past.longest:
        # Numbers of one width need no zero in front, 0999 is followed by 1000; but
        # none of them is shorter.
        return tonight.shortest < past.shortest and tonight.digits == tonight.n_rows
    return _chance_of_none(past.leading_zeros, past, tonight) < ALPHA


def _other_characters(past: IdShape, tonight: IdShape) -> list[str]:
    """Return the kinds of characters of ids, if none is of a kind of training's."""
    counts = {
        "digits alone": (past.digits, tonight.digits),
        "hexadecimal digits": (past.hex, tonight.hex),
        "letters and other signs": (past.letters, tonight.letters),
    }
    if any(n_past and n_tonight for n_past, n_tonight in counts.values()):
        return []
    if _chance_of_none(past.n_rows, past, tonight) >= ALPHA:
        return []
    usual = [kind for kind, (n_past, _) in counts.items() if n_past]
    other = [kind for kind, (_, n_tonight) in counts.items() if n_tonight]
    return [f"{' or '.join(other)}, in training {' or '.join(usual)}"]


def _length(shape: IdShape) -> str:
    if shape.shortest == shape.longest:
        return str(shape.shortest)
    return f"{shape.shortest} to {shape.longest}"


def _chance_of_none(n_having: int, past: IdShape, tonight: IdShape) -> float:
    """Return the hypergeometric P(0 of tonight's rows | `n_having` of all)."""
    n_rows = past.n_rows + tonight.n_rows
    return float(hypergeom.cdf(0, n_rows, n_having, tonight.n_rows))
