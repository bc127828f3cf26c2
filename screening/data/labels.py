"""Which of a label's texts are the cases, and which are slips of the pen."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.io.number_formats import TRUE, is_yes_no
from screening.spelling import did_you_mean, first_of

POSITIVE_WORDS = frozenset(("1", "1.0", "yes", "true", "positive", "pos", "y", "t"))
# English, German, French, Spanish, Italian, Portuguese, Dutch.
NOT = (
    "no not non none never without free absent absence kein keine keiner nicht ohne nie nein pas sans "
    "aucun aucune jamais sin ningun ninguna nunca ausente ausencia senza nessun nessuna mai assente "
    "assenza nao sem nenhum nenhuma niet geen zonder nooit"
)
WELL = (
    "normal normale normaux normales healthy well negative neg alive live lived living survived survival "
    "surv survivor survivors benign norm control controls ctrl ctl ctr hc unaffected uninfected "
    "undetected asymptomatic afebrile seronegative inactive uncomplicated stable cured recovered censored "
    "gesund negativ lebend lebt lebendig uberlebt gutartig kontrolle kontrollen unauffallig geheilt "
    "genesen stabil sain saine negatif vivant vivante benin benigne temoin temoins controle gueri guerie "
    "stable sano sana negativo negativa vivo viva benigno benigna curado curada controllo sopravvissuto "
    "guarito guarita saudavel gezond levend"
)
FEWEST_OF_LABEL = 3
SHOWN_ROWS = 5
# Beyond so many values the column is hardly a label, and none of its values is shown.
MANY_LABELS = 20
REMEDY = "correct the cells, or say what counts with --positive, or `positive` and `negative` in the contract"
# What a keyboard adds to a word by accident; a sign such as + may be the whole difference.
LOOSE = re.compile(r"[\s_'\"`]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


def positive_classes(
    counts: Mapping[str, int], positive: Sequence[str], contract: Contract
) -> dict[str, tuple[str, ...]]:
    """The positive classes, each with the label texts it stands for: those named, else the case of two."""
    classes = sorted(counts)
    if positive:
        joined = {text: joined_labels(text, classes) for text in positive}
        if unknown := next(
            (text for text, labels in joined.items() if not labels), None
        ):
            # The column may be another one by mistake, full of names: its cells are not shown.
            listed = {*contract.positive, *contract.negative} - {unknown}
            hint = did_you_mean(unknown, listed)
            raise UsageError(f"--positive {unknown}: no row has this label{hint}")
        named = {"+".join(labels): labels for labels in joined.values()}
        members = Counter(label for labels in named.values() for label in labels)
        if members.total() > len(members):
            twice = members.most_common(1)[0][0]
            raise UsageError(
                f"--positive names {twice} twice; a label belongs to one class"
            )
        return named
    if len(classes) < 2:
        raise UsageError(
            "the label column holds a single class; name the positive one with --positive"
        )
    if len(classes) > 2:
        raise UsageError(
            f"the label has {len(classes)} classes; name one with --positive, or --positive A+B"
        )
    case = affected(counts)
    return {case: (case,)}


def same_label(text: str, classes: Sequence[str]) -> str | None:
    """The class that is this text, or the same number in another notation."""
    if text in classes:
        return text
    number = _number(text)
    return next(
        (name for name in classes if number is not None and number == _number(name)),
        None,
    )


def joined_labels(text: str, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes that a text names: itself, as `C+` may be, or those that it joins with a +; else none."""
    if whole := same_label(text.strip(), classes):
        return (whole,)
    for at in (i for i, sign in enumerate(text) if sign == "+"):
        first, rest = (
            same_label(text[:at].strip(), classes),
            joined_labels(text[at + 1 :], classes),
        )
        if first and rest:
            return (first, *rest)
    return ()


def affected(counts: Mapping[str, int]) -> str:
    """The one of two classes that reads like "yes", or whose other reads like "no", else the rarer one."""
    classes = sorted(counts)
    if yes := affirming(classes):
        return yes
    no = [
        text
        for text in classes
        if _denies(text) or any(_negates(text, other) for other in classes)
    ]
    if len(no) == 2:
        raise UsageError("both labels read like a no; name the case with --positive")
    return (
        next(text for text in classes if text not in no)
        if no
        else min(classes, key=counts.__getitem__)
    )


