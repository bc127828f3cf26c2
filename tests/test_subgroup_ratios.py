"""Ratios of subgroups' figures: their intervals, and the choice on a model's page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_fixture import appraised, nosocomial_model
from scipy.stats.contingency import relative_risk

from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures import figures_in
from screening.metrics.intervals import independent_ratio, rate_interval
from screening.metrics.subgroups import performance_by_subgroup
from screening.report import render_model
from screening.schemas.base import Estimate

counts = st.integers(1, 40)


def proportion(events, n):
    return Estimate(events / n, *rate_interval(events, n))


@given(counts, counts, counts, counts)
def test_ratio_and_its_inverse_have_inverse_limits(cases, others, rest, remaining):
    """The interval of a / b is that of b / a turned over."""
    figure = proportion(cases, cases + others)
    other = proportion(rest, rest + remaining)
    ratio = independent_ratio(figure, other)
    inverse = independent_ratio(other, figure)
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.low * inverse.high == pytest.approx(1)
    assert ratio.high * inverse.low == pytest.approx(1)


def test_ratio_of_large_samples_is_the_relative_risk():
    """Where samples are large, its interval is that of the logarithm (Katz)."""
    figure = proportion(4100, 10_000)
    other = proportion(5200, 12_000)
    ratio = independent_ratio(figure, other)
    risk = relative_risk(4100, 10_000, 5200, 12_000)
    low, high = risk.confidence_interval(0.95)
    assert ratio.value == pytest.approx(risk.relative_risk)
    assert ratio.low == pytest.approx(low, abs=2e-4)
    assert ratio.high == pytest.approx(high, abs=2e-4)


def test_ratio_to_nothing_is_undefined_and_to_perhaps_nothing_has_no_upper_limit():
    figure = Estimate(0.4, 0.3, 0.5)
    assert independent_ratio(figure, Estimate()) == Estimate()
    assert independent_ratio(figure, Estimate(0.0, 0.0, 0.1)) == Estimate()
    beside_few = independent_ratio(figure, Estimate(0.1, 0.0, 0.3))
    assert beside_few.value == pytest.approx(4)
    assert 0 < beside_few.low < 4
    assert beside_few.high is None


@pytest.fixture(scope="module")
def model_document():
    """A model with figures of three levels of one column and of two of another."""
    rng = np.random.default_rng(0)
    positive = rng.random(900) < 0.3
    ward = np.repeat(["a", "b", "c"], 300).astype(object)
    sex = rng.choice(["f", "m"], 900).astype(object)
    effect = np.where(ward == "a", 0.5, 2.0)
    scores = rng.normal(size=900) + effect * positive
    judged = EvaluatedRows(scores, positive, 1.0, min_units=5)
    columns = performance_by_subgroup({"ward": ward, "sex": sex}, judged)
    model = appraised(nosocomial_model())
    (point,) = model["operating_points"]
    of_point = {name: point[name] for name in ("rule", "threshold")}
    described = [column.to_dict() | of_point for column in columns]
    model["validation"]["subgroups"] = {"yes": described}
    return model


def test_page_writes_ratios_to_the_rest_and_to_a_level(model_document, opened):
    """A column is chosen, then all other rows or one of its levels as the reference."""
    view, complaints = opened(render_model(model_document))
    ward = model_document["validation"]["subgroups"]["yes"][0]
    levels = [Estimate(**row["figures"]["sensitivity"]) for row in ward["rows"]]
    to_c = independent_ratio(levels[0], levels[2])
    to_rest = ward["rows"][0]["ratio_to_the_rest"]["sensitivity"]
    place = [figure.name for figure in figures_in("subgroups")].index("sensitivity")

    view.select_option("[name=reference]", "rest")
    beside_rest = view.locator("tr:has(> [data-seen])").first
    of_rest = beside_rest.locator("[data-seen]").nth(place).locator(".ratio")
    written_of_rest = of_rest.text_content()
    view.select_option("[name=column]", label="ward")
    after_choice = view.locator(".ratio").count()
    shown = view.locator(".by-column tbody:visible").count()
    view.select_option("[name=reference]", label="c")
    rows = view.locator(".by-column tbody:visible tr:has(> [data-seen])")
    of_level = rows.first.locator("[data-seen]").nth(place).locator(".ratio")

    assert written_of_rest == written(Estimate(**to_rest))
    assert shown == 1
    assert after_choice == 0
    assert of_level.text_content() == written(to_c)
    assert rows.nth(2).locator(".ratio").count() == 0
    assert view.locator(".by-column [role=status]").text_content() == "Ratios to c."
    assert complaints == []


def written(ratio):
    """A ratio as the page writes it."""
    return f"ratio {ratio.value:.2f}\n{ratio.low:.2f}–{ratio.high:.2f}"
