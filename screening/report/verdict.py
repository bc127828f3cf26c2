"""The verdict on a model: whether local validation supports its use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from screening.metrics.figures import FIGURES, gain
from screening.report import format as fmt
from screening.schemas import reasons
from screening.schemas.base import Estimate, Reason
from screening.schemas.model import ModelDocument
from screening.schemas.validation import Beside, BesideFacts
from screening.spelling import quoted

ModelVerdict = Literal["yes", "not shown", "no"]

UNUSABLE = frozenset(
    kind.code
    for kind in (
        reasons.NOT_BETTER_THAN_CHANCE,
        reasons.FLAGS_EVERYTHING,
        reasons.OWN_CASES_NOT_FLAGGED,
    )
)
"""Codes of reasons not to act on a model."""

UNCERTAIN = frozenset(
    kind.code
    for kind in (reasons.NO_CASE, reasons.TOO_FEW_CASES, reasons.INTERVALS_TOO_WIDE)
)
"""Codes of reasons for which it is unknown whether a model is useful."""

QUESTION = reasons.ANSWER_FIRST.code
ANSWER_FIRST = (
    "Not shown: answer first whether the columns named below are known at the hour of "
    "the night."
)

SENTENCES: dict[ModelVerdict, str] = {
    "yes": "Supported by local validation: its flags are better than chance.",
    "not shown": "Not shown: it may be useful, but local validation does not show that "
    "it is.",
    "no": "No: do not use it as it is.",
}
# Lead of another method in any of `differences_of`, with certainty, from which a model
# should not be used: with very many rows even a thousandth is certain.
MIN_CERTAIN_LEAD = 0.01


@dataclass(frozen=True)
class Usefulness:
    """The verdict on a model.

    Parameters
    ----------
    verdict : {"yes", "not shown", "no"}
    words : str
        The verdict as a sentence.
    against : tuple of Reason
        Reasons for which the verdict is not "yes".
    """

    verdict: ModelVerdict
    words: str
    against: tuple[Reason, ...]


def usefulness_of(model: ModelDocument) -> Usefulness:
    """Return the verdict on a model, from its validation and its `attention`.

    "no" if it must not be acted on, or another method is shown to be better on the same
    folds. "not shown" where a question about a column is open, figures are too
    uncertain, flags are not shown to have a higher PPV than chance, or no other method
    was compared. Else "yes".
    """
    comparison = model.validation.comparison
    other = best_other(comparison)
    against = _reasons_with(UNUSABLE, model) + beaten_by_other(comparison)
    uncertain = _reasons_with(UNCERTAIN, model) + flags_like_chance(model)
    # Without cases no method can be compared.
    if other is None and model.validation.without_cases is None:
        uncertain.append(reasons.NOT_COMPARED())
    questions = _reasons_with({QUESTION}, model)
    if against:
        verdict: ModelVerdict = "no"
    elif uncertain or questions:
        verdict = "not shown"
    else:
        verdict = "yes"
    sentence = SENTENCES[verdict]
    if verdict == "yes" and comparison is not None and other is not None:
        sentence += f" {_comparison_sentence(comparison, other)}"
    if verdict == "not shown" and questions:
        sentence = ANSWER_FIRST
    return Usefulness(verdict, sentence, (*against, *questions, *uncertain))


def _comparison_sentence(comparison: BesideFacts, other: Beside) -> str:
    """Return by which measures the model is better than the best other method.

    Both measures are named, with the difference where it is not shown.
    """
    compared = [each for each in comparison.beside if each.figures]
    which = "the only other method compared"
    if len(compared) > 1:
        which = f"the best of {len(compared)} other methods compared"
    better = _better_measures(other)
    unshown = [
        difference_words(measure, gap)
        for measure, gap in differences_of(other).items()
        if measure not in better
    ]
    measures = " and ".join(map(measure_name, better))
    if better and unshown:
        return (
            f"By {measures} it is better than {other.recipe}, {which}; by "
            f"{' and '.join(unshown)} it is not shown to be."
        )
    if better:
        return f"By {measures} it is better than {other.recipe}, {which}."
    differences = f" Differences: {', '.join(unshown)}." if unshown else ""
    return f"It is not shown to be better than {other.recipe}, {which}.{differences}"


def difference_words(measure: str, gap: Estimate) -> str:
    """Return a measure, and how far the model is ahead of another method in it."""
    if gap.value is None or gap.low is None or gap.high is None:
        return measure_name(measure)
    figure = FIGURES.get(measure)
    is_share = figure is None or figure.form.percent == "everywhere"
    value, low, high = [
        fmt.points(end) if is_share else fmt.signed(end, 3)
        for end in gap.value_and_interval
    ]
    unit = " points" if is_share else ""
    return f"{measure_name(measure)} {value}{unit} (95% CI {low} to {high})"


def _reasons_with(codes: Collection[str], model: ModelDocument) -> list[Reason]:
    """Return the reasons for attention of a model that have one of some codes."""
    return [reason for reason in model.attention if reason.code in codes]


def best_other(comparison: BesideFacts | None) -> Beside | None:
    """Return the other method with the highest sensitivity + specificity, if any."""
    if comparison is None:
        return None
    compared = [other for other in comparison.beside if other.figures]
    return max(compared, key=_sensitivity_plus_specificity, default=None)


def _sensitivity_plus_specificity(other: Beside) -> float:
    sensitivity = other.figure("sensitivity").value or 0.0
    specificity = other.figure("specificity").value or 0.0
    return sensitivity + specificity


def differences_of(other: Beside) -> dict[str, Estimate]:
    """Return how far the model is ahead of another method, by measure.

    Sensitivity and specificity are added, estimates and ends of their intervals alike:
    other cases would have moved the thresholds and traded the one for the other.
    """
    differences = dict(other.differences)
    sensitivity = differences.pop("sensitivity", None)
    specificity = differences.pop("specificity", None)
    both = [gap.value_and_interval for gap in (sensitivity, specificity) if gap]
    if both and not any(None in ends for ends in both):
        sums = map(sum, zip(*both, strict=True))
        differences["sensitivity + specificity"] = Estimate(*sums)
    return differences


def _better_measures(other: Beside) -> list[str]:
    """Return the measures in which the model is significantly better than another."""
    gaps = differences_of(other)
    return [measure for measure, gap in gaps.items() if gain(measure, gap).is_above(0)]


def beaten_by_other(comparison: BesideFacts | None) -> list[Reason]:
    """Return the reason that another method is significantly better, if one is."""
    other = best_other(comparison)
    if other is None or _better_measures(other):
        return []
    worse = [
        measure
        for measure, gap in differences_of(other).items()
        if gain(measure, gap).is_below(-MIN_CERTAIN_LEAD)
    ]
    if not worse:
        return []
    measures = " and ".join(map(measure_name, worse))
    another = reasons.ANOTHER_IS_BETTER(
        other=other.recipe,
        measures=measures,
        option=quoted("--recipe", other.recipe),
    )
    return [another]


def measure_name(measure: str) -> str:
    """Return the name of a measure as the page writes it."""
    if measure in FIGURES:
        return fmt.in_sentence(FIGURES[measure])
    return measure.replace("_", " ")


def approval_words(model: ModelDocument) -> list[str]:
    """Return the options that an approval of a model needs, with words in capitals."""
    words = ["--by", "NAME"]
    if model.unanswered:
        words += ["--known-before", "COLUMNS"]
    draft = model.replace(approval=None)
    if usefulness_of(draft).verdict == "no":
        words += ["--reason", "WHY"]
    return words


def unfit_for_use(attention: Iterable[Reason]) -> list[Reason]:
    """Return the reason that the verdict is "no", if one of these reasons makes it."""
    decisive = UNUSABLE | {reasons.ANOTHER_IS_BETTER.code}
    if any(reason.code in decisive for reason in attention):
        return [reasons.NOT_FIT_FOR_USE()]
    return []


def flags_like_chance(model: ModelDocument) -> list[Reason]:
    """Return a reason for each class with a PPV that may not exceed its prevalence."""
    if model.validation.without_cases is not None:
        return []
    attention = []
    for point in model.points:
        low = point["ppv"].low
        prevalence = point.prevalence
        if low is None or prevalence is None or point.flags_everything:
            continue
        if low <= prevalence:
            attention.append(
                reasons.FLAGS_LIKE_CHANCE(
                    figure=low,
                    threshold=prevalence,
                    of_class=fmt.of_class(model, point.label),
                    low=100 * low,
                    prevalence=100 * prevalence,
                )
            )
    return attention
