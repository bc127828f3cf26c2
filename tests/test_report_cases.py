"""How a patient's values, and a class that no threshold can single out, are put on the page."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from report_fixture import judged, nosocomial_run
from report_voxel_fixture import voxel_run

from screening.documents.model import Declared
from screening.page import format as shown
from screening.page.page import render_run
from screening.page.values import value_text


def inlined(page: str) -> dict[str, Any]:
    """Return what the first slider of the page is given."""
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def with_one_value(value: str, **declared: Any) -> str:
    run = nosocomial_run()
    run["model"]["contract"]["features"] = {"crp": declared}
    run["cases"] = run["cases"][:1]
    run["cases"][0]["contributions"] = [
        {
            "feature": "crp",
            "value": value,
            "unit": "mg/L",
            "usual": [0, 10],
            "direction": "raises",
            "change": 0.3,
        }
    ]
    run["near_misses"] = []
    (listed,) = re.findall(r"<ul class=v>(.*?)</ul>", render_run(run))
    return " ".join(re.sub(r"<[^>]+>", "", listed).split())


@pytest.mark.parametrize("value", ["237", "237.0"])
def test_a_value_above_its_usual_range_is_marked(value: str) -> None:
    assert with_one_value(value, type="number", usual=[0, 10]) == "crp 237 mg/L H usual range 0–10 ▲ +0.300"


def test_a_value_below_or_inside_its_usual_range_is_told_apart() -> None:
    assert with_one_value("-1", type="number", usual=[0, 10]) == "crp −1 mg/L L usual range 0–10 ▲ +0.300"
    assert with_one_value("10", type="number", usual=[0, 10]) == "crp 10 mg/L usual range 0–10 ▲ +0.300"


def test_without_a_range_in_the_contract_the_range_is_that_of_past_patients() -> None:
    assert with_one_value("237", type="number") == "crp 237 mg/L H range in past patients 0–10 ▲ +0.300"


def test_a_missing_value_has_neither_unit_nor_range() -> None:
    assert with_one_value("missing", type="number", usual=[0, 10]) == "crp missing ▲ +0.300"


def test_a_raw_value_is_not_held_against_a_range_of_normalised_values() -> None:
    assert with_one_value("345.8", type="number", normalise="within_group") == "crp 345.8 mg/L ▲ +0.300"


def test_truth_values_and_ordinals_are_put_in_words() -> None:
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
def test_units_are_printed_as_a_laboratory_prints_them(written: str | None, printed: str) -> None:
    assert shown.unit(written) == printed


def test_rows_ranked_by_excess_are_marked_on_the_scale_of_their_own_class() -> None:
    # Patients are not rows of one class, so only a run without them is marked line by line.
    run = voxel_run() | {"groups": None, "groups_total": None, "groups_flagged": None}
    page = render_run(run)
    thresholds = {p["class"]: p["threshold"] for p in run["model"]["operating_points"]}
    exact = [float(s) for s in re.findall(r'data-score="([^"]+)"', page)]

    assert exact == [c["score"] + thresholds[c["class"]] for c in run["cases"]]
    assert "furthest above the threshold first" in page


def test_a_class_that_no_threshold_singles_out_is_said_aloud_and_draws_no_endless_axis() -> None:
    run = voxel_run()
    run["model"]["operating_points"][0].update(
        threshold=-1e12, sensitivity=1.0, specificity=0.0, flag_rate=1.0
    )
    run["cases"][0]["score"] = 1e12
    page = render_run(judged(run))

    assert "No threshold could meet the rule for G4+3: every row is flagged" in page
    assert "Every row is flagged: with so few past cases" in page
    assert "000000000000" not in re.sub(r"<script.*?</script>|data-score=\S+", "", page, flags=re.S)
    assert -10 < inlined(page)["low"] < inlined(page)["high"] < 10
