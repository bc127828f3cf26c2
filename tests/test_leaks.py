"""What makes a promise too good: rows of one patient on both sides, and columns that
look like the answer.
Independent rows are left in peace; what is known only after the outcome is never used.
"""

import datetime
import shlex

import numpy as np
import pandas as pd
import pytest
from approvals import approved
from flow_cohorts import patients
from numpy.random import default_rng
from patient_visits import PATIENTS, ROWS, named, visits

from screening import MaxFlagRate, read_cohort, score, train
from screening.data.column_names import may_be_later
from screening.data.dependence import Sign, dependence, signs
from screening.data.reading import check_cohort, starter_contract
from screening.errors import UsageError
from screening.io.opening import source_at
from screening.model_selection.approving import approval_of
from screening.model_selection.blocks import correlated_blocks
from screening.model_selection.leakage import leaks
from screening.model_selection.revising import set_threshold
from screening.model_selection.task import infer_task
from screening.report import render_model
from screening.schemas.model import ColumnBlock, Reliance
from screening.schemas.reasons import ROWS_OF_ONE_PATIENT


def in_first_rows() -> pd.DataFrame:
    who, table = visits()
    is_first = np.diff(who, prepend=-1) > 0
    return table.assign(patient=np.where(is_first, who + 100.0, np.nan))


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
        folder / "past.csv",
        contract,
        label="ill",
        positive="yes",
        **roles,
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
    """Names in the index that was saved with a table, in a first column that perhaps
    nobody named."""
    table = named()
    table.insert(0, header, table.pop("name"))
    return table


STOPPED = {
    "a running end": (
        named(),
        {},
        "40 stems with running numbers.*`group` name.*`independent`",
    ),
    "an id": (named(), {"id": "name"}, "40 stems with running numbers.*`group` name"),
    "a nameless index": (
        with_index(""),
        {},
        "40 stems.*Write a name above that column",
    ),
    "an index": (with_index("Unnamed: 0"), {}, "40 stems.*`group` 'Unnamed: 0'"),
    "first rows": (in_first_rows(), {}, "Fill column 'patient' down"),
    "a number that repeats": (
        visits()[1].assign(patient_id=visits()[0] + 500),
        {},
        "`group` patient_id",
    ),
}


@pytest.mark.parametrize(
    ("table", "roles", "words"), STOPPED.values(), ids=STOPPED.keys()
)
def test_rows_that_surely_share_patients_stop_training(tmp_path, table, roles, words):
    """And an id does not silence it."""
    with pytest.raises(UsageError, match=words):
        trained(table, tmp_path, **roles)


def test_group_of_stems(tmp_path):
    """A group of stems keeps patients whole in training and in scoring."""
    model = trained(named(), tmp_path, id="name", group="name")
    held_out = model.held_out
    scored = model.score_frame(tmp_path / "past.csv")
    assert model.facts.validation.n_groups == PATIENTS
    folds = pd.Series(held_out["fold"]).groupby(held_out["group"])
    assert folds.nunique().max() == 1
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
    assert any("`independent`" in note for note in model.facts.training.notes)


def test_rows_alike_that_lie_together_are_a_reason_for_attention(tmp_path):
    model = trained(visits(120, 3)[1], tmp_path)
    reasons = [
        reason
        for reason in model.facts.attention
        if reason.code == ROWS_OF_ONE_PATIENT.code
    ]
    assert any("within 3 lines in the file" in reason.words for reason in reasons)
    assert all(
        "name the column of the patient as `group`" in reason.remedy
        for reason in reasons
    )


def test_patients_with_eyes_shuffled_are_found_by_their_copies():
    _, table = visits(200, 2)
    height = default_rng(1).normal(170, 10, 200).round(1)
    table["height"] = np.repeat(height, 2)
    shuffled = table.sample(frac=1, random_state=0)
    assert "copies" in kinds(shuffled.reset_index(drop=True))


def test_beds_of_rooms_are_no_patients():
    """Two beds of a room are two patients: a column called after a place is no stem of
    rows."""
    rng = default_rng(2)
    beds = [f"{room}-{bed}" for room in range(1, 61) for bed in (1, 2)]
    values = {"crp": rng.normal(size=120), "age": rng.normal(60, 9, 120)}
    table = pd.DataFrame({"bed": beds, "ill": "no", **values})
    assert "stem" not in kinds(table)
    assert "stem" in kinds(table.rename(columns={"bed": "sample"}))


