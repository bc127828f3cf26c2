"""Values of a label column that are likely to be slips of the pen, refused before any is learned from."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

from screening.data.cohort import Cohort, joined_labels, labels_of, same_label
from screening.errors import CohortError
from screening.spelling import first_of

FEWEST_OF_LABEL = 3
SHOWN_ROWS = 5
# Beyond so many values the column is hardly a label, and none of its values is shown.
MANY_LABELS = 20
REMEDY = "correct the cells, or say what counts with --positive, or `positive` and `negative` in the contract"
# What a keyboard adds to a word by accident; a sign such as + may be the whole difference.
LOOSE = re.compile(r"[\s_'\"`]|(?<!\d)\.|\.(?!\d)|(?<=\w)-(?=\w)")


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
