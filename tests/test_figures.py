"""A figure is one entry: what it needs, what it is, how it enters and leaves."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import small_pages
from hung import HUNG_SECONDS
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from report_fixture import appraised, nosocomial_model
from scipy.stats import norm
from written_files import read_json

import screening
from screening.metrics.calibration import decision_curve
from screening.metrics.evaluated_rows import EvaluatedRows, weights_of_table
from screening.metrics.figures import (
    FIGURES,
    SHARE,
    Form,
    Rates,
    Table,
    evaluate,
    evaluate_differences,
    evaluate_rates,
    evaluate_samples,
    figure,
    figures_in,
    gain,
)
from screening.metrics.intervals import share_range
from screening.metrics.operating_point import choose
from screening.metrics.outcomes import rates_of
from screening.metrics.paired import ResampledRows, drawn_weights
from screening.metrics.performance import figures_at_prevalence
from screening.metrics.subgroups import performance_by_subgroup
from screening.report.comparison import differences
from screening.report.page import render_model
from screening.report.verdict import beaten_by_other
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import MinSensitivity
from screening.schemas.validation import Beside, BesideFacts

NET_BENEFIT = FIGURES["net_benefit"]
LIKELIHOOD_RATIOS = ("positive_likelihood_ratio", "negative_likelihood_ratio")
ENTERED_BY_FILE = {
    "likelihood_ratios": LIKELIHOOD_RATIOS,
    "net_benefit": ("net_benefit",),
}
"""Figures by the file that each is in alone."""


def rows_of(hits, misses, false, clear, **options):
    """Return rows with these counts, of which those with score 1 are flagged."""
    counts = [hits, misses, false, clear]
    scores = np.repeat([1.0, 0.0, 1.0, 0.0], counts)
    positive = np.repeat([True, True, False, False], counts)
    return EvaluatedRows(scores, positive, 1.0, **options)


def ratios_of(rows):
    found = evaluate(rows, [FIGURES[name] for name in LIKELIHOOD_RATIOS])
    return [found[name] for name in LIKELIHOOD_RATIOS]


def simel(k, m, j, n):
    """Return k/m over j/n with the interval of Simel et al. (1991), their equation."""
    ratio = k / m / (j / n)
    error = np.sqrt(1 / k - 1 / m + 1 / j - 1 / n)
    return ratio * np.exp(norm.ppf([0.5, 0.025, 0.975]) * error)


def test_likelihood_ratios_are_those_of_simel():
    """On many independent rows the intervals are those of the paper's formula."""
    positive, negative = ratios_of(rows_of(800, 200, 900, 2100))

    of_paper = simel(800, 1000, 900, 3000)
    assert positive.value_and_interval == pytest.approx(of_paper, rel=0.005)
    of_paper = simel(200, 1000, 2100, 3000)
    assert negative.value_and_interval == pytest.approx(of_paper, rel=0.005)


counts = st.integers(1, 200)


@given(counts, counts, counts, counts)
def test_likelihood_ratios_lie_in_their_intervals(hits, misses, false, clear):
    for ratio in ratios_of(rows_of(hits, misses, false, clear)):
        assert 0 < ratio.low < ratio.value < ratio.high


def test_likelihood_ratio_without_false_flags_is_undefined():
    positive, negative = ratios_of(rows_of(20, 5, 0, 40))
    never, _ = ratios_of(rows_of(0, 20, 10, 30))

    assert positive.value is None
    assert negative.value == pytest.approx(0.2)
    assert never.value == never.low == 0
    assert 0 < never.high < 1


def benefit_of(rows):
    return evaluate(rows, [NET_BENEFIT])["net_benefit"]


def wards(seed=0, n_patients=120, chance=0.25):
    """Return rows of patients of several nights each, alike within a patient."""
    rng = default_rng(seed)
    groups = np.repeat(np.arange(n_patients), rng.integers(1, 6, n_patients))
    ill = rng.random(n_patients) < 0.3
    positive = ill[groups]
    level = rng.normal(size=n_patients)[groups]
    scores = level + positive + 0.3 * rng.normal(size=len(groups))
    return EvaluatedRows(scores, positive, 0.8, groups, chance_at_threshold=chance)


def resampled(*methods, n_draws=400):
    """Return net benefits of methods in bootstrap samples of patients, (n_draws,)."""
    found = []
    for rows in methods:
        (weights,) = drawn_weights(len(rows.scores), rows.groups, 1, n_draws)
        samples = ResampledRows(
            rows.scores, rows.positive, rows.flagged, weights, rows.chance_at_threshold
        )
        found.append(evaluate_samples(samples, [NET_BENEFIT])["net_benefit"])
    return found


