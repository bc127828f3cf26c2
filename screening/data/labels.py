"""Label texts: which of them are positive, and which look like typing errors."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations

import numpy as np

from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.io.number_formats import FALSE, TRUE, is_yes_no
from screening.spelling import did_you_mean, first_of

POSITIVE_WORDS = frozenset(("1", "1.0", "yes", "true", "positive", "pos", "y", "t"))
# English, German, French, Spanish, Italian, Portuguese, Dutch; without accents, as
# `_denies` compares them.
NEGATIONS = frozenset(
    "no not non none never without free absent absence "
    "kein keine keiner nicht ohne nie nein pas sans aucun aucune jamais "
    "sin ningun ninguna nunca ausente ausencia senza nessun nessuna mai assente "
    "assenza nao sem nenhum nenhuma niet geen zonder nooit".split()
)
WORDS_OF_HEALTH = frozenset(
    "normal normale normaux normales healthy well negative neg "
    "alive live lived living survived survival surv survivor survivors benign norm "
    "control controls ctrl ctl ctr hc unaffected uninfected undetected asymptomatic "
    "afebrile seronegative inactive uncomplicated stable cured recovered censored "
    "gesund negativ lebend lebt lebendig uberlebt gutartig kontrolle kontrollen "
    "unauffallig geheilt genesen stabil "
    "sain saine negatif vivant vivante benin benigne temoin temoins controle gueri "
    "guerie stable "
    "sano sana negativo negativa vivo viva benigno benigna curado curada controllo "
    "sopravvissuto guarito guarita saudavel gezond levend".split()
)
MIN_ROWS_OF_LABEL = 3
# From so many values that are not rare on, a label names classes, not yes and no.
MIN_COMMON_LABELS = 3
# A value is a word of its own, not a typing error, from so many rows on, and from this
# share of the rows of the word that it resembles.
MIN_ROWS_OF_WORD = 10
MIN_SHARE_OF_WORD = 0.5
MAX_SHOWN_ROWS = 5
# A column of more values is hardly a label, so none of its values is shown.
MAX_LABELS = 20
MIN_LETTERS_OF_SLIP = 3
REMEDY = (
    "correct the cells, or name the label's values with `positive`, or `negative` or "
    "`leave_out` in the contract"
)
# Labels that say that the outcome is not known. "none" and "-" are outcomes.
UNKNOWN = frozenset("na n/a n.a. #n/a nan null missing unknown unk n.d. nd ?".split())
# What a blank label is read as where it counts as no.
BLANK_IS = "no"
# Signs that are often typed by accident. Others, such as +, may be the whole
# difference.
ACCIDENTAL_SIGNS = re.compile(r"[\s_'\"`]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


def positive_classes(
    counts: Mapping[str, int], positive: Sequence[str], contract: Contract
) -> dict[str, tuple[str, ...]]:
    """Return the positive classes, each with the label texts that belong to it.

    Parameters
    ----------
    counts : mapping of str to int
        Number of rows with each label text.
    positive : sequence of str
        Classes as named by the caller, such as "A" or "A+B". If empty, the label must
        have two texts, and the positive one is found by `positive_of_two`.
    contract : Contract
        Its texts are suggested where a name is unknown.

    Raises
    ------
    UsageError
        A name is unknown or named twice, or a name is needed; or rows with a blank
        label would be cases.
    """
    classes = sorted(counts)
    if positive:
        named = _named_classes(positive, classes, contract)
        blank_is_no = contract.unlabelled == "no"
        if blank_is_no and BLANK_IS in chain.from_iterable(named.values()):
            raise UsageError(
                f"`positive` names {BLANK_IS}, and `unlabelled` counts blank labels "
                f"as {BLANK_IS}, so rows without a label would be cases; fill in "
                "their labels, or leave these rows out",
                parameters=["positive", "unlabelled"],
            )
        return named
    if len(classes) < 2:
        raise UsageError(
            "the label column contains one class only; name the positive class with "
            "`positive`",
            parameters=["positive"],
        )
    if len(classes) > 2:
        raise UsageError(
            f"the label has {len(classes)} classes, but this recipe separates one "
            "class from the rest; name the class to find with `positive`, or join "
            "several as A+B (`screen init` lists the classes)",
            parameters=["positive"],
        )
    case = positive_of_two(counts)
    return {case: (case,)}


def rare_classes(counts: Mapping[str, int], contract: Contract) -> list[str]:
    """Return the classes to find where none is named, the rarest first.

    Those with less than half of an even share of the rows, or else the rarest one.

    Parameters
    ----------
    counts : mapping of str to int
        Number of rows with each label text.
    contract : Contract
    """
    by_size = sorted(sorted(counts), key=counts.__getitem__)
    if contract.unlabelled == "no" and BLANK_IS in by_size:
        # Rows with a blank label are not to be found, however few they are.
        by_size.remove(BLANK_IS)
    even_share = sum(counts.values()) / len(counts)
    rare = [name for name in by_size if counts[name] < even_share / 2]
    return rare or by_size[:1]


def _named_classes(
    positive: Sequence[str], classes: Sequence[str], contract: Contract
) -> dict[str, tuple[str, ...]]:
    """Return the classes that were named, each with its label texts."""
    named = {}
    for name in positive:
        labels = joined_labels(name, classes)
        if not labels:
            # The column may be the wrong one, full of names: its cells are not shown.
            suggestions = {*contract.positive, *contract.negative} - {name}
            hint = did_you_mean(name, suggestions)
            raise UsageError(
                f"`positive` {name}: no row has this label{hint}",
                parameters=["positive"],
            )
        named["+".join(labels)] = labels
    all_labels = chain.from_iterable(named.values())
    for label, n_classes in Counter(all_labels).items():
        if n_classes > 1:
            raise UsageError(
                f"`positive` names {label} twice; a label belongs to one class",
                parameters=["positive"],
            )
    return named


def label_of_blank(classes: Sequence[str], contract: Contract) -> str:
    """Return the label that blank ones have, where the contract counts them as no.

    It is that of the other rows without the condition, such as 0 or healthy, if one
    such label can be recognised by its words.
    """
    apart = {same_label(text, classes) for text in contract.leave_out}
    for name in contract.positive:
        apart.update(joined_labels(name, classes))
    others = [
        text
        for text in classes
        if text not in (BLANK_IS, *apart) and means_case(text) is False
    ]
    return others[0] if len(others) == 1 else BLANK_IS


def are_outcomes(
    labels: np.ndarray, contract: Contract, known: Collection[str]
) -> np.ndarray:
    """Return a mask of the labels that are not known to state no outcome.

    A text that often means missing states none, and one that the contract leaves out,
    unless it is among the known ones.
    """
    texts, text_of_row = np.unique(labels, return_inverse=True)
    is_outcome = []
    for text in texts.tolist():
        is_left_out = text.lower() in UNKNOWN or same_label(text, contract.leave_out)
        is_outcome.append(text in known or not is_left_out)
    return np.array(is_outcome, dtype=bool)[text_of_row]


def same_label(text: str, classes: Sequence[str]) -> str | None:
    """Return the class equal to a text, or to the same number in another notation."""
    if text in classes:
        return text
    number = _number(text)
    if number is None:
        return None
    return next((name for name in classes if _number(name) == number), None)


def joined_labels(text: str, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the classes named by a text: one, as in `C+`, or several joined by +.

    Empty if a part of the text names none.
    """
    label = same_label(text.strip(), classes)
    if label:
        return (label,)
    for match in re.finditer(r"\+", text):
        first = same_label(text[: match.start()].strip(), classes)
        others = joined_labels(text[match.end() :], classes)
        if first and others:
            return (first, *others)
    return ()


