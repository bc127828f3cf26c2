"""Scores made elsewhere, and tables of points: judged and used like any method."""

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.metrics import roc_auc_score
from written_files import scores_in

from screening import (
    GMean,
    MaxFlagRate,
    MinSensitivity,
    MissCost,
    Threshold,
    compare,
    load_model,
    load_recipe,
    score,
    train,
)
from screening.contract.contract import Contract, Feature
from screening.data.reading import read_cohort
from screening.errors import CohortError, RecipeError
from screening.metrics.chances import chances_at
from screening.recipes.encoders import ScoreEncoder
from screening.recipes.points import Item
from screening.recipes.recipe import Recipe
from screening.recipes.score_kind import infer_kind
from screening.store.model import save_model

RULE = MaxFlagRate(0.2)
QUICK = {"rule": RULE, "beside": (), "jobs": 1}
NEWS2 = load_recipe("news2")
OBSERVATIONS = {
    "respiratory_rate": 16.0,
    "oxygen_saturation": 97.0,
    "supplemental_oxygen": 0.0,
    "systolic_blood_pressure": 120.0,
    "heart_rate": 70.0,
    "consciousness": "A",
    "temperature": 37.0,
}
TYPES = {"supplemental_oxygen": "boolean", "consciousness": "category"}
OBSERVED = Contract(
    features={
        name: Feature(type=TYPES.get(name, "number"), missing="impute")
        for name in OBSERVATIONS
    }
)


def scored_past(n_rows=300, seed=0, higher="worse"):
    """Return patients with a vendor's score of whole numbers that ranks the ill."""
    rng = default_rng(seed)
    ill = rng.random(n_rows) < 0.2
    points = np.round(rng.normal(4 + 3 * ill, 2))
    ews = np.clip(points, 0, 20)
    crp = rng.normal(50 + 40 * ill, 20).round(1)
    return pd.DataFrame(
        {
            "id": [f"p{number:04d}" for number in range(n_rows)],
            "age": rng.integers(20, 90, n_rows),
            "crp": crp,
            "ews": ews if higher == "worse" else 20 - ews,
            "ill": np.where(ill, "yes", "no"),
        }
    )


def contract_of(higher="worse", **more):
    features = {name: Feature(type="number") for name in ("age", "crp", "ews")}
    return Contract(
        id="id",
        label="ill",
        score="ews",
        higher=higher,
        features=features,
        **more,
    )


def trained(past, contract=None, recipe="given", **more):
    contract = contract or contract_of()
    return train(past, recipe, contract=contract, **QUICK | more)


@pytest.mark.parametrize("higher", ["worse", "better"])
def test_given_score_is_judged_as_it_stands(higher):
    past = scored_past(higher=higher)
    model = trained(past, contract_of(higher))

    sign = 1 if higher == "worse" else -1
    suspicion = sign * past.ews
    ill = past.ill == "yes"
    (point,) = model.operating_points
    is_flagged = suspicion >= point["threshold"]
    # Printed rates allow for the choice of the threshold on these rows.
    sensitivity = is_flagged[ill].mean()
    sensitivity = pytest.approx(sensitivity, abs=0.02)
    clear = ~is_flagged[~ill]
    specificity = pytest.approx(clear.mean(), abs=0.02)
    assert point["figures"]["sensitivity"]["value"] == sensitivity
    assert point["figures"]["specificity"]["value"] == specificity
    assert is_flagged.mean() <= 0.2
    summary = model.document["validation"]["summary"]
    area = summary["yes"]["figures"]["auroc"]["value"]
    assert area == pytest.approx(roc_auc_score(ill, suspicion))


def test_given_score_is_the_score_of_a_night(tmp_path):
    past = scored_past()
    night = scored_past(40, seed=1).drop(columns="ill")
    saved = save_model(trained(past), tmp_path / "model")

    run = score(load_model(saved), night, tmp_path / "run")

    scores = scores_in(run.directory)
    by_id = night.set_index("id")
    of_scores = scores.set_index("id").score
    assert of_scores.to_dict() == by_id.ews.to_dict()


