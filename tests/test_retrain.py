"""A model trained again on verdicts: what it learns from, and that it is in force
nowhere by itself.
"""

import datetime
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import KNOWN_BEFORE, WHO, as_json, sampled, screen, verdict_file
from flow_cohorts import night_of_patients, patients, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_nights import enter, of_ward
from numpy.testing import assert_array_equal
from written_files import scores_in

from screening import history, load_model, open_ledger, read_cohort, train
from screening.errors import CohortError, UsageError
from screening.io.opening import digests
from screening.ledger.entries import Retrained, stated
from screening.ledger.history import compare_nights
from screening.ledger.labels import Judged, LastWord, judged
from screening.ledger.merging import NO_MERGES, Merge, Merges
from screening.ledger.model_registry import promote, record_retraining
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.model_selection import retraining
from screening.report import render_model
from screening.store.serialization import read_document

QUICK = ["--recipe", "logistic", "--search", "1", "--repeats", "1", "--folds", "3"]
SERIES = "ward-7"


NIGHT = patients(20, seed=5)
NAMES = list(NIGHT["patient"])


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Two nights of a ward whose flagged and drawn cases all have verdicts."""
    folder = tmp_path_factory.mktemp("ward")
    past = written(patients(), folder / "past.csv")
    verdicts = {}
    options = (*QUICK, "--max-flag-rate", "0.2")
    screen("train", past, *WHO, *options, "--out", folder / "m")
    (folder / "in").mkdir()
    for day in (1, 2):
        night = f"2026-03-{day:02d}"
        table = patients(60, seed=day)
        unlabelled = table.drop(columns="ill")
        place = written(unlabelled, folder / "in" / f"{night}.csv")
        where = ["--ledger", folder / "l.db", "--series", SERIES]
        screen(
            "score",
            folder / "m",
            place,
            "--out",
            folder / night,
            "--date",
            night,
            *where,
        )
        run = read_document(folder / night, "run")
        is_case = table["ill"] == "yes"
        ill = dict(zip(table["patient"], is_case, strict=True))
        of_cases = [case["id"] for case in run["cases"]]
        names = [*of_cases, *sampled(run)]
        words = {name: "confirmed" if ill[name] else "ruled out" for name in names}
        entries = [{"id": name, "verdict": word} for name, word in words.items()]
        path = verdict_file(folder / night, entries)
        screen("review", folder / night, path, *where[:2])
        verdicts |= words
    return folder, verdicts


@pytest.fixture(scope="module")
def next_model(ward):
    """What `retrain` answers; a model that stands is never written over."""
    folder, _ = ward
    words = [
        SERIES,
        folder / "m",
        folder / "past.csv",
        "--nights",
        folder / "in" / "{date}.csv",
    ]
    where = ["--ledger", folder / "l.db", "--json"]
    before = (folder / "m" / "model.json").read_bytes()
    screen("retrain", *words, *where, "--out", folder / "m", code=2)
    assert (folder / "m" / "model.json").read_bytes() == before
    return json.loads(
        screen("retrain", *words, *where, "--out", folder / "next").stdout
    )


def test_retrain_again(ward, next_model):
    """The same command again finds its model; by other verdicts it is refused."""
    folder, _ = ward
    words = [SERIES, folder / "m", folder / "past.csv", "--out", folder / "next"]
    words += ["--ledger", folder / "l.db"]
    before = (folder / "next" / "model.json").read_bytes()

    again = as_json("retrain", *words, "--nights", folder / "in" / "{date}.csv")
    one_night = folder / "one_night"
    one_night.mkdir()
    shutil.copy(folder / "in" / "2026-03-01.csv", one_night)
    other = ["--nights", one_night / "{date}.csv"]
    refused = screen("retrain", *words, *other, code=2).stderr

    assert again == next_model
    assert "already contains a model, which is not replaced" in refused
    assert (folder / "next" / "model.json").read_bytes() == before


def test_retrain_command_ids_written_otherwise(ward, tmp_path):
    """The command ends with 3, names row and remedy, and keeps the reason given."""
    original, words = ward
    folder = shutil.copytree(original, tmp_path / "ward")
    screen("ledger", "moved", folder / "l.db", "--reason", "a test of its own")
    past = pd.read_csv(folder / "past.csv", dtype=str)
    past.loc[len(past)] = past.loc[0]
    past.loc[len(past) - 1, "patient"] = spreadsheet_number(min(words))
    path = written(past, tmp_path / "past.csv")
    command = ["retrain", SERIES, folder / "m", path, "--ledger", folder / "l.db"]
    command += ["--nights", folder / "in" / "{date}.csv", "--out", tmp_path / "next"]

    refused = screen(*command, code=3).stderr
    answer = as_json(*command, "--accept-delivery", "two wards share numbers")

    assert f"column 'patient', row {len(past)}: ids of reviewed patients" in refused
    assert "--accept-delivery" in refused
    assert answer["verdicts"]["rewritten"] == 1
    with open_ledger(folder / "l.db") as book, book.reading() as connection:
        *_, entry = stated(connection, Retrained)
    assert entry.facts.accepted == "two wards share numbers"


def test_outcomes_go_before_verdicts(ward, tmp_path):
    """Every row has a label then, flagged or not; a verdict counts where none is
    known.
    """
    original, words = ward
    folder = shutil.copytree(original, tmp_path / "ward")
    screen("ledger", "moved", folder / "l.db", "--reason", "a test of its own")
    first = patients(60, seed=1)
    second = patients(60, seed=2)
    flagged = scores_in(folder / "2026-03-01")
    flagged = set(flagged["id"][flagged["flagged"]])
    ill = set(first["patient"][first["ill"] == "yes"])
    # Of the flagged one who has it is treated, so that the event does not come.
    treated = sorted(ill & flagged)[0]
    events = [f"{name},2026-03-01T09:00\n" for name in sorted(ill - {treated})]
    (tmp_path / "events.csv").write_text("patient,at\n" + "".join(events))
    where = ["--ledger", folder / "l.db"]
    screen(
        *("outcomes", tmp_path / "events.csv", "--series", SERIES, *where),
        *("--id", "patient", "--time", "at", "--within", "24h"),
        *("--as-of", "2026-03-02"),
    )

    answer = as_json(
        *("retrain", SERIES, folder / "m", folder / "past.csv", *where),
        *("--nights", folder / "in" / "{date}.csv", "--out", tmp_path / "next"),
    )

    facts = answer["verdicts"]
    only_second = set(words) - set(first["patient"])
    assert set(second["patient"]).isdisjoint(first["patient"])
    assert facts["by_outcome"] == 60
    assert facts["confirmed"] + facts["ruled_out"] == 60 + len(only_second)
    assert facts["contradicted"] == 1
    assert facts["flagged_without_event"] == len(flagged - ill) + 1
    model = load_model(tmp_path / "next")
    labels = model.validation.set_index("id")["label"]
    assert labels[treated] == "no"
    learned = labels[sorted(first["patient"])]
    assert (learned == "yes").sum() == len(ill) - 1
    (note,) = [
        note for note in model.document["training"]["notes"] if "had no event" in note
    ]
    assert note.startswith(f"{len(flagged - ill) + 1} rows were flagged")


def test_retrain_by_champion(ward, next_model):
    """It learns from every verdict by the champion's recipe rule and contract.

    Figures stay at the past cohort's prevalence, though judged rows were chosen.
    """
    folder, words = ward
    champion = load_model(folder / "m")
    model = load_model(folder / "next")
    (first,) = champion.facts.operating_points
    (second,) = model.facts.operating_points
    methods = [
        [one.recipe for one in each.facts.validation.comparison.beside]
        for each in (champion, model)
    ]
    labels = model.validation.set_index("id")["label"]
    learned = {
        name: {"confirmed": "yes", "ruled out": "no"}[word]
        for name, word in words.items()
    }
    facts = next_model["verdicts"]

    known = set(champion.validation["id"])
    assert set(labels.index) == known | set(words)
    assert labels[list(learned)].to_dict() == learned
    assert model.recipe == champion.recipe
    assert model.contract == champion.contract
    assert first.rule.name == second.rule.name
    assert first.rule.value == second.rule.value
    assert methods[0] == methods[1]
    assert facts["confirmed"] + facts["ruled_out"] == len(words)
    assert facts["nights"] == 2
    assert facts["first"] == "2026-03-01"
    assert facts["last"] == "2026-03-02"
    assert model.document["training"]["verdicts"] == facts
    past = pd.read_csv(folder / "past.csv")
    prevalence = (past["ill"] == "yes").mean()
    assert second.prevalence == pytest.approx(prevalence)
    assert "(given)" in render_model(model.sealed)


def test_it_is_in_the_trail_and_in_force_nowhere_until_it_is_promoted(ward, next_model):
    """A patient is named by neither the answer nor the trail."""
    folder, words = ward
    where = ["--ledger", folder / "l.db", "--series", SERIES]
    champion = load_model(folder / "m")
    (point,) = champion.operating_points
    with open_ledger(folder / "l.db", read_only=True) as ledger:
        shown = history(ledger, SERIES, verify=True)
        assert judged(ledger, SERIES, champion.digest).series == SERIES
    (entry,) = shown["retrainings"]
    promised = shown["series"][0]["forward"]["promised"]
    assert entry["champion"] == champion.digest
    assert entry["model"][:12] == next_model["id"]
    assert entry["entry"] == next_model["entry"]
    for name in ("sensitivity", "ppv"):
        assert promised[name]["value"] == point["figures"][name]["value"]
    text = json.dumps([next_model, entry])
    assert [name for name in words if name in text] == []

    night = ["--out", folder / "third", "--date", "2026-03-03", *where]
    table = written(night_of_patients(60, seed=3), folder / "third.csv")
    screen("score", folder / "next", table, *night, code=2)
    screen("score", folder / "next", table, *night, "--shadow")
    screen(
        "approve",
        folder / "next",
        "--by",
        "A. Weber",
        "--reason",
        "newer",
        *KNOWN_BEFORE,
        *where,
    )
    screen("promote", folder / "next", *where, "--reason", "newer")
    screen(
        "score", folder / "next", table, "--force", *night, "--out", folder / "in force"
    )


# What follows puts such cohorts together by hand, without a ledger.


@pytest.fixture(scope="module")
def champion(ward):
    return load_model(ward[0] / "m")


def word(
    folder,
    at: int,
    verdict: str,
    night: str = "2026-03-01",
    table: str | None = None,
    name="",
) -> LastWord:
    place = str(folder / f"{night}.csv")
    if table is None:
        table = ",".join(each[:16] for each in digests(place))
    return LastWord(name or NAMES[at], night, verdict, table)


def cohort_of(champion, past, folder, *words: LastWord, merges=NO_MERGES, reason=None):
    read = read_cohort(past, champion.contract, need_label=True)
    return retraining.judged_cohort(
        champion,
        read,
        Judged(SERIES, words, merges),
        str(folder / "{date}.csv"),
        accept_delivery=reason,
    )


@pytest.fixture
def folder(tmp_path):
    written(NIGHT.drop(columns="ill"), tmp_path / "2026-03-01.csv")
    return tmp_path


def test_what_cannot_be_learned_from_is_left_out_and_said(champion, folder):
    """With nothing to learn from, nothing is trained."""
    (folder / "2026-03-02.csv").write_text("nothing\n1\n")
    unsure = word(folder, 1, "unsure")
    found = cohort_of(
        champion,
        patients(),
        folder,
        word(folder, 0, "confirmed"),
        unsure,
        word(folder, 2, "known"),
        word(folder, 3, "ruled out", table="f" * 16),
        word(folder, 4, "ruled out", table=""),
        word(folder, 0, "ruled out", name="erased-0123456789abcdef"),
        word(folder, 5, "ruled out", "2026-03-02"),
        word(folder, 6, "ruled out", "2026-03-09", "f" * 16),
    )

    assert found.facts.left_out == {
        retraining.UNSURE: 1,
        retraining.KNOWN: 1,
        retraining.OTHER_TABLE: 1,
        retraining.NO_DIGEST: 1,
        retraining.NO_ROW: 1,
        retraining.NO_TABLE: 2,
    }
    assert found.facts.confirmed == 1
    assert found.facts.ruled_out == 0
    assert found.cohort.n_rows == len(patients()) + 1
    with pytest.raises(
        UsageError,
        match=r"no verdict to learn from \(1 left out: the reviewer was unsure",
    ):
        cohort_of(champion, patients(), folder, unsure)


@given(
    st.sets(st.integers(0, 19), min_size=1),
    st.sets(st.integers(0, 19)),
    st.sets(st.integers(0, 19)),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_retrain_row_counts_once(champion, folder, told, same, changed):
    """A row in both counts once and a patient is on one side of every fold."""
    other = NIGHT.assign(fever=NIGHT["fever"] + 1)
    # What stands in the past cohort with the same values, and what with others, as of
    # another day.
    unchanged = NIGHT.iloc[sorted(same - changed)]
    changed_rows = other.iloc[sorted(changed)]
    past = pd.concat([patients(), unchanged, changed_rows])
    words = [word(folder, at, "ruled out") for at in sorted(told)]
    found = cohort_of(champion, past, folder, *words)
    cohort = found.cohort
    shared = len(told & changed)

    assert found.facts.already == len(told & (same - changed))
    assert found.facts.taken == len(told - (same - changed))
    assert cohort.n_rows == len(past) + found.facts.taken
    assert len(np.unique(cohort.id)) == cohort.n_rows - shared
    assert (cohort.group is not None) == bool(shared)
    patients_of_rows = cohort.group if shared else cohort.id
    assert_array_equal(patients_of_rows, cohort.id)


def spreadsheet_number(name):
    """An id as a program writes it that took it for a number."""
    return name.lstrip("0")


def test_retrain_id_written_otherwise(champion, folder):
    """Ids of the past that are judged ones but for zeros stop it, by row of the past.

    Accepted with a reason they are other patients, and the model says how many.
    """
    rewritten = NIGHT.assign(patient=NIGHT["patient"].map(spreadsheet_number))
    past = pd.concat([patients(), rewritten], ignore_index=True)
    words = [word(folder, at, "ruled out") for at in (3, 5)]

    with pytest.raises(CohortError) as refused:
        cohort_of(champion, past, folder, *words)
    accepted = cohort_of(champion, past, folder, *words, reason="another hospital")

    assert "the past cohort, column 'patient', rows 244, 246: ids" in str(refused.value)
    assert not any(name in str(refused.value) for name in NAMES)
    assert accepted.facts.rewritten == 2
    assert accepted.cohort.n_rows == len(past) + 2
    notes = retraining.summary_sentences(accepted.facts)
    assert any(note.startswith("the ids of 2 rows") for note in notes)


def test_retrain_group_written_otherwise(champion, folder):
    """The patient's id is compared too, where rows have ids of their own."""
    rows = NIGHT.drop(columns="ill").assign(stay=[f"s{at}" for at in range(20)])
    written(rows, folder / "2026-03-01.csv")
    contract = champion.contract.with_roles(group="patient").model_copy(
        update={"id": "stay"}
    )
    past = pd.concat([patients(), NIGHT.head(1)], ignore_index=True)
    past["stay"] = [f"p{at}" for at in range(241)]
    past.loc[240, "patient"] = spreadsheet_number(NAMES[0])
    by_stay = replace(champion, contract=contract)

    with pytest.raises(CohortError, match="column 'patient', row 241: ids of reviewed"):
        cohort_of(by_stay, past, folder, word(folder, 0, "ruled out"))


