"""Flags of a night are held to the series' own nights, with their stays in the
width.
"""

import numpy as np
import pytest
from numpy.random import default_rng

from screening.metrics.usual_events import usual_events

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