def test_given_model_reads_the_score_and_what_is_shown(tmp_path):
    model = trained(scored_past(), contract_of(show=["crp"]))
    night = scored_past(40, seed=1)[["id", "ews", "crp"]]

    run = score(model, night, tmp_path / "run")

    assert list(model.contract.features) == ["crp", "ews"]
    for case in run.document["cases"]:
        (value,) = case["contributions"]
        assert value["feature"] == "crp"
        assert value["direction"] == "shown"
        assert 0 <= value["lower"] <= 1


def test_rows_without_a_score_are_left_out_and_counted(tmp_path):
    past = scored_past()
    past.loc[:9, "ews"] = np.nan
    night = scored_past(40, seed=1).drop(columns="ill")
    night.loc[:2, "ews"] = np.nan

    model = trained(past)
    run = score(model, night, tmp_path / "run")

    notes = model.document["training"]["notes"]
    assert "10 rows are left out: given needs their score" in notes
    assert model.document["validation"]["n_rows"] == 290
    assert run.document["counts"]["scored"] == 37
    assert sum(run.document["refused"].values()) == 3


def test_own_model_does_not_read_the_given_score(tmp_path):
    model = trained(scored_past(), recipe="logistic", search=1)
    night = scored_past(40, seed=1)[["id", "age", "crp"]]

    score(model, night, tmp_path / "run")

    assert list(model.contract.features) == ["age", "crp"]
    assert model.contract.score is None


def test_given_score_is_compared_on_the_same_rows():
    past = scored_past()
    past.loc[:9, "ews"] = np.nan
    compared = compare(
        {"ward": past},
        ["given", "logistic"],
        contract=contract_of(),
        control="logistic",
        search=1,
        rule=RULE,
        jobs=1,
    )

    ward = compared.summary()["cohorts"]["ward"]
    assert set(ward) == {"given", "logistic"}
    assert compared.document["cohorts"][0]["n_rows"] == 290


def test_score_without_contract_is_named():
    past = scored_past().drop(columns="id")

    model = train(past, "given", score="ews", label="ill", **QUICK)

    assert model.contract.score == "ews"
    with pytest.raises(RecipeError, match="name its column with `score`"):
        train(past, "given", label="ill", **QUICK)


def test_column_of_words_is_no_score():
    past = scored_past().assign(ews="high")

    with pytest.raises(RecipeError, match="no row has a number in ews"):
        train(
            past,
            "given",
            score="ews",
            label="ill",
            id="id",
            **QUICK,
        )


def test_score_must_be_a_numeric_feature():
    with pytest.raises(ValueError, match="'news', which is not under"):
        contract_of(show=["news"])
    ews = Feature(type="category")
    with pytest.raises(ValueError, match="must be of type number"):
        Contract(score="ews", features={"ews": ews})


def points_of(**observed):
    """Return the NEWS2 points of each observation, those not named being normal."""
    values = {}
    for name, value in (OBSERVATIONS | observed).items():
        dtype = object if isinstance(value, str) else float
        values[name] = np.array([value], dtype=dtype)
    encoder = ScoreEncoder(NEWS2, OBSERVED)
    points = encoder.transform(values)[0]
    return dict(zip(encoder.columns, points, strict=True))


# Royal College of Physicians 2017, chart 1: both ends of every interval.
CHART = {
    "respiratory_rate": {8: 3, 9: 1, 11: 1, 12: 0, 20: 0, 21: 2, 24: 2, 25: 3},
    "oxygen_saturation": {91: 3, 92: 2, 93: 2, 94: 1, 95: 1, 96: 0, 100: 0},
    "supplemental_oxygen": {0: 0, 1: 2},
    "systolic_blood_pressure": {
        **{90: 3, 91: 2, 100: 2, 101: 1, 110: 1, 111: 0, 219: 0, 220: 3}
    },
    "heart_rate": {
        **{40: 3, 41: 1, 50: 1, 51: 0, 90: 0, 91: 1, 110: 1, 111: 2, 130: 2, 131: 3}
    },
    "consciousness": {
        "A": 0,
        "C": 3,
        "V": 3,
        "P": 3,
        "U": 3,
    },
    "temperature": {
        **{35.0: 3, 35.1: 1, 36.0: 1, 36.1: 0, 38.0: 0, 38.1: 1, 39.0: 1, 39.1: 2}
    },
}


@pytest.mark.parametrize("name", CHART)
def test_news2_has_the_points_of_its_chart(name):
    for value, expected in CHART[name].items():
        points = points_of(**{name: value})
        assert points[name] == expected
        assert sum(points.values()) == expected


