"""The model page begins with a verdict: useful here or not, why, and what it costs beside others."""

import re
from typing import Any

import numpy as np
import pytest
from comparison_outcomes import outcome
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import Outline, appraised, changed, estimate, nosocomial_model

from screening.metrics.calibration import chances
from screening.model_selection.judge import differences
from screening.report import render_model
from screening.report.rules import AHEAD, beaten, of_model, usefulness_of
from screening.schemas.figures import MinSensitivity
from screening.schemas.model import ModelDocument
from screening.schemas.validation import Beside, BesideFacts


def compared(
    auroc: float = 0.05, specificity: float = 0.1, half: float = 0.03, by_cases: float = 0.0
) -> dict[str, Any]:
    model = appraised(nosocomial_model())
    rule = model["operating_points"][0]["rule"]
    figures = {"auroc": 0.85, "sensitivity": 0.92, "specificity": 0.7}
    others = {"auroc": 0.85 - auroc, "sensitivity": 0.9, "specificity": 0.7 - specificity}
    gaps = {"auroc": (auroc, half), "specificity": (specificity, half), "sensitivity": (0.0, by_cases)}
    differences = {name: estimate(gap, gap - half, gap + half) for name, (gap, half) in gaps.items()}
    beside = [
        {
            "recipe": name, "title": name, "differences": differences,
            "figures": others | {"specificity": others["specificity"] - below},
        }
        for name, below in (("svm", 0.1), ("logistic", 0.0))
    ]  # fmt: skip
    comparison = {"rules": [rule], "rule": rule, "n_watched": 1, "figures": figures, "beside": beside}
    return changed(model, validation__comparison=comparison)


def verdict(model: dict[str, Any]):
    return usefulness_of(ModelDocument.from_dict(model))


def test_a_model_that_leads_the_best_other_is_useful_and_says_by_how_much():
    usefulness = verdict(compared())
    assert (usefulness.verdict, usefulness.against) == ("yes", ())
    assert "best other method" in usefulness.words
    assert "logistic, the best of 2 other methods, on the same folds" in render_model(compared())


def test_a_model_no_better_than_another_says_so_and_one_that_is_worse_is_refused():
    """The head of its page is not green; beside which nothing was trained is not shown to be useful."""
    level, worse, alone = compared(0.0, 0.0), compared(-0.1, -0.1), appraised(nosocomial_model())
    useful, useless, unshown = (verdict(model) for model in (level, worse, alone))
    attention = [[each.code for each in of_model(ModelDocument.from_dict(one))] for one in (level, worse)]

    assert useful.verdict == "yes" and useful.words.endswith("not shown to be better than logistic.")
    assert useless.verdict == "no" and useless.against[0].code == "another_is_better"
    assert useless.against[0].remedy == "Train with --recipe logistic."
    assert attention == [[], ["another_is_better", "not_fit_for_use"]]
    assert (unshown.verdict, [each.code for each in unshown.against]) == ("not shown", ["not_compared"])


@given(auroc=st.floats(-0.3, 0.3), specificity=st.floats(-0.2, 0.2), half=st.floats(0.001, 0.3))
def test_no_interval_that_holds_zero_makes_one_method_better(auroc, specificity, half):
    usefulness = verdict(compared(auroc, specificity, half))
    leads = auroc - half > 0 or specificity - half > 0
    trails = auroc + half < -AHEAD or specificity + half < -AHEAD
    assert (usefulness.verdict == "no") == (trails and not leads)
    assert ("not shown to be better" in usefulness.words) == (not leads and not trails)


@pytest.mark.parametrize(
    ("gaps", "answer"),
    [((0.0, -0.03, 0.01, 0.005), "no"), ((0.0, -0.03, 0.01, 0.03), "yes"), ((-0.004, -0.004, 0.001), "yes")],
    ids=["surely worse", "other cases would move the thresholds", "surely, by next to nothing"],
)
def test_a_specificity_that_other_cases_or_next_to_nothing_would_change_makes_no_model_unfit(gaps, answer):
    assert verdict(compared(*gaps)).verdict == answer


