"""A table in memory, an Arrow file or a sheet of Excel is a cohort like one in CSV."""

import datetime
import decimal
import sys
import uuid
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from flow_cohorts import patients, written
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal
from pyarrow import dataset, feather

from screening import Screen, Validation, compare, read_cohort, score, train, validate
from screening.contract.contract import Contract
from screening.data.reading import starter_contract
from screening.errors import CohortError, UsageError
from screening.io import excel_sheets
from screening.io.arrow_types import to_plain_type, to_texts
from screening.io.excel_sheets import size_of_sheet
from screening.io.frames import open_table

ROLES = {"label": "ill", "positive": "yes", "id": "patient"}
QUICK = {"search": 1, "beside": (), "folds": 2}
OF_SCREEN = {
    "search": 1,
    "validation": Validation(beside=(), folds=2),
    "chances": True,
}


class OtherLibrary:
    """A table of a library that nobody here knows, with Arrow's stream alone."""

    def __init__(self, table: pa.Table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def arrow(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False)


def with_cells(table: pd.DataFrame, column: str, cells: pa.Array) -> pa.Table:
    whole = arrow(table)
    place = whole.column_names.index(column)
    return whole.set_column(place, column, cells)


def texts(table: pd.DataFrame, column: str, kind: pa.DataType) -> pa.Array:
    return pa.array(table[column].tolist(), kind)


def polars(table: pd.DataFrame):
    return pytest.importorskip("polars").DataFrame(arrow(table))


def polars_enums(table: pd.DataFrame):
    library = pytest.importorskip("polars")
    ward = library.Enum(sorted(set(table["ward"])))
    return polars(table).cast({"ward": ward, "ill": library.Categorical})


def duckdb(table: pd.DataFrame):
    return pytest.importorskip("duckdb").from_arrow(arrow(table))


def dictionary_of_wards(table: pd.DataFrame) -> pa.Table:
    wards = texts(table, "ward", pa.large_string())
    return with_cells(table, "ward", wards.dictionary_encode())


def runs_of_labels(table: pd.DataFrame) -> pa.Table:
    labels = texts(table, "ill", pa.string())
    return with_cells(table, "ill", pc.run_end_encode(labels))


def decimal_temperatures(table: pd.DataFrame) -> pa.Table:
    numbers = [decimal.Decimal(str(number)) for number in table["fever"]]
    return with_cells(table, "fever", pa.array(numbers))


# By name, what makes of a pandas table the same table in another form.
FRAMES = {
    "pandas": lambda table: table,
    "pandas, Arrow dtypes": lambda table: table.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, nullable dtypes": lambda table: table.convert_dtypes(),
    "pandas, objects": lambda table: table.astype(object),
    "pandas, categories": lambda table: table.astype({"ward": "category"}),
    "pandas, ids in the index": lambda table: table.set_index("patient"),
    "pandas, odd index": lambda table: table.set_axis(np.arange(len(table)) * 7),
    "polars": polars,
    "polars, categories": polars_enums,
    "DuckDB relation": duckdb,
    "other library": lambda table: OtherLibrary(arrow(table)),
    "Arrow table": arrow,
    "Arrow record batch": lambda table: arrow(table).to_batches()[0],
    "Arrow reader": lambda table: arrow(table).to_reader(max_chunksize=50),
    "Arrow dataset": lambda table: dataset.dataset(arrow(table)),
    "Arrow, long offsets": lambda table: with_cells(
        table, "ward", texts(table, "ward", pa.large_string())
    ),
    "Arrow, views": lambda table: with_cells(
        table, "patient", texts(table, "patient", pa.string_view())
    ),
    "Arrow, dictionary": dictionary_of_wards,
    "Arrow, runs": runs_of_labels,
    "Arrow, decimals": decimal_temperatures,
}
every_frame = pytest.mark.parametrize("form", FRAMES.values(), ids=FRAMES)


@pytest.fixture(scope="module")
def past_file(tmp_path_factory):
    return written(patients(), tmp_path_factory.mktemp("past") / "past.csv")


@pytest.fixture(scope="module")
def night_file(tmp_path_factory):
    night = patients(n_rows=60, seed=1)
    return written(night, tmp_path_factory.mktemp("night") / "night.csv")


@pytest.fixture(scope="module")
def screen_of_file(past_file):
    return Screen("logistic", **OF_SCREEN).fit(past_file, "ill", id="patient")


@pytest.fixture(scope="module")
def flow_of_file(past_file, night_file, tmp_path_factory):
    """Operating points, scored rows and figures of another table, from files."""
    model = train(past_file, "logistic", **QUICK, **ROLES)
    run = score(model, night_file, tmp_path_factory.mktemp("run") / "run")
    validation = validate(model, night_file, label="ill")
    rows = (run.directory / "scores.parquet").read_bytes()
    return model.operating_points, rows, validation.figures


@pytest.fixture(scope="module")
def compared_file(past_file):
    return compare({"ward": past_file}, ["logistic"], **COMPARED, **ROLES)


COMPARED = {"control": "logistic", "search": 1, "folds": 2, "repeats": 1}


@every_frame
def test_read_cohort_any_frame(form, past_file):
    """A table in memory is the cohort that its file is."""
    of_file = read_cohort(past_file, **ROLES)

    cohort = read_cohort(form(patients()), **ROLES)

    assert_frame_equal(cohort.features, of_file.features)
    assert_array_equal(cohort.id, of_file.id)
    assert_array_equal(cohort.label, of_file.label)


@every_frame
def test_screen_any_frame(form, screen_of_file, night_file):
    """Fitted on a table in memory and asked about one, it answers as of files."""
    night = patients(n_rows=60, seed=1)

    past = form(patients())
    screen = Screen("logistic", **OF_SCREEN).fit(past, "ill", id="patient")

    scored = screen.score_frame(form(night))

    assert screen.classes_.tolist() == ["no", "yes"]
    assert_frame_equal(
        scored.reset_index(drop=True), screen_of_file.score_frame(night_file)
    )
    for method in ("predict", "predict_proba", "decision_function"):
        assert_array_equal(
            getattr(screen, method)(form(night)),
            getattr(screen_of_file, method)(night_file),
        )


@every_frame
def test_screen_labels_apart(form, screen_of_file, night_file):
    """Labels in an array of their own, as whole numbers, give the same scores."""
    table = patients()
    labels = table["ill"].eq("yes").astype(int).to_numpy()

    screen = Screen("logistic", **OF_SCREEN)
    screen.fit(form(table), labels, id="patient", drop="ill")

    assert screen.classes_.tolist() == [0, 1]
    assert_frame_equal(
        screen.score_frame(night_file), screen_of_file.score_frame(night_file)
    )


@every_frame
def test_flow_any_frame(form, flow_of_file, tmp_path):
    """`train`, `score` and `validate` take a table in memory as they take its file."""
    points, rows, figures = flow_of_file
    night = patients(n_rows=60, seed=1)

    model = train(form(patients()), "logistic", **QUICK, **ROLES)
    run = score(model, form(night), tmp_path / "run")
    validation = validate(model, form(night), label="ill")

    assert model.operating_points == points
    assert (run.directory / "scores.parquet").read_bytes() == rows
    assert validation.figures == figures


@every_frame
def test_compare_any_frame(form, compared_file):
    """`compare` takes a table in memory as it takes its file."""
    tables = {"ward": form(patients())}
    compared = compare(tables, ["logistic"], **COMPARED, **ROLES)

    assert_frame_equal(compared.scores, compared_file.scores)


def test_compare_roles_of_read_cohort(past_file):
    """Roles come too late for a cohort that was read already."""
    cohort = read_cohort(past_file, **ROLES)

    with pytest.raises(UsageError, match="give id to read_cohort"):
        compare({"ward": cohort}, ["logistic"], id="patient")


def test_screen_file_labels_apart(past_file):
    """The labels of a file are one of its columns."""
    with pytest.raises(UsageError, match="give the column's name as y"):
        Screen("logistic").fit(past_file, [0, 1])


def test_lazy_frame_refused():
    """A query of polars that was not run has no rows; the message says what to do."""
    lazy = polars(patients()).lazy()

    for take in (read_cohort, partial(Screen("logistic").fit, y="ill")):
        with pytest.raises(
            UsageError, match=r"LazyFrame is not evaluated yet; .* collect\("
        ):
            take(lazy)


@pytest.mark.parametrize(
    "value",
    [
        7,
        [[1, 2]],
        {"a": [1]},
    ],
)
def test_no_table_refused(value):
    """What is no table is refused by the name of its type."""
    with pytest.raises(UsageError, match=f"not builtins.{type(value).__name__}"):
        read_cohort(value)


def test_frame_failing_stream_keeps_values():
    """An error of another library's is told by its kind: its words may hold a value."""
    relation = pytest.importorskip("duckdb").sql("SELECT CAST('4.9 Meier' AS INT) AS x")

    with pytest.raises(CohortError, match="cannot be read as Arrow") as refusal:
        read_cohort(relation)

    assert "Meier" not in str(refusal.value)


def test_polars_type_without_arrow_refused():
    """Int128 is a type of polars alone."""
    library = pytest.importorskip("polars")
    one = library.lit(1, library.Int128)
    frame = polars(patients()).with_columns(fever=one)

    with pytest.raises(
        CohortError, match="give each column a type that Arrow supports"
    ):
        read_cohort(frame, **ROLES)


def test_folder_of_every_kind(tmp_path):
    """A folder's files are one table, of whatever kind and type of text each is."""
    pytest.importorskip("python_calamine")
    pytest.importorskip("openpyxl")
    table = patients()
    written(table[:50], tmp_path / "a.csv")
    written(table[50:100], tmp_path / "b.parquet")
    table[100:150].to_excel(tmp_path / "c.xlsx", index=False)
    wards = texts(table[150:], "ward", pa.large_string())
    long = with_cells(table[150:], "ward", wards)
    feather.write_feather(long, tmp_path / "d.arrow")

    cohort = read_cohort(tmp_path, **ROLES)

    whole = read_cohort(table, **ROLES)
    assert_frame_equal(cohort.features, whole.features)
    assert_array_equal(cohort.id, whole.id)


def test_digest_pieces():
    """The digest is of the values, and not of the pieces that they came in."""
    table = arrow(patients())
    slices = [table.slice(0, 100), table.slice(100)]
    pieces = pa.concat_tables(slices)
    other_names = pa.array(["x"] * len(table))
    other = table.set_column(0, "patient", other_names)

    digest = open_table(table).files[0].sha256

    assert open_table(pieces).files[0].sha256 == digest
    assert open_table(other).files[0].sha256 != digest


MOMENT = datetime.datetime(2024, 1, 31, 9, 30)
# Arrow arrays of one value and a missing one, and the value's text in a CSV file.
TEXTS = {
    "text": (pa.array(["a", None]), "a"),
    "long text": (pa.array(["a", None], pa.large_string()), "a"),
    "view": (pa.array(["a", None], pa.string_view()), "a"),
    "dictionary": (pa.array(["a", None]).dictionary_encode(), "a"),
    "runs": (pc.run_end_encode(pa.array(["a", None])), "a"),
    "whole number": (pa.array([3, None], pa.uint8()), "3"),
    "whole float": (pa.array([3.0, None]), "3"),
    "half": (pa.array([np.float16(1.5), None], pa.float16()), "1.5"),
    "NaN": (pa.array([0.1, np.nan]), "0.1"),
    "decimal": (pa.array([decimal.Decimal("1.50"), None]), "1.50"),
    "truth": (pa.array([True, None]), "true"),
    "date": (pa.array([MOMENT.date(), None]), "2024-01-31"),
    "moment": (pa.array([MOMENT, None]), "2024-01-31 09:30:00"),
    "nanoseconds": (
        pa.array([1_000_000_010, None], pa.timestamp("ns")),
        "1970-01-01 00:00:01.000000010",
    ),
    "moment of a zone": (
        pa.array([MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
        "2024-01-31 10:30:00+0100",
    ),
    "time of day": (pa.array([MOMENT.time(), None]), "09:30:00"),
}


@pytest.mark.parametrize(("cells", "text"), TEXTS.values(), ids=TEXTS)
def test_to_texts_as_in_csv(cells, text):
    """A value of any type has the text that it has in a CSV file."""
    assert to_texts(to_plain_type(cells)).to_pylist() == [text, None]


def test_null_column_is_missing():
    """A column of which Arrow knows no value is one of missing texts."""
    missing = to_plain_type(pa.nulls(2))
    assert to_texts(missing).to_pylist() == [None, None]


UNREADABLE = {
    "list": pa.array([[1], None]),
    "struct": pa.array([{"a": 1}, None]),
    "bytes": pa.array([b"x", None]),
    "view of bytes": pa.array([b"x", None], pa.binary_view()),
    "view of lists": pa.array([[1], None], pa.list_view(pa.int64())),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "categories of lists": pa.DictionaryArray.from_arrays([0, None], pa.array([[1]])),
    "duration": pa.array([datetime.timedelta(hours=1), None]),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "extension": pa.array([uuid.uuid4().bytes, None], pa.uuid()),
    "period": pa.array(pd.Series(pd.period_range("2024-01", periods=2, freq="M"))),
}


@pytest.mark.parametrize("role", ["number", "category", "group"])
@pytest.mark.parametrize("cells", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_column_refused(cells, role):
    """A column without one text or number a cell is refused by its name."""
    table = pa.table({"value": cells, "age": [61, 62]})
    features = {"age": {"type": "number"}}
    if role == "group":
        cohort = {"group": "value"}
    else:
        cohort = {}
        features["value"] = {"type": role}
    contract = Contract.from_dict({"cohort": cohort, "features": features})

    with pytest.raises(
        CohortError, match=r"column 'value'.* nested, binary, a duration"
    ):
        read_cohort(table, contract)


@pytest.mark.parametrize("cells", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_column_dropped(cells):
    """Without a contract such a column is left out, and a note names it."""
    table = pa.table({"value": cells, "age": [61, 62]})
    cohort = read_cohort(table)

    assert [*cohort.values] == ["age"]
    assert any(note.endswith(": value") for note in cohort.notes)


WRONG = {
    "name": pd.DataFrame({1: [1, 2]}),
    "mixed": pd.DataFrame({"a": [1, "x"]}),
    "unsupported types": pd.DataFrame({"a": [1 + 2j, 3]}),
    # Of objects: pandas 3 refuses to make its own text of it.
    "not UTF-8": pd.DataFrame({"a": pd.Series(["\ud800", "b"], dtype=object)}),
    "occurs 2 times": pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
}


@pytest.mark.parametrize(("reason", "wrong"), WRONG.items(), ids=WRONG)
def test_pandas_frame_refused(reason, wrong):
    """A frame that Arrow cannot hold is refused with the reason."""
    with pytest.raises(CohortError, match=f"table: .*{reason}"):
        read_cohort(wrong, label="a")


@pytest.mark.parametrize("ending", ["feather", "arrow", "csv"])
def test_an_arrow_file_reads_as_the_table_whatever_it_is_called(tmp_path, ending):
    table = patients()
    feather.write_feather(table, tmp_path / f"past.{ending}", chunksize=70)
    cohort = read_cohort(
        tmp_path / f"past.{ending}", id="patient", label="ill", batch_rows=50
    )
    of_table = read_cohort(table, id="patient", label="ill")
    assert_frame_equal(cohort.features, of_table.features)
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
    (dates,) = [note for note in cohort.notes if "dates" in note]
    assert dates.endswith("seen")


def test_missing_column_names_sheet(tmp_path):
    """Where a cover sheet was read, it is named, with those that were not."""
    cover = [["Hospital", "County"], ["Date", "2026"]]
    path = saved(tmp_path, cover, ("Cover", "Data"))
    contract = Contract.from_dict({"features": {"age": {"type": "number"}}})

    with pytest.raises(CohortError, match=r"sheet 'Cover' \(not read: Data\): missing"):
        read_cohort(path, contract)


def test_title_row_is_named(tmp_path):
    """One cell above wide rows is named as a title, with its sheet."""
    path = saved(tmp_path, [["Ward list of 2 March"], *ROWS])

    with pytest.raises(CohortError, match=r"sheet 'table', first row: .*a title"):
        read_cohort(path)


def test_formula_never_calculated_is_refused(tmp_path):
    """A formula without a value is no blank cell."""
    rows = [
        ["x", "y"],
        [1, "=A2*2"],
        [2, "=A3*2"],
    ]
    path = saved(tmp_path, rows)

    with pytest.raises(CohortError, match="2 formulas have no value"):
        read_cohort(path)


def test_hidden_rows_are_counted(tmp_path):
    """Hidden rows are read, and the note says how many there are."""
    rows = [
        ["x", "y"],
        [1.5, 2],
        [2.5, 3],
        [3.5, 5],
    ]
    path = saved(tmp_path, rows)
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    book.active.row_dimensions[3].hidden = True
    book.save(path)

    cohort = read_cohort(path)

    assert cohort.n_rows == 3
    assert "1 hidden rows are read too" in cohort.notes[0]


def test_a_cell_beside_the_table_is_refused_by_its_row(tmp_path):
    rows = [
        ["x", "y"],
        [1, 2],
        [1.5, 3, "see below"],
    ]
    path = saved(tmp_path, rows)
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
    damaged = whole[:start] + bytes(30) + whole[start + 30 :]
    path.write_bytes(damaged)
    with pytest.raises(CohortError, match="the Excel workbook is damaged"):
        read_cohort(path)


@pytest.mark.parametrize("far", ["XFD1048576", "ZZ1000000", "XFD9000"])
def test_workbook_far_cell(far, tmp_path):
    """A cell far from the table is refused by its place: the library would make all
    cells up to it, and end the process.
    """
    openpyxl = pytest.importorskip("openpyxl")
    path = saved(tmp_path, ROWS)
    book = openpyxl.load_workbook(path)
    book.active[far] = "x"
    book.save(path)

    with pytest.raises(CohortError, match=f"its last cell is {far}, and only"):
        read_cohort(path)


def test_size_of_sheet(tmp_path):
    """The last cell and the number of cells are counted, in chunks too."""
    openpyxl = pytest.importorskip("openpyxl")
    path = saved(tmp_path, ROWS)
    sheet = openpyxl.load_workbook(path).active
    expected = (sheet.max_row, sheet.max_column)

    size = size_of_sheet(path, sheet.title)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excel_sheets, "CHUNK_BYTES", 7)
        in_chunks = size_of_sheet(path, sheet.title)

    assert (size.n_rows, size.n_columns) == expected
    assert size == in_chunks
    assert not size.is_mostly_blank


@pytest.mark.parametrize("seed", range(20))
def test_workbook_whose_directory_is_damaged(seed, tmp_path):
    """A workbook whose list of contents cannot be read is named as damaged."""
    path = saved(tmp_path, ROWS)
    content = bytearray(path.read_bytes())
    start = content.rindex(b"PK\x01\x02")
    noise = default_rng(seed).integers(0, 256, 8, np.uint8)
    content[start : start + 8] = noise.tobytes()
    path.write_bytes(content)
    with pytest.raises(CohortError, match="damaged"):
        read_cohort(path)


def test_without_calamine_the_extra_is_named(tmp_path, monkeypatch):
    path = saved(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UsageError, match=r"screening\[xlsx\]"):
        read_cohort(path)


def test_screen_guesses_as_train_does(past_file):
    """Without roles it warns of each guess, keeps ids and index, and notes the rest."""
    past = patients().rename(columns={"patient": "stay_id"})
    night = patients(n_rows=60, seed=1).rename(columns={"patient": "stay_id"})
    night.index = [f"line {row}" for row in range(60)]

    with pytest.warns(UserWarning, match="guessed role id: stay_id"):
        screen = Screen("logistic", **OF_SCREEN).fit(past, "ill")
    scored = screen.score_frame(night)
    fourth = night["stay_id"].iloc[3]
    reasons = screen.explain(night, fourth)

    assert scored["id"].tolist() == night["stay_id"].tolist()
    assert scored.index.tolist() == night.index.tolist()
    assert "guessed role id: stay_id" in screen.notes_
    names = [*screen.model_.contract.features]
    assert screen.feature_names_in_.tolist() == names
    assert screen.n_features_in_ == len(screen.feature_names_in_)
    assert set(reasons["feature"]) <= set(screen.feature_names_in_)
    flagged = scored["score"] >= screen.threshold_
    assert flagged.tolist() == scored["flagged"].tolist()


def test_screen_warns_of_doubts():
    """A case that may well be another is a warning too, unless it is named."""
    past = patients()
    past["ill"] = past["ill"].map({"yes": "2", "no": "1"})

    with pytest.warns(UserWarning, match="the cases are the rows with"):
        Screen("logistic", **OF_SCREEN).fit(past, "ill", id="patient")


def test_score_frame_truths_for_numbers():
    """A column of booleans is refused by name where training had numbers, and scored
    where it had booleans.
    """
    past = patients(200).assign(vented=lambda rows: rows["fever"] > 37.2)
    model = train(past, "logistic", **ROLES, **QUICK)
    night = past.drop(columns="ill")[:40]
    told = night.assign(crp=night["crp"] > 10)

    with pytest.raises(CohortError, match=r"column 'crp', rows .* true or false"):
        model.score_frame(told)
    assert len(model.score_frame(night)) == 40


def test_score_frame_index_without_refused_rows():
    """Rows that are left out are missing from the index, and only these."""
    contract, _ = starter_contract(patients(), label="ill", id="patient")
    lenient = contract.with_roles(on_violation="refuse_rows", positive=["yes"])
    night = patients(n_rows=60, seed=1)
    night["crp"] = night["crp"].map(str, na_action="ignore")
    night.loc[7, "crp"] = "not done"

    screen = Screen("logistic", **OF_SCREEN)
    screen.fit(patients(), "ill", contract=lenient)
    scored = screen.score_frame(night)

    assert scored.index.tolist() == [*range(7), *range(8, 60)]