@pytest.mark.parametrize("by", [None, ["sex", "age", "crp"]])
def test_independent_patients_are_left_in_peace(by):
    """As they came, and sorted."""
    _, table = visits(300, 1)
    rng = default_rng(0)
    centre = np.sort(rng.integers(10, 40, 300))
    of_centre = pd.Series(centre).groupby(centre)
    number = of_centre.cumcount() + 1
    table["id"] = [f"{c}-{n:03d}" for c, n in zip(centre, number, strict=True)]
    is_known = rng.random(300) < 0.3
    troponin = rng.integers(1, 10_000, 300)
    table["troponin"] = np.where(is_known, troponin, np.nan)
    in_order = table.sort_values(by or "id", kind="stable")
    assert kinds(in_order.reset_index(drop=True)) == {}


def test_a_table_sorted_by_a_score_of_its_columns_is_left_in_peace():
    """Rows that lie beside those most like them because values run one way are not of
    one patient."""
    rng = default_rng(0)
    grades = rng.integers(0, 8, (1500, 3))
    table = pd.DataFrame(grades, columns=["stage", "grade", "visits"])
    table["smokes"] = rng.integers(0, 2, 1500)
    table["income"] = rng.normal(size=1500)
    score = table @ [1.0, np.sqrt(2), np.sqrt(3), 0.7, 0.001]
    by_score = table.iloc[np.argsort(score)]
    assert not kinds(by_score.assign(ill="no"))


@pytest.mark.parametrize("order", ["as they came", "by region"])
def test_what_patients_of_one_region_share_makes_no_patient_of_them(order):
    rng = default_rng(0)
    region = rng.integers(0, 50, 2000)
    year = rng.integers(0, 8, 2000)
    if order == "by region":
        region = np.sort(region)
        year = np.zeros(2000, dtype=int)
    rate = rng.integers(40, 150, (50, 8)) / 10
    benefit = rng.integers(40, 150, (50, 8)) / 10
    table = pd.DataFrame(
        {
            "region": region,
            "rate": rate[region, year],
            "benefit": benefit[region, year],
        }
    )
    table["age"] = rng.integers(20, 65, 2000)
    table["tenure"] = rng.integers(1, 30, 2000)
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
    assert contract.group == "name"
    assert contract.group_stem is True
    assert contract.id == "name"
    assert any("40 stems" in note for note in notes)
    assert check_cohort(tmp_path / "past.csv", contract)[0] == []


def test_a_starter_contract_does_not_take_an_arm_for_the_patient():
    _, table = visits(200, 1)
    table = table.assign(group=np.arange(200) % 2, id=range(1000, 1200))
    contract, _ = starter_contract(table)
    assert contract.group is None
    assert contract.id == "id"


def test_a_starter_contract_fills_down_what_stands_in_first_rows(tmp_path):
    in_first_rows().to_csv(tmp_path / "past.csv", index=False)
    contract, notes = starter_contract(tmp_path / "past.csv")
    assert contract.group == "patient"
    assert contract.fill_down == ["patient"]
    assert "guessed role fill_down: patient" in notes
    cohort = read_cohort(tmp_path / "past.csv", contract, need_label=True, batch_rows=7)
    assert len({*cohort.group}) == PATIENTS
    assert cohort.group[0] == cohort.group[ROWS - 1]


def test_files_with_other_columns(tmp_path):
    """Files of a table may have other columns beside those of the contract."""
    _, table = visits(60, 1)
    contract = starter_contract(table)[0].with_roles(label="ill")
    first = table.head(30).assign(note="x")
    rest = table.tail(30).assign(other=1)
    first.to_csv(tmp_path / "1.csv", index=False)
    rest.to_csv(tmp_path / "2.csv", index=False)
    signs = dependence(source_at(tmp_path), contract)
    assert {sign.column for sign in signs} <= {None}


CONTRACT = (
    'format = 1\n[cohort]\nid = "patient"\nlabel = "ill"\npositive = ["yes"]\n'
    '[features.fever]\ntype = "number"\n[features.crp]\ntype = "number"\n'
)


@pytest.fixture
def rng():
    """Each test draws the same, whichever ran before it."""
    return default_rng(1)


def questions(model):
    leaks = model.facts.training.leaks
    return {(leak.code, leak.column) for leak in leaks}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_question_named_after_on_page(rng, tmp_path, sign):
    """A name that tells of a discharge is a question, on the page and in the
    verdict."""
    table = patients()
    is_case = table["ill"] == "yes"
    noise = rng.normal(0, 0.05, len(table))
    table["discharge_code"] = sign * (is_case + noise)

    model = trained(table, tmp_path, id="patient")

    assert questions(model) == {("named_after", "discharge_code")}
    assert "answer_first" in [reason.code for reason in model.facts.attention]
    page = render_model(model.sealed)
    assert "answer whether it is known at the hour of the night" in page
    assert "Not shown: answer first" in page