def test_news2_takes_a_missing_observation_for_normal():
    points = points_of(temperature=np.nan, heart_rate=135)
    assert sum(points.values()) == 3


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=5, unique=True).map(sorted),
    st.lists(st.floats(-150, 150), min_size=1, max_size=20),
    st.booleans(),
)
def test_points_follow_cut_points(cuts, values, closed_above):
    """Every value has the points of the one interval that it lies in."""
    key = "up_to" if closed_above else "from"
    points = [float(number) for number in range(len(cuts) + 1)]
    item = Item.model_validate(
        {
            "column": "x",
            key: cuts,
            "points": points,
        }
    )
    feature = Feature(type="number")
    given_points = item.points_of(np.array(values), feature, -1.0)

    for value, found in zip(values, given_points, strict=True):
        if closed_above:
            expected = sum(cut < value for cut in cuts)
        else:
            expected = sum(cut <= value for cut in cuts)
        assert found == expected


def test_reasons_of_points_are_the_points(tmp_path):
    samples = files("screening.sample_cohorts")
    contract = samples / "nosocomial.toml"
    past = samples / "nosocomial_past.csv"
    trained_model = train(past, "ward_points", contract=contract, **QUICK)
    model = load_model(save_model(trained_model, tmp_path / "model"))
    run = score(model, samples / "nosocomial_night.csv", tmp_path / "run")

    recipe = load_recipe("ward_points")
    for case in run.document["cases"]:
        sizes = [value["change"] for value in case["contributions"]]
        assert all(size == round(size) and size > 0 for size in sizes)
        if case["explained"] == 1:
            assert sum(sizes) == case["score"]
    columns = {item.column for item in recipe.points.items}
    assert set(model.contract.features) == columns


def test_column_shown_beside_points_is_no_second_reason(tmp_path):
    """A column of `show` that has points stands in the row once."""
    contract = contract_of(show=["crp", "age"])
    model = trained(scored_past(), contract, points_recipe(CRP))

    night = scored_past(60, seed=1).drop(columns="ill")
    run = score(model, night, tmp_path / "run")

    for case in run.document["cases"]:
        names = [value["feature"] for value in case["contributions"]]
        assert sorted(names) == ["age", "crp"]


def early_warning(table):
    """Return a vendor-like score of whole numbers of the sample ward's columns."""
    names = ["temperature_max", "heart_rate_max", "crp"]
    numbers = table[names].apply(pd.to_numeric)
    fever = (numbers["temperature_max"].fillna(37.2) - 37.2) / 0.5
    pulse = (numbers["heart_rate_max"].fillna(85) - 85) / 20
    crp = numbers["crp"].fillna(20).clip(lower=1)
    points = 4 + 1.5 * fever + pulse + 1.5 * np.log(crp / 20)
    return points.round().clip(0, 20).astype(int)


def news2_of_the_sample_ward():
    """Return NEWS2 of the observations that the sample ward has, by its names."""
    text = NEWS2.text.replace('"news2"', '"news2_of_two"')
    for name in ("heart_rate", "temperature"):
        text = text.replace(f'"{name}"', f'"{name}_max"')
    head, *items = text.split("[[points.items]]")
    kept = [item for item in items if '_max"' in item]
    return "[[points.items]]".join([head, *kept])


