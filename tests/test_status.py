"""Status says of each series whether its night came, by the night's date, and names the silent one."""

from __future__ import annotations

import datetime
import re
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import enter, night
from test_series import of_ward

from screening.ledger import Due, Pulse, open_ledger, publish_night, pulses, record_night
from screening.ledger.status import FIGURES, exposition

UTC = datetime.UTC


def at(day: int, hour: int = 6) -> datetime.datetime:
    return datetime.datetime(2026, 1, day, hour, tzinfo=UTC)


def recording(*times: datetime.datetime):
    """A clock that gives these times, the last one for ever."""
    ticks = chain((time.isoformat() for time in times), repeat(times[-1].isoformat()))
    return lambda: next(ticks)


def fine(ledger, due: Due, *names: str) -> dict[str | None, bool]:
    return {each.series: each.fine for each in pulses(ledger, due, names)}


@pytest.mark.parametrize(("hours", "fine_then"), [(25, True), (27, False)])
def test_a_night_is_as_old_as_its_first_publication(place, hours, fine_then):
    began = at(1, 3)
    with open_ledger(
        place, make=True, clock=recording(began, began + datetime.timedelta(hours=20))
    ) as ledger:
        enter(ledger, of_ward("ward-1", 1, "ab"))
        enter(ledger, of_ward("ward-1", 1, "ab"), force=True)
        (found,) = pulses(ledger, Due(began + datetime.timedelta(hours=hours)))

    assert found.fine is fine_then
    assert found.said.startswith(f"night 2026-01-01, {hours:.1f} h ago: 2 of 10 flagged")


def test_the_silent_ward_is_named_and_the_others_are_fine(place):
    with open_ledger(place, make=True, clock=recording(at(1), at(1), at(2))) as ledger:
        for day, ward in ((1, "ward-1"), (1, "ward-2"), (2, "ward-2")):
            enter(ledger, of_ward(ward, day, "a"))
        expected = {"ward-1": False, "ward-2": True}

        assert fine(ledger, Due(at(2, 9))) == expected
        assert fine(ledger, Due(at(2, 9), night=at(2).date())) == expected
        assert fine(ledger, Due(at(2, 9), night=at(2).date()), "ward-2") == {"ward-2": True}
        assert fine(ledger, Due(at(2, 9)), "ward-2", "ward-9") == {"ward-2": True, "ward-9": False}


@pytest.mark.parametrize("wrong", ["2025-01-05", "2026-01-02", "2036-01-05", "2027-01-05"])
def test_neither_a_back_fill_nor_a_wrong_year_makes_a_silent_series_fine(place, wrong):
    with open_ledger(place, make=True, clock=recording(at(3), at(5))) as ledger:
        enter(ledger, of_ward("ward-1", 3, "a"))
        other = of_ward("ward-1", 4, "b")
        enter(ledger, type(other)(**vars(other) | {"night": wrong}))

        assert fine(ledger, Due(at(5, 9))) == {"ward-1": False}
        assert fine(ledger, Due(at(5, 9), night=at(5).date())) == {"ward-1": False}


def test_within_its_grace_a_night_may_still_come(place):
    with open_ledger(place, make=True, clock=recording(at(1))) as ledger:
        enter(ledger, of_ward("ward-1", 1, "a"))
        due = {"night": at(2).date(), "grace": datetime.timedelta(hours=7)}
        (early,), (late,) = (pulses(ledger, Due(at(2, hour), **due)) for hour in (6, 8))

    assert early.fine and "is due by 2026-01-02 07:00" in early.said
    assert not late.fine and "the night of 2026-01-02 has not come" in late.said


def test_a_shadow_does_not_speak_for_its_series(place):
    with open_ledger(place, make=True, clock=recording(at(1), at(2))) as ledger:
        enter(ledger, of_ward("ward-1", 1, "a"))
        enter(ledger, of_ward("ward-1", 2, "a", "n", shadow=True))
        enter(ledger, of_ward("ward-2", 2, "a", "n", shadow=True))

        assert fine(ledger, Due(at(2, 9), night=at(2).date())) == {"ward-1": False}


def test_a_run_that_was_killed_before_its_page_appeared_is_no_pulse(place):
    with open_ledger(place, make=True, clock=recording(at(1), at(2))) as ledger:
        enter(ledger, night(1, "ab"))
        lost = night(2, "ab")
        found = record_night(ledger, lost)
        (before,) = pulses(ledger, Due(at(2, 7)))
        publish_night(ledger, lost.key, found.revision)
        (after,) = pulses(ledger, Due(at(2, 7)))

    assert not before.fine and "a run of 2026-01-02 was recorded since" in before.said
    assert after.fine


def test_a_clock_that_went_back_is_said(place):
    with open_ledger(place, make=True, clock=recording(at(2, 20))) as ledger:
        enter(ledger, night(2, "ab"))
        (found,) = pulses(ledger, Due(at(2, 7)))

    assert not found.fine and "is the clock right?" in found.said


def test_an_empty_ledger_is_not_fine(place):
    with open_ledger(place, make=True) as ledger:
        assert fine(ledger, Due(at(1))) == {None: False}
    assert "screening_ledger_readable 0\n" in exposition([Pulse(False, "no ledger")])


LINE = re.compile(r'[a-z_]+(\{series="([^"\\\n]|\\\\|\\"|\\n)*"\})? -?[0-9.e+-]+')


@given(st.lists(st.text(min_size=1, max_size=12), max_size=3), st.booleans())
def test_every_line_of_the_metrics_is_one_that_prometheus_reads(names, came):
    known = {"night": "2026-01-01", "came": at(1).isoformat(), "counts": {"scored": 10, "flagged": 2}}
    text = exposition([Pulse(came, "said", name, **(known if came else {})) for name in names])
    lines = text.removesuffix("\n").split("\n")

    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    assert sum(line.startswith("screening_fine{") for line in lines) == len(names)
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} <= {
        "screening_ledger_readable", *(name for name, _, _ in FIGURES),
    }  # fmt: skip
