"""Machines stored by earlier versions score as they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from screening import build

STORED = Path(__file__).parent / "format_1_machines.npz"
METHODS = {
    "williams": {"C": 3.0, "gamma": 0.4, "passes": 2, "normalise": True},
    "act_feature_space": {"C": 3.0, "gamma": 0.4, "passes": 2},
    "one_class_conformal": {"nu": 0.3, "gamma": 0.2, "passes": 2},
}


@pytest.mark.parametrize("name", METHODS)
def test_machine_of_format_1_scores_as_when_it_was_stored(name):
    # Of two passes, c divided by a number and kept above 1e-12; the last row is far away.
    with np.load(STORED) as arrays:
        state = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.startswith(f"{name}/")}
        rows = arrays["z"]
    expected = state.pop("decisions")

    machine = build(name, **METHODS[name]).restore(state)

    np.testing.assert_allclose(machine.decision_function(rows), expected, rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_machine_of_format_1_stores_again_as_the_same_machine(name):
    with np.load(STORED) as arrays:
        state = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.startswith(f"{name}/")}
        rows = arrays["z"]

    machine = build(name, **METHODS[name]).restore(state)
    again = build(name, **METHODS[name]).restore(machine.state())

    np.testing.assert_array_equal(again.decision_function(rows), machine.decision_function(rows))