def positive_of_two(counts: Mapping[str, int]) -> str:
    """Return the positive one of two classes.

    It means "yes", or the other one means "no"; otherwise it is the rarer.
    """
    classes = sorted(counts)
    affirmative = affirmative_class(classes)
    if affirmative:
        return affirmative
    negative = _negative_classes(classes)
    if len(negative) == 2:
        raise UsageError(
            "both labels look like a no; name the case with `positive`",
            parameters=["positive"],
        )
    if negative:
        return next(text for text in classes if text not in negative)
    return min(classes, key=counts.__getitem__)


def is_case_by_words(classes: Sequence[str]) -> bool:
    """Return True if words, or 1 beside 0, say which of two classes is a case."""
    numbers = {_number(text) for text in classes}
    if None not in numbers:
        return numbers == {0, 1}
    return bool(affirmative_class(classes)) or len(_negative_classes(classes)) == 1


def _negative_classes(classes: Sequence[str]) -> list[str]:
    """Return the classes that read like "no" or "well"."""
    negative = []
    for text in classes:
        if _denies(text) or any(_negates(text, other) for other in classes):
            negative.append(text)
    return negative


def affirmative_class(classes: Sequence[str]) -> str | None:
    """Return the one of two classes that means "yes".

    None where neither or both do, and for 1 beside 2, where either may be meant.
    """
    text_of_lower = {text.lower(): text for text in classes}
    words = TRUE if is_yes_no(text_of_lower) else POSITIVE_WORDS
    affirmative = text_of_lower.keys() & words
    if len(affirmative) != 1:
        return None
    numbers = {_number(text) for text in classes}
    if None not in numbers and not numbers <= {0, 1, -1}:
        return None
    return text_of_lower[affirmative.pop()]


