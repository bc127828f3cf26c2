"""The figures of an operating point: intervals by rows, folds and groups, curves, and what is stored."""

import json

import numpy as np
import pytest
from labelled_scores import grouped, labelled
from sklearn.metrics import accuracy_score, f1_score

from screening.errors import UsageError
from screening.metrics.intervals import wilson
from screening.metrics.operating_point import ThresholdSelector, choose
from screening.metrics.performance import curve, performance, rates, summary
from screening.schemas.figures import GMean, MinSensitivity, Observed, OperatingPoint, Threshold


def test_what_is_not_known_of_the_prevalence_widens_what_depends_on_it():
    scores, y = labelled()
    estimated = choose(scores, y, Threshold(1.0))
    stated = choose(scores, y, Threshold(1.0, prevalence=float(y.mean())))

    for name in ("ppv", "npv", "nne"):
        assert getattr(estimated, name).value == pytest.approx(getattr(stated, name).value)
        widths = [width(point, name) for point in (estimated, stated)]
        assert widths[0] > 1.1 * widths[1]
    assert estimated.sensitivity.high == stated.sensitivity.high


def test_folds_that_disagree_widen_specificity_alone():
    scores, y = labelled(600)
    fold = np.arange(600) % 5
    alike = choose(scores, y, Threshold(1.0), fold=fold)
    sorted_folds = fold.copy()
    sorted_folds[~y] = np.argsort(np.argsort(scores[~y])) * 5 // (~y).sum()
    apart = choose(scores, y, Threshold(1.0), fold=sorted_folds)

    assert apart.specificity.low < alike.specificity.low - 0.1
    assert apart.sensitivity.ends[:2] == alike.sensitivity.ends[:2]


def width(found: Observed | OperatingPoint, name: str) -> float:
    """Of the interval of a figure."""
    return getattr(found, name).high - getattr(found, name).low


def test_observed_predictive_values_have_the_intervals_of_observed_shares():
    scores, y = labelled()
    seen = performance(scores, y, 1.0)
    flagged = seen.true_positive + seen.false_positive
    left = seen.true_negative + seen.false_negative

    assert [seen.ppv.low, seen.ppv.high] == pytest.approx(np.array(wilson(seen.true_positive, flagged)))
    assert [seen.npv.low, seen.npv.high] == pytest.approx(np.array(wilson(seen.true_negative, left)))
    known = rates(seen.sensitivity, seen.specificity, float(np.mean(y)))
    assert seen.ppv.value == pytest.approx(known["ppv"].value)
    assert seen.ppv.high - seen.ppv.low > known["ppv"].high - known["ppv"].low


def test_a_patients_repeated_rows_do_not_make_the_promise_stronger():
    scores, y = labelled(200, 0.2)
    once = choose(scores, y, MinSensitivity(0.9))
    thrice = choose(np.repeat(scores, 3), np.repeat(y, 3), MinSensitivity(0.9), np.repeat(np.arange(200), 3))

    assert thrice.threshold == once.threshold
    assert thrice.sensitivity.value == pytest.approx(once.sensitivity.value, abs=0.002)
    assert thrice.sensitivity.high - thrice.sensitivity.low >= once.sensitivity.high - once.sensitivity.low


def test_groups_of_one_row_are_independent_rows():
    scores, y = labelled()
    alone = choose(scores, y, GMean(), np.arange(len(y)))

    assert alone.replace(n_groups=None) == choose(scores, y, GMean())
    assert alone.n_groups == len(y)


def test_groups_widen_every_interval():
    scores, y, group = grouped()
    rows, patients = performance(scores, y, 0.5), performance(scores, y, 0.5, group)

    assert patients.sensitivity.value == rows.sensitivity.value
    for name in ("sensitivity", "specificity", "auroc"):
        assert width(patients, name) > width(rows, name)


