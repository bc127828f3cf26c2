"""Reasons why a validation in another place needs attention."""

from __future__ import annotations

from collections.abc import Iterator

from screening.report import format as fmt
from screening.schemas import reasons
from screening.schemas.base import Estimate, Reason
from screening.schemas.comparison import ExternalValidation
from screening.schemas.validation import Calibration, OperatingPointFacts

MEASURES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "auroc": "AUROC",
    "lesions": "Share of lesions found",
}


def attention_of_validation(validation: ExternalValidation) -> list[Reason]:
    """Return measures that are significantly worse than in the model's own place."""
    attention: list[Reason] = []
    for point in validation.operating_points:
        attention += _promises_not_kept(validation, point)
    for label, calibration in validation.figures.calibration.items():
        faults = _calibration_faults(calibration)
        if not faults:
            continue
        ratio = (calibration.observed_expected or Estimate()).value
        slope = (calibration.slope or Estimate()).value
        figure = slope if ratio is None else ratio
        attention.append(
            reasons.CHANCE_MISFIT(
                figure=figure,
                of_class=fmt.of_class(validation.model, label),
                faults=" and ".join(faults),
            )
        )
    return attention


def _promises_not_kept(
    validation: ExternalValidation, point: OperatingPointFacts
) -> Iterator[Reason]:
    """Yield the measures of an operating point that are significantly lower here."""
    here = validation.classes[point.label]
    pairs = {
        "sensitivity": (point.sensitivity, here.promise.sensitivity),
        "specificity": (point.specificity, here.promise.specificity),
        "auroc": (
            validation.figures.summary[point.label].auroc,
            here.promise.auroc,
        ),
        "lesions": (
            point.lesions.sensitivity if point.lesions else Estimate(),
            here.promise.lesions.sensitivity if here.promise.lesions else Estimate(),
        ),
    }
    for measure, (observed, promised) in pairs.items():
        difference = here.differences.get(measure)
        if difference is None or difference.high is None or difference.high >= 0:
            continue
        if observed.value is None or promised.value is None:
            continue
        form = ".2f" if measure == "auroc" else ".0%"
        yield reasons.PROMISE_NOT_KEPT(
            figure=observed.value,
            threshold=promised.value,
            measure=MEASURES[measure],
            of_class=fmt.of_class(validation.model, point.label),
            here=format(observed.value, form),
            promised=format(promised.value, form),
        )


def _calibration_faults(calibration: Calibration) -> list[str]:
    """Return in which ways chances are shown to be wrong, as parts of a sentence."""
    faults = []
    ratio, low, high = (calibration.observed_expected or Estimate()).value_and_interval
    slope, _, highest_slope = (calibration.slope or Estimate()).value_and_interval
    if ratio is not None and not low <= 1 <= high:
        side = "low" if ratio > 1 else "high"
        faults.append(
            f"are too {side} here: {ratio:.2f} times as many cases were observed as "
            "predicted"
        )
    if highest_slope is not None and highest_slope < 1:
        faults.append(f"are too extreme here (calibration slope {slope:.2f})")
    return faults
