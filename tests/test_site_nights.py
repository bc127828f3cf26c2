"""What a site's nights show together is entered, told by status, and acknowledged."""

import datetime

from ledger_nights import enter, of_ward

from screening.ledger.database import open_ledger
from screening.ledger.entries import ALL_SERIES, SiteNight
from screening.ledger.history import history
from screening.ledger.site_entries import (
    enter_site_night,
    last_site_night,
    recent_site_nights,
)
from screening.ledger.site_nights import counted_nights
from screening.ledger.status import Due, acknowledge, series_statuses
from screening.monitoring.column_drift import Measure
from screening.schemas.base import Reason

NOW = datetime.datetime(2026, 1, 9, 9, tzinfo=datetime.UTC)
DUE = Due(NOW, night=NOW.date())
UNTIL = datetime.date(2026, 2, 1)


def drift(figure: float) -> Reason:
    return Reason("column_drifts", "crp: reads higher.", "crp", figure)


def site_night(day: int, *reasons: Reason, seconds: float = 1.0, **by_series):
    return SiteNight(
        night=f"2026-01-0{day}",
        exit_code=0,
        seconds=seconds,
        failed=[],
        attention=reasons,
        by_series=by_series,
    )


def ledger_of(place):
    return open_ledger(place, make=True, clock=lambda: "2026-01-09T04:00:00+00:00")


def test_site_night_acknowledged(place):
    """Site night is a line of status until acknowledged and comes back grown."""
    with ledger_of(place) as ledger:
        enter(ledger, of_ward("ward-1", 9, "ab"))
        enter_site_night(ledger, site_night(9, drift(0.3)))
        ward, site = series_statuses(ledger, DUE)
        assert ward.attention == (())
        assert site.attention == ((drift(0.3),))

        acknowledge(ledger, ALL_SERIES, "column_drifts", UNTIL, "another analyser")
        _, acknowledged = series_statuses(ledger, DUE)
        assert acknowledged.attention == ()
        assert "acknowledged until 2026-02-01: crp" in acknowledged.said

        enter_site_night(ledger, site_night(9, drift(0.5)))
        _, grown = series_statuses(ledger, DUE)
        assert grown.attention == (drift(0.5),)
        assert history(ledger, verify=True)["audit"]["verified"]


def test_site_night_of_one_series_is_on_its_line(place):
    with ledger_of(place) as ledger:
        enter(ledger, of_ward("ward-1", 9, "ab"))
        by_series = {"ward-1": [drift(0.4)]}
        enter_site_night(ledger, site_night(9, **by_series))
        (ward,) = series_statuses(ledger, DUE)
    assert ward.attention == (drift(0.4),)


def test_site_night_of_the_same_facts_is_entered_once(place):
    with ledger_of(place) as ledger:
        enter(ledger, of_ward("ward-1", 9, "ab"))
        before = history(ledger)["audit"]["entries"]
        enter_site_night(ledger, site_night(9, seconds=1.0))
        enter_site_night(ledger, site_night(9, seconds=2.0))
        assert history(ledger)["audit"]["entries"] == before + 1


def test_recent_site_nights_are_in_order_of_nights_and_not_of_entry(place):
    with ledger_of(place) as ledger:
        for day in (9, 7, 8):
            enter_site_night(ledger, site_night(day))
        with ledger.reading() as connection:
            recent = recent_site_nights(connection, "2026-01-09", 2)
            last = last_site_night(connection)
    assert [night.night for night in recent] == ["2026-01-07", "2026-01-08"]
    assert last.night == "2026-01-09"


def test_nights_without_counts_are_compared_by_their_flags(place):
    """A model may have no scores of training to compare with, nor count columns."""
    with ledger_of(place) as ledger:
        for day in (8, 9):
            enter(ledger, of_ward("ward-1", day, "ab"))
        counted = counted_nights(ledger, "2026-01-09", ["ward-1", "ward-2"])

    recent = counted["ward-1"].recent
    assert counted.keys() == {"ward-1"}
    assert recent.nights == ["2026-01-08", "2026-01-09"]
    assert recent.counts.keys() == {Measure("flags")}
    assert recent.counts[Measure("flags")].tolist() == [[8, 2], [8, 2]]
