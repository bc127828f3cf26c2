"""What the ledger of a network says of its wards is what the simulation counted for itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from screening.ledger import open_ledger

ROOT = Path(__file__).parents[1]


@pytest.fixture
def network(monkeypatch):
    """The simulation, with events often enough for few nights."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import network

    for name, value in {"TRIAL": 3, "MISSED": 0.2, "CORRECTED": 0.3}.items():
        monkeypatch.setattr(network, name, value)
    return network


def test_status_histories_and_overview_are_as_counted_and_as_in_ledgers_of_their_own(
    network, place, tmp_path, capsys
):
    wards = [network.Ward(f"w{at:02d}", np.random.default_rng([1, at])) for at in range(2)]
    with open_ledger(place, make=True) as ledger:
        network.simulate(ledger, wards, 14)
        network.check(ledger, wards, 14, tmp_path)
    said = capsys.readouterr().out

    assert "2 wards" in said and "silent w01" in said
    assert sum(ward.changes["promote"] for ward in wards) == 2
    assert sum(one.force for ward in wards for one in ward.entered) > 0


def test_a_count_that_does_not_add_up_is_seen(network, place, tmp_path):
    ward = network.Ward("w00", np.random.default_rng(1))
    with open_ledger(place, make=True) as ledger:
        network.simulate(ledger, [ward], 4)
        ward.counted[-1]["ongoing"] += 1
        with pytest.raises(AssertionError, match="w00"):
            network.check(ledger, [ward], 4, tmp_path)
