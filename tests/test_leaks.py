"""What makes a promise too good: rows of one patient on both sides, and columns that look like the answer.

Independent rows are left in peace; what is known only after the outcome is never used.
"""

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients

from screening import read_cohort, train
from screening.data.dependence import dependence, signs
from screening.data.reading import check_cohort, starter_contract
from screening.errors import UsageError
from screening.io.opening import source_at
from screening.report import render_model
from screening.schemas.reasons import ROWS_OF_ONE_PATIENT

PATIENTS, ROWS = 40, 5


def visits(
    patients: int = PATIENTS, rows: int = ROWS, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Each row's patient, and what was measured on several visits, one below the other."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rows)
    age, level = rng.integers(20, 90, patients), rng.normal(size=(patients, 6))
    values = level[who] + 0.4 * rng.normal(size=(len(who), 6))
    table = pd.DataFrame(
        values, columns=["crp", "urea", "sodium", "lactate", "pulse", "bilirubin"]
    )
    table.insert(0, "age", age[who])
    table.insert(1, "sex", rng.choice(["m", "f"], patients)[who])
    ill = level[:, 0] + rng.normal(size=patients) > np.quantile(level[:, 0], 0.7)
    return who, table.assign(ill=np.where(ill[who], "yes", "no"))


def named() -> pd.DataFrame:
    who, table = visits()
    return table.assign(
        name=[f"rec_R1_S{patient:02d}_{row % 5 + 1}" for row, patient in enumerate(who)]
    )


def in_first_rows() -> pd.DataFrame:
    who, table = visits()
    return table.assign(
        patient=np.where(np.diff(who, prepend=-1) > 0, who + 100.0, np.nan)
    )


def kinds(table: pd.DataFrame) -> dict[str, str | None]:
    frame = table.drop(columns="ill").apply(
        lambda cells: (
            cells.astype(float) if cells.dtype.kind in "if" else cells.astype(object)
        )
    )
    return {sign.kind: sign.column for sign in signs(frame)}


def trained(table: pd.DataFrame, folder, contract=None, independent=False, **roles):
    table.to_csv(folder / "past.csv", index=False)
    cohort = read_cohort(
        folder / "past.csv", contract, label="ill", positive="yes", **roles
    )
    return train(
        cohort,
        "logistic",
        search=1,
        repeats=1,
        beside=(),
        jobs=1,
        independent=independent,
    )


def with_index(header: str) -> pd.DataFrame:
    """Names in the index that was saved with a table, in a first column that perhaps nobody named."""
    table = named()
    table.insert(0, header, table.pop("name"))
    return table


STOPPED = {
    "a running end": (
        named(),
        {},
        "40 stems with a running end.*--group 'name'.*--independent",
    ),
    "an id": (named(), {"id": "name"}, "40 stems with a running end.*--group 'name'"),
    "a nameless index": (
        with_index(""),
        {},
        "40 stems.*Write a name above that column",
    ),
    "an index": (with_index("Unnamed: 0"), {}, "40 stems.*--group 'Unnamed: 0'"),
    "first rows": (in_first_rows(), {}, "Fill column 'patient' down"),
    "a number that repeats": (
        visits()[1].assign(patient_id=visits()[0] + 500),
        {},
        "--group 'patient_id'",
    ),
}


@pytest.mark.parametrize(
    ("table", "roles", "words"), STOPPED.values(), ids=STOPPED.keys()
)
def test_rows_that_surely_share_patients_stop_training(tmp_path, table, roles, words):
    """And an id does not silence it."""
    with pytest.raises(UsageError, match=words):
        trained(table, tmp_path, **roles)


def test_a_group_of_stems_keeps_patients_whole_in_training_and_in_scoring(tmp_path):
    model = trained(named(), tmp_path, id="name", group="name")
    held_out, scored = model.held_out, model.score_frame(tmp_path / "past.csv")
    assert model.facts.validation.n_groups == PATIENTS
    folds = pd.DataFrame({"group": held_out["group"], "fold": held_out["fold"]})
    assert folds.groupby("group")["fold"].nunique().max() == 1
    assert scored["group"].nunique() == PATIENTS
    assert not [
        reason
        for reason in model.facts.attention
        if reason.code == ROWS_OF_ONE_PATIENT.code
    ]


def test_who_says_that_rows_are_independent_is_believed(tmp_path):
    model = trained(named(), tmp_path, independent=True)
    assert not [
        reason
        for reason in model.facts.attention
        if reason.code == ROWS_OF_ONE_PATIENT.code
    ]
    assert any("--independent" in note for note in model.facts.training.notes)


def test_rows_alike_that_lie_together_are_a_reason_for_attention(tmp_path):
    model = trained(visits(120, 3)[1], tmp_path)
    reasons = [
        reason
        for reason in model.facts.attention
        if reason.code == ROWS_OF_ONE_PATIENT.code
    ]
    assert any("within 3 lines of the file" in reason.words for reason in reasons)
    assert all(
        "name the column of the patient by --group" in reason.remedy
        for reason in reasons
    )


def test_patients_with_eyes_shuffled_are_found_by_their_copies():
    _, table = visits(200, 2)
    height = np.random.default_rng(1).normal(170, 10, 200).round(1)
    shuffled = table.assign(height=np.repeat(height, 2)).sample(frac=1, random_state=0)
    assert "copies" in kinds(shuffled.reset_index(drop=True))


def test_beds_of_rooms_are_no_patients():
    """Two beds of a room are two patients: a column called after a place is no stem of rows."""
    rng = np.random.default_rng(2)
    beds = [f"{room}-{bed}" for room in range(1, 61) for bed in (1, 2)]
    values = {"crp": rng.normal(size=120), "age": rng.normal(60, 9, 120)}
    table = pd.DataFrame({"bed": beds, "ill": "no"} | values)
    assert "stem" not in kinds(table)
    assert "stem" in kinds(table.rename(columns={"bed": "sample"}))


@pytest.mark.parametrize("by", [None, ["sex", "age", "crp"]])
def test_independent_patients_are_left_in_peace(by):
    """As they came, and sorted."""
    _, table = visits(300, 1)
    rng = np.random.default_rng(0)
    centre = np.sort(rng.integers(10, 40, 300))
    number = pd.Series(centre).groupby(centre).cumcount() + 1
    table["id"] = [f"{c}-{n:03d}" for c, n in zip(centre, number, strict=True)]
    table["troponin"] = np.where(
        rng.random(300) < 0.3, rng.integers(1, 10_000, 300), np.nan
    )
    assert (
        kinds(table.sort_values(by or "id", kind="stable").reset_index(drop=True)) == {}
    )


def test_a_table_sorted_by_a_score_of_its_columns_is_left_in_peace():
    """Rows that lie beside those most like them because values run one way are not of one patient."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.integers(0, 8, (1500, 3)), columns=["stage", "grade", "visits"]
    )
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
    table = pd.DataFrame(
        {"region": region, "rate": rate[region, year], "benefit": benefit[region, year]}
    )
    table = table.assign(
        age=rng.integers(20, 65, 2000), tenure=rng.integers(1, 30, 2000)
    )
    for sign in (
        "sex",
        "smokes",
        "married",
        "insured",
        "employed",
        "drinks",
        "walks",
        "sleeps",
    ):
        table[sign] = rng.choice(["y", "n"], 2000)

    assert not kinds(table.assign(ill="no"))


def test_a_starter_contract_proposes_the_stem_and_reads_the_table(tmp_path):
    named().to_csv(tmp_path / "past.csv", index=False)
    contract, notes = starter_contract(tmp_path / "past.csv")
    assert (contract.group, contract.group_stem, contract.id) == ("name", True, "name")
    assert any("40 stems" in note for note in notes)
    assert check_cohort(tmp_path / "past.csv", contract)[0] == []


def test_a_starter_contract_does_not_take_an_arm_for_the_patient():
    table = visits(200, 1)[1].assign(group=np.arange(200) % 2, id=range(1000, 1200))
    contract, _ = starter_contract(table)
    assert (contract.group, contract.id) == (None, "id")


def test_a_starter_contract_fills_down_what_stands_in_first_rows(tmp_path):
    in_first_rows().to_csv(tmp_path / "past.csv", index=False)
    contract, notes = starter_contract(tmp_path / "past.csv")
    assert (contract.group, contract.fill_down) == ("patient", ["patient"])
    assert "guessed role fill_down: patient" in notes
    cohort = read_cohort(tmp_path / "past.csv", contract, need_label=True, batch_rows=7)
    assert (
        len({*cohort.group}) == PATIENTS and cohort.group[0] == cohort.group[ROWS - 1]
    )


def test_files_of_a_table_may_have_other_columns_beside_those_of_the_contract(tmp_path):
    _, table = visits(60, 1)
    contract = starter_contract(table)[0].with_roles(label="ill")
    table.head(30).assign(note="x").to_csv(tmp_path / "1.csv", index=False)
    table.tail(30).assign(other=1).to_csv(tmp_path / "2.csv", index=False)
    assert {sign.column for sign in dependence(source_at(tmp_path), contract)} <= {None}


CONTRACT = (
    'format = 1\n[cohort]\nid = "patient"\nlabel = "ill"\npositive = ["yes"]\n'
    '[features.fever]\ntype = "number"\n[features.crp]\ntype = "number"\n'
)


@pytest.fixture
def rng():
    """Each test draws the same, whichever ran before it."""
    return np.random.default_rng(1)


def codes(model):
    return {
        (each["code"], each["column"]) for each in model.document["training"]["leaks"]
    }


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_column_that_ranks_alone_is_named_on_the_page_too(rng, tmp_path, sign):
    table = patients()
    table["discharge_code"] = sign * (
        (table["ill"] == "yes") + rng.normal(0, 0.05, len(table))
    )
    model = trained(table, tmp_path, id="patient")
    assert codes(model) == {
        ("ranks_alone", "discharge_code"),
        ("named_after", "discharge_code"),
        ("too_good", "discharge_code"),
    }
    assert "Look at discharge_code: alone it ranks with AUROC" in render_model(
        model.sealed
    )


def test_a_category_that_is_the_answer_is_named_and_one_of_many_levels_is_not(
    rng, tmp_path
):
    table = patients()
    table["code"] = np.where(
        table["ill"] == "yes", rng.choice(["A41.9", "R65.2"], len(table)), "Z00"
    )
    table["room"] = [f"room {i}" for i in rng.integers(0, len(table) // 4, len(table))]
    assert codes(trained(table, tmp_path, id="patient")) == {
        ("ranks_alone", "code"),
        ("too_good", "code"),
    }


def test_a_category_that_is_nearly_a_name_is_named(tmp_path):
    table = patients()
    table["ward"] = [
        f"note {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(len(table))
    ]
    contract = tmp_path / "cohort.toml"
    contract.write_text(CONTRACT + '[features.ward]\ntype = "category"\n')
    assert ("nearly_unique", "ward") in codes(
        trained(table, tmp_path, contract, id="patient")
    )


def test_missing_values_that_tell_are_named(rng, tmp_path):
    table = patients()
    table["lactate"] = rng.normal(1, 0.3, len(table))
    table.loc[(table["ill"] == "no") & (np.arange(len(table)) % 2 == 0), "lactate"] = (
        np.nan
    )
    assert ("missing_tells", "lactate") in codes(trained(table, tmp_path, id="patient"))


def test_a_column_known_only_after_the_outcome_is_left_out_and_that_is_said(tmp_path):
    table = patients().assign(icu_days=lambda table: (table["ill"] == "yes") * 5.0)
    contract = tmp_path / "cohort.toml"
    late = '[features.icu_days]\ntype = "number"\navailable = "after"\n'
    contract.write_text(CONTRACT + late + '[features.ward]\ntype = "category"\n')
    model = trained(table, tmp_path, contract, id="patient")
    assert "icu_days" not in model.contract.features
    said = "icu_days is left out: it is known only after the outcome (contract)"
    assert said in model.document["training"]["notes"]


def test_a_column_that_carries_the_whole_ranking_is_named_with_what_is_left_without_it(
    rng,
    tmp_path,
):
    table = patients()
    table["marker"] = (table["ill"] == "yes") + rng.normal(0, 0.36, len(table))

    model = trained(table, tmp_path, id="patient")

    (leak,) = [
        each
        for each in model.document["training"]["leaks"]
        if each["code"] == "too_good"
    ]
    assert leak["column"] == "marker"
    whole = model.document["validation"]["summary"]["yes"]["auroc"]["value"]
    assert leak["figure"] < whole - 0.03
    assert (
        f"without it logistic regression on the same folds has {leak['figure']:.3f}"
        in leak["said"]
    )
    assert any(
        "the whole model has" in reason["words"]
        for reason in model.document["attention"]
    )


def test_a_model_that_is_nearly_perfect_names_the_columns_that_would_explain_it(
    rng,
    tmp_path,
):
    table = patients()
    for name in ("a", "b", "c"):
        table[name] = (table["ill"] == "yes") + rng.normal(0, 0.35, len(table))
    model = trained(table, tmp_path, id="patient")
    (leak,) = [
        each
        for each in model.document["training"]["leaks"]
        if each["code"] == "too_good"
    ]
    assert (
        leak["said"].startswith(("a, ", "b, ", "c, "))
        and "without them" in leak["said"]
    )


AFTERWARDS = ["followUpDays", "LOS", "Entlassungsdatum_num", "durée de séjour", "décès"]
BEFORE = ["prior_discharges", "family_death_history", "days_in_hospital", "time"]


def test_names_that_speak_of_a_time_after_the_outcome_are_said_and_of_before_are_not(
    rng,
    tmp_path,
):
    """And nothing else of a clean table."""
    table = patients()
    table[AFTERWARDS + BEFORE] = rng.normal(size=(len(table), 9))
    assert codes(trained(table, tmp_path, id="patient")) == {
        ("named_after", name) for name in AFTERWARDS
    }
