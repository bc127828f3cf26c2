"""What the page says of a night and of a model, its verdict first, in the clinic's
words, and what not.
"""

import json
import re
import unicodedata
from typing import Any

import numpy as np
import pytest
from compared_methods import outcome
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from report_fixture import (
    Outline,
    appraised,
    appraised_run,
    changed,
    estimate,
    judged,
    nosocomial_model,
    nosocomial_run,
    observed,
    voxel_model,
    voxel_run,
)

from screening import MinSensitivity
from screening.metrics.calibration import probability_intervals
from screening.model_selection.judge import method_differences
from screening.report import format as fmt
from screening.report import render_model, render_run
from screening.report.charts import Axes
from screening.report.model_attention import attention_of_model
from screening.report.values import value_text
from screening.report.verdict import (
    MIN_CERTAIN_LEAD,
    beaten_by_other,
    usefulness_of,
)
from screening.schemas.base import Estimate
from screening.schemas.figures import rule_named
from screening.schemas.model import FeatureDeclaration, ModelDocument
from screening.schemas.validation import Beside, BesideFacts


def sound() -> dict[str, Any]:
    return nosocomial_run(refused=0)


POINT = "model__operating_points__0__"
COHORT = "model__contract__cohort__"
SEEN = {
    "sensitivity": estimate(0.875, 0.69, 0.96),
    "ppv": estimate(0.125, 0.082, 0.188),
}
NIGHTS: dict[str, tuple[Any, dict[str, Any], list[str], list[str]]] = {
    "counts add up": (
        nosocomial_run,
        {},
        [
            "81 flagged of 240 rows scored; 243 read, 3 refused",
            "81 patients to review",
            "3 × temperature outside its plausible range",
        ],
        ["shown."],
    ),
    "no failed check is OK": (
        sound,
        {"data": []},
        ["OK No check failed."],
        ["differs notably"],
    ),
    "nothing is OK above features that differ": (
        sound,
        {},
        [
            "No check failed; 1 feature differs notably from training",
            "tonight 1 feature differs notably",
        ],
        ["OK No check failed."],
    ),
    "a cap says how many of how many": (
        nosocomial_run,
        {"counts__flagged": 96},
        ["15 more are flagged and listed only in flagged.csv: 81 of 96 shown"],
        [],
    ),
    "observed figures stand with the validation estimate": (
        nosocomial_run,
        {"evaluation": {"yes": observed(**SEEN, n_positive=24, n_negative=216)}},
        [
            "24 cases, 216 others",
            "Sensitivity 88% 69–96% 91%",
            "PPV 12% 8–19%",
            "PPV and NPV depend on the prevalence: 10% tonight",
        ],
        [],
    ),
    "those judged before are no work of this night": (
        nosocomial_run,
        {
            COHORT + "capacity": 5,
            COHORT + "minutes_per_review": 10,
            "counts__cases": 81,
            "counts__new": 2,
            "counts__pending": 1,
            "counts__ruled_out": 78,
            "counts__no_longer_flagged": 0,
        },
        ["3 patients to review about 30 minutes"],
        ["but capacity is"],
    ),
    "a count that chance brings is a line and no alarm": (
        nosocomial_run,
        {COHORT + "capacity": 75},
        ["81 patients to review about 8.1 hours; capacity 75 reviews a night"],
        ["but capacity is"],
    ),
    "a patient of one row is a case": (
        nosocomial_run,
        {},
        [" of 100 cases are missed"],
        ["positive rows"],
    ),
    "of several rows a patient the promise is of rows": (
        nosocomial_run,
        {POINT + "n_groups": 60},
        [" of 100 positive rows are missed"],
        [],
    ),
    "finding all past cases is no promise to miss none": (
        nosocomial_run,
        {POINT + "figures__sensitivity": estimate(1.0, 0.95, 1.0)},
        [
            "Expected sensitivity 100% (95% CI 95–100%): this does not mean that none is missed."
        ],
        ["about 0 of 100"],
    ),
    "how old the patients behind the threshold are": (
        nosocomial_run,
        {"model__training__window": ["2025-01-01", "2025-12-01"], "date": "2026-03-01"},
        ["from 2025-01-01 to 2025-12-01; the last is 90 days older than this night."],
        [],
    ),
    "a term without use is not explained": (
        nosocomial_run,
        {"model__machine__passes": [{}], "model__validation__calibration": {}},
        [],
        ["A geometric term, unrelated", "calibrated probability of the condition"],
    ),
    "back with an old verdict is new again": (
        nosocomial_run,
        {
            "cases__0__state": "new",
            "cases__0__nights": 1,
            "cases__0__last_verdict": {"night": "2026-01-27", "verdict": "ruled out"},
        },
        ["new again, ruled out on 2026-01-27"],
        [],
    ),
    "workload is counted in patients, beyond those shown too": (
        voxel_run,
        {
            "groups_total": 900,
            "groups_flagged": 450,
            COHORT + "capacity": 100,
            COHORT + "minutes_per_review": 2,
        },
        [
            "in 450 of 900 patients",
            "about 15.0 hours",
            "450 patients flagged, but capacity is 100 reviews a night",
        ],
        [],
    ),
    "a resolution too coarse for any discovery is a warning": (
        appraised_run,
        {"discoveries__found": 0, "discoveries__p_cut": None},
        ["Insufficient resolution: 608 negatives resolve"],
        [],
    ),
    "an estimate at the end of its scale says its interval": (
        appraised_run,
        {"prevalence_estimate": estimate(0.0, 0.0, 0.33)},
        [
            "Judging only by the share flagged, between 0% and 33% of tonight’s rows have the condition"
        ],
        [],
    ),
    "every block": (
        appraised_run,
        {},
        [
            "Of 240 rows screened, some look rare by chance alone. "
            "7 remain rare after correction: p at most 0.003",
            "The mark describes rarity only; the list follows the threshold (80 flagged)",
            "rows score as those of training did when they were held out",
            "5.0% half as common 10% 5–15% 98% 95–99% 10.0 30.0",
            "10% as stated 20% 10–30% 98% 95–99% 5.0 30.0",
            "20% twice as common 40% 20–60% 98% 95–99% 2.5 30.0",
            "Brier score",
            "by logistic regression on held-out scores (Platt). Log loss",
            "sex female 300 31 90% 28 of 31 75–97% 60% 161 of 269 50–70% 45% 99 40%",
            "missing suppressed suppressed suppressed",
            "other – – – – – 12 50%",
            "Everything, threshold included, was chosen again on 480 rows before 2025-09-01",
            "Sensitivity 84% 60–95%",
            "0.41 0.20 2.0%",
            "shifted",
            "2 of 900 voxels flagged (0.2%) 1 connected cluster among the flagged voxels",
            "which lie apart by x 1, y 1, z 3.5 in the table’s own units",
            "Judging only by the share flagged, about 12% (2–22%) of tonight’s rows have the condition (95% interval)",
            "Chance 34%",
        ],
        ["Insufficient resolution"],
    ),
}


