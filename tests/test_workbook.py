"""A sheet of Excel is read as the same table in CSV would be."""

import datetime

import pytest

from screening.data.reading import read_cohort
from screening.errors import CohortError, UsageError

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")
ROWS = [
    ["id", "age", "crp", "ill", "seen"], ["00123", 61, "3,5", "yes", datetime.datetime(2024, 1, 31)],
    [124, 61.5, "12,25", "no", datetime.datetime(2024, 2, 1, 9, 30)], [None] * 5,
    ["7", None, "4", True, None],
]  # fmt: skip


def saved(folder, rows, sheets=("table",), name="past.xlsx"):
    book = openpyxl.Workbook()
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
    assert cohort.notes[0] == f"{name}: Excel workbook, sheet 'table' (1 other sheet not read)"
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
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(UsageError, match=r"screening\[xlsx\]"):
        read_cohort(path)