def test_no_question_of_finding(rng, tmp_path):
    """A discharge that is there or not is a finding; one with codes is where they
    went.
    """
    table = patients()
    table["discharge"] = rng.choice(["y", "n"], len(table))

    assert questions(trained(table, tmp_path, id="patient")) == set()

    table["discharge"] = rng.choice(["home", "ward", "dead"], len(table))

    asked = questions(trained(table, tmp_path, id="patient"))
    assert asked == {("named_after", "discharge")}


def test_no_question_of_strength(rng, tmp_path):
    """A strong marker under a name that says nothing is no question, but is asked
    for."""
    table = patients()
    is_case = table["ill"] == "yes"
    noise = rng.normal(0, 0.05, len(table))
    table["marker"] = is_case + noise
    codes = rng.choice(["A41.9", "R65.2"], len(table))
    table["code"] = np.where(is_case, codes, "Z00")

    model = trained(table, tmp_path, id="patient")

    assert questions(model) == set()
    asked = {name for columns in model.facts.unanswered for name in columns}
    assert {"marker", "code"} <= asked


@pytest.mark.parametrize(("missing_of_cases", "asks"), [(0.75, True), (0.3, False)])
def test_question_missing_in_one_class(rng, missing_of_cases, asks):
    """A value that cases have no longer, since they died before, is asked about."""
    table = patients(400)
    is_case = table["ill"].eq("yes").to_numpy()
    is_missing = rng.random(400) < np.where(is_case, missing_of_cases, 0.1)
    day_three = np.where(is_missing, np.nan, rng.normal(size=400))
    contract, _ = starter_contract(table.assign(day_three=day_three), label="ill")
    cohort = read_cohort(table.assign(day_three=day_three), contract)
    task, _ = infer_task(cohort, several=False)
    found, _ = leaks(cohort, task)

    expected = [("missing_in_one_class", "day_three")] if asks else []
    assert [(leak.code, leak.column) for leak in found] == expected


def test_question_filled_in_one_class(rng, tmp_path):
    table = patients()
    n_rows = len(table)
    is_treated = (table["ill"] == "yes") & (rng.random(n_rows) < 0.7)
    dose = rng.normal(50, 5, n_rows)
    table["dose"] = np.where(is_treated, dose, np.nan)
    is_measured = rng.random(n_rows) < 0.3
    lactate = rng.normal(1, 0.2, n_rows)
    table["lactate"] = np.where(is_measured, lactate, np.nan)

    model = trained(table, tmp_path, id="patient")

    assert questions(model) == {("filled_in_one_class", "dose")}


@pytest.mark.parametrize(
    ("share", "is_question"),
    [
        (0.7, True),
        (0.1, False),
        (1.0, False),
    ],
)
def test_question_equal_times(rng, tmp_path, share, is_question):
    """Two times equal in most rows are one question; a copy tells nothing."""
    table = patients()
    first = rng.integers(1, 2000, len(table)).astype(float)
    other = rng.integers(1, 2000, len(table)).astype(float)
    table["a"] = first
    is_equal = rng.random(len(table)) < share
    table["b"] = np.where(is_equal, first, other)

    model = trained(table, tmp_path, id="patient")

    asked = [leak.asked for leak in model.facts.training.leaks]
    assert asked == ([["a", "b"]] if is_question else [])


def draws(rng, second: str) -> pd.DataFrame:
    """A table with two draws of a value, or with a second column that copies the
    outcome where it differs from the first.
    """
    table = patients(400)
    is_case = table["ill"].eq("yes").to_numpy()
    first = rng.normal(1.5 * is_case, 1.0).round(2)
    is_again = rng.random(400) < (
        np.where(is_case, 0.6, 0.0) if second == "leak" else 0.5
    )
    table["inr"] = first
    table["ratio"] = np.where(is_again, first + rng.normal(0, 0.2, 400).round(2), first)
    if second == "by name":
        table = table.rename(columns={"ratio": "days_to_event"})
    return table


