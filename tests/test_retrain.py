"""A model trained again on verdicts: what it learns from, and that it is in force nowhere by itself."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import sampled, screen
from flow_cohorts import patients, written
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger import enter
from test_series import of_ward

from screening import read_cohort, train
from screening.errors import UsageError
from screening.io.opening import digests
from screening.ledger.database import open_ledger
from screening.ledger.history import compare_nights, history
from screening.ledger.model_registry import Judged, LastWord, judged, promote, record_retraining
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.model_selection.retraining import (
    KNOWN,
    NO_DIGEST,
    NO_ROW,
    NO_TABLE,
    OTHER_TABLE,
    SEVERAL_ROWS,
    UNSURE,
    judged_cohort,
    retrained,
)
from screening.report import render_model
from screening.store.loading import load_model

QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--folds", "3"]
WHO = ["--label", "ill", "--positive", "yes", "--id", "patient"]
SERIES = "ward-7"


def said(run, words: dict[str, str]) -> dict:
    """Verdicts as the page saves them."""
    document = json.loads((run / "run.json").read_text())
    verdicts = [{"id": name, "verdict": word} for name, word in words.items()]
    return {"format": 1, "run_id": document["run_id"], "verdicts": verdicts}


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Two nights of a ward whose flagged and drawn cases all have verdicts."""
    folder = tmp_path_factory.mktemp("ward")
    past = written(patients(), folder / "past.csv")
    screen("train", past, *WHO, *QUICK, "--max-flag-rate", "0.2", "--out", folder / "m")
    (folder / "in").mkdir()
    given_words = {}
    for day in (1, 2):
        night = f"2026-03-{day:02d}"
        table = patients(60, seed=day)
        place = written(table.drop(columns="ill"), folder / "in" / f"{night}.csv")
        out, where = folder / night, ["--ledger", folder / "l.db", "--series", SERIES]
        screen("score", folder / "m", place, "--out", out, "--date", night, *where)
        run = json.loads((out / "run.json").read_text())
        ill = dict(zip(table["patient"], table["ill"] == "yes", strict=True))
        names = [*(case["id"] for case in run["cases"]), *sampled(run)]
        words = {name: "confirmed" if ill[name] else "ruled out" for name in names}
        (folder / "v.json").write_text(json.dumps(said(out, words)))
        screen("review", out, folder / "v.json", "--ledger", folder / "l.db")
        given_words |= words
    return folder, given_words


@pytest.fixture(scope="module")
def next_model(ward):
    folder, _ = ward
    words = [SERIES, folder / "m", folder / "past.csv", "--nights", folder / "in" / "{date}.csv"]
    told = screen("retrain", *words, "--out", folder / "next", "--ledger", folder / "l.db", "--json")
    return json.loads(told.stdout)


def test_it_learns_from_every_verdict_by_the_champions_recipe_rule_and_contract(ward, next_model):
    folder, words = ward
    champion, model = load_model(folder / "m"), load_model(folder / "next")
    ids = set(model.validation["id"])

    assert ids == set(champion.validation["id"]) | set(words)
    labels = model.validation.set_index("id")["label"]
    assert {name: labels[name] for name in words} == {
        name: "yes" if word == "confirmed" else "no" for name, word in words.items()
    }
    assert model.recipe == champion.recipe
    assert model.contract == champion.contract
    rules = [each.operating_points[0]["rule"] for each in (champion, model)]
    assert (rules[0]["name"], rules[0]["value"]) == (rules[1]["name"], rules[1]["value"])
    methods = [[one.recipe for one in each.facts.validation.comparison.beside] for each in (champion, model)]
    assert methods[0] == methods[1]
    facts = next_model["verdicts"]
    assert facts["confirmed"] + facts["ruled_out"] == len(words)
    assert (facts["nights"], facts["first"], facts["last"]) == (2, "2026-03-01", "2026-03-02")
    assert model.document["training"]["verdicts"] == facts


def test_figures_stay_at_the_past_cohorts_prevalence_though_judged_rows_were_chosen(ward, next_model):
    folder, _ = ward
    past = pd.read_csv(folder / "past.csv")
    model = load_model(folder / "next")
    (point,) = model.operating_points

    assert point["prevalence"] == pytest.approx((past["ill"] == "yes").mean())
    assert "(given)" in render_model(model.sealed)


