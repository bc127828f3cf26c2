"""From a night to its verdicts and the next night, by the commands; nothing of a
patient on the way.
"""

import datetime
import hashlib
import json
import os
import pwd
import re
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from commands import (
    KNOWN_BEFORE,
    LOGISTIC,
    as_json,
    sampled,
    screen,
    verdict_file,
    verdicts_on,
)
from flow_cohorts import patients, voxels, written
from pydantic import TypeAdapter
from written_files import names_in, page_in

from screening import read_cohort, train
from screening import score as score_night
from screening.clock.zone import Clock
from screening.errors import ModelError
from screening.ledger.database import REVIEWS, open_ledger
from screening.ledger.entries import Artefact
from screening.ledger.erasing import Scope, erase
from screening.ledger.history import history
from screening.ledger.register import directories_with, hand_out
from screening.ledger.verdicts import Verdict, _faults_of_times
from screening.ledger.verifying import refuse_new
from screening.model_selection.revising import set_threshold
from screening.report import render_run
from screening.schemas.figures import GMean, MaxFlagRate
from screening.schemas.run import STATES
from screening.store.loading import load_model
from screening.store.model import save_model
from screening.store.serialization import read_document


@pytest.fixture
def model(logistic_model):
    return logistic_model


@pytest.fixture
def ward(model, tmp_path, monkeypatch):
    """A folder with two nights: of the second, the last twenty patients are other
    ones.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCREEN_LEDGER", str(tmp_path / "screening.db"))
    first = patients(60, seed=7)
    written(first, tmp_path / "night1.csv")
    second = pd.concat([first[:40], patients(20, seed=8)])
    written(second, tmp_path / "night2.csv")
    return tmp_path


def score(model, ward, number: int, *more: object) -> dict:
    """A night by the ledger that the environment names."""
    words = [
        "score",
        model,
        ward / f"night{number}.csv",
        "--date",
        f"2026-03-0{number}",
    ]
    screen(*words, "--out", ward / f"run{number}", *more)
    return read_document(ward / f"run{number}", "run")


def test_two_nights_with_verdicts_between_them_add_up(model, ward):
    first = score(model, ward, 1)
    cases = [case["id"] for case in first["cases"]]
    ids = [name for name in cases if int(name[3:]) < 40]
    given = verdicts_on(sampled(first), "ruled out")
    given += [
        {"id": ids[0], "verdict": "confirmed", "note": "sepsis"},
        {"id": ids[1], "verdict": "unsure"},
    ]
    path = verdict_file(ward / "run1", given)
    told = as_json("review", ward / "run1", path)
    second = score(model, ward, 2)
    counts = second["counts"]
    page = page_in(ward / "run2")
    before = {case["id"] for case in first["cases"]}
    now = {case["id"] for case in second["cases"]}
    state = {}
    for case in second["cases"]:
        state[case["id"]] = (case["state"], case["nights"])
    line = next(
        line for line in screen("history").stdout.splitlines() if "2026-03-02 " in line
    )
    listed = re.findall(r"(\d+) (new|pending|ruled out|known)", line)

    assert told["new"] == len(given) == 7
    assert (
        counts["flagged"]
        == counts["cases"]
        == sum(counts[state.replace(" ", "_")] for state in STATES)
    )
    assert counts["no_longer_flagged"] == len(before - now) > 0
    assert (
        counts["pending"] + counts["ruled_out"] + counts["known"]
        == len(before & now)
        > 2
    )
    assert state[ids[0]] == (("known", 2))
    assert state[ids[1]] == (("pending", 2))
    assert len(listed) == 4
    for n, name in listed:
        assert int(n) == counts[name.replace(" ", "_")]
    assert "confirmed on 2026-03-01" in page
    assert "Since 2026-03-01:" in page
    assert (
        f"ledger entry {second['ledger']['entry']}, {second['ledger']['head'][:16]}"
        in page
    )


def test_same_night_twice(model, ward):
    """The same night twice gives the same bytes and one entry."""
    score(model, ward, 1)
    score(model, ward, 2)
    before = (ward / "run2" / "report.html").read_bytes()
    again = score(model, ward, 2)
    runs = as_json("history", "--verify")["runs"]
    forced = score(model, ward, 2, "--force")

    assert len(runs) == 2
    assert again["ledger"]["revision"] == 1
    assert forced["ledger"]["revision"] == 2
    assert render_run(again).encode() == before
    assert b", revision 2 " in (ward / "run2" / "report.html").read_bytes()
    assert len(as_json("history", "--verify")["runs"]) == 3


def test_faults_of_verdicts(model, ward):
    """All faults of a file are reported together, without an id."""
    run = score(model, ward, 1)
    name = run["cases"][0]["id"]
    first, second, *_ = sampled(run)
    given = [
        {"id": name, "verdict": "not"},
        {"id": "SECRET77", "verdict": "ruled out"},
        {"id": name, "verdict": "unsure"},
        {"id": first, "verdict": "unsure", "note": 3000 * "x"},
        {"id": second, "verdict": "ruled out", "SECRET78": 1},
        "SECRET79",
    ]
    path = verdict_file(
        ward / "run1",
        given,
        run_id="other",
        format=2,
        site=5,
    )
    told = screen("review", ward / "run1", path, code=3)
    assert told.stdout == ""
    assert "the verdicts cannot be read in 9 places" in told.stderr
    assert "SECRET" not in told.stderr
    assert name not in told.stderr
    for content in ("{", '{"verdicts": 3}', "[" * 100_000):
        path.write_text(content)
        screen("review", ward / "run1", path, code=3)
    (first,) = as_json("history")["runs"]
    assert sum(first["verdicts"].values()) == 0


def test_verdicts_other_ledger(model, ward, monkeypatch):
    """Verdicts need the ledger that the run was scored with."""
    score(model, ward, 1)
    verdicts = verdict_file(ward / "run1", [])
    words = ["score", model, ward / "night1.csv", "--out"]
    screen(
        *words,
        ward / "elsewhere" / "run1",
        "--ledger",
        ward / "other.db",
        "--date",
        "2026-03-05",
    )
    monkeypatch.delenv("SCREEN_LEDGER")
    screen(*words, ward / "alone", "--date", "2026-03-01")
    assert (
        "without --ledger" in screen("review", ward / "alone", verdicts, code=2).stderr
    )
    for ledger, told in (
        ("no.db", "does not exist"),
        ("other.db", "has no such run"),
    ):
        assert (
            told
            in screen(
                "review", ward / "run1", verdicts, "--ledger", ledger, code=2
            ).stderr
        )


def test_a_patient_of_many_voxels_is_one_case(tmp_path):
    past = read_cohort(
        voxels(),
        label="tissue",
        group="patient",
        positive=["lesion"],
        need_label=True,
    )
    model = train(past, "one_vs_rest", search=1, folds=4, beside=())
    save_model(model, tmp_path / "m")
    written(voxels(4, 50, seed=9), tmp_path / "new.parquet")
    ledger = ("--ledger", tmp_path / "screening.db")
    for day in (1, 2):
        words = [
            "score",
            tmp_path / "m",
            tmp_path / "new.parquet",
            "--date",
            f"2026-03-0{day}",
            *ledger,
        ]
        screen(
            *words,
            "--out",
            tmp_path / f"r{day}",
            "--accept-delivery",
            "the same images again",
        )
    run = read_document(tmp_path / "r2", "run")
    flagged = [group["group"] for group in run["groups"] if group["flagged"]]
    confirmed = [{"id": flagged[0], "verdict": "confirmed"}]
    given = verdict_file(tmp_path / "r2", confirmed)

    assert (
        run["counts"]["cases"]
        == run["counts"]["pending"]
        == len(flagged)
        < run["counts"]["flagged"]
    )
    assert set(sampled(run)).isdisjoint(flagged)
    assert len(flagged) + run["unflagged"]["cases"] == 4
    entered = as_json("review", tmp_path / "r2", given, *ledger)
    assert entered["new"] == 1


def test_unflagged_sample(model, ward):
    """The sample of the unflagged depends on the night and not on batches."""
    loaded = load_model(model)
    night = ward / "night1.csv"
    documents = []
    for rows in (1, 7, 1000):
        out = ward / f"b{rows}"
        run = score_night(loaded, night, out, date="2026-03-01", batch_rows=rows)
        documents.append(run.document)
    document, *others = documents
    later = score_night(loaded, night, ward / "later", date="2026-03-02").document

    for other in others:
        assert other["sample"] == document["sample"]
    assert set(sampled(document)) != set(sampled(later))
    cases = {case["id"] for case in document["cases"]}
    assert set(sampled(document)).isdisjoint(cases)
    assert len(document["sample"]) == 5


def test_threshold_recorded(model, ward):
    """Another threshold keeps the machine and is recorded with its reason."""
    before = load_model(shutil.copytree(model, ward / "m"))
    reason = "ten reviews a night, no more"
    score(ward / "m", ward, 1)
    told = as_json(
        "threshold", ward / "m", "--max-flag-rate", "0.1", "--reason", reason
    )
    after = load_model(ward / "m")
    (point,) = after.operating_points
    (change,) = as_json("history", "--verify")["threshold_changes"]

    assert point["chosen_by"] == "screen threshold"
    assert point["reason"] == reason
    assert point["threshold"] > before.thresholds[0]
    assert after.id == told["id"] != before.id
    assert after.document["machine"] == before.document["machine"]
    assert change["model_before"] == before.digest
    assert change["model_after"] == after.digest
    assert reason in page_in(ward / "m")
    score(ward / "m", ward, 2)
    words = ["score", model, ward / "night2.csv", "--date", "2026-03-02", "--out", "r3"]
    assert "uses model" in screen(*words, code=2).stderr


def test_challenger_promoted(model, ward):
    """A challenger is scored in shadow, compared and promoted."""
    challenger = shutil.copytree(model, ward / "challenger")
    screen("threshold", challenger, "--max-flag-rate", "0.1", "--reason", "fewer")
    where = ["--ledger", "screening.db", "--series", "ward-1"]
    first = [f"night{1}.csv", "--date", f"2026-03-0{1}", *where, "--out"]
    second = [f"night{2}.csv", "--date", f"2026-03-0{2}", *where, "--out"]
    screen("score", model, *first, "r1")
    told = as_json("score", challenger, *first, "s1", "--shadow")
    page = (ward / "r1" / "report.html").read_bytes()
    beside = as_json("history", "--series", "ward-1", "--beside", told["model"])[
        "beside"
    ]

    assert sorted(names_in(ward / "s1")) == [
        "run.json",
        "scores.parquet",
    ]
    assert told["report"] is None
    assert told["beside"] == beside
    assert beside["nights"] == 1
    assert beside["other"]["shadow"] is True
    assert beside["other"]["only"] == 0
    assert beside["one"]["only"] > 0
    assert 0 < beside["agreement"] < 1
    assert "in shadow" in screen("report", "s1", code=2).stderr
    screen("promote", challenger, "--reason", "a draft", *where, code=2)
    approved = as_json(
        "approve",
        challenger,
        "--by",
        "A. Weber",
        *KNOWN_BEFORE,
        "--reason",
        "fewer",
        *where,
    )
    done = as_json("promote", challenger, "--reason", "enough reviews", *where)
    assert done["champion"] == approved["id"]
    assert done["beside"] == beside
    refused = screen("score", model, *second, "r2", code=2)
    assert "uses model" in refused.stderr
    screen("score", challenger, *second, "r2")
    (promotion,) = as_json("history", "--verify")["promotions"]
    assert promotion["reason"] == "enough reviews"
    assert promotion["evidence"] == beside
    assert (ward / "r1" / "report.html").read_bytes() == page
    assert "--series" in screen("history", "--beside", "x", code=2).stderr
    compared = screen("history", *where[2:], "--beside", told["model"])
    assert "% agreement" in compared.stdout


def test_named_series(model, ward, monkeypatch):
    """Verdicts and nights are entered in the series that is named."""
    run = score(model, ward, 1, "--series", "ward-2")
    ruled_out = [{"id": run["cases"][0]["id"], "verdict": "ruled out"}]
    verdicts = verdict_file(ward / "run1", ruled_out)
    of_other = screen("review", "run1", verdicts, "--series", "ward-1", code=2)
    assert "not to ward-1" in of_other.stderr
    screen("review", "run1", verdicts, "--series", "ward-2")
    (read,) = as_json("history", "--series", "ward-2")["runs"]
    assert read["verdicts"]["ruled_out"] == 1
    words = ["score", model, ward / "night1.csv", "--out", "r"]
    assert "--series a b" in screen(*words, "--series", "a b", code=2).stderr
    monkeypatch.delenv("SCREEN_LEDGER")
    for alone in (["--series", "ward-1"], ["--shadow"]):
        assert "--ledger" in screen(*words, *alone, code=2).stderr


@pytest.mark.parametrize(
    "words", [[" "], ["x", "--class", "nobody"], ["x", "--miss-cost", "-1"]]
)
def test_a_change_that_makes_no_sense_changes_nothing(model, ward, words):
    shutil.copytree(model, ward / "m")
    screen("threshold", ward / "m", "--reason", *words, code=2)
    assert load_model(ward / "m").id == load_model(model).id


def test_status_and_metrics(model, ward):
    """status names the silent series and writes metrics for Prometheus."""
    for day, name in ((1, "ward-1"), (1, "ward-2"), (2, "ward-2")):
        words = [
            "score",
            model,
            ward / f"night{day}.csv",
            "--date",
            f"2026-03-0{day}",
            "--series",
            name,
        ]
        screen(*words, "--out", f"{name} {day}")
    status = ["status", "--night", "2026-03-02"]
    metrics = ward / "m.prom"
    late = screen(*status, "--metrics", metrics, code=5)
    told = late.stdout.splitlines()
    content = metrics.read_text()

    assert [line.split()[:2] for line in told] == [
        ["ATTENTION", "ward-1"],
        ["ok", "ward-2"],
    ]
    assert "the night of 2026-03-02 is not published" in told[0]
    assert 'screening_fine{series="ward-1"} 0' in content
    assert 'screening_fine{series="ward-2"} 1' in content
    assert metrics.stat().st_mode & 0o777 == 0o644
    screen(*status, "--series", "ward-2")
    assert "ward-9" in screen(*status, "--series", "ward-2,ward-9", code=5).stdout
    silent = screen("status", "--ledger", "no.db", "--metrics", metrics, code=5)
    assert "does not exist" in silent.stdout
    assert "90m" in screen("status", "--max-age", "soon", code=2).stderr
    assert "YYYY-MM-DD" in screen("status", "--night", "soon", code=2).stderr
    assert "screening_ledger_readable 0" in metrics.read_text()


def test_a_meddled_ledger_exits_4_and_names_the_entry(model, ward):
    score(model, ward, 1)
    with closing(sqlite3.connect(ward / "screening.db")) as connection, connection:
        connection.execute("UPDATE trail SET recorded = '2020'")
    assert "entry 1" in screen("history", "--verify", code=4).stderr
    screen("history", "--out", "history.html")
    assert "not for this page" in (ward / "history.html").read_text()


def test_older_ledger_accepted(model, ward):
    """A ledger older than its run directories is continued only with a reason."""
    score(model, ward, 1)
    shutil.copy(ward / "screening.db", ward / "backup.db")
    score(model, ward, 2)
    shutil.copy(ward / "backup.db", ward / "screening.db")
    again = [
        "score",
        model,
        ward / "night2.csv",
        "--date",
        "2026-03-02",
        "--out",
        ward / "run2",
    ]
    ledger = ["screening.db", "--runs", ward]

    assert "is older than" in screen(*again, code=4).stderr
    assert "run2" in screen("status", "--ledger", *ledger, code=4).stderr
    assert "--reason" in screen("ledger", "accept", *ledger, code=2).stderr
    assert as_json(
        "ledger", "accept", *ledger, "--reason", "restored after a fire"
    ) == {"accepted": 1}
    screen(*again)
    screen("history", "--verify")


def test_runs_of_other_ledgers(model, ward, monkeypatch):
    """Run directories without a ledger, or of another series, hinder no new ledger."""
    monkeypatch.delenv("SCREEN_LEDGER")
    score(model, ward, 1)
    refuse_new(str(ward / "new.db"), ward)
    score(model, ward, 1, "--series", "a", "--ledger", ward / "one.db", "--force")
    with pytest.raises(ModelError, match="run1 was recorded in another"):
        refuse_new(str(ward / "new.db"), ward)
    other = ("--ledger", ward / "other.db", "--series")
    score(model, ward, 2, *other, "b")
    words = ("score", model, ward / "night2.csv", "--date", "2026-03-03")
    refused = screen(*words, "--out", ward / "run3", *other, "a", code=4)

    assert "run1 was entered in another ledger" in refused.stderr


def test_directories_that_hold_a_model(model, tmp_path):
    """A directory may hold another model by now, or none."""
    folder = shutil.copytree(model, tmp_path / "model")
    entered = [
        Artefact(what="model", place=place, sha256="0" * 64)
        for place in (folder, tmp_path / "gone")
    ]
    with open_ledger(tmp_path / "l.db", make=True) as ledger:
        hand_out(ledger, *entered)

        assert directories_with(ledger, load_model(model).digest) == [folder]
        assert directories_with(ledger, "0" * 64) == []


def test_killed_before_entry(model, ward, monkeypatch):
    """A directory that a kill left before its night was entered is scored again."""
    score(model, ward, 1)
    real = sa.engine.default.DefaultDialect.do_commit
    calls = []

    def killed_at_the_sixth(dialect: object, connection: object) -> None:
        # A look at the ledger ends with a commit too: three before scoring, one after
        # it, and the reservation.
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        real(dialect, connection)

    with monkeypatch.context() as patched, open_ledger(ward / "screening.db") as book:
        patched.setattr(
            sa.engine.default.DefaultDialect, "do_commit", killed_at_the_sixth
        )
        with pytest.raises(KeyboardInterrupt):
            score_night(
                load_model(model),
                ward / "night2.csv",
                ward / "run2",
                date="2026-03-02",
                ledger=book,
            )
    left = read_document(ward / "run2", "run")["ledger"]
    again = score(model, ward, 2)["ledger"]
    assert left["head"] != again["head"]
    screen("status", "--night", "2026-03-02", "--runs", ward)
    screen("history", "--verify")


def test_threshold_of_one_class():
    """Another threshold of one watched class leaves the others."""
    classes = {"label": "tissue", "group": "patient", "positive": ["lesion", "zone"]}
    model = train(
        voxels(10),
        "one_vs_rest",
        search=1,
        folds=4,
        repeats=1,
        rule=GMean(),
        beside=(),
        **classes,
    )
    other = set_threshold(model, MaxFlagRate(0.05), "fewer", watched="lesion")
    lesion = model.watched.index("lesion")

    assert other.thresholds[lesion] > model.thresholds[lesion]
    assert np.delete(other.thresholds, lesion) == pytest.approx(
        np.delete(model.thresholds, lesion)
    )
    assert other.operating_points[1 - lesion]["chosen_by"] == "training"


CONTRACT = """
[cohort]
id = "patient"
label = "ill"
positive = ["yes"]
verdicts_need = ["site", "initials"]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A night whose contract asks who a reviewer is."""
    place = tmp_path_factory.mktemp("desk")
    (place / "cohort.toml").write_text(CONTRACT)
    past = [
        written(patients(), place / "past.csv"),
        "--contract",
        place / "cohort.toml",
    ]
    options = (*LOGISTIC, "--max-flag-rate", 0.3)
    screen("train", *past, *options, "--out", place / "model")
    night = written(patients(60, seed=7), place / "night.csv")
    screen(
        "score",
        place / "model",
        night,
        "--out",
        place / "run",
        "--ledger",
        place / "screening.db",
    )
    return place


def review(desk, by: dict, *words: object, code: int = 0):
    cases = read_document(desk / "run", "run")["cases"][:2]
    file = verdict_file(
        desk / "run",
        [{"id": case["id"], "verdict": "ruled out"} for case in cases],
        **by,
    )
    return screen(
        "review",
        desk / "run",
        file,
        "--ledger",
        desk / "screening.db",
        *words,
        code=code,
    )


def reviewers_in(ledger) -> list[tuple[str, str]]:
    history(ledger, verify=True)
    with ledger.reading() as connection:
        names = sa.select(REVIEWS.c.login, REVIEWS.c.token)
        return [tuple(row) for row in connection.execute(names)]


@pytest.mark.parametrize(
    "by",
    [
        {"initials": ""},
        {"site": "ward 7", "initials": ""},
        {"site": "ward 7", "initials": " "},
    ],
)
def test_verdicts_need_fields(desk, by):
    """A verdict without what the contract asks for is refused."""
    refused = review(desk, by, code=3)
    assert (
        "verdict 1: it has no initials, which the contract asks for" in refused.stderr
    )
    assert ("verdict 2: it has no site" in refused.stderr) == ("site" not in by)


def test_review_without_reviewer(model, ward, tmp_path):
    """Verdicts of nobody are refused, all at once; a token names the reviewer too."""
    run = score(model, ward, 1)
    cases = run["cases"][:3]
    verdicts = [{"id": case["id"], "verdict": "unsure"} for case in cases]
    token = tmp_path / "token"
    token.write_text("a reviewer's secret")
    token.chmod(0o600)
    path = verdict_file(ward / "run1", verdicts, initials=" ")
    anonymous = [ward / "run1", path]

    refused = screen("review", *anonymous, code=3)
    by_token = as_json("review", *anonymous, "--token", token)

    assert "no reviewer is given for 3 of its verdicts" in refused.stderr
    assert "or give --token" in refused.stderr
    assert by_token["new"] == 3


def test_review_by_two_who_differ(model, ward):
    """Two reviewers who contradict each other have not judged: disputed."""
    run = score(model, ward, 1)
    names = [case["id"] for case in run["cases"][:3]]

    answers = []
    for initials, word in (("ab", "confirmed"), ("cd", "ruled out")):
        verdicts = verdicts_on(names, word)
        file = verdict_file(ward / "run1", verdicts, site="w", initials=initials)
        answers.append(as_json("review", ward / "run1", file))

    assert [answer["disputed"] for answer in answers] == [0, 3]
    assert [answer["changed"] for answer in answers] == [0, 0]


def test_token_recorded(desk, tmp_path):
    """A token that others can read is refused."""
    token = desk / "token"
    by = {"site": "ward 7", "initials": "ab"}
    token.write_text("a reviewer's secret\n")
    token.chmod(0o644)
    refused = review(desk, by, "--token", token, code=2)
    assert "others can read" in refused.stderr
    token.chmod(0o600)
    review(desk, by, "--token", token)
    # Everybody is erased, and other tests review the same night.
    shutil.copy(desk / "screening.db", tmp_path / "copy.db")
    with open_ledger(tmp_path / "copy.db") as ledger:
        known = reviewers_in(ledger)
        erase(ledger, "old", Scope())
        left = reviewers_in(ledger)

    digest = hashlib.sha256(b"a reviewer's secret").hexdigest()
    login = pwd.getpwuid(os.getuid()).pw_name
    assert known == [(login, digest), (login, digest)]
    assert left == [("", "")] * 2
    # A token is one reviewer, whatever the initials.
    by["initials"] = "cd"
    answer = json.loads(review(desk, by, "--token", token, "--json").stdout)
    assert (answer["new"], answer["changed"]) == (0, 2)


@pytest.mark.parametrize(
    "given",
    ["0001-01-01T00:00:00+14:00", "1999-12-31T00:00:00Z", "2126-01-01T00:00:00", "now"],
)
def test_verdict_of_no_time(given):
    """A verdict needs a time that can be one."""
    with pytest.raises(ValueError):
        Verdict("P1", "unsure", given=given)


def test_verdict_still_to_come_is_refused():
    """A clock may be fast by a day, and not by two."""
    now = datetime.datetime.now(datetime.UTC)
    Verdict("P1", "unsure", given=(now + datetime.timedelta(hours=12)).isoformat())
    with pytest.raises(ValueError, match="in the future"):
        Verdict("P1", "unsure", given=(now + datetime.timedelta(days=2)).isoformat())


def test_verdict_given_before_its_night_is_refused(desk):
    """The page did not exist then: the reviewer's clock, or the night, is wrong."""
    before = {"id": flagged_ids(desk)[0], "verdict": "ruled out"}
    given = "2026-01-02T09:00:00+00:00"
    file = verdict_file(desk / "run", [before | {"given": given}], **REVIEWER)

    refused = screen(
        *("review", desk / "run", file, "--ledger", desk / "screening.db"), code=3
    )

    assert "verdict 1: it was given before its night" in refused.stderr