def test_retrain_ids_that_collide_in_the_past(champion, folder):
    """Of ids that the past has in two writings only the whole one is compared."""
    both = [NAMES[0], spreadsheet_number(NAMES[0])]
    twice = pd.concat([NIGHT.head(1), NIGHT.head(1)]).assign(patient=both)
    past = pd.concat([patients(), twice], ignore_index=True)

    found = cohort_of(champion, past, folder, word(folder, 0, "ruled out"))

    assert found.facts.already == 1
    assert found.facts.rewritten == 0


def test_retrain_merged_numbers(champion, folder):
    """A patient whose numbers were merged counts once, or is on one side of each fold.

    The same row under the old number is the same row; another one is in its group.
    """
    merges = Merges(
        {
            "OLD-0": Merge(1, "OLD-0", NAMES[0], "2026-02-01"),
            "OLD-1": Merge(1, "OLD-1", NAMES[1], "2026-02-01"),
        }
    )
    earlier = NIGHT.head(2).assign(patient=["OLD-0", "OLD-1"])
    earlier.loc[1, "fever"] += 1
    past = pd.concat([patients(), earlier], ignore_index=True)
    words = [word(folder, at, "ruled out") for at in (0, 1)]

    apart = cohort_of(champion, past, folder, *words)
    found = cohort_of(champion, past, folder, *words, merges=merges)

    assert apart.facts.already == 0
    assert found.facts.already == 1
    assert found.cohort.n_rows == len(past) + 1
    assert (found.cohort.group == NAMES[1]).sum() == 2
    assert set(found.cohort.id[found.cohort.group == NAMES[1]]) == {"OLD-1", NAMES[1]}


