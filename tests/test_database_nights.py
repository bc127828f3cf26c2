"""A night of a database: by its date, caught up, and never under another date."""

import datetime
import json
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from commands import screen
from database_places import in_database, in_duckdb, in_sqlite, said_to
from flow_cohorts import night_of_patients
from ledger_places import schema
from sqlalchemy.dialects import mssql, oracle

from screening import Database, read_cohort
from screening.errors import UsageError
from screening.io.connections import described, read_url
from screening.io.database import bind_night, refuse_writing
from screening.io.opening import digests, exists

# A text with a colon, a type of PostgreSQL, and a share are no parameters.
QUERY = """SELECT * FROM past
WHERE day = :night AND ward NOT LIKE 'a:night%' -- at 12:30
"""


@pytest.fixture
def nights() -> list[str]:
    """The last three nights, of which tonight is the last."""
    today = datetime.date.today()
    return [str(today - datetime.timedelta(days=days)) for days in (2, 1, 0)]


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def put(request, tmp_path):
    """A function that puts a table into a database, and gives its URL."""
    if request.param == "sqlite":
        return lambda table, name="past": in_sqlite(table, tmp_path, name)
    if request.param == "duckdb":
        pytest.importorskip("duckdb", reason="needs DuckDB")
        return lambda table, name="past": in_duckdb(table, tmp_path, name)
    place = schema(request.getfixturevalue("postgres"), f"nights{abs(hash(tmp_path))}")

    def into_postgresql(table: pd.DataFrame, name: str = "past") -> str:
        in_database(table, place, name)
        return place

    return into_postgresql


def nights_of(*dates: str) -> pd.DataFrame:
    """Patients of several nights in one table, with a column of the night."""
    tables = []
    for seed, date in enumerate(dates):
        night = night_of_patients(40, seed=seed)
        night["day"] = datetime.date.fromisoformat(date)
        tables.append(night)
    return pd.concat(tables)


def site(folder: Path, model: Path, url: str, *lines: str) -> None:
    """Write a site of one series of a database into a folder."""
    text = [
        "[site]",
        'ledger = "l.db"',
        "catch_up = 2",
        "[series.ward-7]",
        f'model = "{model}"',
        f'cohort = "{url}"',
        *lines,
    ]
    (folder / "NIGHT.toml").write_text("\n".join(text))


def run(*options: str, code: int = 0) -> dict:
    """Return the answer of a run of the site in the current folder."""
    answer = screen("run", "NIGHT.toml", *options, "--json", code=code)
    return json.loads(answer.stdout)


def states(lines: list[dict]) -> list[tuple[str, str]]:
    return [(line["night"], line["status"]) for line in lines]


def test_query_night_bound(put, tmp_path, nights):
    """The night is a parameter; a query without its night is refused."""
    url = put(nights_of(*nights))
    query = tmp_path / "q.sql"
    query.write_text(QUERY)
    database = Database(url, query=query)

    assert database.has_nights()
    first = database.of_night(nights[0])
    assert read_cohort(first, id="patient").n_rows == 40
    assert not exists(database.of_night("2001-01-01"))
    with pytest.raises(UsageError, match="only available when scoring"):
        read_cohort(database, id="patient")


def test_query_night_in_braces(put, tmp_path, nights):
    """{date} in a query, in quotes or not, is the same parameter."""
    url = put(nights_of(*nights))
    digest = {}
    for number, place in enumerate((":night", "{date}", "'{date}'")):
        query = tmp_path / f"{number}.sql"
        query.write_text(QUERY.replace(":night AND", f"{place} AND"))
        database = Database(url, None, query, nights[1])
        digest[place] = digests(database)

    assert digest[":night"] == digest["{date}"] == digest["'{date}'"] != []


def test_run_catches_up_by_query(put, logistic_model, tmp_path, monkeypatch, nights):
    """Missed nights of a database are scored by their dates, once."""
    monkeypatch.chdir(tmp_path)
    url = put(nights_of(nights[0], nights[2]))
    (tmp_path / "q.sql").write_text(QUERY)
    site(tmp_path, logistic_model, url, 'query = "q.sql"')

    first = run()
    again = run()

    assert states(first["series"]) == [(nights[2], "published")]
    # Of the other night the database has no row.
    assert states(first["caught_up"]) == [(nights[0], "published")]
    assert states(again["series"]) == [(nights[2], "unchanged")]
    assert again["caught_up"] == []


def test_run_table_of_date(put, logistic_model, tmp_path, monkeypatch, nights):
    """A database may have a table for each night."""
    monkeypatch.chdir(tmp_path)
    for date in nights[1:]:
        url = put(nights_of(date), f"night_{date}")
    site(tmp_path, logistic_model, url, 'table = "night_{date}"')

    answer = run()

    assert states(answer["series"]) == [(nights[2], "published")]
    assert states(answer["caught_up"]) == [(nights[1], "published")]


