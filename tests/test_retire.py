"""A ward that closed is waited for no longer; its nights stay, and a later one takes it back."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import pytest
from commands import screen
from test_ledger import enter
from test_series import of_ward

from screening.documents.shape import plain
from screening.documents.stored import history_in
from screening.errors import UsageError
from screening.ledger import Due, compare_nights, history, open_ledger, promote, pulses, retire
from screening.ledger.status import exposition
from screening.page.history import render_history

NOW = datetime.datetime(2026, 1, 9, 9, tzinfo=datetime.UTC)
DUE = Due(NOW, night=NOW.date())


@pytest.fixture
def ledger(place):
    """Two wards; only the second has the night that is asked for."""
    with open_ledger(place, make=True, clock=lambda: "2026-01-09T04:00:00+00:00") as opened:
        for ward, day in (("ward-1", 3), ("ward-1", 4), ("ward-2", 9)):
            enter(opened, of_ward(ward, day, "ab"))
        yield opened


def fine(ledger, *names: str) -> dict[str | None, bool]:
    return {each.series: each.fine for each in pulses(ledger, DUE, names)}


def test_status_waits_for_a_closed_ward_no_longer_and_history_keeps_it(ledger):
    before = history(ledger, "ward-1")
    assert fine(ledger) == {"ward-1": False, "ward-2": True}
    head = retire(ledger, "ward-1", "moved to the new building")
    after = history(ledger, "ward-1", verify=True)

    assert fine(ledger) == {"ward-2": True}
    assert [after[name] for name in ("runs", "series")] == [before[name] for name in ("runs", "series")]
    assert after["retirements"] == [
        {
            "series": "ward-1", "reason": "moved to the new building", "last": "2026-01-04",
            "entry": head.number, "recorded": "2026-01-09T04:00:00+00:00",
        }
    ]  # fmt: skip
    assert history(ledger, "ward-2")["retirements"] == []


def test_asked_for_by_name_it_says_since_when_and_why(ledger):
    retire(ledger, "ward-1", "moved")
    (found,) = pulses(ledger, DUE, ["ward-1"])

    assert found.fine
    assert found.said == "retired on 2026-01-09, last night 2026-01-04: moved"


def test_a_later_night_takes_it_back_and_a_back_fill_does_not(ledger):
    retire(ledger, "ward-1", "moved")
    enter(ledger, of_ward("ward-1", 2, "a"))
    enter(ledger, of_ward("ward-1", 8, "a", "n", shadow=True))
    assert fine(ledger) == {"ward-2": True}
    enter(ledger, of_ward("ward-1", 8, "a"))
    assert fine(ledger) == {"ward-1": False, "ward-2": True}
    retire(ledger, "ward-1", "moved again")

    assert fine(ledger) == {"ward-2": True}
    assert [each["last"] for each in history(ledger, verify=True)["retirements"]] == [
        "2026-01-04",
        "2026-01-08",
    ]


def test_where_every_ward_is_closed_the_ledger_is_fine_and_readable(ledger):
    for ward in ("ward-1", "ward-2"):
        retire(ledger, ward, "closed")
    (found,) = pulses(ledger, DUE)

    assert (found.fine, found.said) == (True, "every series is retired")
    assert "screening_ledger_readable 1" in exposition([found])


def test_it_wants_a_reason_and_a_series_and_is_done_once(ledger):
    with pytest.raises(UsageError, match="--reason"):
        retire(ledger, "ward-1", " ")
    with pytest.raises(UsageError, match="no series 'ward-3'"):
        retire(ledger, "ward-3", "closed")
    retire(ledger, "ward-1", "closed")
    with pytest.raises(UsageError, match="closed already"):
        retire(ledger, "ward-1", "closed")

    assert len(history(ledger)["retirements"]) == 1


def test_the_command_closes_and_status_exits_0(tmp_path):
    with open_ledger(tmp_path / "l.db", make=True) as ledger:
        enter(ledger, of_ward("ward-1", 4, "a"))
        today = datetime.date.today().isoformat()
        enter(ledger, replace(of_ward("ward-2", 1, "a"), night=today))
    where = ["--ledger", tmp_path / "l.db"]
    screen("status", "--night", "today", *where, code=5)
    told = json.loads(screen("retire", "ward-1", "--reason", "closed", *where, "--json").stdout)
    screen("status", "--night", "today", *where)

    assert told["retired"] == "ward-1"


def test_the_page_shows_a_promotion_on_its_charts_and_among_the_changes(tmp_path):
    with open_ledger(tmp_path / "l.db", make=True, clock=lambda: "2026-01-01T04:00:00+00:00") as ledger:
        for day in (1, 2, 3):
            enter(ledger, of_ward("ward-1", day, "ab"))
            enter(ledger, of_ward("ward-1", day, "abc", "n", shadow=True))
        evidence = plain(compare_nights(ledger, "ward-1", "n" * 64))
        promote(ledger, "ward-1", "n" * 64, "finds <c>", evidence)
        for day in (4, 5):
            enter(ledger, of_ward("ward-1", day, "abc", "n"))
        retire(ledger, "ward-1", "the ward has closed")
        told = history(ledger)
    page = render_history(told)
    began = [phase.began for phase in history_in(told).series[0].control[0].phases]

    assert began == ["first night", "model promoted"]
    # Once on each chart of the nights, and in words beside the control chart.
    assert page.count("model promoted") >= page.count("<svg")
    assert "mmmmmmmmmmmm → nnnnnnnnnnnn" in page
    assert "finds &lt;c&gt;" in page and "the ward has closed" in page