def test_news2_of_the_sample_ward_from_past_to_outcomes(tmp_path):
    """Points of a ward's columns by commands, beside others on the same rows."""
    samples = files("screening.sample_cohorts")
    for name in ("past", "night_labelled"):
        path = samples / f"nosocomial_{name}.csv"
        table = pd.read_csv(path, dtype=str)
        table.assign(ews=early_warning(table)).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    table = pd.read_csv(tmp_path / "night_labelled.csv", dtype=str)
    unlabelled = table.drop(columns="infected")
    unlabelled.to_csv(tmp_path / "night.csv", index=False)
    ill = table.loc[table["infected"] == "yes", ["patient_id"]]
    events = ill.assign(time="2026-03-02 10:00")
    events.to_csv(tmp_path / "events.csv", index=False)
    text = (samples / "nosocomial.toml").read_text()
    text = text.replace('label = "infected"', 'label = "infected"\nscore = "ews"', 1)
    feature = '\n[features.ews]\ntype = "number"\nmissing = "impute"\n'
    (tmp_path / "cohort.toml").write_text(text + feature)
    (tmp_path / "ours.toml").write_text(news2_of_the_sample_ward())
    ledger = ("--ledger", tmp_path / "l.db", "--series", "ward")

    screen(
        *("train", tmp_path / "past.csv", "--contract", tmp_path / "cohort.toml"),
        *("--recipe", tmp_path / "ours.toml", "--beside", "given,logistic"),
        *("--max-flag-rate", "0.2", "--search", "1", "--out", tmp_path / "model"),
    )
    screen(
        *("score", tmp_path / "model", tmp_path / "night.csv", *ledger),
        *("--out", tmp_path / "run", "--date", "2026-03-01", "--allow-future"),
    )
    entered = as_json(
        *("outcomes", tmp_path / "events.csv", *ledger, "--id", "patient_id"),
        *("--time", "time", "--within", "72h", "--as-of", "2026-03-20"),
    )

    model = load_model(tmp_path / "model")
    compared = model.document["validation"]["comparison"]["beside"]
    assert {method["recipe"] for method in compared} == {"given", "logistic"}
    for method in compared:
        low = method["differences"]["auroc"]["low"]
        high = method["differences"]["auroc"]["high"]
        assert low < method["differences"]["auroc"]["value"] < high
    scores = scores_in(tmp_path / "run").set_index("id")
    threshold = model.operating_points[0]["threshold"]
    is_flagged = scores["score"] >= threshold
    assert set(scores["score"]) <= set(range(7))
    assert is_flagged.any()
    assert entered["figures"]["cases"] == len(ill)
    hits = is_flagged[ill["patient_id"]].sum()
    assert entered["figures"]["true_positive"] == hits


def test_constant_column_of_points_counts():
    """Without a contract a column of one value says nothing to a machine; it has
    points.
    """
    past = scored_past(200).assign(oxygen="yes", pulse=70)
    past = past.drop(columns="ews")
    items = (
        CRP
        + '[[points.items]]\ncolumn = "oxygen"\nvalues = { yes = 2, no = 0 }\n'
        + '[[points.items]]\ncolumn = "pulse"\nfrom = [60]\npoints = [0, 1]\n'
    )

    model = train(
        past,
        points_recipe(items),
        label="ill",
        id="id",
        **QUICK,
    )

    assert set(model.contract.features) == {"crp", "oxygen", "pulse"}
    night = past.drop(columns="ill")
    scores = model.score_frame(night).set_index("id").score
    expected = 2 * (past.crp >= 60) + 3
    assert scores.tolist() == expected.tolist()


def test_constant_column_of_points_counts_in_comparison():
    """A points table that is compared with other methods has all of its columns."""
    past = scored_past(200).assign(oxygen="yes")
    past = past.drop(columns="ews")
    items = CRP + '[[points.items]]\ncolumn = "oxygen"\nvalues = { yes = 2, no = 0 }\n'

    compared = compare(
        {"ward": past},
        [points_recipe(items), "logistic"],
        control="logistic",
        rule=RULE,
        jobs=1,
        label="ill",
        id="id",
    )

    (cohort,) = compared.facts.cohorts
    assert {method.recipe for method in cohort.methods} == {"own", "logistic"}


def points_recipe(items, missing="0"):
    text = f"""
name = "own"
title = "Own points"
paper = "none"
machine = "points"
[points]
missing = {missing}
{items}
"""
    return Recipe.from_toml(text, "own.toml")


CRP = '[[points.items]]\ncolumn = "crp"\nfrom = [60]\npoints = [0, 2]\n'


def test_points_may_leave_rows_out(tmp_path):
    past = scored_past()
    past.loc[:4, "crp"] = np.nan
    path = tmp_path / "own.toml"
    path.write_text(points_recipe(CRP, '"leave_out"').text)

    model = trained(past, recipe=load_recipe(path))

    assert model.document["validation"]["n_rows"] == 295
    assert model.contract.features["crp"].missing == "leave_out"


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        ('[[points.items]]\ncolumn = "crp"\npoints = [0, 2]\n', "give `points` with"),
        (CRP.replace("[60]", "[60, 20]"), "cut points must increase"),
        (CRP.replace("[0, 2]", "[0, 2, 3]"), "1 cut points need 2 points"),
        (CRP + CRP, "one item per column"),
        ("", "items"),
    ],
)
def test_faulty_points_are_refused(items, fault):
    with pytest.raises(RecipeError, match=fault):
        points_recipe(items)


