"""How rows of known class were called, class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from screening.statistics.intervals import wilson


def per_class(target: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...]) -> dict[str, Any]:
    """Confusion counts (true class by row), and recall with precision a class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (target, predicted), 1)
    rows = []
    for m, name in enumerate(classes):
        n, hits, called = int(counts[m].sum()), int(counts[m, m]), int(counts[:, m].sum())
        low, high = map(float, wilson(hits, n)) if n else (None, None)
        rows.append(
            {
                "class": name,
                "n": n,
                "recall": hits / n if n else None,
                "recall_low": low,
                "recall_high": high,
                "precision": hits / called if called else None,
            }
        )
    return {"confusion": {"classes": list(classes), "counts": counts.tolist()}, "per_class": rows}
