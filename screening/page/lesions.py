"""An operating point by lesions: what it promises, and the curve of lesions found against false clusters."""

from __future__ import annotations

from screening.documents.model import ModelDocument
from screening.documents.validation import LesionFacts
from screening.page import format as shown
from screening.page.charts import Axes

TOUCHING = {26: "voxels that share a face, an edge or a corner touch (26-connectivity)"}


def sentence(facts: LesionFacts) -> str:
    """Say in one sentence what a reader of the images may expect."""
    limits = shown.interval(facts.sensitivity_low, facts.sensitivity_high).replace("%", "")
    return (
        f"Expect it to find about {round(100 * facts.sensitivity)} of 100 lesions (95% interval {limits}), "
        f"and to flag about {facts.false_positives:.1f} false clusters a patient "
        f"({facts.false_positives_low:.1f} to {facts.false_positives_high:.1f})."
    )


def rule(facts: LesionFacts) -> str:
    """The rule that chose the threshold, in words."""
    return f"at least {facts.asked:.0%} of lesions found, with the fewest false clusters"


def words(facts: LesionFacts) -> str:
    """What is done to a patient's map of scores, and on whom the figures rest."""
    smoothing = (
        f"smoothed within the mask (Gaussian, sd {facts.smoothing:g} voxels)"
        if facts.smoothing
        else "not smoothed"
    )
    size = (
        f"clusters of fewer than {facts.min_voxels} voxels do not count"
        if facts.min_voxels > 1
        else "clusters of any size count"
    )
    return (
        f"A patient's scores are {smoothing}, and {size}; "
        f"{TOUCHING[facts.connectivity]}. A lesion is found where a flagged voxel lies in it; a false "
        f"cluster touches none. From {shown.plural(facts.n_lesions, 'lesion')} in "
        f"{shown.plural(facts.n_patients, 'patient')}, each scored whole by a model that had not seen it; "
        f"{facts.missed} missed. The best of {facts.n_settings} ways to smooth and to leave out. "
        "The figures below are of single voxels."
    )


def froc(model: ModelDocument) -> dict[str, object] | None:
    """The FROC curve and its table; None where the operating point is none by lesions."""
    facts = model.points[0].lesions
    if facts is None:
        return None
    curve = facts.froc
    # Far right of the threshold in use nobody reads; the table has the rest.
    most = max(min(max(curve.false_positives), 4 * facts.false_positives), 1.0)
    drawn = [place for place, false in enumerate(curve.false_positives) if false <= most]
    share = 1 - facts.missed / facts.n_lesions
    axes = Axes(
        name="froc",
        title="Lesions found against false clusters a patient",
        description=(
            f"FROC curve of patients held out: {share:.0%} of {facts.n_lesions} lesions found at "
            f"{facts.false_positives:.1f} false clusters a patient, the threshold in use; the table below "
            "has the other thresholds."
        ),
        x=(0.0, most),
        y=(0.0, 1.0),
        x_label="false clusters a patient",
        y_label="lesions found",
        margins=(16, 24, 46, 66),
    )
    axes.line(
        [curve.false_positives[place] for place in drawn],
        [curve.sensitivity[place] for place in drawn],
        "first",
    )
    axes.mark(facts.false_positives, share, "validated", "threshold in use")
    return {
        "chart": axes,
        "rows": [
            {
                "threshold": shown.fixed(threshold, 3),
                "sensitivity": shown.percent(found),
                "false": f"{false:.1f}",
                "chosen": threshold == model.points[0].threshold,
            }
            for threshold, found, false in zip(
                curve.threshold, curve.sensitivity, curve.false_positives, strict=True
            )
        ],
    }