@pytest.mark.parametrize(
    ("second", "column", "is_same"),
    [
        ("draw", "ratio", True),
        ("leak", "ratio", False),
        ("by name", "days_to_event", False),
    ],
)
def test_same_measurement_is_one_question(rng, tmp_path, second, column, is_same):
    """An answer about one draw counts for the other, unless their difference tells who
    is a case, or the other one is odd by its name."""
    model = trained(draws(rng, second), tmp_path, id="patient")
    answers = [name for name in model.contract.features if name != column]

    (question,) = model.facts.training.leaks
    assert (model.facts.training.same_measurements == [["inr", "ratio"]]) == is_same
    assert column in question.asked
    if is_same:
        answered = approved(model, "A. Weber", TODAY, "trial", answers)
        assert answered.facts.open_questions == []
        assert "inr (and ratio, the same measurement)" in render_model(answered.sealed)
    else:
        with pytest.raises(UsageError, match=column):
            approved(model, "A. Weber", TODAY, "trial", answers)


def test_weaker_column_is_no_answer_for_its_block(rng, tmp_path):
    """A copy of the outcome under a name like another column's is asked about."""
    table = patients()
    is_case = table["ill"] == "yes"
    table["crp_last"] = is_case + rng.normal(0, 0.3, len(table))

    model = trained(table, tmp_path, id="patient")

    others = [name for name in model.contract.features if name != "crp_last"]
    with pytest.raises(UsageError, match="crp_last, crp"):
        approved(model, "A. Weber", TODAY, "trial", others)


@pytest.mark.parametrize(
    ("days_later", "is_question"),
    [
        (3, True),
        (-3, False),
    ],
)
def test_question_later_time(rng, tmp_path, days_later, is_question):
    """A feature that counts the seconds of a later time than the row's is a
    question."""
    table = patients()
    taken = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.integers(0, 300, len(table)), "D"
    )
    table["taken"] = taken.strftime("%Y-%m-%d")
    moved = taken + pd.to_timedelta(days_later, "D")
    table["x9"] = moved.astype("datetime64[s]").astype("int64")
    contract = tmp_path / "cohort.toml"
    contract.write_text(
        'format = 1\n[cohort]\nlabel = "ill"\npositive = ["yes"]\nid = "patient"\n'
        'time = "taken"\n[features.x9]\ntype = "number"\n'
    )
    cohort = read_cohort(table, contract)
    task, _ = infer_task(cohort, several=False)

    codes = {leak.code for leak in leaks(cohort, task)[0]}

    assert ("later_time" in codes) == is_question


def test_column_after_outcome(tmp_path):
    """A column known only after the outcome is left out and that is said."""
    table = patients()
    table["icu_days"] = (table["ill"] == "yes") * 5.0
    contract = tmp_path / "cohort.toml"
    late = '[features.icu_days]\ntype = "number"\navailable = "after"\n'
    contract.write_text(CONTRACT + late + '[features.ward]\ntype = "category"\n')
    model = trained(table, tmp_path, contract, id="patient")
    assert "icu_days" not in model.contract.features
    said = "icu_days is left out: it is known only after the outcome (contract)"
    assert said in model.document["training"]["notes"]


def test_reliance_without_blocks(rng, tmp_path):
    """The page says what is left without the most telling block."""
    table = patients()
    is_case = table["ill"] == "yes"
    noise = rng.normal(0, 0.36, len(table))
    table["marker_min"] = is_case + noise
    noise = rng.normal(0, 0.5, len(table))
    table["marker_max"] = table["marker_min"] + noise

    model = trained(table, tmp_path, id="patient")

    reliance = model.facts.training.reliance
    assert set(reliance.blocks[0].columns) == {"marker_min", "marker_max"}
    assert reliance.whole > 0.95 > reliance.without[0]
    assert reliance.without[-1] == 0.5
    page = render_model(model.sealed)
    assert f"{reliance.without[0]:.2f} without marker_min, marker_max" in page


def test_carrying_half_of_what_is_above_chance():
    blocks = [ColumnBlock(columns=[name], alone=0.8) for name in "abcde"]
    areas = [0.85, 0.69, 0.6, 0.6, 0.6]
    facts = {"recipe": "logistic", "label": "yes", "blocks": blocks, "without": areas}

    assert len(Reliance(whole=0.9, **facts).carrying) == 2
    assert len(Reliance(whole=0.68, **facts).carrying) == 5


def blocks(**columns):
    frame = pd.DataFrame(columns)
    is_case = np.arange(len(frame)) % 3 == 0
    frame["ill"] = np.where(is_case, "yes", "no")
    return correlated_blocks(read_cohort(frame, label="ill"))


