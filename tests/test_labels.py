"""A slip of the pen in the label is no class; ids that are row numbers are said at the head."""

import json

import numpy as np
import pytest
from commands import screen
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st

from screening import read_cohort, train
from screening.contract.contract import Contract
from screening.data.ids import row_number_ids
from screening.data.labels import alike
from screening.errors import CohortError, UsageError

QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--beside", "none"]


def labelled(folder, slips, **roles):
    table = patients()
    for place, text in slips.items():
        table.loc[table.index[table["ill"] == "yes"][place], "ill"] = text
    path = written(table, folder / "past.csv")
    roles = {"label": "ill", "id": "patient", "need_label": True} | roles
    return read_cohort(path, **roles)


def learned(cohort):
    return train(cohort, "logistic", search=1, repeats=1, beside=())


@pytest.mark.parametrize(
    ("slips", "positive", "told"),
    [
        ({0: "yess"}, None, r"column 'ill', row \d+: a value that stands in 1 row only.*--positive"),
        ({0: "yess"}, "yes", r"row \d+: a value that stands in 1 row only"),
        (dict.fromkeys(range(5), "Yes"), None, r"rows (\d+, ){4}\d+: .* differ by a slip"),
        (dict.fromkeys(range(5), "yes."), "yes", r"rows (\d+, ){4}\d+: .* differ by a slip"),
    ],
)
def test_a_label_that_is_a_slip_is_refused_by_its_rows_and_never_shown(tmp_path, slips, positive, told):
    with pytest.raises(CohortError, match=told) as refused:
        learned(labelled(tmp_path, slips, positive=positive))
    assert not any(f"{text!r}" in str(refused.value) for text in slips.values())


@pytest.mark.parametrize("positive", [None, "yess"])
def test_a_column_of_names_that_is_given_as_label_shows_none_of_them(tmp_path, positive):
    cohort = labelled(tmp_path, {0: "Mrs Smith", 1: "Mr Smyth"})
    with pytest.raises(UsageError) as refused:
        cohort.positives(positive)
    assert "Sm" not in str(refused.value)


def test_slips_that_were_named_are_meant_as_they_stand(tmp_path):
    model = learned(labelled(tmp_path, {0: "Yes", 1: "yess"}, positive="yes+Yes+yess"))
    assert model.document["task"]["joined"] == {"yes+Yes+yess": ["yes", "Yes", "yess"]}


def test_a_rare_label_that_the_contract_calls_negative_is_taken_as_such(tmp_path):
    contract = Contract(label="ill", positive=["yes"], negative=["unclear"], id="patient")
    model = learned(labelled(tmp_path, {0: "unclear"}, contract=contract))
    assert model.document["training"]["n_by_class"]["unclear"] == 1


def test_a_column_of_many_values_is_refused_as_a_label_without_showing_one(tmp_path):
    with pytest.raises(CohortError, match="is it the label") as refused:
        learned(labelled(tmp_path, {}, label="fever"))
    assert "37" not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("yes", "Yes"), ("yes", "yess"), ("sepsis", "sepssis"), ("no infection", "no_infection"),
        ("no infection", "no infecton"), ("non-septic", "nonseptic"),
    ],
)  # fmt: skip
def test_slips_are_seen_both_ways_round(one, other):
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "2"), ("1.0", "10"), ("G3", "G4"), ("grade 1", "grade 2"), ("A+", "A-"), ("<5", ">5"),
        ("type a", "type b"), ("septic", "aseptic"), ("male", "female"), ("no", "not"),
    ],
)  # fmt: skip
def test_labels_that_are_near_by_nature_are_told_apart(one, other):
    assert not alike(one, other)
    assert not alike(other, one)


@given(st.text("abcdefgh", min_size=3, max_size=12), st.data())
def test_any_letter_left_out_of_a_word_is_a_slip_but_a_leading_a(word, data):
    place = data.draw(st.integers(1, len(word) - 1))
    shorter = word[:place] + word[place + 1 :]
    assert alike(word, shorter) == (len(shorter) >= 3 and word != f"a{shorter}")


# --- who is who


@pytest.mark.parametrize(("name", "first"), [("id", 0), ("Row", 1), ("row_nr", 1), ("Unnamed: 0", 0)])
def test_row_numbers_that_pose_as_ids_are_told(tmp_path, name, first):
    table = patients().rename(columns={"patient": name})
    table[name] = np.arange(first, first + len(table))
    cohort = read_cohort(written(table, tmp_path / "past.csv"), label="ill", id=name)
    (reason,) = row_number_ids(cohort)
    assert (reason.code, reason.column) == ("ids_are_row_numbers", name)


def test_a_table_without_ids_says_so_on_page_and_in_files_of_model_and_night(tmp_path):
    written(patients().drop(columns="patient"), tmp_path / "past.csv")
    written(patients(40, seed=1).drop(columns=["patient", "ill"]), tmp_path / "tonight.csv")
    model, run = tmp_path / "model", tmp_path / "run"

    answer = screen("train", tmp_path / "past.csv", "--label", "ill", *QUICK, "--out", model, "--json")
    screen("score", model, tmp_path / "tonight.csv", "--out", run)

    told = [reason["code"] for reason in json.loads(answer.stdout)["attention"]]
    assert "ids_are_row_numbers" in told
    for folder, name in ((model, "model.json"), (run, "run.json")):
        document = json.loads((folder / name).read_bytes())
        assert "ids_are_row_numbers" in [each["code"] for each in document["attention"]]
        assert "the ids on this page are row numbers" in (folder / "report.html").read_text("utf-8")


def test_train_tells_what_it_dropped_inferred_and_guessed_on_stderr_in_json_and_on_the_page(tmp_path):
    written(patients().assign(note="same"), tmp_path / "past.csv")

    answer = screen(
        "train", tmp_path / "past.csv", "--label", "ill", "--id", "patient", *QUICK,
        "--out", tmp_path / "model", "--json",
    )  # fmt: skip

    page = (tmp_path / "model" / "report.html").read_text("utf-8")
    for said in ("dropped, one value only: note", "inferred category: ward", "guessed role positive: yes"):
        assert any(said in note for note in json.loads(answer.stdout)["notes"])
        assert said in answer.stderr
        assert said in page
