"""A night for other systems: whole or not at all, from a run whose digests agree,
nothing a sheet runs.
"""

import csv
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import sqlalchemy as sa
from commands import commands_of
from flow_cohorts import patients, voxels
from hypothesis import given
from hypothesis import strategies as st
from ledger_places import schema
from numpy.testing import assert_allclose
from typer.testing import CliRunner
from written_files import read_json, scores_in

from screening import MaxFlagRate, export, read_cohort, score, train
from screening.cli import app
from screening.errors import ModelError, UsageError
from screening.ledger.database import open_ledger
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.scoring.exporting import FlaggedRows, read_flagged
from screening.scoring.exports import csv as csv_form
from screening.scoring.exports import fhir, omop, xlsx
from screening.scoring.flagged_list import as_text, without_marks
from screening.store.model import CHANCES

ROLES = {"label": "ill", "positive": "yes", "id": "patient"}
NASTY = [
    "=1+1",
    "@x",
    "+2",
    "-3",
    "'4",
    "00123",
    "a\nb",
    "\t=5",
    "x;=6",
    "=HYPERLINK(1)",
]


@pytest.fixture(scope="module")
def model(cohort, trained):
    # An export to OMOP needs to know that an id is a person.
    contract = cohort.contract.model_copy(update={"id_is_person": True})
    return trained(
        replace(cohort, contract=contract), "logistic", search=1, rule=MaxFlagRate(0.3)
    )


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    """A night of hostile ids."""
    folder = tmp_path_factory.mktemp("night")
    night = patients(60, seed=7)
    night["patient"] = [str(i) for i in range(60)]
    night.loc[: len(NASTY) - 1, "patient"] = NASTY
    night.loc[:9, ["fever", "crp"]] = 41.0, 90.0
    with open_ledger(str(folder / "screening.db"), make=True) as book:
        how = {"date": "2026-03-01", "ledger": book, "accept_delivery": "hostile"}
        score(model, night, folder / "run", **how)
    return folder / "run"


def said(*words: object) -> tuple[int, str]:
    answer = CliRunner().invoke(app, [str(word) for word in words])
    return answer.exit_code, answer.stdout + answer.stderr


def exported(run, out: Path, to: str, *words: object) -> Path:
    code, text = said("export", run, "--to", to, "--out", out, *words)
    assert code == 0, text
    return out


def flagged_of(run) -> pd.DataFrame:
    scores = scores_in(run)
    return scores[scores["flagged"]].sort_values(
        "score", ascending=False, kind="stable"
    )


def listed(run) -> pd.DataFrame:
    path = run.directory / "flagged.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False)


@given(st.text("ab=+-@'\"\t\n\r;,| \u2028＝", max_size=12))
def test_csv_marks(text):
    """An apostrophe is marked too: without the marks every text is as it was."""
    assert without_marks(as_text(text)) == text


def test_rows_of_scores(run):
    """The rows are those of the scores, with their ids as written."""
    rows = read_flagged(run).rows
    scores = flagged_of(run)
    assert rows["id"].to_pylist() == scores["id"].tolist()
    assert set(NASTY) <= set(scores["id"])
    assert rows["score"].to_pylist() == scores["score"].tolist()
    ranks = list(range(1, len(scores) + 1))
    assert rows["rank"].to_pylist() == ranks


@pytest.mark.parametrize("name", ["scores.parquet", "flagged.csv"])
def test_export_altered_run(name, run, tmp_path):
    """A run with altered or missing tables is not exported."""
    copy = shutil.copytree(run, tmp_path / "copy")
    with (copy / name).open("ab") as file:
        file.write(b" ")

    for to in ("csv", "xlsx", "fhir", "omop"):
        out = ["--out", tmp_path / "out"]
        code, text = said("export", copy, "--to", to, *out)
        assert code == 4
        assert "digest" in text
    (copy / name).unlink()
    with pytest.raises(ModelError, match=name):
        read_flagged(copy)
    assert not (tmp_path / "out").exists()


def test_csv_no_formula(run, tmp_path):
    """No cell of a CSV is a formula, and the file names its night."""
    with exported(run, tmp_path / "a.csv", "csv").open(
        encoding="utf-8-sig", newline=""
    ) as file:
        header, *rows = csv.reader(file)
    assert header[:9] == [
        "run_id",
        "date",
        "taken_at",
        "rank",
        "id",
        "group",
        "class",
        "score",
        "p_value",
    ]
    assert len(rows) == len(flagged_of(run))
    assert {row[1] for row in rows} == {"2026-03-01"}
    for row in rows:
        assert row[3][:1] not in tuple("=+-@\t")


