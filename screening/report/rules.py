"""What deserves attention, decided here alone, and whether a model is useful at all.

Of a model when it is made, of a night when it is scored: the list is stored in `model.json` or `run.json`,
and page, `--json`, exit code, ledger and `status` read it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from screening.report import format as fmt
from screening.schemas.base import Estimate, Reason
from screening.schemas.comparison import ExternalValidation
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument, ScoreCounts
from screening.schemas.validation import Beside, BesideFacts, OperatingPointFacts

Verdict = Literal["yes", "not shown", "no"]

USELESS = ("not_better_than_chance", "flags_everything", "own_cases_not_flagged")
"""What attention says of a model that nobody should act on."""

UNSURE = ("too_few_cases", "intervals_too_wide")
"""What attention says of one that may be useful, only nobody knows yet."""

SENTENCES: dict[Verdict, str] = {
    "yes": "Supported by local validation: its flags are better than chance and than the best other method.",
    "not shown": "Not shown: it may be useful, but local validation does not show that it is.",
    "no": "No: do not use it as it is.",
}


@dataclass(frozen=True)
class Usefulness:
    """The verdict in a word and a sentence, and what speaks against more.

    `against` are the reasons for which it is not "yes".
    """

    verdict: Verdict
    words: str
    against: tuple[Reason, ...]


def usefulness_of(model: ModelDocument) -> Usefulness:
    """The verdict on a model, from its held-out figures alone.

    "no" where it should not be acted on, or another method is shown to be better on the same folds;
    "not shown" where figures are too uncertain, flags are not shown to hit more often than chance, or
    nothing simpler stands beside it; else "yes".
    """
    comparison = model.validation.comparison
    other = best_other(comparison)
    useless = [each for each in model.attention if each.code in USELESS]
    unsure = [each for each in model.attention if each.code in UNSURE]
    worse = [*beaten(comparison)]
    unsure += flags_like_chance(model)
    if other is None:
        unsure.append(NOT_COMPARED)
    verdict: Verdict = "no" if useless or worse else "not shown" if unsure else "yes"
    words = SENTENCES[verdict]
    if verdict == "yes" and other is not None and not _better(other):
        words = f"Supported by local validation, but it is not shown to be better than {other.recipe}."
    return Usefulness(verdict, words, (*useless, *worse, *unsure))


def best_other(comparison: BesideFacts | None) -> Beside | None:
    """The best of the other methods at its own threshold: sensitivity and specificity together."""
    tried = (
        [other for other in comparison.beside if other.figures is not None]
        if comparison
        else []
    )
    return max(tried, key=_worth, default=None)


def _worth(other: Beside) -> float:
    figures = other.figures or {}
    return (figures.get("sensitivity") or 0.0) + (figures.get("specificity") or 0.0)


# How far another method has to be ahead for sure before a model should not be used: of very many rows even a
# thousandth is sure.
AHEAD = 0.01


def _gaps(other: Beside) -> dict[str, Estimate]:
    """How far the method is ahead, in sensitivity and specificity together: the sum of each, and of its ends.

    Other cases would have moved the thresholds, and traded the one for the other.
    """
    gaps = dict(other.differences or {})
    both = [
        gap.ends
        for name in ("sensitivity", "specificity")
        if (gap := gaps.pop(name, None))
    ]
    if both and not any(None in ends for ends in both):
        gaps["sensitivity + specificity"] = Estimate(*map(sum, zip(*both, strict=True)))
    return gaps


def _better(other: Beside) -> list[str]:
    """The figures of which an interval says that the method's own is higher."""
    return [
        name
        for name, gap in _gaps(other).items()
        if gap.low is not None and gap.low > 0
    ]


