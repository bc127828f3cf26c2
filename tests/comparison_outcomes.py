"""Outcomes of a method for tests of comparisons."""

import numpy as np

from screening.documents.figures import Threshold
from screening.statistics.operating_point import choose
from screening.validation.task import Task
from screening.validation.validation import Outcome, Validation

BINARY_TASK = Task(kind="binary", label="ill", positive=["yes"], classes=["negative", "yes"], watched=["yes"])


def outcome(scores, positive, groups=None, threshold=0.5) -> Outcome:
    """A binary outcome, its rows dealt to five folds in turn."""
    scores = np.asarray(scores, float)[:, None]
    validation = Validation.of_decisions(
        scores[None], BINARY_TASK, np.asarray(positive, int), groups, (), np.arange(len(scores)) % 5
    )
    return Outcome(validation, [choose(scores[:, 0], positive, Threshold(threshold))])