def test_retrain_fixed_parameters(champion, folder):
    """What was fixed for the champion is fixed again and the rest is searched; it is
    compared with the champion's other methods, not the usual ones.
    """
    past = read_cohort(patients(), champion.contract, need_label=True)
    fixed = train(
        past,
        "svm_weighted",
        params={"C": 3.0},
        search=2,
        folds=3,
        repeats=1,
        beside=("logistic",),
    )
    words = [word(folder, at, "ruled out") for at in (0, 1)]
    found = cohort_of(fixed, patients(), folder, *words)
    model = retraining.retrained(fixed, found)
    compared = model.facts.validation.comparison.beside
    of_fixed = fixed.document["validation"]["search"]["candidates"]
    candidates = model.document["validation"]["search"]["candidates"]
    assert [each["C"] for each in candidates] == [3.0, 3.0]
    assert of_fixed == candidates
    assert [other.recipe for other in compared] == ["logistic"]


def test_retrain_method_of_a_file(ward):
    """A method whose recipe is not installed is left out, and a note names it."""
    validation = load_model(ward[0] / "m").facts.validation
    first, *others = validation.comparison.beside
    beside = [first.replace(recipe="of_a_file"), *others]
    comparison = validation.comparison.replace(beside=beside)

    methods, notes = retraining._methods_compared(
        validation.replace(comparison=comparison)
    )

    assert methods == [other.recipe for other in others]
    assert notes == [
        "the champion was compared with of_a_file; this model is not, because that "
        "recipe is not installed"
    ]


