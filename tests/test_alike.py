"""Rows alike in every value are flagged together: what is promised of them is what new ones get."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening import read_cohort, train
from screening.errors import UsageError
from screening.metrics.operating_point import RULES, choose
from screening.metrics.ties import alike, as_new
from screening.schemas.figures import GMean, MinSensitivity

# How many of 1,000 people answer three questions so, and how many of those are ill.
ANSWERS = {
    (0, 0, 0): (400, 30), (1, 0, 0): (250, 25), (0, 1, 0): (150, 30), (1, 1, 0): (100, 35),
    (0, 1, 1): (60, 40), (1, 1, 1): (40, 36),
}  # fmt: skip


def answered(rng, people: int = 1000) -> pd.DataFrame:
    kinds = rng.choice(len(ANSWERS), people, p=[n / 1000 for n, _ in ANSWERS.values()])
    share = np.array([ill / n for n, ill in ANSWERS.values()])
    table = pd.DataFrame(np.array([*ANSWERS])[kinds], columns=["fever", "cough", "stay"])
    return table.assign(ill=np.where(rng.random(people) < share[kinds], "yes", "no"))


def past(folder, people: pd.DataFrame):
    people.to_csv(folder / "past.csv", index=False)
    return read_cohort(folder / "past.csv", label="ill", positive="yes")


@pytest.mark.parametrize("recipe", ["logistic", "random_forest"])
def test_what_is_promised_of_a_few_answers_is_what_new_people_get(tmp_path, recipe):
    rng = np.random.default_rng(0)
    model = train(past(tmp_path, answered(rng)), recipe, search=1, repeats=1, beside=(), jobs=1)
    point = model.operating_points[0]
    new = answered(rng, 20_000)
    new.to_csv(tmp_path / "new.csv", index=False)

    flagged, ill = model.score_frame(tmp_path / "new.csv")["flagged"].to_numpy(), new["ill"] == "yes"

    assert flagged[ill].mean() == pytest.approx(point["sensitivity"]["value"], abs=0.06)
    assert 1 - flagged[~ill].mean() == pytest.approx(point["specificity"]["value"], abs=0.05)
    together = new.assign(flagged=flagged).groupby(["fever", "cough", "stay"])["flagged"].mean()
    assert set(together) <= {0.0, 1.0}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(5, 90), st.floats(0, 1)), min_size=2, max_size=8),
    st.sampled_from(RULES),
    st.integers(0, 10_000),
)
def test_a_chosen_threshold_has_the_rates_of_new_rows_like_those_held_out(kinds, rule, seed):
    rng = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(len(kinds)), [n for n, _ in kinds])
    y = rng.random(len(numbers)) < np.array([share for _, share in kinds])[numbers]
    y[:2] = True, False
    scores = numbers + rng.normal(0, 0.2, len(numbers))

    point = choose(scores, y, rule, alike=numbers)

    new, held = as_new(scores, numbers) >= point.threshold, scores >= point.threshold
    for rows in (y, ~y):
        assert abs(new[rows].sum() - held[rows].sum()) <= max(0.03 * rows.sum(), 1)


def test_where_the_rule_would_flag_nearly_everybody_the_nearest_threshold_stands_and_says_so():
    numbers = np.repeat([0, 1], [400, 200])
    y = np.concatenate([np.arange(400) < 20, np.arange(200) < 120])
    scores = numbers + np.random.default_rng(0).normal(0, 0.01, 600)
    cut, point = (choose(scores, y, MinSensitivity(0.9), alike=given) for given in (None, numbers))
    assert cut.sensitivity.value >= 0.9 > point.sensitivity.value > 0.8
    assert point.specificity.value == pytest.approx(380 / 460, abs=0.03)
    assert "cannot be parted" in point.notes[0]


def test_a_rule_that_would_flag_everybody_is_refused_with_what_to_do(tmp_path):
    row = np.arange(500)
    ill = np.where((row % 10 == 0) | (row < 50), "yes", "no")
    people = pd.DataFrame({"fever": (row < 100).astype(int), "ill": ill})
    with pytest.raises(UsageError, match=r"would flag every row: many cases have the same values.*--g-mean"):
        train(past(tmp_path, people), "logistic", search=1, repeats=1, beside=(), jobs=1)


def test_rows_are_numbered_only_where_one_stands_for_many():
    """With rows of their own nothing changes."""
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=300), rng.random(300) < 0.3
    assert alike(rng.normal(size=(300, 3))) is None
    assert alike(np.repeat(rng.normal(size=(100, 3)), 3, axis=0)) is None
    assert len(np.unique(alike(np.array([[0.0, 1.0], [-0.0, 1.0]] * 20 + [[2.0, 1.0]])))) == 2
    assert choose(scores, y, GMean()) == choose(scores, y, GMean(), alike=np.arange(300))
