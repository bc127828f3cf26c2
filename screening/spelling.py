"""Names of series, and suggestions for mistyped names."""

from __future__ import annotations

import csv
import io
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

NAME = re.compile(r"[^\W_][\w.-]{0,39}")
# Beginning of the digest that identifies a series without a name.
DIGITS = re.compile(r"[0-9a-f]{12,}")
EACH = "each"
MIN_LETTERS_OF_PART = 4
# A ledger on a server in a command line: its URL may contain a password.
SERVER_LEDGER = '"$SCREEN_LEDGER"'


def command_line(*words: object) -> str:
    """Return a command of this program as it is typed in a shell.

    Every command in a message is made here: a name may contain blanks, quotes or
    `$(...)`, and must reach the program unchanged.

    Parameters
    ----------
    *words : object
        The words after `screen`. WHY and other words in capitals are placeholders.
    """
    return f"screen {quoted(*words)}"


def quoted(*words: object) -> str:
    """Return words of a command as they are typed in a shell, such as an option."""
    texts = []
    for word in words:
        text = str(word)
        if isinstance(word, Path) and text.startswith("-"):
            text = f"./{text}"
        texts.append(text if text == SERVER_LEDGER else shlex.quote(text))
    return " ".join(texts)


def quoted_list(names: Iterable[str]) -> str:
    """Return names with commas between them, as one word of a command."""
    return quoted(joined(names))


def series_name(text: str) -> str:
    """Return a series' name in the form in which it is stored.

    Raises
    ------
    ValueError
        It is not a valid name, or has another meaning.
    """
    name = unicodedata.normalize("NFC", text)
    if not NAME.fullmatch(name):
        raise ValueError(
            "the name of a series has up to 40 letters, digits, '.', '_' or '-', "
            "such as ward-7.sepsis"
        )
    if name == EACH or DIGITS.fullmatch(name):
        raise ValueError(
            f"a series cannot be named '{name}', which is reserved; choose another name"
        )
    return name


def shown_series(series: str) -> str:
    """Return a series for messages: its name, or the first digits of its digest."""
    return series[:12] if DIGITS.fullmatch(series) else series


def filled(pattern: str, series: str, night: str) -> str:
    """Return a pattern with `{series}` and `{date}` filled in."""
    return pattern.replace("{series}", series).replace("{date}", night)


def names_from(text: str | None) -> list[str]:
    """Return names that a text has with commas between them, as a line of CSV.

    A name that has a comma itself is in double quotes.
    """
    lines = csv.reader(io.StringIO(text or ""), skipinitialspace=True)
    names = map(str.strip, chain.from_iterable(lines))
    return list(filter(None, names))


def joined(names: Iterable[str]) -> str:
    """Join names by commas, so that `names_from` can split them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a word, or that contains it, if any."""
    word = word.casefold()
    names = {name.casefold(): name for name in known}
    matches = get_close_matches(word, names, n=1, cutoff=0.6)
    if len(word) >= MIN_LETTERS_OF_PART:
        matches += [name for name in names if word in name]
    return names[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion as the end of a sentence; empty without a similar name."""
    name = nearest(word, known)
    return f"; did you mean '{name}'?" if name else ""


def first_of(names: Sequence[object], most: int, count: int | None = None) -> str:
    """Return the first `most` names, and how many more of `count` there are.

    `count` is by default the number of names.
    """
    if count is None:
        count = len(names)
    listed = ", ".join(map(str, names[:most]))
    if count > most:
        listed += f" and {count - most} more"
    return listed
