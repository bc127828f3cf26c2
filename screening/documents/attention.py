"""What deserves attention, decided here alone: of a model when it is made, of a night when it is scored.

The list is stored in `model.json` or `run.json`; page, `--json`, exit code, ledger and `status` read it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from screening.documents.base import Estimate, Reason
from screening.documents.comparison import ExternalValidation
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.usefulness import beaten, flags_like_chance, unfit
from screening.documents.validation import OperatingPointFacts

FEW_CASES = 30
CHANCE = 0.5
WIDEST = 0.3
"""Width of the 95 % interval of sensitivity beyond which it says too little: 0.6 to 0.9 may be either."""

LEAST_SPARED = 0.05
"""Share of the non-cases that a threshold leaves alone, at best, below which it screens nobody."""

OLDEST_YEARS = 2
"""Years after its last patient, or its training, in which a model is reviewed where nobody set a date."""

QUIET_NIGHTS = 3
"""Nights in a row without a case after which the table or the model is suspected, not the ward praised."""

EVERYBODY = 20
"""Patients of whom all are flagged before that is said: of fewer all may well have the condition."""

# Standard errors that 2 of 1,000 nights are beyond.
IMPROBABLE = 3.1

# A new row's score is the mean of more machines than a held-out row's, so scores lie closer together by up to
# this share, and a threshold below most of them has fewer rows under it (measured on weakly ranking tables).
CLOSER = 0.15


def of_model(model: ModelDocument) -> list[Reason]:
    """Reasons to distrust a model, as whoever trained it should know them."""
    gates = list(_model_gates(model))
    leaks = [
        Reason(
            "leak", f"Look at {leak.said}{'' if leak.said.endswith('?') else '.'}", leak.column, leak.figure,
            remedy='If it is known only after the outcome, write available = "after" in the contract.',
        )
        for leak in model.training.leaks
    ]  # fmt: skip
    return [*gates, *_verdict(model, gates), *leaks]


def of_run(
    run: RunDocument,
    *,
    quiet: int = 0,
    recognisable: bool = True,
    trained: datetime.datetime | None = None,
) -> list[Reason]:
    """Reasons to look twice at a night, whose `attention` holds what the gates found in the data.

    `quiet` counts the nights in a row without a case, tonight among them; `recognisable` is False where a
    ledger needs ids that mean the same patient on another night and has none; `trained` tells a model's age
    where neither its contract nor its rows do.
    """
    # What may have leaked into training is for whoever trained; the ward would read it every night.
    gates = list(_model_gates(run.model))
    reasons = [*gates, *_verdict(run.model, gates), *_age(run, trained), *_learned_from(run), *_counts(run)]
    reasons += [*_workload(run), *_everybody(run), *_silence(run, quiet), *run.attention]
    # Row numbers for ids say it already.
    if not recognisable and "ids_are_row_numbers" not in {each.code for each in reasons}:
        words = "No column names the rows, so nobody is recognised from night to night."
        reasons.append(Reason("not_recognisable", words, remedy="Give the contract an id or a group."))
    return reasons


def _verdict(model: ModelDocument, gates: Sequence[Reason]) -> list[Reason]:
    """What speaks against using the model at all, until somebody answers for it with a reason."""
    if model.approval is not None and model.approval.reason:
        return []
    worse = [*beaten(model.validation.comparison)]
    return [*worse, *unfit([*gates, *worse]), *flags_like_chance(model)]


def _model_gates(model: ModelDocument) -> Iterator[Reason]:
    due = _day(model.retrain_by)
    if due is not None:
        # Only another training takes somebody's rows out of a model.
        words = f"This model holds rows of a patient who was erased: it scores until {due} and not after."
        yield Reason("to_be_trained_again", words, remedy="Train it again on the cohort as it is now.")
    for point in model.points:
        cases, which = point.n_positive, f" of {point.label}" if model.multi else ""
        if cases < FEW_CASES:
            words = f"Only {_plural(cases, 'case')}{which} to learn and validate from."
            yield Reason("too_few_cases", words, None, cases, FEW_CASES, "Train again once there are more.")
        yield from list(_no_use(point)) or _too_wide(point, which)
        area = model.validation.summary.get(point.label)
        if area and area.auroc.low is not None and area.auroc.low <= CHANCE:
            words = f"The ranking{which} is not shown to be better than chance"
            words += "." if area.auroc.value is None else f" (AUROC {area.auroc.value:.2f})."
            remedy = "Do not act on this model: bring more cases, other columns, or another recipe."
            yield Reason("not_better_than_chance", words, None, area.auroc.low, CHANCE, remedy)


def _no_use(point: OperatingPointFacts) -> Iterator[Reason]:
    """Thresholds that single nobody out, or none of those they are meant for."""
    name, spared = point.label, point.specificity.high
    if point.flags_everything:
        words = f"No threshold could meet the rule for {name}: every row is flagged, so none is singled out."
        remedy = "Ask for less with screen threshold, or train with more cases."
        yield Reason("flags_everything", words, remedy=remedy)
    elif spared is not None and spared < LEAST_SPARED:
        words = (
            f"The threshold for {name} flags nearly every row, cases or not, so a flag singles nobody out."
        )
        remedy = "Ask for less with screen threshold, or train with columns that tell more."
        yield Reason("flags_everything", words, None, spared, LEAST_SPARED, remedy)
    elif point.sensitivity.value == 0:
        words = f"This threshold would have found none of the past cases of {name}."
        remedy = "Choose another with screen threshold."
        yield Reason("own_cases_not_flagged", words, None, 0.0, 0.0, remedy)


def _too_wide(point: OperatingPointFacts, which: str) -> Iterator[Reason]:
    low, high = point.sensitivity.low, point.sensitivity.high
    if low is not None and high is not None and high - low > WIDEST:
        words = f"Sensitivity{which} is imprecise: 95% CI {low:.0%} to {high:.0%}."
        remedy = "Train again with more cases (of more patients, where rows come in groups)."
        yield Reason("intervals_too_wide", words, None, high - low, WIDEST, remedy)


def review_due(model: ModelDocument, trained: datetime.datetime | None = None) -> datetime.date | None:
    """The day after which every night asks for a review; None where nothing tells the model's age."""
    since = _learned_until(model) or (trained.date() if trained else None)
    stated = _day(model.stated.review_by)
    return stated or (since + datetime.timedelta(days=int(OLDEST_YEARS * 365.25)) if since else None)