def test_workbook_cells(run, tmp_path):
    """A workbook has typed cells, and texts are never formulas."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    flagged = read_flagged(run)
    path = exported(run, tmp_path / "a.xlsx", "xlsx")
    sheet = openpyxl.load_workbook(path).active
    columns = {column[0].value: column[1:] for column in sheet.columns}
    kinds = {}
    for name, column in columns.items():
        kinds[name] = {cell.data_type for cell in column}

    assert list(columns) == flagged.table().column_names
    assert kinds["id"] == kinds["run_id"] == {"s"}
    for name in ("score", "rank", "nights"):
        assert kinds[name] == {"n"}
    assert kinds["drawn"] == {"b"}
    ids = [cell.value for cell in columns["id"]]
    assert ids == flagged.rows["id"].to_pylist()


def entries_of(bundle, kind: str) -> list:
    """Return the entries of a type of resource."""
    return [
        entry for entry in bundle.entry if entry.resource.get_resource_type() == kind
    ]


def test_fhir_bundle(run, tmp_path):
    """The bundle is valid FHIR, and each flag points to its assessment."""
    r4 = pytest.importorskip("fhir.resources.R4B.bundle", reason="needs fhir.resources")
    file = exported(run, tmp_path / "a.json", "fhir", "--id-system", "urn:oid:1.2.3")
    bundle = r4.Bundle.model_validate_json(file.read_bytes())
    assessments = entries_of(bundle, "RiskAssessment")
    flags = entries_of(bundle, "Flag")
    entries = [*assessments, *flags]
    subjects = [entry.resource.subject for entry in entries]

    assert len(assessments) == len(flags)
    assert len(assessments) == len(entries_of(bundle, "Task"))
    assert len(entries_of(bundle, "Device")) == 1
    pointed = []
    for flag in flags:
        extension = flag.resource.extension[0]
        pointed.append(extension.valueReference.reference)
    assert pointed == [entry.fullUrl for entry in assessments]
    assert all(
        subject.reference is None and subject.display is None for subject in subjects
    )
    assert [
        subject.identifier.value for subject in subjects[: len(flags)]
    ] == flagged_of(run)["id"].tolist()


def test_a_calibrated_chance_is_the_probability(tmp_path):
    """It is a percentage, as the definition of the element in FHIR R4 says."""
    past = read_cohort(patients(1500), **ROLES)
    model = train(past, "logistic", search=1, jobs=1, beside=())
    run = tmp_path / "run"
    night = patients(100, seed=5)
    score(model, night, run, date="2026-03-01")
    bundle = exported(run, tmp_path / "a.json", "fhir")
    entries = read_json(bundle)["entry"]
    told = [
        entry["resource"]["prediction"][0]["probabilityDecimal"]
        for entry in entries
        if entry["resource"]["resourceType"] == "RiskAssessment"
    ]
    chances = flagged_of(tmp_path / "run")["chance"]
    assert_allclose(told, 100 * chances, atol=1e-6, rtol=0)
    assert max(told) > 1


def test_id_unknown_to_form(model, run, tmp_path):
    """An id that a form cannot hold is named by its rank alone."""
    night = patients(40, seed=7)
    night["patient"] = [f"secret\x01{i}" for i in range(40)]
    score(model, night, tmp_path / "run")
    with pytest.raises(UsageError, match="ranked 1, 2") as refused:
        fhir.write(read_flagged(tmp_path / "run"), out=tmp_path / "a.json")
    with pytest.raises(UsageError, match="not OMOP person_ids") as no_persons:
        omop.write(read_flagged(run), out=tmp_path / "omop")
    assert "secret" not in str(refused.value)
    assert "HYPERLINK" not in str(no_persons.value)
    assert not (tmp_path / "omop").exists()


def test_export_says_that_ids_are_written_otherwise(run, model, tmp_path):
    """Who takes a run over is told that its ids were accepted in another writing."""
    sound = patients(60, seed=7)
    score(model, sound, tmp_path / "run", date="2026-03-01")

    told = said("export", run, "--to", "csv", "--out", tmp_path / "a.csv")
    quiet = said("export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "b.csv")

    assert told[0] == quiet[0] == 0
    assert "ids of this run are written differently than before" in told[1]
    assert "written differently" not in quiet[1]


def test_export_quiet_night(run, tmp_path):
    """A night without flags is a valid bundle, and tables with headers."""
    r4 = pytest.importorskip("fhir.resources.R4B.bundle", reason="needs fhir.resources")
    flagged = read_flagged(run)
    no_rows = flagged.rows.slice(0, 0)
    flagged = replace(flagged, rows=no_rows)
    for form in (fhir, csv_form, omop):
        form.write(flagged, out=tmp_path / form.__name__)
    bundle = (tmp_path / fhir.__name__).read_bytes()
    table = (tmp_path / csv_form.__name__).read_bytes()
    of_omop = (tmp_path / omop.__name__ / "cohort.csv").read_bytes()
    assert r4.Bundle.model_validate_json(bundle).entry is None
    assert table.count(b"\n") == 1
    assert of_omop.count(b"\n") == 1


def test_omop_has_a_row_a_person_and_its_definition(model, tmp_path):
    """Of a night whose ids are person ids."""
    night = patients(60, seed=7)
    night["patient"] = [str(i) for i in range(60)]
    # Training's ids have leading zeros.
    accepted = "the ids are person ids"
    score(model, night, tmp_path / "run", date="2026-03-01", accept_delivery=accepted)
    out = exported(tmp_path / "run", tmp_path / "omop", "omop", "--definition", "70")
    cohort = pd.read_csv(out / f"{'cohort'}.csv")
    definition = pd.read_csv(out / f"{'cohort_definition'}.csv")
    assert sorted(cohort["subject_id"]) == sorted(
        map(int, flagged_of(tmp_path / "run")["id"])
    )
    assert (
        set(cohort["cohort_definition_id"])
        == set(definition["cohort_definition_id"])
        == {70}
    )
    assert set(cohort["cohort_start_date"]) == {"2026-03-01"}


def test_omop_patient_once(tmp_path):
    """A patient is in the cohort once, however many rows are flagged."""
    past = voxels()
    night = voxels(3, 50, seed=9)
    past["patient"] = past["patient"].str[1:]
    night["patient"] = night["patient"].str[1:]
    cohort = read_cohort(past, label="tissue", group="patient")
    model = train(
        cohort,
        "one_vs_rest",
        search=1,
        folds=4,
        jobs=1,
        beside=(),
    )
    run = score(model, night, tmp_path / "run").directory

    table = exported(run, tmp_path / "omop", "omop") / "cohort.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    _, *rows = csv.reader(lines)
    assert len(rows) == len({tuple(row) for row in rows})
    groups = set(flagged_of(run)["group"])
    assert {row[1] for row in rows} == groups


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "postgresql":
        return schema(
            request.getfixturevalue("postgres"), f"sink{abs(hash(request.node.name))}"
        )
    pytest.importorskip("duckdb", reason="needs DuckDB")
    return f"{request.param}:///{tmp_path / 'sink.db'}"


def read_back(url: str, name: str) -> list[tuple]:
    if url.startswith("duckdb"):
        import duckdb

        with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
            return connection.execute(f"SELECT * FROM {name} ORDER BY rank").fetchall()
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(
            f"SELECT * FROM {name} ORDER BY rank"
        ).fetchall()
    engine.dispose()
    return [tuple(row) for row in rows]


def test_table_replaced(run, url):
    """A table holds the rows and is replaced only with --force."""
    words = ["export", run, "--to", "table", "--url", url, "--table", "flagged"]
    first = said(*words)
    again = said(*words)
    forced = said(*words, "--force")
    assert first[0] == 0, first
    assert again[0] == 2, again
    assert forced[0] == 0, forced
    assert "--force" in again[1]
    stored = read_flagged(run).table()
    columns = [column.to_pylist() for column in stored.columns]
    expected = list(zip(*columns, strict=True))
    assert read_back(url, "flagged") == expected


def test_table_from_python(run, tmp_path):
    """An export without a file says where the rows are, without a password."""
    place = f"sqlite:///{tmp_path}/a.db"

    answer = export(run, "table", url=place, table="flagged")

    assert "flagged" in answer
    assert len(read_back(place, "flagged")) == len(flagged_of(run))


def test_table_kept(run, url, monkeypatch):
    """If a table cannot be written, the earlier one stays."""
    words = [
        "export",
        run,
        "--to",
        "table",
        "--url",
        url,
        "--table",
        "flagged",
        "--force",
    ]
    said(*words)
    before = read_back(url, "flagged")
    # Columns that can be made into a table, and rows that cannot be had.
    rows = SimpleNamespace(schema=read_flagged(run).table().schema)
    monkeypatch.setattr(FlaggedRows, "table", lambda each: rows)

    code, _ = said(*words)

    assert code in (1, 2)
    assert read_back(url, "flagged") == before


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--to", "table", "--url", "sqlite:///a.db"], "--to table needs --table"),
        (["--to", "csv"], "--to csv needs --out"),
        (
            ["--to", "csv", "--out", "a", "--url", "sqlite:///a.db", "--table", "t"],
            "takes no --table, --url",
        ),
        (
            ["--to", "fhir", "--out", "a", "--definition", "7"],
            "--to fhir takes no --definition",
        ),
    ],
)
def test_export_options(words, refusal, run):
    """A form without its options, or with those of another, is refused."""
    code, text = said("export", run, *words)
    assert code == 2
    assert refusal in text


def test_export_that_does_not_exist(run, tmp_path):
    with pytest.raises(UsageError, match="export format 'docx' does not exist"):
        export(run, "docx", tmp_path / "a.docx")


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        ("MAX_ROWS", "rows are more than a sheet can contain"),
        ("MAX_CHARACTERS", "characters, more than a cell can contain"),
    ],
)
def test_workbook_limits(run, tmp_path, monkeypatch, limit, refusal):
    """What a sheet of a workbook cannot hold is refused, and csv is named."""
    pytest.importorskip("openpyxl", reason="needs openpyxl")
    monkeypatch.setattr(xlsx, limit, 1)

    with pytest.raises(UsageError, match=refusal) as refused:
        export(run, "xlsx", tmp_path / "a.xlsx")

    assert "csv" in str(refused.value)
    assert not (tmp_path / "a.xlsx").exists()


def test_a_file_is_replaced_only_when_told(run, tmp_path):
    words = ["export", run, "--to", "csv", "--out", tmp_path / "a.csv"]
    written, _ = said(*words)
    refused, _ = said(*words)
    replaced, _ = said(*words, "--force")
    assert [written, refused, replaced] == [0, 2, 0]
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o600


def test_the_examples_of_the_page_run(run, tmp_path, monkeypatch):
    pytest.importorskip("openpyxl", reason="needs openpyxl")
    for night in ("2026-03-01", "2026-03-02"):
        shutil.copytree(run, tmp_path / "runs" / night)
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[1] / "docs" / "exports.md"
    lines = commands_of(page.read_text(encoding="utf-8"))
    codes = []
    for line in lines:
        code, _ = said(*shlex.split(line))
        codes.append(code)
    assert codes == [0] * 6
    assert {"night.csv", "night.xlsx", "night.json", "worklist.db"} <= {
        *map(str, Path().iterdir())
    }


def test_a_shadow_run_is_handed_on_to_nobody(model, tmp_path):
    with open_ledger(str(tmp_path / "screening.db"), make=True) as book:
        night = patients(60, seed=7)
        score(model, night, tmp_path / "run", ledger=book, shadow=True)
    with pytest.raises(UsageError, match="shadow"):
        read_flagged(tmp_path / "run")


def test_flagged_csv_columns(model, tmp_path):
    """flagged.csv has its columns, and with a ledger the state of every case."""
    promised = {"rank", "id", "group", "class", "score", "p_value", *CHANCES}
    promised.add("out_of_bounds")
    first = patients(60, seed=7)
    later = patients(20, seed=8)
    plain = score(model, first, tmp_path / "plain")
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        before = score(
            model, first, tmp_path / "run1", date="2026-03-01", ledger=ledger
        )
        stayed = set(first["patient"][:40])
        judged = min(set(listed(before)["id"]) & stayed)
        key = before.document["ledger"]["key"]
        record_verdicts(ledger, key, [Verdict(judged, "ruled out")])
        second = pd.concat([first[:40], later], ignore_index=True)
        run = score(model, second, tmp_path / "run2", date="2026-03-02", ledger=ledger)

    table = listed(run).set_index("id")
    assert set(listed(plain)) == promised
    from_ledger = {"state", "nights", "drawn"}
    assert {"id", *table.columns} == promised | from_ledger
    assert dict(table.loc[judged, ["state", "nights"]]) == {
        "state": "ruled out",
        "nights": "2",
    }
    came_later = table.index.isin(later["patient"])
    assert set(table.loc[came_later, "state"]) == {"new"}
    for state in ("new", "pending", "ruled out"):
        assert (
            (table["state"] == state).sum()
            == run.document["counts"][state.replace(" ", "_")]
            > 0
        )


@pytest.fixture(scope="module")
def hourly(cohort, trained, tmp_path_factory):
    """A night whose hour and time zone are stated, with a column that is named date."""
    contract = cohort.contract.model_copy(
        update={
            "id_is_person": True,
            "hour": "06:00",
            "time_zone": "Europe/Berlin",
            "display": ["date"],
        }
    )
    of_berlin = replace(cohort, contract=contract)
    model = trained(of_berlin, "logistic", search=1, rule=MaxFlagRate(0.3))
    night = patients(40, seed=7)
    night["patient"] = [str(10_000_000 + at) for at in range(40)]
    night["date"] = "yesterday"
    folder = tmp_path_factory.mktemp("hourly") / "run"
    score(model, night, folder, date="2026-07-01")
    return folder


SUMMER = "2026-07-01T06:00+02:00"


def test_csv_and_workbook_offset(hourly, tmp_path):
    """Each row says when the table was taken, with the offset of that day."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl")
    csv_file = exported(hourly, tmp_path / "out.csv", "csv")
    book = exported(hourly, tmp_path / "out.xlsx", "xlsx")

    table = pd.read_csv(csv_file, dtype=str)
    (header, first, *_) = openpyxl.load_workbook(book).active.iter_rows(
        values_only=True
    )
    assert list(table)[:3] == ["run_id", "date", "taken_at"]
    assert set(table["taken_at"]) == {SUMMER}
    assert set(table["date"]) == {"2026-07-01"}
    assert set(table["display_date"]) == {"yesterday"}
    assert dict(zip(header, first, strict=True))["taken_at"] == SUMMER


