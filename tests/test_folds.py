"""Nobody is on both sides of a split, and a sub-sample keeps the rare class."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.validation.folds import split, sub_sample, units


def grouped(seed, n_groups=12, rows_each=15):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.array([f"p{i}" for i in range(n_groups)]), rows_each)
    target = (rng.random(len(groups)) < 0.2).astype(int)
    return target, groups


@given(seed=st.integers(0, 1000), folds=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_a_group_is_never_on_both_sides(seed, folds):
    target, groups = grouped(seed)

    pairs = split(target, groups, folds, seed)

    assert all(not set(groups[train]) & set(groups[test]) for train, test in pairs)
    assert sorted(np.concatenate([test for _, test in pairs])) == list(range(len(target)))


def test_every_fold_has_its_share_of_positives():
    target = (np.arange(200) % 10 == 0).astype(int)

    counts = [target[test].sum() for _, test in split(target, None, 5, 0)]

    assert counts == [4] * 5


def test_too_few_positives_for_the_folds_are_refused_with_the_remedy():
    with pytest.raises(UsageError, match="3 rows of the rarer class for 5 folds; use --folds 3"):
        split(np.repeat([0, 1], [50, 3]), None, 5, 0)


def test_classes_smaller_than_the_folds_share_a_stratum():
    target = np.concatenate([np.repeat([0, 1], 40), [2, 2, 3]])

    tested = np.concatenate([test for _, test in split(target, None, 5, 0)])

    assert sorted(tested) == list(range(len(target)))


def cohort(group, coordinates):
    contract = SimpleNamespace(group="patient")
    return SimpleNamespace(group=group, coordinates=coordinates, contract=contract, n_rows=len(group))


def test_voxels_of_one_patient_are_cut_into_slabs_and_that_is_said():
    x, y, z = np.meshgrid(np.arange(5), np.arange(40), np.arange(4), indexing="ij")
    coordinates = np.column_stack([x.ravel(), y.ravel(), z.ravel()]).astype(float)

    slabs, note = units(cohort(np.full(len(coordinates), "a"), coordinates), folds=5)

    assert "along y" in note
    assert len(np.unique(slabs)) == 20
    assert all(np.ptp(coordinates[slabs == slab, 1]) <= 2 for slab in np.unique(slabs))


def test_fewer_groups_than_folds_without_coordinates_are_refused():
    with pytest.raises(UsageError, match="2 group"):
        units(cohort(np.array(["a", "a", "b"]), None), folds=5)


@given(n=st.integers(60, 400), share=st.floats(0.02, 0.3), wanted=st.integers(20, 60), seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_a_sub_sample_has_its_size_and_never_repeats_a_row(n, share, wanted, seed):
    target = (np.arange(n) < max(1, int(share * n))).astype(int)

    kept = sub_sample(target, None, wanted, 0.2, seed)

    assert len(np.unique(kept)) == len(kept)
    assert abs(len(kept) - wanted) <= 1
    assert target[kept].sum() >= min(target.sum(), int(0.2 * wanted))


def test_a_sub_sample_keeps_every_group():
    target, groups = grouped(3, n_groups=10, rows_each=100)

    kept = sub_sample(target, groups, 200, 0.0, 0)

    counts = np.unique(groups[kept], return_counts=True)[1]
    assert len(counts) == 10
    assert np.ptp(counts) <= 4
