"""Nobody is on both sides of a fold, rows are dealt by what they are called, a
sub-sample keeps the rare.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.metrics import roc_auc_score

from screening import Validation, read_cohort
from screening.errors import UsageError
from screening.identity.hashes import keyed_hashes, short_hash
from screening.model_selection.folds import (
    choose_groups,
    hash_names,
    hash_order,
    split_folds,
    split_study,
    sub_sample,
)
from screening.model_selection.task import infer_task


def grouped(seed, n_groups=12, rows_each=15):
    rng = default_rng(seed)
    names = np.array([f"p{i}" for i in range(n_groups)])
    groups = np.repeat(names, rows_each)
    target = (rng.random(len(groups)) < 0.2).astype(int)
    return target, groups


def table(group, coordinates=None):
    contract = SimpleNamespace(group="patient")
    return SimpleNamespace(
        group=group, coordinates=coordinates, contract=contract, copy_of=None
    )


def rows_named(n_rows):
    """Rows without groups, with ids in no order."""
    ids = default_rng(3).permutation(n_rows).astype(str)
    return SimpleNamespace(
        group=None, id=ids, contract=SimpleNamespace(id="row"), copy_of=None
    )


def test_keys_of_names_are_fixed_numbers():
    """Rows are dealt to the same folds, and units known on several nights, whatever the
    version of pandas.
    """
    names = np.array(["p001", "Müller", "x" * 40, "", "12345678"], object)
    assert hash_names(names, 0)[:3].tolist() == [
        12457215547498215282,
        6172449052822196991,
        18373295167079362554,
    ]
    assert hash_names(names, 7)[3:].tolist() == [
        1874201255128393200,
        17224946301801908296,
    ]
    hashes = keyed_hashes(names, "0123456789abcdef0")
    assert hashes[[0, 1, 3]].tolist() == [
        12574385679337745910,
        7768589453762885031,
        17823166148561711690,
    ]
    assert short_hash("p001", "0123456789abcdef") == 1169124854


@given(seed=st.integers(0, 1000), folds=st.integers(2, 5))
def test_a_group_is_never_on_both_sides(seed, folds):
    target, groups = grouped(seed)
    fold = split_folds(table(groups), target, groups, folds, seed)
    for group in np.unique(groups):
        assert len(set(fold[groups == group])) == 1
    assert set(fold) == set(range(folds))


def test_every_fold_has_its_share_of_positives():
    """Classes smaller than the folds share a stratum."""
    target = (np.arange(200) % 10 == 0).astype(int)
    two_large = np.repeat([0, 1], 40)
    several = np.concatenate([two_large, [2, 2, 3]])
    fold = split_folds(rows_named(len(target)), target, None, 5, 0)
    of_several = split_folds(rows_named(len(several)), several, None, 5, 0)
    cases_of_fold = np.bincount(fold[target == 1])
    rows_of_class = np.bincount(of_several[several == 1])

    assert cases_of_fold.tolist() == [4] * 5
    assert np.bincount(fold).tolist() == [40] * 5
    assert rows_of_class.tolist() == [8] * 5
    assert np.ptp(np.bincount(of_several, minlength=5)) <= 1


def test_groups_of_one_row_are_dealt_as_rows():
    target = (default_rng(2).random(60) < 0.2).astype(int)
    rows = rows_named(60)
    as_groups = split_folds(rows, target, rows.id, 5, 0)

    assert np.array_equal(as_groups, split_folds(rows, target, None, 5, 0))


def test_rows_without_an_id_are_known_by_what_they_hold():
    nameless = read_cohort(
        patients().drop(columns="patient"), label="ill", need_label=True
    )
    order = default_rng(3).permutation(nameless.n_rows)
    dealt = (
        (nameless, 0),
        (nameless.take(order), 0),
        (nameless, 1),
    )
    one, other, new = (
        each.values["fever"][hash_order(each, seed)] for each, seed in dealt
    )
    assert np.array_equal(one, other)
    assert not np.array_equal(one, nameless.features["fever"])
    assert not np.array_equal(one, new)


def test_rows_alike_in_every_value_are_dealt_each_for_itself():
    # Sixty kinds of ten, the labels drawn by lot: those of the others of a kind tell
    # nothing.
    rng = default_rng(5)
    kind = np.repeat(np.arange(60), 10)
    ill = rng.choice(["no", "yes"], len(kind))
    table = pd.DataFrame({"fever": 36 + kind / 10, "ill": ill})
    nameless = read_cohort(table, label="ill", need_label=True)
    task, *_ = infer_task(nameless, False)
    study = split_study(
        nameless, task.target(nameless.labels), task, Validation(repeats=1)
    )
    fold = study.fold[0]
    ill = nameless.label == "yes"
    is_same = kind[:, None] == kind
    is_other_fold = fold[:, None] != fold
    other = is_same & is_other_fold
    chance = other @ ill / other.sum(axis=1)
    assert 0.4 < roc_auc_score(ill, chance) < 0.55


def test_every_repeat_deals_anew_and_every_row_once(cohort):
    """Three repeats where nobody asks and the rows are few."""
    rows = np.tile(np.arange(cohort.n_rows), 21)
    many = cohort.take(rows)
    task, *_ = infer_task(cohort, False)
    study = split_study(cohort, task.target(cohort.labels), task, Validation(repeats=3))
    few = split_study(cohort, task.target(cohort.labels), task, Validation())
    one = split_study(many, task.target(many.labels), task, Validation())

    assert study.fold.shape == (3, cohort.n_rows)
    for fold in study.fold:
        assert set(fold) == set(range(5))
    assert (
        max(
            np.mean(study.fold[0] == study.fold[1]),
            np.mean(study.fold[1] == study.fold[2]),
        )
        < 0.4
    )
    assert [
        (len(each.fold), each.repeats_are_needed) for each in (study, few, one)
    ] == [
        (3, True),
        (3, False),
        (1, False),
    ]


def test_a_class_that_some_dealt_fold_lacks_is_not_watched():
    """Four hospitals are dealt to four folds, and two of them have a surgery."""
    wards = patients(160)
    wards["hospital"] = [f"h{i % 4}" for i in range(len(wards))]
    has_surgery = wards["hospital"].isin(["h0", "h1"])
    wards = wards[has_surgery | (wards["ward"] != "surgery")]
    cohort = read_cohort(wards, label="ward", group="hospital", need_label=True)
    task, *_ = infer_task(cohort, True)
    task = task.replace(watched=["icu", "surgery"])
    study = split_study(
        cohort, task.target(cohort.labels), task, Validation(folds=10, repeats=1)
    )

    assert study.folds == 4
    assert list(study.task.watched) == ["icu"]
    assert "surgery (2 groups)" in study.notes[0]


def test_voxels_of_one_patient_are_cut_into_slabs_and_that_is_said():
    grid = np.meshgrid(np.arange(5), np.arange(40), np.arange(4), indexing="ij")
    columns = [axis.ravel() for axis in grid]
    coordinates = np.column_stack(columns).astype(float)
    target = np.arange(len(coordinates)) % 2
    alike = np.full(len(coordinates), "a")
    groups, number, notes = choose_groups(table(alike, coordinates), target, 5)

    assert number == 5
    assert "along y" in notes[0]
    assert len(np.unique(groups)) == 20
    for slab in np.unique(groups):
        places = coordinates[groups == slab, 1]
        assert np.ptp(places) <= 2


@pytest.mark.parametrize(
    ("groups", "target", "folds", "words"),
    [
        (
            None,
            [0] * 50 + [1] * 3,
            3,
            "3 row(s) of the rarer class for 5 folds: validated with 3 folds",
        ),
        (
            [*"aabb"],
            [0, 1, 0, 1],
            2,
            "2 group(s) for 5 folds: validated with 2 folds instead",
        ),
        (
            [*"abcdefg"],
            [0] * 5 + [1] * 2,
            2,
            "2 group(s) of the rarer class for 5 folds",
        ),
    ],
)
def test_folds_fewer_than_asked(groups, target, folds, words):
    """Where there is too little for the folds there are fewer and that is said."""
    of_rows = groups and np.array(groups)
    _, number, notes = choose_groups(table(of_rows), np.array(target), 5)
    assert number == folds
    assert notes[0].startswith(words)


@pytest.mark.parametrize(
    ("groups", "what"),
    [
        (None, "in one row only"),
        (["a"] * 9 + ["b"], "in one group of column patient only"),
    ],
)
def test_a_class_of_a_single_row_or_group_is_refused(groups, what):
    """Or all of whose groups would be in one fold."""
    target = np.repeat([0, 0, 1, 0], 5)
    whose = np.repeat([*"abcd"], 5)
    one_case = np.array([0] * 9 + [1])
    of_rows = groups and np.array(groups)
    with pytest.raises(UsageError, match=what):
        choose_groups(table(of_rows), one_case, 5)
    with pytest.raises(UsageError, match="one contains all rows of a class"):
        split_folds(table(whose), target, whose, 2, 0)


@given(
    n=st.integers(60, 400),
    share=st.floats(0.02, 0.3),
    wanted=st.integers(20, 60),
    seed=st.integers(0, 9),
)
def test_a_sub_sample_has_its_size_and_never_repeats_a_row(n, share, wanted, seed):
    """And keeps every group."""
    n_cases = max(1, int(share * n))
    target = (np.arange(n) < n_cases).astype(int)
    of_groups, groups = grouped(seed, n_groups=10, rows_each=100)
    kept = sub_sample(target, None, wanted, 0.2, seed)
    counts = np.unique(
        groups[sub_sample(of_groups, groups, 200, 0.0, seed)], return_counts=True
    )[1]

    assert len(np.unique(kept)) == len(kept)
    assert abs(len(kept) - wanted) <= 1
    least = min(target.sum(), int(0.2 * wanted))
    assert target[kept].sum() >= least
    assert len(counts) == 10
    assert np.ptp(counts) <= 4
