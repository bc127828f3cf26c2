"""The rows of a cohort once they are typed; which of its labels are the cases, and which slips of the pen."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError
from screening.io.columns import Columns, joined_columns
from screening.io.number_formats import TRUE, truths
from screening.io.readers import Source
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
LETTERS = re.compile(r"[^\W\d_]+")
FEWEST_OF_LABEL = 3
SHOWN_ROWS = 5
# Beyond so many values the column is hardly a label, and none of its values is shown.
MANY_LABELS = 20
REMEDY = "correct the cells, or say what counts with --positive, or `positive` and `negative` in the contract"
# What a keyboard adds to a word by accident; a sign such as + may be the whole difference.
LOOSE = re.compile(r"[\s_'\"`]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


@dataclass(frozen=True)
class Cohort:
    """Typed rows of a cohort, in the order of the table; every array has shape (n_rows,) or (n_rows, ...)."""

    # The features in contract order. number: float64; ordinal: float64 codes from 0; boolean: float64 0/1;
    # category: text. Missing: NaN, or None for text. Normalised where the contract says so.
    values: Columns
    id: np.ndarray  # text; the row number where the contract names no id
    group: np.ndarray | None  # text
    label: np.ndarray | None  # text, "" where it is missing
    time: np.ndarray | None  # datetime64[us]
    coordinates: np.ndarray | None  # shape (n_rows, 3)
    subgroups: Columns | None
    raw: Columns | None  # values before normalisation of the normalised features
    rows: np.ndarray  # row numbers in the table, 1 being the first data row of the first file
    contract: Contract
    source: Source
    notes: list[str] = field(default_factory=list)  # what was detected or inferred
    refused: dict[str, int] = field(default_factory=dict)  # rows left out, by reason
    display: Columns | None = None  # what stands beside a patient on the page; read for scoring only

    def __repr__(self) -> str:
        return f"<Cohort: {self.n_rows} rows, {len(self.names)} features>"  # ids and values belong in no log

    @property
    def n_rows(self) -> int:
        return len(self.id)

    @property
    def names(self) -> list[str]:
        """Feature names in contract order."""
        return list(self.values)

    @cached_property
    def features(self) -> pd.DataFrame:
        """The features as a frame, shape (n_rows, n_features)."""
        return self.values.frame()

    @property
    def measured(self) -> Columns:
        """The features as their reader knows them: before any normalisation within the group."""
        return self.values.but(self.raw)

    def take(self, indices: ArrayLike) -> Cohort:
        """The rows at `indices` (positions or a boolean mask) as a cohort of their own."""
        places = np.asarray(indices)
        rows: dict[str, Any] = {
            name: values.take(places) if isinstance(values, Columns) else values[places]
            for name, values in _by_row(self).items()
        }
        return replace(self, **rows)

    @property
    def classes(self) -> list[str]:
        """Sorted texts of the label, missing ones apart; UsageError where it was read without one."""
        return sorted({text for text in labels_of(self) if text})

    def positives(self, positive: str | Sequence[str] | None = None) -> dict[str, tuple[str, ...]]:
        """The positive classes, each with the label texts it stands for: `A+B` stands for A and B.

        `positive`, else the contract's; else, of two classes, the one that reads like "yes", or whose other
        reads like "no", else the rarer.

        Raises UsageError: there are more than two classes and none was named, both read like "no", or a named
        one does not occur or is named twice.
        """
        classes = self.classes
        asked = [positive] if isinstance(positive, str) else list(positive or self.contract.positive)
        if asked:
            joined = {text: joined_labels(str(text), classes) for text in asked}
            if unknown := next((text for text, labels in joined.items() if not labels), None):
                # The column may be another one by mistake, full of names: its cells are not shown.
                listed = {*self.contract.positive, *self.contract.negative} - {unknown}
                raise UsageError(
                    f"--positive {unknown}: no row has this label; column '{self.contract.label}' has "
                    f"{len(classes)} values{did_you_mean(unknown, listed)}"
                )
            named = {"+".join(labels): labels for labels in joined.values()}
            every = [label for labels in named.values() for label in labels]
            if twice := [label for label in classes if every.count(label) > 1]:
                raise UsageError(f"--positive names {twice[0]} twice; a label belongs to one class")
            return named
        if len(classes) < 2:
            raise UsageError("the label column holds a single class; name the positive one with --positive")
        if len(classes) > 2:
            raise UsageError(
                f"the label has {len(classes)} classes; name the one to find with --positive, or several "
                "joined into one with --positive A+B"
            )
        case = affected({text: int(np.count_nonzero(self.label == text)) for text in classes})
        return {case: (case,)}

    def y(self, positive: str | Sequence[str] | None = None) -> np.ndarray:
        """0/1 per row, shape (n_rows,), 1 where the label is of one of `positives(positive)`."""
        labels = [label for labels in self.positives(positive).values() for label in labels]
        return np.isin(np.asarray(self.label, dtype=object), labels).astype(np.int64)


def same_label(asked: str, classes: Sequence[str]) -> str | None:
    """The class that is this text, or the same number in another notation."""
    if asked in classes:
        return asked
    number = number_of(asked)
    return next((text for text in classes if number is not None and number == number_of(text)), None)


def joined_labels(asked: str, classes: Sequence[str]) -> tuple[str, ...]:
    """The classes that a text names: itself, or those that it joins with a +; none where one is unknown.

    A class may hold a + itself (`C+`): what is a class as it stands is taken for it.
    """
    if whole := same_label(asked.strip(), classes):
        return (whole,)
    for at in (place for place, sign in enumerate(asked) if sign == "+"):
        first, rest = same_label(asked[:at].strip(), classes), joined_labels(asked[at + 1 :], classes)
        if first and rest:
            return (first, *rest)
    return ()


def labels_of(cohort: Cohort) -> np.ndarray:
    """The cohort's label text, shape (n_rows,); UsageError where it was read without one."""
    if cohort.label is None:
        raise UsageError("this cohort was read without a label; name its column with --label")
    return cohort.label


