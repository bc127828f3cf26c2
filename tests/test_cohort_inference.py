"""What is inferred where no contract was given, and the starter contract."""

import numpy as np
import pandas as pd
import pytest
from faults.amounts import examples
from flow_cohorts import written
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from screening.contract.contract import Contract
from screening.data.reading import check_cohort, read_cohort, starter_contract
from screening.data.stream import open_cohort
from screening.errors import CohortError
from screening.io.number_formats import parse_number

N = 60


def cohort_of(folder, **columns):
    usable = default_rng(0).random(N)
    table = pd.DataFrame({"usable": usable, **columns})
    return written(table, folder / "past.csv")


def kinds(contract):
    return {
        name: feature.type
        for name, feature in contract.features.items()
        if name != "usable"
    }


TYPES = {
    "decimals": (np.linspace(0, 1, N), {"x": "number"}),
    "numbers of answers": ([1, 2, 3] * 20, {"x": "category"}),
    "signs": ([-1, 0, 1] * 20, {"x": "category"}),
    "counts from 0": ([0, 1, 2] * 20, {"x": "number"}),
    "few whole numbers": ([1, 2, 4] * 20, {"x": "number"}),
    "zero and one": ([0, 1] * 30, {"x": "boolean"}),
    "t and f": (["t", "f"] * 30, {"x": "boolean"}),
    "Yes and no": (["Yes", "no"] * 30, {"x": "boolean"}),
    "text": (["M", "F", "I"] * 20, {"x": "category"}),
    "ranges": (["40-49", "50-59"] * 30, {"x": "category"}),
    "numbers and words": (["2", "4", "more"] * 20, {"x": "category"}),
    "codes with leading zeros": (["01", "02", "13"] * 20, {"x": "category"}),
    "constant": (["a"] * N, {}),
    "constant number": ([3.5] * N, {}),
    "all missing": ([None] * N, {}),
    "constant or missing": (["a", None] * 30, {"x": "category"}),
    "beds": ([f"T{i % 12}N{i % 2}" for i in range(N)], {"x": "category"}),
    "places": ([f"{i % 4}{'abcdef'[i % 6]}" for i in range(N)], {"x": "category"}),
    "free text": ([f"note {i}" for i in range(N)], {}),
    "dates": (["2024-01-31", "2024-02-01"] * 30, {}),
}


@pytest.mark.parametrize(("values", "types"), TYPES.values(), ids=TYPES.keys())
def test_types_are_inferred_and_stated(tmp_path, values, types):
    cohort = read_cohort(cohort_of(tmp_path, x=values))
    assert kinds(cohort.contract) == types
    last_words = [note.split(": ")[-1] for note in cohort.notes[1:]]
    columns = [words.split(", ")[-1] for words in last_words]
    assert "x" in columns


DRAWN = default_rng(1)
DAYS = 44_931 + 3 * np.arange(N) % 365
IDENTITIES = (
    "patient_id",
    "MRN",
    "Unnamed: 0",
    "PatientID",
    "row",
    "Nummer",
    "N° dossier",
    "lfd. Nr.",
    "S_No",
    "#",
)
NO_FEATURES = {
    **{name: DRAWN.permutation(5 * N)[:N] for name in IDENTITIES},
    **dict.fromkeys(("Aufnahmedatum", "admission_date", "birthDate", "fecha"), DAYS),
    "visit": DRAWN.permutation(N) + 17,  # counts the rows, in another order
    "accession": DRAWN.integers(2**54, 2**60, N),  # floats do not tell them apart
}


OTHERS = [
    ("days", DAYS),
    ("time", DAYS),
    ("admission_date", DAYS - 44_951),
    ("copies", [2**60, *range(N - 1)]),
    ("platelets", DRAWN.permutation(N) * 3),
]


