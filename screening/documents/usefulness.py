"""Would this model be useful here? Decided from held-out figures, beside other methods and the capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from screening.documents.base import Reason
from screening.documents.model import ModelDocument
from screening.documents.validation import Beside, BesideFacts, OperatingPointFacts

Verdict = Literal["yes", "not shown", "no"]

USELESS = ("not_better_than_chance", "flags_everything", "own_cases_not_flagged")
"""What attention says of a model that nobody should act on."""

UNSURE = ("too_few_cases", "intervals_too_wide")
"""What attention says of one that may be useful, only nobody knows yet."""

SENTENCES: dict[Verdict, str] = {
    "yes": "Supported by local validation: its flags beat chance, and the best other method tried.",
    "not shown": "Not shown: it may be useful, but local validation does not show that it is.",
    "no": "No: do not put it to use as it is.",
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
    found = model.validation.comparison
    other = best_other(found)
    useless = [each for each in model.attention if each.code in USELESS]
    unsure = [each for each in model.attention if each.code in UNSURE]
    worse = [*beaten(found)]
    unsure += [*flags_like_chance(model), *_not_compared(other)]
    verdict: Verdict = "no" if useless or worse else "not shown" if unsure else "yes"
    words = SENTENCES[verdict]
    if verdict == "yes" and other is not None and not _better(other):
        words = f"Supported by local validation, but it is not shown to be better than {other.recipe}."
    return Usefulness(verdict, words, (*useless, *worse, *unsure))


def best_other(found: BesideFacts | None) -> Beside | None:
    """The best of the other methods at its own threshold: sensitivity and specificity together."""
    tried = [each for each in found.beside if each.figures is not None] if found else []
    return max(tried, key=_worth, default=None)


def flags_of(point: OperatingPointFacts, sensitivity: float, specificity: float) -> float:
    """Share flagged at the prevalence in use."""
    return point.prevalence * sensitivity + (1 - point.prevalence) * (1 - specificity)


def _worth(other: Beside) -> float:
    figures = other.figures or {}
    return (figures.get("sensitivity") or 0.0) + (figures.get("specificity") or 0.0)


def _better(other: Beside) -> list[str]:
    """The figures of which an interval says that the method's own is higher."""
    return [name for name, gap in (other.differences or {}).items() if gap.low is not None and gap.low > 0]


def beaten(found: BesideFacts | None) -> Iterator[Reason]:
    """That the best of the other methods is shown to be better, where it is."""
    other = best_other(found)
    gaps = {} if other is None else dict(other.differences or {})
    lower = [name for name, gap in gaps.items() if gap.high is not None and gap.high < 0]
    if other is not None and lower and not _better(other):
        words = f"{other.recipe} is better on the same folds: this method has a lower {_listed(lower)}."
        yield Reason("another_is_better", words, remedy=f"Train with --recipe {other.recipe}.")


def _not_compared(other: Beside | None) -> Iterator[Reason]:
    if other is None:
        yield Reason(
            "not_compared",
            "No other method was trained on the same folds, so what a simpler one does is not known.",
            remedy="Train with --beside logistic,random_forest.",
        )


def unfit(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """The verdict "no" itself, where any of these reasons makes it."""
    if any(each.code in (*USELESS, "another_is_better") for each in reasons):
        words = "Not fit for use as it is, by its own validation."
        yield Reason(
            "not_fit_for_use", words,
            remedy="Train another, or answer for it: screen approve MODEL --by NAME --reason TEXT.",
        )  # fmt: skip


def flags_like_chance(model: ModelDocument) -> Iterator[Reason]:
    """That flags are not shown to hit more often than chance, of each class where that is so."""
    for point in model.points:
        if point.ppv.low is not None and point.ppv.low <= point.prevalence and not point.flags_everything:
            words = (
                f"Flags{_which(model, point)} are not shown to hit more often than chance: of the "
                f"flagged {_percent(point.ppv.low)} or more are cases, of all {_percent(point.prevalence)}."
            )
            yield Reason("flags_like_chance", words, None, point.ppv.low, point.prevalence)


def _which(model: ModelDocument, point: OperatingPointFacts) -> str:
    return f" of {point.label}" if model.multi else ""


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.3g}%"


def _listed(names: list[str]) -> str:
    return " and ".join(name.upper() if name == "auroc" else name.replace("_", " ") for name in names)