def means_case(text: str) -> bool | None:
    """Return True for a text that means "yes", False for "no" or "well".

    None if it means neither.
    """
    if text.lower() in TRUE | POSITIVE_WORDS:
        return True
    if text.lower() in FALSE or _number(text) == 0 or _denies(text):
        return False
    return None


def _number(text: str) -> float | None:
    """Return the number that a text writes, if it writes one."""
    try:
        return float(text)
    except ValueError:
        return None


def _denies(text: str) -> bool:
    """Return True for a text that says "not" or "well", but not both, as "not well"."""
    # Letters without their accents, so that one list serves however a label is written.
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = letters.lower().replace("w/o", "without")
    words = set(re.findall(r"[a-z]+", plain))
    return bool(words & NEGATIONS) != bool(words & WORDS_OF_HEALTH)


def _negates(text: str, other: str) -> bool:
    """Return True for a text with a negation attached to the other.

    Examples are notckd beside ckd and HIV- beside HIV+.
    """
    is_plus_and_minus = other[-1:] == "+" and text[-1:] in "-−–"
    if is_plus_and_minus and text[:-1] == other[:-1]:
        return True
    text = text.lower()
    suffix = other.lower()
    if _denies(other) or not text.endswith(suffix):
        return False
    return text.removesuffix(suffix) in NEGATIONS


def _misspelled(
    counts: Mapping[str, int], compared: set[str], named: set[str | None]
) -> Iterator[str]:
    """Yield the rarer of two labels that resemble each other.

    One of them is among `compared`, and at least one is not named by the contract.
    """
    for pair in _resembling_pairs(counts):
        if compared.intersection(pair) and not named.issuperset(pair):
            yield min(pair, key=counts.__getitem__)


def refuse_slips(
    labels: np.ndarray, rows: np.ndarray, contract: Contract, several: bool
) -> list[str]:
    """Refuse labels that few rows have, that mean missing, or that are typing errors.

    Where a positive class is named among several values, the rare ones of the others
    belong to the rest and are not refused, unless a typing error may make them of
    another value.

    Parameters
    ----------
    labels : ndarray of str, shape (n_rows,)
        Label texts, empty where missing.
    rows : ndarray of int, shape (n_rows,)
        Row numbers in the table.
    contract : Contract
        Label texts that it names are never refused.
    several : bool
        Several classes are distinguished. If False, two labels that are both not
        positive need not be.

    Returns
    -------
    list of str
        A note on rare labels that were not refused.

    Raises
    ------
    CohortError
        Names the rows of each such label, never its text, which may be a name.
    """
    column = f"column '{contract.label or 'label'}'"
    counts = Counter(labels[labels != ""].tolist())
    rare = _rare_labels(counts, column)
    positive, named = _named_labels(contract, list(counts))
    unnamed = sorted({*rare} - named)
    n_common = len(counts) - len(rare)
    # Two labels that are both not positive need not be distinguished.
    all_distinguished = several or not positive
    belong_to_rest = not all_distinguished and n_common >= MIN_COMMON_LABELS
    slips = {}
    if not belong_to_rest:
        for text in unnamed:
            slips[text] = f"a value that occurs in only {_n_rows(counts[text])}"
    for text in sorted(set(counts) - named):
        if text.lower() in UNKNOWN:
            slips[text] = "a text that often means missing, which is not an outcome"
    compared = set(counts) if all_distinguished else positive
    for text in _misspelled(counts, compared, named):
        slips.setdefault(
            text,
            "a value that differs from another by what looks like a typing error",
        )
    faults = []
    for text, description in slips.items():
        row_numbers = _shown_rows(rows[labels == text].tolist())
        faults.append(f"{column}, {row_numbers}: {description}; {REMEDY}")
    if faults:
        raise CohortError(faults, parameters=["positive"])
    if not unnamed:
        return []
    n_rare_rows = int(np.isin(labels, unnamed).sum())
    return [
        f"{column}: {len(unnamed)} of its values occur in fewer than "
        f"{MIN_ROWS_OF_LABEL} rows; these {_n_rows(n_rare_rows)} count as not "
        f"{', '.join(contract.positive)}"
    ]


