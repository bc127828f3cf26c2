"""Whether a model is useful here: the verdict, one picture, and the methods beside it on the same folds."""

from __future__ import annotations

from collections.abc import Mapping

from screening.documents.model import ModelDocument
from screening.documents.usefulness import best_other, flags_of, usefulness_of
from screening.documents.validation import Beside, OperatingPointFacts
from screening.page import format as shown
from screening.page.charts import Axes
from screening.page.tradeoff import Curve

ROUND = [step * 10**power for power in range(1, 8) for step in (1, 2, 5)]


def usefulness(model: ModelDocument) -> dict[str, object]:
    """Return the verdict with its reasons, the best other method, and a picture of a single class."""
    one = model.points[0] if len(model.points) == 1 else None
    return {
        "verdict": usefulness_of(model),
        "other": best_other(model.validation.comparison),
        "other_at": _other_at(model, one) if one else None,
        "picture": _picture(model, one) if one else None,
    }


def _other_at(model: ModelDocument, point: OperatingPointFacts) -> tuple[float, float] | None:
    """Flags per 100 rows of the best other method at the prevalence in use, and its sensitivity."""
    other = best_other(model.validation.comparison)
    sensitivity, specificity = (
        (other.figures or {}).get(name) if other else None for name in ("sensitivity", "specificity")
    )
    if sensitivity is None or specificity is None:
        return None
    return 100 * flags_of(point, sensitivity, specificity), sensitivity


def _picture(model: ModelDocument, point: OperatingPointFacts) -> Axes | None:
    """Sensitivity against flags, with the threshold in use, the best other method, and the capacity."""
    curve = Curve(model.validation.curves[point.label])
    rates = curve.columns["flag_rate"]
    # Capacity counts reviews, which are of patients where rows come in groups.
    capacity = None if model.validation.grouped else model.stated.capacity
    if point.flag_rate is None or point.sensitivity is None:
        return None
    axes = Axes(
        name="useful", x=(0, 100), y=(0, 1), x_label="flags per 100 rows",
        y_label="cases found (sensitivity)", height=330, margins=(52 if capacity else 16, 24, 46, 66),
    )  # fmt: skip
    flags = 100 * rates
    low, high = curve.columns["sensitivity_low"], curve.columns["sensitivity_high"]
    axes.band(flags, low, high, "first")
    axes.line([0, 100], [0, 1], "chance")
    axes.line(flags, curve.columns["sensitivity"], "first")
    if capacity is not None:
        size = min(ROUND, key=lambda rows: abs(capacity / rows - (point.flag_rate or 0)))
        axes.upright(100 * capacity / size, "capacity", f"capacity, night of {shown.count(size)} rows")
        axes.second_axis(
            f"rows a night for which {shown.plural(capacity, 'review')} are enough",
            lambda x: shown.count(100 * capacity / x) if x else "any",
        )
    axes.mark(100 * point.flag_rate, point.sensitivity, "validated", "validated threshold")
    at, other = _other_at(model, point), best_other(model.validation.comparison)
    if at and other:
        axes.dot(*at, "other")
        axes.note(*at, "second", shown.name(other.recipe))
    return axes


FIGURES = {
    "auroc": "AUROC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "macro_recall": "Mean recall",
}


def beside(model: ModelDocument) -> dict[str, object] | None:
    """Return what stands beside other methods: figures, and in which the method is shown to differ."""
    found = model.validation.comparison
    if found is None:
        return None
    columns = {name: title for name, title in FIGURES.items() if found.figures.get(name) is not None}
    trained = [other for other in found.beside if other.reason is None]
    return {
        "columns": columns,
        "rows": [(other, *_differing(other, columns)) for other in trained],
        "failed": [other for other in found.beside if other.reason is not None],
    }


def _differing(other: Beside, columns: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The figures that their intervals show to be higher than another method's, and those shown lower."""
    gaps = [(title, (other.differences or {}).get(name)) for name, title in columns.items()]
    higher = [title for title, gap in gaps if gap and gap.low is not None and gap.low > 0]
    lower = [title for title, gap in gaps if gap and gap.high is not None and gap.high < 0]
    return higher, lower
