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


def test_absent_data_end_a_script_with_a_clear_line(sets, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        sets.skip_unless_there(tmp_path / "uci")

    assert ended.value.code == 0
    assert "skipped: needs uci" in capsys.readouterr().out


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


def test_rates_are_percentages_at_the_machines_own_boundary(sets):
    found = sets.rates(np.array([1, 1, 0, 0]), np.array([1.0, -1.0, -1.0, -2.0]))

    assert found == pytest.approx((100 * np.sqrt(0.5), 50, 100))


def test_a_stopped_run_goes_on_with_the_folds_it_kept(sets, tmp_path):
    kept, ran = tmp_path / "folds.csv", []

    def run(fold):
        ran.append(fold.fold)
        return [{"method": "SVM", "g_mean": 50.0 + fold.fold}]

    rows = np.arange(3)
    folds = [sets.TestFold("g7", 0, number, rows, rows) for number in range(3)]
    sets.run_folds(run, folds[:2], "printed", 1, kept)
    found = sets.run_folds(run, folds, "printed", 1, kept)
    sets.run_folds(run, folds[:1], "tuned", 1, kept)

    assert ran == [0, 1, 2, 0]
    assert found["g_mean"].tolist() == [50, 51, 52]


def test_the_spread_is_that_of_the_repetitions(sets):
    found = pd.DataFrame({"repetition": [0, 0, 1, 1], "g_mean": [40.0, 60.0, 50.0, 52.0]})

    assert sets.repeated(found, 48.0) == "48.0 / 50.5 ± 0.7"
    assert sets.repeated(found[:2]) == "50.0"
