"""Columns by outcome, and subgroups beside all other rows."""

import numpy as np
import pytest
from numpy.random import default_rng

from screening.contract.contract import Contract, Feature
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.subgroups import performance_by_subgroup, performance_in_cells
from screening.metrics.table_one import table_one

FEATURES = {
    "age": Feature(type="number"),
    "fever": Feature(type="boolean"),
    "ward": Feature(type="category"),
}
IS_CASE = np.arange(40) < 10


def texts(levels: str, counts: list[int]) -> np.ndarray:
    """Repeat each of the levels, a letter each, as often as its count says."""
    return np.repeat([*levels], counts).astype(object)


def by_level(column):
    return {row.level: row for row in column.rows}


def values_of():
    spread = np.tile([-1.0, 1.0], 20)
    age = np.where(IS_CASE, 70.0, 60.0) + spread
    age[39] = np.nan
    fever = np.tile([0.0, 1.0], 20)
    fever[:10] = 1.0
    ward = texts("abc", [20, 18, 2])
    return {"age": age, "fever": fever, "ward": ward}


def shown_wards(smallest: int) -> list[str]:
    columns = table_one(values_of(), FEATURES, IS_CASE, smallest=smallest)
    ward = columns[2]
    return [level.level for level in ward.levels]


def test_table_one_has_quartiles_shares_and_differences():
    age, fever, ward = table_one(values_of(), FEATURES, IS_CASE)

    assert age.cases.present == 10
    assert age.cases.missing == 0
    assert age.others.present == 29
    assert age.others.missing == 1
    assert age.cases.low == 69
    assert age.cases.median == 70
    assert age.cases.high == 71
    # Ten apart, with a standard deviation of one in each group.
    assert age.difference == pytest.approx(10, abs=0.05)
    (yes,) = fever.levels
    assert yes.level == "yes"
    assert yes.cases == 1.0
    assert yes.others == 0.5
    standard_deviation = np.sqrt((0 + 0.25) / 2)
    assert fever.difference == pytest.approx(0.5 / standard_deviation)
    assert [level.level for level in ward.levels] == ["a", "b"]
    assert ward.withheld == 1


def test_small_cells_are_withheld():
    """Nothing of fewer than five rows is shown, of a level or of a group."""
    is_case = np.arange(40) < 4

    age = table_one(values_of(), FEATURES, is_case)[0]
    assert age.cases.low is None
    assert age.cases.median is None
    assert age.cases.high is None
    assert age.difference is None
    assert shown_wards(smallest=2) == ["a", "b", "c"]
    assert shown_wards(smallest=19) == ["a"]


def test_share_of_few_rows_of_a_group_is_withheld():
    """One case of ten in a level of twenty rows is one patient."""
    fever = np.ones(40)
    fever[0] = 0.0
    ward = texts("aba", [1, 20, 19])
    features = {"fever": FEATURES["fever"], "ward": FEATURES["ward"]}

    values = {"fever": fever, "ward": ward}
    column, wards = table_one(values, features, IS_CASE)

    (yes,) = column.levels
    # Nine of ten say that one case has none.
    assert yes.cases is None
    assert yes.others == 1.0
    levels = {level.level: level for level in wards.levels}
    assert levels["a"].cases is None
    assert levels["a"].others == pytest.approx(19 / 30)


def test_difference_of_two_categories_is_that_of_the_share():
    """Of two levels the formula of several is that of one share, without its sign."""
    values = values_of()
    share = table_one(values, FEATURES, IS_CASE)[1].difference
    answers = np.where(values["fever"] == 1, "yes", "no").astype(object)
    feature = Feature(type="category")

    (column,) = table_one({"fever": answers}, {"fever": feature}, IS_CASE)

    assert column.difference == pytest.approx(abs(share))


def test_subgroup_is_compared_with_all_other_rows():
    rng = default_rng(0)
    positive = rng.random(600) < 0.4
    level = np.repeat(["low", "high"], [200, 400]).astype(object)
    # In one subgroup cases score no higher than others.
    effect = np.where(level == "low", 0.0, 2.0)
    scores = rng.normal(size=600) + effect * positive
    judged = EvaluatedRows(scores, positive, 1.0, min_units=5)

    (column,) = performance_by_subgroup({"part": level}, judged)

    rows = by_level(column)
    low = rows["low"]
    high = rows["high"]
    for name in ("sensitivity", "auroc", "ppv"):
        difference = low.to_the_rest[name]
        of_low = low[name].value
        expected = of_low - high[name].value
        assert difference.value == pytest.approx(expected)
        assert difference.high < 0
        assert high.to_the_rest[name].value == pytest.approx(-expected)
    assert abs(low.to_the_rest["specificity"].value) < 0.1
    is_low = level == "low"
    flagged = is_low & (scores >= 1)
    ppv = positive[flagged].mean()
    assert low["ppv"].value == pytest.approx(ppv)


