"""How a patient's values, and a class that no threshold can single out, are put on the page."""

import json
import re
from typing import Any

import pytest
from report_fixture import estimate, judged, nosocomial_run, observed
from report_voxel_fixture import voxel_run
from test_report import Outline
from test_report_blocks import appraised_run

from screening.report import format as fmt
from screening.report import render_run
from screening.report.worklist import value_text
from screening.schemas.base import Estimate
from screening.schemas.model import Declared


def inlined(page: str) -> dict[str, Any]:
    """Return what the first slider of the page is given."""
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def with_one_value(value: str, normalise: str | None = None, **ranges: list[float]) -> str:
    run = nosocomial_run()
    run["model"]["contract"]["features"] = {"crp": {"type": "number", "normalise": normalise}}
    run["cases"] = run["cases"][:1]
    told = {"feature": "crp", "value": value, "unit": "mg/L", "direction": "raises", "change": 0.3}
    run["cases"][0]["contributions"] = [told | ranges]
    run["near_misses"] = []
    (listed,) = re.findall(r"<ul class=v>(.*?)</ul>", render_run(run))
    return " ".join(re.sub(r"<[^>]+>", "", listed).split())


WITHIN = {"reference": [0, 10]}


@pytest.mark.parametrize(
    ("value", "ranges", "told"),
    [
        ("237.0", WITHIN, "237 mg/L H reference range 0–10"), ("missing", WITHIN, "missing"),
        ("-1", WITHIN, "−1 mg/L L reference range 0–10"), ("10", WITHIN, "10 mg/L reference range 0–10"),
        ("237", {"seen": [0, 10]}, "237 mg/L above range in past patients 0–10"),
        ("-1", {"seen": [0, 10]}, "−1 mg/L below range in past patients 0–10"),
        ("480", {"reference": [0, 5], "seen": [2.95, 480]}, "480 mg/L H reference range 0–5"),
        ("480", {"seen": [2.95, 480]}, "480 mg/L range in past patients 2.95–480"),
        ("345.8", {"normalise": "within_group", "seen": [0, 10]}, "345.8 mg/L"),
    ],
)  # fmt: skip
def test_a_value_stands_beside_its_range_and_outside_of_it_says_so(value, ranges, told):
    assert with_one_value(value, **ranges) == f"crp {told} ▲ +0.300"


def test_truth_values_and_ordinals_are_put_in_words():
    ordinal = Declared(type="ordinal", categories=["none", "some", "much"])

    assert value_text(1.0, Declared(type="boolean")) == "yes"
    assert value_text(0, Declared(type="boolean")) == "no"
    assert value_text(2.0, ordinal) == "much"
    assert value_text(7.0, ordinal) == "7"
    assert value_text(None, Declared()) == "missing"


@pytest.mark.parametrize(
    ("written", "printed"),
    [("degC", "°C"), ("10^9/L", "10⁹/L"), ("m^-2", "m⁻²"), ("mg/L", "mg/L"), (None, "")],
)
def test_units_are_printed_as_a_laboratory_prints_them(written, printed):
    assert fmt.unit(written) == printed


def test_rows_ranked_by_excess_are_marked_on_the_scale_of_their_own_class():
    # Patients are not rows of one class, so only a run without them is marked line by line.
    run = voxel_run() | {"groups": None, "groups_total": None, "groups_flagged": None}
    page = render_run(run)
    thresholds = {p["class"]: p["threshold"] for p in run["model"]["operating_points"]}
    exact = [float(s) for s in re.findall(r'data-score="([^"]+)"', page)]

    assert exact == [c["score"] + thresholds[c["class"]] for c in run["cases"]]
    assert "furthest above the threshold first" in page


def test_a_class_that_no_threshold_singles_out_is_said_aloud_and_draws_no_endless_axis():
    run = voxel_run()
    run["model"]["operating_points"][0].update(
        threshold=-1e12, sensitivity=estimate(1.0), specificity=estimate(0.0), flag_rate=estimate(1.0)
    )
    run["cases"][0]["score"] = 1e12
    page = render_run(judged(run))

    assert "No threshold could meet the rule for G4+3: every row is flagged" in page
    assert "Every row is flagged: with so few past cases" in page
    assert "000000000000" not in re.sub(r"<script.*?</script>|data-score=\S+", "", page, flags=re.S)
    assert -10 < inlined(page)["low"] < inlined(page)["high"] < 10


def test_those_reviewed_before_are_no_work_of_this_night():
    run = nosocomial_run(refused=0)
    flagged = run["counts"]["flagged"]
    run["model"]["contract"]["cohort"] |= {"capacity": 5, "minutes_per_review": 10}
    run["counts"] |= {
        "cases": flagged,
        "new": 2,
        "pending": 1,
        "ruled_out": flagged - 3,
        "no_longer_flagged": 0,
    }
    text = Outline(render_run(run)).text

    assert f"3 patients to review {flagged} flagged, the others judged before; about 30 minutes" in text
    assert "but capacity is" not in text


def test_an_estimate_at_the_end_of_its_scale_does_not_say_that_nobody_is_ill():
    run = appraised_run()
    run["prevalence_estimate"] = {"value": 0.0, "low": 0.0, "high": 0.33}
    text = Outline(render_run(run)).text

    assert "By the share flagged alone, between 0% and 33% of tonight’s rows have the condition" in text


def test_where_patients_have_several_rows_the_promise_says_that_it_is_of_rows():
    run = nosocomial_run(refused=0)
    alone = Outline(render_run(run)).text
    run["model"]["operating_points"][0] |= {"n_groups": 60}
    grouped = Outline(render_run(run)).text

    assert " of 100 cases are missed" in alone and "positive rows" not in alone
    assert " of 100 positive rows are missed" in grouped


def test_finding_all_past_cases_does_not_promise_to_miss_none():
    run = nosocomial_run(refused=0)
    run["model"]["operating_points"][0] |= {"sensitivity": {"value": 1.0, "low": 0.95, "high": 1.0}}
    text = Outline(render_run(run)).text

    assert "Expected sensitivity 100% (95% CI 95–100%): this does not mean that none is missed." in text
    assert "about 0 of 100" not in text


def test_the_page_says_how_old_the_patients_behind_the_threshold_are():
    run = nosocomial_run()
    run["model"]["training"]["window"], run["date"] = ["2025-01-01", "2025-12-01"], "2026-03-01"

    assert (
        "of 2025-01-01 to 2025-12-01; the last is 90 days older than this night."
        in Outline(render_run(run)).text
    )


def test_the_observed_predictive_value_is_shown_with_its_interval_and_what_it_moves_with():
    run = nosocomial_run()
    shares = {"ppv": {"value": 0.125, "low": 0.082, "high": 0.188}, "n_positive": 24, "n_negative": 216}
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
        "last_verdict": {"night": "2026-01-27", "verdict": "ruled out"},
    }

    assert "new again, ruled out on 2026-01-27" in Outline(render_run(run)).text


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
        (0.84, 0.951, "84–95%"), (0.9991, 0.99996, "99.9–100.0%"), (0.9971, 0.9994, "99.7–99.9%"),
        (1, 1, "100–100%"),
    ],
)  # fmt: skip
def test_rounding_does_not_close_an_interval(low, high, said):
    assert fmt.ci(Estimate(None, low, high)) == said
