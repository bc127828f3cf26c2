"""The clock of a site: zones, the hour of a night, how far a table reaches."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.clock.conversion import (
    instants_of,
    local_times,
    next_instants_of,
    text_of,
)
from screening.clock.night import hour_of_night
from screening.clock.reach import reach_of_events, reach_of_table
from screening.clock.zone import Clock, check_hour, check_zone, host_clock
from screening.errors import CohortError, UsageError

BERLIN = Clock("Europe/Berlin")
NAMES = ("Europe/Berlin", "Europe/Dublin", "America/New_York", "Asia/Kolkata", "UTC")


def at(text):
    return np.datetime64(text, "us")


@given(
    st.sampled_from(NAMES),
    st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2035, 1, 1)),
)
def test_local_time_of_an_instant_is_that_of_the_standard_library(name, time):
    """Instants become what `datetime` shows in the zone, and come back."""
    clock = Clock(name)
    utc = np.array([time], "datetime64[us]")
    shown = time.replace(tzinfo=datetime.UTC).astimezone(clock.zone)

    local = local_times(utc, clock)
    back = instants_of(local, clock)

    assert local[0] == np.datetime64(shown.replace(tzinfo=None), "us")
    assert not back.is_lost[0]
    earlier = back.utc[0] < utc[0]
    assert back.utc[0] == utc[0] or (back.is_twice[0] and earlier)


@given(
    st.sampled_from(NAMES),
    st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2035, 1, 1)),
)
def test_one_time_and_an_array_of_times_have_the_same_instants(name, time):
    """A verdict's time is read as a table's is."""
    clock = Clock(name)

    one = clock.instant(time)
    many = instants_of(np.array([time], "datetime64[us]"), clock)

    assert (one is None) == many.is_lost[0]
    of_one = "NaT" if one is None else one.replace(tzinfo=None)
    np.testing.assert_array_equal(many.utc, np.array([of_one], "datetime64[us]"))


def test_hour_that_exists_twice_is_the_first_and_is_named():
    """At the end of summer time an hour exists twice; the first one is taken."""
    times = np.array([at("2025-10-26T02:30"), at("2025-10-26T04:30"), at("NaT")])

    instants = instants_of(times, BERLIN)

    assert instants.utc[0] == at("2025-10-26T00:30")
    assert instants.is_twice.tolist() == [True, False, False]
    assert instants.is_lost.tolist() == [False, False, False]


def test_hour_that_does_not_exist_is_named():
    """At the beginning of summer time an hour does not exist."""
    instants = instants_of(np.array([at("2025-03-30T02:30")]), BERLIN)

    assert np.isnat(instants.utc[0])
    assert instants.is_lost[0]
    forward = next_instants_of(np.array([at("2025-03-30T02:30")]), BERLIN)
    assert forward[0] == at("2025-03-30T01:00")


def test_text_of_an_instant_has_its_offset():
    """An instant is written as the zone's clock shows it, with the offset."""
    assert text_of(at("2026-03-01T23:30"), BERLIN) == "2026-03-02T00:30+01:00"
    assert text_of(at("2026-07-01T23:30:05"), BERLIN) == "2026-07-02T01:30:05+02:00"
    assert text_of(at("NaT"), BERLIN) == ""


def test_zone_that_is_not_known_is_refused():
    """A wrong name is refused with an example."""
    for name in ("Berlin", "CET-1CEST,M3.5.0", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="write a zone such as Europe/Berlin"):
            check_zone(name)


def test_clock_of_the_host_follows_its_variable(monkeypatch):
    """TZ names the zone of a host; without a name `time_zone` is asked for."""
    monkeypatch.setenv("TZ", ":America/New_York")
    assert host_clock() == Clock("America/New_York", is_of_host=True)
    assert "of this host" in host_clock().description()
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    monkeypatch.setattr("time.timezone", -3600)
    with pytest.raises(UsageError, match="`time_zone`"):
        host_clock()