@pytest.mark.parametrize(
    ("made", "changes", "said", "unsaid"), NIGHTS.values(), ids=NIGHTS
)
def test_page_of_a_night_says(made, changes, said, unsaid):
    run = judged(changed(made(), **changes))
    text = Outline(render_run(run)).text
    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []


def test_rare_classes_come_first_and_recall_stands_with_precision():
    """A pruned model shows what the removals cost."""
    text = Outline(render_model(voxel_model())).text
    classes = text[text.index("Classes rare classes first") :]
    path = [
        [12.0, 16.2, 0.25, 0.04],
        [6.0, 11.8, 0.5, 0.065],
        [22.0, 9.4, 0.8359, 0.0882],
    ]
    passes = [{}, {"pruning_path": path}]
    pruned = render_model(changed(nosocomial_model(), machine__passes=passes))

    assert (
        classes.index("G4+3")
        < classes.index("G4+4")
        < classes.index("PZ")
        < classes.index("CG")
    )
    assert re.search(r"G4\+3 watched 310 1\.1% 86% 79–91% 80%", classes)
    for words in (
        "Support vectors removed",
        "3 support vectors of the larger class removed",
        "went from 25",
    ):
        assert words in pruned


def with_one_value(
    value: str, normalise: str | None = None, **ranges: list[float]
) -> str:
    run = nosocomial_run()
    run["model"]["contract"]["features"] = {
        "crp": {"type": "number", "normalise": normalise}
    }
    run["cases"] = run["cases"][:1]
    shown = {
        "feature": "crp",
        "value": value,
        "unit": "mg/L",
        "direction": "raises",
        "change": 0.3,
    }
    run["cases"][0]["contributions"] = [shown | ranges]
    run["near_misses"] = []
    page = render_run(run)
    (listed,) = re.findall(r"<ul class=v>(.*?)</ul>", page, re.DOTALL)
    text = re.sub(r"<[^>]+>", "", listed)
    return " ".join(text.split())


