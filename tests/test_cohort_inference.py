"""What is inferred where no contract was given, and the starter contract."""

import numpy as np
import pandas as pd
import pytest

from screening.contract.contract import Contract
from screening.data.reading import read_cohort, starter_contract
from screening.data.stream import open_cohort
from screening.errors import CohortError

N = 60


def cohort_of(folder, **columns):
    path = folder / "past.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"usable": rng.random(N), **columns})
    frame.to_csv(path, index=False)
    return path


def kinds(contract):
    return {name: feature.type for name, feature in contract.features.items() if name != "usable"}


TYPES = {
    "decimals": (np.linspace(0, 1, N), {"x": "number"}),
    "few whole numbers": ([1, 2, 3] * 20, {"x": "number"}), "zero and one": ([0, 1] * 30, {"x": "boolean"}),
    "t and f": (["t", "f"] * 30, {"x": "boolean"}), "Yes and no": (["Yes", "no"] * 30, {"x": "boolean"}),
    "text": (["M", "F", "I"] * 20, {"x": "category"}), "ranges": (["40-49", "50-59"] * 30, {"x": "category"}),
    "numbers and words": (["2", "4", "more"] * 20, {"x": "category"}),
    "codes with leading zeros": (["01", "02", "13"] * 20, {"x": "category"}), "constant": (["a"] * N, {}),
    "constant number": ([3.5] * N, {}), "all missing": ([None] * N, {}),
    "constant or missing": (["a", None] * 30, {"x": "category"}),
    "beds": ([f"T{i % 12}N{i % 2}" for i in range(N)], {"x": "category"}),
    "places": ([f"{i % 4}{'abcdef'[i % 6]}" for i in range(N)], {"x": "category"}),
    "free text": ([f"note {i}" for i in range(N)], {}), "dates": (["2024-01-31", "2024-02-01"] * 30, {}),
}  # fmt: skip


@pytest.mark.parametrize(("values", "types"), TYPES.values(), ids=TYPES.keys())
def test_types_are_inferred_and_stated(tmp_path, values, types):
    cohort = read_cohort(cohort_of(tmp_path, x=values))

    assert kinds(cohort.contract) == types
    assert any(note.split(": ")[-1].split(", ")[-1] == "x" for note in cohort.notes[1:])


DRAWN, DAYS = np.random.default_rng(1), 44_931 + 3 * np.arange(N) % 365
IDENTITIES = (
    "patient_id", "MRN", "Unnamed: 0", "PatientID", "row", "Nummer", "N° dossier", "lfd. Nr.", "S_No", "#",
)  # fmt: skip
NO_FEATURES = {
    **{name: DRAWN.permutation(5 * N)[:N] for name in IDENTITIES},
    **dict.fromkeys(("Aufnahmedatum", "admission_date", "birthDate", "fecha"), DAYS),
    "visit": DRAWN.permutation(N) + 17,  # counts the rows, in another order
    "accession": DRAWN.integers(2**54, 2**60, N),  # floats do not tell them apart
}


@pytest.mark.parametrize("name", NO_FEATURES)
def test_whole_numbers_that_tell_who_or_when_are_no_feature(tmp_path, name):
    cohort = read_cohort(cohort_of(tmp_path, **{name: NO_FEATURES[name]}))

    assert cohort.names == ["usable"]
    assert (f"save the table again): {name}" in cohort.notes[-1]) == (NO_FEATURES[name] is DAYS)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("days", DAYS), ("time", DAYS), ("admission_date", DAYS - 44_951), ("copies", [2**60, *range(N - 1)]),
        ("platelets", DRAWN.permutation(N) * 3),
    ],
)  # fmt: skip
def test_other_whole_numbers_stay_features(tmp_path, name, values):
    assert read_cohort(cohort_of(tmp_path, **{name: values})).names == ["usable", name]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("NA", "listed in missing_values"),
        ("haemolysed", "listed in missing_values"),
        ("<5", "as their limit"),
    ],
)
def test_a_few_odd_cells_among_numbers_are_declared_and_said_and_make_no_category(tmp_path, cell, words):
    cohort = read_cohort(cohort_of(tmp_path, x=[f"{i}.5" for i in range(N - 1)] + [cell]))

    assert kinds(cohort.contract) == {"x": "number"}
    assert np.isnan(cohort.features["x"].iloc[-1]) or cohort.features["x"].iloc[-1] == 5
    assert any(note.startswith("column 'x': ") and words in note for note in cohort.notes)


