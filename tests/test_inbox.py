"""Verdicts reach the ledger from a folder, and survive a corrected table."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import as_json, screen, verdict_file, verdicts_on
from flow_cohorts import night_of_patients, written
from kept import keep, put_back
from ledger_nights import enter, night
from written_files import names_in, page_in

from screening.ledger.database import NoLedger, open_ledger
from screening.schemas.figures import MaxFlagRate
from screening.site import inbox
from screening.store.model import save_model
from screening.store.serialization import read_document

NIGHT = "2026-03-03"
NEXT_NIGHT = "2026-03-04"
PAGE_FILE = f"verdicts-ward-a-{NIGHT}-0123456789ab.json"
SITE = """
[site]
ledger = "l.db"
verdicts = "inbox"

[series.ward-a]
model = "m"
cohort = "in/{date}.csv"
"""


@pytest.fixture(scope="module")
def kept(cohort, trained, tmp_path_factory):
    """A site of one ward after a night; the inbox is empty."""
    folder = tmp_path_factory.mktemp("inbox") / "site"
    folder.mkdir()
    rule = MaxFlagRate(0.3)
    model = trained(cohort, "logistic", search=1, rule=rule)
    save_model(model, folder / "m")
    (folder / "in").mkdir()
    (folder / "inbox").mkdir()
    night = night_of_patients(60, seed=2)
    written(night, folder / "in" / f"{NIGHT}.csv")
    (folder / "NIGHT.toml").write_text(SITE)
    with contextlib.chdir(folder):
        screen("run", "NIGHT.toml", "--date", NIGHT)
    return keep(folder)


@pytest.fixture
def site(kept, monkeypatch):
    """The site after its night, where a command begins."""
    monkeypatch.chdir(put_back(kept))
    return kept


def flagged(site: Path) -> list[str]:
    run = site / "runs" / "ward-a" / NIGHT
    return [case["id"] for case in read_document(run, "run")["cases"]]


def saved(
    site: Path,
    ids: list[str],
    name: str,
    word: str = "confirmed",
) -> Path:
    """A file of verdicts in the inbox, as the page of the night saves it."""
    run = site / "runs" / "ward-a" / NIGHT
    given = verdicts_on(ids, word)
    made = verdict_file(run, given)
    return Path(shutil.move(made, site / "inbox" / name))


def test_file_of_page_names_series_and_night(site):
    page = page_in(site / "runs" / "ward-a" / NIGHT)
    run_id = read_document(site / "runs" / "ward-a" / NIGHT, "run")["run_id"]

    assert f'data-file="verdicts-ward-a-{NIGHT}-{run_id}.json"' in page


def test_inbox_read_by_command(site):
    """Each file is read by its run and moved; why one is refused lies beside it."""
    ids = flagged(site)
    saved(site, ids[:2], PAGE_FILE)
    saved(site, ["nobody"], "Mrs Smith.json")
    other = saved(site, ids[:1], "other.json")
    other.write_text(other.read_text().replace('"run_id": "', '"run_id": "0'))

    answer = as_json("review", "--site", "NIGHT.toml", code=5)

    by_file = {line["file"]: line for line in answer["files"]}
    read = by_file[PAGE_FILE]
    assert read["series"] == "ward-a"
    assert read["night"] == NIGHT
    assert read["new"] == 2
    refused = [line["refused"] for line in answer["files"] if line["refused"]]
    assert len(refused) == 2
    assert "Smith" not in json.dumps(answer)
    assert sorted(names_in(site / "inbox" / "done")) == [PAGE_FILE]
    kept = sorted(names_in(site / "inbox" / "refused"))
    assert kept == ["Mrs Smith.json", "Mrs Smith.txt", "other.json", "other.txt"]
    reason = (site / "inbox" / "refused" / "Mrs Smith.txt").read_text()
    assert "nobody" not in reason
    assert not list((site / "inbox").glob("*.json"))


def test_inbox_read_by_night(site):
    """A night reads the folder first, and its overview says what was read."""
    ids = flagged(site)
    saved(site, ids[:3], PAGE_FILE)

    answer = as_json("run", "NIGHT.toml", "--date", NIGHT)

    (line,) = answer["verdicts"]
    assert line["verdicts"] == 3
    assert line["new"] == 3
    assert line["refused"] is None
    page = Path(answer["overview"]).read_text()
    assert "Verdicts read" in page
    history = as_json("history", "--ledger", "l.db")
    run = next(run for run in history["runs"] if run["in_force"])
    assert run["verdicts"]["confirmed"] == 3


def test_verdicts_on_lost_run_are_read_once_it_is_made_again(site):
    """They wait in the folder; the next night catches up first and knows them."""
    ids = flagged(site)
    saved(site, ids[:3], PAGE_FILE)
    shutil.rmtree(site / "runs" / "ward-a" / NIGHT)
    waiting = as_json("review", "--site", "NIGHT.toml", code=5)
    assert waiting["files"][0]["waits"]
    assert (site / "inbox" / PAGE_FILE).exists()
    same_patients = night_of_patients(60, seed=2).iloc[::-1]
    written(same_patients, site / "in" / f"{NEXT_NIGHT}.csv")

    answer = as_json("run", "NIGHT.toml", "--date", NEXT_NIGHT)

    (line,) = answer["verdicts"]
    assert line["new"] == 3
    assert line["refused"] is None
    assert names_in(site / "inbox" / "done") == {PAGE_FILE}
    assert not names_in(site / "inbox" / "refused")
    tonight = read_document(site / "runs" / "ward-a" / NEXT_NIGHT, "run")
    assert tonight["counts"]["known"] == 3


def test_verdicts_wait_for_a_lost_section(site):
    """A slip in NIGHT.toml refuses no verdicts: they are read once it is corrected."""
    saved(site, flagged(site)[:3], PAGE_FILE)
    file = site / "NIGHT.toml"
    text = file.read_text()
    file.write_text(text.replace("ward-a]", "wrad-a]"))
    waiting = as_json("review", "--site", "NIGHT.toml", code=5)
    assert "series ward-a is not in NIGHT.toml" in waiting["files"][0]["refused"]
    assert waiting["files"][0]["waits"]

    file.write_text(text)
    answer = as_json("review", "--site", "NIGHT.toml")

    assert answer["files"][0]["new"] == 3
    assert names_in(site / "inbox" / "done") == {PAGE_FILE}


def test_verdicts_on_a_retired_series_are_refused(site):
    saved(site, flagged(site)[:3], PAGE_FILE)
    screen("retire", "ward-a", "--ledger", "l.db", "--reason", "closed")
    file = site / "NIGHT.toml"
    file.write_text(file.read_text().replace("ward-a]", "other]"))

    answer = as_json("review", "--site", "NIGHT.toml", code=5)

    assert not answer["files"][0]["waits"]
    assert names_in(site / "inbox" / "refused") >= {PAGE_FILE}


def test_verdicts_on_lost_run_of_tonight_are_read_after_it(site):
    saved(site, flagged(site)[:2], PAGE_FILE)
    shutil.rmtree(site / "runs" / "ward-a" / NIGHT)

    answer = as_json("run", "NIGHT.toml", "--date", NIGHT)

    (line,) = answer["verdicts"]
    assert line["new"] == 2
    assert line["refused"] is None


def test_verdicts_on_run_lost_for_good_stay_in_the_folder(site):
    """Beyond the nights that are caught up nothing is moved, and the remedy is said."""
    saved(site, flagged(site)[:2], PAGE_FILE)
    shutil.rmtree(site / "runs" / "ward-a" / NIGHT)
    (site / "in" / f"{NIGHT}.csv").unlink()

    answer = as_json("review", "--site", "NIGHT.toml", code=5)

    assert "from a backup" in answer["files"][0]["refused"]
    assert (site / "inbox" / PAGE_FILE).exists()


def test_same_name_twice(site):
    ids = flagged(site)
    for case in ids[:2]:
        saved(site, [case], "verdicts-x.json")
        screen("review", "--site", "NIGHT.toml")

    names = sorted(names_in(site / "inbox" / "done"))
    assert names == ["verdicts-x.2.json", "verdicts-x.json"]


def test_half_written_file_is_left(site):
    """A file that is no JSON yet is left for the next time, for a minute."""
    half = site / "inbox" / "verdicts-x.json"
    half.write_text('{"format": 1, "verd')

    assert as_json("review", "--site", "NIGHT.toml") == {"files": []}
    assert half.exists()
    os.utime(half, (0, 0))
    answer = as_json("review", "--site", "NIGHT.toml", code=5)
    assert "not JSON" in answer["files"][0]["refused"]


def test_file_taken_away(site, monkeypatch):
    """A file that is gone before it is read is no error, and the next is read."""
    saved(site, flagged(site)[:1], "verdicts-a.json")
    saved(site, flagged(site)[1:2], "verdicts-b.json")
    is_on_its_way = inbox._is_on_its_way

    def take_away(file):
        if file.name == "verdicts-a.json":
            file.unlink()
        return is_on_its_way(file)

    monkeypatch.setattr(inbox, "_is_on_its_way", take_away)
    answer = as_json("review", "--site", "NIGHT.toml")

    assert [line["file"] for line in answer["files"]] == ["file 2"]
    assert answer["files"][0]["verdicts"] == 1


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


ODD = {
    "deep": make_deep,
    "directory": Path.mkdir,
    "fifo": make_fifo,
    "broken link": make_link,
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("stem", ["x", "y" * 245])
def test_odd_entry_is_refused(site, kind, stem):
    """Whatever lies there is one refused line, with a reason, and ends no night."""
    ODD[kind](site / "inbox" / f"{stem}.json")

    answer = as_json("run", "NIGHT.toml", "--date", NIGHT)

    (line,) = answer["verdicts"]
    assert line["refused"]
    assert answer["series"][0]["status"] == "unchanged"
    refused = site / "inbox" / "refused"
    kept = [path.suffix for path in refused.iterdir()]
    assert sorted(kept) == [".json", ".txt"]


def test_missing_inbox_ends_no_night(site):
    shutil.rmtree(site / "inbox")

    answer = as_json("run", "NIGHT.toml", "--date", NIGHT)

    assert "does not exist; create it" in answer["verdicts"][0]["refused"]
    assert answer["series"][0]["status"] == "unchanged"


def test_other_directories_are_no_inbox(site):
    """A run or model directory is left as it is."""
    for place in (site / "runs" / "ward-a" / NIGHT, site / "m"):
        before = sorted(names_in(place))

        answer = screen("review", "--site", "NIGHT.toml", place, code=2)

        assert "not a folder of verdicts" in answer.stderr
        assert sorted(names_in(place)) == before


def test_link_is_not_followed(site, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (site / "inbox" / "verdicts-x.json").symlink_to(secret)

    answer = as_json("review", "--site", "NIGHT.toml", code=5)

    assert "a link" in answer["files"][0]["refused"]
    assert secret.read_text() == "{}"


def test_verdicts_survive_corrected_table(site):
    """Verdicts of patients who are in both tables count, the others are kept."""
    ids = flagged(site)
    path = saved(site, ids[:4], "verdicts-x.json")
    table = site / "in" / f"{NIGHT}.csv"
    corrected = pd.read_csv(table, dtype=str)
    corrected = corrected[corrected["patient"] != ids[0]]
    written(corrected, table)
    words = ["--only", "ward-a", "--replace", "a patient of another ward"]
    (site / "NIGHT.toml").write_text(SITE.replace('verdicts = "inbox"\n', ""))
    screen("run", "NIGHT.toml", "--date", NIGHT, *words)
    assert ids[0] not in flagged(site)

    run = site / "runs" / "ward-a" / NIGHT
    answer = as_json("review", run, path, "--ledger", "l.db")
    again = as_json("review", run, path, "--ledger", "l.db")

    assert answer["verdicts"] == 4
    assert answer["new"] == 3
    assert answer["superseded"] == 1
    assert again["new"] == 0
    assert again["unchanged"] == 3
    history = as_json("history", "--ledger", "l.db", "--verify")
    run = next(run for run in history["runs"] if run["in_force"])
    assert run["verdicts"]["confirmed"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give RUN and VERDICTS"),
        (("--site", "NIGHT.toml"), "does not name a folder of verdicts"),
    ],
)
def test_review_usage(site, words, said):
    (site / "NIGHT.toml").write_text(SITE.replace('verdicts = "inbox"\n', ""))

    assert said in screen("review", *words, code=2).stderr


def test_verdicts_wait_for_their_ledger(site, place, monkeypatch):
    """A run with a ledger that is not the site's is refused before it enters verdicts;
    one that is not there is not begun.
    """
    saved(site, flagged(site)[:2], PAGE_FILE)
    text = Path("NIGHT.toml").read_text()
    Path("NIGHT.toml").write_text(text.replace('ledger = "l.db"\n', ""))
    monkeypatch.setenv("SCREEN_LEDGER", place)
    run = ("run", "NIGHT.toml", "--date", NIGHT)

    refused = screen(*run, code=4).stderr

    assert "was recorded in another one: give the path of the other" in refused
    assert "screen ledger accept" not in refused
    with pytest.raises(NoLedger), open_ledger(place, read_only=True):
        pass
    with open_ledger(place, make=True) as begun:
        enter(begun, night(1, "ab"))
    for words in (run, ("review", "--site", "NIGHT.toml")):
        assert "was entered in another ledger" in screen(*words, code=4).stderr
    assert names_in(site / "inbox") >= {PAGE_FILE}
    Path("NIGHT.toml").write_text(text)
    (read,) = as_json(*run)["verdicts"]
    assert read["new"] == 2