WITHIN = {"reference": [0, 10]}


@pytest.mark.parametrize(
    ("value", "ranges", "words"),
    [
        ("237.0", WITHIN, "237 mg/L H reference 0–10"),
        ("missing", WITHIN, "missing"),
        ("-1", WITHIN, "−1 mg/L L reference 0–10"),
        ("10", WITHIN, "10 mg/L reference 0–10"),
        ("237", {"seen": [0, 10]}, "237 mg/L above past patients 0–10"),
        ("-1", {"seen": [0, 10]}, "−1 mg/L below past patients 0–10"),
        (
            "480",
            {"reference": [0, 5], "seen": [2.95, 480]},
            "480 mg/L H reference 0–5",
        ),
        ("480", {"seen": [2.95, 480]}, "480 mg/L past patients 2.95–480"),
        ("345.8", {"normalise": "within_group", "seen": [0, 10]}, "345.8 mg/L"),
        ("yes", {"alike": 0.03}, "yes mg/L present in 3.0% of past patients"),
        ("no", {"alike": 0.97}, "no mg/L absent in 97% of past patients"),
    ],
)
def test_a_value_stands_beside_its_range_and_outside_of_it_says_so(
    value, ranges, words
):
    assert with_one_value(value, **ranges) == f"crp {words} ▲ +0.300"


def test_class_without_threshold():
    """A class that no threshold singles out is said aloud and draws no endless axis."""
    run = voxel_run()
    (point, *_) = run["model"]["operating_points"]
    point["threshold"] = -1e12
    point["figures"] |= {
        "sensitivity": estimate(1.0),
        "specificity": estimate(0.0),
        "flag_rate": estimate(1.0),
    }
    run["cases"][0]["score"] = 1e12
    page = render_run(judged(run))
    script, *_ = Outline(page).raw["script"]
    slider = json.loads(script)

    assert "No threshold meets the rule for G4+3: every row is flagged" in page
    assert "Every row is flagged: with so few past cases" in page
    assert "000000000000" not in re.sub(
        r"<script.*?</script>|data-score=\S+", "", page, flags=re.S
    )
    assert -10 < slider["low"] < slider["high"] < 10


def test_one_row_is_in_use():
    """Of several prevalences the stated one; of the rules the model's, though another
    has its threshold.
    """
    prevalence = r'<tr class="used"><th scope="row"><b>[^<]*</b> ([a-z ]+)</th>'
    model = appraised(nosocomial_model())
    points = model["validation"]["points"]["yes"]
    points[4]["threshold"] = points[1]["threshold"]
    page = render_model(model)
    assert re.findall(prevalence, page) == ["as stated"]
    assert re.findall(r'">([^<]*) <span class="tag">in use</span>', page) == [
        "sensitivity at least 90%"
    ]


def test_completeness_asks_for_what_the_contract_leaves_out():
    """Answer and note of each item of the record on a model's page."""
    row = r'<tr><td>[^<]*</td><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td></tr>'

    def rows_of(document):
        rows = re.findall(row, render_model(document))
        return {item: (answer, note) for item, answer, note in rows}

    model = appraised(nosocomial_model())
    less = changed(
        appraised(nosocomial_model()),
        contract__cohort__intended_use=None,
        validation__subgroups={},
    )
    rows = rows_of(model)
    short = rows_of(less)

    purpose = "Context, target population, purpose"
    subgroups = "Heterogeneity between subgroups"
    assert rows[purpose][0] == rows[subgroups][0] == "stated"
    assert short[purpose][1] == "needs intended_use in the contract"
    assert short[subgroups][1] == "needs subgroup in the contract"
    assert rows["Fairness"][0] == rows["Characteristics of participants"][0] == "partly"
    assert rows["Participants and outcome events in each analysis"][0] == "stated"
    statuses = {status for status, _ in rows.values()}
    assert statuses == {"stated", "partly", "not stated"}


