"""What a table is refused for, and that no refusal shows a value."""

import gzip
import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tables import CONTRACT, GOOD, HEADER, column, with_feature, written

from screening.data.reading import check_cohort, read_cohort
from screening.data.stream import open_cohort
from screening.errors import CohortError, UsageError

CELLS = {
    "not a number": ("age", "S3CRET", "missing_values"),
    "undeclared NA": ("age", "NA", "missing_values"),
    "censored": ("age", "<7654", "censored"),
    "greater": ("age", ">7654", "censored"),
    "infinite": ("age", "-inf", "infinite"),
    "too large": ("age", "9e999", "infinite"),
    "not a number by name": ("age", "NaN", "missing_values"),
    "half a group of thousands": ("age", '"7,654,32"', "not a number"),
    "underscore": ("age", "7_654", "not a number"),
    "hexadecimal": ("age", "0x7654", "not a number"),
    "other digits": ("age", "٧٦", "not a number"),
    "implausible": ("age", "7654", "plausible"),
    "unknown category": ("ward", "S3CRET", "categories"),
    "not boolean": ("sick", "S3CRET", "yes/no"),
    "number as boolean": ("sick", "7654", "yes/no"),
    "unknown stage": ("stage", "S3CRET", "categories"),
    "blank id": ("id", "  ", "id"),
}


@pytest.mark.parametrize(("name", "cell", "remedy"), CELLS.values(), ids=CELLS.keys())
def test_bad_cell_is_refused_by_column_and_row_with_a_remedy(
    tmp_path, name, cell, remedy
):
    """And never by its value."""
    sound = ["1", "50", "B", "no", "I"]
    cells = dict(zip(HEADER.split(","), sound, strict=True)) | {name: cell}
    path = written(tmp_path, f"{HEADER}\n{GOOD}\n\n{','.join(cells.values())}\n")
    with pytest.raises(CohortError) as refused:
        read_cohort(path, CONTRACT)
    (line,) = refused.value.violations
    assert f"column '{name}', row 2:" in line
    assert remedy in line
    assert "S3CRET" not in line
    assert "7654" not in line


def test_all_violations_come_together_and_many_rows_are_counted(tmp_path):
    bad = "".join(f"S3CRET{i},S3CRET,S3CRET,S3CRET,S3CRET\n" for i in range(20))
    path = written(tmp_path, f"{HEADER}\n{GOOD}\n{bad}too,few\n{HEADER}\n")
    violations, _ = check_cohort(path, CONTRACT)
    assert len(violations) == 6
    for words in (
        r"column 'age', rows 2, 3, 4, 5, 6 and 15 more",
        r"row 22.*fewer cells",
        r"row 23.*header",
    ):
        assert any(re.search(words, line) for line in violations)
    assert "S3CRET" not in " ".join(violations)


def test_repeated_ids_are_refused_by_row(tmp_path):
    path = written(tmp_path, "id,x\nS3CRET,1.5\nb,2.5\nS3CRET,3.5\n")
    with pytest.raises(
        CohortError, match=r"column 'id', rows 1, 3: .*more than once"
    ) as refused:
        read_cohort(path, id="id")
    assert "S3CRET" not in str(refused.value)


def test_rows_without_a_label_are_refused_only_where_labels_are_needed(tmp_path):
    path = written(tmp_path, "x,label\n1.5,yes\n2.5,\n3.5,no\n")
    with pytest.raises(CohortError, match="column 'label', row 2: no label"):
        read_cohort(path, label="label", need_label=True)
    labels = read_cohort(path, label="label").label
    assert labels.tolist() == ["yes", "", "no"]


@pytest.mark.parametrize(
    ("cells", "words", "rule"),
    [
        (["1.5", "2.5", "7654,5"], r"row 3: a decimal comma.*decimal point", {}),
        (["1", "", "3"], "row 2: missing, but", {"missing": "refuse"}),
    ],
)
def test_a_cell_is_refused_by_its_columns_mark_and_the_contracts_rule(
    tmp_path, cells, words, rule
):
    with pytest.raises(CohortError, match=words):
        column(tmp_path, cells, **rule)