def test_hour_of_a_night_is_the_stated_one():
    """A stated hour counts before the file's time, in the zone of the clock."""
    written = datetime.datetime(2025, 5, 10, 3, 50, 20, tzinfo=datetime.UTC)

    stated = hour_of_night("2025-05-10", BERLIN, "06:00", (), written)
    of_file = hour_of_night("2025-05-10", BERLIN, None, (), written)
    of_column = hour_of_night(
        "2025-05-10", BERLIN, "taken", (at("2025-05-10T02:00"), at("NaT")), written
    )
    later = hour_of_night("2025-05-09", BERLIN, None, (), written)
    unknown = hour_of_night("2025-05-10", BERLIN, None, (), None)

    assert (stated.at, stated.taken_from) == (at("2025-05-10T04:00"), "hour")
    assert (of_file.at, of_file.taken_from) == (at("2025-05-10T03:50"), "file")
    assert (of_column.at, of_column.taken_from) == (at("2025-05-10T02:00"), "column")
    assert (later.at, later.taken_from) == (at("2025-05-08T22:00"), "midnight")
    assert (unknown.at, unknown.taken_from) == (at("2025-05-09T22:00"), "midnight")


def test_column_of_the_hour_is_of_the_night():
    """A column without a time, or with one of another day, is refused by its name."""
    for times in ((), (at("2025-06-10T02:00"),), (at("2025-05-01T02:00"),)):
        with pytest.raises(CohortError, match="column 'taken'"):
            hour_of_night("2025-05-10", BERLIN, "taken", times, None)
    for hour in ("25:00", "6", "06:60"):
        with pytest.raises(ValueError, match="is not an hour of the day"):
            check_hour(hour)


def daily(first, n_days, per_day=1):
    """Return the instants of events at a steady rate."""
    step = np.timedelta64(24 * 3600 // per_day, "s")
    return at(first) + step * np.arange(n_days * per_day)


def test_export_that_ended_early_reaches_its_last_event():
    """Events of every day that stop long before `as_of` end the table there."""
    events = daily("2025-05-01T12:00", 41, per_day=2)

    reach = reach_of_events(
        events, at("2025-05-01"), at("2025-07-23"), at("2025-07-20")
    )

    assert reach.until == events[-1]
    assert "39 days earlier" in reach.reason


@pytest.mark.parametrize(("days", "ends"), [(2, False), (3, True)])
def test_gap_that_ends_a_table_has_a_chance_below_a_hundredth(days, ends):
    """With two events a day exp(-r g) passes .01 between two and three days."""
    events = daily("2025-05-01", 30, per_day=2)
    as_of = events[-1] + days * np.timedelta64(1, "D")

    reach = reach_of_events(events, at("2025-05-01"), at("2025-07-01"), as_of)

    assert (reach.until == events[-1]) == ends
    assert (reach.until == as_of) != ends


def test_nobody_is_expected_after_the_last_window():
    """After the last window nobody is scored, and few events tell no rate."""
    events = daily("2025-05-01", 30)
    later = at("2026-01-01")

    after_nights = reach_of_events(events, at("2025-05-01"), at("2025-05-31"), later)
    of_few = reach_of_events(events[:4], at("2025-05-01"), at("2025-05-31"), later)

    assert after_nights.until == later
    assert of_few.until == later


def test_empty_table_closes_nothing():
    """A table without lines leaves outcomes complete up to where they were before."""
    as_of = at("2025-06-01")
    whole = reach_of_events(np.array([], "datetime64[us]"), as_of, as_of, as_of)

    empty = reach_of_table(0, whole, None, None, as_of)
    after_another = reach_of_table(0, whole, None, at("2025-05-01"), as_of)
    stated = reach_of_table(3, whole, at("2025-05-20"), None, as_of)

    assert np.isnat(empty.until)
    assert after_another.until == at("2025-05-01")
    assert "no line" in after_another.reason
    assert stated.until == at("2025-05-20")
    assert reach_of_table(3, whole, None, None, as_of).until == as_of
