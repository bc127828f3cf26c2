"""Who a patient is across tables: shape of ids, reduced forms, collisions."""

import numpy as np
import pandas as pd
import pytest
from commands import as_json
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from screening import read_cohort, score, train
from screening.errors import CohortError
from screening.identity.hashes import Patients
from screening.identity.reduced import find_exponents, reduced_forms
from screening.identity.shapes import id_shape, other_shape, trained_shape
from screening.identity.table import IdReader
from screening.identity.writing import colliding, reduced_form
from screening.ledger.erasing import Scope, erase
from screening.ledger.history import history
from screening.ledger.past_nights import known_patients
from screening.store.model import save_model

SAME = [
    ("00077370", "77370"),
    ("1.2E+05", "120000"),
    ("12e4", "120000"),
    ("123.0", "123"),
    (" 00-12.3", "123"),
    ("Straße 1", "STRASSE1"),
    ("\uff17\uff17", "77"),
    ("000", "0"),
    ("P 12", "p12"),
]
OTHER = [("P0012", "P12"), ("1.25E+01", "12"), ("120", "12"), ("--", "-")]


def names_of(*texts):
    return np.array(texts, dtype=object)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_reduced_form_is_the_same_for_all_writings(one, other):
    assert reduced_form(one) == reduced_form(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_reduced_form_of_other_ids_differs(one, other):
    assert reduced_form(one) != reduced_form(other)


@given(st.lists(st.text(max_size=12) | st.none(), max_size=20))
def test_reduced_forms_of_a_column_are_those_of_its_cells(texts):
    """The quick way over a column gives what the definition gives for each cell."""
    expected = [None if text is None else reduced_form(text) for text in texts]

    assert reduced_forms(names_of(*texts)).tolist() == expected


@given(st.text("0123456789abcXYZ", min_size=1), st.integers(0, 3), st.booleans())
def test_reduced_form_ignores_zeros_blanks_and_case(text, n_zeros, is_upper):
    stem = "k" + text
    written = " " + "0" * n_zeros + (stem.upper() if is_upper else stem.lower()) + "."

    assert reduced_form(written) == reduced_form(stem)


@pytest.mark.parametrize(
    ("ids", "rows"),
    [
        (["120000", "1.2E+05", "7"], [2]),
        (["120000", "12E4", "7"], [2]),
        (["A1", "12E4", "7"], []),
        (["1e+16", "2e+16"], [1, 2]),
        (["A1", "B2", "1.2E+05"], []),
    ],
)
def test_digits_with_an_exponent_are_found_among_digits(ids, rows):
    found = find_exponents(names_of(*ids), 1 + np.arange(len(ids)))

    assert found.rows() == rows


@pytest.mark.parametrize("cut", range(1, 6))
def test_exponents_do_not_depend_on_the_cut_of_the_table(cut):
    names = names_of("120000", "12E4", "7", None, "1.2E+05", "9")
    rows = 1 + np.arange(len(names))

    parts = [
        find_exponents(names[:cut], rows[:cut]),
        find_exponents(names[cut:], rows[cut:]),
    ]

    assert parts[0] + parts[1] == find_exponents(names, rows)


def nhs_number(number):
    """Return nine digits with the check digit of the NHS number, None where none is."""
    digits = f"{number:09d}"
    weighted = sum(
        weight * int(digit)
        for weight, digit in zip(range(10, 1, -1), digits, strict=True)
    )
    check = -weighted % 11
    return None if check == 10 else f"{digits}{check}"


def test_shape_knows_the_check_digit_that_all_ids_have():
    numbers = [
        name for name in map(nhs_number, range(401_000_000, 401_000_060)) if name
    ]
    others = [f"{int(name) + 1:010d}" for name in numbers]

    past = trained_shape(names_of(*numbers))
    tonight = id_shape(names_of(*others), past)

    assert past.check_digit == "mod 11"
    assert id_shape(names_of(*others)).check_digit is None
    (difference,) = other_shape(past, tonight)
    assert "wrong check digit" in difference
    assert other_shape(past, id_shape(names_of(*numbers[:20]), past)) == []


@pytest.mark.parametrize(
    ("past", "tonight", "words"),
    [
        (
            [f"K-{n}" for n in range(900)],
            [f"K{n}" for n in range(100, 140)],
            "without the separators",
        ),
        (
            [f"K{n}" for n in range(900)],
            [f"k{n}" for n in range(40)],
            "capital letters",
        ),
        (
            [f"K{n}" for n in range(900)],
            [f"K {n}" for n in range(40)],
            "with separators",
        ),
    ],
)
def test_other_separators_and_case_are_differences(past, tonight, words):
    shapes = trained_shape(names_of(*past)), id_shape(names_of(*tonight))

    (difference,) = other_shape(*shapes)

    assert words in difference


def test_collisions_between_two_lists_are_places_of_the_first():
    assert colliding(["007", "8", "9"], ["7", "8", "08"]) == [0]
    assert colliding(["5", "05"], ["7"]) == [0, 1]
    assert colliding(["5", "05", "07"], ["7"], within=False) == [2]


@given(st.lists(st.integers(0, 999).map(str), max_size=30), st.integers(0, 30))
def test_sample_of_patients_does_not_depend_on_the_cut(ids, cut):
    reader = IdReader("id")
    names = names_of(*ids)
    rows = 1 + np.arange(len(ids))

    whole = reader.read(names, None, rows)
    first = reader.read(names[:cut], None, rows[:cut])
    last = reader.read(names[cut:], None, rows[cut:])

    total = (first + last).sample
    assert total.reduced.tolist() == whole.sample.reduced.tolist()
    assert total.whole.tolist() == whole.sample.whole.tolist()


def test_columns_whose_ids_collide_in_training_are_compared_whole():
    """Of ids whose reduced forms collide in training only the whole form is used.

    Where over 1 % do so, it is how these ids are written.
    """
    rows = np.array([1, 2])
    tonight = names_of("a1", "b")
    night_before = IdReader("id").read(names_of("A1", "B"), None, rows)
    known = IdReader("id", known=night_before.sample)
    many = names_of("a1", "A1", *map(str, range(10)))
    few = names_of("a1", "A1", *map(str, range(1000)))

    counts = known.read(tonight, None, rows)
    of_few = known.with_collisions("id", few).read(tonight, None, rows)
    of_many = known.with_collisions("id", many).read(tonight, None, rows)

    assert [found.tolist() for found in counts.rewritten] == [[1, 2]]
    assert [found.tolist() for found in of_few.rewritten] == [[2]]
    assert [found.tolist() for found in of_many.rewritten] == [[]]


def test_nobody_is_rewritten_who_was_written_so_on_any_night():
    rows = np.array([1])
    first = IdReader("id").read(names_of("007"), None, rows)
    second = IdReader("id").read(names_of("7"), None, rows)
    reader = IdReader("id", known=first.sample + second.sample)

    counts = reader.read(names_of("7"), None, rows)

    assert [found.tolist() for found in counts.rewritten] == [[]]
    assert len(Patients() + first.sample) == 1


# Nights of a ward: a stay has its own id, a patient a number with zeros in front.
N_STAYS = 240
VALUES = ["crp", "age", "sodium", "temp"]


def stays(first, n_rows, seed):
    rng = default_rng(seed)
    number = first + np.arange(n_rows)
    ill = rng.random(n_rows) < 0.25
    return pd.DataFrame(
        {
            "stay": [f"S{n:05d}" for n in number],
            "mrn": [f"{37 * n + 4000:08d}" for n in number],
            "crp": np.round(rng.normal(20 + 40 * ill, 10), 1),
            "age": rng.integers(20, 90, n_rows),
            "sodium": np.round(rng.normal(140, 4, n_rows), 1),
            "temp": np.round(rng.normal(37, 1, n_rows), 1),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def ward_model():
    roles = {"label": "ill", "positive": "yes", "id": "stay", "group": "mrn"}
    return train(
        stays(0, N_STAYS, 1), "logistic", search=1, folds=3, beside=(), jobs=1, **roles
    )


def night_table(day, rewritten=()):
    """Return sixty stays of a night, five of them new every day."""
    table = stays(1000 + 5 * day, 60, 7).drop(columns="ill")
    places = list(rewritten)
    table.loc[places, "mrn"] = table.loc[places, "mrn"].str.lstrip("0")
    return table


def score_night(model, ledger, folder, day, table, **how):
    return score(
        model,
        table,
        folder / f"night{day}",
        ledger=ledger,
        series="w7",
        date=f"2026-01-{5 + day:02d}",
        jobs=1,
        **how,
    )


@pytest.mark.parametrize(
    ("rewritten", "next_night", "words"),
    [
        ([7], [2], "'mrn', row 8: 1 id"),
        (range(60), range(60), "rows 1, 2, 3, 4, 5 and 50 more: 55 ids"),
    ],
)
def test_ids_of_the_last_nights_written_otherwise_stop_the_night(
    ward_model, ledger, tmp_path, rewritten, next_night, words
):
    """One of sixty or all: they are named by row, and accepted with a reason."""
    for day in range(2):
        score_night(ward_model, ledger, tmp_path, day, night_table(day))

    with pytest.raises(
        CohortError, match="written differently from earlier nights"
    ) as error:
        score_night(ward_model, ledger, tmp_path, 2, night_table(2, rewritten))
    accepted = score_night(
        ward_model,
        ledger,
        tmp_path,
        2,
        night_table(2, rewritten),
        accept_delivery="a new system",
    )
    # The same ids, five rows further up.
    again = score_night(ward_model, ledger, tmp_path, 3, night_table(3, next_night))

    assert words in str(error.value)
    assert "8518" not in str(error.value)
    assert "ids_rewritten" in accepted.document["delivery"]["found"]
    assert "ids_rewritten" not in again.document["delivery"]["found"]


def test_ids_of_a_model_before_are_known_to_the_next(ward_model, ledger, tmp_path):
    """The hashes are the series': another model compares with the same nights."""
    score_night(ward_model, ledger, tmp_path, 0, night_table(0))
    roles = {"label": "ill", "positive": "yes", "id": "stay", "group": "mrn"}
    other = train(
        stays(0, N_STAYS, 2), "logistic", search=1, folds=3, beside=(), jobs=1, **roles
    )

    with pytest.raises(CohortError, match="written differently from earlier nights"):
        score_night(other, ledger, tmp_path, 1, night_table(1, [3]), force=True)


@pytest.mark.parametrize(
    ("column", "index", "text"),
    [("mrn", 4, "00041000."), ("stay", 9, "s01000")],
)
def test_ids_that_collide_within_a_night_stop_it(
    ward_model, tmp_path, column, index, text
):
    table = night_table(0)
    table.loc[index, column] = text

    with pytest.raises(CohortError, match="one patient may count as several") as error:
        score(ward_model, table, tmp_path / "run", jobs=1)
    run = score(
        ward_model, table, tmp_path / "run", jobs=1, accept_delivery="two patients"
    )

    assert f"'{column}', rows 1, {index + 1}:" in str(error.value)
    assert "ids_collide" in run.document["delivery"]["found"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_ids_are_read_alike_by_any_number_of_processes(
    ward_model, tmp_path, monkeypatch, jobs
):
    """Rows are numbered in the table, however many processes read it."""
    table = pd.concat([night_table(12 * part) for part in range(40)])
    table["stay"] = [f"S{n:06d}" for n in range(len(table))]
    table.iloc[2000, 0] = "s000003"
    path = tmp_path / "night.csv"
    table.to_csv(path, index=False)
    monkeypatch.setattr("screening.scoring.scoring_pass.WORTH_STARTS", 0)

    with pytest.raises(CohortError, match="rows 4, 2001: these ids differ only in"):
        score(ward_model, path, tmp_path / "run", jobs=jobs, batch_rows=500)


def test_ids_with_an_exponent_are_refused(ward_model, tmp_path):
    table = night_table(0)
    table.loc[2, "mrn"] = "4.1E+04"
    past = stays(0, N_STAYS, 1)
    past.loc[5, "mrn"] = "4.1E+04"

    with pytest.raises(CohortError, match=r"'mrn', row 3: digits with an exponent"):
        score(ward_model, table, tmp_path / "run", jobs=1, accept_delivery="so it is")
    with pytest.raises(CohortError, match=r"'mrn', row 6: digits with an exponent"):
        read_cohort(past, label="ill", id="stay", group="mrn")


def test_collisions_of_a_table_to_train_on_are_a_note():
    past = stays(0, N_STAYS, 1)
    past.loc[5, "mrn"] = "4000"

    cohort = read_cohort(past, label="ill", positive="yes", id="stay", group="mrn")

    assert any(
        "'mrn', rows 1, 6: ids that are the same" in note for note in cohort.notes
    )


def test_check_of_a_night_names_ids_that_collide(ward_model, tmp_path):
    """What stops the night is a note of `screen check` before."""
    save_model(ward_model, tmp_path / "model")
    table = night_table(0)
    table.loc[4, "mrn"] = "00041000."
    table.to_csv(tmp_path / "night.csv", index=False)

    answer = as_json("check", tmp_path / "night.csv", "--model", tmp_path / "model")

    assert answer["violations"] == []
    assert any("'mrn', rows 1, 5: ids that" in note for note in answer["notes"])


def test_model_knows_the_shape_of_both_ids(ward_model):
    training = ward_model.facts.training

    assert training.ids.upper == N_STAYS
    assert training.ids.colliding == 0
    assert training.group_ids.leading_zeros == N_STAYS
    assert training.group_ids.digits == N_STAYS


def test_forget_erases_the_hashes_of_the_ids(ward_model, ledger, tmp_path):
    table = night_table(0)
    score_night(ward_model, ledger, tmp_path, 0, table)
    before = known_patients(ledger, "w7", "2026-02-01")

    erase(ledger, "asked for", Scope(table["mrn"][0]))

    after = known_patients(ledger, "w7", "2026-02-01")
    assert len(before) - len(after) == 1
    assert history(ledger, verify=True)["audit"]["verified"]


def test_voxels_have_no_ids_to_compare(tissue_model):
    reader = tissue_model.id_reader()

    assert reader.id is None
    assert reader.patient == "patient"


def check_values_in(run):
    return run.document["check_values"] or {"alike": []}


def test_rows_that_agree_in_everything_but_the_number_are_listed(ward_model, tmp_path):
    """They are possibly one patient: said by row, in the list of values to check."""
    table = night_table(0)
    table.loc[9, VALUES] = table.loc[4, VALUES]

    run = score(ward_model, table, tmp_path / "run", jobs=1)
    sound = score(ward_model, night_table(0), tmp_path / "sound", jobs=1)

    alike = check_values_in(run)["alike"]
    assert [(row["row"], row["other"]) for row in alike] == [(5, 10), (10, 5)]
    assert alike[0]["group"] == table["mrn"][4]
    assert check_values_in(sound)["alike"] == []
    page = (tmp_path / "run" / "report.html").read_text()
    assert "agrees with row 10 in everything but the number" in page
    assert "they cannot be used" not in page


def test_rows_of_one_patient_may_agree(ward_model, tmp_path):
    table = night_table(0)
    columns = [*VALUES, "mrn"]
    table.loc[9, columns] = table.loc[4, columns]

    run = score(ward_model, table, tmp_path / "run", jobs=1)

    assert check_values_in(run)["alike"] == []


def test_values_that_tell_nobody_apart_are_no_reason(ward_model, tmp_path):
    """Where rows agree by chance, values are coarse, and say nothing of who it is."""
    table = night_table(0).assign(crp=20.0, age=50, sodium=140.0)

    run = score(ward_model, table, tmp_path / "run", jobs=1)

    assert check_values_in(run)["alike"] == []
