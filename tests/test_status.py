"""Status says of each series whether its night came, names the silent one, and waits
for no closed ward.
"""

import datetime
import re
from dataclasses import replace
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_nights import enter, of_ward

from screening.errors import UsageError
from screening.ledger.database import open_ledger
from screening.ledger.history import compare_nights, history
from screening.ledger.model_registry import promote, retire
from screening.ledger.status import (
    SERIES_METRICS,
    Due,
    acknowledge,
    exposition,
    give_up,
    series_statuses,
)
from screening.report.history import render_history
from screening.schemas.base import Reason
from screening.schemas.history import HistoryDocument, SeriesStatus


def at(day: int, hour: int = 6) -> datetime.datetime:
    return datetime.datetime(2026, 1, day, hour, tzinfo=datetime.UTC)


def recording(*times: datetime.datetime):
    """A clock that gives these times, the last one for ever."""
    texts = [time.isoformat() for time in times]
    ticks = chain(texts, repeat(texts[-1]))
    return lambda: next(ticks)


def fine(ledger, due: Due, *names: str) -> dict[str | None, bool]:
    statuses = series_statuses(ledger, due, names)
    return {each.series: each.fine for each in statuses}


@pytest.mark.parametrize(
    ("hours", "fine_then"),
    [
        (25, True),
        (27, False),
    ],
)
def test_a_night_is_as_old_as_its_first_publication(place, hours, fine_then):
    clock = recording(at(1, 3), at(1, 23))
    with open_ledger(place, make=True, clock=clock) as ledger:
        for force in (False, True):
            enter(ledger, of_ward("ward-1", 1, "ab"), force=force)
        later = at(1, 3) + datetime.timedelta(hours=hours)
        (pulse,) = series_statuses(ledger, Due(later))
    assert pulse.fine is fine_then
    assert pulse.said.startswith(
        f"night 2026-01-01, published {hours:.1f} h ago: 2 of 10 flagged"
    )


def test_status_silent_ward(place):
    """The ward without a night is named; the others are fine."""
    clock = recording(at(1), at(1), at(2))
    with open_ledger(place, make=True, clock=clock) as ledger:
        # An empty ledger is not fine.
        empty = fine(ledger, Due(at(1)))
        assert empty == {None: False}
        for day, ward in ((1, "ward-1"), (1, "ward-2"), (2, "ward-2")):
            enter(ledger, of_ward(ward, day, "a"))
        by_age = Due(at(2, 9))
        by_night = Due(at(2, 9), night=at(2).date())
        for due in (by_age, by_night):
            assert fine(ledger, due) == {"ward-1": False, "ward-2": True}
        assert fine(ledger, by_night, "ward-2") == {"ward-2": True}
        assert fine(ledger, by_age, "ward-2", "ward-9") == {
            "ward-2": True,
            "ward-9": False,
        }
    assert "screening_ledger_readable 0\n" in exposition(
        [SeriesStatus(False, "no ledger")]
    )


BACK_FILL = {"night": "2026-01-02"}
WRONG_YEAR = {"night": "2036-01-05"}
NEXT_NIGHT = {"night": at(2).date()}
GRACE = {"grace": datetime.timedelta(hours=7)}
SHADOW = {"shadow": True}
# When each night was entered, and which; then what is due when, whether that is fine,
# and what is said.
PULSES = {
    "a back-fill": (
        [(3, 3, "m", {}), (5, 4, "m", BACK_FILL)],
        at(5, 9),
        {},
        False,
        "no night since",
    ),
    "a wrong year": (
        [(3, 3, "m", {}), (5, 4, "m", WRONG_YEAR)],
        at(5, 9),
        {},
        False,
        "no night since",
    ),
    "a past month": (
        [(20, 1, "m", {})],
        at(20, 9),
        {},
        False,
        "the last night was scored late; tonight's is missing",
    ),
    "a shadow": (
        [(1, 1, "m", {}), (2, 2, "n", SHADOW)],
        at(2, 9),
        NEXT_NIGHT,
        False,
        "not published",
    ),
    "within its grace": (
        [(1, 1, "m", {})],
        at(2, 6),
        NEXT_NIGHT | GRACE,
        True,
        "is due by 2026-01-02 07:00",
    ),
    "after its grace": (
        [(1, 1, "m", {})],
        at(2, 8),
        NEXT_NIGHT | GRACE,
        False,
        "02 is not published",
    ),
    "a clock that went back": (
        [(3, 2, "m", {})],
        at(2, 7),
        {},
        False,
        "check the clock",
    ),
}