def test_retrain_verdict_against_label(champion, folder):
    """A verdict against the cohort's label is counted and the label stands."""
    past = pd.concat([patients(), NIGHT])
    ill = list(NIGHT["ill"] == "yes").index(True)
    words = [word(folder, at, "ruled out") for at in (ill, 19)]
    found = cohort_of(champion, past, folder, *words)
    assert found.facts.already == 2
    is_case = NIGHT["ill"][19] == "yes"
    is_own = found.cohort.id == NAMES[ill]
    own_label = found.cohort.label[is_own]
    assert found.facts.disagreeing == 1 + is_case
    assert own_label == ["yes"]


def test_of_a_patient_with_several_rows_no_verdict_is_taken(champion, folder):
    rows = NIGHT.drop(columns="ill")
    rows["row"] = np.arange(20).astype(str)
    rows.loc[1, "patient"] = rows["patient"][0]
    written(rows, folder / "2026-03-01.csv")
    contract = champion.contract.with_roles(group="patient").model_copy(
        update={"id": "row"}
    )
    past = patients().assign(row=[f"p{at}" for at in range(240)])
    words = [word(folder, at, "confirmed") for at in (0, 5)]
    by_row = replace(champion, contract=contract)
    found = cohort_of(by_row, past, folder, *words)

    assert found.facts.left_out == {retraining.SEVERAL_ROWS: 1}
    assert found.facts.confirmed == 1