def test_omop_dates_alone(hourly, tmp_path):
    """The CDM's cohort has dates; when the table was taken is beside it."""
    out = exported(hourly, tmp_path / "omop", "omop")

    rows = pd.read_csv(out / "cohort.csv", dtype=str)
    facts = json.loads((out / "cohort.json").read_text())
    assert list(rows) == list(omop.COHORT)
    assert set(rows["cohort_start_date"]) == {"2026-07-01"}
    assert facts["taken_at"] == SUMMER
    assert facts["time_zone"] == "Europe/Berlin"


def test_csv_hour_unknown(run, tmp_path):
    """Where only the day is known, no instant is claimed."""
    table = pd.read_csv(exported(run, tmp_path / "out.csv", "csv"), dtype=str)

    assert table["taken_at"].isna().all()


def test_rows_of_a_group_have_the_state_of_their_patient(tissue_model, tmp_path):
    three = voxels(3, 50, seed=9)
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        without_one = three[three["patient"] != "P91"]
        for day, rows in ((1, without_one), (2, three)):
            run = score(
                tissue_model,
                rows,
                tmp_path / f"{day}",
                date=f"2026-03-0{day}",
                ledger=ledger,
            )
    by_group = listed(run).groupby("group")[["state", "nights"]]
    found = by_group.agg(set).to_dict("index")
    known = {"state": {"pending"}, "nights": {"2"}}
    new = {"state": {"new"}, "nights": {"1"}}
    assert found == {"P90": known, "P91": new, "P92": known}


def test_omop_needs_to_know_that_an_id_is_a_person(cohort, trained, tmp_path):
    """A stay is no person: without a group the contract must say what an id is."""
    of_stays = trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.3))
    run = score(of_stays, patients(60, seed=7), tmp_path / "run").directory

    with pytest.raises(UsageError, match="id_is_person = true"):
        omop.write(read_flagged(run), out=tmp_path / "omop")

    assert not (tmp_path / "omop").exists()
