"""Import once what every night needs, in the server that nights are forked from.

No thread may run in it.
"""

from __future__ import annotations

import logging

import numpy as np
import sqlalchemy.dialects.sqlite  # noqa: F401

import screening.scoring.score
import screening.store.loading
import screening.store.serialization  # noqa: F401
from screening.estimators.remedies import REMEDIES
from screening.factors import FACTORS
from screening.kernels import Gaussian
from screening.kernels.pairwise import weighted_sum
from screening.recipes.recipe import ESTIMATORS
from screening.registry import without_plugins
from screening.report.page import draw_sample
from screening.schemas.model import ModelDocument
from screening.schemas.run import InputFacts, RunModel
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
    for document in (ModelDocument, RunModel, InputFacts):
        document.model_rebuild()


prepare()