@pytest.mark.parametrize(("name", "values"), [*NO_FEATURES.items(), *OTHERS])
def test_whole_numbers_that_tell_who_or_when_are_no_feature(tmp_path, name, values):
    cohort = read_cohort(cohort_of(tmp_path, **{name: values}))
    unused = values is NO_FEATURES.get(name)
    assert cohort.names == ["usable", name][: 2 - unused]
    dates = unused and values is DAYS
    assert (
        any(f"save the table again): {name}" in note for note in cohort.notes) == dates
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("NA", "in missing_values"),
        ("haemolysed", "in missing_values"),
        ("<5", "as their limit"),
    ],
)
def test_inference_few_odd_cells(tmp_path, cell, words):
    """A few odd cells among numbers are declared and said and make no category."""
    numbers = [f"{i}.5" for i in range(N - 1)]
    cohort = read_cohort(cohort_of(tmp_path, x=[*numbers, cell]))
    assert kinds(cohort.contract) == {"x": "number"}
    last = cohort.features["x"].iloc[-1]
    assert np.isnan(last) or last == 5
    assert any(
        note.startswith("column 'x': ") and words in note for note in cohort.notes
    )


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e400"])
def test_infinite_number_refused_and_not_missing(tmp_path, cell):
    """A cell too large for any number is a fault of its row, not a missing value."""
    numbers = [f"{i}.5" for i in range(N - 1)]
    path = cohort_of(tmp_path, x=[*numbers, cell])

    with pytest.raises(CohortError, match=f"column 'x', row {N}: an infinite number"):
        read_cohort(path)


def test_init_named_roles(tmp_path):
    """Roles named by flags must be there and the contract types the next cohort."""
    path = cohort_of(
        tmp_path,
        y=["a", "b"] * 30,
        g=["p", "q"] * 30,
        z=range(N),
        ward=["A", "B"] * 30,
    )
    (tmp_path / "new.csv").write_text("g,ward,usable\nq,C,0.5\np,A,\n")
    with pytest.raises(CohortError, match="missing column 'zz'"):
        read_cohort(path, label="y", drop="z,zz")
    cohort = read_cohort(path, label="y", group="g", drop="z")
    (night,) = open_cohort(tmp_path / "new.csv", cohort.contract)

    assert cohort.names == ["usable", "ward"]
    assert cohort.group.tolist()[:2] == [
        "p",
        "q",
    ]
    assert night.features["ward"].tolist() == ["C", "A"]
    assert night.label is None
    # A flag takes a column out of a contract's features too.
    again = read_cohort(path, starter_contract(path)[0], label="ward")
    assert "ward" not in again.names
    assert again.classes == ["A", "B"]


def test_a_starter_contract_reads_the_table_it_was_made_from(tmp_path):
    path = cohort_of(
        tmp_path,
        case_id=[f"{i:05d}" for i in range(N)],
        label=["0", "1"] * 30,
        admission_date=pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
        crp=["<5", "NA", *(f"{i}.5" for i in range(N - 2))],
        ward=["A", "n/a", "C"] * 20,
        answer=["none", "unknown"] * 30,
        device=["0", "1"] * 30,
        smoker=["y", "?", "n"] * 20,
    )
    contract, notes = starter_contract(path)
    (tmp_path / "c.toml").write_text(contract.to_toml(notes))
    cohort = read_cohort(path, tmp_path / "c.toml", need_label=True)

    assert cohort.contract == contract
    assert contract.id == "case_id"
    assert contract.label == "label"
    assert contract.time == "admission_date"
    assert kinds(contract) == {
        "crp": "number",
        "ward": "category",
        "answer": "category",
        "device": "boolean",
        "smoker": "boolean",
    }
    assert contract.features["ward"].categories == ["A", "C"]
    assert contract.features["answer"].categories == ["none", "unknown"]
    low, high = contract.features["usable"].seen
    assert 0 <= low < 0.2 < 0.8 < high <= 1
    assert cohort.features["crp"].tolist()[0] == 5.0
    assert np.isnan(cohort.features["crp"][1])