def test_of_two_equally_good_methods_hardly_one_is_called_unfit():
    """Each has its threshold from its own cases: by the negatives alone one in four was worse for sure."""
    rng, unfit = np.random.default_rng(1), 0
    rule = MinSensitivity(0.9)
    for _ in range(60):
        ill = rng.random(3000) < 0.15
        shared = ill + 0.8 * rng.normal(size=3000)
        both = [outcome(shared + 0.5 * rng.normal(size=3000), ill, rule=rule) for _ in range(2)]
        other = Beside(recipe="other", title="other", figures={}, differences=differences(*both))
        unfit += any(beaten(BesideFacts(rules=[rule], rule=rule, n_watched=1, figures={}, beside=[other])))

    assert unfit <= 3


@pytest.mark.parametrize(
    ("change", "code", "answer"),
    [
        ({"sensitivity": {"value": 0.0}}, "own_cases_not_flagged", "no"),
        ({"threshold": -1e300}, "flags_everything", "no"),
        ({"ppv": {"low": 0.05}}, "flags_like_chance", "not shown"),
        ({"n_positive": 12}, "too_few_cases", "not shown"),
        ({"sensitivity": {"low": 0.5, "high": 0.95}}, "intervals_too_wide", "not shown"),
    ],
)
def test_what_makes_a_model_doubtful_is_said(change, code, answer):
    model = compared()
    (point,) = model["operating_points"]
    point |= change
    validation = model["validation"]
    for figures in (*validation["subgroups"]["yes"], validation["predictive"]["yes"]):
        figures["threshold"] = point["threshold"]
    model["attention"] = [vars(reason) for reason in of_model(ModelDocument.from_dict(model))]
    usefulness = verdict(model)

    assert usefulness.verdict == answer
    assert code in [each.code for each in usefulness.against]


def test_the_verdict_is_the_first_thing_on_the_page_with_one_picture():
    """A line for the capacity where there is one, of rows where these are not of groups; else why not."""
    page = render_model(compared())
    without = render_model(changed(compared(), contract__cohort__capacity=None))
    grouped = render_model(changed(compared(), validation__grouped=True))
    line = r"capacity, night of [\d,]+ rows"

    assert re.findall(r'<h2 id="([a-z]+)"', page)[:2] == ["useful", "operating"]
    assert verdict(compared()).words in Outline(page).text
    assert page.count('id="useful-t"') == 1
    assert [bool(re.search(line, each)) for each in (page, without, grouped)] == [True, False, False]
    assert "states no capacity" in without
    assert "Capacity counts patients and flags count rows" in grouped


def test_the_decision_curve_marks_the_threshold_in_use_with_its_net_benefit():
    model = appraised(nosocomial_model())
    known = ModelDocument.from_dict(model)
    at = chances(known.validation.calibration["yes"], np.array([known.points[0].threshold]))[0][0]
    text = Outline(render_model(model)).text
    assert "The threshold in use (circle) suits a ward where a review is worth it from a chance of" in text
    assert f"one case found per {(1 - at) / at:.1f} unnecessary reviews" in text


def test_participants_and_events_of_each_analysis_add_up():
    document = appraised(nosocomial_model())
    (point,) = document["operating_points"]
    row = r'<tr><th scope="row"><bdi>([^<]*)</bdi></th>' + r'<td class="n">([^<]*)</td>' * 4
    rows = {name: figures for name, *figures in re.findall(row, render_model(document))}
    (held_out,) = [figures for name, figures in rows.items() if name.startswith("Development")]

    assert int(held_out[0]) == point["n_positive"] + point["n_negative"]
    assert int(held_out[2]) == point["n_positive"]
    assert rows["Temporal validation, tested from that day on"][:3] == ["203", "–", "20"]
    assert rows["sex: missing"][2] == "–"