def test_points_name_the_columns_that_the_table_lacks():
    with pytest.raises(RecipeError, match="has no feature respiratory_rate, "):
        trained(scored_past(), recipe="qsofa")


def test_points_name_the_value_that_a_column_cannot_have():
    items = '[[points.items]]\ncolumn = "crp"\nvalues = { high = 2 }\n'
    with pytest.raises(
        RecipeError, match="'high' is not a value of crp, of type number"
    ):
        trained(scored_past(), recipe=points_recipe(items))


def test_values_that_are_not_listed_have_points_of_their_own():
    item = Item.model_validate(
        {
            "column": "mind",
            "values": {"A": 0},
            "other": 3,
            "missing": 1,
        }
    )
    feature = Feature(type="category")
    values = np.array(["A", "V", None], dtype=object)

    points = item.points_of(values, feature, 0.0)
    assert points.tolist() == [0, 3, 1]


def test_missing_value_may_leave_its_row_out():
    past = scored_past(60)
    past.loc[:4, "crp"] = np.nan
    features = {
        "age": Feature(type="number"),
        "crp": Feature(type="number", missing="leave_out"),
    }
    contract = Contract(id="id", label="ill", drop=["ews"], features=features)

    cohort = read_cohort(past, contract, need_label=True)

    assert cohort.n_rows == 55
    assert sum(cohort.refused.values()) == 5
    refusing = contract.model_copy(
        update={
            "features": features | {"crp": Feature(type="number", missing="refuse")}
        }
    )
    with pytest.raises(CohortError, match="'crp', rows 1, 2, 3, 4"):
        read_cohort(past, refusing, need_label=True)


def test_values_without_points_are_refused_where_rows_may_be_left_out():
    """Such a value is not missing, and would have the points of a healthy one."""
    item = '[[points.items]]\ncolumn = "mind"\nvalues = { V = 3 }\n'

    with pytest.raises(RecipeError, match=r"mind: with missing = .*`other`"):
        points_recipe(CRP + item, '"leave_out"')
    points_recipe(CRP + item + "other = 0\n", '"leave_out"')
    points_recipe(CRP + item, "0")


LEVELS = ["alert", "drowsy", "coma"]


def model_of_levels(missing):
    """Return a model of an ordinal column, and a night with two unknown levels."""
    past = scored_past().assign(mind=np.resize(LEVELS, 300)).drop(columns="ews")
    features = {
        "crp": Feature(type="number"),
        "mind": Feature(type="ordinal", categories=LEVELS, missing=missing),
    }
    contract = Contract(id="id", label="ill", drop=["age"], features=features)
    night = past[:200].drop(columns="ill")
    night.loc[[3, 5], "mind"] = "asleep"
    return train(past, "logistic", contract=contract, search=1, **QUICK), night


def test_unlisted_level_leaves_its_row_out(tmp_path):
    """It is not imputed after the test that asked whether there is a value."""
    model, night = model_of_levels("leave_out")

    run = score(model, night, tmp_path / "run")

    scores = scores_in(run.directory)
    assert len(scores) == 198
    assert not set(scores.id) & set(night.id[[3, 5]])
    assert sum(run.document["refused"].values()) == 2


def test_unlisted_level_is_a_violation_where_a_missing_one_is(tmp_path):
    """The table is stopped, by row, as by an empty cell."""
    model, night = model_of_levels("refuse")

    with pytest.raises(CohortError, match=r"'mind', rows 4, 6: .* not a level"):
        score(model, night, tmp_path / "run")


def test_points_of_a_category_that_training_lacks_count(tmp_path):
    """Nobody of the past table was unresponsive; tonight's patient who is has 3
    points.
    """
    past = pd.DataFrame([OBSERVATIONS] * 60).assign(
        consciousness=np.resize(["A", "C"], 60),
        id=[f"p{number}" for number in range(60)],
        ill=np.resize(["yes", "no", "no"], 60),
    )
    features = OBSERVED.features | {
        "consciousness": Feature(type="category", categories=["A", "C"])
    }
    contract = Contract(label="ill", id="id", positive=["yes"], features=features)
    model = train(past, "news2", contract=contract, **QUICK)
    night = pd.DataFrame([OBSERVATIONS] * 2).assign(
        consciousness=["A", "U"], id=["q1", "q2"]
    )

    save_model(model, tmp_path / "model")
    run = score(load_model(tmp_path / "model"), night, tmp_path / "run")

    scores = scores_in(run.directory).set_index("id").score
    assert scores["q2"] - scores["q1"] == 3


