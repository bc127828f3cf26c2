"""What a night's own labels say, in the words of training; a row without one is judged by nobody."""

from __future__ import annotations

import numpy as np

from screening.cohort.cohort import Cohort, same_label
from screening.errors import CohortError
from screening.spelling import first_of
from screening.storage.model import Model

NAMED_ROWS = 5


def truth(model: Model, batch: Cohort) -> np.ndarray:
    """The labels of a batch as training wrote them (1 for 1.0), "" where there is none; shape (n_rows,).

    Raises
    ------
    CohortError
        A label that training never met: as a case that is spelled otherwise, it would count as none.
    """
    assert batch.label is not None
    contract, training = model.contract, model.facts.training
    known = list(dict.fromkeys([*training.n_by_class, *contract.positive, *contract.negative]))
    texts, place = np.unique(batch.label, return_inverse=True)
    meant = [text and same_label(text, known) for text in texts.tolist()]
    strange = np.array([name is None for name in meant])[place]
    # A sub-sample need not have met every label that is not the positive one.
    if strange.any() and training.max_rows is None:
        rows = batch.rows[strange].tolist()
        raise CohortError(
            f"column '{model.facts.task.label}', rows {first_of(rows, NAMED_ROWS)}: "
            f"a label the model was not trained on; known: {', '.join(known)}; "
            "correct them, or score without --label"
        )
    return np.array([text if name is None else name for text, name in zip(texts, meant, strict=True)])[place]