def test_roles_named_by_flags_must_be_there_and_the_contract_types_the_next_cohort(tmp_path):
    path = cohort_of(tmp_path, y=["a", "b"] * 30, g=["p", "q"] * 30, z=range(N), ward=["A", "B"] * 30)
    (tmp_path / "new.csv").write_text("g,ward,usable\nq,C,0.5\np,A,\n")

    with pytest.raises(CohortError, match="missing column 'zz'"):
        read_cohort(path, label="y", drop="z,zz")
    cohort = read_cohort(path, label="y", group="g", drop="z")
    (night,) = open_cohort(tmp_path / "new.csv", cohort.contract)

    assert cohort.names == ["usable", "ward"] and cohort.group.tolist()[:2] == ["p", "q"]
    assert night.features["ward"].tolist() == ["C", "A"] and night.label is None


def test_a_starter_contract_reads_the_table_it_was_made_from(tmp_path):
    path = cohort_of(
        tmp_path,
        case_id=[f"{i:05d}" for i in range(N)],
        label=["0", "1"] * 30,
        admission_date=pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
        crp=["<5", "NA", *(f"{i}.5" for i in range(N - 2))],
        ward=["A", "n/a", "C"] * 20,
        answer=["none", "unknown"] * 30,
        device=["0", "1"] * 30,
        smoker=["y", "?", "n"] * 20,
    )

    contract, notes = starter_contract(path)
    (tmp_path / "c.toml").write_text(contract.to_toml(notes))
    cohort = read_cohort(path, tmp_path / "c.toml", need_label=True)

    assert cohort.contract == contract
    assert (contract.id, contract.label, contract.time) == ("case_id", "label", "admission_date")
    assert kinds(contract) == {
        "crp": "number", "ward": "category", "answer": "category", "device": "boolean", "smoker": "boolean",
    }  # fmt: skip
    assert contract.features["ward"].categories == ["A", "C"]
    assert contract.features["answer"].categories == ["none", "unknown"]
    low, high = contract.features["usable"].seen
    assert 0 <= low < 0.2 < 0.8 < high <= 1
    assert cohort.features["crp"].tolist()[0] == 5.0
    assert np.isnan(cohort.features["crp"][1])


def test_a_flag_takes_a_column_out_of_the_contracts_features(tmp_path):
    path = cohort_of(tmp_path, gleason=["G3", "G4"] * 30)
    (tmp_path / "c.toml").write_text(starter_contract(path)[0].to_toml())

    cohort = read_cohort(path, tmp_path / "c.toml", label="gleason")

    assert cohort.names == ["usable"]
    assert cohort.classes == ["G3", "G4"]


def test_inference_does_not_depend_on_how_rows_are_split_into_files(tmp_path):
    path = cohort_of(tmp_path, a=[*range(N - 1), None], b=["u", "v", "w"] * 20, c=["yes", "no"] * 30)
    whole = starter_contract(path)[0]
    lines = path.read_text().splitlines(keepends=True)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1.csv").write_text("".join(lines[:21]))
    (tmp_path / "parts" / "2.csv").write_text(lines[0] + "".join(lines[21:]))

    assert starter_contract(tmp_path / "parts")[0] == whole
    assert isinstance(whole, Contract)


@pytest.mark.parametrize("name", ["Patient-ID", "patient no", "MRN", "PatientID", "subject_id", "pat_nr"])
def test_what_several_rows_of_a_patient_share_groups_them_and_is_no_feature(tmp_path, name):
    path = cohort_of(tmp_path, **{name: [f"P{i % 30}" for i in range(N)]})
    contract, notes = starter_contract(path)

    assert read_cohort(path).names == ["usable"]
    assert contract.group == name
    assert f"guessed role group: {name}" in notes
    assert "no outcome recognised: set `label` to its column, or give --label" in notes