def fractions(n_rows=300, seed=0):
    """Return patients with a vendor's probability that ranks the ill."""
    past = scored_past(n_rows, seed)
    past["ews"] = np.round(past.ews / 25 + 0.013, 3)
    return past


def test_zero_and_one_are_probabilities(tmp_path):
    """0 and 1 are values of a probability, whatever the range of the past."""
    model = trained(fractions())
    night = fractions(40, seed=1).drop(columns="ill")
    night.loc[:1, "ews"] = [0.0, 1.0]

    run = score(model, night, tmp_path / "run")

    assert model.contract.kind == "probability"
    assert run.document["counts"]["scored"] == 40
    assert run.document["check_values"] is None
    assert run.document["cases"][0]["id"] == "p0001"


@pytest.mark.parametrize(
    ("cell", "fault"),
    [(-1.0, "out_of_bounds"), (np.nan, "missing"), (99.0, "out_of_bounds")],
)
def test_row_without_a_usable_score_is_listed(tmp_path, cell, fault):
    """The row has no score and stands first in the list; all others are scored."""
    model = trained(fractions())
    night = fractions(40, seed=1).drop(columns="ill")
    night.loc[7, "ews"] = cell

    run = score(model, night, tmp_path / "run")

    assert run.document["counts"]["scored"] == 39
    assert run.document["counts"]["refused"] == 1
    (value,) = run.document["check_values"]["values"]
    assert value["id"] == "p0007"
    assert value["row"] == 8
    assert value["fault"] == fault
    assert value["treatment"] == "left_out"
    assert "p0007" not in set(scores_in(run.directory).id)
    page = (run.directory / "report.html").read_text()
    assert "not scored" in page


def test_text_in_place_of_a_score_leaves_its_row_out(tmp_path):
    """One text that is not a number costs one row, not the night."""
    model = trained(fractions())
    night = fractions(200, seed=1).drop(columns="ill").astype({"ews": str})
    night.loc[7, "ews"] = "pending"

    run = score(model, night, tmp_path / "run")

    (value,) = run.document["check_values"]["values"]
    assert (value["id"], value["fault"]) == ("p0007", "unreadable")
    assert run.document["counts"]["scored"] == 199


def test_column_of_texts_in_place_of_scores_is_refused(tmp_path):
    """A night in which over 1 % of the scores are texts is refused as a whole."""
    model = trained(fractions())
    night = fractions(200, seed=1).drop(columns="ill").astype({"ews": str})
    night.loc[:9, "ews"] = "pending"

    with pytest.raises(CohortError, match="a text that is not a number"):
        score(model, night, tmp_path / "run")


def test_score_above_the_past_is_first_with_the_chance_of_the_largest(tmp_path):
    """A score that no past patient had keeps the chance of the largest held-out one."""
    past = scored_past()
    model = trained(past)
    night = scored_past(40, seed=1).drop(columns="ill")
    night.loc[:1, "ews"] = [past.ews.max() + 30, past.ews.max()]

    run = score(model, night, tmp_path / "run")

    first, second = run.document["cases"][:2]
    assert model.contract.kind == "points"
    assert first["id"] == "p0000"
    assert first["beyond"] == "above"
    assert second["beyond"] is None
    assert first["chance"] == second["chance"]
    page = (run.directory / "report.html").read_text()
    assert "higher than any past patient" in page


def test_chance_beyond_the_held_out_scores_of_a_machine(tmp_path):
    """The rule holds for every method: no chance is beyond those of the past."""
    past = scored_past()
    model = trained(past, recipe="logistic", params={"C": 1.0})
    night = scored_past(40, seed=1).drop(columns="ill")
    night.loc[0, ["age", "crp"]] = [89, 170.0]

    run = score(model, night, tmp_path / "run")

    platt = model.facts.validation.calibration["yes"].platt
    highest = chances_at(np.array([platt.range[1]]), platt)[0][0]
    first = run.document["cases"][0]
    assert first["id"] == "p0000"
    assert first["beyond"] == "above"
    assert first["chance"]["value"] == pytest.approx(highest)


