"""`validation.json`: what a model's fixed thresholds and chances did to a cohort it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from screening.documents.figures import Area, OfRule, OperatingPoint, PredictiveValues, Rates
from screening.documents.model import ModelDocument, SourceFacts
from screening.documents.reason import Reason
from screening.documents.run import RunModel
from screening.documents.shape import document, rare
from screening.documents.validation import Difference, Figures, LesionFacts, OperatingPointFacts


@document
class Promise(OfRule, Area, Rates, PredictiveValues):
    """What validation at training promised; what depends on the share of cases is at this place's."""

    lesions: LesionFacts | None = rare()


@document
class ClassElsewhere:
    """One watched class on the cohort.

    `differences` are what was found minus what was promised (`lesions`: of the share found). `local` is the
    operating point that the model's rule chooses from this cohort's scores, None for `local_reason`.
    """

    promise: Promise
    differences: Mapping[str, Difference]
    local: OperatingPoint | None
    local_reason: str | None = rare()


@document
class ExternalValidation:
    """A model tried on a cohort; figures by watched class, of those classes that the cohort has cases of.

    `operating_points` are the model's thresholds with what they did here; `figures` are of them. `prevalence`
    is what somebody stated for this place; without it the cohort's share of cases stands for it.
    """

    model: RunModel
    source: SourceFacts
    label: str
    positive: Sequence[str]
    prevalence: float | None = rare()
    n_refused: int
    notes: Sequence[str]
    operating_points: Sequence[OperatingPointFacts]
    figures: Figures
    classes: Mapping[str, ClassElsewhere]
    attention: Sequence[Reason]
    command: str | None
    versions: Mapping[str, str]
    format_version: int
    sha256: str

    def __post_init__(self) -> None:
        # A model's document refuses figures of another rule or threshold than its points'.
        assert self.here is not None
        for point in self.operating_points:
            if self.classes[point.label].promise.threshold != point.threshold:
                raise ValueError(f"classes: the promise of {point.label} is of another threshold")

    @cached_property
    def here(self) -> ModelDocument:
        """The model with the figures of this cohort in the place of its own."""
        found = replace(self.model.validation, forward=None, comparison=None, **vars(self.figures))
        return replace(self.model, operating_points=self.operating_points, validation=found, blend=())

    def lines(self) -> list[str]:
        """Promise and finding in a line a class."""
        return [
            f"{point.label}: "
            + ", ".join(
                f"{name} {_percent(getattr(point, name))} (promised {_percent(getattr(one.promise, name))})"
                for name in ("sensitivity", "specificity", "ppv")
            )
            + ("" if point.lesions is None else f", lesions found {_percent(point.lesions.sensitivity)}")
            + ("" if one.local is None else f"; its rule would choose {one.local.threshold:.4g} here")
            for point in self.operating_points
            for one in (self.classes[point.label],)
        ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
