"""Some rows of a part, read by themselves, are those that reading all of it gives."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.scoring.fragments import pieces_of
from screening.sources.frames import source_of
from screening.sources.source_files import open_source


def texts(blocks):
    """Every cell of some blocks as text, and the number of every row."""
    return [
        (block.first_row + row, *(str(column[row].as_py()) for column in block.columns.values()))
        for block in blocks
        for row in range(block.n_rows)
    ]


def sizes(blocks):
    return [block.n_rows for block in blocks]


def read_both_ways(pieces, part, columns, batch):
    """The blocks of all pieces, one after the other, and those of the whole part."""
    return [block for piece in pieces for block in piece.blocks(columns, batch)], list(
        part.blocks(columns, batch)
    )


def table(n_rows):
    rng = np.random.default_rng(n_rows)
    return pd.DataFrame({"a": rng.normal(size=n_rows), "name": [f"p{i % 7}" for i in range(n_rows)]})


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 4), st.integers(1, 5))
def test_pieces_of_a_parquet_file_have_its_rows_in_its_batches(
    tmp_path_factory, n_rows, group, batch, batches
):
    path = tmp_path_factory.mktemp("pieces") / "table.parquet"
    pq.write_table(pa.Table.from_pandas(table(n_rows)), path, row_group_size=group)
    (part,) = open_source(path).files
    pieces = pieces_of(part, batch * batches)

    found, whole = read_both_ways(pieces, part, ["name", "a"], batch)

    assert texts(found) == texts(whole)
    assert sizes(found) == sizes(whole)
    assert len(pieces) == -(-n_rows // (batch * batches))


ENDS = st.sampled_from(["\n", "\r\n"])
CELLS = st.lists(st.sampled_from(["1.5", "", "ward 3", "-7", "ä"]), min_size=2, max_size=2)


@given(st.lists(CELLS, min_size=1, max_size=40), ENDS, st.booleans(), st.integers(1, 3), st.integers(1, 4))
def test_pieces_of_a_plain_text_file_have_its_rows_in_its_batches(
    tmp_path_factory, rows, end, ended, batch, batches
):
    path = tmp_path_factory.mktemp("pieces") / "table.csv"
    text = end.join(",".join([*cells, "last"]) for cells in [["a", "b"], *rows])
    path.write_bytes((text + end * ended).encode())
    (part,) = open_source(path).files
    pieces = pieces_of(part, batch * batches)

    found, whole = read_both_ways(pieces, part, ["b", "a"], batch)

    assert texts(found) == texts(whole)
    assert sizes(found) == sizes(whole)
    assert [piece.rows for piece in pieces[:-1]] == [batch * batches] * (len(pieces) - 1)


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,"x\ny"\n2,z\n3,z\n',  # quoted cells may hold line ends
        "a,b\n1,x\n\n2,y\n\n3,z\n",  # blank lines are no rows
        "a,b\n\n1,x\n2,y\n3,z\n",
        "sep=;\na;b\n1;x\n2;y\n3;z\n",
        "a,b\n1,x\n2\n3,z\n4,z\n",  # a row of another width
        "a,b\n1,x\na,b\n3,z\n4,z\n",  # a header again
    ],
)
def test_pieces_of_an_irregular_text_file_have_its_rows(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    (part,) = open_source(path).files

    found = [block for piece in pieces_of(part, 2) for block in piece.blocks(["a", "b"], 1)]

    assert texts(found) == texts(part.blocks(["a", "b"], 1))


def test_a_packed_file_is_one_piece(tmp_path):
    table(9).to_csv(tmp_path / "table.csv.gz", index=False)
    (part,) = open_source(tmp_path / "table.csv.gz").files

    (piece,) = pieces_of(part, 2)

    assert texts(piece.blocks(["a"], 4)) == texts(part.blocks(["a"], 4))


def test_a_table_in_memory_has_no_pieces_for_others():
    (part,) = source_of(table(5)).files

    with pytest.raises(UsageError, match="no file that a worker could read"):
        pieces_of(part, 2)
