"""One row a stay from events: what is known at the hour, and nothing else."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from commands import LOGISTIC, screen
from event_tables import (
    FIRST,
    LAST,
    altered_after,
    hospital,
    small_spec,
    spec_of,
    written_events,
)

from screening import Features, read_cohort
from screening.contract.contract import Contract
from screening.errors import EventsError, UsageError

NIGHT = "2024-03-31"
# The hour of that night: 06:00 in summer time, which began four hours before.
HOUR = "2024-03-31T04:00:00Z"
STAY = """p1,s1,2024-03-01T10:00:00,,ADMISSION,,,3B
p1,,1950-05-01,,BIRTH,,,
p1,,,,SEX,,,F
p1,s1,2024-03-05T10:00:00,,DISCHARGE,,,home
"""


@pytest.fixture(scope="module")
def events():
    return hospital()


def night_of(events, folder, name="events.csv", threads=1):
    """Make the night's table of events; its bytes."""
    written_events(events, folder / name)
    made = Features(spec_of(folder, name), threads=threads).make_night(NIGHT)
    path = folder / "night.parquet"
    pq.write_table(made.table, path)
    return path.read_bytes()


def row_of(folder, lines, features, night="2024-03-03", more=""):
    """Return the only row of a night."""
    (row,) = (
        Features(small_spec(folder, STAY + lines, features, more))
        .night(night)
        .to_dict("records")
    )
    return row


def test_night_by_hand(tmp_path):
    """Every way of taking a value gives what is computed by hand."""
    lines = """p1,s1,2024-03-01T12:00:00,2024-03-01T13:00:00,crea,1.0,mg/dL,
p1,s1,2024-03-02T05:00:00,2024-03-02T05:30:00,crea,2.0,mg/dL,
p1,s1,2024-03-02T05:10:00,2024-03-02T08:30:00,crea,265.26,umol/L,
p1,s1,2024-03-03T06:00:00,,crea,5,mg/dL,
p1,s1,2024-03-03T06:00:01,,crea,9,mg/dL,
p1,s1,2024-03-03T05:59:00,2024-03-03T06:01:00,crea,9,mg/dL,
"""
    takes = "last first min max mean sum count any hours_since slope change".split()
    features = "\n".join(
        f'creatinine_{take} = {{ codes = "crea", window = "stay", take = "{take}", '
        'unit = "mg/dL" }'
        for take in takes
    )
    features += '\nday = { codes = "crea", window = "24h", take = "count" }\n'
    features += 'age = "age"\nsex = "sex"\nward = "ward"\ndays = "days_in_hospital"'

    row = row_of(tmp_path, lines, features)

    hours = np.array([-42, -25, -24 - 5 / 6, 0])
    assert row["id"] == "s1"
    assert row["group"] == "p1"
    assert row["time"] == pd.Timestamp("2024-03-03T05:00:00Z")
    taken = [row[f"creatinine_{take}"] for take in takes]
    slope = np.polyfit(hours, [1, 2, 3, 5], 1)[0]
    np.testing.assert_allclose(
        [float(value) for value in taken],
        [5, 1, 1, 5, 2.75, 11, 4, 1, 0, slope, 3],
        rtol=1e-12,
    )
    assert row["day"] == 1
    assert (row["age"], row["sex"], row["ward"]) == (73, "F", "3B")
    assert row["days"] == 44 / 24


def test_correction_known_later(tmp_path):
    """Of a corrected result the version known at the hour counts; withdrawn, none."""
    lines = """p1,s1,2024-03-02T05:00:00,2024-03-02T05:30:00,crea,2.0,,
p1,s1,2024-03-02T05:00:00,2024-03-03T09:00:00,crea,7.0,,
p1,s1,2024-03-02T05:00:00,2024-03-04T09:00:00,crea,,,entered-in-error
"""
    features = 'crea = { codes = "crea", window = "stay", take = "last" }'
    made = Features(small_spec(tmp_path, STAY + lines, features))

    values = [made.night(f"2024-03-0{day}")["crea"].item() for day in (3, 4, 5)]

    assert values[:2] == [2.0, 7.0]
    assert np.isnan(values[2])


def test_doubled_result_counts_once(tmp_path):
    """A line given twice is one result; two different ones of one version are two."""
    line = "p1,s1,2024-03-02T05:00:00,2024-03-02T05:30:00,crea,2.0,,\n"
    other = "p1,s1,2024-03-02T05:00:00,2024-03-02T05:30:00,crea,3.0,,\n"
    features = 'n = { codes = "crea", window = "stay", take = "count" }'

    assert row_of(tmp_path, line + line, features)["n"] == 1
    assert row_of(tmp_path, line + line + other, features)["n"] == 2