def test_the_only_date_that_is_not_of_birth_or_the_like_is_the_rows(tmp_path):
    days = pd.date_range("2024-01-13", periods=N).strftime("%d.%m.%Y")
    columns = {"visit date": days, "birth date": days, "Discharge-Date": days}

    assert starter_contract(cohort_of(tmp_path, **columns))[0].time == "visit date"
    assert starter_contract(cohort_of(tmp_path, sampling_date=days, **columns))[0].time is None


def with_codes(code, often=12):
    return [*np.linspace(8, 17, N - often).round(2), *[code] * often]


@pytest.mark.parametrize("code", [-99, 999, -9, 88])
def test_a_starter_contract_lists_numbers_that_stand_for_missing(tmp_path, code):
    path = cohort_of(tmp_path, x=with_codes(code))
    contract, notes = starter_contract(path)

    assert contract.features["x"].missing_values == [str(code)]
    # Often missing: said to the model; seldom: filled in.
    assert contract.features["x"].missing == "indicator" and contract.features["usable"].missing == "impute"
    assert contract.features["x"].seen[1] < 20 and contract.features["x"].seen[0] > 7
    assert np.isnan(read_cohort(path, contract=contract).features["x"]).sum() == 12
    assert any(
        "far from all others" in note and str(code) not in note.replace("like -99", "") for note in notes
    )


@pytest.mark.parametrize(
    "values",
    [with_codes(20), with_codes(-99, often=1), with_codes(9), [*with_codes(-99), 5e3, -5e3]],
    ids=["no code", "only once", "among the others", "within their reach"],
)
def test_other_far_numbers_stay_values(tmp_path, values):
    path = tmp_path / "past.csv"
    pd.DataFrame({"x": values}).to_csv(path, index=False)

    assert starter_contract(path)[0].features["x"].missing_values == []


def test_columns_of_one_finding_stand_in_one_note(tmp_path):
    odd = {f"v{i}": ["NA", *(f"{row}.5" for row in range(1, N))] for i in range(40)}

    notes = starter_contract(cohort_of(tmp_path, **odd))[1]

    (said,) = (note for note in notes if "missing_values" in note)
    assert said.startswith("columns 'v0', 'v1', ") and "and 20 more: " in said


@pytest.mark.parametrize("unit", ["%", " mg", "mmol/l", " µg/ml"])
def test_numbers_with_their_unit_in_the_cell_are_said_and_no_category(tmp_path, unit):
    cohort = read_cohort(cohort_of(tmp_path, x=[f"{i % 20},5{unit}" for i in range(N)]))

    assert cohort.names == ["usable"]
    assert any("bare numbers" in note and note.endswith("x") for note in cohort.notes)