def test_leave_out_offending_rows(tmp_path):
    """Offending rows are left out and counted once each where the contract says so."""
    lenient = CONTRACT.with_roles(on_violation="refuse_rows")
    rows = [
        GOOD,
        "2,old,C,yes,I",
        "3,50,C,no,I",
        "4,51,B,no,I",
        "4,52,B,no,I",
        "short",
        "6,53,A,t,III",
    ]
    text = "\n".join([HEADER, *rows]) + "\n"
    path = written(tmp_path, text)
    cohort = read_cohort(path, lenient)
    assert cohort.id.tolist() == ["00123", "6"]
    assert cohort.rows.tolist() == [1, 7]
    assert sum(cohort.refused.values()) == 5
    assert cohort.refused["age: not a number"] == 1
    assert open_cohort(path, lenient).refused == {}
    with pytest.raises(CohortError, match="every row"):
        read_cohort(written(tmp_path, f"{HEADER}\n1,old,A,t,I\n"), lenient)


FILES = {
    "empty": (b"", "empty"),
    "blank": (b" \n\n", "empty"),
    "header only": (HEADER.encode(), "no data rows"),
    "no header": (b"7654,98.76,S3CRET\n1,2,3\n", "header row"),
    "title": (
        f"Report of 2026\n\n{HEADER}\n{GOOD}\n{GOOD}\n".encode(),
        "if it is a title",
    ),
    "title above tabs": (
        f"Report\n{HEADER}\n{GOOD}\n{GOOD}\n".replace(",", "\t").encode(),
        "if it is a title",
    ),
    "names twice": (
        f"{HEADER},age\n{GOOD},7\n".encode(),
        "occurs 2 times (columns 2, 6)",
    ),
    "column missing": (b"id,age,ward\n1,61,A\n", "missing columns 'sick', 'stage'"),
    "column renamed": (
        b"id,age,ward,sick,phase\n1,61,A,t,I\n",
        "missing column 'stage'; 'phase' is new",
    ),
    "open quote": (f'{HEADER}\n{GOOD}\n2,"61,A,t,I\n'.encode(), "quote"),
    "open quote above": (
        f'{HEADER}\n2,"61,A,t,I\n{GOOD}'.encode(),
        "row 1: a quote is not closed",
    ),
    "cut in the last row": (f"{HEADER}\n{GOOD}\n7654,6".encode(), "cut short"),
    "cut behind a mark of Excel": (
        f"{HEADER}\r\n{GOOD}\r\n7654,6".encode("utf-8-sig"),
        "cut short",
    ),
    "cut on an old Mac": (f"{HEADER}\r{GOOD}\r7654,6".encode(), "cut short"),
    "cut in a quoted cell": (f'{HEADER}\n{GOOD}\n7654,"6'.encode(), "cut short"),
    "cut behind a quoted cell": (
        f'{HEADER}\n"1",61,A,t,I\n7654,6'.encode(),
        "cut short",
    ),
    "NUL": (
        f"{HEADER}\n{GOOD}\n2,6\x001,A,t,I\n".encode(),
        "line 3: the line has a NUL",
    ),
    "workbook": (b"PK\x03\x04" + bytes(200), "zip archive"),
    "web page": (b"\n<html><body>S3CRET</body></html>", "web page"),
    "JSON": (b'[{"id": 7654}]', "JSON"),
    "cut inside a character": ("id,ä\n1,ü".encode()[:-1], "cut short"),
    "binary": (bytes(range(1, 256)) * 8, "binary"),
    "cut gzip": (gzip.compress((HEADER + "\n" + GOOD * 100).encode())[:-30], "damaged"),
    "broken parquet": (b"PAR1" + b"x" * 100, "Parquet"),
    "broken Arrow": (b"ARROW1" + b"x" * 100, "the Arrow file is damaged"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES.keys())
def test_a_file_that_is_no_table_is_refused_saying_what_it_is(
    tmp_path, content, message
):
    with pytest.raises(CohortError) as refused:
        read_cohort(written(tmp_path, content), CONTRACT)
    assert message in str(refused.value)
    assert "S3CRET" not in str(refused.value)
    assert "7654" not in str(refused.value)


def test_faults_of_all_files_of_a_directory_come_together(tmp_path):
    files = {
        "a.csv": f"{HEADER}\n{GOOD}\n",
        "b.csv": "id,age\n1,61\n",
        "c.csv": "",
        "d.csv": "id\n",
    }
    for name, text in files.items():
        written(tmp_path, text, name)
    with pytest.raises(CohortError, match=r"c\.csv"):
        read_cohort(tmp_path, CONTRACT)
    (tmp_path / "c.csv").unlink()
    with pytest.raises(CohortError) as refused:
        read_cohort(tmp_path, CONTRACT)
    files = [line.split(":")[0] for line in refused.value.violations]
    assert files == [
        "b.csv",
        "d.csv",
    ]


@pytest.mark.parametrize("place", ["", "/*.csv"])
@pytest.mark.parametrize("kind", ["link", "pipe", "unreadable"])
def test_odd_entry_among_the_files_of_a_cohort_is_refused(
    tmp_path, monkeypatch, kind, place
):
    """What is hidden or of another kind is skipped by its name."""
    for name in ("a.csv", "_SUCCESS", ".hidden.csv", "notes.json"):
        written(tmp_path, f"{HEADER}\n{GOOD}\n", name)
    assert read_cohort(f"{tmp_path}{place}", CONTRACT).n_rows == 1
    odd = tmp_path / "b.csv"
    makers = {"link": lambda: odd.symlink_to("gone"), "pipe": lambda: os.mkfifo(odd)}
    makers.get(kind, odd.touch)()
    blocked = odd if kind == "unreadable" else None
    monkeypatch.setattr(os, "access", lambda path, mode: path != blocked)
    with pytest.raises(CohortError, match=r"^b\.csv: "):
        read_cohort(f"{tmp_path}{place}", CONTRACT)


def test_directory_among_the_files_of_a_cohort_is_refused(tmp_path):
    written(tmp_path, f"{HEADER}\n{GOOD}\n", "a.csv")
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(CohortError, match=r"^b\.csv: "):
        read_cohort(tmp_path, CONTRACT)


def test_tables_of_several_kinds_are_not_inferred_together(tmp_path):
    written(tmp_path, "a,b\n1,2\n", "a.csv")
    written(tmp_path, "a,c\n1,2\n", "b.csv")
    with pytest.raises(
        CohortError, match=r"b\.csv: its columns differ from those of a\.csv"
    ):
        read_cohort(tmp_path)


def test_nothing_at_the_place_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no file"):
        read_cohort(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="no CSV, Parquet"):
        read_cohort(tmp_path)


def test_nested_columns(tmp_path):
    """Nested columns are refused by the contract and dropped without one."""
    table = pa.table({"x": [[1], [2]], "f": [0.5, 1.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(CohortError, match="nested"):
        read_cohort(tmp_path / "a.parquet", with_feature())
    assert read_cohort(tmp_path / "a.parquet").names == ["f"]


@pytest.mark.parametrize("column", ["id", "ward", "ill"])
def test_parquet_text_not_utf8(tmp_path, column):
    """A text of parquet that is not UTF-8 is refused by column and row."""
    texts = pa.array([b"a", b"b", b"K\xf6ln", b"d"])
    latin = pa.Array.from_buffers(pa.string(), 4, texts.buffers())
    table = {
        "id": list("abcd"),
        "ward": list("ABAB"),
        "x": [1.5, 2.0, 3.0, 4.0],
        "ill": list("ynny"),
    }
    damaged = pa.table(table | {column: latin})
    pq.write_table(damaged, tmp_path / "a.parquet")
    with pytest.raises(
        CohortError, match=rf"column '{column}', row 3: the text is not UTF-8"
    ):
        read_cohort(tmp_path / "a.parquet", id="id", label="ill")
    assert "row 3" in check_cohort(tmp_path / "a.parquet", label="ill")[0][0]


def labelled(folder, labels):
    path = written(
        folder, "x,y\n" + "".join(f"{i}.5,{text}\n" for i, text in enumerate(labels))
    )
    return read_cohort(path, label="y", need_label=True)


@pytest.mark.parametrize(
    ("labels", "asked", "positives"),
    [
        (["no", "yes", "yes"], None, ["yes"]),
        (["a", "b", "b"], None, ["a"]),
        (["a", "b", "c"], ["a", "c"], ["a", "c"]),
        (["0.0", "1.0", "1.0"], "1", ["1.0"]),
        (["0.0", "1.0", "1.0"], None, ["1.0"]),
        (["-1", "1", "1"], None, ["1"]),
        (["1", "1", "2"], None, ["2"]),
        (["Nein", "Ja", "Ja"], None, ["Ja"]),
        (["1", "other", "1"], None, ["1"]),
        (["ckd", "ckd", "notckd"], None, ["ckd"]),
        (["HIV+", "HIV+", "HIV-"], None, ["HIV+"]),
        (["recurrence", "recurrence", "no-recurrence"], None, ["recurrence"]),
        (["krank", "krank", "gesund"], None, ["krank"]),
        (["décédé", "décédé", "vivant"], None, ["décédé"]),
        (["Kontrolle", "Fall", "Fall"], None, ["Fall"]),
        (["not normal", "not normal", "normal"], None, ["not normal"]),
        (["nodular", "nodular", "flat"], None, ["flat"]),
        (["sepsis", "sepsis", "w/o sepsis"], None, ["sepsis"]),
        (["not cured", "not cured", "cured"], None, ["not cured"]),
        (["symptomatic", "symptomatic", "asymptomatic"], None, ["symptomatic"]),
        (["ckd", "ckd", "notckd"], "notckd", ["notckd"]),
    ],
)
def test_positive_labels(tmp_path, labels, asked, positives):
    """Those asked for, else the affirming, else what is no denial, else the rarer."""
    cohort = labelled(tmp_path, labels)
    assert list(cohort.classes_named(asked or ())) == positives
    expected = [int(text in positives) for text in labels]
    assert cohort.y(asked).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "asked", "positives"),
    [
        ("abcd", ["a+b", "d"], {"a+b": ("a", "b"), "d": ("d",)}),
        ("abcd", "b + a", {"b+a": ("b", "a")}),
        (["C+", "B+", "C"], "C+", {"C+": ("C+",)}),
        (["C+", "B+", "C"], "C++B+", {"C++B+": ("C+", "B+")}),
        (["a", "b", "a+b", "c"], "a+b", {"a+b": ("a+b",)}),
        (["1.0", "2.0", "3.0"], "1+2", {"1.0+2.0": ("1.0", "2.0")}),
    ],
)
def test_a_plus_joins_labels_unless_it_is_part_of_one(
    tmp_path, labels, asked, positives
):
    assert labelled(tmp_path, [*labels]).classes_named(asked) == positives


@pytest.mark.parametrize(
    ("labels", "asked", "message"),
    [
        (["a", "b", "c"], None, r"3 classes.*`positive`, or join several as A\+B"),
        (["a", "a"], None, "one class only"),
        (["a", "b", "c"], "a+z", r"a\+z: no row has"),
        (["a", "b", "c"], ["a+b", "b"], "names b twice"),
        (["a", "b"], "z", "no row has"),
        (["healthy", "benign"], None, "both labels look like a no"),
    ],
)
def test_a_label_that_does_not_say_what_is_positive_is_a_usage_error(
    tmp_path, labels, asked, message
):
    with pytest.raises(UsageError, match=message):
        labelled(tmp_path, labels).classes_named(asked or ())
