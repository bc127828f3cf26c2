"""Features of a voxel's surroundings, and robust scales in a patient, held to what can be counted by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_folders import brains, folder_of, table_of

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.data.normalising import Medians
from screening.errors import CohortError, UsageError
from screening.imaging.neighbourhood import around, cells_of
from screening.io.columns import columns_of

PAST, NIGHT = brains(6), brains(2, seed=1)
ROLES = {"label": "lesion", "group": "patient_id"}


def by_hand(values: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Mean, sd and gradient of every voxel by looking at every other one."""
    found = []
    where = {tuple(place): value for place, value in zip(places.tolist(), values, strict=True)}
    for place, own in zip(places, values, strict=True):
        near = values[(abs(places - place) <= size // 2).all(axis=1) & np.isfinite(values)]
        slopes = []
        for axis in np.eye(3, dtype=int):
            back, forth = (where.get(tuple(place + step * axis), np.nan) for step in (-1, 1))
            sides = np.array([own - back, forth - own])
            slopes.append(np.nansum(sides) / max(np.isfinite(sides).sum(), 1))
        gradient = np.linalg.norm(slopes) if np.isfinite(own) else np.nan
        found.append([near.mean(), near.std(), gradient] if len(near) else [np.nan, np.nan, gradient])
    return np.array(found).T


@given(st.integers(0, 10**6), st.sampled_from([3, 5]), st.floats(-1e3, 1e3))
def test_a_voxels_surroundings_are_those_counted_by_hand(seed, size, level):
    rng = np.random.default_rng(seed)
    places = np.unique(rng.integers(0, 5, (50, 3)), axis=0)
    values = rng.normal(level, 3, len(places))
    values[rng.random(len(places)) < 0.1] = np.nan
    found = around(values, *cells_of(places.astype(float)), size)
    np.testing.assert_allclose(found, by_hand(values, places, size), atol=1e-6)


@given(st.integers(0, 10**6), st.floats(0.1, 7), st.floats(-500, 500))
def test_surroundings_do_not_depend_on_order_spacing_or_origin(seed, spacing, origin):
    rng = np.random.default_rng(seed)
    places = np.unique(rng.integers(0, 5, (40, 3)), axis=0).astype(float)
    values, order = rng.normal(size=len(places)), rng.permutation(len(places))
    one = around(values, *cells_of(places), 3)
    other = around(values[order], *cells_of(places[order] * spacing + origin), 3)
    np.testing.assert_allclose(np.array(one)[:, order], other, atol=1e-9)


def test_images_and_their_table_have_the_same_surroundings_and_score_alike(tmp_path):
    images = read_cohort(folder_of(PAST, tmp_path / "past"), label="lesion", neighbourhood=3)
    table = read_cohort(table_of(PAST), **ROLES, neighbourhood=3)
    model = train(images, "logistic", search=1, jobs=1, beside=())
    one = score(model, folder_of(NIGHT, tmp_path / "night"), tmp_path / "one", batch_rows=64)
    other = score(model, table_of(NIGHT), tmp_path / "other")

    around_them = [f"{each}_{what}" for each in ("flair", "t1") for what in ("mean", "sd", "gradient")]
    assert images.names == ["flair", "t1", *around_them]
    pd.testing.assert_frame_equal(images.features, table.features)
    assert model.contract.neighbourhood == 3
    scores = [pd.read_parquet(each.directory / "scores.parquet") for each in (one, other)]
    pd.testing.assert_frame_equal(*scores)


def test_a_contract_that_lists_channels_only_declares_their_surroundings_alike():
    roles = {"group": "patient_id", "coordinates": ["x", "y", "z"], "neighbourhood": 3}
    features = {"flair": {"type": "number", "normalise": "within_group_robust"}}
    contract = Contract.from_dict({"cohort": roles, "features": features})
    cohort = read_cohort(table_of(PAST).drop(columns="t1"), contract, label="lesion")
    assert cohort.names == ["flair", "flair_mean", "flair_sd", "flair_gradient"]
    assert {each.normalise for each in cohort.contract.features.values()} == {"within_group_robust"}


@pytest.mark.parametrize(("change", "size", "error", "words"), [
    (lambda table: table.sort_values("z", kind="stable"), 3, CohortError, "do not stand together"),
    (lambda table: table.assign(x=0), 3, CohortError, "no grid"),
    (lambda table: table.assign(t1="dark"), 3, CohortError, "is text"),
    (lambda table: table.drop(columns="x"), 3, UsageError, "voxels"),
    (lambda table: table, 4, CohortError, "odd"),
], ids=["not together", "two in one place", "text", "no voxels", "an even size"])  # fmt: skip
def test_voxels_without_surroundings_are_refused(change, size, error, words):
    with pytest.raises(error, match=words):
        read_cohort(change(table_of(PAST)), **ROLES, neighbourhood=size)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_robust_scales_are_median_and_median_distance_whatever_the_batches(seed, batch):
    rng = np.random.default_rng(seed)
    group = np.repeat(["a", "b", "c"], rng.integers(1, 12, 3)).astype(object)
    features = pd.DataFrame({"x": rng.normal(size=len(group)), "y": rng.integers(0, 3, len(group)) * 1.0})
    scales = Medians(["x", "y"])
    for start in range(0, len(group), batch):
        scales.add(group[start : start + batch], columns_of(features[start : start + batch]))

    found = scales.applied(group, columns_of(features))

    own = features["x"][group == "b"]
    spread = 1.4826 * np.median(abs(own - own.median())) or np.inf
    np.testing.assert_allclose(found["x"][group == "b"], (own - own.median()) / spread)
    assert all(np.isfinite(values).all() for values in found.values())


def test_groups_that_come_twice_cannot_be_scaled_by_their_median():
    scales = Medians(["x"])
    with pytest.raises(CohortError, match="stand together"):
        scales.add(np.array(["a", "b", "a"], dtype=object), {"x": np.array([1.0, 2.0, 3.0])})
