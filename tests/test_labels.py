"""A slip of the pen in the label is no class; ids that are row numbers are said at the
head."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import LOGISTIC, WHO, screen
from flow_cohorts import patients, written
from hypothesis import given
from hypothesis import strategies as st
from written_files import page_in, read_json

from screening import load_recipe, read_cohort, train, validate
from screening.contract.contract import Contract
from screening.data.ids import row_number_ids
from screening.data.labels import is_slip
from screening.errors import CohortError, UsageError
from screening.model_selection.preparing import prepare_study
from screening.model_selection.task import infer_task
from screening.schemas.figures import DEFAULT_RULE
from screening.settings import Search, Validation


def labelled(folder, slips, **roles):
    table = patients()
    for place, text in slips.items():
        cases = table.index[table["ill"] == "yes"]
        table.loc[cases[place], "ill"] = text
    path = written(table, folder / "past.csv")
    roles = {"label": "ill", "id": "patient", "need_label": True} | roles
    return read_cohort(path, **roles)


def learned(cohort):
    return train(cohort, "logistic", search=1, repeats=1, beside=())


SLIPS = [
    (
        {0: "yess"},
        {},
        r"column 'ill', row \d+: a value that occurs in only 1 row.*`positive`",
    ),
    ({0: "yess"}, {"positive": "yes"}, r"row \d+: a value that occurs in only 1 row"),
    (dict.fromkeys(range(5), "Yes"), {}, r"rows (\d+, ){4}\d+: .* typing error"),
    (
        dict.fromkeys(range(5), "yes."),
        {"positive": "yes"},
        r"rows (\d+, ){4}\d+: .* typing error",
    ),
    ({}, {"label": "fever"}, "is it the label"),  # a column of many values
]


@pytest.mark.parametrize(("slips", "roles", "told"), SLIPS)
def test_label_that_is_a_slip_is_refused_by_its_rows_and_never_shown(
    tmp_path, slips, roles, told
):
    with pytest.raises(CohortError, match=told) as refused:
        learned(labelled(tmp_path, slips, **roles))
    values = [f"{text!r}" for text in slips.values()] or ["37."]
    assert not any(value in str(refused.value) for value in values)


@pytest.mark.parametrize("positive", [None, "yess"])
def test_a_column_of_names_that_is_given_as_label_shows_none_of_them(
    tmp_path, positive
):
    cohort = labelled(tmp_path, {0: "Mrs Smith", 1: "Mr Smyth"})
    with pytest.raises(UsageError) as refused:
        cohort.classes_named(positive or ())
    assert "Sm" not in str(refused.value)


def test_slips_that_were_named_are_meant_as_they_stand(tmp_path):
    """A rare label that the contract calls negative is taken as such, too."""
    slips = {0: "Yes", 1: "yess"}
    named = learned(labelled(tmp_path, slips, positive="yes+Yes+yess"))
    contract = Contract(
        label="ill",
        positive=["yes"],
        negative=["unclear"],
        id="patient",
    )
    path = labelled(tmp_path, {0: "unclear"}, contract=contract)
    stated = learned(path)
    joined = named.document["task"]["joined"]
    assert joined == {"yes+Yes+yess": ["yes", "Yes", "yess"]}
    assert stated.document["training"]["n_by_class"]["unclear"] == 1


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("yes", "Yes", True),
        ("yes", "yess", True),
        ("sepsis", "sepssis", True),
        ("no infection", "no_infection", True),
        ("no infection", "no infecton", True),
        ("non-septic", "nonseptic", True),
        ("1", "2", False),
        ("1.0", "10", False),
        ("G3", "G4", False),
        ("grade 1", "grade 2", False),
        ("A+", "A-", False),
        ("<5", ">5", False),
        ("type a", "type b", False),
        ("septic", "aseptic", False),
        ("male", "female", False),
        ("no", "not", False),
    ],
)
def test_slips_are_told_from_labels_that_are_near_by_nature(one, other, slip):
    assert is_slip(one, other) == is_slip(other, one) == slip


@given(st.text("abcdefgh", min_size=3, max_size=12), st.data())
def test_any_letter_left_out_of_a_word_is_a_slip_but_a_leading_a(word, data):
    place = data.draw(st.integers(1, len(word) - 1))
    shorter = word[:place] + word[place + 1 :]
    is_long_enough = len(shorter) >= 3
    assert is_slip(word, shorter) == (is_long_enough and word != f"a{shorter}")


# --- who is who


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("id", 0),
        ("Row", 1),
        ("row_nr", 1),
        ("Unnamed: 0", 0),
    ],
)
def test_row_numbers_that_pose_as_ids_are_told(tmp_path, name, first):
    table = patients().rename(columns={"patient": name})
    table[name] = np.arange(first, first + len(table))
    path = written(table, tmp_path / "past.csv")
    cohort = read_cohort(path, label="ill", id=name)
    (reason,) = row_number_ids(cohort)
    assert reason.code == "ids_are_row_numbers"
    assert reason.column == name


def test_table_without_ids(tmp_path):
    """A table without ids says so on page and in files of model and night."""
    without_ids = patients().drop(columns="patient")
    past = written(without_ids, tmp_path / "past.csv")
    unlabelled = patients(40, seed=1).drop(columns=["patient", "ill"])
    night = written(unlabelled, tmp_path / "tonight.csv")
    answer = screen(
        "train",
        past,
        "--label",
        "ill",
        *LOGISTIC,
        "--out",
        tmp_path / "model",
        "--json",
    )
    screen("score", tmp_path / "model", night, "--out", tmp_path / "run")
    documents = [json.loads(answer.stdout)]
    for folder in ("model", "run"):
        documents.append(read_json(tmp_path / folder / f"{folder}.json"))
        page = page_in(tmp_path / folder)
        assert "the ids on this page are row numbers" in page
    for document in documents:
        assert "ids_are_row_numbers" in [
            reason["code"] for reason in document["attention"]
        ]


def test_train_notes(tmp_path):
    """Train tells what it dropped inferred and guessed on stderr in JSON and on the
    page."""
    with_constant = patients().assign(note="same")
    past = written(with_constant, tmp_path / "past.csv")
    answer = screen(
        "train", past, *WHO, *LOGISTIC, "--out", tmp_path / "model", "--json"
    )
    notes = json.loads(answer.stdout)["notes"]
    page = page_in(tmp_path / "model")
    for said in (
        "dropped, one value only: note",
        "inferred category: ward",
        "guessed role positive: yes",
    ):
        assert any(said in note for note in notes)
        assert said in answer.stderr
        assert said in page


def ticked(folder):
    """Write a table whose label is ticked or blank; return its path and the ticks."""
    table = patients()
    is_ill = table["ill"] == "yes"
    ticks = np.where(is_ill, "x", "")
    ticked = table.assign(ill=ticks)
    return written(ticked, folder / "past.csv"), is_ill


def test_unlabelled_no_counts_blank(tmp_path):
    """Where blank is no, a ticked label has two classes, of which the tick is the
    case.
    """
    past, is_ill = ticked(tmp_path)

    cohort = read_cohort(past, label="ill", unlabelled="no", need_label=True)

    assert cohort.classes == ["no", "x"]
    expected = is_ill.astype(int)
    assert cohort.y().tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("case", "other", "blank"),
    [("1", "0", "0"), ("yes", "no", "no"), ("x", "ok", "no")],
)
def test_unlabelled_no_beside_known_labels(case, other, blank):
    """Blank labels are those of the others without the case, if these can be told.

    Of 1, 0 and blank the rows of 0 were to be found.
    """
    is_case = np.arange(120) % 3 == 0
    is_known = np.arange(120) % 2 == 0
    table = patients(120).assign(ill=np.where(is_known, other, ""))
    table.loc[is_case, "ill"] = case

    cohort = read_cohort(table, label="ill", unlabelled="no", need_label=True)

    expected = np.where(is_case, case, np.where(is_known, other, blank))
    assert cohort.label.tolist() == expected.tolist()
    positive = None if other != "ok" else case
    assert cohort.y(positive).tolist() == is_case.astype(int).tolist()


def test_unlabelled_no_never_watched():
    """Where several classes are told apart, the few blank rows are none to be found."""
    labels = np.repeat(["sepsis", "wound", "stroke", ""], [30, 50, 60, 4])
    table = patients(144).assign(ill=labels)
    cohort = read_cohort(table, label="ill", unlabelled="no", need_label=True)

    task, _ = infer_task(cohort, several=True)

    assert "no" in task.classes
    assert "no" not in task.watched


def test_unlabelled_no_beside_positive_no():
    """Where no is the case, blank labels that count as no would be cases."""
    table = patients(60)
    table.loc[table.index[::4], "ill"] = ""

    cohort = read_cohort(table, label="ill", unlabelled="no", positive="no")

    with pytest.raises(UsageError, match="rows without a label would be cases"):
        cohort.y()


@pytest.mark.parametrize("positive", [None, "yes"])
@pytest.mark.parametrize(("text", "leave_out"), [("NA", []), ("maybe", ["maybe"])])
def test_label_of_no_outcome_elsewhere(positive, text, leave_out):
    """A label that means missing is not an outcome where a model is validated, too.

    It counted as a row without the condition.
    """
    past = patients(160)
    if leave_out:
        past.loc[past.index[::9], "ill"] = text
    options = {"label": "ill", "id": "patient", "leave_out": leave_out}
    model = learned(read_cohort(past, need_label=True, positive="yes", **options))
    elsewhere = patients(120, seed=5)
    elsewhere["patient"] = "E" + elsewhere["patient"]
    elsewhere.loc[elsewhere.index[:3], "ill"] = text

    with pytest.raises(CohortError, match="rows 1, 2, 3: the label usually means"):
        validate(model, elsewhere, label="ill", positive=positive)


def test_unlabelled_no_elsewhere():
    """A blank label is no where a model is validated, by the contract of its past."""
    past = patients(160)
    past.loc[past.index[::5], "ill"] = ""
    past["ill"] = past["ill"].replace({"yes": "1", "no": "0"})
    cohort = read_cohort(
        past, label="ill", id="patient", unlabelled="no", need_label=True
    )
    model = learned(cohort)
    elsewhere = patients(120, seed=5)
    elsewhere["patient"] = "E" + elsewhere["patient"]
    elsewhere["ill"] = elsewhere["ill"].replace({"yes": "1", "no": "0"})
    is_case = elsewhere["ill"] == "1"
    elsewhere.loc[elsewhere.index[::5], "ill"] = ""
    n_cases = int((is_case & (elsewhere["ill"] != "")).sum())

    found = validate(model, elsewhere, label="ill")

    assert model.facts.training.n_by_class.keys() == {"0", "1"}
    (point,) = found.operating_points
    assert (point.n_positive, point.n_negative) == (n_cases, 120 - n_cases)


def test_unlabelled_leave_out_counts_rows(tmp_path):
    """Rows without a label are left out and counted where the contract says so."""
    table = patients()
    table.loc[table.index[:7], "ill"] = ""
    past = written(table, tmp_path / "past.csv")

    cohort = read_cohort(past, label="ill", unlabelled="leave_out", need_label=True)

    assert cohort.n_rows == len(table) - 7
    assert cohort.refused == {"ill: no label": 7}
    assert any("rows left out: column 'ill'" in note for note in cohort.notes)


def test_unlabelled_refuse_names_key(tmp_path):
    """By default a blank label is refused, and the key that allows it is named."""
    past, _ = ticked(tmp_path)

    with pytest.raises(CohortError, match='unlabelled = "no"'):
        read_cohort(past, label="ill", need_label=True)


def test_train_says_doubts_at_head(tmp_path):
    """A guess that changes the result is a reason for attention on the model's page."""
    table = patients()
    is_case = table["ill"] == "yes"
    table["ill"] = np.where(is_case, "-1", "1")
    past = written(table, tmp_path / "past.csv")

    answer = screen("train", past, *LOGISTIC, "--out", tmp_path / "model")

    document = read_json(tmp_path / "model" / "model.json")
    guesses = [
        reason for reason in document["attention"] if reason["code"] == "guessed"
    ]
    assert "the cases are the rows with 1 in column 'ill'" in guesses[0]["words"]
    assert guesses[0]["remedy"] in answer.stdout