def test_unit_without_conversion_is_missing(tmp_path):
    """A value in a unit that cannot be converted, or in none, is missing."""
    lines = "p1,s1,2024-03-02T05:00:00,,crea,2.0,furlong,\n"
    features = """a = { codes = "crea", window = "stay", take = "last", unit = "mg/dL" }
b = { codes = "crea", window = "stay", take = "last" }"""

    row = row_of(tmp_path, lines, features)

    assert np.isnan(row["a"])
    assert row["b"] == 2.0


@pytest.mark.parametrize(
    ("stays", "reason"),
    [
        ('wards = ["ICU"]', "ward"),
        ('age = "80.."', "age"),
        ('age = "..70"', "age"),
        ('hours_in = "44.5h"', "hours in"),
    ],
)
def test_stay_not_in(tmp_path, stays, reason):
    """A stay that the spec leaves out is counted by its reason."""
    spec = small_spec(tmp_path, STAY, 'age = "age"', f"[stays]\n{stays}\n")

    made = Features(spec).make_night("2024-03-03")

    assert made.table.num_rows == 0
    assert made.rows == {reason: 1}


def test_merged_patient_is_the_survivor(tmp_path):
    """From when a merge is known both numbers are one patient, and not before."""
    lines = """p0,s0,2024-02-01T10:00:00,,ADMISSION,,,3B
p0,s0,2024-02-03T10:00:00,,DISCHARGE,,,home
p0,s0,2024-02-02T10:00:00,,crea,4,,
p1,,2024-03-03T12:00:00,,MERGED,,,p0
"""
    features = 'crea = { codes = "crea", window = "60d", take = "last" }'
    made = Features(small_spec(tmp_path, STAY + lines, features))

    before, after = made.night("2024-03-03"), made.night("2024-03-04")

    assert before["group"].item() == "p1"
    assert np.isnan(before["crea"].item())
    assert after["group"].item() == "p0"
    assert after["crea"].item() == 4


def test_merge_of_a_survivor_and_its_withdrawal(tmp_path):
    """A patient is the last survivor of a chain, and again itself once that is said."""
    lines = """p1,,2024-03-02T12:00:00,,MERGED,,,p2
p2,,2024-03-03T12:00:00,,MERGED,,,p3
p1,,2024-03-04T12:00:00,,MERGED,,,entered-in-error
"""
    made = Features(small_spec(tmp_path, STAY + lines, 'age = "age"'))

    groups = [made.night(f"2024-03-0{day}")["group"].item() for day in (2, 3, 4, 5)]

    assert groups == ["p1", "p2", "p3", "p1"]


def test_merge_chain_and_circle(tmp_path):
    """Chains of merges are followed; a circle is counted, and merges nobody."""
    lines = """p1,,,,MERGED,,,p2
p2,,,,MERGED,,,p3
q1,,,,MERGED,,,q2
q2,,,,MERGED,,,q1
"""
    made = Features(small_spec(tmp_path, STAY + lines, 'age = "age"'))

    night = made.make_night("2024-03-03")

    assert night.table["group"].to_pylist() == ["p3"]
    assert any("merged in a circle (2 " in fault for fault in night.faults)


def test_stay_without_id(tmp_path):
    """Admissions without the id of a stay are stays, each until the next one."""
    lines = """p9,,2024-03-02T10:00:00Z,,ADMISSION,,,3B
p9,,2024-03-03T10:00:00Z,,TRANSFER,,,ICU
p9,,2024-03-04T10:00:00Z,,ADMISSION,,,5A
"""
    made = Features(small_spec(tmp_path, lines, 'ward = "ward"'))

    wards = [made.night(f"2024-03-0{day}") for day in (3, 4, 5)]

    assert [table["ward"].item() for table in wards] == ["3B", "ICU", "5A"]
    ids = [table["id"].item() for table in wards]
    assert ids == ["p9@2024-03-02T10:00:00"] * 2 + ["p9@2024-03-04T10:00:00"]