def test_key_that_stands_twice_is_refused(desk):
    """Of two words on a case only the last would count."""
    verdicts = [{"id": flagged_ids(desk)[0], "verdict": "ruled out"}]
    file = verdict_file(desk / "run", verdicts, **REVIEWER)
    text = file.read_text()
    key = '"verdict":'
    file.write_text(text.replace(key, f'{key} "confirmed", {key}', 1))

    refused = screen(
        *("review", desk / "run", file, "--ledger", desk / "screening.db"), code=3
    )

    assert "a key occurs twice" in refused.stderr


def test_id_of_a_verdict_in_another_writing_is_said(desk):
    """An id that lost its zeros is told from one of another night, by its number."""
    name = flagged_ids(desk)[0]
    verdicts = [{"id": f" {name.upper()}", "verdict": "ruled out"}]
    file = verdict_file(desk / "run", verdicts, **REVIEWER)
    ledger = ("--ledger", desk / "screening.db")

    refused = screen("review", desk / "run", file, *ledger, code=3)

    assert (
        "verdict 1: its id is one of this run's ids except for leading zeros"
        in refused.stderr
    )
    assert name not in refused.stderr


def test_night_of_a_verdict_begins_by_its_own_clock(monkeypatch):
    """Where the host is in another zone, its midnight is none of the night."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    given = ("2026-02-28T22:59:00+00:00", "2026-02-28T23:01:00+00:00")
    words = [Verdict("P1", "unsure", given=time) for time in given]
    made = "2026-03-01T05:00:00+00:00"

    faults = list(_faults_of_times(words, "2026-03-01", made, Clock("Europe/Berlin")))

    assert len(faults) == 1
    assert faults[0].startswith("verdict 1: it was given before its night")


REVIEWER = {"site": "ward 7", "initials": "ab"}


def flagged_ids(desk) -> list[str]:
    return [case["id"] for case in read_document(desk / "run", "run")["cases"]]


def test_verdict_without_a_zone_is_read_by_the_clock_of_the_night(monkeypatch):
    """A time without a zone is local; the hour that does not exist is refused."""
    read = TypeAdapter(Verdict).validate_python
    verdict = {"id": "P1", "verdict": "unsure", "given": "2026-01-02T00:30:00"}
    clock = {"clock": Clock("Europe/Berlin")}
    monkeypatch.setenv("TZ", "America/New_York")

    of_night = read(verdict, context=clock)
    of_host = read(verdict)
    with pytest.raises(ValueError, match="it does not exist"):
        read(verdict | {"given": "2026-03-29T02:30:00"}, context=clock)

    assert of_night.given == "2026-01-01T23:30:00.000+00:00"
    assert of_host.given == "2026-01-02T05:30:00.000+00:00"