@pytest.mark.parametrize("group", [None, grouped()[2]], ids=["rows", "groups"])
def test_every_figure_survives_a_file_without_losing_a_bit(group):
    scores, y, _ = grouped()
    made = [*ThresholdSelector.of(scores, y, group, 0, np.arange(len(y)) % 5, None).points(None)]
    made += [curve(scores, y, group), summary(scores, y, group)]

    for figures in made:
        text = json.dumps(figures.to_dict(), allow_nan=False)
        assert type(figures).from_dict(json.loads(text), "figures").to_dict() == figures.to_dict()


def test_a_curve_passes_through_what_performance_says():
    scores, y = labelled()
    drawn, long = curve(scores, y, points=50), curve(*labelled(20_000))
    for i in range(0, len(drawn.threshold), 12):
        at = performance(scores, y, drawn.threshold[i])
        for name in ("sensitivity", "specificity"):
            band = vars(getattr(drawn, name)).values()
            assert [column[i] for column in band] == pytest.approx(getattr(at, name).ends)
        for name in ("flag_rate", "ppv", "npv"):
            assert getattr(drawn, name)[i] == pytest.approx(getattr(at, name).value)

    assert (drawn.threshold[0], drawn.threshold[-1]) == (scores.min(), scores.max())
    assert len(long.threshold) <= 202
    assert np.all(np.diff(long.sensitivity.value) <= 0)


def test_at_a_given_prevalence_every_figure_lies_in_its_interval():
    scores, y = labelled(2000)
    seen = performance(scores, y, 1.0)
    found = rates(seen.sensitivity, seen.specificity, 0.05)

    for name in ("sensitivity", "specificity", "flag_rate", "ppv", "npv", "nne"):
        assert found[name].low < found[name].value < found[name].high
    assert found["nne"].low == pytest.approx(1 / found["ppv"].high)
    # Of a hundred rows ninety-five are negatives: what is known of them is what is known of the workload.
    wide = found["flag_rate"].high - found["flag_rate"].low
    assert wide == pytest.approx(0.95 * width(seen, "specificity"), rel=0.05)


@pytest.mark.parametrize(("n_groups", "taken_back"), [(5, True), (15, False)])
def test_a_promise_about_new_groups_that_few_cannot_bear_is_taken_back_aloud(n_groups, taken_back):
    # The positives of a group score alike, so that the promise hangs on the number of groups.
    group, y = np.repeat(np.arange(n_groups), 40), np.tile(np.arange(40) < 20, n_groups)
    scores = np.random.default_rng(0).normal(size=n_groups)[group] + y
    point = choose(scores, y, MinSensitivity(0.9), group)

    assert any("too few groups to promise" in note for note in point.notes) == taken_back
    assert (point.sensitivity.value < 0.9) == taken_back


def test_observed_shares_are_those_of_scikit_learn():
    """A night without positives still has a specificity and a flag rate."""
    scores, y = labelled()
    seen = performance(scores, y, 0.8)
    night = performance(np.arange(20.0), np.zeros(20, int), 15.0)

    assert seen.accuracy == pytest.approx(accuracy_score(y, scores >= 0.8))
    assert seen.f1 == pytest.approx(f1_score(y, scores >= 0.8))
    assert seen.min_sensitivity == min(seen.sensitivity.value, seen.specificity.value)
    assert night.sensitivity.value is night.ppv.value is night.auroc.value is None
    assert night.specificity.value == 0.75
    assert 0 < night.flag_rate.low < night.flag_rate.value == 0.25 < night.flag_rate.high


def test_the_ranking_of_the_best_of_many_settings_is_less_sure():
    scores, y = labelled()
    one, best = (summary(scores, y, n_settings=n) for n in (1, 24))

    assert best.auroc.high - best.auroc.low > 1.1 * (one.auroc.high - one.auroc.low)


@pytest.mark.parametrize("y", [np.ones(9, bool), np.zeros(9, bool)])
def test_a_threshold_needs_rows_of_both_classes(y):
    with pytest.raises(UsageError, match="some of both"):
        choose(np.arange(9.0), y, GMean())