def test_inference_does_not_depend_on_how_rows_are_split_into_files(tmp_path):
    path = cohort_of(
        tmp_path,
        a=[*range(N - 1), None],
        b=["u", "v", "w"] * 20,
        c=["yes", "no"] * 30,
    )
    lines = path.read_text().splitlines(keepends=True)
    (tmp_path / "parts").mkdir()
    header, *rows = lines
    parts = {"1.csv": rows[:20], "2.csv": rows[20:]}
    for name, rows in parts.items():
        text = "".join([header, *rows])
        (tmp_path / "parts" / name).write_text(text)
    assert starter_contract(tmp_path / "parts")[0] == starter_contract(path)[0]


@pytest.mark.parametrize(
    "name", ["Patient-ID", "patient no", "MRN", "PatientID", "subject_id", "pat_nr"]
)
def test_inference_group_is_no_feature(tmp_path, name):
    """What several rows of a patient share groups them and is no feature."""
    patients = [f"P{i % 30}" for i in range(N)]
    path = cohort_of(tmp_path, **{name: patients})
    contract, notes = starter_contract(path)
    assert read_cohort(path).names == ["usable"]
    assert contract.group == name
    assert f"guessed role group: {name}" in notes
    assert "no outcome recognised: set `label` to its column" in notes


def test_guess_with_gaps_does_not_end_init(tmp_path):
    """A column that was guessed as a role and has gaps is dropped, and that is said."""
    patients = [f"P{i // 3}" for i in range(N)]
    patients[5] = None
    path = cohort_of(tmp_path, patient_id=patients)

    contract, notes = starter_contract(path)

    assert contract.group is None
    assert "patient_id" in contract.drop
    assert any(note.startswith("dropped: probably group") for note in notes)
    with pytest.raises(CohortError, match="no group"):
        starter_contract(path, group="patient_id")


@pytest.mark.parametrize(
    ("name", "step", "role"),
    [("kid", 3, "kid"), ("kid", 1, None), ("visit days", 3, None)],
)
def test_rising_numbers_with_gaps_are_the_id(tmp_path, name, step, role):
    """Numbers of rows are the id if some are left out, unless they are a quantity."""
    rows = range(1, 1 + step * N, step)

    contract, _ = starter_contract(cohort_of(tmp_path, **{name: rows}))

    assert contract.id == role