def test_a_review_date_of_before_is_not_taken_over_in_silence(champion, folder):
    review_by = {"review_by": datetime.date(2025, 1, 1)}
    old = champion.contract.model_copy(update=review_by)
    aged = replace(champion, contract=old)
    ruled_out = word(folder, 0, "ruled out")
    found = cohort_of(aged, patients(), folder, ruled_out)
    later = datetime.date(2028, 1, 1)
    dated = retraining.retrained(aged, found, review_by=later)
    silent = retraining.retrained(aged, found)

    assert str(dated.contract.review_by) == "2028-01-01"
    assert silent.contract.review_by is None
    notes = silent.document["training"]["notes"]
    assert any("2025-01-01" in note for note in notes)


# The ledger's part, in SQLite and PostgreSQL.


def test_retrain_last_verdict(ledger):
    """Of several verdicts on a patient the last one speaks with the table it was given
    on."""
    for day in (1, 2, 3):
        one = of_ward(SERIES, day, "ab")
        of_table = one.night.replace(table=f"t{day}")
        enter(ledger, replace(one, night=of_table))
    verdicts = [Verdict("a", "ruled out"), Verdict("b", "confirmed")]
    record_verdicts(ledger, f"{SERIES} m 1", verdicts)
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
    with pytest.raises(UsageError, match="uses model mmmmmmmmmmmm, but this is nnnn"):
        judged(ledger, SERIES, "n" * 64)
    evidence = compare_nights(ledger, SERIES, "n" * 64)
    promote(ledger, SERIES, "n" * 64, "better", evidence)
    with pytest.raises(UsageError, match="give the directory of the champion"):
        record_retraining(ledger, SERIES, "m" * 64, "k" * 64, {})

    assert history(ledger, verify=True)["retrainings"] == []