def test_time_is_named_in_train(tmp_path):
    """The column of the row's date can be named when a model is trained."""
    table = patients()
    days = np.datetime64("2025-01-01") + np.arange(len(table))
    table["sample_taken"] = np.datetime_as_string(days)
    past = written(table, tmp_path / "past.csv")

    cohort = read_cohort(past, label="ill", time="sample_taken", propose=True)

    assert cohort.contract.time == "sample_taken"
    assert cohort.time[0] == np.datetime64("2025-01-01")


def classes_of(folder, counts):
    """Return a table with so many rows of each label."""
    labels = np.repeat([*counts], [*counts.values()])
    crp = np.arange(len(labels)) % 17
    table = pd.DataFrame({"label": labels, "crp": crp.astype(float)})
    path = folder / "classes.csv"
    table.to_csv(path, index=False)
    return path


def study_of(path, **roles):
    cohort = read_cohort(path, label="label", need_label=True, **roles)
    return prepare_study(
        cohort,
        load_recipe("logistic"),
        DEFAULT_RULE,
        Validation(folds=3, repeats=1, independent=True),
        Search(search=1),
    )


ECOLI = {
    "cp": 50,
    "im": 30,
    "pp": 25,
    "imS": 2,
    "imL": 1,
}


def test_rare_classes_of_rest_named(tmp_path):
    """With the positive class of several named, rare values belong to the rest."""
    path = classes_of(tmp_path, ECOLI)

    with pytest.raises(CohortError, match="occurs in only 2 rows"):
        study_of(path)
    study = study_of(path, positive="im")

    assert int(study.target.sum()) == 30
    assert any("3 rows count as not im" in note for note in study.notes)


