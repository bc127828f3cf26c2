"""Patients whose numbers were merged: entered, followed from then on, and undone."""

import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import patients
from hypothesis import given
from hypothesis import strategies as st
from ledger_nights import enter, night, of_ward, states
from test_outcomes import SITE, trained

from screening import open_ledger, save_model, score
from screening.contract.contract import Contract, OutcomeDefinition
from screening.errors import CohortError
from screening.ledger.database import CASES
from screening.ledger.entries import STAND_IN
from screening.ledger.history import _SeriesNights, compare_nights, history
from screening.ledger.labels import judged
from screening.ledger.merge_tables import merge_numbers
from screening.ledger.merging import merges_of, numbers_to_erase
from screening.ledger.outcome_facts import recorded_outcomes
from screening.ledger.outcomes import enter_outcomes
from screening.ledger.verdicts import Verdict, record_verdicts
from screening.ledger.verifying import rebuild
from screening.monitoring.delivery import still_there

SINCE = "2026-01-03"


def merges(*rows):
    return pd.DataFrame(rows, columns=["old", "new", "since"], dtype=str)


def merge(ledger, *rows):
    return merge_numbers(ledger, merges(*rows))


def test_merge_is_an_entry_and_so_is_its_end(ledger):
    """Nothing is entered twice; a blank new number takes the merge back."""
    enter(ledger, night(1, "a"))
    first = merge(ledger, ("a", "b", SINCE), ("c", "d", SINCE))
    again = merge(ledger, ("a", "b", SINCE))
    n_entries = history(ledger, verify=True)["audit"]["entries"]
    undone = merge(ledger, ("a", "", "2026-02-01"))
    rebuild(ledger)

    with ledger.reading() as connection:
        in_force = merges_of(connection)
    assert first == {"new": 2, "changed": 0, "undone": 0, "unchanged": 0}
    assert again["unchanged"] == 1
    assert undone["undone"] == 1
    assert history(ledger, verify=True)["audit"]["entries"] == n_entries + 1
    assert in_force.patient("a") == "a"
    assert in_force.numbers("d") == ["d", "c"]
    assert in_force.on("2026-01-02").patient("c") == "c"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("a", "b", SINCE), ("b", "c", SINCE)], "row 1: a chain, because row 2"),
        ([("a", "b", SINCE), ("b", "a", SINCE)], "row 2: the merges go in a circle"),
        ([("a", "k2", SINCE)], "row 1: a chain, because the ledger has merged the new"),
        ([("k3", "z", SINCE)], "row 1: a chain, because the ledger has merged another"),
        ([("a", "a", SINCE)], "row 1: a number cannot be merged with itself"),
        (
            [("a", "b", SINCE), ("a", "c", SINCE)],
            "row 2: the old number is already in row 1",
        ),
        ([("a", "b", "soon")], "row 1: 'since' is not a date"),
        ([("a", "b", "2026-03-01T23:30Z")], "row 1: 'since' is not a date"),
        ([("", "b", SINCE)], "row 1: no old number"),
    ],
)
def test_merges_that_cannot_be_followed_are_refused_by_row(ledger, rows, words):
    enter(ledger, night(1, "a"))
    merge(ledger, ("k2", "k3", SINCE))
    n_entries = history(ledger)["audit"]["entries"]

    with pytest.raises(CohortError) as error:
        merge(ledger, *rows)

    assert words in str(error.value)
    assert history(ledger)["audit"]["entries"] == n_entries


def test_number_that_is_merged_again_brings_its_old_ones(ledger):
    """A chain over the years is written out: the oldest number is merged anew."""
    enter(ledger, night(1, "a"))
    merge(ledger, ("a", "b", SINCE))

    counts = merge(ledger, ("a", "c", SINCE), ("b", "c", SINCE))

    assert counts["changed"] == counts["new"] == 1
    assert numbers_to_erase(ledger, "a") == ["b", "c", "a"]


