"""Figures, thresholds and charts of rows from which they cannot be computed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from screening.errors import UsageError
from screening.metrics.calibration import resolution_warning
from screening.metrics.control import control_charts
from screening.metrics.evaluated_rows import EvaluatedRows, weights_of_table
from screening.metrics.figures import FIGURES, evaluate
from screening.metrics.intervals import percentiles
from screening.metrics.operating_point import choose
from screening.metrics.performance import (
    figures_at_prevalence,
    per_class,
    performance,
    population_of,
)
from screening.metrics.ranking import area_of_levels, placements
from screening.metrics.subgroups import band_edges, levels_of
from screening.schemas.base import UNDEFINED, Estimate
from screening.schemas.figures import MinSensitivity

ONE_CLASS = {
    "cases only": np.array([True, True, True]),
    "others only": np.array([False, False, False]),
}
SCORES = np.array([0.1, 0.5, 0.9])
NEEDS_BOTH = (
    *("auroc", "average_precision", "min_sensitivity", "g_mean"),
    *("positive_likelihood_ratio",),
)


@pytest.mark.parametrize("name", NEEDS_BOTH)
@pytest.mark.parametrize("positive", ONE_CLASS.values(), ids=ONE_CLASS)
def test_figures_one_class(name, positive):
    """A figure of both classes is undefined if a class is missing."""
    rows = EvaluatedRows(SCORES, positive, 0.5)

    assert evaluate(rows, [FIGURES[name]]) == {name: UNDEFINED}


def test_categories_one_class():
    """A category says nothing of one class: its AUROC is that of guessing."""
    levels = np.array([0, 1, 2])

    for positive in ONE_CLASS.values():
        assert area_of_levels(levels, positive) == 0.5


def test_weights_without_cases():
    """A sample without a case, or of an unknown table, counts each row once."""
    positive = np.array([True, False, False, False])

    assert weights_of_table(ONE_CLASS["others only"], 0.1).tolist() == [1, 1, 1]
    assert weights_of_table(positive, None).tolist() == [1, 1, 1, 1]
    weight = weights_of_table(positive, 0.1)
    assert weight[positive].sum() / weight.sum() == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("scores", "positive", "groups", "message"),
    [
        (SCORES, [1, 0], None, "must both have shape"),
        (SCORES[:, None], [1, 0, 1], None, "must both have shape"),
        (SCORES, [1, 0, 1], [1, 2], "2 groups for 3 scores"),
        ([0.1, np.nan, np.inf], [1, 0, 1], None, "2 scores are not finite"),
    ],
)
def test_performance_rows_that_do_not_fit(scores, positive, groups, message):
    """Rows of other shapes, or without a score, are refused."""
    with pytest.raises(ValueError, match=message):
        performance(scores, positive, 0.5, groups)


def test_threshold_one_class():
    """A threshold is not chosen from rows of one class."""
    with pytest.raises(UsageError, match="a threshold needs some of both"):
        choose(SCORES, [1, 1, 1], MinSensitivity(0.9))


def test_threshold_folds_that_do_not_fit():
    """Folds of other rows are refused."""
    with pytest.raises(ValueError, match=r"fold \(2,\) does not fit 3 scores"):
        choose(SCORES, [1, 0, 1], MinSensitivity(0.9), fold=[0, 1])


def test_threshold_unknown_rule():
    """What is not a rule chooses no threshold."""
    with pytest.raises(TypeError, match="no threshold can be chosen"):
        choose(SCORES, [1, 0, 1], SimpleNamespace(value=0.9, prevalence=None))


def test_rates_one_class():
    """Without cases the flag rate is 1 - specificity; without others, sensitivity."""
    known = Estimate(0.8, 0.7, 0.9)

    no_cases = figures_at_prevalence(UNDEFINED, known, 0.1)
    no_others = figures_at_prevalence(known, UNDEFINED, 0.1)

    flagged = no_cases["flag_rate"].value_and_interval
    assert flagged == pytest.approx((0.2, 0.1, 0.3))
    assert no_others["flag_rate"] == known
    assert no_cases["ppv"] == no_others["ppv"] == UNDEFINED


@pytest.mark.parametrize("prevalence", [0, 1])
def test_rates_certain_prevalence(prevalence):
    """Where everybody or nobody has the condition, PPV has no interval."""
    known = Estimate(0.8, 0.7, 0.9)

    found = figures_at_prevalence(known, known, prevalence)

    assert found["ppv"].low is None
    assert found["flag_rate"].value == pytest.approx(
        0.8 * prevalence + 0.2 * (1 - prevalence)
    )


def night(day, flagged):
    """Return a night of 200 rows, as control charts read it."""
    return SimpleNamespace(
        night=f"2026-03-{day:02d}", model="one", recipe="svm", read=200,
        flagged=flagged, refused=0, missing=None,
        ppv=SimpleNamespace(found=0, judged=0),
    )  # fmt: skip


@pytest.mark.parametrize(("flagged", "side"), [(0, "below"), (120, "above")])
def test_control_chart_names_the_side(flagged, side):
    """A night outside its limits is reported with the side."""
    usual = [night(day, 40 + day % 3) for day in range(1, 26)]

    chart, *_ = control_charts([*usual, night(26, flagged)], [])

    (reason,) = chart.signals
    assert f" {side} " in reason.words
    assert "2026-03-26" in reason.words


def test_resolution_sufficient():
    """With enough known negatives there is no warning of their number."""
    assert resolution_warning(999, 100) is None
    assert "needs at least 10 above" in resolution_warning(99, 100)


def test_expected_without_chances():
    """Observed over expected needs a chance of every row; without a case it is 0."""
    entry = FIGURES["observed_expected"]
    positive = np.array([True, False, False])
    chance = np.array([0.5, 0.3, 0.2])

    without = evaluate(EvaluatedRows(SCORES, positive, 0.5), [entry])
    assert without["observed_expected"] == UNDEFINED
    with_gap = np.array([0.5, np.nan, 0.2])
    rows = EvaluatedRows(SCORES, positive, 0.5, chance=with_gap)
    assert entry.compute(rows) == UNDEFINED
    assert entry.compute(replace(rows, chance=chance)).value == 1
    nobody = ONE_CLASS["others only"]
    rows = EvaluatedRows(SCORES, nobody, 0.5, chance=chance)
    assert entry.compute(rows) == Estimate(0.0)


def test_ranking_one_class():
    """AUROC and its rows' contributions are undefined without both classes."""
    for positive in ONE_CLASS.values():
        area, contributions = placements(SCORES, positive)
        summary = population_of(EvaluatedRows(SCORES, positive, 0.5), "summary")

        assert np.isnan(area)
        assert np.isnan(contributions).all()
        assert summary["auroc"] == summary["average_precision"] == UNDEFINED