def test_night_in_percent_after_fractions_is_named(tmp_path):
    """A night in per cent after a past in fractions is stopped, and named as that."""
    model = trained(fractions())
    night = fractions(40, seed=1).drop(columns="ill")
    night["ews"] *= 100

    with pytest.raises(CohortError, match="is in per cent"):
        score(model, night, tmp_path / "run")


def test_night_in_fractions_after_percent_is_named(tmp_path):
    """The same the other way round, where so many small values are no chance."""
    past = fractions()
    past["ews"] *= 100
    model = trained(past, contract_of(kind="percent"))
    night = fractions(40, seed=1).drop(columns="ill")

    with pytest.raises(CohortError, match="has fractions"):
        score(model, night, tmp_path / "run")


def test_past_outside_the_stated_kind_is_refused():
    """Training names the rows that are not what `kind` says."""
    past = fractions()
    past.loc[4, "ews"] = 1.2

    with pytest.raises(CohortError, match="column 'ews', rows 5: not a probability"):
        trained(past, contract_of(kind="probability"))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 0.5, 1.0], "probability"),
        ([0.0, 1.0, 1.0], None),
        ([0, 3, 12], "points"),
        ([0.4, 3.5, 80.25], None),
        ([-1.0, 3.0], None),
    ],
)
def test_kind_of_a_score_by_its_values(values, kind):
    """Values tell a probability and points; nothing is guessed of other numbers."""
    feature = Feature(type="number")

    assert infer_kind(np.array(values), "ews", feature) == kind
    is_percent = kind == "points" or values[-1] == 80.25
    expected = "percent" if is_percent else kind
    assert infer_kind(np.array(values), "risk_pct", feature) == expected


RULES = [MaxFlagRate(0.2), MinSensitivity(0.8), MissCost(10), GMean(), Threshold(6)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("beside", [None, (), ("svm", "auto"), ("news2",)])
def test_table_of_id_score_and_outcome_alone(rule, beside):
    """The commonest table works with every rule, whatever is to be compared."""
    alone = scored_past()[["id", "ews", "ill"]]
    contract = Contract(
        id="id", label="ill", score="ews", features={"ews": Feature(type="number")}
    )

    model = train(alone, "given", contract=contract, rule=rule, beside=beside, jobs=1)

    notes = " ".join(model.document["training"]["notes"])
    assert "no column but the score" in notes
    assert model.document["validation"]["comparison"] is None


def test_inverted_score_is_named():
    """A score that is surely the wrong way round asks for `higher`."""
    model = trained(scored_past(), contract_of("better"))

    reasons = {reason["code"]: reason for reason in model.document["attention"]}
    assert 'higher = "worse"' in reasons["score_inverted"]["remedy"]


def test_feature_that_is_needed_may_not_be_out_of_bounds(tmp_path):
    """A value out of bounds is missing, also where the contract refuses that."""
    contract = contract_of()
    needed = Feature(type="number", missing="refuse", plausible=(-100, 500))
    features = contract.features | {"crp": needed}
    contract = contract.model_copy(update={"features": features})
    model = trained(scored_past(), contract, recipe="logistic", params={"C": 1.0})
    night = scored_past(40, seed=1).drop(columns="ill")
    night.loc[2, "crp"] = 9999.0

    with pytest.raises(
        CohortError, match="row 3: out of bounds, and the row cannot be scored"
    ):
        score(model, night, tmp_path / "run")


def test_item_of_points_out_of_bounds_leaves_its_row_out(tmp_path):
    """A table of points that leaves rows out does so for a value out of bounds."""
    path = tmp_path / "own.toml"
    path.write_text(points_recipe(CRP, '"leave_out"').text)
    model = trained(scored_past(), recipe=load_recipe(path))
    night = scored_past(40, seed=1).drop(columns="ill")
    night.loc[2, "crp"] = 9999.0

    run = score(model, night, tmp_path / "run")

    assert run.document["counts"]["scored"] == 39
    (value,) = run.document["check_values"]["values"]
    assert (value["id"], value["treatment"]) == ("p0002", "left_out")