def test_net_benefit_by_hand():
    """At a chance of 1 in 5, four unnecessary reviews cost as much as one case."""
    rows = rows_of(30, 10, 60, 100, chance_at_threshold=0.2)

    found = benefit_of(rows)

    assert found.value == pytest.approx(30 / 200 - 60 / 200 / 4)
    assert found.low < found.value < found.high
    nobody = benefit_of(rows_of(0, 40, 0, 160, chance_at_threshold=0.2))
    assert nobody == Estimate(0.0)
    harmful = benefit_of(rows_of(1, 39, 100, 60, chance_at_threshold=0.5))
    assert harmful.value < harmful.high < 0


def test_net_benefit_without_a_chance_is_undefined():
    """Scores that are not calibrated have no exchange rate."""
    rates = Rates(*[Estimate(0.5, 0.4, 0.6)] * 3)

    assert benefit_of(rows_of(30, 10, 60, 100)) == UNDEFINED
    assert evaluate_rates(rates, [NET_BENEFIT])["net_benefit"] == UNDEFINED
    of_known = replace(rates, chance_at_threshold=0.2)
    assert evaluate_rates(of_known, [NET_BENEFIT])["net_benefit"].value == 0.1875
    (samples,) = resampled(replace(wards(), chance_at_threshold=None), n_draws=3)
    assert np.isnan(samples).all()


def test_net_benefit_has_the_interval_of_resampled_patients():
    """Patients of several nights are drawn whole; rows alone would be too certain."""
    rows = wards()
    found = benefit_of(rows)
    (draws,) = resampled(rows)
    low, high = np.quantile(draws, [0.025, 0.975])
    alone = benefit_of(replace(rows, groups=None))

    assert found.high - found.low == pytest.approx(high - low, rel=0.1)
    assert found.value == pytest.approx(draws.mean(), abs=0.01)
    assert found.high - found.low > 1.3 * (alone.high - alone.low)


def test_net_benefit_of_a_sample_is_that_of_its_table():
    """Weights give the cases the table's share, as at a stated prevalence."""
    positive = np.arange(400) < 200
    scores = default_rng(0).normal(size=400) + positive
    rows = EvaluatedRows(scores, positive, 0.5, chance_at_threshold=0.1)
    of_table = replace(rows, weight=weights_of_table(positive, 0.05))
    at_prevalence = figures_at_prevalence(rows.sensitivity, rows.specificity, 0.05, 0.1)

    assert benefit_of(of_table).value == pytest.approx(
        at_prevalence["net_benefit"].value
    )


def test_net_benefit_of_rates_is_that_of_many_rows():
    """An operating point joins the intervals of its rates and of the prevalence."""
    rows = rows_of(800, 200, 900, 2100, chance_at_threshold=0.2)
    expected = Rates(
        rows.sensitivity, rows.specificity, share_range(rows.positive), 0.2
    )

    joined = evaluate_rates(expected, [NET_BENEFIT])["net_benefit"]

    of_rows = benefit_of(rows).value_and_interval
    assert joined.value_and_interval == pytest.approx(of_rows, rel=0.01)


def test_net_benefit_of_two_methods_is_paired():
    """The difference is that of the same patients, and changes sign with its sides."""
    rows = wards()
    noise = 0.3 * default_rng(1).normal(size=len(rows.scores))
    others = replace(rows, scores=rows.scores + noise)

    found = evaluate_differences(rows, others, [NET_BENEFIT])["net_benefit"]
    turned = evaluate_differences(others, rows, [NET_BENEFIT])["net_benefit"]

    seen, other = benefit_of(rows), benefit_of(others)
    draws, other_draws = resampled(rows, others)
    low, high = np.quantile(draws - other_draws, [0.025, 0.975])
    assert found.value == pytest.approx(seen.value - other.value)
    assert found.high - found.low == pytest.approx(high - low, rel=0.15)
    assert found.high - found.low < 0.6 * (seen.high - seen.low)
    assert [-found.value, -found.high, -found.low] == pytest.approx(
        turned.value_and_interval
    )


def test_subgroups_have_differences_of_a_benefit_and_no_ratio(monkeypatch):
    """A figure that may be negative is not divided by another."""
    shown = replace(NET_BENEFIT, tables=NET_BENEFIT.tables | {"subgroups"})
    monkeypatch.setitem(FIGURES._filled(), "net_benefit", shown)
    rows = wards(n_patients=400)
    levels = {"part": np.where(rows.groups % 2, "a", "b").astype(object)}

    (facts,) = performance_by_subgroup(levels, rows)

    for level in facts.rows:
        assert "net_benefit" not in level.ratio_to_the_rest
        difference = level.to_the_rest["net_benefit"]
        assert difference.low < difference.value < difference.high
    without = replace(rows, chance_at_threshold=None)
    (of_uncalibrated,) = performance_by_subgroup(levels, without)
    assert [level.few for level in of_uncalibrated.rows] == [[], []]
    document = appraised(nosocomial_model())
    (column,) = document["validation"]["subgroups"]["yes"]
    column["rows"] = [level.to_dict() for level in facts.rows]
    page = render_model(document)
    cells = re.findall(r'data-is="Net benefit" data-seen="([^"]*)"', page)
    assert cells == ["", ""]


