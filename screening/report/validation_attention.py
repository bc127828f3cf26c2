"""Reasons why a validation in another place needs attention."""

from __future__ import annotations

from collections.abc import Iterator

from screening.metrics.figures import FIGURES, SHARE, gain
from screening.report import format as fmt
from screening.schemas import reasons
from screening.schemas.base import Estimate, Reason
from screening.schemas.comparison import ExternalValidation
from screening.schemas.validation import Calibration, OperatingPointFacts


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
    """Yield the measures of an operating point that are significantly worse here."""
    here = validation.classes[point.label]
    summary = validation.figures.summary[point.label]
    observed = {**summary.figures, **point.figures}
    promised = dict(here.promise.figures)
    if point.lesions is not None and here.promise.lesions is not None:
        observed["lesions"] = point.lesions.sensitivity
        promised["lesions"] = here.promise.lesions.sensitivity
    for name, difference in here.differences.items():
        seen = observed[name].value
        expected = promised[name].value
        if not gain(name, difference).is_below(0):
            continue
        if seen is None or expected is None:
            continue
        figure = FIGURES.get(name)
        form = SHARE if figure is None else figure.form
        spec = ".0%" if form.percent == "everywhere" else f".{form.decimals}f"
        yield reasons.PROMISE_NOT_KEPT(
            figure=seen,
            threshold=expected,
            measure="Share of lesions found" if figure is None else figure.title,
            of_class=fmt.of_class(validation.model, point.label),
            here=format(seen, spec),
            promised=format(expected, spec),
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
