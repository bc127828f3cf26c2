"""Outcomes of a method for tests of comparisons."""

import numpy as np

from screening.documents.figures import Threshold
from screening.statistics.operating_point import choose
from screening.validation.validation import Outcome, Validation


def outcome(scores, positive, groups=None, threshold=0.5) -> Outcome:
    """A binary outcome, its rows dealt to five folds in turn."""
    scores = np.asarray(scores, float)[:, None]
    validation = Validation(
        scores=scores, repeats=scores[None], fold=np.arange(len(scores)) % 5,
        watched=np.asarray(positive)[:, None], own=scores > 0, predicted=None, groups=groups, n_settings=1,
    )  # fmt: skip
    return Outcome(validation, [choose(scores[:, 0], positive, Threshold(threshold))])