def _learned_until(model: ModelDocument) -> datetime.date | None:
    """Day of its last patient, where the contract names a time."""
    window = model.training.window
    return _day(window[1]) if window else None


def _age(run: RunDocument, trained: datetime.datetime | None) -> Iterator[Reason]:
    """Whether the model is past its review on the night of the run."""
    night, due = _day(run.date), review_due(run.model, trained)
    if night is None or due is None or night <= due:
        return
    remedy = "Train it again, or review it and set review_by in the contract it is trained with."
    if _day(run.model.stated.review_by):
        words, late = f"This model was to be reviewed by {due}.", float((night - due).days)
        yield Reason("past_review_date", words, None, late, 0.0, remedy)
        return
    last = _learned_until(run.model)
    since = last or (trained.date() if trained else night)
    years = (night - since).days / 365.25
    origin = "the last patient it learned from is of" if last else "it was trained on"
    words = f"This model is {years:.1f} years old: {origin} {since}, and nobody set a date for its review."
    yield Reason("past_review_date", words, None, years, OLDEST_YEARS, remedy)


def _learned_from(run: RunDocument) -> Iterator[Reason]:
    """Whether the night is a table that the model has learned from and knows too well."""
    known = {file.sha256 for file in run.model.training.source.files}
    files = run.input.files
    seen = sum(file.sha256 in known for file in files)
    if seen:
        what = "this table" if seen == len(files) else f"{seen} of these {len(files)} files"
        words = f"The model was trained on {what}: it knows these rows, so flags and figures are too good."
        remedy = "Score other rows; what to expect of them is on the model's page, from rows held out."
        yield Reason("trained_on_these_rows", words, None, seen, 0.0, remedy)