@given(st.floats(1e-6, 1.0))
def test_ticks_in_per_cent_can_be_told_apart(largest):
    axes = Axes("a", "x", "y", y=(0, largest), as_percent=(False, True))
    words = [tick.text for tick in axes.y_ticks]
    assert len(set(words)) == len(words) > 1
    assert all(word.endswith("%") for word in words)


@given(st.text(max_size=300))
def test_text_is_visible_and_can_be_written_as_utf8(value):
    written = fmt.text(value)
    written_characters = written.replace("\n", "")
    assert not {unicodedata.category(c) for c in written_characters} & {
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "Zl",
        "Zp",
    }
    assert written.encode("utf-8").decode("utf-8") == written


ORDINAL = FeatureDeclaration(type="ordinal", categories=["none", "some", "much"])


def rule(given: tuple) -> str:
    name, value, confidence = (*given, None, None)[:3]
    return fmt.rule(rule_named(name, value=value, confidence=confidence))


def in_words(given: tuple) -> str:
    return value_text(*given)


@pytest.mark.parametrize(
    ("write", "value", "figure"),
    [
        (fmt.number, 227.512, "227.5"),
        (fmt.number, -3.0, "−3"),
        (fmt.number, 123456.7, "123,457"),
        (fmt.number, None, "–"),
        (fmt.percent, 0.0, "0%"),
        (fmt.percent, 0.021, "2.1%"),
        (fmt.percent, 0.9996, "99.96%"),
        (fmt.percent, 1, "100%"),
        (fmt.p_value, 0.0, "<0.0001"),
        (fmt.p_value, 0.08, "0.080"),
        (fmt.value_range, [0, 10], "0–10"),
        (fmt.value_range, [None, 5], "≤ 5"),
        (fmt.value_range, None, ""),
        (fmt.count, 1234567, "1,234,567"),
        (fmt.name, "a\nb", "a b"),
        (fmt.unit, "degC", "°C"),
        (fmt.unit, "10^9/L", "10⁹/L"),
        (fmt.unit, "m^-2", "m⁻²"),
        (fmt.unit, "mg/L", "mg/L"),
        (fmt.unit, None, ""),
        (fmt.ci, Estimate(None, 0.84, 0.951), "84–95%"),
        (fmt.ci, Estimate(None, 0.9991, 0.99996), "99.9–100.0%"),
        (fmt.ci, Estimate(None, 0.9971, 0.9994), "99.7–99.9%"),
        (fmt.ci, Estimate(None, 1, 1), "100–100%"),
        (in_words, (1.0, FeatureDeclaration(type="boolean")), "yes"),
        (in_words, (0, FeatureDeclaration(type="boolean")), "no"),
        (in_words, (2.0, ORDINAL), "much"),
        (in_words, (7.0, ORDINAL), "7"),
        (in_words, (None, FeatureDeclaration()), "missing"),
        (rule, ("min_sensitivity", 0.9), "sensitivity at least 90%"),
        (
            rule,
            ("min_sensitivity", 0.9, 0.95),
            "sensitivity at least 90%, with 95% confidence",
        ),
        (rule, ("max_flag_rate", 0.1), "at most 10 flags per 100 rows"),
        (rule, ("miss_cost", 20.0), "one missed case costs as much as 20 reviews"),
        (rule, ("g_mean",), "largest geometric mean of sensitivity and specificity"),
    ],
)
def test_figures_are_written_as_a_reader_expects(write, value, figure):
    assert write(value) == figure