def test_percentiles_no_draw():
    """An interval of draws that all lack a class is refused."""
    with pytest.raises(ValueError, match="no bootstrap draw contains both classes"):
        percentiles(np.full(10, np.nan), 5)


def test_class_without_rows():
    """A class that has no row has no recall; one that is never predicted, no PPV."""
    target = np.array([0, 0, 1])
    predicted = np.array([0, 2, 0])

    _, (first, second, third) = per_class(target, predicted, ["a", "b", "c"])

    assert first.recall.value == 0.5
    assert second.precision is None
    assert third.recall == UNDEFINED
    assert third.precision == 0


def test_bands_of_close_edges():
    """Bands have as many digits as tell their edges apart."""
    close = levels_of(np.array(["1", "1000001"], object), [1000000.1, 1000000.2])
    least = [0.1, np.nextafter(0.1, 1)]
    closest = levels_of(np.array(["0"], object), least)

    assert close.tolist() == ["under 1000000.1", "1000000.2 and over"]
    assert closest.tolist() == [f"under {0.1:.17g}"]


def test_texts_among_bands():
    """A text that is not a number is "other" among bands; many texts have no bands."""
    values = np.array(["x", None, "inf", "1.5"], object)
    names = np.array([f"name {i}" for i in range(20)], object)

    found = levels_of(values, [1.0, 2.0])

    assert found.tolist() == ["other", None, "other", "1 to 2"]
    assert band_edges(names) is None
