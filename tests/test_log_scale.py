"""Skewed positive numbers on a log scale: which ones, and what is left as it was."""

import json

import numpy as np
import pandas as pd
import pytest
from faults.amounts import examples
from flow_cohorts import patients
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from screening import load_model, read_cohort, save_model, train
from screening.contract.contract import Contract
from screening.data.encoding import Encoder, log_floor
from screening.errors import RecipeError
from screening.recipes.building import read_recipe

CONTRACT = Contract.from_dict({"cohort": {}, "features": {"crp": {"type": "number"}}})
SKEWED = np.exp(default_rng(0).normal(2, 1, 400))
BLEND = """
name = "ours"
title = "Ours"
paper = "none"
machine = "blend"
members = ["logistic", "random_forest"]
log_skewed = {log_skewed}
"""


def cohort_of(values):
    return read_cohort(pd.DataFrame({"crp": values}), CONTRACT)


def fitted(values):
    return Encoder(CONTRACT.features, log_skewed=True).fit(cohort_of(values).values)


@pytest.mark.repeated
@settings(max_examples=examples(20, 50))
@given(unit=st.floats(1e-150, 1e150), seed=st.integers(0, 10))
def test_log_scale_any_unit(unit, seed):
    """Concentrations are encoded alike whatever their unit."""
    normal = default_rng(seed).normal(0, 1.2, 300)
    values = np.exp(normal)
    encoded = fitted(values).transform(cohort_of(values).values)
    in_unit = values * unit

    again = fitted(in_unit).transform(cohort_of(in_unit).values)
    assert_allclose(again, encoded, atol=1e-9)
    logs = np.log(values)
    standardised = (logs - logs.mean()) / logs.std()
    assert_allclose(encoded[:, 0], standardised)


def test_log_scale_not_positive():
    """What is not positive on a later night counts as half the smallest of training."""
    encoder = fitted(SKEWED)
    smallest = SKEWED.min()
    later = cohort_of([0.0, -5.0, smallest / 2, smallest / 4])
    encoded = encoder.transform(later.values)

    assert np.isfinite(encoded).all()
    assert len(np.unique(encoded)) == 1


@pytest.mark.parametrize(
    "values",
    [
        default_rng(0).normal(60, 5, 400),
        np.append(SKEWED, 0.0),
        np.append(SKEWED, -1.0),
        np.append(np.ones(390), np.full(10, 50.0)),
        1000 + SKEWED,
        np.full(5, np.nan),
        np.append(SKEWED, 5e-324),
    ],
    ids=["normal", "zero", "negative", "few values", "shifted", "missing", "denormal"],
)
def test_log_scale_left_out(values):
    """Numbers that logarithms do not suit stay as they are, to the bit."""
    plain = Encoder(CONTRACT.features).fit(cohort_of(values).values)
    encoder = fitted(values)

    assert log_floor(values) == 0
    assert encoder.on_log_scale == []
    assert "log_floors" not in encoder.state()
    cohort = cohort_of(values)
    assert_array_equal(encoder.transform(cohort.values), plain.transform(cohort.values))


def test_log_scale_missing_values():
    """A missing number has the median's place."""
    with_missing = np.append(SKEWED, [np.nan] * 50)
    encoder = fitted(with_missing)
    later = cohort_of([np.nan, np.median(SKEWED)])
    encoded = encoder.transform(later.values)

    assert encoder.on_log_scale == ["crp"]
    assert encoder.medians["crp"] == np.median(SKEWED)
    assert encoded[0] == encoded[1]
    assert encoder.typical_row() == encoded[0]


def test_log_scale_fitted_again():
    """A second fit forgets the first."""
    encoder = fitted(SKEWED)
    ages = default_rng(0).normal(60, 5, 400)
    encoder.fit(cohort_of(ages).values)

    assert encoder.on_log_scale == []


def test_log_scale_state():
    """A stored encoder gives the same bits; a damaged one is refused."""
    encoder = fitted(SKEWED)
    state = encoder.state()
    rows = cohort_of([0.0, 1.0, 7.5, 1e6])
    restored = Encoder.from_state(CONTRACT.features, state)

    encoded = encoder.transform(rows.values)
    assert_array_equal(restored.transform(rows.values), encoded)
    assert restored.on_log_scale == ["crp"]
    damaged = [
        [-1.0],
        [np.nan],
        [np.inf],
        [1.0, 2.0],
    ]
    for floors in map(np.array, damaged):
        with pytest.raises(ValueError, match="log_floors"):
            Encoder.from_state(CONTRACT.features, state | {"log_floors": floors})


def test_log_scale_of_recipe(tmp_path):
    """The recipe asks for it, and the model says which columns, also once stored."""
    past = patients(240)
    options = {
        "label": "ill",
        "id": "patient",
        "repeats": 1,
        "folds": 3,
        "beside": (),
    }
    models = {}
    for log_skewed in (True, False):
        recipe = read_recipe(BLEND.format(log_skewed=json.dumps(log_skewed)))
        models[log_skewed] = train(past, recipe, **options)
    save_model(models[True], tmp_path / "model")
    stored = load_model(tmp_path / "model")
    rows = read_cohort(past, stored.contract)
    note = "on a log scale, being positive and skewed: crp"

    assert note in models[True].facts.training.notes
    assert note not in models[False].facts.training.notes
    encoded = models[True].encoder.transform(rows.values)
    assert_array_equal(stored.encoder.transform(rows.values), encoded)


def test_log_scale_ratio():
    """A kernel machine ranks better by the ratio of two concentrations."""
    rng = default_rng(1)
    kappa = np.exp(rng.normal(0, 2.5, 400))
    ratio = np.exp(rng.normal(0, 0.8, 400))
    is_case = ratio > np.quantile(ratio, 0.85)
    ill = np.where(is_case, "yes", "no")
    past = pd.DataFrame(
        {
            "kappa": kappa,
            "lambda": kappa * ratio,
            "ill": ill,
        }
    )
    options = {
        "label": "ill",
        "repeats": 1,
        "folds": 3,
        "beside": (),
        "search": 2,
    }
    areas = {}
    for log_skewed in (True, False):
        text = BLEND.format(log_skewed=json.dumps(log_skewed))
        recipe = read_recipe(text.replace('"logistic", "random_forest"', '"svm"'))
        summary = train(past, recipe, **options).facts.validation.summary
        areas[log_skewed] = summary["yes"]["auroc"].value

    assert areas[True] > 0.95
    # Of pairs in the wrong order more than half are gone.
    assert 1 - areas[True] < (1 - areas[False]) / 2


def test_log_scale_of_points():
    """A sum of points is never put on another scale."""
    text = 'name = "p"\ntitle = "P"\npaper = "none"\nmachine = "given"\n'
    with pytest.raises(RecipeError, match="log_skewed"):
        read_recipe(text + "log_skewed = true\n")
