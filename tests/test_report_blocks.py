"""Blocks of the page below the list: what they say, what they withhold, and that no text in them can act."""

import re
from typing import Any

import numpy as np
import pytest
from report_fixture import KEPT, estimate, hostile, judged, nosocomial_model, nosocomial_run
from report_voxel_fixture import voxel_run
from test_report import Outline

from screening.imaging.voxels import as_base64, palette_png, ramp
from screening.metrics.calibration import calibrate
from screening.report import render_model, render_run
from screening.report.performance import pruning_chart
from screening.schemas.model import ModelDocument


def appraised(model: dict[str, Any], label: str = "yes") -> dict[str, Any]:
    """A model document with every block that training can add."""
    rng = np.random.default_rng(0)
    positive = rng.random(1500) < 0.2
    level = {
        "level": "female", "n": 300, "events": 31, "few": [],
        "sensitivity": estimate(0.9, 0.75, 0.97), "specificity": estimate(0.6, 0.5, 0.7),
        "flag_rate": 0.45,
    }  # fmt: skip
    few = level | {
        "level": None, "n": None, "events": None, "few": ["n", "events", "sensitivity", "flag_rate"],
    }  # fmt: skip
    prevalences = [
        {"prevalence": p, "ppv": estimate(2 * p, p, 3 * p), "npv": estimate(0.98, 0.95, 0.99),
         "nne": estimate(0.5 / p, 0.4 / p, 0.6 / p), "flag_rate": estimate(0.3, 0.2, 0.4)}
        for p in (0.05, 0.1, 0.2)
    ]  # fmt: skip
    (point,) = model["operating_points"]
    of_rule = {name: point[name] for name in ("rule", "threshold")}
    model["validation"] |= {
        "subgroups": {
            label: [of_rule | {"column": "sex", "edges": None, "known": ["female"], "rows": [level, few]}]
        },
        "predictive": {label: of_rule | {"source": "given", "rows": prevalences}},
        "calibration": {
            label: calibrate(
                rng.normal(size=1500) + 1.5 * positive, positive, rng.integers(0, 5, 1500), 0.2
            ).to_dict()
        },
        "forward": {
            "cut": "2025-09-01", "n_past": 480, "n_later": 203, "reason": None,
            "classes": {
                label: {"rule": point["rule"], "threshold": 0.1, "n_positive": 20, "n_negative": 183,
                        "sensitivity": estimate(0.84, 0.6, 0.95), "specificity": estimate(),
                        "auroc": estimate()}
            },
        },
    }  # fmt: skip
    return model


def appraised_run() -> dict[str, Any]:
    run = nosocomial_run()
    appraised(run["model"])
    picture = as_base64(palette_png(np.ones((2, 3), np.uint8), ramp([(0, 0, 0), (9, 9, 9)], 3)))
    slices = [
        {"at": 4.0, "voxels": 6, "flagged": 2, "width": 3, "height": 2, "overlay": picture, "heat": picture}
    ]
    cluster = {
        "label": "yes",
        "millimetres": None,
        "voxels": 2,
        "centre": [1, 2, 4],
        "low": [1, 2, 4],
        "high": [1, 2, 4],
        "top_score": 0.7,
    }
    patient = {"group": "P1", "voxels": 900, "flagged": 2, "n_clusters": 1, "clusters": [cluster]}
    patient["slices"] = slices
    run |= {
        "discoveries": {"q": 0.1, "per": "row", "n_screened": 240, "n_calibration": 608, "p_cut": 0.003,
                        "found": 7, "flagged": 80, "warning": "608 negatives resolve p-values to 0.0016"},
        "drift": {"unit": "row", "known": [15] * 20, "counted": [9] * 20, "distance": 0.02, "p": 0.8},
        "subgroups": [{"column": "sex", "level": "female", "n": 99, "flag_rate": 0.4},
                      {"column": "sex", "level": None, "n": None, "flag_rate": None},
                      {"column": "sex", "level": "other", "n": 12, "flag_rate": 0.5}],
        "prevalence_estimate": {"value": 0.12, "low": 0.02, "high": 0.22},
        "voxels": {"axes": ["x", "y", "z"], "step": [1, 1, 3.5], "base": "ADC", "scale": [-1, 2],
                   "colours": {"yes": "#ffe100"},
                   "patients_total": 1, "patients_flagged": 1, "patients": [patient]},
    }  # fmt: skip
    run["data"][0] |= {
        "psi": 0.41, "ks": 0.2, "outside": 0.02, "unseen": 0, "alarm": True, "normalised": False,
    }  # fmt: skip
    run["cases"][0] |= {"discovery": True, "chance": estimate(0.34)}
    return run


@pytest.fixture(scope="module")
def text():
    return Outline(render_run(appraised_run())).text