def beaten(comparison: BesideFacts | None) -> Iterator[Reason]:
    """That the best of the other methods is shown to be better, where it is."""
    other = best_other(comparison)
    gaps = {} if other is None else _gaps(other)
    lower = [
        name for name, gap in gaps.items() if gap.high is not None and gap.high < -AHEAD
    ]
    if other is not None and lower and not _better(other):
        words = f"{other.recipe} is better on the same folds: this method has a lower {_listed(lower)}."
        yield Reason(
            "another_is_better", words, remedy=f"Train with --recipe {other.recipe}."
        )


NOT_COMPARED = Reason(
    "not_compared",
    "No other method was trained on the same folds, so the performance of a simpler one is unknown.",
    remedy="Train with --beside logistic,random_forest.",
)


def unfit(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """The verdict "no" itself, where any of these reasons makes it."""
    if any(each.code in (*USELESS, "another_is_better") for each in reasons):
        words = "Not fit for use as it is, by its own validation."
        yield Reason(
            "not_fit_for_use",
            words,
            remedy="Train another, or approve it with a reason: screen approve MODEL --by NAME --reason TEXT.",
        )


def flags_like_chance(model: ModelDocument) -> Iterator[Reason]:
    """That flags are not shown to hit more often than chance, of each class where that is so."""
    for point in model.points:
        if (
            point.ppv.low is not None
            and point.ppv.low <= point.prevalence
            and not point.flags_everything
        ):
            words = (
                f"Flags{_which(model, point.label)} are not shown to have a higher PPV than chance: it may be "
                f"as low as {100 * point.ppv.low:.3g}%, at {100 * point.prevalence:.3g}% prevalence."
            )
            yield Reason(
                "flags_like_chance", words, None, point.ppv.low, point.prevalence
            )


def _which(model: ModelDocument, label: str) -> str:
    return f" of {label}" if model.multi else ""


def _listed(names: list[str]) -> str:
    return " and ".join(
        name.upper() if name == "auroc" else name.replace("_", " ") for name in names
    )


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
"""Fewest patients, all of them flagged, that are a reason: of fewer all may well have the condition."""

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
            "leak",
            f"Look at {leak.said}{'' if leak.said.endswith('?') else '.'}",
            leak.column,
            leak.figure,
            remedy='If it is known only after the outcome, write available = "after" in the contract.',
        )
        for leak in model.training.leaks
    ]
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
    reasons = [
        *gates,
        *_verdict(run.model, gates),
        *_age(run, trained),
        *_learned_from(run),
        *_counts(run),
    ]
    reasons += [*_workload(run), *_silence(run, quiet), *run.attention]
    # Row numbers for ids say it already.
    if not recognisable and "ids_are_row_numbers" not in {
        each.code for each in reasons
    }:
        words = (
            "No column identifies rows, so nobody is recognised from night to night."
        )
        reasons.append(
            Reason(
                "not_recognisable", words, remedy="Give the contract an id or a group."
            )
        )
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
        words = f"This model holds rows of a patient who was erased: it scores until {due} only."
        yield Reason(
            "to_be_trained_again",
            words,
            remedy="Train it again on the present cohort.",
        )
    for point in model.points:
        cases, which = point.n_positive, _which(model, point.label)
        if cases < FEW_CASES:
            words = f"Only {fmt.plural(cases, 'case')}{which} to train and validate on."
            yield Reason(
                "too_few_cases",
                words,
                None,
                cases,
                FEW_CASES,
                "Train again once there are more.",
            )
        yield from _weakness(point, which)
        area = model.validation.summary.get(point.label)
        if area and area.auroc.low is not None and area.auroc.low <= CHANCE:
            words = f"The ranking{which} is not shown to be better than chance"
            words += (
                "." if area.auroc.value is None else f" (AUROC {area.auroc.value:.2f})."
            )
            remedy = "Do not act on this model: bring more cases, other columns, or another recipe."
            yield Reason(
                "not_better_than_chance", words, None, area.auroc.low, CHANCE, remedy
            )