def test_lines_that_are_wrong_are_named(tmp_path):
    """Each kind of fault is named by file and line, and no value is shown."""
    lines = """p1,s1,2024-03-31T02:30:00,,crea,1,,
p1,s1,2024-10-27T02:30:00,,crea,1,,
p1,s1,yesterday,,crea,1,,
,s1,2024-03-02T05:00:00,,crea,1,,
p1,s1,2024-03-02T05:00:00,,,1,,
p1,s1,2024-03-02T05:00:00,,crea,<77,,
p1,s1,2024-03-02T05:00:00,,crea,secret,,
p7,s7,2024-03-02T05:00:00,,ADMISSION,,,
p7,s7,2024-03-01T05:00:00,,DISCHARGE,,,
"""
    made = Features(small_spec(tmp_path, STAY + lines, 'age = "age"'))

    faults = made.make_night("2024-10-28").faults

    told = "\n".join(faults)
    places = [
        ("does not exist", 6),
        ("exists twice", 7),
        ("is not a time", 8),
        ("subject is missing", 9),
        ("code is missing", 10),
        ("comparator", 11),
        ("not a number", 12),
        ("before the beginning", 14),
    ]
    for words, line in places:
        (fault,) = [fault for fault in faults if words in fault and "1 line:" in fault]
        assert fault.startswith("events.csv: ")
        assert f"(1 line: {line})" in fault
    assert "77)" not in told
    assert "secret" not in told


@pytest.mark.parametrize(
    "written", ["<1", "< 1", ">= 1.5", "<1 mg/L", "<1mg/L", "~1 %"]
)
def test_comparator_takes_the_place_of_the_version_before(written, tmp_path):
    """A result that was corrected to less than a limit is missing, not the old one.

    Its line is named as one with a comparator, also where a unit follows.
    """
    lines = f"""p1,s1,2024-03-02T05:00:00,2024-03-02T05:00:00,crea,2.0,,
p1,s1,2024-03-02T05:00:00,2024-03-03T05:00:00,crea,{written},,
"""
    features = 'last = { codes = "crea", window = "stay", take = "last" }'
    made = Features(small_spec(tmp_path, STAY + lines, features))

    before, after = [made.night(f"2024-03-0{day}")["last"].item() for day in (2, 3)]

    assert before == 2.0
    assert math.isnan(after)
    (fault,) = made.make_night("2024-03-03").faults
    assert "comparator" in fault


def test_day_without_time_is_known_when_it_is_over(tmp_path):
    """A result with a date alone is not seen on that day's morning."""
    lines = "p1,s1,2024-03-03,,crea,2.0,,\n"
    features = 'n = { codes = "crea", window = "48h", take = "count" }'
    made = Features(small_spec(tmp_path, STAY + lines, features))

    counts = [made.night(f"2024-03-0{day}")["n"].item() for day in (3, 4)]

    assert counts == [0, 1]


def test_ragged_file_is_refused(tmp_path):
    """A file that is no table ends the run by its name, without its words."""
    spec = small_spec(tmp_path, STAY + 'p1,"s1,secret', 'age = "age"')

    with pytest.raises(EventsError, match=r"events\.csv") as refused:
        Features(spec).night("2024-03-03")

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('hour = "06:00"', 'hour = "6"', "hour: write an hour of the day"),
        ("Europe/Berlin", "Europe/Berln", "zone: 'Europe/Berln' is not a time zone"),
        ('take = "last"', 'take = "lst"', "features.a.take"),
        ('window = "48h"', 'window = "48"', "features.a.window: write hours or days"),
        ("codes", "code", "did you mean 'codes'"),
        ('"age"', '"ag"', "features.age: Input should be 'age', 'sex'"),
        ("events.csv", "none.csv", "no file has a name"),
        ("age =", "row =", "features.row: this name is already used"),
    ],
)
def test_spec_with_faults(tmp_path, old, new, words):
    """A fault of the spec is named by its key."""
    features = 'a = { codes = "x", window = "48h", take = "last" }\nage = "age"'
    spec = small_spec(tmp_path, STAY, features)
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace(old, new), encoding="utf-8")

    with pytest.raises(UsageError) as refused:
        Features(spec).night("2024-03-03")

    assert words in str(refused.value)


def test_night_knows_nothing_after_its_hour(tmp_path, events):
    """Shuffled, altered and deleted after the hour, the events give the same bytes."""
    night = night_of(events, tmp_path)

    for seed in range(3):
        assert night_of(altered_after(events, HOUR, seed), tmp_path) == night


