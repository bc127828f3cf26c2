"""Made-up scores with their labels, independent or of groups."""

import numpy as np


def labelled(n_rows: int = 300, share: float = 0.1, shift: float = 1.5, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) < share * n_rows
    return rng.normal(size=n_rows) + shift * y, y


def grouped(n_groups: int = 15, rows: int = 20, seed: int = 0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), rows)
    y = rng.random(len(group)) < 0.2
    return rng.normal(size=len(group)) + 2 * y + rng.normal(size=n_groups)[group], y, group
