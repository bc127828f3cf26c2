"""A figure is one entry: what it needs, what it is, how it enters and leaves."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from report_fixture import appraised, nosocomial_model
from scipy.stats import norm

from screening.metrics.figures import FIGURES, evaluate, figures_in
from screening.metrics.judged_rows import JudgedRows
from screening.metrics.operating_point import choose
from screening.metrics.outcomes import rates_of
from screening.metrics.subgroups import performance_by_subgroup
from screening.report.page import render_model
from screening.schemas.figures import MinSensitivity

LIKELIHOOD_RATIOS = ("positive_likelihood_ratio", "negative_likelihood_ratio")


def rows_of(hits, misses, false, clear, **options):
    """Return rows with these counts, of which those with score 1 are flagged."""
    counts = [hits, misses, false, clear]
    scores = np.repeat([1.0, 0.0, 1.0, 0.0], counts)
    positive = np.repeat([True, True, False, False], counts)
    return JudgedRows(scores, positive, 1.0, **options)


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
    few = evaluate(rows_of(2, 2, 10, 30, fewest=5), figures)

    for found in (no_case, few):
        defined = {name for name, each in found.items() if each.value is not None}
        enough = {each.name for each in figures if each.needs <= {"rows", "others"}}
        assert defined == enough
        assert defined >= {"specificity", "flag_rate"}


def test_a_figure_leaves_with_its_entry(monkeypatch):
    """Where it is not, no document and no page has it, and all others are there."""
    rng = default_rng(0)
    positive = rng.random(400) < 0.3
    rows = JudgedRows(rng.normal(size=400) + positive, positive, 0.5, fewest=5)
    levels = {"part": np.repeat(["a", "b"], 200).astype(object)}
    document = appraised(nosocomial_model())
    (with_ratios,) = performance_by_subgroup(levels, rows)
    page = render_model(document)

    for name in LIKELIHOOD_RATIOS:
        monkeypatch.delitem(FIGURES._filled(), name)
    (without,) = performance_by_subgroup(levels, rows)
    page_without = render_model(document)

    all_figures = with_ratios.rows[0].figures
    kept = {n: all_figures[n] for n in all_figures if n not in LIKELIHOOD_RATIOS}
    assert len(kept) == len(all_figures) - 2
    assert without.rows[0].figures == kept
    assert "LR+" in page
    assert "LR+" not in page_without


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

    assert list(found.figures) == [figure.name for figure in figures_in("outcomes")]
    assert found["sensitivity"].value == found["specificity"].value == 0.75
    assert found["positive_likelihood_ratio"].value == pytest.approx(3)
    assert found["negative_likelihood_ratio"].value == pytest.approx(1 / 3)