def test_blocks_by_missing_values_correlation_and_stem(rng):
    base = rng.normal(size=200)
    is_missing = rng.random(200) < 0.3
    columns = blocks(
        ph=np.where(is_missing, np.nan, rng.normal(size=200)),
        base_excess=np.where(is_missing, np.nan, rng.normal(size=200)),
        weight=base,
        mass=3 * base + 0.01 * rng.normal(size=200),
        crp_min=rng.normal(size=200),
        crp_max=rng.normal(size=200),
        age=rng.normal(size=200),
    )

    assert columns == [
        ["ph", "base_excess"],
        ["weight", "mass"],
        ["crp_min", "crp_max"],
        ["age"],
    ]


LATER = [
    "followUpDays",
    "LOS",
    "Entlassungsdatum_num",
    "durée de séjour",
    "décès",
    "time",
    "rtime",
    "days_to_death",
    "hospital_expire_flag",
    "vital_status",
    "recur",
    "censrec",
]
IN_TIME = [
    "prior_discharges",
    "family_death_history",
    "days_in_hospital",
    "prothrombin_time",
    "capillary_refill_time",
    "functional_status",
    "nasal_discharge",
    "survey_region",
    "temperature",
]


@pytest.mark.parametrize("name", LATER)
def test_names_later(name):
    assert may_be_later(name)


@pytest.mark.parametrize("name", IN_TIME)
def test_names_in_time(name):
    assert not may_be_later(name)


@pytest.fixture
def asked_model(rng, tmp_path):
    table = patients()
    table["status"] = rng.normal(size=len(table))
    return trained(table, tmp_path, id="patient")


TODAY = datetime.date(2026, 3, 1)


def test_approve_asks(asked_model):
    """Without an answer there is no approval, and the blocks are listed."""
    with pytest.raises(UsageError, match=r"known at the hour of the night.*status"):
        approved(asked_model, "A. Weber", TODAY, "trial")
    with pytest.raises(UsageError, match=r"no feature 'statsu'.*did you mean 'status'"):
        approved(asked_model, "A. Weber", TODAY, "trial", ["statsu"])


def test_approve_keeps_answers(asked_model):
    """Who answered is kept, questions go, and another threshold keeps the answers."""
    columns = list(asked_model.contract.features)

    answered = approved(asked_model, "A. Weber", TODAY, "trial", columns)
    again = set_threshold(answered, MaxFlagRate(0.2), "capacity")

    assert "answer_first" not in [reason.code for reason in answered.facts.attention]
    (answer,) = answered.facts.known_before
    assert answer.columns == columns
    assert answer.by == "A. Weber"
    assert answer.date == "2026-03-01"
    known = approval_of(asked_model.facts, answered.facts)
    assert known["known_before"] == columns
    approved_again = approved(again, "B. Meier", TODAY, "trial")
    assert approved_again.facts.approval.by == "B. Meier"
    assert "according to A. Weber on 2026-03-01" in render_model(answered.sealed)


def test_contract_answers(rng, tmp_path):
    """A declaration in the contract is an answer; the question is not raised."""
    table = patients()
    table["status"] = rng.normal(size=len(table))
    contract = tmp_path / "cohort.toml"
    features = [
        f'[features.{name}]\ntype = "number"\navailable = "before"\n'
        for name in ("fever", "crp", "status")
    ]
    head = CONTRACT.split("[features")[0]
    contract.write_text(head + "".join(features))

    model = trained(table, tmp_path, contract, id="patient")

    assert model.facts.unanswered == []
    assert approved(model, "A. Weber", TODAY, "trial").facts.approval is not None


def test_nights_carry_question(asked_model, tmp_path):
    """Every night of such a model says so until somebody answers."""
    night = patients(40, seed=3).assign(status=0.5)

    run = score(asked_model, night, tmp_path / "run")

    assert "answer_first" in [reason.code for reason in run.attention]


def test_init_asks_on_terminal():
    """The answer of a person stands in the contract."""
    rng = default_rng(0)
    table = patients()
    table["status"] = rng.normal(size=240)
    table["rtime"] = rng.random(240)
    asked = []

    def ask(role, guess, likely, allowed):
        if role == "available":
            asked.extend(likely)
            return {"status": "before", "rtime": "after"}[likely[0]]
        return guess

    contract, _ = starter_contract(table, ask, label="ill", id="patient")

    assert asked == ["status", "rtime"]
    assert contract.features["status"].available == "before"
    assert contract.features["rtime"].available == "after"
    assert contract.features["crp"].available is None


def test_remedy_hostile_column():
    """The column is printed as it is typed in a shell."""
    name = "it's $(touch pwned)"
    sign = Sign("repeated", "Ids repeat.", name)

    option = sign.remedy.partition("`group` ")[2].removesuffix(".")

    assert shlex.split(option) == [name]
