"""What a ranking uses: AUROC lost by shuffling, against what is known of made
tables.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from scipy.stats import norm

from screening import MinSensitivity, train
from screening.metrics.paired import area_difference
from screening.metrics.ranking import area_under_roc

QUICK = {
    "search": 1,
    "beside": (),
    "jobs": 1,
    "rule": MinSensitivity(0.8),
}


def two_effects(n_rows=1500, first=1.2, second=0.6, seed=0):
    """Return rows in which two numbers differ between cases and others."""
    rng = default_rng(seed)
    ill = rng.random(n_rows) < 0.3
    strong = rng.normal(size=n_rows) + first * ill
    return pd.DataFrame(
        {
            "strong": strong,
            "strong_again": strong + rng.normal(scale=0.05, size=n_rows),
            "weak": rng.normal(size=n_rows) + second * ill,
            "noise": rng.normal(size=n_rows),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def losses(model):
    (of_class,) = model.facts.training.importance
    lost = {}
    for block in of_class.blocks:
        lost[tuple(block.columns)] = block.lost
    return lost


@pytest.mark.parametrize("recipe", ["logistic", "svm_weighted", "random_forest"])
def test_noise_loses_nothing_and_order_is_right(recipe):
    model = train(two_effects(600), recipe, label="ill", **QUICK)
    by_block = losses(model)

    strong = by_block["strong", "strong_again"]
    weak = by_block["weak",]
    noise = by_block["noise",]
    assert next(iter(by_block)) == ("strong", "strong_again")
    assert strong.low > weak.value > 0
    assert noise.low <= 0.005
    assert abs(noise.value) < 0.02


def without_copies(n_rows, seed):
    table = two_effects(n_rows, seed=seed)
    return table.drop(columns=["strong_again", "noise"])


def own_loss(model, column, new):
    """Return what a model loses on many new rows when a column is shuffled there."""
    ill = (new.ill == "yes").to_numpy()
    values = {name: new[name].to_numpy() for name in ("strong", "weak")}
    order = default_rng(1).permutation(len(new))
    shuffled = values | {column: values[column][order]}
    areas = []
    for columns in (values, shuffled):
        scores = model.scores(model.encoder.transform(columns))
        areas.append(area_under_roc(scores[:, 0], ill))
    return areas[0] - areas[1]


def test_loss_is_that_of_the_known_distribution():
    """Of two normal columns of known effects the linear score is known, and its
    loss.
    """
    first = 1.2
    second = 0.6
    share = 0.3
    new = without_copies(20_000, seed=99)
    found = {"strong": [], "weak": []}
    n_held = 0
    for seed in range(6):
        past = without_copies(1500, seed)
        model = train(past, "logistic", label="ill", **QUICK)
        for (column,), lost in losses(model).items():
            found[column].append(lost.value)
            # The interval is of this model on other rows.
            own = own_loss(model, column, new)
            n_held += lost.low <= own <= lost.high

    whole = norm.cdf(np.hypot(first, second) / np.sqrt(2))

    def expected(shuffled, kept):
        # A shuffled column keeps its spread and tells nothing.
        between = share * (1 - share) * shuffled**2
        spread = shuffled**2 * (1 + between) + kept**2
        return whole - norm.cdf(kept**2 / np.sqrt(2 * spread))

    strong = expected(first, second)
    weak = expected(second, first)
    assert np.mean(found["strong"]) == pytest.approx(strong, abs=0.03)
    assert np.mean(found["weak"]) == pytest.approx(weak, abs=0.015)
    assert n_held >= 9


def test_blend_of_several_classes_and_large_tables(tmp_path):
    """Every watched class has its own list; of many rows some are decided on."""
    rng = default_rng(0)
    kind = rng.choice(["a", "b", "c"], 400)
    table = pd.DataFrame(
        {
            "first": rng.normal(size=400) + 2 * (kind == "a"),
            "second": rng.normal(size=400) + 2 * (kind == "b"),
            "kind": kind,
        }
    )
    model = train(table, "one_vs_rest", label="kind", **QUICK)

    facts = model.facts.training.importance
    assert [of_class.label for of_class in facts] == list(model.watched)
    best = {}
    for of_class in facts:
        best[of_class.label] = of_class.blocks[0].columns[0]
    useful = {"a": "first", "b": "second"}
    assert best
    for name in useful.keys() & best.keys():
        assert best[name] == useful[name]
    large = train(two_effects(6000), "logistic", label="ill", **QUICK)
    assert next(iter(losses(large))) == ("strong", "strong_again")


def test_no_loss_of_equal_scores():
    rng = default_rng(0)
    scores = rng.normal(size=50)
    positive = np.arange(50) < 10

    lost = area_difference(scores, np.stack([scores, scores]), positive)

    assert lost.value == lost.low == lost.high == 0
