"""What pruning did: both classes' errors on the training rows, one support vector after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from screening.documents.reading import sequence
from screening.page import format as shown
from screening.page.charts import Axes


def pruning_chart(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of the last pass's removals, or None where nothing was removed."""
    passes = [one for one in sequence(model, "machine", "passes") if isinstance(one, Mapping)]
    steps = [step for step in sequence(passes[-1], "pruning_path") if _whole(step)] if passes else []
    if not steps:
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
    return axes.drawing()


def _whole(step: Any) -> bool:
    return isinstance(step, (list, tuple)) and len(step) == 4 and all(shown.finite(each) for each in step)
