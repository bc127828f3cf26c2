"""How lines are read: doubled ones, circles of merges, and files of days."""

import datetime
import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_tables import (
    COLUMNS,
    FIRST,
    LAST,
    events_of,
    hospital,
    small_spec,
    spec_of,
    written_events,
)

pytest.importorskip("duckdb")

import duckdb

from screening import Features
from screening.errors import EventsError, UsageError
from screening.features import events
from screening.features.engine import Engine
from screening.features.events import Span, open_session
from screening.features.faults import FaultKind, Faults
from screening.features.reading import read_source
from screening.features.spec import Source

NIGHT = "2024-03-31"
STAY = "p1,s1,2024-03-01T10:00:00,,ADMISSION,,,3B\n"
CREA = "p1,s1,2024-03-02T05:00:00,{known},crea,2.0,,\n"
COUNT = 'n = { codes = "crea", window = "stay", take = "count" }'


def test_doubled_line_is_named(tmp_path):
    """A line that repeats another one counts once and is named by its number."""
    lines = STAY + CREA.format(known="") * 2
    made = Features(small_spec(tmp_path, lines, COUNT)).make_night("2024-03-03")

    assert made.table["n"].to_pylist() == [1]
    assert [fault for fault in made.faults if "repeats" in fault] == [
        "events.csv: the line repeats another one (1 line: 4); counted once"
    ]


def test_doubled_line_by_stated_time(tmp_path):
    """A line known at its time repeats one that does not say since when."""
    lines = STAY + CREA.format(known="") + CREA.format(known="2024-03-02T05:00:00")
    made = Features(small_spec(tmp_path, lines, COUNT)).make_night("2024-03-03")

    assert made.table["n"].to_pylist() == [1]
    assert made.undated == ["n"]
    assert any("(1 line: 4)" in fault for fault in made.faults)


def test_doubled_move_is_named(tmp_path):
    """An admission that is there twice is named too."""
    made = Features(small_spec(tmp_path, STAY * 2, COUNT)).make_night("2024-03-03")

    assert made.table.num_rows == 1
    assert any("repeats another one (1 line: 3)" in fault for fault in made.faults)


def test_circle_of_merges_is_named(tmp_path):
    """Patients merged in a circle are named by the lines that say so, not by ids."""
    lines = "q1,,,,MERGED,,,q2\nq2,,,,MERGED,,,q1\np1,,,,MERGED,,,p2\n"
    made = Features(small_spec(tmp_path, STAY + lines, COUNT)).make_night("2024-03-03")

    (fault,) = [fault for fault in made.faults if "circle" in fault]
    assert fault.startswith("events.csv: ")
    assert "(2 lines: 3, 4)" in fault
    assert not any("'q1'" in sql or "'p2'" in sql for sql in made.statements)


@pytest.fixture(scope="module")
def by_day(tmp_path_factory):
    """Return a folder with events in one file, and the same in a file a day."""
    folder = tmp_path_factory.mktemp("days")
    events = hospital()
    written_events(events, folder / "events.csv")
    is_static = events["code"].isin(["BIRTH", "SEX"])
    (folder / "days").mkdir()
    written_events(events[is_static], folder / "days" / "patients.parquet")
    for day, lines in events[~is_static].groupby(events["time"].dt.date):
        written_events(lines, folder / "days" / f"events-{day}.parquet")
    return folder


def days_of(folder):
    """Write the spec that reads the files of days; return it."""
    spec = spec_of(folder, "days")
    text = spec.read_text().replace('path = "days"', 'path = "days"\nby_day = true')
    spec.write_text(text.replace("[stays]", '[stays]\nlongest = "9d"'))
    return spec


def test_days_give_the_same_rows(by_day):
    """Files of days give the night and the past that one file gives."""
    made = Features(days_of(by_day), threads=1)
    whole = Features(spec_of(by_day), threads=1)
    nights = made.night(NIGHT), whole.night(NIGHT)
    pasts = [
        features.make_past(FIRST, LAST).table.to_pandas()
        for features in (Features(days_of(by_day), 1), Features(spec_of(by_day), 1))
    ]

    assert len(nights[0]) > 10
    pd.testing.assert_frame_equal(*nights)
    pd.testing.assert_frame_equal(*pasts)