def compared(
    auroc: float = 0.05,
    specificity: float = 0.1,
    half: float = 0.03,
    by_cases: float = 0.0,
) -> dict[str, Any]:
    model = appraised(nosocomial_model())
    rule = model["operating_points"][0]["rule"]
    figures = {
        "auroc": estimate(0.85),
        "sensitivity": estimate(0.92),
        "specificity": estimate(0.7),
    }
    others = {"auroc": estimate(0.85 - auroc), "sensitivity": estimate(0.9)}
    gaps = {
        "auroc": (auroc, half),
        "specificity": (specificity, half),
        "sensitivity": (0.0, by_cases),
    }
    differences = {
        name: estimate(gap, gap - half, gap + half)
        for name, (gap, half) in gaps.items()
    }
    beside = [
        {
            "recipe": name,
            "title": name,
            "differences": differences,
            "figures": others | {"specificity": estimate(0.7 - specificity - below)},
        }
        for name, below in (("svm", 0.1), ("logistic", 0.0))
    ]
    comparison = {
        "rules": [rule],
        "rule": rule,
        "n_watched": 1,
        "figures": figures,
        "beside": beside,
    }
    return changed(model, validation__comparison=comparison)


def verdict(model: dict[str, Any]):
    return usefulness_of(ModelDocument.from_dict(model))


def test_model_no_better_than_other():
    """A model no better than another says so and one that is worse is refused.

    One that leads is useful; one beside which nothing was trained is not shown to be
    useful.
    """
    level = compared(0.0, 0.0)
    worse = compared(-0.1, -0.1)
    alone = appraised(nosocomial_model())
    leading = verdict(compared())
    useful = verdict(level)
    useless = verdict(worse)
    unshown = verdict(alone)
    attention = [
        [each.code for each in attention_of_model(ModelDocument.from_dict(one))]
        for one in (level, worse)
    ]

    assert leading.verdict == "yes"
    assert leading.against == (())
    assert leading.words.endswith(
        "By AUROC and sensitivity + specificity it is better than logistic, the best "
        "of 2 other methods compared."
    )
    assert "logistic, the best of 2 other methods, on the same folds" in render_model(
        compared()
    )
    assert useful.verdict == "yes"
    assert useful.words.startswith("Supported by local validation: its flags are ")
    assert (
        "It is not shown to be better than logistic, the best of 2 other methods "
        "compared. Differences: AUROC 0.000 (95% CI " in useful.words
    )
    assert ", sensitivity + specificity 0.0 points (95% CI " in useful.words
    assert useless.verdict == "no"
    assert useless.against[0].code == "another_is_better"
    assert useless.against[0].remedy == "Train with --recipe logistic."
    assert attention == [[], ["another_is_better", "not_fit_for_use"]]
    assert unshown.verdict == "not shown"
    assert [each.code for each in unshown.against] == ["not_compared"]


@given(
    auroc=st.floats(-0.3, 0.3),
    specificity=st.floats(-0.2, 0.2),
    half=st.floats(0.001, 0.3),
)
def test_no_interval_that_holds_zero_makes_one_method_better(auroc, specificity, half):
    usefulness = verdict(compared(auroc, specificity, half))
    leads = auroc - half > 0 or specificity - half > 0
    trails = auroc + half < -MIN_CERTAIN_LEAD or specificity + half < -MIN_CERTAIN_LEAD
    assert (usefulness.verdict == "no") == (trails and not leads)
    assert ("not shown to be better" in usefulness.words) == (not leads and not trails)
    is_named = "AUROC" in usefulness.words and "sensitivity" in usefulness.words
    assert is_named == (usefulness.verdict == "yes")


@pytest.mark.parametrize(
    ("gaps", "answer"),
    [
        ((0.0, -0.03, 0.01, 0.005), "no"),
        ((0.0, -0.03, 0.01, 0.03), "yes"),
        ((-0.004, -0.004, 0.001), "yes"),
    ],
    ids=[
        "surely worse",
        "other cases would move the thresholds",
        "surely, by next to nothing",
    ],
)
def test_specificity_uncertain(gaps, answer):
    """A specificity that other cases or next to nothing would change makes no model
    unfit."""
    assert verdict(compared(*gaps)).verdict == answer


