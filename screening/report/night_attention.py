"""Reasons why a night needs attention, from the document of its run."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

from scipy.special import pdtrc

from screening.registry import faults_so_far, plugin_names
from screening.report import format as fmt
from screening.report.model_attention import OF_TRAINING, reasons_of_age
from screening.report.worklist import score_places, worklist
from screening.schemas import reasons
from screening.schemas.base import Reason
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument, ScoreCounts
from screening.spelling import first_of

MAX_QUIET_NIGHTS = 3
"""Nights in a row without a case from which on the table or the model is suspected."""
MAX_CHANCE_OF_QUIET = 0.01
# Of a row of nights beside the series' own, since it is looked at every night.
MAX_CHANCE_OF_QUIET_OWN = 0.001
MAX_CHANCE_OVER_CAPACITY = 0.001
"""p-value of so many reviews, if capacity is the mean, below which it is reported."""
MAX_COLUMNS_NAMED = 5
MIN_PATIENTS_ALL_FLAGGED = 20
"""Smallest number of patients that are unlikely to all have the condition."""
# Two of 1,000 nights are beyond this number of standard errors.
STANDARD_ERRORS = 3.1
# The score of a new row is the mean of more machines than that of a held-out row, so
# scores lie closer together by up to this share, and a threshold below most of them has
# fewer rows under it (measured on weakly ranking tables).
SHRINKAGE = 0.15
MAX_P_OF_SCORES = 0.001
"""p-value of a difference between scores up to which it is reported."""
MIN_DISTANCE_OF_SCORES = 0.05
"""A smaller difference is none to a reader, however certain many rows make it."""
MIN_SCORES = 20


@dataclass(frozen=True)
class UsualFlags:
    """Flags that a series' own nights let expect of tonight.

    Parameters
    ----------
    nights : int
        Number of these nights.
    low, high : int
        Fewest and most flagged patients.
    rate : float
        Share of patients flagged on these nights.
    stay : float
        Share of patients who are there on the next night too.
    """

    nights: int
    low: int
    high: int
    rate: float
    stay: float


def attention_of_night(
    run: RunDocument,
    *,
    quiet: int = 0,
    usual: UsualFlags | None = None,
    recognisable: bool = True,
    trained: datetime.datetime | None = None,
) -> list[Reason]:
    """Return the reasons why a night needs attention.

    Parameters
    ----------
    run : RunDocument
        Its `attention` has the findings of the gates in the data.
    quiet : int
        Number of nights in a row without a case, up to and including this one.
    usual : UsualFlags, optional
        Of the series' own nights, which flags are held to instead of to validation.
    recognisable : bool
        False where a ledger needs ids that identify patients on another night, and
        there are none.
    trained : datetime, optional
        When the model was trained; used where its contract and its rows have no date.
    """
    of_model = run.model.attention
    attention = [
        *(reason for reason in of_model if reason.code not in OF_TRAINING),
        *reasons_of_age(run.model, run.date, trained),
        *_reasons_of_training_rows(run),
        *_reasons_of_values(run),
        *_reasons_of_counts(run),
        *_reasons_of_workload(run),
        *_reasons_of_flags(run, usual),
        *_reasons_of_quiet(run, quiet, usual),
        *_reasons_of_plugins(run),
        *run.attention,
    ]
    # Without an id column, that ids are row numbers says the same.
    codes = {reason.code for reason in attention}
    if not recognisable and reasons.IDS_ARE_ROW_NUMBERS.code not in codes:
        attention.append(reasons.NOT_RECOGNISABLE())
    return attention


def _reasons_of_plugins(run: RunDocument) -> Iterator[Reason]:
    """Yield the reasons that plug-ins find, and then what of plug-ins is left out."""
    yield from reasons.reasons_of_plugins(run)
    if plugin_names("column"):
        # Their columns are tried, so that the document names those that fail.
        worklist(run, score_places(run.model, run))
    yield from reasons.reasons_of_left_out(faults_so_far())


def _reasons_of_training_rows(run: RunDocument) -> Iterator[Reason]:
    """Yield the reason that files of the night were used for training."""
    training = {file.sha256 for file in run.model.training.source.files}
    files = run.input.files
    n_seen = sum(file.sha256 in training for file in files)
    if not n_seen:
        return
    if n_seen == len(files):
        seen = "this table"
    else:
        seen = f"{n_seen} of these {len(files)} files"
    yield reasons.TRAINED_ON_THESE_ROWS(figure=n_seen, threshold=0.0, files=seen)


def _reasons_of_counts(run: RunDocument) -> Iterator[Reason]:
    """Yield that counts contradict each other, or that rows were refused."""
    counts = run.counts
    if counts.read != counts.scored + counts.refused:
        yield reasons.COUNTS_DO_NOT_ADD_UP(
            difference="rows read differ from rows scored plus rows refused"
        )
    states = (counts.new, counts.pending, counts.ruled_out, counts.known)
    n_cases = sum(count or 0 for count in states)
    if None not in states and counts.cases != n_cases:
        yield reasons.COUNTS_DO_NOT_ADD_UP(
            difference="cases differ from new plus pending plus ruled out plus known"
        )
    if counts.refused > 0:
        yield reasons.ROWS_REFUSED(
            figure=counts.refused,
            threshold=0.0,
            rows=fmt.plural(counts.refused, "row"),
        )


def _reasons_of_values(run: RunDocument) -> Iterator[Reason]:
    """Yield that values of rows, or channels of images, are out of bounds."""
    odd = run.check_values
    if odd is None:
        return
    if odd.rows:
        columns = [fmt.name(name) for name in odd.by_column]
        yield reasons.VALUES_OUT_OF_BOUNDS(
            figure=odd.rows,
            threshold=0.0,
            rows=fmt.plural(odd.rows, run.model.unit_of_review),
            columns=first_of(columns, MAX_COLUMNS_NAMED),
        )
    if odd.not_taken:
        yield reasons.SCORE_NOT_TAKEN(
            figure=odd.not_taken,
            threshold=0.0,
            rows=fmt.plural(odd.not_taken, "row"),
        )
    if odd.patients:
        columns = sorted({fmt.name(channel.column) for channel in odd.channels})
        faults = sorted({channel.fault for channel in odd.channels})
        yield reasons.CHANNELS_UNUSABLE(
            figure=odd.patients,
            threshold=0.0,
            patients=fmt.plural(odd.patients, "patient"),
            columns=first_of(columns, MAX_COLUMNS_NAMED),
            faults=", ".join(faults),
        )


def _is_beyond_chance(reviews: int, capacity: int) -> bool:
    """Return True if a night with `capacity` reviews on average hardly has so many."""
    return bool(pdtrc(reviews - 1, capacity) < MAX_CHANCE_OVER_CAPACITY)


def _reasons_of_workload(run: RunDocument) -> Iterator[Reason]:
    """Yield that more are flagged than can be reviewed, or everybody."""
    capacity = run.model.stated.capacity
    if capacity is not None and _is_beyond_chance(run.awaited, capacity):
        is_waiting = run.awaited != run.to_review
        state = "wait for a review" if is_waiting else "flagged"
        patients = " patients" if run.unit == "patient" else ""
        yield reasons.OVER_CAPACITY(
            figure=run.awaited,
            threshold=capacity,
            reviews=run.awaited,
            patients=patients,
            state=state,
            capacity=fmt.plural(capacity, "review"),
        )
    # Of several rows a patient, each patient has one that is flagged.
    has_patients = run.unit == "patient" and run.model.unit_of_review != "voxel"
    n_flagged = run.to_review if has_patients else 0
    if n_flagged >= MIN_PATIENTS_ALL_FLAGGED and not run.unflagged.cases:
        yield reasons.EVERYBODY_FLAGGED(
            figure=n_flagged,
            threshold=MIN_PATIENTS_ALL_FLAGGED,
            n_patients=n_flagged,
        )


def _reasons_of_flags(run: RunDocument, usual: UsualFlags | None) -> Iterator[Reason]:
    """Yield a reason if none, or fewer or more than expected, are flagged."""
    flagged = run.counts.flagged
    expected = flags_expected(run.model, run.counts.scored)
    source = "from validation"
    others = "training"
    if usual is not None:
        flagged = run.counts.cases or 0
        expected = (usual.low, usual.high)
        source = f"after this series' last {usual.nights} nights"
        others = "these nights"
    if expected is None:
        if not flagged:
            yield reasons.NOBODY_FLAGGED(figure=0.0, threshold=1, expectation="")
        return
    low, high = expected
    if not flagged and low > 0:
        yield reasons.NOBODY_FLAGGED(
            figure=0.0,
            threshold=low,
            expectation=f" where {low:,} or more were expected",
        )
    elif not low <= flagged <= high:
        threshold = high if flagged > high else low
        yield reasons.FLAGS_UNEXPECTED(
            figure=flagged,
            threshold=threshold,
            flagged=flagged,
            low=low,
            high=high,
            source=source,
            others=others,
        )


def flags_expected(model: ModelDocument, scored: int) -> tuple[int, int] | None:
    """Return fewest and most flags of 998 in 1,000 nights with `scored` rows.

    None where rows are not independent patients, or there are several classes.
    """
    points = model.operating_points
    if len(points) != 1 or model.validation.grouped or model.stated.group:
        return None
    rate = points[0]["flag_rate"].value
    if rate is None:
        return None
    # The rate is estimated from the rows of validation, and its error widens the range.
    n_rows = model.validation.n_rows
    inflation = 1 + scored / n_rows if n_rows > 0 else 1.0
    variance = max(scored * rate * (1 - rate), 1.0) * inflation
    margin = STANDARD_ERRORS * math.sqrt(variance)
    more_flags = 0.0
    if 0.5 < rate < 1:
        z = NormalDist().inv_cdf(rate)
        more_flags = SHRINKAGE * scored * z * NormalDist().pdf(z)
    low = math.floor(scored * rate - margin)
    high = math.ceil(scored * rate + margin + more_flags)
    without_cases = model.validation.without_cases
    if without_cases is not None and without_cases.state != "unknown":
        # A night has cases, and the rows of training had none: more may be flagged.
        high = scored
    return max(0, low), high


def _reasons_of_quiet(
    run: RunDocument, quiet: int, usual: UsualFlags | None
) -> Iterator[Reason]:
    """Yield a reason if none was flagged on nights in a row, and that is unlikely."""
    if quiet < MAX_QUIET_NIGHTS:
        return
    if usual is None:
        by_chance = _is_quiet_by_chance(run.model, run.counts.scored * quiet)
    else:
        # Only patients that came since the first night can be flagged again.
        n_distinct = run.unflagged.cases * (1 + (quiet - 1) * (1 - usual.stay))
        by_chance = (1.0 - usual.rate) ** n_distinct >= MAX_CHANCE_OF_QUIET_OWN
    if not by_chance:
        yield reasons.QUIET_NIGHTS(
            figure=quiet, threshold=MAX_QUIET_NIGHTS, n_nights=quiet
        )


def _is_quiet_by_chance(model: ModelDocument, n_rows: int) -> bool:
    """Return True if `n_rows` rows without a flag are not unlikely.

    A threshold that never flags is not chance.
    """
    if flags_expected(model, n_rows) is None:
        return False
    rate = model.operating_points[0]["flag_rate"].value
    if not rate:
        return False
    return (1.0 - rate) ** n_rows >= MAX_CHANCE_OF_QUIET


def is_alarming(counts: ScoreCounts) -> bool:
    """Return True if scores differ significantly, and by enough to matter."""
    if counts.p is None or counts.distance is None:
        return False
    has_scores = sum(counts.counted) >= MIN_SCORES
    return (
        has_scores
        and counts.p <= MAX_P_OF_SCORES
        and counts.distance >= MIN_DISTANCE_OF_SCORES
    )


def describe_drift(counts: ScoreCounts | None, own_nights: int = 0) -> str:
    """Describe in a sentence how a night's scores compare with others.

    Parameters
    ----------
    counts : ScoreCounts or None
        Empty text for None, a night that was not counted.
    own_nights : int
        Number of nights of the series that the counts are compared with; 0 where they
        are compared with training.
    """
    if counts is None:
        return ""
    unit = "patients" if counts.unit == "group" else "rows"
    n_scores = sum(counts.counted)
    if counts.p is None or n_scores < MIN_SCORES:
        return (
            f"Too few {unit} were scored ({n_scores}) to compare tonight's scores with "
            "those of training."
        )
    p = "below 0.001" if counts.p < 0.001 else f"{counts.p:.3f}"
    gap = f"(largest difference of shares {counts.distance:.2f}, p {p})"
    level = "higher" if counts.higher else "lower"
    if own_nights:
        return (
            f"Tonight's {unit} score {level} on the whole than those of this series' "
            f"last {own_nights} nights {gap}."
        )
    training = f"those of training did when they were held out {gap}"
    if is_alarming(counts):
        return (
            f"Tonight's {unit} score {level} on the whole than {training}: the "
            "patients, the laboratory or the coding may have changed, and the "
            "validation estimates may not hold."
        )
    return (
        f"Tonight's {unit} score as {training}: no sign that the patients or the "
        "measurements have changed."
    )


def drift_reason(counts: ScoreCounts | None, own_nights: int = 0) -> Reason | None:
    """Return the reason that a night's scores differ; None if they do not.

    Parameters are those of `describe_drift`.
    """
    if counts is None or not is_alarming(counts):
        return None
    if own_nights:
        remedy = (
            "Ask the source what has changed since: the patients, the laboratory or "
            "the coding."
        )
    else:
        remedy = (
            "Compare the columns with training under Data, and ask the source what has "
            "changed; if the patients are different now, train again."
        )
    return reasons.SCORES_DIFFER(
        figure=counts.p,
        threshold=MAX_P_OF_SCORES,
        description=describe_drift(counts, own_nights),
        remedy=remedy,
    )