@pytest.mark.parametrize("text", ["< 20 yrs", "<20"])
def test_limits_alone_are_classes(tmp_path, text):
    """Values above and below a limit are two classes, also with a unit."""
    onset = [text, text.replace("<", ">")] * (N // 2)

    contract, _ = starter_contract(cohort_of(tmp_path, onset=onset))

    assert contract.features["onset"].type == "category"


def test_limit_with_unit_is_read_among_numbers(tmp_path):
    """A limit with the unit of the other values is a limit, and not a fault."""
    values = [f"{8 + i / 10} mg/L" for i in range(N - 4)] + ["<8 mg/L"] * 4

    contract, _ = starter_contract(cohort_of(tmp_path, crp=values))

    assert contract.features["crp"].censored == "limit"


def test_the_only_date_that_is_not_of_birth_or_the_like_is_the_rows(tmp_path):
    days = pd.date_range("2024-01-13", periods=N).strftime("%d.%m.%Y")
    columns = {"visit date": days, "birth date": days, "Discharge-Date": days}
    assert starter_contract(cohort_of(tmp_path, **columns))[0].time == "visit date"
    path = cohort_of(tmp_path, sampling_date=days, **columns)
    contract, _ = starter_contract(path)
    assert contract.time is None


def with_codes(code, often=12):
    usual = np.linspace(8, 17, N - often).round(2)
    return [*usual, *[code] * often]


FAR = {
    "-99": (with_codes(-99), ["-99"]),
    "999": (with_codes(999), ["999"]),
    "-9": (with_codes(-9), ["-9"]),
    "88": (with_codes(88), ["88"]),
    "no code": (with_codes(20), []),
    "only once": (with_codes(-99, often=1), []),
    "among the others": (with_codes(9), []),
    "within their reach": ([*with_codes(-99), 5e3, -5e3], []),
}


@pytest.mark.parametrize(("values", "missing"), FAR.values(), ids=FAR)
def test_inference_sentinels(tmp_path, values, missing):
    """Numbers that stand for missing are listed and other far ones stay values."""
    path = tmp_path / "past.csv"
    pd.DataFrame({"x": values}).to_csv(path, index=False)
    assert starter_contract(path)[0].features["x"].missing_values == missing


def test_a_number_that_stands_for_missing_is_missing_and_no_value(tmp_path):
    path = cohort_of(tmp_path, x=with_codes(-99))
    contract, notes = starter_contract(path)
    x = contract.features["x"]
    # Often missing: said to the model; seldom: filled in.
    assert x.missing == "indicator"
    assert contract.features["usable"].missing == "impute"
    assert x.seen[1] < 20
    assert x.seen[0] > 7
    x_read = read_cohort(path, contract=contract).features["x"]
    assert np.isnan(x_read).sum() == 12
    note = "column 'x': -99 in 12 of 60 rows (repeated and far from all others)"
    assert any(line.startswith(note) for line in notes)


def test_columns_of_one_finding_stand_in_one_note(tmp_path):
    numbers = [f"{row}.5" for row in range(1, N)]
    odd = {f"v{i}": ["NA", *numbers] for i in range(120)}
    notes = starter_contract(cohort_of(tmp_path, **odd))[1]
    (said,) = (note for note in notes if "missing_values" in note)
    assert said.startswith("columns 'v0', 'v1', ")
    assert "and 20 more: " in said


@pytest.mark.parametrize("unit", ["%", " mg", "mmol/l", " µg/ml"])
def test_one_unit_behind_numbers_is_read(tmp_path, unit):
    """A unit behind every number is the column's, and no other is read there."""
    values = [f"{i % 20},5{unit}" for i in range(N)]
    path = cohort_of(tmp_path, x=values)
    contract, _ = starter_contract(path)
    numbers = read_cohort(path, contract).features["x"].tolist()
    other = cohort_of(tmp_path, x=[f"{i % 20},5 kg" for i in range(N)])

    assert contract.features["x"].unit == unit.strip()
    assert contract.features["x"].missing_values == []
    assert numbers[:2] == [0.5, 1.5]
    with pytest.raises(CohortError, match=r"column 'x'.* not a number"):
        read_cohort(other, contract)


def test_several_units_behind_numbers_are_no_feature(tmp_path):
    """Numbers of several units compare with nothing."""
    values = [f"{i % 20},5 {'mg' if i % 2 else 'g'}" for i in range(N)]
    cohort = read_cohort(cohort_of(tmp_path, x=values))

    assert cohort.names == ["usable"]
    (units,) = [note for note in cohort.notes if "several units" in note]
    assert units.endswith("x")


READINGS = {
    "13.5 H": 13.5,
    "57.1*": 57.1,
    "4.2 (L)": 4.2,
    "5.0 mg/L": 5.0,
    "5.0 mg/l H": 5.0,
    "LESS THAN 5": 5.0,
    "<5.0 mg/L": 5.0,
    ">90 H": 90.0,
}


@pytest.mark.parametrize(("text", "number"), READINGS.items())
def test_reading_with_flag_or_unit(tmp_path, text, number):
    """Number, flag, unit and limit are told apart, in a later table as well."""
    numbers = [f"{i}.5" for i in range(N - 3)]
    past = cohort_of(tmp_path, x=[*numbers, "1.5 mg/L", "1.5 H", "<1.5"])
    contract, _ = starter_contract(past)
    as_before = ["1.5"] * (N - 1)
    later = cohort_of(tmp_path, x=[text, *as_before])

    assert contract.features["x"].missing_values == []
    assert read_cohort(later, contract).features["x"][0] == number


def stays(n_rows=600, seed=0):
    rng = default_rng(seed)
    codes = [*map(str, range(380, 440)), "V57", "V58", "E909", "250.01", "250.83"]
    return pd.DataFrame(
        {
            "encounter_id": np.arange(n_rows) * 7 + 1000,
            "patient_nbr": rng.integers(0, 400, n_rows) * 31 + 100_000,
            "admission_type_id": rng.integers(1, 9, n_rows),
            "discharge_disposition_id": rng.integers(1, 29, n_rows),
            "diag_1": rng.choice(codes, n_rows),
            "days": rng.poisson(4, n_rows),
        }
    )


def test_inference_codes_and_patient(tmp_path):
    """Codes are categories and who repeats is the patient whatever names end in."""
    contract, _ = starter_contract(written(stays(), tmp_path / "stays.csv"))
    changed = stays(seed=1).assign(diag_1="V99")
    later = written(changed, tmp_path / "later.csv")
    coded = ("admission_type_id", "discharge_disposition_id", "diag_1")
    assert contract.id == "encounter_id"
    assert contract.group == "patient_nbr"
    expected = dict.fromkeys(coded, "category") | {"days": "number"}
    assert kinds(contract) == expected
    assert contract.features["admission_type_id"].categories
    assert (
        contract.features["diag_1"].categories is None
    )  # the next table has codes that this one lacks
    assert read_cohort(later, contract).n_rows == 600


OUTCOMES = {
    "by its name": ({"dead": [0, 0, 0, 1] * 15}, "dead", ["1"]),
    "a word of its name": (
        {"hospital_mortality": ["n", "n", "y"] * 20},
        "hospital_mortality",
        ["y"],
    ),
    "of the well": ({"survived": [1, 1, 0] * 20}, "survived", ["0"]),
    "a sentence": (
        {"readmitted within 30 days?": ["No", "Yes"] * 30},
        "readmitted within 30 days?",
        ["Yes"],
    ),
    "what was so before": ({"prior_sepsis": [0, 1] * 30}, None, []),
    "several values": ({"event": list("abc") * 20}, "event", []),
    "beside a class": (
        {"class": list("abc") * 20, "survived": [1, 0, 0] * 20},
        "survived",
        ["0"],
    ),
}


@pytest.mark.parametrize(
    ("columns", "label", "positive"), OUTCOMES.values(), ids=OUTCOMES.keys()
)
def test_the_outcome_and_its_case_are_guessed_from_name_and_values(
    tmp_path, columns, label, positive
):
    contract, _ = starter_contract(cohort_of(tmp_path, **columns))
    assert contract.label == label
    assert contract.positive == positive


def test_where_no_outcome_is_recognised_candidates_are_named(tmp_path):
    columns = {
        "sex": ["m", "f"] * 30,
        "relapsing (y/n)": ["y", "n"] * 30,
        "z": [0, 0, 0, 1] * 15,
    }
    result = np.arange(N) * 1.5
    path = cohort_of(tmp_path, **columns, result=result)
    _, notes = starter_contract(path)
    (note,) = (
        note for note in notes if note.startswith("no outcome recognised: set `label`")
    )
    assert note.endswith(
        "its column; likely, with the share of the rarest value: "
        "relapsing (y/n) (50%), z (25%), sex (50%), result"
    )


def test_another_label_than_the_guessed_one_loses_no_column(tmp_path):
    path = cohort_of(
        tmp_path, infected=["yes", "no"] * 30, died=["yes", "no", "no"] * 20
    )
    contract, notes = starter_contract(path, label="died")
    assert contract.label == "died"
    assert "infected" in contract.features
    assert any("outcomes among the features: infected" in note for note in notes)


@pytest.mark.parametrize("share", [63, 37])
def test_inference_positive_stated(share):
    """The value taken as the case is said with its share and the option that turns it.

    Where 1 is most rows it may say that a tumour is benign: the table cannot tell, so
    that it is said.
    """
    radius = np.linspace(8, 20, 100)
    target = np.repeat([1, 0], [share, 100 - share])
    table = pd.DataFrame({"radius": radius, "target": target})
    contract, notes = starter_contract(table)
    remark = f"positive: 1 ({share}% of rows; if 0 is the case, set `positive` to 0)"
    assert contract.positive == ["1"]
    assert f"guessed role {remark}" in notes


def test_inference_coordinates(tmp_path):
    """X y and z are places of voxels where values repeat and else features.

    Where hardly a value repeats rows lie on no grid; features they are, and patients
    are looked for.
    """
    grid = np.arange(N)
    rng = default_rng(1)
    sides = {"x": grid, "y": grid % 3, "z": grid}
    path = cohort_of(tmp_path, patient_id=["a", "b"] * 30, **sides)
    voxels, _ = starter_contract(path)
    scattered = {name: rng.random(N) for name in "xyz"} | {
        "ill": ["no", "no", "yes"] * 20
    }
    contract, _ = starter_contract(cohort_of(tmp_path, **scattered))
    assert voxels.group == "patient_id"
    assert voxels.coordinates == ["x", "y", "z"]
    assert voxels.label is None
    assert contract.coordinates == []
    assert {"x", "y", "z"} <= contract.features.keys()


COUNT = 12
ODD = st.sampled_from(
    ["", "NA", "n/a", "-", "?", "<5", ">90", "haemolysed", " ", "'12", "unknown"]
)
WHOLE = st.integers(-(10**6), 10**6).map(lambda x: f"{x:,}")
POINT = st.one_of(st.floats(-1e6, 1e6).map(lambda x: f"{x:.2f}"), WHOLE, ODD)
COMMA = st.floats(-1e6, 1e6).map(
    lambda x: f"{x:,.2f}".translate(str.maketrans(",.", ".,"))
)
# An infinite number is a fault of the export that `check` names.
FREE_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8
).filter(lambda text: parse_number(text.strip(), ".") != "infinite")
KINDS = [
    POINT,
    st.one_of(COMMA, ODD),
    st.integers(0, 3).map(str),
    st.sampled_from(["yes", "no", "Ja", "nein", "x", "", "T", "0", "wahr"]),
    st.sampled_from(["x", ""]),
    st.dates().map(str),
    st.dates().map(lambda day: f"{day:%d.%m.%Y}"),
    st.dates().map(lambda day: f"{day:%m/%d/%y}"),
    st.sampled_from(["A", "a ", "01", "001", "'01", "None", "ü;", '"q"', "a,b"]),
    FREE_TEXT,
]
NAMES = [
    "id",
    "patient_id",
    "label",
    "date",
    "x",
    "y",
    "z",
    "group",
    "crp",
    "ÄÖ [°C]",
    'a "b"',
    "Unnamed: 0",
]


