"""What a table may look like, and what is read from it."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from small_tables import CONTRACT, GOOD, HEADER, column, with_feature, written

from screening.contract.contract import Contract
from screening.data.reading import read_cohort
from screening.errors import CohortError
from screening.identity.shapes import id_shape, other_shape


def test_a_table_is_typed_by_its_contract(tmp_path):
    cohort = read_cohort(
        written(tmp_path, f"{HEADER}\n{GOOD}\n7, 61.5 ,B,F,\n"), CONTRACT
    )
    assert cohort.id.tolist() == ["00123", "7"]
    assert cohort.features[["age", "ward", "sick"]].to_numpy().tolist() == [
        [61, "A", 1],
        [61.5, "B", 0],
    ]
    assert cohort.features["stage"].tolist()[0] == 1.0
    assert np.isnan(cohort.features["stage"][1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_delimiter_and_encoding_are_detected_and_stated(tmp_path, delimiter, encoding):
    text = "id,größe,station\nMüller,1.5,Süd\nÅse,2.5,Nord\n".replace(",", delimiter)
    path = written(tmp_path, text, encoding=encoding)
    cohort = read_cohort(path, id="id")
    assert cohort.id.tolist() == ["Müller", "Åse"]
    assert cohort.features["größe"].tolist() == [1.5, 2.5]
    assert cohort.source.to_dict()["delimiter"] == delimiter
    assert cohort.source.to_dict()["encoding"] == encoding
    assert encoding in cohort.notes[0]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["3,5", "12,25", "7"], [3.5, 12.25, 7.0]),
        (["1,234", "2.5", "1,234,567"], [1234.0, 2.5, 1234567.0]),
        (["1.234", "2,5", "1.234.567,8"], [1234.0, 2.5, 1234567.8]),
        (["1'234.5", "2’345", "7"], [1234.5, 2345.0, 7.0]),
        (["1 234,5", "2\u202f345,5", "3\u00a0456"], [1234.5, 2345.5, 3456.0]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1.234", "2.345"], [1.234, 2.345]),
        (["'7", "'7.5", "\u22122.5"], [7.0, 7.5, -2.5]),
    ],
)
def test_numbers_are_read_by_the_marks_of_their_own_column(tmp_path, cells, values):
    assert column(tmp_path, cells) == values


def test_decimal_mark_of_other_columns(tmp_path):
    """A column that leaves its mark open is written as the others are."""
    german = read_cohort(written(tmp_path, "a;b;c\n1,5;150.000;x\n2,5;200.000;y\n"))
    english = read_cohort(
        written(tmp_path, 'a,b,c\n1.5,"150,000",x\n2.5,"200,000",y\n')
    )
    assert (
        german.features["b"].tolist()
        == english.features["b"].tolist()
        == [150000.0, 200000.0]
    )
    assert german.features["a"].tolist() == [1.5, 2.5]
    assert "decimal comma" in german.notes[0]


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["2024-01-31", "2024-02-29"], None),
        (["2024/01/31", "2024.2.29"], None),
        (["31.01.2024", "29.2.2024"], "dmy"),
        (["31/01/24", "29/02/24"], "dmy"),
        (["01/31/2024", "2/29/2024"], "mdy"),
        (["31.01.2024 00:00", "29.02.2024 0:00:00"], "dmy"),
    ],
)
def test_dates_are_read_in_the_order_of_the_contract(tmp_path, cells, order):
    lines = [f"1,{cell}\n" for cell in cells]
    path = written(tmp_path, "x,day\n" + "".join(lines))
    contract = with_feature().with_roles(time="day", date_order=order)
    cohort = read_cohort(path, contract)
    days = cohort.time.astype("datetime64[D]").astype(str)
    assert days.tolist() == [
        "2024-01-31",
        "2024-02-29",
    ]


def test_what_is_no_date_in_the_contracts_order_is_refused(tmp_path):
    path = written(
        tmp_path, "x,day\n1,31/01/2024\n2,2024-13-01\n3,31.02.2024\n4,soon\n"
    )
    with pytest.raises(
        CohortError, match=r"column 'day', rows 1, 2, 3, 4: not a date.*date_order"
    ):
        read_cohort(path, with_feature().with_roles(time="day", date_order="mdy"))


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("yes", "no"),
        ("Ja", "Nein"),
        ("oui", "non"),
        ("sí", "no"),
        ("WAHR", "FALSCH"),
        ("j", "n"),
        ("x", ""),
    ],
)
def test_yes_and_no_are_read_in_the_usual_languages(tmp_path, yes, no):
    cohort = read_cohort(written(tmp_path, f"a,b\n1,{yes}\n2,{no}\n3,{yes}\n4,{no}\n"))
    assert cohort.contract.features["b"].type == "boolean"
    assert cohort.features["b"].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_read_excel_apostrophe(tmp_path):
    """Excel's apostrophe is no part of a code but an id is kept as it stands."""
    path = written(
        tmp_path, "id,code,town\n'007,'01,'s-Gravenhage\n'008,02,'s-Graveland\n"
    )
    cohort = read_cohort(path, id="id")
    assert cohort.id.tolist() == ["'007", "'008"]
    assert cohort.features["code"].tolist() == ["01", "02"]
    assert cohort.features["town"].tolist() == ["'s-Gravenhage", "'s-Graveland"]