@pytest.mark.parametrize(
    ("entered", "now", "due", "expected", "words"), PULSES.values(), ids=PULSES
)
def test_whether_a_night_came_and_what_is_said_of_it(
    place, entered, now, due, expected, words
):
    clock = recording(*(at(day) for day, *_ in entered))
    with open_ledger(place, make=True, clock=clock) as ledger:
        for _, day, model, figures in entered:
            enter(ledger, of_ward("ward-1", day, "a", model, **figures))
        (pulse,) = series_statuses(ledger, Due(now, **due))
    assert pulse.fine is expected
    assert words in pulse.said


LINE = re.compile(r'[a-z_]+(\{series="([^"\\\n]|\\\\|\\"|\\n)*"\})? -?[0-9.e+-]+')


@given(st.lists(st.text(min_size=1, max_size=12), max_size=3), st.booleans())
def test_metrics_format(names, came):
    """Every line of the metrics is in the format of Prometheus."""
    known = {
        "night": "2026-01-01",
        "came": at(1).isoformat(),
        "counts": {"scored": 10, "flagged": 2},
    }
    statuses = []
    for name in names:
        figures = known if came else {}
        statuses.append(SeriesStatus(came, "said", name, **figures))
    text = exposition(statuses)
    lines = text.removesuffix("\n").split("\n")
    types = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        assert line.startswith("# ") or LINE.fullmatch(line)
    gauges = [line for line in lines if line.startswith("screening_fine{")]
    assert len(gauges) == len(names)
    assert types <= {"screening_ledger_readable", *SERIES_METRICS}


DUE = Due(at(9, 9), night=at(9).date())


@pytest.fixture
def ledger(place):
    """Two wards; only the second has the night that is asked for."""
    with open_ledger(
        place, make=True, clock=lambda: "2026-01-09T04:00:00+00:00"
    ) as opened:
        for ward, day in (("ward-1", 3), ("ward-1", 4), ("ward-2", 9)):
            enter(opened, of_ward(ward, day, "ab"))
        yield opened


def test_status_closed_ward(ledger):
    """Nobody waits for a closed ward; its history stays."""
    before = history(ledger, "ward-1")
    assert fine(ledger, DUE) == {"ward-1": False, "ward-2": True}
    head = retire(ledger, "ward-1", "moved to the new building")
    # As after a command that was killed before it answered.
    assert retire(ledger, "ward-1", "moved to the new building") == head
    after = history(ledger, "ward-1", verify=True)
    (by_name,) = series_statuses(ledger, DUE, ["ward-1"])

    assert fine(ledger, DUE) == {"ward-2": True}
    assert [after[name] for name in ("runs", "series")] == [
        before[name] for name in ("runs", "series")
    ]
    facts = {
        "series": "ward-1",
        "reason": "moved to the new building",
        "last": "2026-01-04",
    }
    recorded = {"entry": head.number, "recorded": "2026-01-09T04:00:00+00:00"}
    assert after["retirements"] == [facts | recorded]
    assert history(ledger, "ward-2")["retirements"] == []
    assert by_name.fine
    assert (
        by_name.said
        == "retired on 2026-01-09, last night 2026-01-04: moved to the new building"
    )


def test_retired_later_night(ledger):
    """Where every ward is closed the ledger is fine and readable."""
    retire(ledger, "ward-1", "moved")
    enter(ledger, of_ward("ward-1", 2, "a", "m"))
    enter(ledger, of_ward("ward-1", 8, "a", "n", shadow=True))
    assert fine(ledger, DUE) == {"ward-2": True}
    enter(ledger, of_ward("ward-1", 8, "a"))
    assert fine(ledger, DUE) == {"ward-1": False, "ward-2": True}
    for ward in ("ward-1", "ward-2"):
        retire(ledger, ward, "closed")
    (pulse,) = series_statuses(ledger, DUE)
    assert pulse.fine is True
    assert pulse.said == "every series is retired"
    assert "screening_ledger_readable 1" in exposition([pulse])
    for series, reason, told in (
        ("ward-1", " ", "`reason`"),
        ("ward-3", "closed", "no series 'ward-3'"),
        ("ward-2", "again", "already"),
    ):
        with pytest.raises(UsageError, match=told):
            retire(ledger, series, reason)
    retirements = history(ledger, verify=True)["retirements"]
    assert [retirement["last"] for retirement in retirements] == [
        "2026-01-04",
        "2026-01-08",
        "2026-01-09",
    ]


