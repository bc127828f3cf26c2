"""Several scores of a stay: one row of each is judged, and scored at night."""

import pickle

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen
from faults.amounts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from written_files import read_json, scores_in

from screening import (
    MaxFlagRate,
    compare,
    load_model,
    load_recipe,
    score,
    train,
    validate,
)
from screening.contract.contract import Contract, Feature, ScorePerUnit
from screening.data.one_per_unit import RowChoice
from screening.data.reading import read_cohort
from screening.errors import CohortError, RecipeError
from screening.scoring.night_totals import BlockScorer
from screening.scoring.reference_distribution import ALL_HASHES
from screening.scoring.scoring_pass import _load_once, _score_packed
from screening.store.model import save_model

QUICK = {"rule": MaxFlagRate(0.2), "beside": (), "jobs": 1}
OWN_POINTS = """
name = "own"
title = "Own points"
paper = "none"
machine = "points"
[points]
missing = 0
[[points.items]]
column = "ews"
from = [5, 8]
points = [0, 2, 3]
[[points.items]]
column = "crp"
from = [60]
points = [0, 1]
"""


def hours(n_stays=150, seed=0):
    """Return hourly rows of stays in the order of time, some without a score."""
    rng = default_rng(seed)
    names = [f"s{number:03d}" for number in range(n_stays)]
    stay = np.repeat(names, 6)
    ill = np.repeat(rng.random(n_stays) < 0.25, 6)
    scores = rng.normal(4 + 2 * ill, 2)
    ews = np.round(scores, 1)
    ews[rng.random(len(ews)) < 0.15] = np.nan
    moments = pd.date_range("2026-03-01", periods=6, freq="h")
    frame = pd.DataFrame(
        {
            "stay": stay,
            "at": np.tile(moments, n_stays),
            "ews": ews,
            "crp": rng.normal(50 + 20 * ill, 20).round(1),
            "ill": np.where(ill, "yes", "no"),
        }
    )
    shuffled = frame.sample(frac=1, random_state=seed)
    return shuffled.reset_index(drop=True)


def contract_of(take, higher="worse", **more):
    features = {name: Feature(type="number") for name in ("ews", "crp")}
    roles = {
        "id": "stay",
        "label": "ill",
        "time": "at",
        "score": "ews",
    } | more
    return Contract(
        **roles,
        higher=higher,
        features=features,
        per_unit=ScorePerUnit(per="stay", take=take),
    )


def expected(frame, take, higher="worse"):
    """Return the row of each stay, by the definition."""
    rows = frame.reset_index().sort_values("at")
    with_score = rows.dropna(subset="ews")
    if take == "max":
        sign = 1 if higher == "worse" else -1
        signed = sign * with_score.ews
        rank = signed.groupby(with_score.stay).transform("max")
        with_score = with_score[signed == rank]
    side = "first" if take == "first" else "last"
    return with_score.drop_duplicates("stay", keep=side).set_index("stay")


@pytest.mark.parametrize("take", ["max", "last", "first"])
@pytest.mark.parametrize("higher", ["worse", "better"])
def test_one_row_of_each_stay_is_judged_and_scored(take, higher, tmp_path):
    past = hours()
    night = hours(40, seed=1).drop(columns="ill")
    contract = contract_of(take, higher)
    model = train(past, "given", contract=contract, **QUICK)
    saved = load_model(save_model(model, tmp_path / "model"))

    run = score(saved, night, tmp_path / "run")

    assert model.document["validation"]["n_rows"] == 150
    sign = 1 if higher == "worse" else -1
    rows = expected(night, take, higher)
    scores = scores_in(run.directory).set_index("id")
    signed = sign * scores.score
    assert signed.to_dict() == rows.ews.to_dict()
    counts = run.document["counts"]
    assert counts["read"] == 40
    assert counts["scored"] == 40
    assert counts["refused"] == 0
    assert any(
        "40 of 240 rows are used" in note for note in run.document["input"]["notes"]
    )


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_blocks_do_not_matter(batch_rows):
    night = hours(40, seed=1).drop(columns="ill")
    model = train(hours(), "given", contract=contract_of("max"), **QUICK)

    batches = list(model.opened(night, batch_rows=batch_rows))

    rows = np.concatenate([batch.rows for batch in batches])
    chosen = expected(night, "max")["index"]
    assert sorted(rows - 1) == sorted(chosen)


