"""Where patients stay, what the ledger says of all flagged is true, and a ward that falls is said to."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from screening.metrics.intervals import level_of_every_look, wilson

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def wards():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("wards_with_stays")


@pytest.mark.parametrize("review", ["top", "late"])
def test_figures_of_stationary_wards_are_of_all_flagged_and_never_below_the_estimate(wards, review):
    histories = [next(wards.one_history("1 to 14", review, 0.0, 21, 700, seed)) for seed in range(6)]

    for name in ("ppv", "sensitivity"):
        errors = np.array([one[f"{name}_value"] - one[name] for one in histories])
        held = sum(one[f"{name}_low"] <= one[name] <= one[f"{name}_high"] for one in histories)
        assert abs(errors.mean()) < 3 * errors.std() / len(errors) ** 0.5
        assert held >= 5
        assert {one[f"{name}_below"] for one in histories} == {""}


def test_a_ward_whose_predictive_value_fell_is_said_to_be_below_its_estimate(wards):
    told = next(wards.one_history("1", "top", 0.2, 28, 3000, 0))
    assert told["ppv"] == pytest.approx(told["ppv_promised"] - 0.2, abs=0.05)
    assert told["ppv_below"] in (14, 21, 28)


def test_an_interval_for_every_look_holds_at_all_looks_where_one_for_a_single_look_does_not():
    rng, looks = np.random.default_rng(0), np.unique(np.geomspace(10, 3000, 120).astype(int))
    counts = np.cumsum(rng.random((400, 3000)) < 0.4, axis=1)[:, looks - 1]
    single, every = (
        np.array(
            [
                wilson(counts[:, i], n, level)[1]
                for i, (n, level) in enumerate(zip(looks, levels, strict=True))
            ]
        )
        for levels in ([0.95] * len(looks), [*map(level_of_every_look, looks)])
    )

    assert (single < 0.4).any(axis=0).mean() > 0.1
    assert (every < 0.4).any(axis=0).mean() < 0.0125
