"""Rows of one patient are seen before they make a promise too good; others are left in peace."""

import numpy as np
import pandas as pd
import pytest

from screening import read_cohort, train
from screening.data.dependence import CODE, dependence, signs
from screening.data.reading import check_cohort, starter_contract
from screening.errors import UsageError
from screening.io.opening import source_at

PATIENTS, ROWS = 40, 5


def visits(patients: int = PATIENTS, rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, pd.DataFrame]:
    """Each row's patient, and what was measured on several visits, one below the other."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rows)
    age, level = rng.integers(20, 90, patients), rng.normal(size=(patients, 6))
    values = level[who] + 0.4 * rng.normal(size=(len(who), 6))
    table = pd.DataFrame(values, columns=["crp", "urea", "sodium", "lactate", "pulse", "bilirubin"])
    table.insert(0, "age", age[who])
    table.insert(1, "sex", rng.choice(["m", "f"], patients)[who])
    ill = level[:, 0] + rng.normal(size=patients) > np.quantile(level[:, 0], 0.7)
    return who, table.assign(ill=np.where(ill[who], "yes", "no"))


def named() -> pd.DataFrame:
    who, table = visits()
    names = [
        f"rec_R1_S{patient:02d}_{row}" for patient, row in zip(who, np.tile(range(1, 6), 40), strict=True)
    ]
    return table.assign(name=names)


def in_first_rows() -> pd.DataFrame:
    who, table = visits()
    return table.assign(patient=np.where(np.diff(who, prepend=-1) > 0, who + 100.0, np.nan))


def kinds(table: pd.DataFrame) -> dict[str, str | None]:
    frame = table.drop(columns="ill").apply(
        lambda cells: cells.astype(float) if cells.dtype.kind in "if" else cells.astype(object)
    )
    return {sign.kind: sign.column for sign in signs(frame)}


def trained(table: pd.DataFrame, folder, **roles):
    table.to_csv(folder / "past.csv", index=False)
    independent = roles.pop("independent", False)
    cohort = read_cohort(folder / "past.csv", label="ill", positive="yes", **roles)
    return train(cohort, "logistic", search=1, repeats=1, beside=(), jobs=1, independent=independent)


def with_index(header: str) -> pd.DataFrame:
    """Names in the index that was saved with a table, in a first column that perhaps nobody named."""
    table = named()
    table.insert(0, header, table.pop("name"))
    return table


def numbered() -> pd.DataFrame:
    who, table = visits()
    return table.assign(patient_id=who + 500)


STOPPED = {
    "a running end": (named(), {}, "40 stems with a running end.*--group 'name'.*--independent"),
    "an id": (named(), {"id": "name"}, "40 stems with a running end.*--group 'name'"),
    "a nameless index": (with_index(""), {}, "40 stems.*Write a name above that column"),
    "an index": (with_index("Unnamed: 0"), {}, "40 stems.*--group 'Unnamed: 0'"),
    "first rows": (in_first_rows(), {}, "Fill column 'patient' down"),
    "a number that repeats": (numbered(), {}, "--group 'patient_id'"),
}


@pytest.mark.parametrize(("table", "roles", "words"), STOPPED.values(), ids=STOPPED.keys())
def test_rows_that_surely_share_patients_stop_training_and_an_id_does_not_silence_it(
    tmp_path, table, roles, words
):
    with pytest.raises(UsageError, match=words):
        trained(table, tmp_path, **roles)


def test_a_group_of_stems_keeps_patients_whole_in_training_and_in_scoring(tmp_path):
    model = trained(named(), tmp_path, id="name", group="name")

    held_out, scored = model.held_out, model.score_frame(tmp_path / "past.csv")

    assert model.facts.validation.n_groups == PATIENTS
    folds = pd.DataFrame({"group": held_out["group"], "fold": held_out["fold"]})
    assert folds.groupby("group")["fold"].nunique().max() == 1
    assert scored["group"].nunique() == PATIENTS
    assert not [reason for reason in model.facts.attention if reason.code == CODE]


def test_who_says_that_rows_are_independent_is_believed(tmp_path):
    model = trained(named(), tmp_path, independent=True)

    assert not [reason for reason in model.facts.attention if reason.code == CODE]
    assert any("--independent" in note for note in model.facts.training.notes)


def test_rows_alike_that_lie_together_are_a_reason_for_attention(tmp_path):
    model = trained(visits(120, 3)[1], tmp_path)

    reasons = [reason for reason in model.facts.attention if reason.code == CODE]

    assert any("within 3 lines of the file" in reason.words for reason in reasons)
    assert all("name the column of the patient by --group" in reason.remedy for reason in reasons)


def test_patients_with_eyes_shuffled_are_found_by_their_copies():
    _, table = visits(200, 2)
    height = np.random.default_rng(1).normal(170, 10, 200).round(1)
    table = table.assign(height=np.repeat(height, 2)).sample(frac=1, random_state=0).reset_index(drop=True)

    assert "copies" in kinds(table)


def test_a_table_sorted_by_a_score_of_its_columns_is_left_in_peace():
    """Rows that lie beside those most like them because values run one way are not of one patient."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 8, (1500, 3)), columns=["stage", "grade", "visits"])
    table = table.assign(smokes=rng.integers(0, 2, 1500), income=rng.normal(size=1500))
    score = table @ [1.0, np.sqrt(2), np.sqrt(3), 0.7, 0.001]

    assert not kinds(table.iloc[np.argsort(score)].assign(ill="no"))


