"""Reasons why a model needs attention, from its document and its age."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from screening.report import format as fmt
from screening.report.verdict import beaten_by_other, flags_like_chance, unfit_for_use
from screening.schemas import reasons
from screening.schemas.base import UNDEFINED, Reason
from screening.schemas.model import ModelDocument
from screening.schemas.validation import OperatingPointFacts

MIN_CASES = 30
AUROC_OF_CHANCE = 0.5
MAX_WIDTH_OF_SENSITIVITY = 0.3
"""Width of the 95 % interval of sensitivity from which on it says too little."""
MIN_SPECIFICITY = 0.05
"""Upper end of specificity below which a threshold flags nearly everybody."""
MAX_AGE_YEARS = 2
"""Years after the last patient, or training, until a review where no date is set."""
DAYS_A_YEAR = 365.25
# Codes of reasons that only training can see.
OF_TRAINING = (
    reasons.IDS_ARE_ROW_NUMBERS.code,
    reasons.ROWS_OF_ONE_PATIENT.code,
    reasons.PLUGIN_LEFT_OUT.code,
)


def attention_of_model(model: ModelDocument) -> list[Reason]:
    """Return reasons to distrust a model, for the person who trained it."""
    attention = _reasons_of_figures(model)
    if model.approval is None or not model.approval.reason:
        # Until the model is approved with a reason.
        attention += beaten_by_other(model.validation.comparison)
        attention += unfit_for_use(attention)
        attention += flags_like_chance(model)
    attention += [
        reasons.ANSWER_FIRST(column=leak.column, figure=leak.figure, sign=leak.said)
        for leak in model.open_questions
    ]
    return attention


def with_attention(document: ModelDocument) -> ModelDocument:
    """Return the document with its reasons for attention.

    Those that only training can see stay as training wrote them.
    """
    kept = [reason for reason in document.attention if reason.code in OF_TRAINING]
    return document.replace(attention=[*attention_of_model(document), *kept])


def _reasons_of_figures(model: ModelDocument) -> list[Reason]:
    """Return reasons in a model's own figures: cases, operating points and ranking."""
    attention = []
    last_day = _parse_day(model.retrain_by)
    if last_day is not None:
        attention.append(reasons.TO_BE_TRAINED_AGAIN(day=last_day))
    for point in model.points:
        of_class = fmt.of_class(model, point.label)
        if point.n_positive == 0:
            attention.append(reasons.NO_CASE(of_class=of_class))
        elif point.n_positive < MIN_CASES:
            attention.append(
                reasons.TOO_FEW_CASES(
                    figure=point.n_positive,
                    threshold=MIN_CASES,
                    cases=fmt.plural(point.n_positive, "case"),
                    of_class=of_class,
                )
            )
        # With too few cases for folds, nothing is known about the model either way.
        if model.validation.without_cases is None:
            attention += _reasons_of_point(point, of_class)
            attention += _reasons_of_ranking(model, point.label, of_class)
    return attention


def _reasons_of_point(point: OperatingPointFacts, of_class: str) -> Iterator[Reason]:
    """Yield reasons about one operating point, the most serious alone."""
    specificity = point["specificity"]
    sensitivity, low, high = point["sensitivity"].value_and_interval
    if point.flags_everything:
        yield reasons.FLAGS_EVERYTHING(
            description=f"No threshold meets the rule for {point.label}: every row is "
            "flagged, so flags are not informative.",
            more="more cases",
        )
    elif specificity.is_below(MIN_SPECIFICITY):
        yield reasons.FLAGS_EVERYTHING(
            figure=specificity.high,
            threshold=MIN_SPECIFICITY,
            description=f"The threshold for {point.label} flags nearly every row, "
            "cases or not, so a flag is not informative.",
            more="more informative columns",
        )
    elif sensitivity == 0:
        yield reasons.OWN_CASES_NOT_FLAGGED(
            figure=0.0, threshold=0.0, label=point.label
        )
    elif None not in (low, high) and high - low > MAX_WIDTH_OF_SENSITIVITY:
        yield reasons.INTERVALS_TOO_WIDE(
            figure=high - low,
            threshold=MAX_WIDTH_OF_SENSITIVITY,
            of_class=of_class,
            low=low,
            high=high,
        )


def _reasons_of_ranking(
    model: ModelDocument, label: str, of_class: str
) -> Iterator[Reason]:
    """Yield why a ranking is of no use: it is inverted, or may be chance."""
    summary = model.validation.summary.get(label)
    area = summary["auroc"] if summary else UNDEFINED
    if area.low is None or area.is_above(AUROC_OF_CHANCE):
        return
    estimate = "" if area.value is None else f" (AUROC {area.value:.2f})"
    if area.is_below(AUROC_OF_CHANCE) and model.recipe.machine == "given":
        is_worse = model.stated.higher == "worse"
        yield reasons.SCORE_INVERTED(
            figure=area.value,
            threshold=AUROC_OF_CHANCE,
            estimate=estimate,
            higher="better" if is_worse else "worse",
        )
    yield reasons.NOT_BETTER_THAN_CHANCE(
        figure=area.low,
        threshold=AUROC_OF_CHANCE,
        of_class=of_class,
        estimate=estimate,
    )


def review_due(
    model: ModelDocument, trained: datetime.datetime | None = None
) -> datetime.date | None:
    """Return the day after which every night asks for a review of a model.

    Parameters
    ----------
    model : ModelDocument
    trained : datetime, optional
        When it was trained; used where its contract and its rows have no date.

    Returns
    -------
    date or None
        None if the model's age is unknown.
    """
    stated = _parse_day(model.stated.review_by)
    if stated is not None:
        return stated
    since = _day_of_last_row(model) or (trained.date() if trained else None)
    if since is None:
        return None
    return since + datetime.timedelta(days=int(MAX_AGE_YEARS * DAYS_A_YEAR))


def reasons_of_age(
    model: ModelDocument, night: str, trained: datetime.datetime | None
) -> Iterator[Reason]:
    """Yield the reason that a model is past its review on a night.

    Parameters
    ----------
    model : ModelDocument
    night : str
        YYYY-MM-DD.
    trained : datetime or None
        As for `review_due`.
    """
    date = _parse_day(night)
    due = review_due(model, trained)
    if date is None or due is None or date <= due:
        return
    if _parse_day(model.stated.review_by):
        yield reasons.PAST_REVIEW_DATE(
            figure=float((date - due).days),
            threshold=0.0,
            description=f"This model was to be reviewed by {due}.",
        )
        return
    last_row = _day_of_last_row(model)
    if last_row:
        since = last_row
        origin = "its last training row is from"
    else:
        since = trained.date() if trained else date
        origin = "it was trained on"
    years = (date - since).days / DAYS_A_YEAR
    yield reasons.PAST_REVIEW_DATE(
        figure=years,
        threshold=MAX_AGE_YEARS,
        description=f"This model is {years:.1f} years old: {origin} {since}, and no "
        "review date is set.",
    )


def _day_of_last_row(model: ModelDocument) -> datetime.date | None:
    """Return the day of the last training row, where the contract names a time."""
    window = model.training.window
    return _parse_day(window[1]) if window else None


def _parse_day(value: str | None) -> datetime.date | None:
    """Parse an ISO date; None for None and other texts."""
    try:
        return datetime.date.fromisoformat(value or "")
    except ValueError:
        return None