def test_net_benefits_at_two_exchange_rates_have_no_difference():
    one, another = wards(chance=0.2), wards(chance=0.3)

    found = evaluate_differences(one, another, [NET_BENEFIT])

    assert found["net_benefit"] == UNDEFINED


def test_decision_curve_is_the_net_benefit_at_each_chance():
    """A chance is the threshold of the curve, and the exchange rate of its reviews."""
    rng = default_rng(0)
    p = rng.uniform(size=300)
    positive = rng.random(300) < p

    curve = decision_curve(p, positive, np.ones(300))

    pairs = list(zip(curve.threshold, curve.model, strict=True))
    for chance, benefit in pairs[::13]:
        rows = EvaluatedRows(p, positive, chance, chance_at_threshold=chance)
        assert benefit == pytest.approx(benefit_of(rows).value)


def test_operating_point_has_the_ratios_of_its_rates():
    """They are of the rates expected of new rows, not of those of the held-out ones."""
    rng = default_rng(0)
    positive = rng.random(400) < 0.3
    point = choose(rng.normal(size=400) + positive, positive, MinSensitivity(0.9))

    ratio = point["positive_likelihood_ratio"]
    sensitivity = point["sensitivity"].value
    assert ratio.value == sensitivity / (1 - point["specificity"].value)
    assert ratio.low < ratio.value < ratio.high


def test_a_figure_is_undefined_without_what_it_needs():
    """Without cases, others, chances, or with fewer than the smallest cell."""
    figures = figures_in("subgroups")
    no_case = evaluate(rows_of(0, 0, 10, 30), figures)
    few = evaluate(rows_of(2, 2, 10, 30, min_units=5), figures)

    # Of flagged rows, none is a case: that is a PPV, but tells how few cases are.
    met = {"rows", "others", "flagged", "unflagged"}
    for found, needs in ((no_case, met | {"class_sizes"}), (few, met)):
        defined = {name for name, each in found.items() if each.value is not None}
        assert defined == {each.name for each in figures if each.needs <= needs}
        assert defined >= {"specificity", "flag_rate"}
    assert no_case["ppv"].value == 0
    assert few["ppv"] == UNDEFINED


def heads_in(page):
    """Return the heads of a page's tables and figures."""
    return set(re.findall(r"<(?:th|dt)\b[^>]*>\s*([^<]*?)\s*<", page.read_text()))


def test_a_figure_goes_out_with_its_file(tmp_path, monkeypatch):
    """Without it a model is trained, validated and compared, and no page has it."""
    package = Path(screening.__file__).parent
    copied = shutil.copytree(package, tmp_path / "screening")
    for name in ENTERED_BY_FILE:
        (copied / f"metrics/figures/{name}.py").unlink()
    whole = tmp_path / "whole"
    whole.mkdir()

    subprocess.run(
        [sys.executable, small_pages.__file__],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=True,
        timeout=HUNG_SECONDS,
    )
    monkeypatch.chdir(whole)
    small_pages.main()

    gone = [figure for names in ENTERED_BY_FILE.values() for figure in names]
    titles = {FIGURES[name].title for name in gone}
    assert read_json(tmp_path / "figures.json") == [
        name for name in FIGURES if name not in gone
    ]
    for kind in small_pages.KINDS:
        heads = heads_in(whole / f"{kind}.html")
        assert titles < heads
        assert heads_in(tmp_path / f"{kind}.html") == heads - titles
        document = (tmp_path / f"{kind}.json").read_text()
        assert not [name for name in gone if f'"{name}"' in document]
    chart = "Net benefit, difference from the control"
    assert chart in (whole / "comparison.html").read_text()
    assert chart not in (tmp_path / "comparison.html").read_text()


def test_direction_of_a_figure_decides_what_is_better(monkeypatch):
    """A method with the higher figure is worse if an entry has it that way round."""
    higher = Estimate(0.2, 0.1, 0.3)
    rule = MinSensitivity(0.9)
    other = Beside(
        recipe="other",
        title="other",
        figures={"sensitivity": Estimate(0.9)},
        differences={"auroc": higher},
    )
    compared = BesideFacts(rules=[rule], rule=rule, n_watched=1, beside=[other])

    assert gain("auroc", higher) == gain("macro_recall", higher) == higher
    assert gain("negative_likelihood_ratio", higher) == Estimate(-0.2, -0.3, -0.1)
    assert gain("flag_rate", higher) == UNDEFINED
    assert beaten_by_other(compared) == []
    turned = replace(FIGURES["auroc"], better="lower")
    monkeypatch.setitem(FIGURES._filled(), "auroc", turned)
    (reason,) = beaten_by_other(compared)
    assert reason.code == "another_is_better"


