"""Rules on which column may be the outcome without a contract, and which value a case.

Every sign has points. Of the signs of a name the first that applies counts, of the
others all that apply; the candidates are ranked by the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from screening.data.column_names import (
    SURE_OUTCOMES,
    USUAL_OUTCOMES,
    YES_NO,
    is_after_outcome,
    is_called,
)
from screening.data.labels import (
    MIN_ROWS_OF_LABEL,
    affirmative_class,
    is_case_by_words,
    positive_of_two,
)
from screening.data.summary import ColumnSummary
from screening.errors import UsageError
from screening.spelling import first_of

# An outcome has at most so many values; more than a few are rare.
MAX_CLASSES = 20
MAX_FEW_CLASSES = 5
# The rarest value of an outcome has this share or less more often than not.
MAX_RARE_SHARE = 0.3
# Points from which on a column is taken for the outcome: a sure name alone, a usual one
# with a few values.
MIN_POINTS = 6
# Points of a name that contains a word for an outcome.
POINTS_OF_WORD = 5
# A column that is behind by fewer points than this is as likely.
MARGIN = 3
MAX_SHOWN = 5
# Follow-up times depend on an outcome: chance of such a difference without it, and the
# least distance of the AUROC from 0.5.
MAX_CHANCE = 1e-4
MIN_DISTANCE = 0.1
# A value in fewer rows says nothing about times.
MIN_ROWS_A_VALUE = 5
MAX_ROWS_OF_TIMES = 5_000


@dataclass(frozen=True)
class OutcomeColumn:
    """A column that may be the outcome.

    Parameters
    ----------
    name : str
    summary : ColumnSummary
    is_at_end : bool
        The first or the last column of the table that does not number its rows.
    has_follow_up : bool
        Follow-up times depend on it more than on any other column.
    """

    name: str
    summary: ColumnSummary
    is_at_end: bool = False
    has_follow_up: bool = False

    @property
    def n_values(self) -> int:
        """Number of values, where a blank box is one too."""
        return self.summary.n_texts + self.summary.ticked

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows of each value, "" for a blank box."""
        counts = dict(self.summary.counts)
        if self.summary.ticked:
            counts[""] = self.summary.rows - self.summary.present
        return counts

    @property
    def rare_share(self) -> float | None:
        """Share of the rarest value among the rows, None for many values."""
        counts = self.counts.values()
        if not 2 <= self.n_values <= MAX_CLASSES or not sum(counts):
            return None
        return min(counts) / sum(counts)

    @property
    def is_candidate(self) -> bool:
        """True for two values, and for a name of an outcome."""
        if self.summary.unreadable or (
            self.summary.constant and not self.summary.ticked
        ):
            return False
        names = [sign for sign in NAME_SIGNS if sign.makes_candidate]
        return self.n_values == 2 or any(sign.applies(self) for sign in names)

    @property
    def has_sure_name(self) -> bool:
        """True for a name that only an outcome has."""
        return self.name.lower() in SURE_OUTCOMES

    @property
    def points_of_name(self) -> int:
        """Points of the first sign of its name that applies."""
        points = (sign.points for sign in NAME_SIGNS if sign.applies(self))
        return next(points, 0)

    @property
    def points(self) -> int:
        """Sum of the points of all signs; 0 for a column of many values."""
        if self.rare_share is None:
            return 0
        others = (sign.points for sign in OTHER_SIGNS if sign.applies(self))
        return self.points_of_name + sum(others)

    def __str__(self) -> str:
        if self.rare_share is None:
            return self.name
        return f"{self.name} ({self.rare_share:.0%})"


@dataclass(frozen=True)
class OutcomeSign:
    """A sign that a column is the outcome, and its points.

    `makes_candidate`: a column with this sign is a candidate whatever its values.
    """

    name: str
    points: int
    applies: Callable[[OutcomeColumn], bool]
    makes_candidate: bool = False


# Of several that apply the first counts.
NAME_SIGNS = (
    OutcomeSign(
        "sure name",
        9,
        lambda column: column.has_sure_name,
        makes_candidate=True,
    ),
    OutcomeSign(
        "word of an outcome",
        POINTS_OF_WORD,
        lambda column: is_called(column.name, "outcome"),
        makes_candidate=True,
    ),
    OutcomeSign(
        "usual name",
        4,
        lambda column: column.name.lower() in USUAL_OUTCOMES,
        makes_candidate=True,
    ),
    OutcomeSign(
        "name that asks yes or no",
        2,
        lambda column: bool(YES_NO.fullmatch(column.name)),
    ),
)
OTHER_SIGNS = (
    OutcomeSign("two values", 3, lambda column: column.n_values == 2),
    OutcomeSign(
        "a few values", 2, lambda column: 2 < column.n_values <= MAX_FEW_CLASSES
    ),
    OutcomeSign(
        "rare value", 1, lambda column: (column.rare_share or 1) <= MAX_RARE_SHARE
    ),
    OutcomeSign("at an end of the table", 1, lambda column: column.is_at_end),
    OutcomeSign("follow-up times", 2, lambda column: column.has_follow_up),
)


