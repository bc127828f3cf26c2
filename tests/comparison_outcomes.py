"""Outcomes of a method for tests of comparisons."""

import numpy as np

from screening.metrics.operating_point import choose
from screening.model_selection.judge import Judgement
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import Task
from screening.schemas.figures import Threshold

BINARY_TASK = Task(kind="binary", label="ill", positive=["yes"], classes=["negative", "yes"], watched=["yes"])


def outcome(scores, positive, groups=None, threshold=0.5, rule=None) -> Judgement:
    scores = np.asarray(scores, float)[:, None]
    held = HeldOutScores.of_decisions(
        scores[None], BINARY_TASK, np.asarray(positive, int), groups, (), np.arange(len(scores)) % 5
    )
    rule = rule or Threshold(threshold)
    point = choose(scores[:, 0], positive, rule)
    return Judgement(held, [rule], [point], seed=0)
