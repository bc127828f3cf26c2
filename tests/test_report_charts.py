"""Scales, curves and figures of the page."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import fields
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.documents import validation
from screening.documents.rule import Rule
from screening.documents.run import ReachingCounts
from screening.page import format as shown
from screening.page.charts import Axes, Scale
from screening.page.tradeoff import Curve, Tally


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6), st.integers(2, 12))
def test_ticks_are_round_inside_the_scale_and_about_as_many_as_asked(
    low: float, span: float, about: int
) -> None:
    ticks = Scale(low, low + span, 0, 100).ticks(about)

    assert len(ticks) <= 2 * about + 1
    assert all(low - 1e-6 * span <= t <= low + span + 1e-6 * span for t in ticks)


@given(st.floats(1e-6, 1.0))
def test_ticks_in_per_cent_can_be_told_apart(largest: float) -> None:
    axes = Axes("a", "", "", (0, 1), (0, largest), "x", "y", as_percent=(False, True))

    words = [tick.text for tick in axes.y_ticks]

    assert len(set(words)) == len(words) > 1
    assert all(word.endswith("%") for word in words)


@given(st.text(max_size=300))
def test_text_is_visible_and_can_be_written_as_utf8(value: str) -> None:
    written = shown.text(value)

    assert not {unicodedata.category(c) for c in written.replace("\n", "")} & {
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "Zl",
        "Zp",
    }
    assert written.encode("utf-8").decode("utf-8") == written


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60, unique=True), st.floats(-6, 6))
def test_tally_counts_the_rows_at_or_above_a_threshold(scores: list[float], threshold: float) -> None:
    ranked = sorted(scores)
    tally = Tally(ReachingCounts(thresholds=ranked, counts=range(len(ranked), 0, -1)))

    assert tally.at(threshold) == sum(s >= threshold for s in scores)


def test_curve_is_read_between_its_points_and_held_at_its_ends() -> None:
    known = {"threshold": [1.0, 0.0, None], "sensitivity": [0.5, 1.0, 0.2], "specificity": [1.0, 0.0, 0.1]}
    unknown = dict.fromkeys((field.name for field in fields(validation.Curve)), [None] * 3)
    curve = Curve(validation.Curve(**unknown | known))

    assert [curve.at("sensitivity", t) for t in (-1.0, 0.5, 2.0)] == [1.0, 0.75, 0.5]
    assert curve.at("ppv", 0.5) is None


def test_axes_leave_out_what_cannot_be_drawn() -> None:
    axes = Axes("a", "t", "d", (0, 1), (0, 1), "x", "y")
    axes.line([0, 0.5, 1], [0, float("nan"), None], "first", "label")
    axes.line([None], [1], "second")

    assert [line.d for line in axes.lines] == ["M56 294"]


def rule(name: str, value: float | None, confidence: float | None = None) -> Rule:
    return Rule(name=name, value=value, confidence=confidence, prevalence=None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (rule("min_sensitivity", 0.9), "sensitivity at least 90%"),
        (rule("min_sensitivity", 0.9, 0.95), "sensitivity at least 90%, with 95% confidence"),
        (rule("max_flag_rate", 0.1), "at most 10 flags per 100 rows"),
        (rule("miss_cost", 20.0), "one missed case costs as much as 20 reviews"),
        (rule("g_mean", None), "largest geometric mean of sensitivity and specificity"),
    ],
)
def test_rules_are_put_in_words(value: Rule, words: str) -> None:
    assert shown.rule(value) == words


@pytest.mark.parametrize(
    ("write", "value", "figure"),
    [
        (shown.number, 227.512, "227.5"), (shown.number, -3.0, "−3"), (shown.number, 123456.7, "123,457"),
        (shown.number, None, "–"), (shown.percent, 0.0, "0%"), (shown.percent, 0.021, "2.1%"),
        (shown.percent, 0.9996, "99.96%"), (shown.percent, 1, "100%"), (shown.p_value, 0.0, "<0.0001"),
        (shown.p_value, 0.08, "0.080"), (shown.usual, [0, 10], "0–10"), (shown.usual, [None, 5], "≤ 5"),
        (shown.usual, None, ""), (shown.count, 1234567, "1,234,567"), (shown.name, "a\nb", "a b"),
    ],
)  # fmt: skip
def test_figures_are_written_as_a_reader_expects(
    write: Callable[[Any], str], value: Any, figure: str
) -> None:
    assert write(value) == figure


def test_a_label_without_room_beside_its_mark_goes_below_it() -> None:
    axes = Axes("a", "t", "d", (0, 1), (0, 1), "x", "y", width=330)
    axes.mark(0.1, 0.5, "validated", "validated threshold")
    axes.mark(0.9, 0.5, "validated", "validated threshold")
    left, right = axes.labels

    assert left.anchor == right.anchor == "begin"
    assert left.x < 150 and right.x + 7.6 * len("validated threshold") == pytest.approx(330, abs=0.1)
    assert right.y > left.y


def test_the_words_of_rules_near_each_other_do_not_lie_on_each_other() -> None:
    axes = Axes("a", "t", "d", (1, 20), (0, 1), "x", "y", width=560)
    for night in (9, 15, 16):
        axes.upright(night, "validated", "threshold changed")

    assert not any(one.covers(other) for one, other in combinations(axes.labels, 2))
