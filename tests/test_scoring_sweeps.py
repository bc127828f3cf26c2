"""Scoring a machine with a factor: as few sweeps as there are sums, and no dense matrices for bumps."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from screening import TwoClassSVM
from screening.factors import AdaptiveBumps, Bumps, MarginDecay
from screening.kernels import Gaussian, pairwise
from screening.machines.fold_ensemble import FoldEnsemble

ACT_I = AdaptiveBumps("input", norm=1)


def fitted(factor, passes=1, n=400):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return TwoClassSVM(Gaussian(0.3), factor=factor, passes=passes).fit(x, x[:, 0] + rng.normal(size=n) > 0.5)


@pytest.fixture
def swept(monkeypatch):
    """Norm and type of every sweep over rows."""
    seen = []
    sums = pairwise.weighted_sums

    def spy(norm, *given, **more):
        seen.append((norm, np.dtype(more["dtype"]).name))
        return sums(norm, *given, **more)

    monkeypatch.setattr(pairwise, "weighted_sums", spy)
    return seen


@pytest.mark.parametrize("passes", [1, 3])
def test_decisions_of_all_passes_come_from_one_sweep(swept, passes):
    machine = fitted(MarginDecay(), passes)
    z = np.random.default_rng(1).normal(size=(300, 3))
    machine.decision_function(z[:1])
    swept.clear()

    machine.decision_function(z)

    assert len(swept) == 1


@pytest.mark.parametrize(
    ("factor", "norms"), [(MarginDecay(), {2}), (Bumps(), {2}), (ACT_I, {1, 2})], ids=repr
)
def test_machines_of_all_folds_are_summed_in_as_few_sweeps_as_there_are_norms_and_types(swept, factor, norms):
    machines = [fitted(factor, passes=2, n=n) for n in (300, 400, 350)]
    ensemble = FoldEnsemble(machines, "two_class", 2)
    z = np.random.default_rng(1).normal(size=(300, 3))
    alone = np.mean([machine.decision_function(z) for machine in machines], axis=0)
    ensemble.decisions(z[:1])
    swept.clear()

    together = ensemble.decisions(z)

    assert len(swept) == len(set(swept))
    assert {norm for norm, _ in swept} == norms
    np.testing.assert_allclose(together[:, 0], alone, atol=2e-5 * np.abs(alone).max())


def test_plain_machines_are_summed_as_one_over_the_union_of_their_rows(swept):
    machines = [fitted(None, n=n) for n in (300, 400, 350)]
    ensemble = FoldEnsemble(machines, "two_class", 2)
    z = np.random.default_rng(1).normal(size=(300, 3))
    alone = np.mean([machine.decision_function(z) for machine in machines], axis=0)
    ensemble.decisions(z[:1])
    swept.clear()

    together = ensemble.decisions(z)

    assert len(swept) == 1
    assert len(ensemble.union[0]) < sum(len(machine.support_) for machine in machines)
    np.testing.assert_allclose(together[:, 0], alone, atol=2e-5 * np.abs(alone).max())


@pytest.mark.parametrize("factor", [Bumps(), AdaptiveBumps()], ids=repr)
def test_bumps_at_new_rows_need_no_matrix_of_distances(monkeypatch, factor):
    machine = fitted(factor)
    dense = []
    matrix = pairwise._matrix
    monkeypatch.setattr(pairwise, "_matrix", lambda *given: dense.append(1) or matrix(*given))

    machine.decision_function(np.random.default_rng(1).normal(size=(300, 3)))

    assert dense == []


@pytest.mark.parametrize("factor", [None, MarginDecay(), ACT_I])
def test_rows_are_let_go_as_soon_as_they_are_scored(factor):
    machine = fitted(factor)
    x = np.random.default_rng(1).normal(size=(300, 3))
    held = weakref.ref(x)
    gc.disable()  # a night of ten million rows would else hold half of them until garbage is looked for
    try:
        machine.decision_function(x)
        del x
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("factor", [Bumps(), AdaptiveBumps()], ids=repr)
def test_who_makes_c_of_bumps_alone_is_not_asked_for_the_decision_before(factor):
    machine = fitted(factor)

    foreseen = machine.passes_kept.scorer.sums.at(machine.support_vectors_)

    assert set(foreseen) == {(0, 0), (1, -1)}  # bumps of the first pass, the decision of the last


def test_narrow_bumps_in_the_fast_type_move_no_decision_worth_counting(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    machine = TwoClassSVM(Gaussian(10.0), factor=Bumps(), C=1.0).fit(x, x[:, 0] + rng.normal(size=600) > 0.5)
    z = x + rng.normal(size=x.shape) / 10.0
    fast = machine.decision_function(z)
    again = TwoClassSVM(Gaussian(10.0), factor=Bumps(), C=1.0)
    again.restore(machine.state())
    monkeypatch.setattr(pairwise, "precise_bumps", lambda *given: np.float64)
    monkeypatch.setattr(pairwise, "in_double", lambda kernel, centres, *given: np.ones(len(centres), bool))

    exact = again.decision_function(z)

    assert np.any(fast != exact)
    assert np.abs(fast - exact).max() <= 3e-5 * np.abs(exact).max()


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_bumps_are_summed_to_a_hundred_thousandth_of_themselves(norm, rate, offset):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(200, 5)) + offset
    x = centres[:100] + rng.normal(size=(100, 5)) / np.sqrt(rate)
    terms = [(np.full(200, rate), np.ones((200, 1)))]
    exact = pairwise.weighted_sums(norm, x, centres, terms, dtype=np.float64)[0]

    found = pairwise.weighted_sums(
        norm, x, centres, terms, dtype=pairwise.precise_bumps(norm, centres, np.full(200, rate))
    )[0]

    np.testing.assert_allclose(found, exact, rtol=2e-5, atol=1e-8)


def test_wide_bumps_on_scaled_rows_take_the_fast_type():
    centres = np.random.default_rng(0).normal(size=(200, 5))

    assert pairwise.precise_bumps(2, centres, np.full(200, 0.5)) is np.float32