def test_page_of_promotion(tmp_path):
    """The page shows a promotion on its charts and among the changes."""
    with open_ledger(
        tmp_path / "l.db", make=True, clock=lambda: "2026-01-01T04:00:00+00:00"
    ) as ledger:
        for day in (1, 2, 3):
            enter(ledger, of_ward("ward-1", day, "ab"))
            enter(ledger, of_ward("ward-1", day, "abc", "n", shadow=True))
        evidence = compare_nights(ledger, "ward-1", "n" * 64).to_dict()
        promote(ledger, "ward-1", "n" * 64, "finds <c>", evidence)
        for day in (4, 5):
            enter(ledger, of_ward("ward-1", day, "abc", "n"))
        retire(ledger, "ward-1", "the ward has closed")
        told = history(ledger)
    page = render_history(told)
    (series,) = HistoryDocument.from_dict(told).series
    began = [phase.began for phase in series.control[0].phases]

    assert began == ["first night", "model promoted"]
    # Once on each chart of the nights, and in words beside the control chart.
    assert page.count("model promoted") >= page.count("<svg")
    assert "mmmmmmmmmmmm → nnnnnnnnnnnn" in page
    assert "finds &lt;c&gt;" in page
    assert "the ward has closed" in page


def test_status_never_came(place):
    """A series of the site's file without any night is missing until given up."""
    with open_ledger(place, make=True, clock=recording(at(9))) as ledger:
        enter(ledger, of_ward("ward-2", 9, "ab"))
        assert fine(ledger, DUE, "ward-1", "ward-2") == {
            "ward-1": False,
            "ward-2": True,
        }
        with pytest.raises(UsageError, match="no series"):
            give_up(ledger, "ward-1", "2026-01-09", "the laboratory moved")
        give_up(
            ledger, "ward-1", "2026-01-09", "the laboratory moved", ["ward-1", "ward-2"]
        )
        with pytest.raises(UsageError, match="already has the night"):
            give_up(ledger, "ward-2", "2026-01-09", "none came")
        pulse, _ = series_statuses(ledger, DUE, ["ward-1", "ward-2"])

        assert pulse.fine
        assert "given up: the laboratory moved" in pulse.said
        without_night = Due(at(9, 9))
        assert fine(ledger, without_night, "ward-1") == {"ward-1": True}
        night_before = replace(DUE, night=at(8).date())
        assert fine(ledger, night_before, "ward-1") == {"ward-1": False}
        assert history(ledger, verify=True)["audit"]["verified"]


def test_series_in_shadow_has_nothing_to_acknowledge(ledger):
    enter(ledger, of_ward("ward-3", 9, "a", "n", shadow=True))
    with pytest.raises(UsageError, match="its reasons are none"):
        acknowledge(ledger, "ward-3", "few_rows", at(9).date(), "known")


def test_acknowledged_until(place):
    """An acknowledged reason is silent until its day and hides no other cause."""
    drifted = Reason("values_differ", "They differ.", "crp")
    other = Reason("values_differ", "They differ.", "age")
    few = Reason("few_rows", "Few rows.")
    with open_ledger(place, make=True, clock=recording(at(9))) as ledger:
        tonight = at(9).date()
        enter(ledger, of_ward("ward-1", 8, "ab"), attention=[drifted])
        with pytest.raises(UsageError, match="its reasons are values_differ"):
            acknowledge(ledger, "ward-1", "few_rows", tonight, "known")
        acknowledge(ledger, "ward-1", "values_differ", tonight, "another analyser")
        everything = [drifted, other, few]
        enter(ledger, of_ward("ward-1", 9, "ab"), attention=everything)
        (pulse,) = series_statuses(ledger, DUE)
        enter(ledger, of_ward("ward-1", 10, "ab"), attention=[drifted])
        tomorrow = Due(at(10, 9), night=at(10).date())
        (later,) = series_statuses(ledger, tomorrow)

    assert pulse.attention == (other, few)
    assert "acknowledged until 2026-01-09: They differ" in pulse.said
    assert later.attention == (drifted,)