@pytest.mark.repeated
@settings(max_examples=examples(15, 50))
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 2.0, np.nan])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["max", "last", "first"]),
    st.integers(1, 5),
)
def test_choice_is_that_of_the_definition(lines, take, size):
    """Without a time the order of the table counts."""
    frame = pd.DataFrame(lines, columns=["stay", "x"])
    frame["label"] = "no"
    contract = Contract(
        id="stay",
        features={"x": Feature(type="number")},
        per_unit=ScorePerUnit(per="stay", take=take),
    )
    cohort = read_cohort(frame, contract)
    choice = RowChoice(take, lambda values: values["x"].copy())
    for start in range(0, len(frame), size):
        stop = min(start + size, len(frame))
        choice.add(cohort.take(np.arange(start, stop)))

    wanted = []
    for _, rows in frame.groupby("stay"):
        scored = rows.dropna(subset="x")
        rows = scored if len(scored) else rows
        if take == "max" and len(scored):
            rows = scored[scored.x == scored.x.max()]
        place = 0 if take == "first" else -1
        wanted.append(rows.index[place] + 1)
    assert choice.rows().tolist() == sorted(wanted)


def test_points_take_the_row_of_the_highest_sum(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN_POINTS)
    recipe = load_recipe(path)
    night = hours(40, seed=1).drop(columns="ill")

    contract = contract_of("max", score=None)
    model = train(hours(), recipe, contract=contract, **QUICK)
    run = score(model, night, tmp_path / "run")

    points = 2 * (night.ews >= 5) + (night.ews >= 8)
    points += night.crp >= 60
    highest = points.groupby(night.stay).max()
    scores = scores_in(run.directory).set_index("id")
    assert scores.score.to_dict() == highest.to_dict()


def test_own_model_takes_the_last_row_and_no_highest_score(tmp_path):
    past = hours()
    with pytest.raises(RecipeError, match="logistic learns its own"):
        train(past, "logistic", contract=contract_of("max"), search=1, **QUICK)

    model = train(
        past,
        "logistic",
        contract=contract_of("last"),
        search=1,
        **QUICK,
    )
    night = hours(40, seed=1).drop(columns="ill")
    run = score(model, night, tmp_path / "run")

    last = night.sort_values("at").drop_duplicates("stay", keep="last")
    assert model.document["validation"]["n_rows"] == 150
    taken = [batch.rows for batch in model.opened(night)]
    numbers = np.concatenate(taken) - 1
    assert sorted(numbers) == sorted(last.index)
    assert run.document["counts"]["scored"] == 40


def test_piece_that_a_process_leaves_in_a_file(tmp_path):
    """The caller takes it as it was scored; ids that repeat have no second form that
    could be somebody else's.
    """
    model = train(hours(), "given", contract=contract_of("last"), **QUICK)
    stream = model.opened(hours(40, seed=1).drop(columns="ill"))
    scorer = BlockScorer(model, "2026-03-02", stream.read_ahead())
    packed = np.frombuffer(pickle.dumps(scorer), np.uint8)
    (piece,) = stream.pieces()
    here = scorer.score_piece(piece, False, ALL_HASHES)
    (piece,) = stream.pieces()

    taken = _load_once(_score_packed(packed, "a", tmp_path, piece, False, ALL_HASHES))

    assert taken.rows == here.rows
    hashes = [scored.counts.id_hashes for scored in (taken, here)]
    assert np.array_equal(*map(np.concatenate, hashes))
    ids, *_ = taken.counts.observed
    assert ids.reduced == ()
    assert not list(tmp_path.iterdir())


def test_methods_are_compared_on_the_rows_that_the_score_takes():
    compared = compare(
        {"ward": hours()},
        ["logistic", "given"],
        contract=contract_of("max"),
        control="logistic",
        search=1,
        rule=QUICK["rule"],
        jobs=1,
    )

    methods = compared.summary()["cohorts"]["ward"]
    assert set(methods) == {"given", "logistic"}
    assert compared.document["cohorts"][0]["n_rows"] == 150


def test_labels_of_a_stay_must_agree():
    past = hours()
    past.loc[past.stay == "s001", "ill"] = ["yes", "no"] * 3

    with pytest.raises(CohortError, match="different labels in 1 units"):
        train(past, "given", contract=contract_of("max"), **QUICK)


def test_stay_without_any_score_is_refused_once(tmp_path):
    night = hours(40, seed=1).drop(columns="ill")
    night.loc[night.stay == "s003", "ews"] = np.nan
    model = train(hours(), "given", contract=contract_of("max"), **QUICK)

    run = score(model, night, tmp_path / "run")

    counts = run.document["counts"]
    assert counts["read"] == 40
    assert counts["scored"] == 39
    assert counts["refused"] == 1


