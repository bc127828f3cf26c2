"""Outcomes of a method for tests of comparisons."""

import numpy as np

from screening.documents.validation import SearchFacts
from screening.validation.outcome import Judged, Made, Outcome


def outcome(scores, rows=None, threshold=0.5) -> Outcome:
    """A binary outcome, its rows dealt to five folds in turn."""
    scores = np.asarray(scores, float)[:, None]
    rows = np.arange(len(scores)) if rows is None else rows
    search = SearchFacts(
        criterion="auroc", n_candidates=1, chosen={}, candidates=[{}], scores=[0.9], dropped=[None]
    )
    facts = Judged(
        sensitivity=[0.9],
        figures={},
        n_settings=1,
        made=Made(search=search, sv_share=None, fit_seconds=0.0, score_seconds=0.0),
    )
    return Outcome(
        rows=rows, fold=np.arange(len(scores)) % 5, scores=scores, thresholds=np.array([threshold]),
        own=scores > 0, predicted=np.full(len(scores), -1), facts=facts,
    )  # fmt: skip