def _rare_labels(counts: Mapping[str, int], column: str) -> list[str]:
    """Return the labels that few rows have; CohortError if most of many are such."""
    rare = sorted(text for text, count in counts.items() if count < MIN_ROWS_OF_LABEL)
    if len(counts) > MAX_LABELS and len(rare) > len(counts) / 2:
        raise CohortError(
            f"{column}: {len(rare)} of its {len(counts)} values occur in fewer than "
            f"{MIN_ROWS_OF_LABEL} rows; is it the label? {REMEDY}",
            parameters=["positive"],
        )
    return rare


def _named_labels(
    contract: Contract, classes: Sequence[str]
) -> tuple[set[str], set[str | None]]:
    """Return the labels that a contract names as positive, and all that it names."""
    positive: set[str] = set()
    for name in contract.positive:
        positive.update(joined_labels(name, classes))
    negative = {same_label(text, classes) for text in contract.negative}
    return positive, {*positive, *negative}


def _shown_rows(numbers: Sequence[int]) -> str:
    """Return row numbers for a message, the first of many."""
    noun = "row" if len(numbers) == 1 else "rows"
    return f"{noun} {first_of(numbers, MAX_SHOWN_ROWS)}"


def _resembling_pairs(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield pairs of labels that a typing error may make of each other."""
    for text, other in combinations(sorted(counts), 2):
        if is_slip(text, other) and not _are_both_common(text, other, counts):
            yield text, other


def _are_both_common(text: str, other: str, counts: Mapping[str, int]) -> bool:
    """Return True for two labels that are too common to be typing errors.

    They differ in a letter, such as good and vgood; case and signs alone are always
    taken for an error.
    """
    few, many = sorted([counts[text], counts[other]])
    are_common = few >= MIN_ROWS_OF_WORD and few >= many * MIN_SHARE_OF_WORD
    return are_common and _stripped(text) != _stripped(other)


def _n_rows(count: int) -> str:
    """Return a number of rows in words, such as "1 row" or "2 rows"."""
    return "1 row" if count == 1 else f"{count} rows"


def is_slip(text: str, other: str) -> bool:
    """Return True for two labels that a typing error may make of each other.

    They differ only in case and accidental signs, or in one letter of one word. Short
    words, numbers and grades do not count, nor does a prefixed "a", as in aseptic.
    """
    stripped = _stripped(text)
    if stripped == _stripped(other):
        return bool(stripped)
    words = _words(text)
    other_words = _words(other)
    if len(words) != len(other_words):
        return False
    pairs = zip(words, other_words, strict=True)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if len(differing) != 1:
        return False
    short, long = sorted(differing[0], key=len)
    if len(short) < MIN_LETTERS_OF_SLIP or long == f"a{short}":
        return False
    are_letters = short.isalpha() and long.isalpha()
    return are_letters and _differ_by_one_letter(short, long)


def _stripped(text: str) -> str:
    """Return a text in lower case without accidental signs."""
    return ACCIDENTAL_SIGNS.sub("", text).casefold()


def _words(text: str) -> list[str]:
    """Return the words and signs of a text in lower case."""
    return re.findall(r"\w+|[^\w\s]+", text.casefold())


def _differ_by_one_letter(short: str, long: str) -> bool:
    """Return True if one letter replaced in `short`, or added to it, makes `long`."""
    if len(short) == len(long):
        n_different = sum(a != b for a, b in zip(short, long, strict=True))
        return n_different == 1
    shortened = (long[:i] + long[i + 1 :] for i in range(len(long)))
    return short in shortened