def _weakness(point: OperatingPointFacts, which: str) -> Iterator[Reason]:
    """That a threshold singles nobody out, or none of those it is meant for, or that nobody knows it."""
    name, spared, (_, low, high) = (
        point.label,
        point.specificity.high,
        point.sensitivity.ends,
    )
    if point.flags_everything:
        words = f"No threshold meets the rule for {name}: every row is flagged, so flags are not informative."
        remedy = "Relax the rule with screen threshold, or train with more cases."
        yield Reason("flags_everything", words, remedy=remedy)
    elif spared is not None and spared < LEAST_SPARED:
        words = f"The threshold for {name} flags nearly every row, cases or not, so a flag is not informative."
        remedy = "Relax the rule with screen threshold, or train with more informative columns."
        yield Reason("flags_everything", words, None, spared, LEAST_SPARED, remedy)
    elif point.sensitivity.value == 0:
        words = f"This threshold would have found none of the past cases of {name}."
        remedy = "Choose another with screen threshold."
        yield Reason("own_cases_not_flagged", words, None, 0.0, 0.0, remedy)
    elif low is not None and high is not None and high - low > WIDEST:
        words = f"Sensitivity{which} is imprecise: 95% CI {low:.0%} to {high:.0%}."
        remedy = (
            "Train again with more cases (of more patients, where rows come in groups)."
        )
        yield Reason("intervals_too_wide", words, None, high - low, WIDEST, remedy)


def review_due(
    model: ModelDocument, trained: datetime.datetime | None = None
) -> datetime.date | None:
    """The day after which every night asks for a review; None where nothing tells the model's age."""
    since = _learned_until(model) or (trained.date() if trained else None)
    stated = _day(model.stated.review_by)
    return stated or (
        since + datetime.timedelta(days=int(OLDEST_YEARS * 365.25)) if since else None
    )


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
        words, late = (
            f"This model was to be reviewed by {due}.",
            float((night - due).days),
        )
        yield Reason("past_review_date", words, None, late, 0.0, remedy)
        return
    last = _learned_until(run.model)
    since = last or (trained.date() if trained else night)
    years = (night - since).days / 365.25
    origin = "the last patient it learned from is of" if last else "it was trained on"
    words = f"This model is {years:.1f} years old: {origin} {since}, and no review date is set."
    yield Reason("past_review_date", words, None, years, OLDEST_YEARS, remedy)


def _learned_from(run: RunDocument) -> Iterator[Reason]:
    """Whether the night is a table that the model has learned from and knows too well."""
    known = {file.sha256 for file in run.model.training.source.files}
    files = run.input.files
    seen = sum(file.sha256 in known for file in files)
    if seen:
        what = (
            "this table"
            if seen == len(files)
            else f"{seen} of these {len(files)} files"
        )
        words = f"The model was trained on {what}, so flags and figures are too good."
        remedy = "Score other rows; the model's page has the figures expected for them."
        yield Reason("trained_on_these_rows", words, None, seen, 0.0, remedy)


def _day(value: str | None) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(value or "")
    except ValueError:
        return None


def _counts(run: RunDocument) -> Iterator[Reason]:
    counts, remedy = run.counts, "Do not use this page; report it with its run.json."
    if counts.read != counts.scored + counts.refused:
        words = "The counts do not add up: rows read differ from rows scored plus rows refused."
        yield Reason("counts_do_not_add_up", words, remedy=remedy)
    states = (counts.new, counts.pending, counts.ruled_out, counts.known)
    if None not in states and counts.cases != sum(n or 0 for n in states):
        words = "The counts do not add up: cases differ from new plus pending plus ruled out plus known."
        yield Reason("counts_do_not_add_up", words, remedy=remedy)
    if counts.refused > 0:
        words = f"{fmt.plural(counts.refused, 'row')} refused and not scored."
        remedy = "Have the source correct them; the reasons are listed."
        yield Reason("rows_refused", words, None, counts.refused, 0.0, remedy)