def test_days_outside_are_not_opened(by_day, tmp_path):
    """A file of a day that no window reaches is not opened; another one is read."""
    (tmp_path / "days").mkdir()
    for file in (by_day / "days").iterdir():
        (tmp_path / "days" / file.name).write_bytes(file.read_bytes())
    before = Features(days_of(tmp_path)).night(NIGHT)

    for day in ("2024-03-18", "2024-04-02"):
        (tmp_path / "days" / f"events-{day}.parquet").write_bytes(b"not a table")
    after = Features(days_of(tmp_path)).night(NIGHT)
    (tmp_path / "days" / "events-2024-03-30.parquet").write_bytes(b"not a table")

    pd.testing.assert_frame_equal(after, before)
    with pytest.raises(EventsError, match=r"events-2024-03-30\.parquet"):
        Features(days_of(tmp_path)).night(NIGHT)


def test_days_need_the_longest_stay(by_day):
    """Files of days without the longest stay are refused: all would be opened."""
    spec = spec_of(by_day, "days")
    spec.write_text(spec.read_text().replace("[stays]", "by_day = true\n[stays]"))

    with pytest.raises(UsageError, match=r'give \[stays\] longest too, such as "180d"'):
        Features(spec)


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("2024-03-10/a.parquet", True),
        ("day=2024-03-09/a.parquet", True),
        ("a_2024-03-08.parquet", False),
        ("2024-03-13.parquet", False),
        ("patients.parquet", True),
        ("2024-99-99.parquet", True),
    ],
)
def test_day_in_path(tmp_path, name, is_read):
    """The last date of a path is its day; the days beside it are read for zones."""
    for file in (name, "always.parquet"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    source = Source(format="long", path=str(tmp_path), by_day=True)
    since, until = datetime.datetime(2024, 3, 10, 6), datetime.datetime(2024, 3, 11, 6)

    files = source.files((".parquet",), Span(since, until))

    assert (str(tmp_path / name) in files) == is_read


def test_stay_longer_than_the_longest(tmp_path):
    """A stay that lasts longer than the spec says is not a row."""
    more = '[stays]\nlongest = "{}"\n'
    spec = small_spec(tmp_path, STAY, COUNT, more.format("3d"))
    assert len(Features(spec).night("2024-03-04")) == 1
    assert len(Features(spec).night("2024-03-05")) == 0


def test_engine_has_limits():
    """Memory is bounded, and what does not fit lies in a folder that is deleted."""
    with open_session(1) as session:
        query = "SELECT current_setting(?)"
        folder, memory = (
            session.connection.execute(query, [name]).fetchall()[0][0]
            for name in ("temp_directory", "memory_limit")
        )
        assert "screening-features-" in folder
        assert float(memory.split()[0]) <= 2.8
    assert not Path(folder).exists()


@pytest.mark.parametrize("name", ["days/2024-03-20.csv", "days/day=2024-03-20/a.csv"])
def test_line_of_another_day_than_its_file(tmp_path, name):
    """A line in a file of an earlier day is named: later nights would not read it."""
    (tmp_path / name).parent.mkdir(parents=True)
    late = "p1,s1,2024-03-20T05:00:00,2024-03-24T05:00:00,crea,1,,\n"
    wrong = "p1,s1,2024-03-24T05:00:00,,crea,1,,\np1,,1950-01-01,,BIRTH,,,\n"
    header = ",".join(COLUMNS)
    stay = STAY.replace("2024-03-01", "2024-03-20")
    (tmp_path / name).write_text(f"{header}\n{stay}{late}{wrong}")
    spec = small_spec(tmp_path, "", COUNT, '[stays]\nlongest = "9d"\n')
    source = 'path = "days/**/*.csv"\nby_day = true'
    spec.write_text(spec.read_text().replace('path = "events.csv"', source))

    faults = Features(spec).make_night("2024-03-25").faults

    assert faults == [
        f"{name.removeprefix('days/')}: the line's day is not the day in the file's path "
        "(2 lines: 4, 5); nights that do not need the path's day skip the line; "
        "correct the path"
    ]


def test_row_groups_outside_the_span_are_not_read(tmp_path):
    """Of a Parquet file sorted by time, what is not within the span is not read."""
    path = tmp_path / "events.parquet"
    lines = hospital().sort_values("time", ignore_index=True)
    lines.to_parquet(path, index=False, row_group_size=200)
    groups = pq.ParquetFile(path).metadata
    last = groups.row_group(groups.num_row_groups - 1)
    values = last.column(groups.schema.names.index("value"))
    ends = values.dictionary_page_offset + values.total_compressed_size
    damaged = bytearray(path.read_bytes())
    damaged[ends - 60 : ends] = b"\xff" * 60
    path.write_bytes(damaged)
    span = Span(datetime.datetime(2024, 3, 25), datetime.datetime(2024, 3, 28))

    with open_session(1) as session:
        source = Source(format="long", path=str(path), zone="Europe/Berlin")
        read_source(source, "lines", session, Faults(), span)
        query = "SELECT count(value), min(time), max(time) FROM lines({})"
        within = session.connection.execute(query.format(span.sql)).fetchone()
        with pytest.raises(duckdb.Error):
            session.connection.execute(query.format("NULL, NULL")).fetchone()

    assert within[0] > 100
    # Times in a file may be in another zone than the span.
    assert within[1] >= span.since - datetime.timedelta(days=1)
    assert within[2] <= span.until + datetime.timedelta(days=1)


def test_more_than_fits_into_memory_is_spilled(tmp_path, monkeypatch):
    """A past that does not fit into memory is made by files, and is the same."""
    lines = hospital()
    several = [
        lines.assign(**(lines[["subject", "stay"]] + f"-{number}"))
        for number in range(20)
    ]
    written_events(pd.concat(several), tmp_path / "events.parquet")
    spec = spec_of(tmp_path, "events.parquet", row="every")
    whole = Features(spec, threads=1).past(FIRST, LAST)
    spilled = []
    run = Engine.run

    def watched(self, sql, **values):
        answer = run(self, sql, **values)
        files = "SELECT coalesce(sum(size), 0) FROM duckdb_temporary_files()"
        spilled.extend(self.session.connection.cursor().execute(files).fetchone())
        return answer

    monkeypatch.setattr(events, "MEMORY_BYTES", 40 << 20)
    monkeypatch.setattr(Engine, "run", watched)
    small = Features(spec, threads=1).past(FIRST, LAST)

    assert max(spilled) > 0
    pd.testing.assert_frame_equal(small, whole)


@pytest.mark.parametrize(
    ("written", "is_counted"),
    [
        ("2024-03-03 04:30:00 UTC", True),
        ("2024-03-03 05:30:00 UTC", False),
        ("2024-03-03 05:30:00 Europe/Berlin", True),
        ("2024-03-03T05:30:00-0330", False),
        ("2024-03-03 05:30:00 PM", False),
    ],
)
def test_time_with_zone(tmp_path, written, is_counted):
    """A zone's name counts as its offset does, and a time in halves of the day is no
    time.
    """
    spec = small_spec(tmp_path, f"{STAY}p1,s1,{written},,crea,1,,\n", COUNT)

    made = Features(spec).make_night("2024-03-03")

    assert made.table["n"].to_pylist() == [is_counted]
    assert len(made.faults) == written.endswith("PM")


@pytest.mark.parametrize(
    ("zone", "local", "first"),
    [
        ("Europe/Berlin", "2024-10-27T02:30:00", "2024-10-27T00:30:00"),
        ("Australia/Lord_Howe", "2024-04-07T01:45:00", "2024-04-06T14:45:00"),
        ("Antarctica/Troll", "2024-10-27T01:30:00", "2024-10-26T23:30:00"),
    ],
)
def test_local_time_that_exists_twice(tmp_path, zone, local, first):
    """Of a time that exists twice the first counts, by half an hour or two too."""
    path = tmp_path / "events.csv"
    path.write_text(f"subject,time,code\np1,{local},crea\n")
    source = Source(format="long", path=str(path), zone=zone)

    events, faults = events_of(source)

    assert [row[2] for row in events] == [datetime.datetime.fromisoformat(first)]
    assert faults == [(FaultKind.TWICE_TIME, "events.csv", [2])]


@pytest.mark.parametrize("written", ["infinity", "-infinity"])
def test_infinity_is_no_time(tmp_path, written):
    """What the engine casts to a time after or before all others is none."""
    path = tmp_path / "events.csv"
    path.write_text(f"subject,time,code\np1,{written},crea\n")

    events, faults = events_of(Source(format="long", path=str(path)))

    assert events == []
    assert faults == [(FaultKind.NO_TIME, "events.csv", [2])]


def test_files_of_a_folder(tmp_path):
    """Endings may be in capitals and compressed; hidden files are left out."""
    header = ",".join(COLUMNS)
    lines = f"{header}\n{STAY}{CREA.format(known='')}"
    folder = tmp_path / "events"
    (folder / ".ipynb_checkpoints").mkdir(parents=True)
    (folder / ".ipynb_checkpoints" / "a.csv").write_text(lines)
    (folder / "._a.csv").write_bytes(b"\0\5\x16\7")
    (folder / "A[1].CSV").write_text(lines)
    with gzip.open(folder / "b.tsv.gz", "wt") as file:
        file.write("subject\ttime\tcode\np1\t2024-03-02T09:00:00\tcrea\n")
    spec = small_spec(tmp_path, "", COUNT)
    spec.write_text(spec.read_text().replace("events.csv", "events"))

    made = Features(spec).make_night("2024-03-03")

    assert made.table["n"].to_pylist() == [2]
    assert made.faults == []


@pytest.mark.parametrize("missing", [pa.nulls(2), pa.nulls(2, pa.float64())])
def test_parquet_of_any_columns(tmp_path, missing):
    """A column without a value may have any type, and another one any name."""
    lines = {
        "subject": ["p1", "p1"],
        "time": [datetime.datetime(2024, 3, 2, hour) for hour in (1, 2)],
        "code": ["ADMISSION", "crea"],
        "known_since": missing,
        "filename": ["x", "y"],
        "line": [7, 7],
    }
    pq.write_table(pa.table(lines), tmp_path / "events.parquet")
    spec = small_spec(tmp_path, "", COUNT)
    spec.write_text(spec.read_text().replace("events.csv", "events.parquet"))

    made = Features(spec).make_night("2024-03-03")

    assert made.table["n"].to_pylist() == [1]
    assert made.undated == ["n"]


@pytest.mark.parametrize("zeros", [("0", "-0"), ("-0", "0")])
def test_zeros_are_one(tmp_path, zeros):
    """0 and -0 are one result, which is 0 whatever comes first."""
    line = "p1,s1,2024-03-02T05:00:00,,crea,{},,\n"
    feature = 'crea = { codes = "crea", window = "stay", take = "min" }'
    spec = small_spec(tmp_path, STAY + "".join(map(line.format, zeros)), feature)

    assert str(Features(spec).night("2024-03-03")["crea"].item()) == "0.0"


def test_too_large_for_a_number_is_missing(tmp_path):
    """What is greater than any number is missing; a window may be longer than time."""
    lines = "".join(
        f"p1,s1,2024-03-02T0{hour}:00:00,,$last,{value},,\n"
        for hour, value in enumerate(("1e308", "-1.7e308", "1.7e308", "1.7e308"))
    )
    features = "\n".join(
        f'{take} = {{ codes = "$last", window = "999999999999h", take = "{take}" }}'
        for take in ("max", "sum", "mean", "slope")
    )

    night = Features(small_spec(tmp_path, STAY + lines, features)).night("2024-03-03")

    assert night["max"].item() == 1.7e308
    assert night[["sum", "mean", "slope"]].isna().all(axis=None)


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfcode\ncrea\n", b'"Code";"Name"\n"crea";"a, b"\n', b"cr*\r\n"],
)
def test_value_set_of_any_form(tmp_path, content):
    """A value set may have a byte-order mark, semicolons, and beginnings of codes."""
    (tmp_path / "codes.csv").write_bytes(content)
    feature = 'n = { value_set = "codes.csv", window = "stay", take = "count" }'
    spec = small_spec(tmp_path, STAY + CREA.format(known=""), feature)

    assert Features(spec).night("2024-03-03")["n"].item() == 1
