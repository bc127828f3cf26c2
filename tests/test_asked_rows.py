"""Settings that compete decide on held-out rows from one kernel; the chosen machines say it by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines_cohort import three_clouds, two_clouds

from screening import MultiClassSVM, TwoClassSVM, load_recipe
from screening.cohort.cohort import Cohort
from screening.factors import ClassDecay
from screening.kernels import Gaussian, pairwise, shared
from screening.kernels.neighbors import neighbors, neighbors_in
from screening.machines.passes import Passes
from screening.recipes.building import Builder
from screening.validation.encoded import EncodedRows

COSTS = [{"C": cost, "gamma": gamma} for gamma in (0.3, 2.0) for cost in (0.1, 1.0, 300.0)]
TRIED = {
    "svm": COSTS,
    "svm_weighted": COSTS,
    "one_class": [{"nu": nu, "gamma": gamma} for gamma in (0.3, 2.0) for nu in (0.05, 0.5)],
    "one_class_conformal": [{"nu": nu, "passes": 2} for nu in (0.05, 0.5)],
    "wu_amari": [{"passes": passes} for passes in (0, 1, 3)],
    "williams": [{"passes": passes} for passes in (0, 1, 3)],
    "e_smote_svm": [{"C": cost} for cost in (0.1, 10.0)],
    "logistic": [{"C": cost} for cost in (0.1, 10.0)],
    "shao_local": [{"Q": reach, "C": cost} for cost in (1.0, 100.0) for reach in (0.1, 0.5, 1.0)],
    "shao_weighted": [{"C": cost} for cost in (1.0, 100.0)],
    "one_vs_one": [{"C": cost} for cost in (0.1, 10.0)],
}


def learned(name: str, n: int = 260) -> tuple[EncodedRows, np.ndarray]:
    """Rows of a recipe, and others to decide on."""
    recipe = load_recipe(name)
    several = recipe.machine == "multi_class"
    x, y = three_clouds(n) if several else two_clouds(n)
    codes = np.unique(y, return_inverse=True)[1]
    z = np.ascontiguousarray(np.random.default_rng(1).normal(size=(90, x.shape[1])) + 1.0)
    return EncodedRows(recipe, 3 if several else 2, x, codes, None, shared.Distances(x)), z


@pytest.mark.parametrize("name", TRIED)
def test_what_competes_decides_as_its_machine_does_by_itself(name):
    rows, z = learned(name)

    machines, decided = rows.tried(np.arange(len(rows.x)), TRIED[name], z)

    for machine, found in zip(machines, decided, strict=True):
        alone = rows.decisions(machine, z)
        assert np.abs(found - alone).max() <= 3e-5 * np.abs(alone).max()


@pytest.mark.parametrize("name", ["svm", "shao_local", "wu_amari"])
def test_the_kernel_to_the_rows_that_are_asked_about_is_made_once_for_all_settings_of_a_gamma(
    name, monkeypatch
):
    rows, z = learned(name)
    made = []
    gram = pairwise.gram
    monkeypatch.setattr(pairwise, "gram", lambda *given, **more: made.append(given) or gram(*given, **more))
    monkeypatch.setattr(Passes, "scorer", None)  # which no machine asks for

    rows.tried(np.arange(len(rows.x)), [{"gamma": 0.3} | each for each in TRIED[name]], z)

    across = [given[0].gamma for given in made if len(given) > 2 and given[2] is z]
    assert len(across) == len(set(across)) >= 1


def test_rows_of_the_same_shape_that_nobody_named_are_not_taken_for_those_asked_about():
    rows, z = learned("svm")
    other = z + 1.0
    machine = TwoClassSVM(Gaussian(0.3))

    with shared.using(shared.Shared(rows.x, asked=z)):
        machine.fit(rows.x, rows.target)
        inside = machine.decision_function(other)

    assert np.array_equal(inside, machine.decision_function(other))


def test_a_machine_on_other_rows_is_not_taken_for_one_on_the_shared_ones():
    rows, z = learned("svm")
    machine = TwoClassSVM(Gaussian(0.3)).fit(rows.x[::-1].copy(), rows.target[::-1])
    alone = machine.decision_function(z)

    with shared.using(shared.Shared(rows.x, asked=z)):
        assert np.array_equal(machine.decision_function(z), alone)


def test_what_the_memory_does_not_hold_is_made_as_it_is_summed():
    rows, z = learned("svm")

    def known(memory: int | None) -> object:
        with shared.using(shared.Shared(rows.x, memory, asked=z)) as here:
            machine = TwoClassSVM(Gaussian(0.3)).fit(rows.x, rows.target)
            return here.trained_on(machine.passes_kept.rows, z)

    assert known(None) is not None
    assert known(1 << 16) is None


@pytest.mark.parametrize("reaches", [(0.1, 0.3, 1.0)], ids=repr)
def test_the_first_pass_of_all_reaches_decides_on_the_rows_once(reaches, monkeypatch):
    x, y = three_clouds(120)
    alone = [
        MultiClassSVM(Gaussian(0.5), factor=ClassDecay("local", Q=reach)).fit(x, y).class_scores(x)
        for reach in reaches
    ]
    summed = []
    times = pairwise.symmetric_times
    monkeypatch.setattr(
        pairwise, "symmetric_times", lambda *given: summed.append(given[1].shape) or times(*given)
    )

    with shared.over(x):
        together = [
            MultiClassSVM(Gaussian(0.5), factor=ClassDecay("local", Q=reach)).fit(x, y).class_scores(x)
            for reach in reaches
        ]

    assert summed.count((120, 3)) == 1
    np.testing.assert_allclose(together, alone, atol=2e-2)


@pytest.mark.parametrize(
    "fixed",
    [{}, {"per_class": True}, {"empty": "nearest"}, {"passes": 0}, {"normalise": True}],
    ids=repr,
)
def test_reaches_tried_together_make_the_machines_that_each_makes_in_its_turn(fixed, monkeypatch):
    rows, z = learned("shao_local", 120)
    settings = [fixed | {"Q": reach, "C": cost} for cost in (1.0, 50.0) for reach in (0.1, 0.4, 1.0)]
    every = np.arange(len(rows.x))
    together, decided = rows.tried(every, settings, z)
    monkeypatch.setattr(Builder, "families", lambda _, settings: [[at] for at in range(len(settings))])

    in_turn, expected = rows.tried(every, settings, z)

    for one, other in zip(together, in_turn, strict=True):
        ours, theirs = one.state(), other.state()
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
        assert one.factor == other.factor
    np.testing.assert_allclose(decided, expected, atol=1e-9)


def test_later_passes_of_reaches_tried_together_start_elsewhere_and_decide_the_same():
    rows, z = learned("shao_local", 120)
    settings = [{"passes": 3, "Q": reach} for reach in (0.1, 0.4, 1.0)]
    every = np.arange(len(rows.x))

    together = rows.tried(every, settings, z)[1]
    alone = [rows.tried(every, [setting], z)[1][0] for setting in settings]

    np.testing.assert_allclose(together, alone, atol=3e-2)


def test_where_passes_are_counted_by_gain_each_reach_counts_its_own():
    x, y = three_clouds(90)
    factors = [ClassDecay("local", Q=reach) for reach in (0.2, 1.0)]
    machine = MultiClassSVM(Gaussian(0.5), passes=2, stop="inner", factor=factors[0])

    together = machine.fit_each(factors, x, y)

    for factor, one in zip(factors, together, strict=True):
        alone = MultiClassSVM(Gaussian(0.5), passes=2, stop="inner", factor=factor).fit(x, y)
        assert np.array_equal(one.class_scores(x), alone.class_scores(x))


def test_settings_of_one_first_pass_are_those_that_differ_in_what_the_factor_lets_vary():
    builder = Builder(load_recipe("shao_local"))
    settings = [
        {"Q": 0.1, "C": 1.0},
        {"Q": 0.1, "C": 2.0},
        {"Q": 0.2, "C": 1.0},
        {"Q": 0.2, "C": 1.0, "empty": "nearest"},
        {"C": 1.0, "Q": 0.3},
    ]

    assert builder.families(settings) == [[0, 2, 4], [1], [3]]
    assert Builder(load_recipe("williams")).families([{"kappa": 0.1}, {"kappa": 0.2}]) == [[0], [1]]


def test_the_chosen_setting_is_held_out_as_its_machines_say_it_again(cohort: Cohort):
    from screening import train

    model = train(cohort, "svm", search=4, repeats=1)
    encoded = model.encoder.transform(cohort)
    by_id = model.validation.set_index("id")
    fold = by_id["fold"][cohort.id].to_numpy()

    own = np.array([model.ensemble.of_one(k, encoded)[:, 0] for k in range(5)])[fold, np.arange(len(fold))]

    assert np.array_equal(by_id["score"][cohort.id].to_numpy(), own)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 5),
    st.integers(1, 300),
    st.integers(0, 40),
    st.one_of(st.none(), st.lists(st.sampled_from([0.0, 0.4, 0.8, 1.5, 2.0]), min_size=1, max_size=6)),
    st.sampled_from([-1, 1, 0]),
)
def test_neighbours_by_a_kernel_that_is_held_have_the_bits_of_those_by_distances(seed, n, m, reaches, side):
    rng = np.random.default_rng(seed)
    x, centres = rng.normal(size=(n, 3)), rng.normal(size=(m + 7, 3))
    kernel = Gaussian(0.4)
    places = np.sort(rng.permutation(m + 7)[:m])
    at = np.flatnonzero(rng.random(n) < 0.7)
    c_x, c = rng.uniform(0.1, 1.0, len(at)), rng.uniform(0.1, 1.0, m)
    sides = rng.choice([-1, 1], m)
    wanted = np.full(len(at), side) if side else rng.choice([-1, 1], len(at))
    told = (c_x, c, sides, wanted)

    made = neighbors(kernel, x[at], centres[places], *told, reaches)
    held = neighbors_in(kernel(centres, x), places, at, *told, reaches)
    alone = [neighbors(kernel, x[at], centres[places], *told, [reach]) for reach in reaches or ()]

    assert all(np.array_equal(getattr(made, name), getattr(held, name)) for name in vars(made))
    for k, one in enumerate(alone):
        assert np.array_equal(made.total[k], one.total[0]) and np.array_equal(made.count[k], one.count[0])
        assert np.array_equal(made.nearest, one.nearest)