def _workload(run: RunDocument) -> Iterator[Reason]:
    capacity, flagged, reviews = (
        run.model.stated.capacity,
        run.counts.flagged,
        run.awaited,
    )
    if capacity is not None and reviews > capacity:
        one = " patients" if run.unit == "patient" else ""
        state = "wait for a review" if reviews != run.to_review else "flagged"
        words = f"{reviews:,}{one} {state}, but capacity is {fmt.plural(capacity, 'review')} a night."
        remedy = (
            "Review from the top of the list, or choose a threshold by --max-flag-rate."
        )
        yield Reason("over_capacity", words, None, reviews, capacity, remedy)
    expected = flags_expected(run.model, run.counts.scored)
    if expected and flagged and not expected[0] <= flagged <= expected[1]:
        words = (
            f"{flagged:,} flagged where {expected[0]:,} to {expected[1]:,} were expected from validation: "
            "the patients or the data may have changed."
        )
        bound = expected[1] if flagged > expected[1] else expected[0]
        remedy = (
            "Compare tonight's data with those of training before acting on the list."
        )
        yield Reason("flags_unexpected", words, None, flagged, bound, remedy)
    n, voxels = run.to_review, run.model.unit_of_review == "voxel"
    # Of several rows, and each has one that is flagged.
    if (
        run.unit == "patient"
        and not voxels
        and not run.unflagged.cases
        and n >= EVERYBODY
    ):
        words = f"All {n:,} patients are flagged, each for one row or more, so the list is not informative."
        remedy = "Relax the rule with screen threshold, or train and score one row a patient."
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
    return max(0, math.floor(scored * rate - spread)), math.ceil(
        scored * rate + spread + above
    )


def _silence(run: RunDocument, quiet: int) -> Iterator[Reason]:
    scored, check = run.counts.scored, "Check the table and the threshold."
    expected = flags_expected(run.model, scored)
    least = expected[0] if expected else 1
    if scored == 0:
        yield Reason(
            "no_rows", "No row was scored.", None, 0.0, 1.0, "Check the table."
        )
    elif run.counts.flagged == 0 and least > 0:
        words = (
            f"No row was flagged where {least:,} or more were expected."
            if expected
            else ""
        )
        yield Reason(
            "nobody_flagged", words or "No row was flagged.", None, 0.0, least, check
        )
    if quiet >= QUIET_NIGHTS and not _quiet_by_chance(run.model, scored * quiet):
        words = f"Nobody was flagged on {quiet} nights in a row."
        yield Reason("quiet_nights", words, None, quiet, QUIET_NIGHTS, check)


def _quiet_by_chance(model: ModelDocument, rows: int) -> bool:
    """Whether so many rows may well pass without a flag; a threshold that never flags is not chance."""
    rate = (
        model.operating_points[0].flag_rate.value
        if flags_expected(model, rows)
        else None
    )
    return rate is not None and rate > 0.0 and (1.0 - rate) ** rows >= 0.01


def of_validation(validation: ExternalValidation) -> list[Reason]:
    """Reasons to look twice before a model is used where it was tried: what is shown to be worse there."""
    return [*_not_kept(validation), *_chances_off(validation)]


def _not_kept(validation: ExternalValidation) -> Iterator[Reason]:
    """Figures that are shown to be lower than promised."""
    for point in validation.operating_points:
        elsewhere, which = (
            validation.classes[point.label],
            _which(validation.model, point.label),
        )
        area = validation.figures.summary[point.label].auroc
        lesions = [
            value.sensitivity if value else Estimate()
            for value in (point.lesions, elsewhere.promise.lesions)
        ]
        for figure, seen, past in (
            ("sensitivity", point.sensitivity, elsewhere.promise.sensitivity),
            ("specificity", point.specificity, elsewhere.promise.specificity),
            ("auroc", area, elsewhere.promise.auroc),
            ("lesions", lesions[0], lesions[1]),
        ):
            high = (
                elsewhere.differences[figure].high
                if figure in elsewhere.differences
                else None
            )
            if high is None or high >= 0 or seen.value is None or past.value is None:
                continue
            here, then = (
                f"{value:.2f}" if figure == "auroc" else f"{value:.0%}"
                for value in (seen.value, past.value)
            )
            name = {"auroc": "AUROC", "lesions": "Share of lesions found"}.get(
                figure, figure.capitalize()
            )
            yield Reason(
                "promise_not_kept",
                f"{name}{which} is {here} here; the validation estimate is {then}.",
                None,
                seen.value,
                past.value,
                remedy="Check the threshold that this cohort would choose, subgroups and units "
                "before the model is used here.",
            )