@pytest.mark.parametrize("order", ["as they came", "by region"])
def test_what_patients_of_one_region_share_makes_no_patient_of_them(order):
    rng = np.random.default_rng(0)
    region, year = rng.integers(0, 50, 2000), rng.integers(0, 8, 2000)
    if order == "by region":
        region, year = np.sort(region), np.zeros(2000, dtype=int)
    rate, benefit = (rng.integers(40, 150, (50, 8)) / 10 for _ in range(2))
    table = pd.DataFrame({"region": region, "rate": rate[region, year], "benefit": benefit[region, year]})
    table = table.assign(age=rng.integers(20, 65, 2000), tenure=rng.integers(1, 30, 2000))
    for sign in ("sex", "smokes", "married", "insured", "employed", "drinks", "walks", "sleeps"):
        table[sign] = rng.choice(["y", "n"], 2000)

    assert not kinds(table.assign(ill="no"))


@pytest.mark.parametrize("order", ["as they came", "sorted"])
def test_independent_patients_are_left_in_peace(order):
    _, table = visits(300, 1)
    rng = np.random.default_rng(0)
    centre = np.sort(rng.integers(10, 40, 300))
    number = pd.Series(centre).groupby(centre).cumcount() + 1
    table["id"] = [f"{c}-{n:03d}" for c, n in zip(centre, number, strict=True)]
    table["troponin"] = np.where(rng.random(300) < 0.3, rng.integers(1, 10_000, 300), np.nan)
    if order == "sorted":
        table = table.sort_values(["sex", "age", "crp"]).reset_index(drop=True)

    assert kinds(table) == {}


def test_beds_of_rooms_are_no_patients():
    """Two beds of a room are two patients: a column called after a place is no stem of rows."""
    rng = np.random.default_rng(2)
    beds = [f"{room}-{bed}" for room in range(1, 61) for bed in (1, 2)]
    values = {"crp": rng.normal(size=120), "age": rng.normal(60, 9, 120)}
    table = pd.DataFrame({"bed": beds, **values, "ill": np.arange(120) % 3 == 0})

    assert "stem" not in kinds(table)
    assert "stem" in kinds(table.rename(columns={"bed": "sample"}))


def test_a_starter_contract_proposes_the_stem_and_reads_the_table(tmp_path):
    named().to_csv(tmp_path / "past.csv", index=False)

    contract, notes = starter_contract(tmp_path / "past.csv")

    assert (contract.group, contract.group_stem, contract.id) == ("name", True, "name")
    assert any("40 stems" in note for note in notes)
    assert check_cohort(tmp_path / "past.csv", contract)[0] == []


def test_a_starter_contract_does_not_take_an_arm_for_the_patient(tmp_path):
    _, table = visits(200, 1)
    table.assign(group=np.arange(200) % 2, id=range(1000, 1200)).to_csv(tmp_path / "past.csv", index=False)

    contract, _ = starter_contract(tmp_path / "past.csv")

    assert contract.group is None
    assert contract.id == "id"


def test_a_starter_contract_fills_down_what_stands_in_first_rows(tmp_path):
    in_first_rows().to_csv(tmp_path / "past.csv", index=False)

    contract, notes = starter_contract(tmp_path / "past.csv")

    assert (contract.group, contract.fill_down) == ("patient", ["patient"])
    assert "guessed role fill_down: patient" in notes
    cohort = read_cohort(tmp_path / "past.csv", contract, need_label=True, batch_rows=7)
    assert len({*cohort.group}) == PATIENTS and cohort.group[0] == cohort.group[ROWS - 1]


def test_files_of_a_table_may_have_other_columns_beside_those_of_the_contract(tmp_path):
    _, table = visits(60, 1)
    contract = starter_contract(table)[0].with_roles(label="ill")
    table.head(30).assign(note="x").to_csv(tmp_path / "1.csv", index=False)
    table.tail(30).assign(other=1).to_csv(tmp_path / "2.csv", index=False)

    assert {sign.column for sign in dependence(source_at(tmp_path), contract)} <= {None}
