"""The encoder: learned on training rows only, kept as arrays."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import columns_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from screening.contract.contract import Contract
from screening.data.encoding import Encoder
from screening.data.reading import read_cohort

FEATURES = {
    "age": {"type": "number", "missing": "indicator"},
    "ward": {"type": "category"},
    "sex": {"type": "category", "categories": ["male", "female"]},
    "drug": {"type": "category", "missing": "category"},
    "stage": {"type": "ordinal", "categories": ["I", "II", "III"]},
    "icu": {"type": "boolean"},
}
CONTRACT = Contract.from_dict({"cohort": {}, "features": FEATURES})
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))


def cohort_of(folder, n_rows=80, seed=0, **columns):
    rng = default_rng(seed)
    is_missing = rng.random(n_rows) < 0.2
    age = rng.normal(60, 15, n_rows)
    age[is_missing] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "ward": rng.choice(["A", "B", "C", None], n_rows, p=[0.5, 0.3, 0.1, 0.1]),
            "sex": rng.choice(["male", "female"], n_rows),
            "drug": rng.choice(["x", "y", None], n_rows),
            "stage": rng.choice(["I", "II", "III", None], n_rows),
            "icu": rng.choice(["t", "f", None], n_rows),
        }
        | columns
    )
    frame.to_parquet(folder / "encode.parquet")
    return read_cohort(folder / "encode.parquet", CONTRACT)


def places(encoder, feature):
    return np.flatnonzero(np.array(encoder.columns) == feature)


def test_training_rows_get_zero_mean_and_unit_variance(tmp_path):
    cohort = cohort_of(tmp_path)
    encoded = Encoder(CONTRACT.features).fit(cohort.values).transform(cohort.values)
    assert_allclose(encoded.mean(axis=0), 0, atol=1e-12)
    assert_allclose(encoded.std(axis=0), 1)


def test_min_binary_scale_one_keeps_the_unit_of_flags(tmp_path):
    """Numbers, and ordinal features, have unit variance all the same."""
    cohort = cohort_of(tmp_path)
    encoder = Encoder(CONTRACT.features, min_binary_scale=1.0).fit(cohort.values)
    encoded = encoder.transform(cohort.values)
    ranges = np.ptp(encoded, axis=0)
    numbers = [encoder.names.index(name) for name in ("age", "stage")]

    assert_allclose(np.delete(ranges, numbers), 1.0)
    spread = encoded[:, numbers].std(axis=0)
    assert_allclose(spread, 1.0)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_numbers_of_any_size_are_encoded_alike(tmp_path, size):
    ages = default_rng(3).normal(60, 15, 80)
    cohort = cohort_of(tmp_path, age=ages)
    usual = Encoder(CONTRACT.features).fit(cohort.values).transform(cohort.values)
    cohort = cohort_of(tmp_path, age=ages * size)
    extreme = Encoder(CONTRACT.features).fit(cohort.values).transform(cohort.values)
    assert_allclose(extreme, usual, rtol=1e-9)


def test_encoded_columns_are_named_and_know_their_feature(tmp_path):
    encoder = Encoder(CONTRACT.features).fit(cohort_of(tmp_path).values)
    assert encoder.names == [
        "age",
        "age missing",
        "drug=x",
        "drug=y",
        "drug=(missing)",
        "icu",
        "sex=female",
        "stage",
        "ward=A",
        "ward=B",
        "ward=C",
    ]
    columns = [re.split("[ =]", name)[0] for name in encoder.names]
    assert encoder.columns == columns


def test_missing_values_are_put_to_median_or_most_frequent(tmp_path):
    cohort = cohort_of(tmp_path)
    encoder = Encoder(CONTRACT.features).fit(cohort.values)
    medians = {name: encoder.medians[name] for name in ("ward", "stage", "icu")}
    filled = cohort.features.fillna(medians)
    values = columns_of(filled)
    by_hand = encoder.transform(values)
    assert_array_equal(encoder.transform(cohort.values), by_hand)
    median = cohort.features["age"].median()
    assert encoder.medians["age"] == median
    assert encoder.medians["ward"] == "A"


def test_an_unseen_category_sets_no_column(tmp_path):
    encoder = Encoder(CONTRACT.features).fit(cohort_of(tmp_path).values)
    new = cohort_of(tmp_path, n_rows=3, ward=["A", "S3CRET", None])
    state = encoder.state()
    raw = encoder.transform(new.values) * state["scale"] + state["center"]
    of_ward = raw[:, places(encoder, "ward")]
    expected = [
        [1, 0, 0],
        [0, 0, 0],
        [1, 0, 0],
    ]
    assert_allclose(of_ward, expected, atol=1e-12)


def test_a_rare_yes_does_not_stand_more_than_ten_units_apart(tmp_path):
    icu = ["t"] + ["f"] * 1999
    cohort = cohort_of(tmp_path, n_rows=2000, icu=icu)
    encoded = Encoder(CONTRACT.features).fit(cohort.values).transform(cohort.values)
    assert np.abs(encoded[:, -1]).max() < 10


def test_encoding_constant_column(tmp_path):
    """What is constant or empty in training stays zero whatever comes later."""
    constant = {
        "ward": None,
        "sex": "male",
        "drug": "x",
        "stage": "II",
        "icu": None,
    }
    past = cohort_of(tmp_path, age=np.full(80, 0.1), **constant)
    encoder = Encoder(CONTRACT.features).fit(past.values)
    for cohort in (past, cohort_of(tmp_path)):
        encoded = encoder.transform(cohort.values)
        assert_allclose(encoded, 0, atol=1e-12)
        # A category without any value has no column, and none that trees would see as
        # one.
        assert encoder.bundles().of(encoded).shape == (80, 6)


@settings(max_examples=25)
@given(wards=st.lists(TEXTS, min_size=2, max_size=20), ages=st.floats(-1e9, 1e9))
def test_state_is_plain_arrays_and_gives_the_same_bits_back(
    tmp_path_factory, wards, ages
):
    cohort = cohort_of(
        tmp_path_factory.getbasetemp(),
        n_rows=len(wards),
        ward=wards,
        age=ages,
    )
    encoder = Encoder(CONTRACT.features).fit(cohort.values)
    stored = io.BytesIO()
    np.savez(stored, **encoder.state())
    stored.seek(0)
    with np.load(stored, allow_pickle=False) as arrays:
        restored = Encoder.from_state(
            Contract.from_dict(CONTRACT.to_dict()).features, dict(arrays)
        )
    encoded = encoder.transform(cohort.values)
    assert_array_equal(restored.transform(cohort.values), encoded)
    assert restored.names == encoder.names
    assert restored.medians == encoder.medians


def test_the_order_of_rows_and_of_features_does_not_matter(tmp_path):
    cohort = cohort_of(tmp_path)
    order = default_rng(0).permutation(cohort.n_rows)
    features = dict(reversed(FEATURES.items()))
    backwards = Contract.from_dict({"cohort": {}, "features": features})
    own = Encoder(CONTRACT.features).fit(cohort.values)
    shuffled = Encoder(CONTRACT.features).fit(cohort.take(order).values)
    other = Encoder(backwards.features).fit(cohort.values)

    encoded = own.transform(cohort.values)
    assert_allclose(shuffled.transform(cohort.values), encoded, atol=1e-12)
    places = [other.names.index(name) for name in own.names]
    moved = other.transform(cohort.values)[:, places]
    assert_array_equal(moved, encoded)


CODES = {"diag": {"type": "category", "missing": "category"}, "age": {"type": "number"}}


def coded_cohort(folder, values):
    ages = np.arange(len(values), dtype=float)
    frame = pd.DataFrame({"diag": values, "age": ages})
    frame.to_parquet(folder / "coded.parquet")
    contract = Contract.from_dict({"cohort": {}, "features": CODES})
    return read_cohort(folder / "coded.parquet", contract)


def test_a_code_of_many_values_is_encoded_by_its_chapters(tmp_path):
    finer = [
        f"{chapter}{number / 10}" for chapter in "IK" for number in range(200, 400)
    ]
    codes = default_rng(0).choice(finer, 2000)
    cohort = coded_cohort(tmp_path, [*codes, *[None] * 50])
    encoder = Encoder(cohort.contract.features).fit(cohort.values)
    again = Encoder.from_state(cohort.contract.features, encoder.state())
    new = coded_cohort(tmp_path, ["K99.9", "Z00", None])
    unseen = encoder.transform(new.values) > 0

    assert len(places(encoder, "diag")) <= 31 < len(set(finer))
    assert {"diag=I*", "diag=K*", "diag=(missing)"} <= set(encoder.names)
    of_chapter = unseen[:, encoder.names.index("diag=K*")]
    of_missing = unseen[:, encoder.names.index("diag=(missing)")]
    assert of_chapter.tolist() == [True, False, False]
    assert of_missing.tolist() == [False, False, True]
    encoded = encoder.transform(cohort.values)
    assert_array_equal(again.transform(cohort.values), encoded)
    assert again.medians == encoder.medians
    assert again.names == encoder.names


def test_numbers_as_codes_of_another_length_are_of_another_chapter(tmp_path):
    numbers = [*range(30, 60), *range(400, 460)]
    codes = [str(number) for number in numbers for _ in range(12)]
    cohort = coded_cohort(tmp_path, codes)
    encoder = Encoder(cohort.contract.features).fit(cohort.values)
    place = encoder.names.index("diag=4*")
    is_marked = encoder.transform(cohort.values)[:, place] > 0
    assert is_marked.tolist() == [len(code) == 3 for code in codes]


def test_bundle_of_category(tmp_path):
    """The columns of a category are one where levels and codes stand as in a
    dictionary."""
    codes = ["5", "41", "410.1", "411", "V10", "V45"] + [
        f"6{number:02}" for number in range(40)
    ]
    drawn = default_rng(5).integers(0, len(codes), 900)
    diagnosis = np.array(codes)[drawn]
    cohort = cohort_of(tmp_path, n_rows=900, drug=diagnosis)
    encoder = Encoder(CONTRACT.features).fit(cohort.values)
    encoded = encoder.transform(cohort.values)
    seen = encoder.bundles().of(encoded)
    assert seen.shape == (900, 7)  # age, age missing, drug, icu, sex, stage, ward
    age, _, drug, *_, ward = seen.T
    own_age = encoded[:, encoder.names.index("age")]
    assert np.array_equal(age, own_age.astype(np.float32))
    columns = [(ward, cohort.values["ward"]), (drug, diagnosis)]
    for column, values in columns:
        levels = set(values) - {None}
        level = {value: set(column[values == value]) for value in levels}
        for places in level.values():
            assert len(places) == 1
    in_order = [max(level[code]) for code in ("5", "41", "600", "V10")]
    assert in_order == sorted(set(in_order))