def _chances_off(validation: ExternalValidation) -> Iterator[Reason]:
    """Chances that are shown to be too high or too low on the whole, or too extreme."""
    for label, calibration in validation.figures.calibration.items():
        faults: list[str] = []
        ratio, low, high = (calibration.observed_expected or Estimate()).ends
        slope, _, steepest = (calibration.slope or Estimate()).ends
        if ratio is not None and not low <= 1 <= high:
            side = "low" if ratio > 1 else "high"
            faults.append(
                f"are too {side} here: {ratio:.2f} times as many cases were observed as predicted"
            )
        if steepest is not None and steepest < 1:
            faults.append(f"are too extreme here (calibration slope {slope:.2f})")
        if faults:
            yield Reason(
                "chance_misfit",
                f"Chances{_which(validation.model, label)} {' and '.join(faults)}.",
                None,
                slope if ratio is None else ratio,
                remedy="Do not use the chances in this place; ranks and thresholds may still hold.",
            )


DRIFT_ALARM = 0.001
# A difference that no reader would call one, however sure many rows make it.
SMALLEST_DRIFT = 0.05
FEWEST_SCORES = 20


def drift_words(counts: ScoreCounts | None, own_nights: int = 0) -> str:
    """What the scores say of the night, in plain words; empty for a night that was not counted.

    `own_nights`: of so many nights of the series are the counts that tonight's stand beside, not of training.
    """
    if counts is None:
        return ""
    who, n, p = (
        ("patients" if counts.unit == "group" else "rows"),
        sum(counts.counted),
        counts.p,
    )
    if p is None or n < FEWEST_SCORES:
        return f"Too few {who} were scored ({n}) to compare tonight's scores with those of training."
    chance = "below 0.001" if p < 0.001 else f"{p:.3f}"
    gap = f"(largest difference of shares {counts.distance:.2f}, p {chance})"
    direction = f"{'higher' if counts.higher else 'lower'} on the whole than"
    if own_nights:
        return f"Tonight's {who} score {direction} those of this series' last {own_nights} nights {gap}."
    training = f"those of training did when they were held out {gap}"
    if not drift_alarms(counts):
        words = (
            f"as {training}: no sign that the patients or the measurements have changed"
        )
    else:
        words = (
            f"{direction} {training}: the patients, the laboratory or the coding may have changed, and the "
            "validation estimates may not hold"
        )
    return f"Tonight's {who} score {words}."


def drift_alarms(counts: ScoreCounts) -> bool:
    """Whether scores differ from those of training by more than chance, and by more than a trifle."""
    if (
        counts.p is None
        or counts.distance is None
        or sum(counts.counted) < FEWEST_SCORES
    ):
        return False
    return counts.p <= DRIFT_ALARM and counts.distance >= SMALLEST_DRIFT


def drift_reason(counts: ScoreCounts | None, own_nights: int = 0) -> Reason | None:
    """Why the night deserves attention; None where its scores are like those of training."""
    if counts is None or not drift_alarms(counts):
        return None
    remedy = (
        "Ask the source what has changed since: the patients, the laboratory or the coding."
        if own_nights
        else "Compare the columns with training under Data, and ask the source what has changed; if the "
        "patients are other ones now, train again."
    )
    words = drift_words(counts, own_nights)
    return Reason("scores_differ", words, None, counts.p, DRIFT_ALARM, remedy)