def test_of_two_equally_good_methods_hardly_one_is_called_unfit():
    """Each has its threshold from its own cases: by the negatives alone one in four was
    worse for sure.
    """
    rng = default_rng(1)
    unfit = 0
    rule = MinSensitivity(0.9)
    for _ in range(60):
        ill = rng.random(3000) < 0.15
        shared = ill + 0.8 * rng.normal(size=3000)
        both = []
        for _ in range(2):
            scores = shared + 0.5 * rng.normal(size=3000)
            both.append(outcome(scores, ill, rule=rule))
        other = Beside(
            recipe="other",
            title="other",
            figures=both[1].means,
            differences=method_differences(*both),
        )
        unfit += any(
            beaten_by_other(
                BesideFacts(
                    rules=[rule], rule=rule, n_watched=1, figures={}, beside=[other]
                )
            )
        )

    assert unfit <= 3


@pytest.mark.parametrize(
    ("change", "code", "answer"),
    [
        ({"figures__sensitivity": {"value": 0.0}}, "own_cases_not_flagged", "no"),
        ({"threshold": -1e300}, "flags_everything", "no"),
        ({"figures__ppv": {"low": 0.05}}, "flags_like_chance", "not shown"),
        ({"n_positive": 12}, "too_few_cases", "not shown"),
        (
            {"figures__sensitivity": {"low": 0.5, "high": 0.95}},
            "intervals_too_wide",
            "not shown",
        ),
    ],
)
def test_what_makes_a_model_doubtful_is_said(change, code, answer):
    model = compared()
    (point,) = model["operating_points"]
    changed(point, **change)
    validation = model["validation"]
    predictive = validation["predictive"]["yes"]
    for figures in (*validation["subgroups"]["yes"], predictive):
        figures["threshold"] = point["threshold"]
    model["attention"] = [
        vars(reason) for reason in attention_of_model(ModelDocument.from_dict(model))
    ]
    usefulness = verdict(model)

    assert usefulness.verdict == answer
    assert code in [each.code for each in usefulness.against]


def test_the_verdict_is_the_first_thing_on_the_page_with_one_picture():
    """A line for the capacity where there is one, of rows where these are not of
    groups; else why not.
    """
    page = render_model(compared())
    without = render_model(changed(compared(), contract__cohort__capacity=None))
    grouped = render_model(changed(compared(), validation__grouped=True))
    line = r"capacity, night of [\d,]+ rows"

    headings = re.findall(r'<h2 id="([a-z]+)"', page)
    assert headings[:2] == ["useful", "operating"]
    assert verdict(compared()).words in Outline(page).text
    assert page.count('id="useful-t"') == 1
    pages = (page, without, grouped)
    assert [bool(re.search(line, each)) for each in pages] == [
        True,
        False,
        False,
    ]
    assert "states no capacity" in without
    assert "Capacity counts patients and flags count rows" in grouped


def test_decision_curve_mark():
    """The decision curve marks the threshold in use with its net benefit."""
    model = appraised(nosocomial_model())
    known = ModelDocument.from_dict(model)
    calibration = known.validation.calibration["yes"]
    threshold = np.array([known.points[0].threshold])
    at = probability_intervals(calibration, threshold)[0][0]
    text = Outline(render_model(model)).text
    assert (
        "The threshold in use (circle) suits a ward where a review is worth its effort from a chance of"
        in text
    )
    assert f"one case found per {(1 - at) / at:.1f} unnecessary reviews" in text


def test_participants_and_events_of_each_analysis_add_up():
    document = appraised(nosocomial_model())
    (point,) = document["operating_points"]
    row = (
        r'<tr><th scope="row"><bdi>([^<]*)</bdi></th>'
        + r'<td class="n">([^<]*)</td>' * 4
    )
    page = render_model(document)
    rows = {name: figures for name, *figures in re.findall(row, page)}
    (held_out,) = [
        figures for name, figures in rows.items() if name.startswith("Development")
    ]

    assert int(held_out[0]) == point["n_positive"] + point["n_negative"]
    assert int(held_out[2]) == point["n_positive"]
    assert rows["Temporal validation, tested from that day on"][:3] == [
        "203",
        "–",
        "20",
    ]
    assert rows["sex: missing"][2] == "–"
