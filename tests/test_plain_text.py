"""CSV without quotes is read by Arrow, and says the same as reading row by row."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.errors import CohortError
from screening.sources import csv_text, plain_text
from screening.sources.csv_text import csv_blocks, csv_form

CELLS = st.text(st.sampled_from("01 x.é<-\t"), max_size=4)
ROWS = st.lists(CELLS, min_size=3, max_size=3).map(",".join)
ODD = st.sampled_from(["", "  ", "a,b", "1,2,3,4", "id,age, note", ",,", "x" * 200_000 + ",1,2"])


def said(path: Path, form: csv_text.CsvForm, batch_rows: int) -> list[object]:
    """All that the reader says of a file: its blocks, or at the end the words of a refusal."""
    blocks: list[object] = []
    try:
        for block in csv_blocks(path, path.name, form, ["id", "note"], batch_rows):
            texts = {name: column.to_pylist() for name, column in block.columns.items()}
            broken = block.ragged.tolist(), block.repeated_header.tolist()
            blocks.append((texts, block.n_rows, block.first_row, broken))
    except CohortError as error:
        blocks.append(str(error))
    return blocks


@settings(max_examples=120, deadline=None)
@given(
    lines=st.lists(ROWS | ROWS | ROWS | ODD, max_size=40),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "\n"]),
    batch_rows=st.sampled_from([1, 4, 7, 1000]),
    piece=st.sampled_from([64, 1 << 16]),
)
def test_both_readers_say_the_same_of_any_file(lines, end, last, batch_rows, piece):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "_PIECE", piece)
        path = Path(folder) / "t.csv"
        path.write_bytes((end.join(["id,age, note", *lines]) + last).encode())
        form = replace(csv_form(path), delimiter=",", header=["id", "age", "note"])

        assert form.plain
        assert said(path, form, batch_rows) == said(path, replace(form, plain=False), batch_rows)


@pytest.mark.parametrize("text", ['id,age\n"1",2\n', "id,age\r1,2\r", "\ufeffid,age\n1,2\n"])
def test_quotes_old_line_ends_and_marks_are_for_the_other_reader(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())

    assert not csv_form(tmp_path / "t.csv").plain


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_regular_file_is_read_without_the_slow_reader(tmp_path, monkeypatch, pack):
    path = tmp_path / "t.csv"
    path.write_bytes(pack(b"id,age\n" + b"".join(b"%d,5\n" % i for i in range(40_000))))
    form = csv_form(path)
    monkeypatch.delattr(csv_text.csv, "reader")

    blocks = list(csv_blocks(path, "t.csv", form, ["id"], 16_384))

    assert [block.n_rows for block in blocks] == [16_384, 16_384, 7232]
    assert [block.first_row for block in blocks] == [1, 16_385, 32_769]
    assert blocks[2].columns["id"][-1].as_py() == "39999"