def test_states_follow_a_merge_from_its_day_on(ledger):
    """A patient under a new number is known as before, and no longer gone."""
    for day in (1, 2):
        run = night(day, "ae")
        enter(ledger, run)
    record_verdicts(ledger, run.night.key, [Verdict("a", "confirmed", initials="x")])
    merge(ledger, ("a", "b", SINCE))

    merged = enter(ledger, night(3, "be"))
    early = enter(ledger, night(2, "be", key="again"), force=True)

    assert states(merged) == {"b": "known", "e": "pending"}
    assert merged.cases["b"].nights == 3
    assert merged.since.gone == []
    assert states(early)["b"] == "new"
    assert history(ledger, verify=True)["audit"]["verified"]


def test_both_numbers_on_one_night_are_one_patient(ledger):
    enter(ledger, night(1, "ab"))
    merge(ledger, ("a", "b", "2026-01-02"))

    entered = enter(ledger, night(2, "ab"))
    later = enter(ledger, night(3, "b"))

    assert states(entered) == {"a": "pending", "b": "pending"}
    assert later.cases["b"].nights == 3
    assert later.since.gone == []


def test_last_verdict_of_a_merged_patient_counts(ledger):
    """To train on, a case has the number of its night, and a patient one verdict."""
    for day, name, word in ((1, "a", "confirmed"), (2, "b", "ruled out")):
        run = night(day, name)
        enter(ledger, run)
        record_verdicts(ledger, run.night.key, [Verdict(name, word, initials="x")])
    merge(ledger, ("a", "b", SINCE))
    series = run.night.series

    words = judged(ledger, series, "m" * 64).words

    assert [(word.case_id, word.verdict) for word in words] == [("b", "ruled out")]


WINDOW = {"id": "patient", "time": "when", "within": 72.0}


@pytest.fixture(scope="module")
def model():
    contract = Contract(
        label="ill", id="patient", outcome=OutcomeDefinition(within="3d", time="when")
    )
    return trained(contract)


def events_of(**events):
    rows = [(name, when) for name, when in events.items()]
    return pd.DataFrame(rows, columns=["patient", "when"])


@pytest.fixture
def two_nights(model, ledger, tmp_path):
    """Two nights of the same patients; two who were flagged have new numbers.

    One of these is not flagged any more. Returns the runs, and the renamed by old id.
    """
    table = patients(60, share=0.2, seed=2).drop(columns="ill")

    def night_of(day, shown):
        where = {"ledger": ledger, "series": "ward", "date": f"2026-03-0{day}"}
        return score(model, shown, tmp_path / f"run{day}", jobs=1, **where)

    first = night_of(1, table)
    ill, better = [case["id"] for case in first.document["cases"]][:2]
    renamed = {ill: "00290001", better: "00290002"}
    merge(ledger, *((old, new, "2026-03-02") for old, new in renamed.items()))
    later = table.assign(fever=table["fever"] + 0.001)
    later.loc[later["patient"] == better, ["fever", "crp"]] = 36.0, 1.0
    later["patient"] = later["patient"].replace(renamed)
    return first, night_of(2, later), (ill, better), renamed


def test_page_follows_a_merge(two_nights):
    """The p-values of a patient are those of both numbers, and nobody has left."""
    first, second, (ill, better), renamed = two_nights
    p_before = {
        case["id"]: case["p_value"]["value"] for case in first.document["cases"]
    }
    cases = {case["id"]: case for case in second.document["cases"]}
    shown = cases[renamed[ill]]

    assert shown["recent_flags"] == [True, True]
    assert shown["recent_p_values"] == [p_before[ill], shown["p_value"]["value"]]
    assert second.document["since"]["gone"] == [better]
    assert second.document["since"]["left"] == []


def test_delivery_follows_a_merge(two_nights):
    """Patients with other numbers are still there, and training is not asked twice."""
    _, second, _, _ = two_nights

    assert second.document["delivery"]["before"] == 60
    assert second.document["delivery"]["still"] == 60