def ranked(columns: Sequence[OutcomeColumn]) -> list[OutcomeColumn]:
    """Return the columns that may be the outcome, the likeliest first."""
    candidates = [column for column in columns if column.is_candidate]
    return sorted(candidates, key=lambda column: -column.points)


def likeliest_outcome(candidates: Sequence[OutcomeColumn]) -> OutcomeColumn | None:
    """Return the first of ranked candidates, if it is clear.

    None if it has fewer than `MIN_POINTS` points or, unless its name has points, if
    another candidate is as likely.
    """
    if not candidates or candidates[0].points < MIN_POINTS:
        return None
    first = candidates[0]
    is_clear = bool(first.points_of_name) or not as_likely(first.name, candidates)
    return first if is_clear else None


def as_likely(chosen: str, candidates: Sequence[OutcomeColumn]) -> list[OutcomeColumn]:
    """Return the other ranked candidates that are about as likely as the chosen one."""
    points = {column.name: column.points for column in candidates}
    least = points.get(chosen, 0) - MARGIN
    return [
        column
        for column in candidates
        if column.name != chosen and column.points > least
    ]


def listed(candidates: Sequence[OutcomeColumn]) -> str:
    """Return the first candidates, each with the share of its rarest value."""
    return first_of(candidates, MAX_SHOWN)


def follow_up_strengths(
    columns: Mapping[str, ColumnSummary], values_of: Callable[[str], np.ndarray]
) -> dict[str, float]:
    """Return how much the follow-up times of a table depend on its columns.

    Parameters
    ----------
    columns : mapping from str to ColumnSummary
    values_of : callable
        Returns a column's cells of the same rows, floats or texts.

    Returns
    -------
    dict of str to float
        The largest distance of an AUROC from 0.5, of the columns that matter.
    """
    times = []
    for name, summary in columns.items():
        if is_after_outcome(name, or_any_time=True) and _has_many_numbers(summary):
            values = values_of(name)[:MAX_ROWS_OF_TIMES]
            if values.dtype.kind == "f":
                times.append(values)
    if not times:
        return {}
    strengths = {}
    for name, summary in columns.items():
        if 2 <= summary.n_texts + summary.ticked <= MAX_FEW_CLASSES:
            values = values_of(name)[:MAX_ROWS_OF_TIMES]
            strength = max(_distance(values, time) for time in times)
            if strength > MIN_DISTANCE:
                strengths[name] = strength
    return strengths


def _has_many_numbers(summary: ColumnSummary) -> bool:
    """Return True for numbers with more values than classes have."""
    return summary.numbers > 0 and summary.n_texts > MAX_CLASSES


def _distance(values: np.ndarray, time: np.ndarray) -> float:
    """Return the largest distance from 0.5 of an AUROC of a value by the time.

    The AUROC is that of rows with a value against all others; 0.0 if none is
    significant.
    """
    # A time that has not come yet is blank.
    times = np.nan_to_num(time, nan=np.inf)
    distances = [0.0]
    texts = values.astype(str)
    for value in np.unique(texts):
        has_value = texts == value
        inside = times[has_value]
        outside = times[~has_value]
        if min(len(inside), len(outside)) < MIN_ROWS_A_VALUE:
            continue
        test = scipy.stats.mannwhitneyu(inside, outside)
        area = test.statistic / (len(inside) * len(outside))
        if test.pvalue < MAX_CHANCE:
            distances.append(abs(area - 0.5))
    return max(distances)


def infer_positive(label: str, counts: Mapping[str, int]) -> str | None:
    """Infer the value of an outcome that is a case, by the rows of each value.

    None unless there are exactly two values, each in at least `MIN_ROWS_OF_LABEL` rows,
    and exactly one of them means a case.
    """
    if len(counts) != 2 or min(counts.values()) < MIN_ROWS_OF_LABEL:
        return None
    try:
        case = positive_of_two(counts)
    except UsageError:
        return None
    if is_called(label, "well") and case == affirmative_class(list(counts)):
        return next(value for value in counts if value != case)
    return case


def is_sure_case(case: str, counts: Mapping[str, int]) -> bool:
    """Return True if a value is surely the case.

    It is in at most half of the rows, and the two values name the case in words, or are
    0 and 1.
    """
    is_rarer = 2 * counts[case] <= sum(counts.values())
    return is_rarer and is_case_by_words(list(counts))
