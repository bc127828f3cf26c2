"""CSV is read as Python's strict reader reads it, in bounded memory; what is broken is
named by its row."""

import csv
import gzip
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.errors import CohortError
from screening.io.opening import source_at
from screening.io.readers import TableFile

CELLS = (
    st.text(st.sampled_from("01 x.é<-\t"), max_size=4)
    | st.just('"a ""b"",\n\nc"')
    | st.just('x"y')
)
ROWS = st.lists(CELLS, min_size=3, max_size=3).map(",".join)
ODD = st.sampled_from(["", "  ", "a,b", "1,2,3,4", "id,age, note", ",,", '""'])


def opened(path: Path) -> TableFile:
    return source_at(path).files[0]


def rows_of(file: TableFile, batch_rows: int) -> list[list[str] | str]:
    """Cells of each row, or what is said of it."""
    found: list[list[str] | str] = []
    for block in file.blocks(["id", "age", "note"], batch_rows):
        assert block.first_row == len(found) + 1
        columns = [column.to_pylist() for column in block.columns.values()]
        cells = zip(*columns, strict=True)
        for row, ragged, repeated in zip(
            cells, block.ragged, block.repeated_header, strict=True
        ):
            found.append("ragged" if ragged else "header" if repeated else list(row))
    return found


@pytest.mark.repeated
@settings(max_examples=examples(30, 100), deadline=None)
@given(
    lines=st.lists(ROWS | ROWS | ODD, max_size=30),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "\n"]),
    batch_rows=st.sampled_from([1, 4, 1000]),
    encoding=st.sampled_from(["utf-8", "utf-16", "cp1252"]),
)
def test_every_row_is_read_as_python_reads_it_or_named_by_its_place(
    lines, end, last, batch_rows, encoding
):
    text = end.join(["id,age, note", *lines]) + last
    rows = csv.reader(io.StringIO(text, newline=""))
    *_, final = rows
    if any(map(str.strip, final)) and len(final) < 3:
        # Without its line end, such a row would be that of a file that was cut.
        text += end
    expected: list[list[str] | str] = []
    _, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    for cells in rows:
        if cells:
            broken = (
                "ragged"
                if len(cells) != 3
                else "header"
                if cells == ["id", "age", " note"]
                else ""
            )
            expected.append(broken or cells)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(text.encode(encoding))
        file = opened(path)
        file.delimiter = ","
        file.header = ["id", "age", "note"]

        assert rows_of(file, batch_rows) == expected


@pytest.mark.parametrize("bad", ['9,"open,2', '9,"a" b,2', '9,2,"open', '"9" 9,2,3'])
@pytest.mark.parametrize("behind", [3, 30_000])
def test_csv_unclosed_quote(tmp_path, bad, behind):
    """A quote that is not closed swallows no rows but is refused by its row."""
    path = tmp_path / "t.csv"
    path.write_text(
        'id,age,note\n"1\n1",2,3\n\na,b\n' + bad + "\n" + '1,2,"3"\n' * behind
    )
    file = opened(path)
    rows = 0
    with pytest.raises(CohortError, match=r"^t\.csv, row 3: a quote is not closed"):
        for block in file.blocks(["id"], 16_384):
            rows += block.n_rows
    assert rows == 2


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_long_note_is_read(tmp_path, quote):
    """A cell of any length is read, and refuses nothing where its column is not
    read.
    """
    path = tmp_path / "t.csv"
    note = quote + b"x" * 200_000 + quote
    path.write_bytes(b"id,note\n1,2\n3,4\n5," + note + b"\n6,7\n")

    of_ids = opened(path).blocks(["id"], 9)
    of_notes = opened(path).blocks(["note"], 9)
    ids = [block.columns["id"].to_pylist() for block in of_ids]
    notes = [block.columns["note"] for block in of_notes]

    assert ids == [["1", "3", "5", "6"]]
    assert len(notes[0][2].as_py()) == 200_000


@pytest.mark.parametrize("delimiter", ["^", "~", "|", "\x01"])
def test_rare_delimiters(tmp_path, delimiter):
    """Carets, tildes, bars and the control character 1 part cells."""
    path = tmp_path / "t.csv"
    rows = [
        ["id", "age", "ward"],
        ["1", "50", "a,b"],
        ["2", "60", "c d"],
    ]
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows))

    (block,) = opened(path).blocks(None, 9)

    assert block.columns["ward"].to_pylist() == ["a,b", "c d"]


