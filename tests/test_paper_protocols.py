"""What the scripts of the papers' protocols share: they tune inside, encode by training rows, and skip."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from machines_cohort import two_clouds

PAPERS = Path(__file__).parents[1] / "benchmarks" / "papers"


@pytest.fixture(scope="module")
def sets():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PAPERS)
        yield importlib.import_module("sets")


def test_encoding_knows_the_training_rows_only(sets):
    training = pd.DataFrame({"a": [2.0, 4.0, np.nan, 6.0], "b": ["t", "f", "t", "t"], "c": list("xyzx")})
    later = pd.DataFrame({"a": [10.0, np.nan], "b": ["f", None], "c": ["y", "unseen"]})

    encoding = sets.Encoding("unit").fit(training)

    assert encoding.transform(training).min() == 0
    assert encoding.transform(training).max() == 1
    assert encoding.transform(later).tolist() == [[2, 0, 0, 1, 0], [0.5, 0, 0, 0, 0]]


def test_inner_validation_declines_a_kernel_that_only_remembers(sets):
    x, y = two_clouds(n_rows=80)

    chosen = sets.tuned("svm", x, y, [{"C": 1.0, "gamma": 1e4}, {"C": 1.0, "gamma": 0.2}], folds=4, seed=0)

    assert chosen["gamma"] == 0.2