def test_run_live_table(logistic_model, tmp_path, monkeypatch, nights):
    """A changed live table is a new delivery; a night that is over is never its."""
    monkeypatch.chdir(tmp_path)
    url = in_sqlite(night_of_patients(40), tmp_path)
    site(tmp_path, logistic_model, url, 'table = "past"')

    published = run()
    unchanged = run()
    said_to(url, "UPDATE past SET crp = 77 WHERE rowid = 1")
    changed = run()
    over = run("--date", nights[1], code=2)

    assert states(published["series"]) == [(nights[2], "published")]
    assert states(unchanged["series"]) == [(nights[2], "unchanged")]
    assert states(changed["series"]) == [(nights[2], "published")]
    assert changed["caught_up"] == []
    (line,) = over["series"]
    assert line["status"] == "failed"
    assert line["exit_code"] == 2
    assert f"the night of {nights[1]} is over" in line["said"]
    assert not (tmp_path / "runs" / "ward-7" / nights[1]).exists()


def test_run_live_table_yesterday_stays(logistic_model, tmp_path, monkeypatch, nights):
    """A night of a live table that was published stays as it is later."""
    monkeypatch.chdir(tmp_path)
    url = in_sqlite(night_of_patients(40), tmp_path)
    site(tmp_path, logistic_model, url, 'table = "past"')
    options = ["--date", nights[1], "--only", "ward-7"]
    run(*options, "--accept-delivery", "the table was not touched since")
    said_to(url, "UPDATE past SET crp = 77 WHERE rowid = 1")

    again = run(*options)

    assert states(again["series"]) == [(nights[1], "unchanged")]


def test_table_and_query_refused(logistic_model, tmp_path, monkeypatch):
    """A series that names both is a fault of the file."""
    monkeypatch.chdir(tmp_path)
    lines = ['table = "past"', 'query = "q.sql"']
    site(tmp_path, logistic_model, "sqlite:///x.db", *lines)

    answer = screen("run", "NIGHT.toml", code=2)

    assert "series.ward-7: table and query exclude each other" in answer.stderr


DIALECTS = {
    "mssql": (mssql.dialect(), "day = :night AND"),
    "oracle": (oracle.dialect(), "day = :night AND"),
}


@pytest.mark.parametrize(("dialect", "words"), DIALECTS.values(), ids=DIALECTS)
def test_night_bound_by_dialect(dialect, words):
    """SQL Server and Oracle get the night as a parameter, and all else unchanged."""
    compiled = bind_night(QUERY, "2026-03-01").compile(dialect=dialect)

    assert str(compiled) == QUERY
    assert words in str(compiled)
    assert compiled.params == {"night": datetime.date(2026, 3, 1)}


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("mssql://reader:secret@host/ward", "mssql+pyodbc", "mssql"),
        ("oracle://reader:secret@host/?service_name=ward", "oracle+oracledb", "oracle"),
    ],
)
def test_driver_of_dialect(url, driver, extra):
    """Each database has its driver, and the words name the extra that installs it."""
    try:
        __import__({"mssql": "pyodbc", "oracle": "oracledb"}[extra])
    except ImportError:
        with pytest.raises(UsageError, match=rf"screening\[{extra}\]"):
            read_cohort(Database(url, table="past"))

    assert read_url(url).drivername == driver
    assert "secret" not in described(read_url(url))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS a DELETE FROM t",
        "SELECT * INTO x FROM t",
        "WITH a AS (SELECT 1 AS b) INSERT INTO t SELECT b FROM a",
        "SELECT 1 AS a; DELETE FROM t",
        "SELECT a FROM t FOR UPDATE",
        "EXEC clean",
        "",
    ],
)
def test_writing_refused(query):
    """Statements that change something are refused for databases without a guard."""
    with pytest.raises(UsageError, match=r"^q\.sql: (write )?a query of mssql"):
        refuse_writing(query, "q.sql", "mssql")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT [delete], \"into\" FROM t WHERE what = 'update; it''s'",
        "WITH a AS (SELECT 1 AS b) SELECT b FROM a -- insert into t",
        "SELECT /* drop; */ updated_at, deleted FROM t",
    ],
)
def test_reading_allowed(query):
    """Texts, names in quotes and comments are no statements."""
    refuse_writing(query, "q.sql", "mssql")


def test_oracle_name_quoted_by_need():
    """Oracle's own names are in capitals: a name in quotes would be another."""
    dialect = oracle.dialect()

    assert dialect.requires_name_normalize
    assert dialect.identifier_preparer.quote("tonight") == "tonight"
    assert dialect.identifier_preparer.quote("night_2026-03-01") == '"night_2026-03-01"'
    assert sa.create_engine("sqlite://").dialect.requires_name_normalize is False