def test_drift_over_nights_follows_a_merge(two_nights, ledger):
    """A patient under two numbers is one of the patients whose scores are compared."""
    (series,) = history(ledger)["series"]

    assert series["drift"]["patients"] == 60


HASHES = st.integers(0, 40)


@given(
    st.sets(HASHES),
    st.sets(HASHES),
    st.dictionaries(HASHES, HASHES),
    st.integers(3, 60),
)
def test_still_there_sample_is_exact(before, now, merged, most):
    """Of patients whom both samples would hold, those with a hash of either number
    are still there; a merge never makes two of one.
    """
    merged = {old: new for old, new in merged.items() if new not in merged}
    patient = {number: merged.get(number, number) for number in range(41)}
    samples = [sorted(hashes)[:most] for hashes in (before, now)]
    ends = [max(hashes) for hashes in samples if len(hashes) >= most]
    end = min(ends, default=40)
    beyond = {patient[number] for number in merged if max(number, merged[number]) > end}
    earlier = {
        patient[number]
        for number in before
        if patient[number] <= end and patient[number] not in beyond
    }
    truth = {name for name in earlier if name in {patient[number] for number in now}}

    n_before, n_still = still_there(*samples, most, merged)

    assert (n_before, n_still) == (len(earlier), len(truth))


def test_numbers_one_but_for_the_writing_may_be_merged(model, ledger, tmp_path):
    """A table with the new number is not stopped, because somebody says who it is."""
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    where = {"ledger": ledger, "series": "ward", "jobs": 1}
    score(model, table, tmp_path / "run1", date="2026-03-01", **where)
    old = table["patient"][5]
    later = table.replace({"patient": {old: old.lstrip("0")}})

    with pytest.raises(CohortError, match="row 6"):
        score(model, later, tmp_path / "run2", date="2026-03-02", **where)
    merge(ledger, (old, old.lstrip("0"), "2026-03-02"))
    run = score(model, later, tmp_path / "run2", date="2026-03-02", **where)

    assert run.document["counts"]["scored"] == 60


def test_history_follows_a_merge(ledger):
    """A verdict under the new number is one on the nights under the old one too."""
    for day, name in ((1, "a"), (2, "a"), (3, "b")):
        run = night(day, [name, "e"], draw=0)
        enter(ledger, run)
    record_verdicts(ledger, run.night.key, [Verdict("b", "confirmed", initials="x")])
    merge(ledger, ("a", "b", SINCE))
    with ledger.reading() as connection:
        nights = _SeriesNights.read(connection, run.night.series)
        cases = nights._reviewed_cases(connection, list(nights.runs))

    assert [[case.case_id for case in of_night] for of_night in cases] == [["b"]] * 3


def test_comparison_follows_a_merge(ledger):
    """A champion and its shadow flagged one patient, under whichever number."""
    for day, name in ((1, "a"), (2, "b")):
        enter(ledger, of_ward("ward", day, [name]))
        enter(ledger, of_ward("ward", day, "c", "n", shadow=True))
    record_verdicts(ledger, "ward m 1", [Verdict("a", "ruled out", initials="x")])
    record_verdicts(ledger, "ward m 2", [Verdict("b", "confirmed", initials="x")])
    merge(ledger, ("a", "b", "2026-01-02"))

    compared = compare_nights(ledger, "ward", "n" * 64)

    assert (compared.one.ppv.found, compared.one.ppv.judged) == (1, 1)