def affirming(classes: Sequence[str]) -> str | None:
    """The one of two classes that reads like "yes"; 1 beside 2 may be either, so neither does."""
    texts = {text.lower(): text for text in classes}
    yes = texts.keys() & (TRUE if is_yes_no(texts) else POSITIVE_WORDS)
    numbers = {_number(text) for text in classes}
    if len(yes) != 1 or (None not in numbers and not numbers <= {0, 1, -1}):
        return None
    return texts[yes.pop()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _denies(text: str) -> bool:
    """Whether it says that something is not, or that all is well; "not normal" says neither."""
    # Letters without their accents, so that one list serves however a label is written.
    plain = (
        unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    )
    words = {*re.findall(r"[a-z]+", plain.replace("w/o", "without"))}
    return bool(words & {*NOT.split()}) != bool(words & {*WELL.split()})


def _negates(text: str, other: str) -> bool:
    """Whether it is the other with a negation glued to it, as notckd beside ckd and HIV- beside HIV+."""
    if text[:-1] == other[:-1] and text[-1:] in "-−–" and other[-1:] == "+":
        return True
    glued, plain = text.lower(), other.lower()
    return (
        not _denies(other)
        and glued.endswith(plain)
        and glued.removesuffix(plain) in NOT.split()
    )


def refuse_slips(
    labels: np.ndarray, rows: np.ndarray, contract: Contract, several: bool
) -> None:
    """CohortError for label values that too few rows have, or that one slip of the pen makes of another.

    Values that the contract names are meant as they stand. In a question of one class against the rest (not
    `several`), two values that are both not the positive one need not be told apart.
    """
    column = f"column '{contract.label or 'label'}'"
    counts = Counter(labels[labels != ""].tolist())
    rare = sorted(text for text, count in counts.items() if count < FEWEST_OF_LABEL)
    if len(counts) > MANY_LABELS and len(rare) > len(counts) / 2:
        few = f"{len(rare)} of its {len(counts)} values stand in fewer than {FEWEST_OF_LABEL} rows"
        raise CohortError(f"{column}: {few}; is it the label? {REMEDY}")
    positive = {
        label for text in contract.positive for label in joined_labels(text, [*counts])
    }
    named = positive | {same_label(text, [*counts]) for text in contract.negative}
    slips = {
        text: f"a value that stands in {counts[text]} row{'s' * (counts[text] > 1)} only"
        for text in rare
        if text not in named
    }
    for pair in combinations(sorted(counts), 2):
        if (
            alike(*pair)
            and not {*pair} <= named
            and (several or not positive or {*pair} & positive)
        ):
            rarer = min(pair, key=counts.__getitem__)
            slips.setdefault(
                rarer, "a value and that of other rows differ by a slip of the pen"
            )
    faults = []
    for text, what in slips.items():
        # A slip of the pen may be a name, so it is told by its rows.
        numbers = rows[labels == text].tolist()
        those = f"row{'s' * (len(numbers) > 1)} {first_of(numbers, SHOWN_ROWS)}"
        faults.append(f"{column}, {those}: {what}; {REMEDY}")
    if faults:
        raise CohortError(faults)


def alike(one: str, other: str) -> bool:
    """Whether two labels differ in case, spaces and dots alone, or in one letter of one word."""
    # Numbers, grades and single letters are near each other by nature, and so is a Greek denial (aseptic).
    first, second = (LOOSE.sub("", text).casefold() for text in (one, other))
    if first == second:
        return bool(first)
    words, others = (
        re.findall(r"\w+|[^\w\s]+", text.casefold()) for text in (one, other)
    )
    differing = [
        pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]
    ]
    if len(words) != len(others) or len(differing) != 1:
        return False
    short, long = sorted(differing[0], key=len)
    if (
        len(short) < 3
        or not (short.isalpha() and long.isalpha())
        or long == f"a{short}"
    ):
        return False
    start = next(
        (i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b),
        len(short),
    )
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]