def test_it_is_in_the_trail_and_in_force_nowhere_until_it_is_promoted(ward, next_model):
    folder, _ = ward
    where = ["--ledger", folder / "l.db", "--series", SERIES]
    champion = load_model(folder / "m").digest
    with open_ledger(folder / "l.db", read_only=True) as ledger:
        told = history(ledger, SERIES, verify=True)
        (entry,), (point,) = told["retrainings"], load_model(folder / "m").operating_points
        promised = told["series"][0]["forward"]["promised"]
        assert judged(ledger, SERIES, champion).series == SERIES
    assert (entry["champion"], entry["model"][:12]) == (champion, next_model["id"])
    assert entry["entry"] == next_model["entry"]
    assert [promised[name]["value"] for name in ("sensitivity", "ppv")] == [
        point["sensitivity"]["value"],
        point["ppv"]["value"],
    ]
    screen("promote", folder / "next", *where, "--reason", "newer", code=2)
    night = ["--out", folder / "third", "--date", "2026-03-03", *where]
    table = written(patients(60, seed=3).drop(columns="ill"), folder / "third.csv")
    screen("score", folder / "next", table, *night, code=2)
    screen("score", folder / "next", table, *night, "--shadow")
    screen("promote", folder / "next", *where, "--reason", "newer", code=2)  # a draft
    screen("approve", folder / "next", "--by", "A. Weber", "--reason", "newer", *where)
    screen("promote", folder / "next", *where, "--reason", "newer")
    screen("score", folder / "next", table, "--force", *night, "--out", folder / "in force")


def test_a_patient_is_named_by_neither_the_answer_nor_the_trail(ward, next_model):
    folder, words = ward
    with open_ledger(folder / "l.db", read_only=True) as ledger:
        told = json.dumps([next_model, history(ledger)["retrainings"]])

    assert [name for name in words if name in told] == []


def test_a_model_that_stands_is_never_written_over(ward):
    folder, _ = ward
    words = [SERIES, folder / "m", folder / "past.csv", "--nights", folder / "in" / "{date}.csv"]
    before = (folder / "m" / "model.json").read_bytes()
    screen("retrain", *words, "--out", folder / "m", "--ledger", folder / "l.db", code=2)

    assert (folder / "m" / "model.json").read_bytes() == before


# What follows puts such cohorts together by hand, without a ledger.


@pytest.fixture(scope="module")
def champion(ward):
    return load_model(ward[0] / "m")


def word(folder, name: str, verdict: str, night: str, table: str | None = None) -> LastWord:
    place = folder / f"{night}.csv"
    known = ",".join(each[:16] for each in digests(str(place))) if table is None else table
    return LastWord(name, night, verdict, known)


def cohort_of(champion, past, folder, *words: LastWord):
    return judged_cohort(champion, past, Judged(SERIES, words), str(folder / "{date}.csv"))


@pytest.fixture
def tables(tmp_path):
    """A night's table, and the past cohort, in which its first patient stands with the same values."""
    night = patients(20, seed=5)
    written(night.drop(columns="ill"), tmp_path / "2026-03-01.csv")
    return tmp_path, night


def read(champion, folder, table):
    return read_cohort(written(table, folder / "past.csv"), champion.contract, need_label=True)


def test_what_cannot_be_learned_from_is_left_out_and_said(champion, tables):
    folder, night = tables
    names = list(night["patient"])
    past = read(champion, folder, patients())
    (folder / "2026-03-02.csv").write_text("nothing\n1\n")
    found = cohort_of(
        champion, past, folder,
        word(folder, names[0], "confirmed", "2026-03-01"),
        word(folder, names[1], "unsure", "2026-03-01"),
        word(folder, names[2], "known", "2026-03-01"),
        word(folder, names[3], "ruled out", "2026-03-01", "f" * 16),
        word(folder, names[4], "ruled out", "2026-03-01", ""),
        word(folder, "erased-0123456789abcdef", "ruled out", "2026-03-01"),
        word(folder, names[5], "ruled out", "2026-03-02"),
        word(folder, names[6], "ruled out", "2026-03-09", "f" * 16),
    )  # fmt: skip

    assert found.facts.left_out == {
        UNSURE: 1, KNOWN: 1, OTHER_TABLE: 1, NO_DIGEST: 1, NO_ROW: 1, NO_TABLE: 2
    }  # fmt: skip
    assert (found.facts.confirmed, found.facts.ruled_out) == (1, 0)
    assert found.cohort.n_rows == past.n_rows + 1


def test_with_nothing_to_learn_from_nothing_is_trained(champion, tables):
    folder, night = tables
    past = read(champion, folder, patients())
    with pytest.raises(UsageError, match=r"no verdict to learn from \(1 left out: the reviewer was unsure"):
        cohort_of(champion, past, folder, word(folder, night["patient"][0], "unsure", "2026-03-01"))


@given(st.sets(st.integers(0, 19), min_size=1), st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)))
@settings(max_examples=15)
def test_a_row_in_both_counts_once_and_a_patient_is_on_one_side_of_every_fold(
    champion, tmp_path_factory, told, same, changed
):
    folder = tmp_path_factory.mktemp("both")
    night = patients(20, seed=5)
    written(night.drop(columns="ill"), folder / "2026-03-01.csv")
    other = night.assign(fever=night["fever"] + 1)
    # What stands in the past cohort with the same values, and what with others, as of another day.
    twice = [night.iloc[sorted(same - changed)], other.iloc[sorted(changed)]]
    past = read(champion, folder, pd.concat([patients(), *twice]))
    names = list(night["patient"])
    words = [word(folder, names[at], "ruled out", "2026-03-01") for at in sorted(told)]
    found = cohort_of(champion, past, folder, *words)
    cohort = found.cohort

    assert found.facts.already == len(told & (same - changed))
    assert found.facts.taken == len(told - (same - changed))
    assert cohort.n_rows == past.n_rows + found.facts.taken
    shared = len(told & changed)
    assert len(np.unique(cohort.id)) == cohort.n_rows - shared
    assert (cohort.group is not None) == bool(shared)
    np.testing.assert_array_equal(cohort.group if shared else cohort.id, cohort.id)