def test_apostrophes_as_quotes(tmp_path):
    """Where every name stands between apostrophes, they are quotes, and that is
    said.
    """
    path = tmp_path / "t.csv"
    path.write_text("'id','note'\n'1','a, b'\n'2','it''s'\n")
    file = opened(path)

    (block,) = file.blocks(None, 9)

    assert block.columns["note"].to_pylist() == ["a, b", "it's"]
    assert "apostrophes as quotes" in file.note


def test_other_byte_in_unread_column(tmp_path):
    """One byte of cp1252 garbles no id; in a column that is read its row is named."""
    path = tmp_path / "t.csv"
    ids = [f"Müller-{row}" for row in range(50)]
    lines = [f"{name},50,x\n".encode() for name in ids]
    lines[30] = "Müller-30,50,".encode() + "ü\n".encode("cp1252")
    path.write_bytes(b"id,age,note\n" + b"".join(lines))

    (block,) = opened(path).blocks(["id", "age"], 99)

    assert block.columns["id"].to_pylist() == ids
    with pytest.raises(CohortError, match=r"column 'note', row 31: .*not UTF-8"):
        list(opened(path).blocks(["id", "note"], 99))


def test_csv_wide_rows(tmp_path):
    """Wide rows are read and lines that belong to no such header are refused."""
    wide = tmp_path / "wide.csv"
    narrow = tmp_path / "narrow.csv"
    wide.write_text(
        ",".join(f"v{i}" for i in range(2000))
        + "\n"
        + ",".join(["x" * 100] * 2000)
        + "\n"
    )
    cells = ",".join(["x" * 1000] * 300)
    narrow.write_text(f"id,age\n{cells}\n")
    blocks = opened(wide).blocks(["v1999"], 10)
    assert [block.n_rows for block in blocks] == [1]
    with pytest.raises(CohortError, match="line end missing"):
        list(opened(narrow).blocks(["id"], 10))


def test_memory_does_not_grow_with_the_rows_of_a_file(tmp_path):
    code = (
        "import sys\nfrom screening.cli.logs import peak_mb\n"
        "from screening.io.opening import source_at\n"
        "print(sum(block.n_rows for block in source_at(sys.argv[1]).files[0].blocks(None, 4096)))\n"
        "print(peak_mb())"
    )

    def peak(n_rows: int) -> int:
        path = tmp_path / f"{n_rows}.csv"
        path.write_text("id,a,b\n" + '"x",1.5,2.5\n' * n_rows)
        words = [sys.executable, "-c", code, str(path)]
        rows, megabytes = subprocess.run(
            words, capture_output=True, text=True, check=True
        ).stdout.split()
        assert int(rows) == n_rows
        return int(megabytes)

    # 400,000 more rows are 5 MB of text and 20 MB as Arrow holds them.
    assert peak(500_000) - peak(100_000) < 8


def test_csv_space_separated(tmp_path):
    """A table of single spaces is read and an aligned one gets its remedy."""
    rows = [f"{30 + i} {i / 2} {'yes' if i % 3 else 'no'}" for i in range(40)]
    spaced = [row.replace(" ", "   ") for row in rows]
    numbered = [f'"{i}" {row}' for i, row in enumerate(rows)]
    texts = {
        "plain": ["age crp ill", *rows],
        "aligned": ["age  crp   ill", *spaced],
        "r": ['"age" "crp" "ill"', *numbered],
    }
    for name, lines in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    (plain,) = source_at(tmp_path / "plain.txt").files
    assert plain.header == ["age", "crp", "ill"]
    for name in ("aligned.txt", "r.txt"):
        with pytest.raises(
            CohortError,
            match=rf"{name}: the columns are separated by spaces.*write\.csv",
        ):
            source_at(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("note", ["a note", '"a ""quoted"",\nnote"'])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_last_line_without_line_end(tmp_path, end, encoding, note, compress):
    """A cut in the last cell leaves every field; the missing line end is noted."""
    lines = ["id,age,note", f"1,70,{note}", f"2,71,{note}"]
    text = end.join(lines)
    whole = tmp_path / "whole.csv"
    cut = tmp_path / "cut.csv"
    whole.write_bytes(compress((text + end).encode(encoding)))
    cut.write_bytes(compress(text.encode(encoding)))

    noted = "no line end after the last row"
    assert opened(whole).ends_in_newline is True
    assert noted not in opened(whole).note
    assert opened(cut).ends_in_newline is False
    assert noted in opened(cut).note
    assert source_at(tmp_path).ends_in_newline is False
    of_cut = rows_of(opened(cut), 10)
    assert of_cut == rows_of(opened(whole), 10)
