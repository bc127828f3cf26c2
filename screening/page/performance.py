"""How a model was judged, where a table is not enough: lesions, removed support vectors, order of classes."""

from __future__ import annotations

from screening.documents.model import ModelDocument
from screening.page import format as shown
from screening.page.charts import Axes


def score_places(model: ModelDocument, others: list[float]) -> int:
    """Return the decimals with which every score and threshold of the page is shown."""
    return max(shown.decimals([*others, *(point.threshold for point in model.points)]), 3)


def rarest_first(model: ModelDocument) -> list[int]:
    """Return the places of the classes in the confusion matrix, rare classes first; none without a matrix."""
    found = model.validation.confusion
    if found is None:
        return []
    return sorted(range(len(found.classes)), key=lambda i: (sum(found.counts[i]), found.classes[i]))


def froc(model: ModelDocument) -> Axes | None:
    """The FROC curve; None where the operating point is none by lesions."""
    facts = model.points[0].lesions
    if facts is None:
        return None
    curve = facts.froc
    # Far right of the threshold in use nobody reads; the table has the rest.
    most = max(min(max(curve.false_positives), 4 * facts.false_positives), 1.0)
    drawn = [place for place, false in enumerate(curve.false_positives) if false <= most]
    axes = Axes(
        name="froc", x=(0.0, most), y=(0.0, 1.0), x_label="false clusters a patient", y_label="lesions found",
        margins=(16, 24, 46, 66),
    )  # fmt: skip
    axes.line(
        [curve.false_positives[place] for place in drawn],
        [curve.sensitivity[place] for place in drawn],
        "first",
    )
    axes.mark(facts.false_positives, 1 - facts.missed / facts.n_lesions, "validated", "threshold in use")
    return axes


def pruning_chart(model: ModelDocument) -> Axes | None:
    """Return the chart of the last pass's removals, or None where nothing was removed."""
    passes = model.machine.passes
    steps = passes[-1].get("pruning_path") if passes else None
    if not isinstance(steps, list | tuple) or not steps:
        return None
    numbers = list(range(1, len(steps) + 1))
    accuracy, error = [step[2] for step in steps], [step[3] for step in steps]
    axes = Axes(
        name="pruning", x=(0.0, float(len(steps))), y=(0.0, 1.0), x_label="support vectors removed",
        y_label="training rows", height=240, title="Support vectors removed",
        description=(
            f"{shown.plural(len(steps), 'support vector')} of the larger class removed. On training rows, "
            f"the rarer class found went from {shown.percent(accuracy[0])} after the first to "
            f"{shown.percent(accuracy[-1])}, the larger class flagged from {shown.percent(error[0])} to "
            f"{shown.percent(error[-1])}."
        ),
    )  # fmt: skip
    axes.line(numbers, accuracy, "first", "rare found")
    axes.line(numbers, error, "second", "false flags")
    return axes