def test_nights_with_outcomes_have_every_figure_of_their_table():
    """Months, classes and pages take their columns from the entries."""
    night = pd.Timestamp("2026-03-01")
    rows = pd.DataFrame(
        {
            "night": [night] * 8,
            "patient": [*"abcdefgh"],
            "score": np.arange(8.0),
            "flagged": np.arange(8) >= 4,
            "truth": ["none", "none", "case", "none", "none", "case", "case", "case"],
            "chance": 0.5,
        }
    )

    found = rates_of(rows)

    assert list(found.figures) == [
        figure.name for figure in figures_in("outcomes_by_month")
    ]
    assert found["sensitivity"].value == found["specificity"].value == 0.75
    assert found["positive_likelihood_ratio"].value == pytest.approx(3)
    assert found["negative_likelihood_ratio"].value == pytest.approx(1 / 3)


def test_net_benefit_is_on_a_models_page_if_scores_are_calibrated():
    """Without a chance of the threshold there is neither a figure nor its help."""
    document = appraised(nosocomial_model())
    point = document["operating_points"][0]["figures"]
    without = render_model(document)
    point["net_benefit"] = {"value": -0.0123, "low": -0.0421, "high": 0.0206}

    page = render_model(document)

    assert "<dt>Net benefit</dt>" not in without
    (block,) = re.findall(r"<dt>Net benefit</dt>.*?</div>", page, re.DOTALL)
    assert "−0.012" in block
    assert "−0.042 to 0.021" in block
    assert NET_BENEFIT.help in block


def test_net_benefit_of_nights_needs_one_chance_at_their_thresholds():
    """Models of two thresholds have no common exchange rate."""
    rows = pd.DataFrame(
        {
            "night": [pd.Timestamp("2026-03-01")] * 8,
            "patient": [*"abcdefgh"],
            "score": np.arange(8.0),
            "flagged": np.arange(8) >= 4,
            "truth": ["none"] * 3 + ["case", "none", "case", "case", "case"],
            "chance_at_threshold": 0.5,
        }
    )
    of_two = rows.assign(chance_at_threshold=[0.5] * 4 + [0.3] * 4)

    assert rates_of(rows)["net_benefit"].value == (3 - 1) / 8
    assert rates_of(of_two)["net_benefit"] == UNDEFINED
    assert rates_of(rows.assign(chance_at_threshold=np.nan))["net_benefit"] == UNDEFINED


@pytest.mark.parametrize(
    ("table", "needed"),
    [
        ("operating_point", "needs `of_rates`"),
        ("own_boundary", "needs `of_samples`"),
        ("baselines", "needs `difference`"),
        ("compare", "needs `of_samples`"),
        ("compare_charts", "must be in `compare` too"),
        ("validate_differences", "must be in `operating_point` or `summary` too"),
        ("validate", "there is no table validate"),
    ],
)
def test_a_figure_enters_only_tables_that_can_show_it(table, needed):
    """Without a formula or a source its column would be empty, without a word."""
    entry = figure(title="E", help="Errors.", form=SHARE, order=95, tables=[table])

    with pytest.raises(ValueError, match=needed):
        entry(lambda rows: UNDEFINED)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("auroc", "+12.0 (+5.0 to +20.0) points"),
        ("own_g_mean", "+12.0 (+5.0 to +20.0) points"),
        ("net_benefit", "+12.0 (+5.0 to +20.0) cases per 100 rows"),
        ("positive_likelihood_ratio", "+0.12 (+0.05 to +0.20)"),
    ],
)
def test_charts_of_differences_have_the_unit_of_their_figure(name, words):
    """A ratio is not a hundredfold of anything."""
    gap = Estimate(0.12, 0.05, 0.2)
    method = SimpleNamespace(recipe="forest", differences={name: gap})

    chart = differences([method], name, 0, "Title")

    assert chart.description == f"forest {words}"


def test_form_of_shares_has_no_sign():
    with pytest.raises(ValueError, match="in per cent cannot be `signed`"):
        Form(percent="everywhere", signed=True)


def test_every_table_is_asked_for_and_has_figures():
    """A table of another name would be empty, without a word."""
    package = Path(screening.__file__).parent
    asked = set()
    for path in [*package.parent.glob("templates/*.j2"), *package.rglob("*.py")]:
        if path.parent.name != "figures":
            asked.update(re.findall(r'"(\w+)"', path.read_text("utf-8")))

    assert [table for table in get_args(Table) if not figures_in(table)] == []
    assert {*get_args(Table)} <= asked
