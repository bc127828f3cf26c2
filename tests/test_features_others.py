"""Small tables whose rows other projects publish: Feast's joins, and ACES's windows."""

import pytest
from event_tables import small_spec

pytest.importorskip("duckdb")

from screening import Features

ADMITTED = "{0},{0},1989-01-01T00:00:00Z,,ADMISSION,,,\n"


def night_of(folder, lines, features, date, hour):
    """Return a night's rows by their id; its hour is in UTC."""
    spec = small_spec(folder, lines, features)
    text = spec.read_text().replace('"06:00"', f'"{hour}"')
    spec.write_text(text.replace("Europe/Berlin", "UTC"))
    return Features(spec).night(date).set_index("id")


def test_feast_backfills(tmp_path):
    """A join two days later takes the version created last, and of two times the later.

    Feast, sdk/python/tests: historical features from sources containing backfills
    (Apache-2.0): driver 1001 has 10 and 20 for one time, the second a day later;
    1002 has 30 for it, created a day later, and 40 for the next day, created before.
    Expected are 20 and 40. A night on the day itself, which Feast's test does not ask
    for, has what was created by then.
    """
    lines = (
        ADMITTED.format(1001)
        + ADMITTED.format(1002)
        + "1001,1001,2024-03-01T06:00:00Z,2024-03-01T06:00:00Z,trips,10,,\n"
        + "1001,1001,2024-03-01T06:00:00Z,2024-03-02T06:00:00Z,trips,20,,\n"
        + "1002,1002,2024-03-01T06:00:00Z,2024-03-02T06:00:00Z,trips,30,,\n"
        + "1002,1002,2024-03-02T06:00:00Z,2024-03-01T06:00:00Z,trips,40,,\n"
    )
    features = 'trips = { codes = "trips", window = "7d", take = "last" }'

    later = night_of(tmp_path, lines, features, "2024-03-03", "06:00")["trips"]
    same_day = night_of(tmp_path, lines, features, "2024-03-01", "06:00")["trips"]

    assert later.to_dict() == {"1001": 20, "1002": 40}
    assert same_day["1001"] == 10
    assert same_day.isna()["1002"]


ACES = """1,1,1989-12-01T12:03:00Z,,A,,,
1,1,1989-12-01T12:03:00Z,,C,,,
1,1,1989-12-02T05:17:00Z,,B,,,
1,1,1989-12-02T05:17:00Z,,C,,,
1,1,1989-12-02T12:03:00Z,,A,,,
1,1,1989-12-06T11:00:00Z,,B,,,
2,2,1989-12-01T13:14:00Z,,B,,,
2,2,1989-12-01T13:14:00Z,,C,,,
2,2,1989-12-03T15:17:00Z,,B,,,
"""


@pytest.mark.parametrize(
    ("subject", "date", "hour", "counts"),
    [
        # Windows of a day that end at the hour, without their start.
        ("1", "1989-12-02", "12:03", (1, 1, 1)),
        ("1", "1989-12-03", "05:17", (1, 0, 0)),
        ("1", "1989-12-03", "12:03", (0, 0, 0)),
        ("1", "1989-12-07", "11:00", (0, 0, 0)),
        ("2", "1989-12-02", "13:14", (0, 0, 0)),
        ("2", "1989-12-04", "15:17", (0, 0, 0)),
    ],
)
def test_aces_windows(tmp_path, subject, date, hour, counts):
    """A window has the events that ACES counts in it.

    ACES, the examples of its temporal windows (MIT): the one whose window
    leaves its start out and has its end, a day long, a day after each event.
    """
    lines = ADMITTED.format("1") + ADMITTED.format("2") + ACES
    features = "\n".join(
        f'{code} = {{ codes = "{code}", window = "1d", take = "count" }}'
        for code in "ABC"
    )

    row = night_of(tmp_path, lines, features, date, hour).loc[subject]

    assert (row["A"], row["B"], row["C"]) == counts
