"""A cohort in a database is the cohort in a file: same rows, same scores, read-only,
and no password told.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from commands import LOGISTIC, WHO, screen
from database_places import in_database, in_duckdb, in_sqlite, said_to
from flow_cohorts import night_of_patients, patients, written
from ledger_places import schema
from numpy.random import default_rng
from typer.testing import CliRunner
from written_files import contents_of, names_in, read_json

from screening import Database, load_model, read_cohort, score
from screening.cli import app
from screening.data.reading import check_cohort
from screening.errors import CohortError, UsageError

pytest.importorskip("duckdb", reason="needs DuckDB")
ROLES = {"label": "ill", "positive": "yes", "id": "patient"}


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def kept(request, tmp_path):
    """A function that puts a table into a database of each kind, and gives its URL."""

    def put(table: pd.DataFrame, name: str = "past") -> str:
        if request.param == "postgresql":
            socket = request.getfixturevalue("postgres")
            urls.append(
                urls[0]
                if urls
                else schema(socket, f"cohort{abs(hash(request.node.name))}")
            )
            in_database(table, urls[0], name)
            return urls[0]
        return {"sqlite": in_sqlite, "duckdb": in_duckdb}[request.param](
            table, tmp_path, name
        )

    urls: list[str] = []
    return put


def test_a_table_scores_the_same_from_every_place(logistic_model, kept, tmp_path):
    night = night_of_patients(120, seed=3)
    night["crp"] = night["crp"].round(3)
    database = Database(kept(night, "tonight"), table="tonight")
    places = {
        "csv": written(night, tmp_path / "night.csv"),
        "parquet": written(night, tmp_path / "night.parquet"),
        "frame": night,
        "database": database,
    }
    model = load_model(logistic_model)
    scores = []
    for name, place in places.items():
        run = score(model, place, tmp_path / name)
        scores.append(pq.read_table(run.directory / "scores.parquet"))
    first, *others = scores
    cohorts = [read_cohort(database, id="patient") for _ in "ab"]
    digests = {cohort.source.files[0].sha256 for cohort in cohorts}

    assert first["flagged"].to_numpy().any()
    assert all(table.equals(first) for table in others)
    assert len(digests) == 1


def test_a_query_is_answered_and_its_digest_stands_in_the_run(
    logistic_model, kept, tmp_path
):
    """A case is explained from it, too."""
    night = patients(120, seed=3)
    query = tmp_path / "icu.sql"
    query.write_text(
        "SELECT patient, fever, crp, ward FROM past WHERE ward LIKE '%icu%' ORDER BY 1; -- :x"
    )
    place = [kept(night), "--query", query]
    screen("score", logistic_model, *place, "--out", tmp_path / "run")
    document = read_json(tmp_path / "run" / "run.json")
    (file,) = document["input"]["files"]
    name = document["cases"][0]["id"]
    told = screen(
        "explain", tmp_path / "run", name, "--model", logistic_model, "--cohort", *place
    )

    n_rows = (night["ward"] == "icu").sum()
    assert file["rows"] == n_rows
    assert document["counts"]["scored"] == n_rows
    assert file["name"] == "icu.sql"
    assert len(file["query_sha256"]) == 64
    given_scheme, *_ = place[0].partition(":")
    scheme, *_ = file["place"].partition(":")
    assert scheme == given_scheme.partition("+")[0]
    assert name in told.stdout


@pytest.mark.parametrize(
    "what",
    [
        "",
        "DELETE FROM past",
        "SELECT 1 AS a; COMMIT; DELETE FROM past",
        "SELECT 1 AS a$b$; DELETE FROM past --$b$",
        "ATTACH 'other.db' AS other",
    ],
)
def test_query_not_a_select(what, kept, tmp_path):
    """A query that is no single SELECT is refused and nothing changes."""
    url = kept(patients(50))
    query = tmp_path / "q.sql"
    query.write_text(what)
    with pytest.raises(UsageError, match=r"^q\.sql"):
        read_cohort(Database(url, query=query), **ROLES)
    read = read_cohort(Database(url, table="past"), **ROLES)
    assert read.n_rows == 50


@pytest.mark.parametrize("end", ["", ";", " ; \n-- done; really\n"])
def test_what_stands_in_texts_comments_and_names_is_no_statement(end, kept, tmp_path):
    query = tmp_path / "q.sql"
    url = kept(patients(50))
    query.write_text(
        "-- of tonight; no more\n"
        "WITH a AS (SELECT 'x; delete from past' AS word, crp AS \"update; me\" FROM past)"
        f" SELECT * FROM a /* insert into past; */{end}"
    )
    cohort = read_cohort(Database(url, query=query))
    assert cohort.names == ["update; me"]
    assert cohort.n_rows == 50


BEYOND = {
    in_duckdb: [
        "SELECT 1 AS a$b$; COPY (SELECT 1) TO '{}/leaked.csv' --$b$",
        "COPY past TO '{}/leaked.csv'",
        "SELECT * FROM read_csv('{}/secret.csv')",
        "SELECT * FROM stolen",
        "SELECT * FROM url",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ],
    in_sqlite: [
        "VACUUM INTO '{}/leaked.db'",
        "ATTACH '{}/leaked.db' AS other",
        "PRAGMA query_only = OFF",
    ],
}


@pytest.mark.parametrize(
    ("put", "query"), [(put, query) for put in BEYOND for query in BEYOND[put]]
)
def test_a_query_or_view_of_a_file_reaches_nothing_beyond_it(put, query, tmp_path):
    import duckdb

    url = put(patients(50), tmp_path)
    query_file = tmp_path / "q.sql"
    (tmp_path / "secret.csv").write_text("a,b\n1.5,2\n2.5,4\n")
    query_file.write_text(query.format(tmp_path))
    if put is in_duckdb:
        with duckdb.connect(str(tmp_path / "ward.duckdb")) as connection:
            connection.sql(
                f"CREATE VIEW stolen AS SELECT * FROM '{tmp_path}/secret.csv'"
            )
    before = names_in(tmp_path)

    with pytest.raises(UsageError, match=r"^q\.sql"):
        read_cohort(Database(url, query=query_file))

    assert names_in(tmp_path) == before


def test_postgresql_is_read_in_a_transaction_that_may_change_nothing(
    postgres, tmp_path
):
    url = schema(postgres, "readonly")
    said_to(url, "CREATE SEQUENCE counter", "CREATE TABLE past (a int)")
    query = tmp_path / "q.sql"
    query.write_text("SELECT nextval('counter') AS a")
    with pytest.raises(UsageError, match=r"read-only transaction|stopped answering"):
        read_cohort(Database(url, query=query))


def test_a_database_that_goes_away_in_the_middle_leaves_nothing(
    logistic_model, postgres, tmp_path
):
    url = schema(postgres, "gone")
    query = tmp_path / "q.sql"
    # The server ends its own connection when half of the rows are sent.
    query.write_text(
        "SELECT n::text AS patient, 37.0 AS fever, 2.0 AS crp, 'icu' AS ward, "
        "CASE WHEN n = 60000 THEN pg_terminate_backend(pg_backend_pid()) END AS b "
        "FROM generate_series(1, 90000) n"
    )

    ended = screen(
        "score",
        logistic_model,
        url,
        "--query",
        query,
        "--out",
        tmp_path / "runs" / "run",
        code=2,
    )

    assert "stopped answering after row" in ended.stderr
    assert sorted(names_in(tmp_path)) == ["q.sql"]


@pytest.mark.parametrize(
    "command",
    [
        "check {place} --model {model}",
        "init {place} --out {folder}/c.toml",
        "score {model} {place} --out {folder}/run",
        "train {place} --label ill --out {folder}/m",
        "compare {place} --recipes svm --label ill --out {folder}/c",
    ],
)
def test_no_command_tells_the_password(command, logistic_model, tmp_path):
    url = "postgresql://reader:s3cr3t%40%2F:?x@127.0.0.1:1/ward?application_name=hids3cr3tden"
    words = command.format(
        place=f"{url} --table past --json", model=logistic_model, folder=tmp_path
    )
    ended = screen(*words.split(), code=2)
    assert "postgresql://127.0.0.1:1/ward" in ended.stderr
    assert "s3cr3t" not in ended.output
    unnamed = screen("init", url, "--out", tmp_path / "c.toml", code=2)
    assert "needs --table or --query" in unnamed.stderr
    assert "s3cr3t" not in unnamed.output
    of_file = screen(
        "init", "past.csv", "--table", "x", "--out", tmp_path / "c.toml", code=2
    )
    assert "--table and --query need a database" in of_file.stderr


def test_a_model_trained_from_a_database_tells_no_password(postgres, tmp_path):
    url = schema(postgres, "secretive")
    in_database(patients(), url)
    place = [url.replace("screen@", "screen:s3cr3t@"), "--table", "past"]
    ended = screen("train", *place, *WHO, *LOGISTIC, "--out", tmp_path / "model")
    model = tmp_path / "model"
    files = contents_of(model)
    command = json.loads(files["model.json"])["training"]["command"]
    shown = b"".join(files.values()) + ended.output.encode()
    assert b"s3cr3t" not in shown
    assert "postgresql:///postgres" in command
    assert "--table past" in command


def test_errors_of_values_repeat_no_value(kept, tmp_path):
    (tmp_path / "q.sql").write_text(
        "SELECT patient, CAST(ward AS INTEGER) AS ward, ill FROM past"
    )
    url = kept(patients(30).assign(ward="Mrs Smith"))
    words = [
        "init",
        url,
        "--query",
        str(tmp_path / "q.sql"),
        "--out",
        str(tmp_path / "c.toml"),
    ]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code in (0, 2, 3)
    assert "Smith" not in ended.output


def test_database_no_number(kept, tmp_path):
    """Numbers that are none are missing or refused by row as in a file."""
    table = patients(40)
    table.loc[3, "fever"] = np.inf
    table.loc[5, "crp"] = np.nan
    contract = read_cohort(patients(40), **ROLES).contract
    place = Database(kept(table), table="past")
    from_database, *_ = check_cohort(place, contract)
    path = written(table, tmp_path / "a.parquet")
    from_file, *_ = check_cohort(path, contract)
    assert from_database == from_file
    assert "row 4" in from_database[0]


def test_postgresql_types_become_what_they_mean(postgres):
    url = schema(postgres, "kinds")
    said_to(
        url,
        "CREATE TABLE past (id uuid, whole bigint, price numeric(12, 3), odd numeric, born date,"
        " seen timestamptz, at time, many int[], body bytea, doc jsonb, span int4range, ill boolean,"
        " wait interval, big numeric)",
        "INSERT INTO past SELECT gen_random_uuid(), 37 * n % 50, n * 1.001,"
        " CASE WHEN n = 3 THEN 'NaN'::numeric ELSE n END, date '2000-02-29' + n, now(), '10:00', ARRAY[n],"
        " '\\x00', '{}', int4range(n, n + 2), n % 5 = 0,"
        " interval '1 day', 12345678901234567890.5 + n FROM generate_series(1, 60) n",
    )

    said_to(
        url,
        "CREATE TABLE endless (a int, b timestamp)",
        "INSERT INTO endless VALUES (1, 'infinity')",
    )

    database = Database(url, table="past")
    cohort = read_cohort(database, id="id", label="ill")

    with pytest.raises((UsageError, CohortError)):
        read_cohort(Database(url, table="endless"))
    assert cohort.names == ["whole", "price", "odd"]
    assert cohort.features["price"].tolist() == [
        float(f"{n * 1.001:.3f}") for n in range(1, 61)
    ]
    assert np.isnan(cohort.features["odd"][2])
    assert cohort.features["odd"].notna().sum() == 59
    assert cohort.classes == ["false", "true"]
    assert len(set(cohort.id)) == 60
    assert len(cohort.id[0]) == 36


def test_sqlite_may_hold_several_kinds_in_one_column(tmp_path):
    url = in_sqlite(patients(50), tmp_path)
    said_to(
        url,
        "CREATE TABLE mixed (id TEXT, value, other)",
        "INSERT INTO mixed SELECT patient, rowid * 0.5, rowid FROM past",
        "UPDATE mixed SET value = '<5' WHERE rowid = 3",
        "UPDATE mixed SET value = x'00ff', other = x'ff' WHERE rowid = 4",
    )
    table = pd.DataFrame(
        {
            "id": list("abcd"),
            "value": [1.0, 2.0, 3.0, 4.5],
            "other": [1, 2, 3, 5],
        }
    )
    contract = read_cohort(table, id="id").contract
    violations, _ = check_cohort(Database(url, table="mixed"), contract)
    places = ["column 'value', row 3", "column 'value', row 4", "column 'other', row 4"]
    assert [line.partition(":")[0] for line in violations] == places


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///nowhere.db", "does not exist"),
        ("duckdb:///nowhere.db", "does not exist"),
        ("sqlite://", "in-memory"),
        ("nothing://x/y", "does not support"),
        ("http//x", "URL"),
        ("oracle://u:p@h/d", "needs the Python package"),
        ("sqlite:///{}/ward.db", "no table or view"),
        ("duckdb:///{}/ward.duckdb", "no table or view"),
    ],
)
def test_database_missing(url, words, tmp_path):
    """A place that is no database or has no such table is refused in words."""
    in_sqlite(patients(20), tmp_path)
    in_duckdb(patients(20), tmp_path)
    with pytest.raises(UsageError, match=words):
        read_cohort(Database(url.format(tmp_path), table="nowhere; drop table past"))


def test_memory_does_not_grow_with_the_rows(postgres, tmp_path):
    url = schema(postgres, "large")
    query = tmp_path / "q.sql"
    code = (
        "import sys\n"
        "from screening import Database\n"
        "from screening.cli.logs import peak_mb\n"
        "from screening.io.database import ask_database\n"
        "source = ask_database(Database(sys.argv[1], query=sys.argv[2]))\n"
        "rows = sum(block.n_rows for block in source.files[0].blocks(None, 4096))\n"
        "print(rows, peak_mb())\n"
    )

    def peak(n_rows: int) -> int:
        series = f"generate_series(1, {n_rows}) n"
        query.write_text(
            f"SELECT n, random() AS a, random() AS b, n::text AS t FROM {series}"
        )
        words = [sys.executable, "-c", code, url, str(query)]
        ended = subprocess.run(words, capture_output=True, text=True, check=True)
        rows, megabytes = map(int, ended.stdout.split())
        assert rows == n_rows
        return megabytes

    # 300,000 more rows are 60 MB as Python holds them.
    assert peak(400_000) - peak(100_000) < 20


pytest.importorskip("duckdb", reason="needs DuckDB")
QUERY = Path(__file__).parents[1] / "docs" / "omop_cohort.sql"
CONCEPTS = {
    "temperature": 3020891,
    "heart_rate": 3027018,
    "crp": 3020460,
    "leukocytes": 3000905,
}
DAY = pd.Timestamp("2026-03-01").date()
STAYS = 40


def omop() -> dict[str, pd.DataFrame]:
    """Persons with one stay each; every fifth gets sepsis on its third day, some had it
    on their first.
    """
    rng = default_rng(0)
    number = np.arange(STAYS)
    later = pd.Timestamp("2026-03-03").date()
    values = pd.DataFrame(
        {
            "visit_occurrence_id": np.repeat(1000 + number, 4),
            "measurement_concept_id": list(CONCEPTS.values()) * STAYS,
            "measurement_date": DAY,
            "value_as_number": rng.normal(40, 5, 4 * STAYS),
        }
    )
    # A higher value of the next day must not be seen.
    values = pd.concat(
        [values, values.assign(measurement_date=later, value_as_number=999.0)]
    )
    ill = pd.DataFrame(
        {"visit_occurrence_id": 1000 + number[::5], "condition_start_date": later}
    )
    known = pd.DataFrame(
        {"visit_occurrence_id": 1000 + number[3::10], "condition_start_date": DAY}
    )
    gender = 8532 - 25 * (number % 2)
    persons = {
        "person_id": number,
        "year_of_birth": 1950 + number,
        "gender_concept_id": gender,
    }
    visits = {
        "visit_occurrence_id": 1000 + np.arange(STAYS + 1),
        "person_id": [*number, 0],
        "visit_concept_id": [9201] * STAYS + [9202],
        "visit_start_date": DAY,
        "visit_end_date": later,
    }
    return {
        "person": pd.DataFrame(persons),
        "visit_occurrence": pd.DataFrame(visits),
        "measurement": values,
        "condition_occurrence": pd.concat([ill, known]).assign(
            condition_concept_id=132797
        ),
    }


def test_database_omop_example(kept):
    """The example query of the docs yields a cohort of an OMOP database."""
    (url,) = {kept(table, name) for name, table in omop().items()}
    roles = {"label": "sepsis", "id": "visit_occurrence_id", "group": "person_id"}
    cohort = read_cohort(Database(url, query=QUERY), **roles)
    assert cohort.names == ["age", "sex", *CONCEPTS]
    assert cohort.n_rows == STAYS
    cases = np.flatnonzero(cohort.label == "yes")
    assert list(cases) == list(range(0, STAYS, 5))
    ages = [76 - number for number in range(STAYS)]
    assert cohort.features["age"].tolist() == ages
    assert cohort.features["temperature"].max() < 999
