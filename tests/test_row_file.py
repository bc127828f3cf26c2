"""`scores.parquet`, written from row groups that were encoded elsewhere."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from screening.io import parquet_join
from screening.io.parquet_join import ParquetJoin
from screening.scoring import row_file
from screening.scoring.row_file import RowFile, RowGroupEncoder, unencoded

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


@pytest.fixture(scope="module", autouse=True)
def small_groups():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_file, "GROUP_ROWS", GROUP_ROWS)
        yield


def as_parquet(path, tables):
    """A file that Arrow writes, of one row group for each table."""
    schema = tables[0].schema
    with pq.ParquetWriter(path, schema, use_dictionary=["class"]) as writer:
        for table in tables:
            writer.write_table(table)
    return path.read_bytes()


def test_parquet_join_is_the_file_of_all_rows(tmp_path):
    """Joined files are, byte for byte, the file that Arrow writes of their rows."""
    sizes = (1, 300, 20_000, 5)
    tables = [rows_of(n_rows, seed=n_rows) for n_rows in sizes]
    whole = as_parquet(tmp_path / "whole.parquet", tables)

    file = ParquetJoin(tmp_path / "joined.parquet")
    for number, table in enumerate(tables):
        content = as_parquet(tmp_path / f"{number}.parquet", [table])
        file.append(memoryview(content))
    file.close()

    assert (tmp_path / "joined.parquet").read_bytes() == whole
    assert pq.read_table(tmp_path / "joined.parquet") == pa.concat_tables(tables)


@pytest.mark.parametrize("copied_bytes", [100, 1 << 20])
def test_parquet_join_appends_files_as_their_content(
    tmp_path, monkeypatch, copied_bytes
):
    monkeypatch.setattr(parquet_join, "COPIED_BYTES", copied_bytes)
    tables = [rows_of(n_rows, seed=n_rows) for n_rows in (1, 300, 20_000, 5)]
    whole = as_parquet(tmp_path / "whole.parquet", tables)

    file = ParquetJoin(tmp_path / "joined.parquet")
    for number, table in enumerate(tables):
        path = tmp_path / f"{number}.parquet"
        as_parquet(path, [table])
        file.append_file(path)
    file.close()

    assert (tmp_path / "joined.parquet").read_bytes() == whole


def pieces_of(rows, cuts):
    """The rows between cuts of the table, with the first and last number of each."""
    numbers = rows["row"].to_numpy()
    for above, last in pairwise([0, *cuts, N_ROWS]):
        start, stop = np.searchsorted(numbers, [above, last], side="right")
        yield rows.slice(start, stop - start), above + 1, last


def encoded(rows, first, last, path=None):
    """Rows `first` to `last` of the table, encoded in two blocks."""
    middle = (first + last) // 2
    encoder = RowGroupEncoder(path)
    is_above = pc.less_equal(rows["row"], middle)
    lower = rows.filter(is_above)
    upper = rows.filter(pc.invert(is_above))
    encoder.append(lower, range(first, middle + 1))
    encoder.append(upper, range(middle + 1, last + 1))
    return encoder.finish()


def written(path, pieces):
    """The bytes of a file, and the rows that its list shows."""
    file = RowFile(path)
    for piece in pieces:
        file.append_encoded(piece)
    file.close()
    schema = pa.schema({"id": pa.string(), "row": pa.int64()})
    listed = pa.Table.from_batches(file.copy.batches(schema.names), schema)
    return path.read_bytes(), listed


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(1, N_ROWS - 1), max_size=9).map(sorted))
def test_row_encoder_any_cut(tmp_path_factory, cuts):
    """However a table is cut, and whoever encodes its rows, the file is the same."""
    folder = tmp_path_factory.mktemp("night")
    rows = rows_of(N_ROWS)

    in_memory = [encoded(*piece) for piece in pieces_of(rows, cuts)]
    in_files = [
        encoded(*piece, folder / str(number))
        for number, piece in enumerate(pieces_of(rows, cuts))
    ]

    alone = written(folder / "alone.parquet", [unencoded(rows)])
    for pieces in (in_memory, in_files):
        pieces = [piece for piece in pieces if piece is not None]
        assert written(folder / "pieces.parquet", pieces) == alone
        assert pq.read_table(folder / "pieces.parquet") == rows
    assert {path.name for path in folder.iterdir()} == {
        "alone.parquet",
        "pieces.parquet",
    }


def test_row_encoder_nothing_listed(tmp_path):
    """Whole row groups of which no row is flagged are not lost."""
    rows = rows_of(2 * GROUP_ROWS)
    nobody = pa.array(np.zeros(rows.num_rows, dtype=bool))
    rows = rows.set_column(rows.column_names.index("flagged"), "flagged", nobody)
    nothing = pa.nulls(rows.num_rows, pa.string())
    rows = rows.set_column(
        rows.column_names.index("out_of_bounds"), "out_of_bounds", nothing
    )

    piece = encoded(rows, 1, 2 * GROUP_ROWS)
    _, listed = written(tmp_path / "rows.parquet", [piece])

    assert pq.read_table(tmp_path / "rows.parquet") == rows
    assert listed.num_rows == 0


def test_row_file_without_rows(tmp_path):
    """A file without rows has the columns."""
    file = RowFile(tmp_path / "rows.parquet")
    file.append(rows_of(10).slice(0, 0))
    file.close()

    assert pq.read_schema(tmp_path / "rows.parquet") == rows_of(10).schema
