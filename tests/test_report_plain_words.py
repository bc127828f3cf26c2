"""What the page must not let a tired reader believe: figures that hold less than they seem to."""

from __future__ import annotations

import pytest
from report_fixture import nosocomial_run, observed
from test_report import Outline
from test_report_blocks import appraised_run

from screening.page import format as shown
from screening.page import render_run


def test_those_reviewed_before_are_no_work_of_this_night():
    run = nosocomial_run(refused=0)
    flagged = run["counts"]["flagged"]
    run["model"]["contract"]["cohort"] |= {"capacity": 5, "minutes_per_review": 10}
    run["counts"] |= {"cases": flagged, "new": 2, "ongoing": 1, "reviewed": flagged - 3, "resolved": 0}
    text = Outline(render_run(run)).text

    assert f"3 patients to look at {flagged} flagged, the others judged before; about 30 minutes" in text
    assert "but capacity is" not in text


def test_an_estimate_at_the_end_of_its_scale_does_not_say_that_nobody_is_ill():
    run = appraised_run()
    run["prevalence_estimate"] = {"value": 0.0, "low": 0.0, "high": 0.33}
    text = Outline(render_run(run)).text

    assert "By the share flagged alone, between 0% and 33% of tonight’s rows have the condition" in text


def test_a_threshold_that_found_no_past_case_is_attention():
    run = nosocomial_run(refused=0)
    run["model"]["operating_points"][0] |= {"sensitivity": 0.0, "ppv": None}

    assert "This threshold would have found none of the past cases of yes." in Outline(render_run(run)).text


def test_where_patients_have_several_rows_the_promise_says_that_it_is_of_rows():
    run = nosocomial_run(refused=0)
    alone = Outline(render_run(run)).text
    run["model"]["operating_points"][0] |= {"n_groups": 60}
    grouped = Outline(render_run(run)).text

    assert " of 100 cases (" in alone and "positive rows" not in alone
    assert " of 100 positive rows (" in grouped and "Of 100 flagged rows, about " in grouped


def test_finding_all_past_cases_does_not_promise_to_miss_none():
    run = nosocomial_run(refused=0)
    run["model"]["operating_points"][0] |= {
        "sensitivity": 1.0,
        "sensitivity_low": 0.95,
        "sensitivity_high": 1.0,
    }
    text = Outline(render_run(run)).text

    assert "about 100 of 100 cases (95% interval 95–100); that none is missed is not promised." in text
    assert "to miss about 0" not in text


def test_the_page_says_how_old_the_patients_behind_the_threshold_are():
    run = nosocomial_run()
    run["model"]["training"]["window"], run["date"] = ["2025-01-01", "2025-12-01"], "2026-03-01"

    assert (
        "of 2025-01-01 to 2025-12-01; the last is 90 days older than this night."
        in Outline(render_run(run)).text
    )


def test_the_observed_predictive_value_is_shown_with_its_interval_and_what_it_moves_with():
    run = nosocomial_run()
    shares = {"ppv": 0.125, "ppv_low": 0.082, "ppv_high": 0.188, "n_positive": 24, "n_negative": 216}
    run["evaluation"] = {"yes": observed(**shares)}
    text = Outline(render_run(run)).text

    assert "Cases among the flagged (PPV) 12% 8–19%" in text
    assert "PPV and NPV move with how common the condition is: 10% tonight" in text


def test_a_term_that_the_model_has_no_use_for_is_not_explained():
    run = nosocomial_run()
    run["model"]["machine"]["passes"] = [{}]
    run["model"]["validation"]["calibration"] = {}
    words = Outline(render_run(run)).text.partition("How to read the figures")[2]

    assert "Geometry, and unrelated" not in words
    assert "calibrated probability of the condition" not in words


def test_one_that_comes_back_with_an_old_verdict_is_new_again():
    run = nosocomial_run()
    run["cases"][0] |= {
        "state": "new",
        "nights": 1,
        "last_verdict": {"night": "2026-01-27", "verdict": "not"},
    }

    assert "new again, judged not a case on 2026-01-27" in Outline(render_run(run)).text


def test_what_may_be_expected_is_qualified_where_the_data_differ_from_training():
    same, other = nosocomial_run(), nosocomial_run()
    same["data"] = []
    said = "tonight 1 feature differs notably"

    assert [feature["name"] for feature in other["data"] if feature["missing"] > 0.2] == ["albumin"]
    assert said not in Outline(render_run(same)).text
    assert said in Outline(render_run(other)).text


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.84, 0.951, "84–95%"),
        (0.9991, 0.99996, "99.9–100.0%"),
        (0.9971, 0.9994, "99.7–99.9%"),
        (1, 1, "100–100%"),
    ],
)
def test_rounding_does_not_close_an_interval(low, high, said):
    assert shown.interval(low, high) == said
