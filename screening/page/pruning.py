"""What pruning did: both classes' errors on the training rows, one support vector after another."""

from __future__ import annotations

from screening.documents.model import ModelDocument
from screening.page import format as shown
from screening.page.charts import Axes


def pruning_chart(model: ModelDocument) -> Axes | None:
    """Return the chart of the last pass's removals, or None where nothing was removed."""
    passes = model.machine.passes
    steps = passes[-1].get("pruning_path") if passes else None
    if not isinstance(steps, list | tuple) or not steps:
        return None
    numbers = list(range(1, len(steps) + 1))
    accuracy, error = [step[2] for step in steps], [step[3] for step in steps]
    axes = Axes(
        name="pruning",
        title="Support vectors removed",
        description=(
            f"{shown.plural(len(steps), 'support vector')} of the larger class removed. On training rows, "
            f"the rarer class found went from {shown.percent(accuracy[0])} after the first to "
            f"{shown.percent(accuracy[-1])}, the larger class flagged from {shown.percent(error[0])} to "
            f"{shown.percent(error[-1])}."
        ),
        x=(0.0, float(len(steps))),
        y=(0.0, 1.0),
        x_label="support vectors removed",
        y_label="training rows",
        height=240,
    )
    axes.line(numbers, accuracy, "first", "rare found")
    axes.line(numbers, error, "second", "false flags")
    return axes
