"""Rows of a night that its page will not show: sorted or looked through outside memory as within it."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.cohort import ids as seen_ids
from screening.scoring import flags
from screening.scoring.flags import Flags, as_text, as_texts

BATCH = 500


@pytest.fixture(scope="module", autouse=True)
def little_is_held():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flags, "HELD_ROWS", 2000)
        patch.setattr(flags, "READ_ROWS", 64)
        patch.setattr(seen_ids, "HELD_ROWS", 2000)
        patch.setattr(seen_ids, "PART_BITS", 3)
        yield


def wards(rows):
    return np.where(rows % 3, rows.astype(str).astype(object), None)


def batches(scores, flagged):
    """A night in batches: what `Flags` reads of a cohort and of its scores."""
    for start in range(0, len(scores), BATCH):
        rows = np.arange(start, min(start + BATCH, len(scores)))
        ids = np.array([f"{row:07d}" for row in rows], dtype=object)
        shown = pd.DataFrame({"ward": wards(rows)}, dtype=object)
        yield (
            SimpleNamespace(id=ids, group=None, rows=rows + 1, display=shown),
            SimpleNamespace(score=scores[rows], p_value=scores[rows], column=rows % 2, flagged=flagged[rows]),
        )


def gathered(scores, flagged):
    found = Flags(["ward"])
    for batch, scored in batches(scores, flagged):
        found.add(batch, scored)
    return found


def listed(found):
    tables = [zip(*(column.to_pylist() for column in rows.columns), strict=True) for rows in found.tables()]
    return [row for rows in tables for row in rows]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 6000), st.sampled_from([1, 3, 1000]), st.floats(0, 1), st.integers(0, 9))
def test_flagged_rows_come_by_falling_score_and_equal_ones_in_the_order_of_the_table(n, levels, share, seed):
    rng = np.random.default_rng(seed)
    scores, flagged = rng.integers(levels, size=n) / levels, rng.random(n) < share

    found = gathered(scores, flagged)

    rows = np.flatnonzero(flagged)
    rows = rows[np.argsort(-scores[rows], kind="stable")]
    expected = [
        (f"{row:07d}", "", row + 1, scores[row], scores[row], row % 2, ward)
        for row, ward in zip(rows, wards(rows), strict=True)
    ]
    assert listed(found) == expected
    assert listed(found) == expected
    assert list(zip(*found.first(7).to_pydict().values(), strict=True)) == expected[:7]
    assert found.n == len(rows)


@given(st.lists(st.none() | st.text("a1-=+@'\";,|\t\r\n\v\x1c\x85\u2028\u200b\ufeff＝﹣− ", max_size=5)))
def test_texts_of_a_column_are_marked_as_each_is_alone(texts):
    marked = as_texts(pa.chunked_array([texts], pa.string())).to_pylist()

    assert marked == [text if text is None else as_text(text) for text in texts]


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9000), st.integers(1, 20_000), st.integers(0, 9))
def test_ids_that_occur_again_are_found_with_all_their_rows(n, names, seed):
    ids = np.random.default_rng(seed).integers(names, size=n).astype(str).astype(object)
    ids[::97] = None

    looked = seen_ids.DuplicateIds()
    for start in range(0, n, BATCH):
        looked.add(ids[start : start + BATCH])
    hashes, rows = looked.found()

    expected = pd.Series(ids).duplicated(keep=False).to_numpy() & (ids != None)  # noqa: E711
    assert rows.tolist() == np.flatnonzero(expected).tolist()
    assert hashes.tolist() == sorted(set(seen_ids.hashed(ids[expected]).tolist()))


def peak(work, n_rows):
    """Bytes that Python, numpy and Arrow held at most."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    largest = work(n_rows)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most + largest - before


def flagging(n_rows):
    found, largest = Flags(["ward"]), 0
    for start in range(0, n_rows, 10 * BATCH):
        scores = np.random.default_rng(start).random(10 * BATCH)
        for batch, scored in batches(scores, scores > 0.3):
            found.add(batch, scored)
            largest = max(largest, pa.total_allocated_bytes())
    assert sum(rows.num_rows for rows in found.tables()) == found.n > n_rows / 2
    return largest


def looking(n_rows):
    looked, largest = seen_ids.DuplicateIds(), 0
    for start in range(0, n_rows, BATCH):
        looked.add(np.array([f"{row:07d}" for row in range(start, start + BATCH)], dtype=object))
        largest = max(largest, pa.total_allocated_bytes())
    assert not looked.found()[0].size
    return largest


@pytest.mark.parametrize("work", [flagging, looking])
def test_memory_hardly_grows_with_rows_that_are_flagged_or_named(work):
    work(5000)

    few, many = peak(work, 5000), peak(work, 30_000)

    # Held whole they take more than 30 bytes a row; to know where they lie, a few.
    assert many - few < 10 * 25_000
