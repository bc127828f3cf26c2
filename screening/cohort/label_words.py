"""What labels say in words: which of two reads like "yes", and which like "no", in the usual languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from screening.sources.number_formats import TRUE, truths

POSITIVE_WORDS = frozenset(("1", "1.0", "yes", "true", "positive", "pos", "y", "t"))
# English, German, French, Spanish, Italian.
NOT = (
    "no not non none never without free absent absence kein keine keiner nicht ohne nie nein pas sans "
    "aucun aucune jamais sin ningun ninguna nunca ausente ausencia senza nessun nessuna mai assente "
    "assenza"
)
WELL = (
    "normal normale normaux normales healthy well negative neg alive living survived survivor survivors "
    "benign control controls unaffected uninfected gesund negativ lebend lebt lebendig uberlebt gutartig "
    "kontrolle kontrollen unauffallig sain saine negatif vivant vivante benin benigne temoin temoins "
    "controle sano sana negativo negativa vivo viva benigno benigna controllo sopravvissuto"
)
LETTERS = re.compile(r"[^\W\d_]+")


def affirming(classes: Sequence[str]) -> str | None:
    """The one of two classes that reads like "yes"; 1 beside 2 may be either, so neither does."""
    words = {text.lower(): text for text in classes}
    said = words.keys() & (TRUE if truths(words) else POSITIVE_WORDS)
    numbers = {number_of(text) for text in classes}
    if len(said) != 1 or (None not in numbers and not numbers <= {0, 1, -1}):
        return None
    return words[said.pop()]


def denying(classes: Sequence[str]) -> list[str]:
    """Those of two classes that read like "no": not ill, healthy, alive, or the other after a "not"."""
    return [
        text
        for text in classes
        if _denies(text) or any(_negates(text, other) and not _denies(other) for other in classes)
    ]


def number_of(text: str) -> float | None:
    """The number that a label is, None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def _words(text: str) -> list[str]:
    # Letters without their accents, so that one list serves however a label is written.
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return [word.lower() for word in LETTERS.findall(plain)]


def _denies(text: str) -> bool:
    """Whether it says that something is not, or that all is well; "not normal" says neither."""
    words = {*_words(text)}
    return bool(words & {*NOT.split()}) != bool(words & {*WELL.split()})


def _negates(text: str, other: str) -> bool:
    """Whether it is the other with a negation glued to it, as notckd beside ckd."""
    mine, theirs = ("".join(_words(one)) for one in (text, other))
    return bool(theirs) and mine.endswith(theirs) and mine.removesuffix(theirs) in NOT.split()
