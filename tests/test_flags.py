"""Rows of a night that its page will not show: ranked or looked through outside memory
as within it.
"""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from screening.data import observed_ids
from screening.identity.hashes import HASH_KEY, hash_ids
from screening.scoring import rows as night_rows
from screening.scoring.flagged_list import as_listed, as_text, as_texts, listed_columns
from screening.scoring.rows import Rows, ranked_rows
from screening.threads import limit_threads

BATCH = 500
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "score": pa.float64(),
        "p_value": pa.float64(),
        "flagged": pa.bool_(),
        "class": pa.string(),
        "display_ward": pa.string(),
        "display_score": pa.string(),
    }
)


@pytest.fixture(scope="module", autouse=True)
def little_is_held():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(night_rows, "READ_ROWS", 700)
        patch.setattr(night_rows, "PIECE_ROWS", 800)
        for name in ("HELD_ROWS", "UNFILED_ROWS", "READ_ROWS"):
            patch.setattr(observed_ids, name, 2000)
        yield


def ward(row):
    return str(row) if row % 3 else None


def listed(folder, scores, flagged):
    """The tables of flagged rows, of a night that came in batches."""
    rows = Rows(folder / "scores.parquet")
    with rows.appending() as file:
        file.append(SCHEMA.empty_table())
        for start in range(0, len(scores), BATCH):
            stop = min(start + BATCH, len(scores))
            mine = np.arange(start, stop)
            ids = [f"{row:07d}" for row in mine]
            wards = [ward(row) for row in mine]
            columns = [
                ids,
                scores[mine],
                scores[mine],
                flagged[mine],
                ["yes"] * len(mine),
                wards,
                ids,
            ]
            file.append(pa.table(columns, schema=SCHEMA))
    with rows.by_rank(listed_columns(rows.schema)) as pieces:
        return [as_listed(ranked_rows(piece)) for piece in pieces]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 6000),
    st.sampled_from([1, 3, 1000]),
    st.floats(0, 1),
    st.integers(0, 9),
)
def test_flagged_rows_come_by_falling_score(tmp_path_factory, n, levels, share, seed):
    """Equal ones in the order of the table."""
    rng = default_rng(seed)
    scores = rng.integers(levels, size=n) / levels
    flagged = rng.random(n) < share
    tables = list(listed(tmp_path_factory.mktemp("night"), scores, flagged))
    rows = np.flatnonzero(flagged)
    expected = [
        (
            rank,
            f"{row:07d}",
            None,
            "yes",
            scores[row],
            scores[row],
            ward(row),
            f"{row:07d}",
        )
        for rank, row in enumerate(
            rows[np.argsort(-scores[rows], kind="stable")], start=1
        )
    ]
    names = tables[0].column_names
    columns = []
    for name in names:
        columns.append([cell for table in tables for cell in table[name].to_pylist()])

    # A column to display that is called as one of ours is told from it.
    assert names == [
        "rank",
        "id",
        "group",
        "class",
        "score",
        "p_value",
        "ward",
        "display_score",
    ]
    assert list(zip(*columns, strict=True)) == expected
    assert max(table.num_rows for table in tables) <= 800


@given(
    st.lists(
        st.none()
        | st.text("a1-=+@'\";,|\t\r\n\v\x1c\x85\u2028\u200b\ufeff＝﹣− ", max_size=5)
    )
)
def test_texts_of_a_column_are_marked_as_each_is_alone(texts):
    cells = pa.chunked_array([texts], pa.string())
    marked = as_texts(cells).to_pylist()
    assert marked == [text if text is None else as_text(text) for text in texts]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 9000), st.integers(1, 20_000), st.integers(0, 9), st.integers(1, 5)
)
def test_ids_that_occur_again_are_found_with_all_their_rows(n, names, seed, jobs):
    numbers = default_rng(seed).integers(names, size=n)
    ids = numbers.astype(str).astype(object)
    ids[::97] = None

    looked = observed_ids.DuplicateIds()
    for start in range(0, n, BATCH):
        batch = ids[start : start + BATCH]
        looked.add(hash_ids(batch, HASH_KEY))
    with limit_threads(jobs):
        hashes, rows = looked.repeats()

    is_repeated = pd.Series(ids).duplicated(keep=False).to_numpy()
    expected = is_repeated & (ids != None)  # noqa: E711
    assert rows.tolist() == np.flatnonzero(expected).tolist()
    assert hashes.tolist() == sorted(set(hash_ids(ids[expected], HASH_KEY).tolist()))


def test_memory_hardly_grows_with_rows_that_are_named():
    def peak(n_rows: int) -> int:
        """Bytes that Python, numpy and Arrow held at most."""
        before = pa.total_allocated_bytes()
        largest = 0
        tracemalloc.start()
        looked = observed_ids.DuplicateIds()
        for start in range(0, n_rows, BATCH):
            ids = [f"{row:07d}" for row in range(start, start + BATCH)]
            texts = np.array(ids, dtype=object)
            looked.add(hash_ids(texts, HASH_KEY))
            largest = max(largest, pa.total_allocated_bytes())
        assert not looked.repeats()[0].size
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most + largest - before

    peak(5000)
    few = peak(5000)
    many = peak(30_000)
    # Held whole they take more than 30 bytes a row; to know where they lie, a few.
    assert many - few < 10 * 25_000
