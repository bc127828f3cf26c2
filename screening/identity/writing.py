"""How an id is written: its reduced form, and where it ends in a text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# What a reduced form leaves out, for messages.
BUT_FOR = "except for leading zeros, blanks, dots or case"

# A number as spreadsheets write long ones: 1.2E+05. Only whole numbers are ids.
_EXPONENT = re.compile(r"(\d+)(?:[.,](\d*))?e\+?(\d{1,3})", re.ASCII)
# A whole number as a program writes it that read the column as decimal numbers: 123.0.
_WHOLE = re.compile(r"(\d+)[.,]0+", re.ASCII)
# Signs that join the parts of an id: Zx9-00123 is another id than 00123.
_JOINTS = "-._/:+"


def reduced_form(name: str) -> str:
    """Return the reduced form of an id.

    Unicode NFKC, case folded, without blanks and separators, an exponent among digits
    expanded, without zeros in front.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    text = unicodedata.normalize("NFKC", folded).strip()
    text = _expanded(text)
    kept = "".join(filter(str.isalnum, text))
    # An id of signs alone is not changed.
    return kept.lstrip("0") or kept[-1:] or text


def _expanded(text: str) -> str:
    """Return a whole number written with an exponent, or with decimals, as digits."""
    whole = _WHOLE.fullmatch(text)
    if whole:
        return whole[1]
    exponent = _EXPONENT.fullmatch(text)
    if exponent is None:
        return text
    decimals = exponent[2] or ""
    n_zeros = int(exponent[3]) - len(decimals.rstrip("0"))
    if n_zeros < 0:
        return text
    return exponent[1] + decimals.rstrip("0") + "0" * n_zeros


def colliding(
    names: Iterable[str], known: Iterable[str], *, within: bool = True
) -> list[int]:
    """Return the places of ids that differ from another id only in spelling.

    Parameters
    ----------
    names : iterable of str
        Of a table, such as one of outcomes; an id may repeat. An id that is known with
        this spelling is never another patient's.
    known : iterable of str
        Of the nights. A reduced form that two of them have is not used.
    within : bool
        Also compare the names with each other.
    """
    given = list(names)
    forms = {name: reduced_form(name) for name in given}
    forms_known = {name: reduced_form(name) for name in known}
    n_known_of_form = Counter(forms_known.values())
    n_given_of_form = Counter(forms.values())

    def is_other(name: str) -> bool:
        n_known = n_known_of_form[forms[name]]
        is_given_twice = within and n_given_of_form[forms[name]] > 1
        has_form = n_known == 1 or (n_known == 0 and is_given_twice)
        return has_form and name not in forms_known

    return [place for place, name in enumerate(given) if is_other(name)]


def word_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that finds an id in a text, but not within a longer id.

    Signs such as "-" join the parts of an id: AB is not found in AB-1, nor in X/AB. One
    rule for pages that name a patient and for notes from which an id is erased.
    """
    joints = re.escape(_JOINTS)
    unicode_forms = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    words = map(re.escape, sorted({name, *unicode_forms}))
    # The text before the id is checked last: re finds a literal by a fast search.
    found = (rf"{word}(?<!\w{word})(?<!\w[{joints}]{word})" for word in words)
    return re.compile(rf"(?:{'|'.join(found)})(?!\w)(?![{joints}]\w)")