def test_what_was_fixed_for_the_champion_is_fixed_again_and_the_rest_is_searched(champion, tables):
    folder, night = tables
    past = read(champion, folder, patients())
    fixed = train(past, "svm_weighted", params={"C": 3.0}, search=2, folds=3, repeats=1, beside=())
    words = [word(folder, night["patient"][at], "ruled out", "2026-03-01") for at in (0, 1)]
    model = retrained(fixed, cohort_of(fixed, past, folder, *words))
    candidates = model.document["validation"]["search"]["candidates"]

    assert [each["C"] for each in candidates] == [3.0, 3.0]
    assert candidates == fixed.document["validation"]["search"]["candidates"]


def test_a_verdict_against_the_cohorts_label_is_counted_and_the_label_stands(champion, tables):
    folder, night = tables
    past = read(champion, folder, pd.concat([patients(), night]))
    ill = night[night["ill"] == "yes"]["patient"].iloc[0]
    words = (
        word(folder, ill, "ruled out", "2026-03-01"),
        word(folder, night["patient"][19], "ruled out", "2026-03-01"),
    )
    found = cohort_of(champion, past, folder, *words)

    assert (found.facts.already, found.facts.disagreeing) == (2, 1 + (night["ill"][19] == "yes"))
    assert found.cohort.label[found.cohort.id == ill] == ["yes"]


def test_of_a_patient_with_several_rows_no_verdict_is_taken(champion, tables):
    folder, night = tables
    grouped = champion.contract.with_roles(group="patient")
    rows = night.drop(columns="ill").assign(row=np.arange(20).astype(str))
    rows.loc[1, "patient"] = rows["patient"][0]
    written(rows, folder / "2026-03-01.csv")
    contract = grouped.model_copy(update={"id": "row"})
    past_rows = patients().assign(row=[f"p{at}" for at in range(240)])
    past = read_cohort(written(past_rows, folder / "past.csv"), contract, need_label=True)
    words = [word(folder, rows["patient"][at], "confirmed", "2026-03-01") for at in (0, 5)]
    found = cohort_of(replace(champion, contract=contract), past, folder, *words)

    assert found.facts.left_out == {SEVERAL_ROWS: 1}
    assert found.facts.confirmed == 1


def test_a_review_date_of_before_is_not_taken_over_in_silence(champion, tables):
    folder, night = tables
    old = champion.contract.model_copy(update={"review_by": datetime.date(2025, 1, 1)})
    past = read_cohort(written(patients(), folder / "past.csv"), old, need_label=True)
    aged = replace(champion, contract=old)
    words = [word(folder, night["patient"][0], "ruled out", "2026-03-01")]
    found = cohort_of(aged, past, folder, *words)
    dated = retrained(aged, found, review_by=datetime.date(2028, 1, 1))
    silent = retrained(aged, found)

    assert str(dated.contract.review_by) == "2028-01-01"
    assert silent.contract.review_by is None
    assert any("2025-01-01" in note for note in silent.document["training"]["notes"])


# The ledger's part, in SQLite and PostgreSQL.


def test_of_several_verdicts_on_a_patient_the_last_one_speaks_with_the_table_it_was_given_on(ledger):
    for day in (1, 2, 3):
        one = of_ward(SERIES, day, "ab")
        enter(ledger, replace(one, night=one.night.replace(table=f"t{day}")))
    record_verdicts(ledger, f"{SERIES} m 1", [Verdict("a", "ruled out"), Verdict("b", "confirmed")])
    record_verdicts(ledger, f"{SERIES} m 3", [Verdict("a", "confirmed")])
    enter(ledger, of_ward("ward-9", 3, "a"))
    record_verdicts(ledger, "ward-9 m 3", [Verdict("a", "ruled out")])

    assert judged(ledger, SERIES, "m" * 64).words == (
        LastWord("b", "2026-01-01", "confirmed", "t1"),
        LastWord("a", "2026-01-03", "confirmed", "t3"),
    )


def test_only_the_champions_successor_is_recorded(ledger):
    enter(ledger, of_ward(SERIES, 1, "a"))
    enter(ledger, of_ward(SERIES, 1, "a", "n", shadow=True))
    with pytest.raises(UsageError, match="scored with model mmmmmmmmmmmm, and this is nnnn"):
        judged(ledger, SERIES, "n" * 64)
    promote(ledger, SERIES, "n" * 64, "better", compare_nights(ledger, SERIES, "n" * 64))
    with pytest.raises(UsageError, match="give the directory of the champion"):
        record_retraining(ledger, SERIES, "m" * 64, "k" * 64, {})

    assert history(ledger, verify=True)["retrainings"] == []