def joined(batches: Sequence[Cohort]) -> Cohort:
    """One cohort of consecutive batches."""
    first = batches[0]
    if len(batches) == 1:
        return first
    rows: dict[str, Any] = {}
    for name, values in _by_row(first).items():
        parts: Any = [vars(batch)[name] for batch in batches]
        rows[name] = joined_columns(parts) if isinstance(values, Columns) else np.concatenate(parts)
    return replace(first, **rows)


def _by_row(cohort: Cohort) -> dict[str, Any]:
    """The fields that hold a value a row."""
    return {name: one for name, one in vars(cohort).items() if isinstance(one, np.ndarray | Columns)}


def affected(counts: Mapping[str, int]) -> str:
    """The one of two classes that is the case: that reads like "yes", whose other reads like "no", the rarer.

    Raises UsageError: both read like "no".
    """
    classes = sorted(counts)
    if yes := affirming(classes):
        return yes
    no = denying(classes)
    if len(no) == 2:
        raise UsageError("both labels read like a no; name the case with --positive")
    return next(text for text in classes if text not in no) if no else min(classes, key=counts.__getitem__)


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
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return LETTERS.findall(plain.replace("w/o", "without"))


def _denies(text: str) -> bool:
    """Whether it says that something is not, or that all is well; "not normal" says neither."""
    words = {*_words(text)}
    return bool(words & {*NOT.split()}) != bool(words & {*WELL.split()})


def _negates(text: str, other: str) -> bool:
    """Whether it is the other with a negation glued to it, as notckd beside ckd and HIV- beside HIV+."""
    if text[:-1] == other[:-1] and text[-1] in "-−–" and other[-1] == "+":
        return True
    mine, theirs = ("".join(_words(one)) for one in (text, other))
    return bool(theirs) and mine.endswith(theirs) and mine.removesuffix(theirs) in NOT.split()


def refuse_slips(cohort: Cohort, several: bool) -> None:
    """Refuse label values that too few rows have, or that one slip of the pen makes of another.

    Values that the contract or `--positive` names are meant as they stand. In a question of one class against
    the rest, two values that are both not the positive one need not be told apart.

    Raises CohortError: all such values, with their counts and the remedy.
    """
    column, contract = cohort.contract.label or "label", cohort.contract
    counts = Counter([] if cohort.label is None else filter(None, cohort.label))
    if len(counts) > MANY_LABELS:
        rare = sum(count < FEWEST_OF_LABEL for count in counts.values())
        if rare > len(counts) / 2:
            raise CohortError(
                f"column '{column}': {rare} of its {len(counts)} values stand in fewer than "
                f"{FEWEST_OF_LABEL} rows; is it the label? {REMEDY}"
            )
    positive = {label for text in contract.positive for label in joined_labels(text, [*counts])}
    named = positive | {same_label(text, [*counts]) for text in contract.negative}
    faults = [
        f"column '{column}', {_rows_of(cohort, text)}: a value that stands in {count} "
        f"row{'s' * (count > 1)} only; {REMEDY}"
        for text, count in sorted(counts.items())
        if count < FEWEST_OF_LABEL and text not in named
    ]
    faults += [
        f"column '{column}', {_rows_of(cohort, min(one, other, key=counts.__getitem__))}: a value and that "
        f"of other rows differ by a slip of the pen; {REMEDY}"
        for one, other in combinations(sorted(counts), 2)
        if alike(one, other)
        and not {one, other} <= named
        and (several or not positive or {one, other} & positive)
    ]
    if faults:
        raise CohortError(faults)


def _rows_of(cohort: Cohort, text: str) -> str:
    """The rows that have a label: a slip of the pen may be a name, so it is not shown."""
    rows = cohort.rows[labels_of(cohort) == text].tolist()
    return f"row{'s' * (len(rows) > 1)} {first_of(rows, SHOWN_ROWS)}"


def alike(one: str, other: str) -> bool:
    """Whether two labels differ in case, spaces and dots alone, or in one letter of one word.

    Numbers, grades and single letters are within one edit of each other by nature, and so is a Greek denial
    (septic, aseptic): they are told apart.
    """
    first, second = (LOOSE.sub("", text).casefold() for text in (one, other))
    if first == second:
        return bool(first)
    words, others = (re.findall(r"\w+|[^\w\s]+", text.casefold()) for text in (one, other))
    if len(words) != len(others):
        return False
    differing = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and _one_edit(*sorted(differing[0], key=len))


def _one_edit(short: str, long: str) -> bool:
    """Whether two words of letters, the shorter first, differ by one letter put in, left out or exchanged."""
    if len(short) < 3 or not (short.isalpha() and long.isalpha()) or len(long) - len(short) > 1:
        return False
    if long == f"a{short}":
        return False
    start = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]