def test_night_same_bytes_by_threads_and_files(tmp_path, events):
    """Threads, the order of files and their format do not change a byte."""
    night = night_of(events, tmp_path)
    for number, part in enumerate(np.array_split(np.arange(len(events)), 3)):
        folder = tmp_path / "parts" / str(3 - number)
        folder.mkdir(parents=True)
        written_events(events.iloc[part], folder / "part.parquet")
    spec = spec_of(tmp_path, "parts")

    made = [Features(spec, threads=n).make_night(NIGHT).table for n in (1, 2, 4)]

    for table in made:
        pq.write_table(table, tmp_path / "night.parquet")
        assert (tmp_path / "night.parquet").read_bytes() == night


def test_past_has_the_rows_of_its_nights(tmp_path, events):
    """A row of the past is the row that its night had, by what was known then."""
    written_events(events, tmp_path / "events.csv")
    features = Features(spec_of(tmp_path, row="every"), threads=1)
    past = features.past(FIRST, LAST)
    at_hour = past[past["time"] == pd.Timestamp(HOUR)].drop(columns="label")
    is_known = events["time"].le(pd.Timestamp(HOUR)) & events["known_since"].le(
        pd.Timestamp(HOUR)
    )
    written_events(events[is_known], tmp_path / "events.csv")

    night = features.night(NIGHT)

    rows = night[night["id"].isin(at_hour["id"])].reset_index(drop=True)
    assert len(rows) > 10
    pd.testing.assert_frame_equal(rows, at_hour.reset_index(drop=True))


@pytest.mark.parametrize("row", ["first", "drawn"])
def test_past_one_row_a_stay(tmp_path, events, row):
    """Of each stay there is one night at most, and every row has a label."""
    written_events(events, tmp_path / "events.csv")

    made = Features(spec_of(tmp_path, row=row), threads=1).make_past(FIRST, LAST)

    ids = made.table["id"].to_pylist()
    assert len(set(ids)) == len(ids) == made.rows["case"] + made.rows["none"]
    assert set(made.table["label"].to_pylist()) == {0, 1}


def test_past_outcome_by_hand(tmp_path):
    """An outcome in the window is a case; one before takes the stay out; a stay that
    ended before its window did is censored."""
    lines = (
        STAY
        + """p2,s2,2024-03-01T10:00:00,,ADMISSION,,,3B
p2,s2,2024-03-03T05:00:00,,sepsis,,,
p3,s3,2024-03-01T10:00:00,,ADMISSION,,,3B
p3,s3,2024-03-01T11:00:00,2024-03-08T11:00:00,sepsis,,,
p4,s4,2024-03-01T10:00:00,,ADMISSION,,,3B
p4,s4,2024-03-02T10:00:00,,DISCHARGE,,,
p5,s5,2024-03-01T10:00:00,,ADMISSION,,,3B
p5,s5,2024-03-01T11:00:00,,sepsis,,,
p6,s6,2024-03-20T10:00:00,,ADMISSION,,,3B
"""
    )
    outcome = '[outcome]\ncodes = "sepsis"\nwithin = "48h"\n'
    features = Features(small_spec(tmp_path, lines, 'ward = "ward"', outcome))

    made = features.make_past("2024-03-02", "2024-03-02")

    labels = zip(
        made.table["id"].to_pylist(), made.table["label"].to_pylist(), strict=True
    )
    assert dict(labels) == {"s1": 0, "s2": 1}
    counts = {"in": 4, "not at risk": 1, "case": 1, "none": 1, "past": 1, "censored": 1}
    assert made.rows == counts


@pytest.mark.parametrize(
    ("outcome", "cases"),
    [
        ("death = true", {"s2"}),
        ('ward = "ICU"', {"s3"}),
        ('codes = "lac"\nabove = 2.0\nunit = "mmol/L"\nquantity = "lactate"', {"s4"}),
        ('codes = "lac"\nbelow = 2.0', {"s5"}),
    ],
)
def test_past_kinds_of_outcome(tmp_path, outcome, cases):
    """Death, a transfer and a limit of a value, in its unit, are outcomes."""
    lines = "".join(
        f"p{n},s{n},2024-03-01T10:00:00,,ADMISSION,,,3B\n" for n in range(1, 6)
    )
    lines += """p2,,2024-03-03T05:00:00,,DEATH,,,
p3,s3,2024-03-03T05:00:00,,TRANSFER,,,ICU
p4,s4,2024-03-03T05:00:00,,lac,36,mg/dL,
p5,s5,2024-03-03T05:00:00,,lac,1.5,mmol/L,
p1,s1,2024-03-09T05:00:00,,TRANSFER,,,5A
"""
    table = f'[outcome]\nwithin = "48h"\ncomplete = "2024-03-09"\n{outcome}\n'
    features = Features(small_spec(tmp_path, lines, 'ward = "ward"', table))

    past = features.past("2024-03-02", "2024-03-02")

    assert set(past["id"][past["label"] == 1]) == cases


