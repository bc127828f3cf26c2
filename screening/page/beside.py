"""The method beside what a user would pick instead, on the same folds: figures, differences, and words."""

from __future__ import annotations

from dataclasses import dataclass

from screening.documents.beside import Beside, Difference
from screening.documents.model import ModelDocument
from screening.page import format as shown

FIGURES = {
    "auroc": "AUROC",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "macro_recall": "Mean recall",
}

UNKNOWN = Difference(difference=None, low=None, high=None)


@dataclass(frozen=True)
class Cell:
    """A figure of another method, and how far the method's own lies above it."""

    value: str
    gap: str
    interval: str


@dataclass(frozen=True)
class Row:
    """Another method: its figures, and in which of them the method is better or worse."""

    name: str
    title: str
    cells: list[Cell]
    words: str
    better: list[str]
    worse: list[str]


def beside(model: ModelDocument) -> dict[str, object] | None:
    """Return the comparison with other methods; None where training made none."""
    found = model.validation.comparison
    if found is None:
        return None
    own = {name: found.figures[name] for name in FIGURES if found.figures.get(name) is not None}
    rows = [_row(other, list(own)) for other in found.beside if other.reason is None]
    method = shown.name(model.recipe.name)
    return {
        "method": method,
        "columns": [FIGURES[name] for name in own],
        "own": [_value(name, value) for name, value in own.items()],
        "rows": rows,
        "said": [_sentence(row, method) for row in rows],
        "failed": [
            (shown.name(other.recipe), shown.text(other.reason, 300).rstrip("."))
            for other in found.beside
            if other.reason is not None
        ],
        "rule": shown.rule(found.rule),
        "watched": model.multi and found.n_watched > 1,
        "grouped": model.validation.grouped,
    }


def _row(other: Beside, names: list[str]) -> Row:
    assert other.figures is not None and other.differences is not None, "it was trained, so it has both"
    gaps = {name: other.differences.get(name, UNKNOWN) for name in names}
    better = [FIGURES[name] for name, gap in gaps.items() if gap.low is not None and gap.low > 0]
    worse = [FIGURES[name] for name, gap in gaps.items() if gap.high is not None and gap.high < 0]
    return Row(
        name=shown.name(other.recipe),
        title=shown.text(other.title, 200),
        cells=[
            Cell(_value(name, other.figures[name]), _signed(name, gap.difference), _ends(name, gap))
            for name, gap in gaps.items()
        ],
        words=_words(better, worse),
        better=better,
        worse=worse,
    )


def _words(better: list[str], worse: list[str]) -> str:
    """Say what the intervals show, and nothing where they hold zero."""
    said = [f"{', '.join(names)} {words}" for names, words in ((better, "higher"), (worse, "lower")) if names]
    return "; ".join(said) or "no difference shown"


def _sentence(row: Row, own: str) -> str:
    if not row.better and not row.worse:
        return f"beside {row.name}, these patients show no difference"
    return f"beside {row.name}, {own} has {_listed(row)}"


def _listed(row: Row) -> str:
    ends = (("a higher", row.better), ("a lower", row.worse))
    return " and ".join(f"{words} {name}" for words, names in ends for name in map(_in_a_sentence, names))


def _in_a_sentence(name: str) -> str:
    return name if name.isupper() else name.lower()


def _value(name: str, value: float | None) -> str:
    return shown.fixed(value, 2) if name == "auroc" else shown.percent(value)


def _signed(name: str, gap: float | None) -> str:
    """Return a difference with its sign: AUROC with three decimals, shares in percentage points."""
    return shown.signed(gap, 3) if name == "auroc" else shown.points(gap)


def _ends(name: str, gap: Difference) -> str:
    if gap.low is None or gap.high is None:
        return ""
    return f"{_signed(name, gap.low)} to {_signed(name, gap.high)}"