@st.composite
def tables(draw) -> str:
    """CSV text of a few columns, quoted throughout, beside one that is always a
    feature.
    """
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    columns = []
    for _ in names:
        kind = draw(st.sampled_from(KINDS))
        cells = st.lists(kind, min_size=COUNT, max_size=COUNT)
        columns.append(draw(cells))
    columns.append([f"{row}.5" for row in range(COUNT)])
    delimiter = draw(st.sampled_from(",;\t|"))
    rows = [[*names, "usable"], *map(list, zip(*columns, strict=True))]
    quoted = (
        (f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in rows
    )
    return "\n".join(map(delimiter.join, quoted)) + "\n"


@pytest.mark.repeated
@settings(max_examples=examples(25, 60))
@given(tables())
def test_a_table_passes_the_check_of_the_contract_written_from_it(
    tmp_path_factory, text
):
    """What `init` writes, `check` reads: whatever the table's cells look like."""
    folder = tmp_path_factory.mktemp("init")
    (folder / "past.csv").write_text(text, encoding="utf-8", newline="")
    contract, notes = starter_contract(folder / "past.csv")
    text = contract.to_toml(notes)
    (folder / "cohort.toml").write_text(text, encoding="utf-8")
    assert (
        check_cohort(folder / "past.csv", Contract.load(folder / "cohort.toml"))[0]
        == []
    )