def _day(value: str | None) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(value or "")
    except ValueError:
        return None


def _counts(run: RunDocument) -> Iterator[Reason]:
    counts = run.counts
    remedy = "Do not use this page; report it with its run.json."
    if counts.read != counts.scored + counts.refused:
        words = "The counts do not add up: rows read are not rows scored plus rows refused."
        yield Reason("counts_do_not_add_up", words, remedy=remedy)
    states = (counts.new, counts.ongoing, counts.reviewed, counts.known)
    if None not in states and counts.cases != sum(n or 0 for n in states):
        words = "The counts do not add up: cases are not new plus ongoing plus reviewed plus known."
        yield Reason("counts_do_not_add_up", words, remedy=remedy)
    if counts.refused > 0:
        words = f"{_plural(counts.refused, 'row')} refused and not scored."
        remedy = "Have the source correct them; the reasons are listed."
        yield Reason("rows_refused", words, None, counts.refused, 0.0, remedy)


def _workload(run: RunDocument) -> Iterator[Reason]:
    capacity, flagged, reviews = run.model.stated.capacity, run.counts.flagged, run.awaited
    if capacity is not None and reviews > capacity:
        one = " patients" if run.unit == "patient" else ""
        state = "wait for a review" if reviews != run.to_review else "flagged"
        words = f"{reviews:,}{one} {state}, but capacity is {_plural(capacity, 'review')} a night."
        remedy = "Review from the top of the list, or choose a threshold by --max-flag-rate."
        yield Reason("over_capacity", words, None, reviews, capacity, remedy)
    expected = flags_expected(run.model, run.counts.scored)
    if expected and flagged and not expected[0] <= flagged <= expected[1]:
        words = (
            f"{flagged:,} flagged where {expected[0]:,} to {expected[1]:,} were expected from validation: "
            "the patients or the data may have changed."
        )
        bound = expected[1] if flagged > expected[1] else expected[0]
        remedy = "Compare tonight's data with those of training before acting on the list."
        yield Reason("flags_unexpected", words, None, flagged, bound, remedy)


def _everybody(run: RunDocument) -> Iterator[Reason]:
    """Patients of several rows of whom each has one that is flagged, though many rows are not."""
    n, voxels = run.to_review, run.model.unit_of_review == "voxel"
    if run.unit == "patient" and not voxels and not run.unflagged.cases and n >= EVERYBODY:
        words = f"All {n:,} patients are flagged, each for one row or more, so the list singles nobody out."
        remedy = "Ask for less with screen threshold, or train and score one row a patient."
        yield Reason("everybody_flagged", words, None, n, EVERYBODY, remedy)


def flags_expected(model: ModelDocument, scored: int) -> tuple[int, int] | None:
    """The range of flags for 998 of 1,000 nights; None where rows are not independent patients."""
    points, known = model.operating_points, model.validation.n_rows
    rate = points[0].flag_rate.value if len(points) == 1 else None
    if rate is None or model.validation.grouped or model.stated.group:
        return None
    # The rate itself is known from so many rows only; its own error widens the range.
    widen = 1 + scored / known if known > 0 else 1.0
    spread = IMPROBABLE * math.sqrt(max(scored * rate * (1 - rate), 1.0) * widen)
    above = 0.0
    if 0.5 < rate < 1:
        z = NormalDist().inv_cdf(rate)
        above = CLOSER * scored * z * NormalDist().pdf(z)
    return max(0, math.floor(scored * rate - spread)), math.ceil(scored * rate + spread + above)


