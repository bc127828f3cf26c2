"""A table in memory, an Arrow file or a sheet of Excel is a cohort like one in CSV."""

import datetime
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from flow_cohorts import patients, written
from pyarrow import feather

from screening import read_cohort
from screening.errors import CohortError, UsageError
from screening.io.readers import source_of

ROLES = {"label": "ill", "positive": "yes", "id": "patient"}


class Streamed:
    """What a polars table offers: Arrow's stream."""

    def __init__(self, table: pa.Table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def viewed(table: pd.DataFrame) -> pa.Table:
    coded = pa.array(table["ward"]).dictionary_encode()
    views = pa.DictionaryArray.from_arrays(
        coded.indices, coded.dictionary.cast(pa.string_view())
    )
    whole = pa.Table.from_pandas(table, preserve_index=False)
    return whole.set_column(whole.column_names.index("ward"), "ward", views)


FORMS = {
    "pandas": lambda table: table,
    "Arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "streamed": lambda table: Streamed(
        pa.Table.from_pandas(table, preserve_index=False)
    ),
    "categories": lambda table: table.astype({"ward": "category"}),
    "ids in the index": lambda table: table.set_index("patient"),
    "categories of string views, as in polars": lambda table: Streamed(viewed(table)),
    "pandas of an odd index": lambda table: table.set_axis(
        np.arange(len(table)) * 7, axis=0
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_in_memory_reads_as_the_file_does(form, tmp_path):
    table = patients()
    from_file = read_cohort(written(table, tmp_path / "past.csv"), **ROLES)
    cohort = read_cohort(FORMS[form](table), **ROLES)
    pd.testing.assert_frame_equal(
        cohort.features, from_file.features, check_dtype=False
    )
    np.testing.assert_array_equal(
        [cohort.id, cohort.label], [from_file.id, from_file.label]
    )


def test_the_digest_is_of_the_values_and_not_of_the_pieces():
    table = pa.Table.from_pandas(patients(), preserve_index=False)
    pieces = pa.concat_tables([table.slice(0, 100), table.slice(100)])
    other = table.set_column(0, "patient", pa.array(["x"] * len(table)))
    first, again, changed = (
        source_of(each).files[0].sha256 for each in (table, pieces, other)
    )
    assert first == again != changed


WRONG = {
    "name": pd.DataFrame({1: [1, 2]}),
    "kinds": pd.DataFrame({"a": [1, "x"]}),
    "Arrow has not": pd.DataFrame({"a": [1 + 2j, 3]}),
    "not UTF-8": pd.DataFrame({"a": ["\ud800", "b"]}),
    "occurs 2 times": pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
}


@pytest.mark.parametrize(("reason", "wrong"), WRONG.items(), ids=WRONG)
def test_a_table_that_is_none_is_refused_with_the_reason(reason, wrong):
    with pytest.raises(CohortError, match=f"table: .*{reason}"):
        read_cohort(wrong, label="a")


@pytest.mark.parametrize("ending", ["feather", "arrow", "csv"])
def test_an_arrow_file_reads_as_the_table_whatever_it_is_called(tmp_path, ending):
    table = patients()
    feather.write_feather(table, tmp_path / f"past.{ending}", chunksize=70)
    cohort = read_cohort(
        tmp_path / f"past.{ending}", id="patient", label="ill", batch_rows=50
    )
    pd.testing.assert_frame_equal(
        cohort.features, read_cohort(table, id="patient", label="ill").features
    )
    assert cohort.notes[0] == f"past.{ending}: Arrow"


ROWS = [
    ["id", "age", "crp", "ill", "seen"],
    ["00123", 61, "3,5", "yes", datetime.datetime(2024, 1, 31)],
    [124, 61.5, "12,25", "no", datetime.datetime(2024, 2, 1, 9, 30)],
    [None] * 5,
    ["7", None, "4", True, None],
]


def saved(folder, rows, sheets=("table",), name="past.xlsx"):
    pytest.importorskip("python_calamine")
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = sheets[0]
    for title in sheets[1:]:
        book.create_sheet(title)
    for row in rows:
        book.active.append(row)
    book.save(folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["past.xlsx", "export.csv"])
@pytest.mark.parametrize("batch_rows", [1, 65_536])
def test_a_sheet_is_read_with_its_texts_numbers_and_dates(tmp_path, name, batch_rows):
    path = saved(tmp_path, ROWS, ("table", "notes"), name)
    cohort = read_cohort(path, id="id", label="ill", batch_rows=batch_rows)
    assert cohort.id.tolist() == ["00123", "124", "7"]
    assert cohort.features["age"].tolist()[:2] == [61.0, 61.5]
    assert cohort.features["crp"].tolist() == [3.5, 12.25, 4.0]
    assert cohort.label.tolist() == ["yes", "no", "True"]
    assert (
        cohort.notes[0]
        == f"{name}: Excel workbook, sheet 'table' (1 other sheet not read)"
    )
    assert any("dates" in note and note.endswith("seen") for note in cohort.notes)


def test_a_cell_beside_the_table_is_refused_by_its_row(tmp_path):
    path = saved(tmp_path, [["x", "y"], [1, 2], [1.5, 3, "see below"]])
    with pytest.raises(CohortError, match="row 2: more or fewer cells"):
        read_cohort(path)


@pytest.mark.parametrize("rows", [[], [[None, None]]])
def test_an_empty_sheet_is_refused(tmp_path, rows):
    with pytest.raises(CohortError, match="the first sheet is empty"):
        read_cohort(saved(tmp_path, rows))


def test_a_damaged_workbook_is_refused(tmp_path):
    path = saved(tmp_path, ROWS)
    whole = path.read_bytes()
    start = whole.index(b"xl/worksheets/sheet1.xml") + 40
    path.write_bytes(whole[:start] + bytes(30) + whole[start + 30 :])
    with pytest.raises(CohortError, match="the Excel workbook is damaged"):
        read_cohort(path)


def test_without_calamine_the_extra_is_named(tmp_path, monkeypatch):
    path = saved(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UsageError, match=r"screening\[xlsx\]"):
        read_cohort(path)
