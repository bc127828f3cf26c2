"""A small cohort whose methods are compared, and made outcomes of methods."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import default_rng

from screening import (
    GMean,
    Threshold,
    read_cohort,
)
from screening.metrics.operating_point import choose
from screening.model_selection.judge import Judgement
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import Task

BINARY_TASK = Task(
    kind="binary",
    label="ill",
    positive=["yes"],
    classes=["negative", "yes"],
    watched=["yes"],
)


def outcome(scores, positive, groups=None, threshold=0.5, rule=None) -> Judgement:
    scores = np.asarray(scores, float)[:, None]
    held = HeldOutScores.of_decisions(
        scores[None],
        BINARY_TASK,
        np.asarray(positive, int),
        groups,
        (),
        np.arange(len(scores)) % 5,
    )
    rule = rule or Threshold(threshold)
    point = choose(scores[:, 0], positive, rule)
    return Judgement(held, [point], seed=0)


QUICK = {
    "folds": 3,
    "search": 2,
    "jobs": 1,
    "rule": GMean(),
}


def table(n_rows: int, seed: int, classes: int = 2) -> pd.DataFrame:
    rng = default_rng(seed)
    code = np.arange(n_rows) % 5
    if classes == 2:
        code = (code == 0).astype(int)
    else:
        code = code % 3
    labels = np.array(["no", "yes", "perhaps"])
    return pd.DataFrame(
        {
            "number": [f"p{i}" for i in range(n_rows)],
            "age": rng.normal(50, 8, n_rows) + 9 * code,
            "crp": rng.normal(5, 2, n_rows),
            "case": labels[code],
        }
    )


def cohort(folder: Path, name: str, **options):
    return read_cohort(
        str(folder / f"{name}.csv"),
        label="case",
        id="number",
        need_label=True,
        **options,
    )