@pytest.mark.parametrize(
    "said",
    [
        "Of 240 rows screened, some look rare by chance alone. 7 are rare even so: p at most 0.003",
        "The mark is a note on rarity; the list follows the threshold (80 flagged)",
        "rows score as those of training did when they were held out",
        "5.0% half as common 10% 5–15% 98% 95–99% 10.0 30.0", "10% as stated 20% 10–30% 98% 95–99% 5.0 30.0",
        "20% twice as common 40% 20–60% 98% 95–99% 2.5 30.0", "Brier score",
        "by logistic regression on held-out scores (Platt). Log loss",
        "sex female 300 31 90% 75–97% 60% 50–70% 45% 99 40%", "missing suppressed suppressed suppressed",
        "Everything, threshold included, was chosen again on 480 rows before 2025-09-01",
        "Sensitivity 84% 60–95%", "0.41 0.20 2.0%", "shifted",
        "2 of 900 voxels flagged (0.2%) 1 connected cluster among the flagged voxels",
        "which lie apart by x 1, y 1, z 3.5 in the table’s own units",
        "By the share flagged alone, about 12% (2–22%) of tonight’s rows have the condition (95% interval)",
        "Chance 34%",
    ],
)  # fmt: skip
def test_the_page_says_what_the_run_holds(text, said):
    assert said in text


def test_a_level_unknown_to_training_stands_among_the_others_without_past_figures(text):
    assert re.search(r"other – – – – – 12 50%", text)


def test_a_resolution_too_coarse_for_any_discovery_is_a_warning_and_else_silent(text):
    run = appraised_run()
    run["discoveries"] |= {"found": 0, "p_cut": None}

    assert "Insufficient resolution" not in text
    assert "Insufficient resolution: 608 negatives resolve" in Outline(render_run(run)).text


def test_elements_close_and_every_chart_and_picture_has_its_words():
    outline = Outline(render_run(appraised_run()))
    ids = [a["id"] for _, a in outline.elements if "id" in a]

    assert outline.open == []
    assert len(set(ids)) == len(ids)
    charts = [chart for chart in outline.all("svg") if "role" in chart]
    assert all(set(str(chart["aria-labelledby"]).split()) <= set(ids) for chart in charts)
    assert [bool(image["alt"]) for image in outline.all("img")] == [True, True]


def test_only_pages_with_pictures_allow_them_and_only_from_within():
    def policy(html: str) -> str:
        return re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]

    assert "img-src data:" in policy(render_run(appraised_run()))
    assert "img-src" not in policy(render_run(nosocomial_run()))


def test_hostile_text_in_these_blocks_is_shown_and_never_acts():
    kept = frozenset({*KEPT, "overlay", "heat", "method", "log_loss", "predictive", "per", "unit"})
    calm, attacked = (Outline(render_run(run)) for run in (appraised_run(), hostile(appraised_run(), kept)))
    tags = ("script", "img", "style", "iframe", "table", "tr")

    assert [len(calm.all(tag)) for tag in tags] == [len(attacked.all(tag)) for tag in tags]
    assert attacked.open == []
    assert "female<img src=x onerror=alert(1)>" in attacked.text


@pytest.mark.parametrize(
    ("block", "empty"), [("subgroups", {}), ("predictive", {}), ("calibration", {}), ("forward", None)]
)
def test_any_block_may_be_empty(block, empty):
    run = appraised_run()
    run["model"]["validation"][block] = empty

    assert render_run(run).endswith("</html>\n")


def test_of_three_prevalences_the_stated_one_is_marked_as_in_use():
    used = re.findall(
        r'<tr class="used"><th scope="row"><b>[^<]*</b> ([a-z ]+)</th>', render_run(appraised_run())
    )

    assert used == ["as stated"]


def completeness(model: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Answer and note of each item that the table on a model's page asks for."""
    row = r'<tr><td>[^<]*</td><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td></tr>'
    return {asked: (answer, note) for asked, answer, note in re.findall(row, render_model(model))}


def test_completeness_asks_for_what_the_contract_leaves_out():
    model = appraised(nosocomial_model())
    rows = completeness(model)
    model["contract"]["cohort"]["intended_use"] = None
    model["validation"]["subgroups"] = {}
    less = completeness(model)

    assert rows["Context, target population, purpose"][0] == "stated"
    assert less["Context, target population, purpose"][1] == "needs intended_use in the contract"
    assert rows["Heterogeneity between subgroups"][0] == "stated"
    assert less["Heterogeneity between subgroups"][1] == "needs subgroup in the contract"
    assert rows["Fairness"][0] == "partly"
    assert rows["Participants and outcome events in each analysis"][0] == "stated"
    assert rows["Characteristics of participants"][0] == "partly"
    assert {status for status, _ in rows.values()} == {"stated", "partly", "not stated"}


def test_workload_is_counted_in_patients_where_rows_are_grouped_even_beyond_those_shown():
    run = voxel_run() | {"groups_total": 900, "groups_flagged": 450}
    run["model"]["contract"]["cohort"] |= {"capacity": 100, "minutes_per_review": 2}
    text = Outline(render_run(judged(run))).text

    assert "in 450 of 900 patients" in text
    assert "about 15.0 hours" in text
    assert "450 patients flagged, but capacity is 100 reviews a night" in text


PATH = [[12.0, 16.2, 0.25, 0.04], [6.0, 11.8, 0.5, 0.065], [22.0, 9.4, 0.8359, 0.0882]]


def model_with(path: object) -> dict:
    model = nosocomial_model()
    model["machine"]["passes"] = [{}, {"pruning_path": path}]
    return model


def test_pruned_model_shows_what_the_removals_cost():
    page = render_model(model_with(PATH))

    assert "Support vectors removed" in page
    assert "3 support vectors of the larger class removed" in page
    assert "went from 25" in page
    assert len(pruning_chart(ModelDocument.from_dict(model_with(PATH))).lines) == 2
