"""How rows of known class were called, class by class."""

from __future__ import annotations

import numpy as np

from screening.documents.validation import Confusion, PerClass
from screening.statistics.intervals import wilson


def per_class(
    target: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...]
) -> tuple[Confusion, list[PerClass]]:
    """Counts, true class by row, and recall with precision a class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (target, predicted), 1)
    rows = []
    for m, name in enumerate(classes):
        n, hits, called = int(counts[m].sum()), int(counts[m, m]), int(counts[:, m].sum())
        low, high = map(float, wilson(hits, n)) if n else (None, None)
        rows.append(
            PerClass(
                label=name,
                n=n,
                recall=hits / n if n else None,
                recall_low=low,
                recall_high=high,
                precision=hits / called if called else None,
            )
        )
    return Confusion(classes=list(classes), counts=counts.tolist()), rows