def stays(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    codes = [*map(str, range(380, 440)), "V57", "V58", "E909", "250.01", "250.83"]
    return pd.DataFrame({
        "encounter_id": np.arange(n_rows) * 7 + 1000,
        "patient_nbr": rng.integers(0, 400, n_rows) * 31 + 100_000,
        "admission_type_id": rng.integers(1, 9, n_rows),
        "discharge_disposition_id": rng.integers(1, 29, n_rows),
        "diag_1": rng.choice(codes, n_rows),
        "days": rng.poisson(4, n_rows),
    })  # fmt: skip


def test_codes_are_categories_and_who_repeats_is_the_patient_whatever_names_end_in(tmp_path):
    stays().to_csv(tmp_path / "stays.csv", index=False)

    contract, _ = starter_contract(tmp_path / "stays.csv")

    assert (contract.id, contract.group) == ("encounter_id", "patient_nbr")
    coded = ("admission_type_id", "discharge_disposition_id", "diag_1")
    assert kinds(contract) == dict.fromkeys(coded, "category") | {"days": "number"}
    assert contract.features["admission_type_id"].categories
    assert contract.features["diag_1"].categories is None  # the next table has codes that this one lacks
    later = stays(seed=1).assign(diag_1="V99")
    later.to_csv(tmp_path / "later.csv", index=False)
    assert read_cohort(tmp_path / "later.csv", contract).n_rows == len(later)


OUTCOMES = {
    "by its name": ({"dead": [0, 0, 0, 1] * 15}, "dead", ["1"]),
    "a word of its name": ({"hospital_mortality": ["n", "n", "y"] * 20}, "hospital_mortality", ["y"]),
    "of the well": ({"survived": [1, 1, 0] * 20}, "survived", ["0"]),
    "a sentence": ({"readmitted within 30 days?": ["No", "Yes"] * 30}, "readmitted within 30 days?", ["Yes"]),
    "what was so before": ({"prior_sepsis": [0, 1] * 30}, None, []),
    "several values": ({"event": list("abc") * 20}, "event", []),
    "beside a class": ({"class": list("abc") * 20, "survived": [1, 0, 0] * 20}, "survived", ["0"]),
}


@pytest.mark.parametrize(("columns", "label", "positive"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_the_outcome_and_its_case_are_guessed_from_name_and_values(tmp_path, columns, label, positive):
    contract, _ = starter_contract(cohort_of(tmp_path, **columns))

    assert (contract.label, contract.positive) == (label, positive)


def test_where_no_outcome_is_recognised_candidates_are_named(tmp_path):
    path = cohort_of(
        tmp_path,
        **{"sex": ["m", "f"] * 30, "relapsing (y/n)": ["y", "n"] * 30, "z": [0, 0, 0, 1] * 15},
        result=range(N),
    )

    notes = starter_contract(path)[1]

    (note,) = (note for note in notes if note.startswith("no outcome recognised: set `label`"))
    assert note.endswith("give --label; it may be relapsing (y/n), z, sex, result")


def test_another_label_than_the_guessed_one_loses_no_column(tmp_path):
    path = cohort_of(tmp_path, infected=["yes", "no"] * 30, died=["yes", "no", "no"] * 20)

    contract, notes = starter_contract(path, label="died")

    assert contract.label == "died" and "infected" in contract.features
    assert any("may be outcomes too: infected" in note for note in notes)


def test_answers_stand_in_place_of_guesses(tmp_path):
    columns = {
        "case_id": range(1000, 1000 + N),
        "infected": ["yes", "no"] * 30,
        "died": ["yes", "no", "no"] * 20,
    }
    answers = {"label": "died", "positive": "yes", "id": None, "capacity": "7"}
    asked = {}

    def ask(role, guess, likely, allowed):
        asked[role] = guess, list(likely)
        return answers.get(role)

    contract, _ = starter_contract(cohort_of(tmp_path, **columns), ask)

    assert asked["label"] == ("infected", ["infected", "died"])
    assert asked["positive"] == ("yes", ["no", "yes"])
    assert asked["id"] == ("case_id", [])
    assert (contract.label, contract.positive, contract.id, contract.capacity) == ("died", ["yes"], None, 7)
    assert "infected" in contract.features


@pytest.mark.parametrize("share", [63, 37])
def test_the_value_taken_as_the_case_is_said_with_its_share_and_the_option_that_turns_it(share):
    """Where 1 is most rows it may say that a tumour is benign: the table cannot tell, so that it is said."""
    table = pd.DataFrame({"radius": np.linspace(8, 20, 100), "target": [1] * share + [0] * (100 - share)})

    contract, notes = starter_contract(table)

    remark = f"positive: 1, {share}% of rows (if the others are the cases, give --positive 0)"
    assert contract.positive == ["1"] and f"guessed role {remark}" in notes


def test_x_y_and_z_are_places_of_voxels_where_values_repeat_and_else_features(tmp_path):
    """Where hardly a value repeats rows lie on no grid; features they are, and patients are looked for."""
    grid = np.arange(N)
    voxels, _ = starter_contract(cohort_of(tmp_path, patient_id=["a", "b"] * 30, x=grid, y=grid % 3, z=grid))
    assert (voxels.group, voxels.coordinates, voxels.label) == ("patient_id", ["x", "y", "z"], None)
    rng = np.random.default_rng(1)
    path = cohort_of(
        tmp_path, x=rng.random(N), y=rng.random(N), z=rng.random(N), ill=["no", "no", "yes"] * 20
    )

    contract = starter_contract(path)[0]

    assert contract.coordinates == [] and {"x", "y", "z"} <= contract.features.keys()