def test_outcomes_table_by_hand(tmp_path):
    """The table for `screen outcomes` has a line an outcome, and one without any."""
    lines = STAY + "p1,s1,2024-03-03T05:00:00,,sepsis,,,\n"
    lines += "p2,s2,2024-03-01T10:00:00,,ADMISSION,,,3B\n"
    outcome = '[outcome]\ncodes = "sepsis"\nwithin = "48h"\n'
    features = Features(small_spec(tmp_path, lines, 'ward = "ward"', outcome))

    table = features.make_outcomes("2024-03-02", "2024-03-02").table.to_pandas()

    assert table["id"].to_list() == ["s1", "s2"]
    assert table["time"].iloc[0] == pd.Timestamp("2024-03-03T04:00:00Z")
    assert table["until"].iloc[0] == pd.Timestamp("2024-03-05T09:00:00Z")
    assert table[["time", "until"]].iloc[1].isna().all()
    assert set(table["as_of"]) == {pd.Timestamp("2024-03-05T09:00:00Z")}


def test_train_needs_nothing_but_the_past(tmp_path, events):
    """The contract is written beside the past, and training finds it."""
    written_events(events, tmp_path / "events.csv")
    spec = spec_of(tmp_path, row="every")
    past = tmp_path / "past.parquet"
    place = ("--past", f"{FIRST}..{LAST}", "--out", past, "--jobs", "1", "--json")
    screen("features", spec, *place)

    trained = screen("train", past, *LOGISTIC, "--out", tmp_path / "model")

    assert "the contract is past.contract.toml" in trained.stderr
    contract = Contract.load(tmp_path / "past.contract.toml")
    assert read_cohort(past).contract.group == "group"
    assert contract.outcome.within == 48
    # Every event says since when it was known, so that nothing is left to ask.
    available = {feature.available for feature in contract.features.values()}
    assert available == {"before"}


def test_past_without_known_since_says_so(tmp_path):
    """A feature of events that do not say since when they were known is named."""
    lines = STAY + "p1,s1,2024-03-02T05:00:00,,crea,2.0,,\n"
    features = 'crea = { codes = "crea", window = "stay", take = "last" }\nage = "age"'
    spec = small_spec(tmp_path, lines, features)

    made = Features(spec).make_past("2024-03-03", "2024-03-04")

    assert list(made.undated) == ["crea"]


def test_approval_asks_about_undated_features(tmp_path, events):
    """Features without known_since are asked for, also those that do not carry the
    ranking; others, of which it is certain that they were known, are not.
    """
    is_crp = events["code"].eq("LAB/crp")
    undated = events.assign(known_since=events["known_since"].mask(is_crp))
    written_events(undated, tmp_path / "events.csv")
    past = tmp_path / "past.parquet"
    spec = spec_of(tmp_path, row="every")
    screen("features", spec, "--past", f"{FIRST}..{LAST}", "--out", past)
    screen("train", past, *LOGISTIC, "--out", tmp_path / "model")

    refused = screen("approve", tmp_path / "model", "--by", "A. B.", code=2)

    declared = Contract.load(tmp_path / "past.contract.toml").features
    undated = {name for name, one in declared.items() if one.available == "unknown"}
    assert undated == {
        *(f"crp_{take}" for take in ("mean", "sum", "slope", "min", "max")),
        "lab_count",
    }
    assert "state whether these columns are known at the hour" in refused.stderr
    assert all(name in refused.stderr for name in undated)
    screen(
        "approve",
        tmp_path / "model",
        *("--by", "A. B.", "--reason", "a test"),
        *("--known-before", ",".join(undated)),
    )
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "values that were not known then" in page


def test_sql_is_printed(tmp_path):
    """--sql prints statements that name the features."""
    features = 'crea = { codes = "crea", window = "stay", take = "last" }'
    spec = small_spec(tmp_path, STAY, features)

    result = screen("features", spec, "--night", "2024-03-03", "--sql")

    assert "QUALIFY e.known = max(e.known) OVER" in result.stdout
    assert 'AS "crea"' in result.stdout


