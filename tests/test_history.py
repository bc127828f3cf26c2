"""The nights add up to a story: what reviews found, what was missed, and whether
patients have changed.
"""

import json
import re

import numpy as np
import pytest
from ledger_nights import NIGHTS, enter, night, simulate
from numpy.random import default_rng

from screening.ledger.database import open_ledger
from screening.ledger.history import history
from screening.ledger.model_registry import record_revision
from screening.metrics.intervals import anytime_level, rate_interval
from screening.report.history import render_histories, render_history, sentences
from screening.schemas.history import HistoryDocument


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    rules = {
        f"rule_{when}": {
            "name": "max_flag_rate",
            "value": value,
            "confidence": None,
            "prevalence": None,
        }
        for when, value in (("before", 0.2), ("after", 0.15))
    }
    change = {
        "model_before": "a" * 64,
        "model_after": "b" * 64,
        "reason": "<b>ten a night</b>",
        "classes": [
            {"class": "yes", "threshold_before": 1.5, "threshold_after": 2.0} | rules
        ],
    }
    with open_ledger(
        tmp_path_factory.mktemp("story") / "screening.db", make=True
    ) as ledger:
        truth = simulate(ledger)
        record_revision(ledger, "threshold", change)
        yield history(ledger, verify=True), truth


def test_ppv_case_of_many_nights(story):
    """Misses are estimated from the random sample within its interval."""
    (told,) = story[0]["series"]
    truth = story[1]
    ppv = told["ppv"]
    misses = told["misses"]
    assert ppv["found"] == len(truth["found"])
    assert ppv["judged"] == len(truth["judged"])
    interval = rate_interval(ppv["found"], ppv["judged"])
    assert [ppv["low"], ppv["high"]] == [float(end) for end in interval]
    assert told["ppv_to_date"][-1]["value"] == ppv["value"]
    assert misses["judged"] == 5 * NIGHTS
    assert (
        misses["per_night"]["low"]
        <= len(truth["missed"]) / NIGHTS
        <= misses["per_night"]["high"]
    )


def test_steady_nights_show_no_drift_and_shifted_ones_do(story, tmp_path):
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        simulate(ledger, nights=20, drifts_from=12)
        shifted = HistoryDocument.from_dict(history(ledger)).series[0]
    assert story[0]["series"][0]["drift"]["p"] > 0.01
    assert shifted.drift.reason.code == "drift_over_nights"
    assert shifted.drift.p <= shifted.drift.reason.threshold
    assert "have changed" in sentences(shifted)[-1]
    (quiet,) = HistoryDocument.from_dict(story[0]).series
    assert "no sign" in sentences(quiet)[-1]


def test_page_of_history(story):
    """The page shows the figures and is the same each time."""
    told, _ = story
    page = render_history(told)
    words = re.sub(r"<[^>]+>", "", page)

    assert page == render_history(json.loads(json.dumps(told)))
    lines = [
        line.split(": ", 1)[-1]
        for line in sentences(HistoryDocument.from_dict(told).series[0])
    ]
    assert all(line[1:] in words for line in lines)
    assert f"<bdi>{told['series'][0]['series']}" in page
    (series,) = told["series"]
    assert page.count("<svg") == 3 + len(series["control"])
    assert told["audit"]["head"] in page
    assert "&lt;b&gt;ten a night" in page
    assert "<b>ten a night" not in page
    assert "P000" not in page
    assert len(page) < 60_000


def test_ppv_unjudged(tmp_path):
    """Nights without verdicts have no predictive value, and the page says so."""
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        assert "No run has been recorded" in render_history(history(ledger))
        enter(ledger, night(1, "a", "z"))
        told = history(ledger)
    (series,) = told["series"]

    assert series["ppv"]["value"] is series["ppv_flagged"]["value"] is None
    assert series["misses"]["per_night"]["value"] is None
    (series,) = HistoryDocument.from_dict(told).series
    for line in sentences(series)[2:5]:
        assert "unknown" in line
    assert ">None<" not in render_history(told)


def test_page_attention(place):
    """The page lists reasons for attention, and the number of nights of each."""
    with open_ledger(place, make=True) as ledger:
        simulate(ledger, 4)
        told = history(ledger)
    quiet = {"code": "a", "words": "Quiet."}
    crowded = {"code": "b", "words": "Crowded."}
    told["runs"] = [run | {"attention": [quiet]} for run in told["runs"]]
    told["runs"][1]["attention"] = [quiet, crowded]
    page = render_history(told)
    runs = told["runs"]
    assert f"Quiet. (4 nights, last {runs[-1]['night']})" in page
    assert f"Crowded. (1 night, last {runs[1]['night']})" in page


def test_page_of_many_series(ledger, tmp_path):
    """With many series the overview links to a page for each."""
    for ward in ("ward-1", "ward-2"):
        for day in (1, 2):
            enter(ledger, night(day, "ab", key=f"{ward} {day}", series=ward))
    overview, pages = render_histories(history(ledger), "history")

    assert sorted(pages) == ["ward-1.html", "ward-2.html"]
    assert [f'href="history/{name}"' in overview for name in sorted(pages)] == [
        True,
        True,
    ]
    assert "2026-01-02" in pages["ward-1.html"]
    assert "superseded" not in overview
    assert "ward-2" not in pages["ward-1.html"]
    assert len(overview) < 2 * len(pages["ward-1.html"])
    assert overview.count("<svg") == 0
    assert pages["ward-1.html"].count("<svg") > 0


def test_interval_every_look():
    """An interval for every look covers at all looks; one for a single look does
    not.
    """
    rng = default_rng(0)
    sizes = np.geomspace(10, 3000, 120)
    looks = np.unique(sizes.astype(int))
    is_event = rng.random((400, 3000)) < 0.4
    counts = np.cumsum(is_event, axis=1)[:, looks - 1]

    def missed(level) -> float:
        """How often an upper end lay below the truth at any look."""
        ends = []
        for i, n in enumerate(looks):
            _, high = rate_interval(counts[:, i], n, level(n))
            ends.append(high)
        is_below = np.array(ends) < 0.4
        return is_below.any(axis=0).mean()

    assert missed(lambda n: 0.95) > 0.1
    assert missed(anytime_level) < 0.0125