def test_rare_slip_of_named_refused(tmp_path):
    """A typing error of the named class is refused all the same."""
    path = classes_of(
        tmp_path,
        {
            "mild": 30,
            "severe": 20,
            "none": 40,
            "severre": 1,
        },
    )

    with pytest.raises(CohortError, match="typing error"):
        study_of(path, positive="severe")


def test_common_classes_that_resemble(tmp_path):
    """A value of as many rows as the one that it resembles is a word of its own."""
    counts = {"unacc": 60, "acc": 40, "good": 20, "vgood": 18}

    study = study_of(classes_of(tmp_path, counts), positive="good")

    assert int(study.target.sum()) == 20
    path = classes_of(tmp_path, counts | {"vgood": 5})
    with pytest.raises(CohortError, match="typing error"):
        study_of(path, positive="good")


def test_leave_out_classes(tmp_path):
    """Rows of a class that is left out are in no study, and the contract says so."""
    path = classes_of(tmp_path, {"0": 40, "1": 20, "4": 15})

    study = study_of(path, positive="4", leave_out=["1"])

    assert study.sample.n_rows == 55
    assert set(study.sample.label) == {"0", "4"}
    assert study.sample.contract.leave_out == ["1"]
    assert any("20 rows with the label 1 are left out" in note for note in study.notes)
    with pytest.raises(UsageError, match="no row has this label"):
        study_of(path, positive="4", leave_out=["5"])
    with pytest.raises(CohortError, match="both in `leave_out`"):
        study_of(path, positive="4", leave_out=["4"])
    with pytest.raises(UsageError, match="`leave_out` 0, 1 leaves rows of one label"):
        study_of(path, positive="4", leave_out=["0", "1"])


@pytest.mark.parametrize("text", ["NA", "n/a", "unknown", "?"])
def test_label_that_means_missing_is_no_outcome(tmp_path, text):
    """Rows whose outcome is unknown do not count as rows without the condition."""
    path = classes_of(tmp_path, {"no": 60, "yes": 30, text: 10})

    with pytest.raises(CohortError, match="often means missing"):
        study_of(path, positive="yes")
    assert study_of(path, positive="yes", leave_out=[text]).sample.n_rows == 90


def test_label_none_is_an_outcome(tmp_path):
    """`none` beside the classes to find is the class of the others."""
    path = classes_of(tmp_path, {"none": 60, "sepsis": 30, "wound": 20})

    study = study_of(path, positive="sepsis")

    assert study.sample.n_rows == 110