def test_page_of_what_was_made(tmp_path, events):
    """The page has coverage, units that cannot be used, delays and codes not met."""
    odd = events["code"].eq("LAB/crea") & events["unit"].eq("umol/L")
    events = events.assign(unit=events["unit"].mask(odd, "furlong"))
    written_events(events, tmp_path / "events.csv")
    spec = spec_of(tmp_path)
    text = spec.read_text(encoding="utf-8").replace('"DRUG/b"', '"DRUG/none"')
    spec.write_text(text, encoding="utf-8")
    places = ("--out", tmp_path / "past.parquet", "--page", tmp_path / "past.html")

    screen("features", spec, "--past", f"{FIRST}..{LAST}", *places)

    page = (tmp_path / "past.html").read_text(encoding="utf-8")
    assert "antibiotic: no event has the code DRUG/none" in page
    assert "cannot be converted: missing" in page
    assert "3B 2024-03" in page
    assert "How late results are known" in page
    ids = pq.read_table(tmp_path / "past.parquet")["id"].to_pylist()
    assert not any(name in page for name in ids)


@pytest.mark.parametrize("kind", ["long", "meds"])
def test_suggested_spec_makes_a_night(tmp_path, events, kind):
    """Codes come by how many stays have them; the first spec works as it stands."""
    columns = {
        "subject": "subject_id",
        "stay": "hadm_id",
        "value": "numeric_value",
        "text": "text_value",
    }
    renamed = events.rename(columns=columns if kind == "meds" else {})
    path = written_events(renamed, tmp_path / "events.parquet")

    answer = json.loads(screen("features", path, "--suggest", "--json").stdout)

    codes = [code["code"] for code in answer["codes"]]
    assert set(codes[:2]) == {"LAB/crea", "LAB/crp"}
    assert f'format = "{kind}"' in answer["spec"]
    (tmp_path / "spec.toml").write_text(answer["spec"], encoding="utf-8")
    night = Features(tmp_path / "spec.toml").night(NIGHT)
    assert night["lab_crp"].notna().any()


def test_meds_float32_is_the_decimal_that_was_written(tmp_path):
    """A MEDS value is the number that was written, and a prefix says the rest."""
    lines = [
        ("MEDS_BIRTH", "1990-01-01T00:00:00Z", None),
        ("GENDER//F", "1990-01-01T00:00:00Z", None),
        ("HOSPITAL_ADMISSION//3B", "2024-03-01T10:00:00Z", None),
        ("LAB//crea", "2024-03-02T01:00:00Z", 1.23),
    ]
    frame = pd.DataFrame(lines, columns=["code", "time", "numeric_value"])
    frame["numeric_value"] = frame["numeric_value"].astype("float32")
    frame["time"] = pd.to_datetime(frame["time"]).astype("datetime64[us, UTC]")
    (tmp_path / "data" / "train").mkdir(parents=True)
    frame.assign(subject_id=7).to_parquet(tmp_path / "data" / "train" / "0.parquet")
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'hour = "06:00"\nzone = "UTC"\n[[source]]\nformat = "meds"\npath = "."\n'
        'codes = { ADMISSION = "HOSPITAL_ADMISSION//*" }\n[features]\n'
        'crea = { codes = "LAB//crea", window = "24h", take = "last" }\n'
        'sex = "sex"\nward = "ward"\n',
        encoding="utf-8",
    )

    (row,) = Features(spec).night("2024-03-02").to_dict("records")

    assert row["crea"] == 1.23
    assert (row["group"], row["sex"], row["ward"]) == ("7", "F", "3B")


@pytest.mark.parametrize(
    "words",
    [
        ("--night", "2024-03-03"),
        ("--night", "yesterday", "--out", "x.parquet"),
        ("--night", "0001-01-01", "--out", "x.parquet"),
        ("--past", "2024-03-03", "--out", "x.parquet"),
        ("--past", "2024-03-03..2024-03-01", "--out", "x.parquet"),
        ("--out", "x.parquet"),
        ("--night", "2024-03-03", "--out", "x.csv"),
        ("--outcomes", "2024-03-03..2024-03-04", "--out", "x.parquet"),
    ],
)
def test_command_makes_no_sense(tmp_path, monkeypatch, words):
    """Wrong options are refused, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    spec = small_spec(tmp_path, STAY, 'age = "age"')

    screen("features", spec, *words, code=2)

    assert {path.name for path in tmp_path.iterdir()} == {"events.csv", "spec.toml"}