@pytest.mark.parametrize("take", ["max", "last"])
def test_table_without_any_score_is_refused(tmp_path, take):
    """A night on which no row has a score is refused by its column, in words."""
    night = hours(40, seed=1).drop(columns="ill").assign(ews=np.nan)
    model = train(hours(), "given", contract=contract_of(take), **QUICK)

    with pytest.raises(CohortError, match="every row violates the contract") as refused:
        score(model, night, tmp_path / "run")

    assert "column 'ews'" in str(refused.value)


def test_value_out_of_bounds_is_not_the_highest_score(tmp_path):
    """A score beyond `plausible` is listed with its row, and another hour is scored."""
    night = hours(40, seed=1).drop(columns="ill")
    first = night.index[night.stay == "s003"][0]
    night.loc[first, "ews"] = 9999.0
    contract = contract_of("max")
    score_of = Feature(type="number", plausible=(-20, 30))
    features = contract.features | {"ews": score_of}
    contract = contract.model_copy(update={"features": features})
    model = train(hours(), "given", contract=contract, **QUICK)

    run = score(model, night, tmp_path / "run")

    scores = scores_in(run.directory).set_index("id")
    others = night.drop(index=first)
    of_stay = others.ews[others.stay == "s003"]
    assert scores.score["s003"] == of_stay.max()
    checked = run.document["check_values"]
    listed = [(value["id"], value["treatment"]) for value in checked["values"]]
    assert listed == [("s003", "not_taken")]
    assert checked["not_taken"] == 1
    codes = [reason["code"] for reason in run.document["attention"]]
    assert "score_not_taken" in codes


def test_row_that_breaks_the_contract_does_not_stand_for_its_stay(tmp_path):
    """Where such rows are left out, another hour of the stay is scored."""
    night = hours(40, seed=1).drop(columns="ill").astype({"at": str})
    of_stay = night.index[night.stay == "s003"]
    night.loc[of_stay[0], ["ews", "at"]] = 25.0, "some day"
    contract = contract_of("max", on_violation="refuse_rows")
    model = train(hours(), "given", contract=contract, **QUICK)

    run = score(model, night, tmp_path / "run")

    scores = scores_in(run.directory).set_index("id")
    counts = run.document["counts"]
    assert scores.score["s003"] == night.ews[of_stay[1:]].max()
    assert len(scores) == counts["scored"] == 40
    assert counts["refused"] == counts["read"] - 40


def test_model_is_validated_on_one_row_a_stay():
    model = train(hours(), "given", contract=contract_of("max"), **QUICK)
    elsewhere = hours(60, seed=2)
    elsewhere["stay"] = "t" + elsewhere["stay"]

    by_file = validate(model, elsewhere)
    cohort = read_cohort(elsewhere, model.contract, label="ill")
    by_cohort = validate(model, cohort)

    assert by_file.figures.n_rows == by_cohort.figures.n_rows == 60


def test_contract_says_what_a_unit_is(tmp_path):
    path = tmp_path / "cohort.toml"
    contract = contract_of("last")
    path.write_text(contract.to_toml())

    assert '[score]\nper = "stay"\ntake = "last"' in path.read_text()
    assert Contract.load(path) == contract
    assert "per_unit" not in Contract().to_dict()["cohort"]
    path.write_text(path.read_text().replace('take = "last"', 'take = "latest"'))
    with pytest.raises(CohortError, match=r"score\.take"):
        Contract.load(path)
    with pytest.raises(ValueError, match='set `id = "stay"`'):
        contract_of("max", id="row")


def test_hourly_table_on_the_command_line(tmp_path):
    hours().to_csv(tmp_path / "past.csv", index=False)
    night = hours(40, seed=1).drop(columns="ill")
    night.to_csv(tmp_path / "night.csv", index=False)
    (tmp_path / "cohort.toml").write_text(contract_of("max").to_toml())
    contract = ("--contract", tmp_path / "cohort.toml")

    screen("check", tmp_path / "past.csv", *contract)
    screen(
        *("train", tmp_path / "past.csv", *contract, "--recipe", "given"),
        *("--max-flag-rate", "0.2", "--seed", "1", "--out", tmp_path / "model"),
    )
    checked = as_json("check", tmp_path / "night.csv", "--model", tmp_path / "model")
    run = as_json(
        *("score", tmp_path / "model", tmp_path / "night.csv"),
        *("--out", tmp_path / "run", "--jobs", "2"),
    )

    assert run["counts"]["scored"] == 40
    note = (
        "40 of 240 rows are used: for each stay, the row with the most suspicious score"
    )
    document = read_json(tmp_path / "run" / "run.json")
    assert note in checked["notes"] and note in document["input"]["notes"]