def _silence(run: RunDocument, quiet: int) -> Iterator[Reason]:
    scored, check = run.counts.scored, "Check the table and the threshold."
    expected = flags_expected(run.model, scored)
    least = expected[0] if expected else 1
    if scored == 0:
        yield Reason("no_rows", "No row was scored.", None, 0.0, 1.0, "Check the table.")
    elif run.counts.flagged == 0 and least > 0:
        words = f"No row was flagged where {least:,} or more were expected." if expected else ""
        yield Reason("nobody_flagged", words or "No row was flagged.", None, 0.0, least, check)
    if quiet >= QUIET_NIGHTS and not _quiet_by_chance(run.model, scored * quiet):
        words = f"Nobody was flagged on {quiet} nights in a row."
        yield Reason("quiet_nights", words, None, quiet, QUIET_NIGHTS, check)


def _quiet_by_chance(model: ModelDocument, rows: int) -> bool:
    """Whether so many rows may well pass without a flag; a threshold that never flags is not chance."""
    rate = model.operating_points[0].flag_rate.value if flags_expected(model, rows) else None
    return rate is not None and rate > 0.0 and (1.0 - rate) ** rows >= 0.01


def _plural(how_many: float, one: str) -> str:
    return f"{round(how_many):,} {one}{'s' * (how_many != 1)}"


def of_validation(found: ExternalValidation) -> list[Reason]:
    """Reasons to look twice before a model is used where it was tried: what is shown to be worse there."""
    return [*_not_kept(found), *_chances_off(found)]


def _not_kept(found: ExternalValidation) -> Iterator[Reason]:
    """Figures that are shown to be lower than promised."""
    for point in found.operating_points:
        one, which = found.classes[point.label], _of_class(found, point.label)
        area = found.figures.summary[point.label].auroc
        lesions = [each.sensitivity if each else Estimate() for each in (point.lesions, one.promise.lesions)]
        for figure, seen, past in (
            ("sensitivity", point.sensitivity, one.promise.sensitivity),
            ("specificity", point.specificity, one.promise.specificity),
            ("auroc", area, one.promise.auroc),
            ("lesions", lesions[0], lesions[1]),
        ):
            high = one.differences[figure].high if figure in one.differences else None
            if high is None or high >= 0 or seen.value is None or past.value is None:
                continue
            here, then = (
                f"{each:.2f}" if figure == "auroc" else f"{each:.0%}" for each in (seen.value, past.value)
            )
            name = {"auroc": "AUROC", "lesions": "Share of lesions found"}.get(figure, figure.capitalize())
            yield Reason(
                "promise_not_kept", f"{name}{which} is {here} here; validation at training promised {then}.",
                None, seen.value, past.value,
                remedy="Look at the threshold that this cohort would choose, and at subgroups and units, "
                "before the model is used here.",
            )  # fmt: skip


def _chances_off(found: ExternalValidation) -> Iterator[Reason]:
    """Chances that are shown to be too high or too low on the whole, or too extreme."""
    for label, one in found.figures.calibration.items():
        said: list[str] = []
        ratio, low, high = (one.observed_expected or Estimate()).ends
        slope, _, steepest = (one.slope or Estimate()).ends
        if ratio is not None and not low <= 1 <= high:
            side = "low" if ratio > 1 else "high"
            said.append(f"are too {side} here: {ratio:.2f} times as many cases were seen as they add up to")
        if steepest is not None and steepest < 1:
            said.append(f"are too extreme here (calibration slope {slope:.2f})")
        if said:
            yield Reason(
                "chance_misfit", f"Chances{_of_class(found, label)} {' and '.join(said)}.", None,
                slope if ratio is None else ratio,
                remedy="Do not go by the chances in this place; ranks and thresholds may still hold.",
            )  # fmt: skip


def _of_class(found: ExternalValidation, label: str) -> str:
    return f" of {label}" if found.model.multi else ""
