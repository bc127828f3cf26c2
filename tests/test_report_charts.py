"""Scales, curves and figures of the page."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.report import format as fmt
from screening.report.charts import Axes
from screening.report.worklist import value_text
from screening.schemas.base import Estimate
from screening.schemas.figures import rule_named
from screening.schemas.model import Declared


@given(st.floats(1e-6, 1.0))
def test_ticks_in_per_cent_can_be_told_apart(largest):
    axes = Axes("a", (0, 1), (0, largest), "x", "y", as_percent=(False, True))

    words = [tick.text for tick in axes.y_ticks]

    assert len(set(words)) == len(words) > 1
    assert all(word.endswith("%") for word in words)


@given(st.text(max_size=300))
def test_text_is_visible_and_can_be_written_as_utf8(value):
    written = fmt.text(value)

    assert not {unicodedata.category(c) for c in written.replace("\n", "")} & {
        "Cc", "Cf", "Co", "Cs", "Zl", "Zp",
    }  # fmt: skip
    assert written.encode("utf-8").decode("utf-8") == written


ORDINAL = Declared(type="ordinal", categories=["none", "some", "much"])


def rule(given: tuple) -> str:
    name, value, confidence = (*given, None, None)[:3]
    return fmt.rule(rule_named(name, value=value, confidence=confidence))


def in_words(given: tuple) -> str:
    return value_text(*given)


@pytest.mark.parametrize(
    ("write", "value", "figure"),
    [
        (fmt.number, 227.512, "227.5"), (fmt.number, -3.0, "−3"), (fmt.number, 123456.7, "123,457"),
        (fmt.number, None, "–"), (fmt.percent, 0.0, "0%"), (fmt.percent, 0.021, "2.1%"),
        (fmt.percent, 0.9996, "99.96%"), (fmt.percent, 1, "100%"), (fmt.p_value, 0.0, "<0.0001"),
        (fmt.p_value, 0.08, "0.080"), (fmt.value_range, [0, 10], "0–10"),
        (fmt.value_range, [None, 5], "≤ 5"),
        (fmt.value_range, None, ""), (fmt.count, 1234567, "1,234,567"), (fmt.name, "a\nb", "a b"),
        (fmt.unit, "degC", "°C"), (fmt.unit, "10^9/L", "10⁹/L"), (fmt.unit, "m^-2", "m⁻²"),
        (fmt.unit, "mg/L", "mg/L"), (fmt.unit, None, ""), (fmt.ci, Estimate(None, 0.84, 0.951), "84–95%"),
        (fmt.ci, Estimate(None, 0.9991, 0.99996), "99.9–100.0%"),
        (fmt.ci, Estimate(None, 0.9971, 0.9994), "99.7–99.9%"), (fmt.ci, Estimate(None, 1, 1), "100–100%"),
        (in_words, (1.0, Declared(type="boolean")), "yes"), (in_words, (0, Declared(type="boolean")), "no"),
        (in_words, (2.0, ORDINAL), "much"), (in_words, (7.0, ORDINAL), "7"),
        (in_words, (None, Declared()), "missing"),
        (rule, ("min_sensitivity", 0.9), "sensitivity at least 90%"),
        (rule, ("min_sensitivity", 0.9, 0.95), "sensitivity at least 90%, with 95% confidence"),
        (rule, ("max_flag_rate", 0.1), "at most 10 flags per 100 rows"),
        (rule, ("miss_cost", 20.0), "one missed case costs as much as 20 reviews"),
        (rule, ("g_mean",), "largest geometric mean of sensitivity and specificity"),
    ],
)  # fmt: skip
def test_figures_are_written_as_a_reader_expects(write, value, figure):
    assert write(value) == figure