def test_every_figure_of_a_subgroup_stands_beside_the_rest():
    """NPV, flag rate and calibration too, each with the interval of the difference."""
    rng = default_rng(1)
    chance = rng.uniform(0.05, 0.6, 2000)
    level = np.repeat(["low", "high"], [800, 1200]).astype(object)
    is_low = level == "low"
    # Of the low twice as many become cases as their chances say.
    twice = np.minimum(2 * chance, 1)
    true_chance = np.where(is_low, twice, chance)
    positive = rng.random(2000) < true_chance
    judged = EvaluatedRows(chance, positive, 0.3, chance=chance, min_units=5)

    (column,) = performance_by_subgroup({"part": level}, judged)

    rows = by_level(column)
    low = rows["low"]
    flagged = chance >= 0.3
    missed = positive[is_low & ~flagged]
    assert low["npv"].value == pytest.approx(1 - missed.mean())
    n_expected = chance[is_low].sum()
    ratio = positive[is_low].sum() / n_expected
    assert low["observed_expected"].value == pytest.approx(ratio)
    of_high = rows["high"]["observed_expected"]
    assert of_high.low < 1
    assert of_high.high > 1
    assert low.to_the_rest["observed_expected"].low > 0.5
    gap = low.to_the_rest["flag_rate"]
    of_low = flagged[is_low].mean()
    expected = of_low - flagged[~is_low].mean()
    assert gap.value == pytest.approx(expected)
    assert gap.low < gap.value < gap.high


def test_columns_are_crossed_where_every_cell_holds_enough():
    rng = default_rng(0)
    n = 800
    positive = np.arange(n) % 3 == 0
    scores = rng.normal(size=n) + positive
    sex = np.tile(["f", "m"], n // 2).astype(object)
    ward = texts("ab", [500, 300])
    rare = texts("ab", [790, 10])
    judged = EvaluatedRows(scores, positive, 1.0, min_units=5)

    columns = {"sex": sex, "ward": ward}
    (crossed,) = performance_in_cells(columns, judged)
    withheld = performance_in_cells({"sex": sex, "rare": rare}, judged)

    assert crossed.columns == ("sex", "ward")
    levels = [cell.level for cell in crossed.rows]
    assert levels == ["f, a", "f, b", "m, a", "m, b"]
    is_cell = (sex == "m") & (ward == "b")
    assert crossed.rows[3].n == is_cell.sum()
    sensitivity = np.mean(scores[is_cell & positive] >= 1)
    found = crossed.rows[3]["sensitivity"]
    assert found.value == pytest.approx(sensitivity)
    # One cell of two would follow from the totals of the levels.
    assert withheld == []


def test_cell_without_rows_is_left_out():
    """No patient of a ward for women is a man."""
    sex = np.tile(["f", "m"], 200).astype(object)
    ward = np.where(sex == "f", np.repeat(["a", "b"], 200), "b").astype(object)
    positive = np.arange(400) // 2 % 2 == 0
    judged = EvaluatedRows(np.linspace(0, 1, 400), positive, 0.5, min_units=5)

    (crossed,) = performance_in_cells({"sex": sex, "ward": ward}, judged)

    assert [cell.level for cell in crossed.rows] == ["f, a", "f, b", "m, b"]


def test_smallest_cell_is_the_contracts():
    levels = texts("ab", [8, 60])
    scores = np.linspace(0, 1, 68)
    positive = np.arange(68) % 2 == 0
    judged = EvaluatedRows(scores, positive, 0.5, min_units=10)

    (column,) = performance_by_subgroup({"x": levels}, judged)

    rows = by_level(column)
    assert rows["a"].n is None
    assert rows["b"].n == 60
    assert Contract(suppress=10).suppress == 10


def test_difference_of_category_is_the_mahalanobis_distance():
    """The closed form gives what the mean of both covariances gives."""
    rng = default_rng(4)
    wards = rng.choice([*"abcd"], 400, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    chance = np.where(wards == "a", 0.6, 0.2)
    is_case = rng.random(400) < chance
    feature = Feature(type="category")

    (column,) = table_one({"ward": wards}, {"ward": feature}, is_case)

    indicators = np.column_stack([wards == level for level in "abc"])
    cases = indicators[is_case].mean(axis=0)
    others = indicators[~is_case].mean(axis=0)
    of_cases = np.diag(cases) - np.outer(cases, cases)
    of_others = np.diag(others) - np.outer(others, others)
    covariance = (of_cases + of_others) / 2
    gap = cases - others
    solved = np.linalg.solve(covariance, gap)
    expected = np.sqrt(gap @ solved)
    assert column.difference == pytest.approx(expected)


def test_difference_of_separated_categories_has_no_bound():
    """Groups without a common level have no difference that a number could say."""
    wards = texts("ab", [20, 20])
    feature = Feature(type="category")

    (column,) = table_one({"ward": wards}, {"ward": feature}, wards == "a")

    assert column.difference is None