def test_outcomes_follow_a_merge(model, ledger, tmp_path):
    """An event under either number is the patient's, before and after the merge."""
    table = patients(60, share=0.2, seed=2).drop(columns="ill")
    old = table["patient"][0]
    for day in (1, 2):
        shown = table.assign(fever=table["fever"] + 0.001 * day)
        score(
            model,
            shown,
            tmp_path / f"run{day}",
            ledger=ledger,
            series="ward",
            date=f"2026-03-0{day}",
            jobs=1,
        )
    how = {"as_of": "2026-03-20", **WINDOW}

    def cases(events):
        return enter_outcomes(ledger, "ward", events, **how).figures.cases

    with pytest.raises(CohortError, match="none of 1 patients was scored"):
        cases(events_of(new="2026-03-03T10:00"))
    merge(ledger, (old, "new", "2026-03-02"))
    under_new = cases(events_of(new="2026-03-03T10:00"))
    under_old = cases(events_of(**{old: ""}))
    restated = cases(events_of(**{old: "2026-03-03T10:00"}))

    assert (under_new, under_old, restated) == (2, 0, 2)
    # A number that is merged later brings what was entered on it.
    cases(events_of(**{table["patient"][1]: "2026-03-04T10:00"}))
    merge(ledger, (table["patient"][1], "new", "2026-03-02"))
    with ledger.reading() as connection:
        recorded = recorded_outcomes(connection, "ward", merges_of(connection))
    days = [time[:10] for time in recorded["new"]]
    assert days == ["2026-03-03", "2026-03-04"]


def test_forget_erases_all_numbers_of_a_patient(place, tmp_path):
    """The trail verifies, and neither number is left in it."""
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, "ae"))
        merge(ledger, ("a", "b", "2026-01-02"))
        enter(ledger, night(2, "be"))

    report = as_json("forget", "b", "--ledger", place, "--reason", "asked")

    with open_ledger(place) as ledger:
        document = history(ledger, verify=True)
        with ledger.reading() as connection:
            names = set(
                connection.scalars(CASES.select().with_only_columns(CASES.c.case_id))
            )
            left = merges_of(connection)
    assert report["ledger"]["cases"] == 2
    assert document["audit"]["verified"]
    assert {name for name in names if not name.startswith(STAND_IN)} == {"e"}
    assert not left


def test_site_enters_its_merges_every_night(model, tmp_path, monkeypatch):
    """A table that cannot be used is a reason on the overview, and ends no night."""
    save_model(model, tmp_path / "model")
    (tmp_path / "in").mkdir()
    site = SITE.replace("[site]", '[site]\nmerged = "merged.csv"')
    (tmp_path / "NIGHT.toml").write_text(site)
    monkeypatch.chdir(tmp_path)
    for day in ("2026-03-01", "2026-03-02"):
        table = patients(60, share=0.2, seed=int(day[-1])).drop(columns="ill")
        table.to_csv(tmp_path / "in" / f"{day}.csv", index=False)

    merges(("x", "y", "2026-03-01")).to_csv("merged.csv", index=False)
    first = as_json("run", "NIGHT.toml", "--date", "2026-03-01")
    again = as_json("ledger", "merge", "merged.csv", "--ledger", "site.db")
    merges(("x", "x", "2026-03-01")).to_csv("merged.csv", index=False)
    second = as_json("run", "NIGHT.toml", "--date", "2026-03-02")
    refused = screen("ledger", "merge", "merged.csv", "--ledger", "site.db", code=3)

    assert not any(reason["code"] == "merges_refused" for reason in first["attention"])
    assert again["merges"]["unchanged"] == 1
    (reason,) = (one for one in second["attention"] if one["code"] == "merges_refused")
    assert "row 1" in reason["words"]
    assert second["series"][0]["status"] == "published"
    assert "row 1: a number cannot be merged with itself" in refused.stderr


def test_forget_says_that_an_id_is_written_otherwise(place):
    """Cases of another writing are counted, and left as they are."""
    with open_ledger(place, make=True) as ledger:
        enter(ledger, night(1, ["007", "e"]))

    told = screen("forget", "7", "--ledger", place)

    assert "1 other spelling of this id," in told.stderr
    assert "007" not in told.stderr