def test_read_gzip_directory_glob(tmp_path):
    """A gzipped file a directory and a glob give the rows in file order."""
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,a\n3,3.5\n"))
    written(tmp_path, "a,id\n1.5,1\n2.5,2\n", "a.csv")
    written(tmp_path, "not a table", "README.md")
    directory = read_cohort(tmp_path, id="id")
    matched = read_cohort(tmp_path / "*.csv*", id="id")
    assert directory.id.tolist() == ["1", "2", "3"]
    assert matched.id.tolist() == ["1", "2", "3"]
    assert directory.features["a"].tolist() == [1.5, 2.5, 3.5]
    assert directory.rows.tolist() == [1, 2, 3]


def test_parquet_keeps_types_and_turns_ids_into_text(tmp_path):
    frame = pd.DataFrame(
        {
            "id": [2**60 + 1, 5],
            "age": [61.0, None],
            "ward": pd.Categorical(["A", None]),
            "sick": [True, False],
            "stage": ["I", "III"],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    cohort = read_cohort(tmp_path / "a.parquet", CONTRACT)

    assert cohort.id.tolist() == [str(2**60 + 1), "5"]
    assert cohort.features.isna().to_numpy().tolist() == [
        [False] * 4,
        [True, True, False, False],
    ]
    assert cohort.features["ward"].tolist()[0] == "A"
    numbers = cohort.features[["sick", "stage"]].to_numpy()
    assert numbers.tolist() == [
        [1, 0],
        [0, 2],
    ]


def test_read_parquet_float_ids(tmp_path):
    """Parquet under any name gives ids that it holds as floats without a point."""
    table = pd.DataFrame({"id": [1.0, 20.0], "a.b": [0.5, 1.5]})
    table.to_parquet(tmp_path / "a.csv")
    cohort = read_cohort(tmp_path / "a.csv", id="id")
    assert cohort.id.tolist() == ["1", "20"]
    assert cohort.features["a.b"].tolist() == [
        0.5,
        1.5,
    ]


CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0\r\n")
IDS = st.lists(st.text(CHARACTERS).filter(str.strip), min_size=1, unique=True)


@pytest.mark.repeated
@settings(max_examples=examples(20, 40))
@given(IDS)
def test_ids_survive_whatever_their_text(tmp_path_factory, ids):
    native = tmp_path_factory.getbasetemp() / "ids.parquet"
    numbers = np.arange(len(ids)) + 0.5
    table = pa.table({"id": ids, "x": numbers})
    pq.write_table(table, native)
    escaped = [text.replace('"', '""') for text in ids]
    quoted = [f'"{text}"' for text in escaped]
    lines = [f"{text},{i}.5\n" for i, text in enumerate(quoted)]
    table = "id,x\n" + "".join(lines)
    contract = with_feature().with_roles(id="id")
    for path in (native, written(native.parent, table, "ids.csv")):
        assert read_cohort(path, contract).id.tolist() == ids


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.repeated
@settings(max_examples=examples(20, 40))
@given(st.lists(st.none() | finite, min_size=1))
def test_numbers_are_the_same_bits_from_csv_and_parquet(tmp_path_factory, numbers):
    native = tmp_path_factory.getbasetemp() / "numbers.parquet"
    cells = "".join(f"{'' if x is None else repr(x)},-\n" for x in numbers)
    text = written(native.parent, "x,other\n" + cells, "numbers.csv")
    column_of_numbers = pa.array(numbers, pa.float64())
    pq.write_table(pa.table({"x": column_of_numbers}), native)
    of_text = read_cohort(text, with_feature()).features["x"]
    of_native = read_cohort(native, with_feature()).features["x"]
    assert_array_equal(of_text, of_native)


def test_missing_values_are_those_the_contract_names_and_empty_cells(tmp_path):
    cells = ["1", "", "NA", "-999", "-999.0"]
    values = column(tmp_path, cells, missing_values=["NA", "-999"])
    assert np.isnan(values).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("rule", "low", "high"),
    [
        ("limit", 5.0, 90.0),
        ("half", 2.5, 90.0),
    ],
)
def test_censored_values_are_read_by_the_contracts_rule(tmp_path, rule, low, high):
    values = column(tmp_path, ["<5", "> 90", "7", "≤5"], censored=rule)
    assert values == [
        low,
        high,
        7.0,
        low,
    ]


PADDED = [f"{number:05}" for number in range(417, 30_000, 113)]
UNPADDED = [str(int(name)) for name in PADDED]


@pytest.mark.parametrize(
    ("past", "tonight", "words"),
    [
        (
            PADDED,
            UNPADDED[:40],
            ["characters", "leading zeros"],
        ),
        (PADDED, UNPADDED[-40:], []),
        (
            PADDED,
            [f"{int(name):08}" for name in PADDED[:40]],
            ["8 characters long, but 5 in training"],
        ),
        (UNPADDED, ["123456", "98765"], []),
        (UNPADDED, PADDED[:9], ["with leading zeros"]),
        (["0007", "12", *(f"P{name}" for name in PADDED)], ["9", "11"], []),
        (
            [f"P{name}" for name in PADDED],
            PADDED[-9:],
            ["5 characters", "digits alone"],
        ),
        ([f"{7919 * int(name):08x}" for name in PADDED], ["0a-b12c7", "deadbeef"], []),
    ],
)
def test_ids_of_another_shape_are_those_that_no_other_patients_explain(
    past, tonight, words
):
    ids_of_past = np.array([*past, None], dtype=object)
    ids_tonight = np.array([*tonight, None], dtype=object)
    shape_of_past = id_shape(ids_of_past)
    shape_tonight = id_shape(ids_tonight)
    differences = other_shape(shape_of_past, shape_tonight)
    assert len(differences) == len(words)
    for word, said in zip(words, differences, strict=True):
        assert word in said


def test_times_coordinates_and_subgroups_are_read_by_role(tmp_path):
    path = written(
        tmp_path,
        "d,x,y,z,s,f\n2024-01-31,1,2,3,m,0.5\n2024-02-01T06:30:00+02:00,4,5,6,,1.5\n",
    )
    roles = {
        "time": "d",
        "coordinates": ["x", "y", "z"],
        "subgroup": ["s"],
    }
    features = {"f": {"type": "number"}}
    contract = Contract.from_dict({"cohort": roles, "features": features})
    cohort = read_cohort(path, contract)
    assert cohort.time.astype(str).tolist() == [
        "2024-01-31T00:00:00.000000",
        "2024-02-01T04:30:00.000000",
    ]
    assert cohort.coordinates.tolist() == [
        [1, 2, 3],
        [4, 5, 6],
    ]
    assert pd.isna(cohort.subgroups["s"]).tolist() == [False, True]


def test_extra_columns_are_ignored_and_stated(tmp_path):
    cohort = read_cohort(written(tmp_path, f"{HEADER},shoe\n{GOOD},44\n"), CONTRACT)
    assert "shoe" not in cohort.features
    assert any("shoe" in note for note in cohort.notes)
