"""Flags of a night are held to the series' own nights, with their stays in the
width.
"""

import numpy as np
import pytest
from ledger_nights import night
from numpy.random import default_rng

from screening.ledger.past_nights import PastNights
from screening.metrics.usual_events import usual_events
from screening.monitoring.delivery import STAY_UNKNOWN
from screening.schemas.run import Delivery
from screening.scoring.series_history import _usual_flags

NIGHTS = 40


def test_usual_events_contain_nearly_every_night_of_a_ward():
    rng = default_rng(5)
    n_outside = 0
    for _ in range(400):
        flagged = rng.binomial(50, 0.2, NIGHTS + 1)
        sizes = np.full(NIGHTS, 50)
        low, high = usual_events(flagged[:-1], sizes, 50, worth=1.0)
        n_outside += not low <= flagged[-1] <= high
    assert n_outside <= 3


def test_usual_events_are_wider_where_patients_stay():
    flagged = np.full(NIGHTS, 10)
    sizes = np.full(NIGHTS, 50)
    low, high = usual_events(flagged, sizes, 50, worth=1.0)
    low_of_stays, high_of_stays = usual_events(flagged, sizes, 50, worth=0.05)
    assert low_of_stays <= low
    assert high_of_stays > high


@pytest.mark.parametrize("flagged", [0, 50])
def test_usual_events_where_nobody_or_everybody_was_flagged(flagged):
    everyone = np.full(NIGHTS, 50)
    low, high = usual_events(np.full(NIGHTS, flagged), everyone, 50, worth=0.1)
    assert 0 <= low <= flagged <= high <= 50


def test_usual_flags_where_nobody_is_recognised():
    """Rows without ids: most patients are taken to stay, which widens what is usual."""
    dates = [f"2026-01-{day:02}" for day in range(1, 31)]
    deliveries = {date: Delivery(rows=50, units=50) for date in dates}
    past = PastNights(
        deliveries=deliveries,
        scores={},
        columns={},
        patients=None,
        same_table=(),
        flags=dict.fromkeys(dates, (10, 50)),
    )
    tonight = night(31, "a", scored=50, unflagged={"cases": 40}).night

    usual = _usual_flags(tonight, past)

    low, high = usual_events(np.full(30, 10), np.full(30, 50), tonight.units, worth=1.0)
    assert usual.stay == STAY_UNKNOWN
    assert usual.low <= low
    assert usual.high > high
