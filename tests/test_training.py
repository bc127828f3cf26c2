"""From a labelled table to a model: what is tuned on what, and what is stored."""

import numpy as np
import pytest
from flow_cohorts import patients

from screening import load_model, read_cohort, save_model, train
from screening.contract.contract import Contract
from screening.errors import CohortError, UsageError


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "svm", search=4)


def test_every_row_is_held_out_once_and_again_in_every_repeat(model, cohort, trained):
    """Calibration holds the negatives alone; nothing depends on the number of threads."""
    columns = {"id", "held", "fold", "label", "score", "trained:score"}
    once, twice = (trained(cohort, "svm", search=1, repeats=repeats) for repeats in (1, 2))
    negatives = model.validation.loc[model.validation["label"] == "no", "score"]

    assert sorted(model.validation["id"]) == sorted(once.validation["id"]) == sorted(cohort.id)
    assert set(once.validation.columns) == columns
    assert set(model.validation.columns) == columns | {"score@0", "score@1", "score@2"}
    assert [len(each.ensemble.machines) for each in (once, twice, model)] == [5, 10, 15]
    assert np.array_equal(twice.validation["score@0"], once.validation["score"])
    assert np.array_equal(model.calibration, np.sort(negatives))
    assert trained(cohort, "svm", search=4, jobs=2).digest == model.digest


def test_a_parameter_fixed_by_the_caller_is_not_searched(cohort, trained):
    fixed = trained(cohort, "svm", search=5, params={"C": 0.5})

    assert {choice["C"] for choice in fixed.document["validation"]["search"]["candidates"]} == {0.5}
    assert fixed.document["recipe"]["parameters"]["C"] == 0.5


def test_a_one_class_recipe_learns_from_negatives_alone(cohort, trained):
    alone = trained(cohort, "one_class", search=1)

    negatives = {row.tobytes() for row in alone.encoder.transform(cohort.take(cohort.label == "no"))}
    rows, _ = alone.ensemble.union
    assert len(rows) > 0
    assert {row.tobytes() for row in rows} <= negatives


def test_patients_are_never_split_and_the_rare_class_is_watched(tissue, trained):
    found = trained(tissue, "one_vs_rest", search=1, folds=4)

    folds_of = found.validation.groupby("group")["fold"].nunique()
    assert found.watched == ["lesion"]
    assert (folds_of == 1).all()
    assert np.sum(found.document["validation"]["confusion"]["counts"]) == tissue.n_rows


def test_a_sub_sample_is_stated_and_keeps_the_prevalence_of_the_table(cohort, trained):
    part = trained(cohort, "svm", search=1, max_rows=150)

    notes = " ".join(part.document["training"]["notes"])
    assert "trained and validated on 150 of 240 rows" in notes
    assert part.document["operating_points"][0]["prevalence"] == pytest.approx((cohort.label == "yes").mean())


@pytest.mark.parametrize(
    ("recipe", "machines"), [("svm", 15), ("logistic", 15), ("balanced_forest", 5), ("williams", 5)]
)
def test_folds_are_dealt_again_where_nobody_asks_only_if_the_machines_average_to_one(
    cohort, recipe, machines, trained
):
    assert len(trained(cohort, recipe, search=1).ensemble.machines) == machines


def test_labels_that_cannot_be_trained_on_are_refused(tissue):
    """A row without a label is not taken for one without the condition."""
    table = patients()
    night = read_cohort(table.drop(columns="ill"), id="patient")
    table.loc[:9, "ill"] = None
    past = read_cohort(table, label="ill", id="patient")

    with pytest.raises(UsageError, match="--positive"):
        train(tissue, "svm", beside=())
    with pytest.raises(UsageError, match="--label"):
        train(night, "svm", beside=())
    with pytest.raises(CohortError, match=rf"column 'ill': 10 of {len(table)} rows have no label"):
        train(past, "logistic", search=1, beside=())


def test_a_column_that_holds_nothing_has_no_range_and_ends_no_training(tmp_path):
    table = patients().assign(lactate=np.nan)
    whole = read_cohort(table.drop(columns="lactate"), label="ill", id="patient").contract.to_dict()
    features = whole["features"] | {"lactate": {"type": "number"}}
    contract = Contract.from_dict(whole | {"features": features, "feature_order": [*features]})
    model = train(read_cohort(table, contract), "logistic", search=1, beside=())

    facts = load_model(save_model(model, tmp_path / "model")).facts.training.features

    (lactate,) = [each for each in facts if each.name == "lactate"]
    assert lactate.reference is lactate.seen is None
