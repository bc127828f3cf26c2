"""Nothing after the hour is read; bytes do not depend on threads, order or files."""

import importlib
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from features_reference import reference_night
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screening import Features

pytest.importorskip("duckdb")

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NIGHT = "2023-02-10"
HOUR = pd.Timestamp("2023-02-10 05:00")
SPEC = """hour = "06:00"
zone = "Europe/Berlin"
[[source]]
format = "long"
path = "*.parquet"
zone = "UTC"
[features]
age = "age"
sex = "sex"
ward = "ward"
days_in = "days_in_hospital"
last = { codes = "A/*", window = "48h", take = "last" }
first = { codes = "A/*", window = "stay", take = "first" }
mean = { codes = "A/*", window = "48h", take = "mean" }
slope = { codes = "A/*", window = "stay", take = "slope" }
change = { codes = "A/*", window = "48h", take = "change" }
count = { codes = ["A/1", "B/1"], window = "24h", take = "count" }
any = { codes = "B/1", window = "stay", take = "any" }
since = { codes = "B/1", window = "30d", take = "hours_since" }
least = { codes = "A/1", window = "48h", take = "min", unit = "mmol/L" }
greatest = { codes = "A/2", window = "48h", take = "max" }
sum = { codes = "A/2", window = "48h", take = "sum" }
"""


@pytest.fixture(scope="module")
def made():
    """Return the module that makes a hospital."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("made_hospital_events")


@pytest.fixture(scope="module")
def events(made):
    """Return a hospital's events, with codes that the spec has."""
    events = made.make_events(patients=60, years=0.25, seed=5, rate=0.4)
    codes = {"LOINC/2823-3": "A/1", "LOINC/8867-4": "A/2", "RxNorm/4603": "B/1"}
    return events.replace({"code": codes})


def bytes_of(folder, *frames, threads=1, night=NIGHT):
    """Return the night of events that lie in one file each."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for number, frame in enumerate(frames):
        frame.to_parquet(folder / f"{number}.parquet", index=False)
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    table = Features(folder / "spec.toml", threads=threads).make_night(night).table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    assert table.num_rows > 0
    return sink.getvalue().to_pybytes()


def is_later(events):
    """Return True for lines that nobody can know at the hour."""
    return (events["time"] > HOUR) | (events["known_since"] > HOUR)


def test_later_lines_change_nothing(events, tmp_path):
    """Deleted, altered, multiplied or shuffled, what comes after the hour changes no
    byte: results known later of before the hour, discharges and merges among them.
    """
    later = events[is_later(events)]
    before = events[~is_later(events)]
    shuffled = later.sample(frac=1, random_state=1)
    altered = shuffled.assign(
        value=-1e9, text="entered-in-error", unit="g", stay=later["stay"].to_numpy()
    )
    kept = bytes_of(tmp_path, before)

    assert len(later[later["time"] <= HOUR]) > 3
    assert set(later["code"]) >= {"DISCHARGE", "ADMISSION", "TRANSFER"}
    assert bytes_of(tmp_path, events) == kept
    assert bytes_of(tmp_path, before, altered) == kept
    assert bytes_of(tmp_path, altered, before, shuffled) == kept


def test_earlier_lines_change_something(events, tmp_path):
    """The last line before the hour counts: without it the bytes differ."""
    before = events[~is_later(events)]
    of_feature = before[before["code"].isin(["A/1", "A/2"])]
    bytes_without = bytes_of(tmp_path, before.drop(of_feature.index[-8:]))

    assert bytes_without != bytes_of(tmp_path, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_order_and_cuts(events, tmp_path, threads):
    """Threads, the order of lines and the cuts of files change no byte."""
    shuffled = events.sample(frac=1, random_state=threads)
    parts = [shuffled.iloc[start::7] for start in range(7)]

    assert bytes_of(tmp_path, *parts, threads=threads) == bytes_of(tmp_path, events)


def hours(first, last):
    return st.integers(first, last).map(
        lambda hour: HOUR + pd.Timedelta(hours=hour, minutes=30 * (hour % 2))
    )


def lines_of(code, texts=(None,), values=(None,), units=(None,)):
    """Return lines of two patients about the hour."""
    return st.fixed_dictionaries(
        {
            "subject": st.sampled_from(["1", "2"]),
            "stay": st.sampled_from(["s1", "s2"]),
            "time": hours(-60, 12),
            "known_since": st.none() | hours(-60, 12),
            "code": st.sampled_from(code),
            "value": st.sampled_from(values),
            "unit": st.sampled_from(units),
            "text": st.sampled_from(texts),
        }
    )


LINES = st.lists(
    lines_of(["ADMISSION", "TRANSFER"], ["ICU", "3B", None])
    | lines_of(["DISCHARGE"], ["home", "entered-in-error"])
    | lines_of(["BIRTH", "SEX"], ["female"])
    | lines_of(
        ["A/1", "A/2", "B/1"],
        [None, None, None, "entered-in-error"],
        [1.5, 0.1, 0.2, 7.25, None],
        ["mmol/L", "umol/L", None],
    ),
    max_size=14,
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lines=LINES)
def test_any_small_hospital_equals_reference(made, tmp_path_factory, lines):
    """Of any few lines, with versions, withdrawals and gaps, the night is that of the
    reference.
    """
    folder = tmp_path_factory.mktemp("small")
    admitted = {
        "subject": "1",
        "stay": "s0",
        "time": HOUR - pd.Timedelta(hours=40),
        "code": "ADMISSION",
    }
    for line in lines:
        line["stay"] = f"{line['stay']}-{line['subject']}"
    events = made.sorted_events(pd.DataFrame([admitted, *lines]))
    events.to_parquet(folder / "0.parquet", index=False)
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")

    table = Features(folder / "spec.toml", threads=1).night(NIGHT)

    expected = reference_night(events, folder / "spec.toml", NIGHT)
    pd.testing.assert_frame_equal(
        table.astype(object).where(table.notna(), None),
        expected.astype(object).where(expected.notna(), None),
        check_exact=True,
    )
