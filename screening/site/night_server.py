"""Import once what every night needs, in the server that nights are forked from.

No thread may run in it.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow.dataset
import pyarrow.pandas_compat  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401

import screening.ledger.history
import screening.scoring.score
import screening.store.loading
import screening.store.serialization  # noqa: F401
from screening.contract.contract import Contract
from screening.estimators.remedies import REMEDIES
from screening.factors import FACTORS
from screening.kernels import Gaussian
from screening.kernels.pairwise import weighted_sum
from screening.recipes.recipe import ESTIMATORS
from screening.registry import without_plugins
from screening.report.page import draw_sample
from screening.schemas.base import Document
from screening.threads import limit_threads


def prepare() -> None:
    """Load numba's compiler, all methods, the templates, and the types of documents."""
    nothing = np.zeros((1, 1))
    # Only a night knows the form of its log: loops are compiled here without a message.
    logging.getLogger("screening").addHandler(logging.NullHandler())
    with limit_threads(1):
        for dtype in (np.float32, np.float64):
            weighted_sum(Gaussian(1.0), nothing, nothing, nothing, dtype=dtype)
    with without_plugins():
        for registry in (ESTIMATORS, FACTORS, REMEDIES):
            len(registry)
        draw_sample("run")
    Contract.model_rebuild()
    complete_types(Document)


def complete_types(document: type[Document]) -> None:
    """Complete a type of document and all that derive from it.

    Each night would complete some fifty of them, where they are first used.
    """
    document.model_rebuild()
    for derived in document.__subclasses__():
        complete_types(derived)


prepare()
