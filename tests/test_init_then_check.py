"""What `init` writes, `check` reads: whatever the table's cells look like."""

from hypothesis import given, settings
from hypothesis import strategies as st

from screening.contract.contract import Contract
from screening.data.reading import check_cohort, starter_contract

COUNT = 12
ODD = st.sampled_from(
    ["", "", "NA", "n/a", "-", "?", "<5", ">90", "haemolysed", "inf", " ", "'12", "unknown"]
)
POINT = st.one_of(
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.2f}"), st.integers(-(10**6), 10**6).map(lambda x: f"{x:,}"), ODD
)
COMMA = st.floats(-1e6, 1e6).map(lambda x: f"{x:,.2f}".translate(str.maketrans(",.", ".,")))
KINDS = [
    POINT, st.one_of(COMMA, ODD), st.integers(0, 3).map(str),
    st.sampled_from(["yes", "no", "Ja", "nein", "x", "", "T", "0", "wahr"]), st.sampled_from(["x", ""]),
    st.dates().map(str), st.dates().map(lambda day: f"{day:%d.%m.%Y}"),
    st.dates().map(lambda day: f"{day:%m/%d/%y}"),
    st.sampled_from(["A", "a ", "01", "001", "'01", "None", "ü;", '"q"', "a,b"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8),
]  # fmt: skip
NAMES = ["id", "patient_id", "label", "date", "x", "y", "z", "group", "crp", "ÄÖ [°C]", 'a "b"', "Unnamed: 0"]


@st.composite
def tables(draw) -> str:
    """CSV text of a few columns, quoted throughout, beside one that is always a feature."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    columns = [draw(st.lists(draw(st.sampled_from(KINDS)), min_size=COUNT, max_size=COUNT)) for _ in names]
    columns.append([f"{row}.5" for row in range(COUNT)])
    delimiter = draw(st.sampled_from(",;\t|"))
    rows = [[*names, "usable"], *map(list, zip(*columns, strict=True))]
    quoted = ((f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in rows)
    return "\n".join(map(delimiter.join, quoted)) + "\n"


@settings(max_examples=60)
@given(tables())
def test_a_table_passes_the_check_of_the_contract_written_from_it(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("init")
    (folder / "past.csv").write_text(text, encoding="utf-8", newline="")

    contract, notes = starter_contract(folder / "past.csv")
    (folder / "cohort.toml").write_text(contract.to_toml(notes), encoding="utf-8")
    violations, _ = check_cohort(folder / "past.csv", Contract.load(folder / "cohort.toml"))

    assert violations == []
