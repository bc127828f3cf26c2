"""`scores.parquet`, and the copy of the rows that `flagged.csv` lists."""

import resource
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from screening.scoring import rows as night_rows
from screening.scoring.rows import RowFile, Rows

N_ROWS = 1000
GROUP_ROWS = 128


def rows_of(n_rows, seed=0):
    """Rows of every type of column, some of the table left out."""
    rng = default_rng(seed)
    numbers = np.flatnonzero(rng.random(n_rows) < 0.9) + 1
    scores = rng.normal(size=len(numbers))
    names = np.array([f"patient-{number}" for number in numbers], dtype=object)
    odd = np.where(numbers % 50 == 0, names, None)
    return pa.table(
        {
            "id": pa.array(names),
            "score": pa.array(np.where(scores > 1, np.nan, scores), from_pandas=True),
            "flagged": scores > 0.5,
            "out_of_bounds": pa.array(odd, pa.string()),
            "row": numbers,
            "class": np.resize(["yes", "no"], len(numbers)),
        }
    )


def unlisted(rows):
    """Rows of which none is flagged or out of bounds."""
    nobody = pa.array(np.zeros(rows.num_rows, dtype=bool))
    nothing = pa.nulls(rows.num_rows, pa.string())
    names = rows.column_names
    rows = rows.set_column(names.index("flagged"), "flagged", nobody)
    return rows.set_column(names.index("out_of_bounds"), "out_of_bounds", nothing)


@pytest.fixture(scope="module", autouse=True)
def small_groups():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(night_rows, "GROUP_ROWS", GROUP_ROWS)
        yield


def written(path, pieces):
    """The bytes of a file, and the rows that its list shows."""
    file = RowFile(path)
    for piece in pieces:
        file.append(piece)
    file.finish()
    file.close()
    schema = pa.schema({"id": pa.string(), "row": pa.int64()})
    listed = pa.Table.from_batches(file.copy.batches(schema.names), schema)
    return path.read_bytes(), listed


@settings(max_examples=30, deadline=None)
# Of the rows of a table a tenth are left out.
@given(st.sets(st.integers(1, 850), max_size=9).map(sorted))
def test_row_file_any_cut(tmp_path_factory, cuts):
    """However a table is cut, the file is the one that Arrow writes of its row
    groups.
    """
    folder = tmp_path_factory.mktemp("night")
    rows = rows_of(N_ROWS)
    with pq.ParquetWriter(
        folder / "arrow.parquet", rows.schema, use_dictionary=["class"]
    ) as writer:
        writer.write_table(rows, row_group_size=GROUP_ROWS)

    pieces = [rows.slice(a, b - a) for a, b in pairwise([0, *cuts, rows.num_rows])]
    content, listed = written(folder / "rows.parquet", pieces)

    assert content == (folder / "arrow.parquet").read_bytes()
    assert pq.read_table(folder / "rows.parquet") == rows
    is_listed = pc.or_(rows["flagged"], pc.is_valid(rows["out_of_bounds"]))
    assert listed == rows.filter(is_listed).select(["id", "row"])
    assert {path.name for path in folder.iterdir()} == {
        "arrow.parquet",
        "rows.parquet",
    }


def test_row_file_nothing_listed(tmp_path):
    """Row groups of which no row is flagged are not lost."""
    rows = unlisted(rows_of(2 * GROUP_ROWS))

    _, listed = written(tmp_path / "rows.parquet", [rows])

    assert pq.read_table(tmp_path / "rows.parquet") == rows
    assert listed.num_rows == 0


def test_row_file_without_rows(tmp_path):
    """A file without rows has the columns."""
    file = RowFile(tmp_path / "rows.parquet")
    file.append(rows_of(10).slice(0, 0))
    file.close()

    assert pq.read_schema(tmp_path / "rows.parquet") == rows_of(10).schema


@contextmanager
def largest_file(n_bytes):
    """Let no file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_row_file_cannot_grow(tmp_path):
    """The error is the disk's, not that of closing a file which cannot be written."""
    rows = Rows(tmp_path / "rows.parquet")

    with (
        pytest.raises(OSError, match="File too large"),
        largest_file(10_000),
        rows.appending() as file,
    ):
        file.append(unlisted(rows_of(10)))
        file.append(unlisted(rows_of(N_ROWS)))
