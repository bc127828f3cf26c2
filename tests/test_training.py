"""From a labelled table to a model: what is tuned on what, and on which scale."""

from __future__ import annotations

import numpy as np
import pytest
from flow_cohorts import patients, voxels, written
from hypothesis import given
from hypothesis import strategies as st
from screening.statistics.placement import like_anchor

from screening import read_cohort, train
from screening.errors import UsageError
from screening.operating_point import Rule


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    path = written(patients(), tmp_path_factory.mktemp("past") / "past.csv")
    return read_cohort(path, label="ill", id="patient", need_label=True)


@pytest.fixture(scope="module")
def tissue(tmp_path_factory):
    path = written(voxels(), tmp_path_factory.mktemp("past") / "past.parquet")
    return read_cohort(path, label="tissue", group="patient", need_label=True)


@pytest.fixture(scope="module")
def model(cohort):
    return train(cohort, "svm", search=4)


def test_every_row_is_scored_out_of_fold_once(model, cohort):
    assert sorted(model.validation["id"]) == sorted(cohort.id)
    assert list(model.validation.columns) == ["id", "fold", "label", "score"]


def test_the_asked_sensitivity_is_kept_on_the_out_of_fold_scores(model):
    scores = model.validation
    found = scores["score"] >= model.thresholds[0]

    assert found[scores["label"] == "yes"].mean() >= 0.9


def test_calibration_holds_the_negatives_alone(model):
    negatives = model.validation.loc[model.validation["label"] == "no", "score"]

    assert np.array_equal(model.calibration, np.sort(negatives))


def test_the_result_does_not_depend_on_the_number_of_threads(cohort, model):
    again = train(cohort, "svm", search=4, jobs=2)

    assert again.digest == model.digest


def test_another_rule_moves_the_threshold_and_nothing_else(cohort, model):
    other = train(cohort, "svm", search=4, rule=Rule("max_flag_rate", 0.1))

    assert other.thresholds[0] > model.thresholds[0]
    assert np.array_equal(other.validation["score"], model.validation["score"])


def test_a_parameter_fixed_by_the_caller_is_not_searched(cohort):
    fixed = train(cohort, "svm", search=5, params={"C": 0.5})

    assert {choice["C"] for choice in fixed.document["validation"]["search"]["candidates"]} == {0.5}
    assert fixed.document["recipe"]["parameters"]["C"] == 0.5


def test_a_one_class_recipe_learns_from_negatives_alone(cohort):
    n_negative = int((cohort.label == "no").sum())

    alone = train(cohort, "one_class", search=1)

    assert alone.estimator.n_features_in_ == len(alone.encoder.names)
    assert alone.estimator.support_.max() < n_negative


def test_patients_are_never_split_and_the_rare_class_is_watched(tissue):
    found = train(tissue, "one_vs_rest", search=1, folds=4)

    folds_of = found.validation.groupby("group")["fold"].nunique()
    assert found.watched == ["lesion"]
    assert (folds_of == 1).all()
    assert np.sum(found.document["validation"]["confusion"]["counts"]) == tissue.n_rows


def test_a_sub_sample_is_stated_and_keeps_the_prevalence_of_the_table(cohort):
    part = train(cohort, "svm", search=1, max_rows=150)

    notes = " ".join(part.document["training"]["notes"])
    assert "trained and validated on 150 of 240 rows" in notes
    assert part.document["operating_points"][0]["prevalence"] == pytest.approx((cohort.label == "yes").mean())


def test_repeated_folds_score_every_row_again(cohort):
    twice = train(cohort, "svm", search=1, repeats=2)

    assert len(twice.validation) == 2 * cohort.n_rows
    assert twice.operating_points[0]["n_groups"] == cohort.n_rows


def test_several_classes_need_a_positive_value_or_a_multi_class_recipe(tissue):
    with pytest.raises(UsageError, match="gland, lesion, zone"):
        train(tissue, "svm")


def test_a_cohort_without_labels_is_refused(tmp_path):
    path = written(patients().drop(columns="ill"), tmp_path / "night.csv")

    with pytest.raises(UsageError, match="--label"):
        train(read_cohort(path, id="patient"), "svm")


@given(
    seed=st.integers(0, 10_000),
    scale=st.floats(0.01, 100),
    shift=st.floats(-10, 10),
)
def test_a_fold_on_another_scale_is_carried_over_exactly(seed, scale, shift):
    rng = np.random.default_rng(seed)
    anchor = rng.normal(size=60)

    carried = like_anchor(scale * anchor + shift, anchor, rng.random(60) < 0.8)

    assert np.allclose(carried, anchor, atol=1e-6)


@given(seed=st.integers(0, 10_000))
def test_carrying_over_keeps_the_order_that_the_fold_found(seed):
    rng = np.random.default_rng(seed)
    scores, anchor = rng.normal(size=50), rng.exponential(size=50)

    carried = like_anchor(scores, anchor, rng.random(50) < 0.7)

    assert (np.diff(carried[np.argsort(scores)]) >= -1e-12).all()
