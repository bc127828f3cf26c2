"""One patient is erased everywhere by one command; what is left verifies, scores and
adds up.
"""

import datetime
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen, verdict_file
from faults.amounts import LONG
from faults.shell import typed
from flow_cohorts import columns_of, night_of_patients, patients, voxels, written
from pandas.testing import assert_frame_equal
from typer.testing import CliRunner
from written_files import scores_in

from screening.cli import app
from screening.files import digest_of
from screening.ledger import erasing as taking
from screening.ledger import register
from screening.ledger.database import Ledger, open_ledger
from screening.ledger.entries import Artefact
from screening.ledger.erasing import Scope
from screening.ledger.history import history
from screening.ledger.register import (
    current_artefacts,
    digest_at,
    hand_out,
    state_of,
)
from screening.report import page as pages
from screening.scoring import erasing
from screening.scoring.erasing import Erasure
from screening.scoring.mentions import mentions
from screening.store import publishing
from screening.store.checkpoints import keep_piece
from screening.store.loading import load_model
from screening.store.model import save_model
from screening.store.serialization import read_document


class Killed(BaseException):
    """What nobody catches."""


SECRET = "Zx9-00123"
NOTE = "her-own-note"
NAME = "Annabella Quist"
QUICK = ["--search", "1", "--folds", "3", "--repeats", "1", "--jobs", "1"]
CONTRACT = """
[cohort]
id = "patient"
id_is_person = true
label = "ill"
positive = ["yes"]
display = ["called"]
"""
DAY = datetime.date.today() + datetime.timedelta(days=30)


def table(n_rows: int, seed: int) -> pd.DataFrame:
    """Patients of whom one, very ill, is the secret one, with a name."""
    rows = patients(n_rows, seed=seed).assign(
        called=[f"P{seed} {i}" for i in range(n_rows)]
    )
    rows.loc[0, ["patient", "called", "fever", "crp", "ill"]] = [
        SECRET,
        NAME,
        40.5,
        90.0,
        "yes",
    ]
    return rows


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A site: a model, two nights with pages and verdicts, a comparison."""
    place = tmp_path_factory.mktemp("kept") / "site"
    place.mkdir()
    (place / "cohort.toml").write_text(CONTRACT)
    written(table(120, 0), place / "past.csv")
    learn = [place / "past.csv", "--contract", place / "cohort.toml"]
    method = ["--recipe", "svm_weighted", "--max-flag-rate", 0.3]
    screen("train", *learn, *method, *QUICK, "--out", place / "models/a")
    screen(
        "compare",
        *learn,
        "--recipes",
        "logistic,svm",
        *QUICK,
        "--out",
        place / "runs/compared",
    )
    for day in (1, 2):
        night = written(table(60, day), place / f"night{day}.csv")
        run = place / f"runs/{day}"
        ledger = ["--ledger", place / "screening.db"]
        words = [
            "--date",
            f"2026-03-0{day}",
            *ledger,
            "--series",
            "ward-7",
            "--out",
            run,
        ]
        out = ["--publish", place / "pages"]
        screen("score", place / "models/a", night, *words, *out)
        verdicts = verdict_file(
            run, [{"id": SECRET, "verdict": "confirmed", "note": NOTE}]
        )
        screen("review", run, verdicts, *ledger)
    for left in ("past.csv", "night1.csv", "night2.csv", "runs/verdicts.json"):
        (place / left).unlink()
    return place


@pytest.fixture
def site(kept):
    """The site as it was made, at the place that its register knows."""
    aside = kept.with_name("aside")
    if not aside.exists():
        shutil.copytree(kept, aside)
    shutil.rmtree(kept)
    return Path(shutil.copytree(aside, kept))


def places(site: Path) -> list[object]:
    """Options that name every place of a site."""
    options = ["--ledger", site / "screening.db"]
    for name in ("models", "runs", "pages"):
        options += [f"--{name}", site / name]
    return options


def told(site: Path, *words: object) -> dict:
    where = [
        "--runs",
        site / "runs",
        "--pages",
        site / "pages",
        "--ledger",
        site / "screening.db",
    ]
    return as_json(*words, *where)


def forget(site: Path, *words: object) -> dict:
    return told(site, "forget", SECRET, "--models", site / "models", *words)


def naming(site: Path) -> list[str]:
    """Files in which the patient's id, name or note stands, packed or not."""
    words = [word.encode() for word in (SECRET, NOTE, NAME)]
    files = {
        str(path.relative_to(site)): path
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }
    naming = {
        name
        for name, path in files.items()
        if any(word in path.read_bytes() for word in words)
    }
    packed = {}
    for name, path in files.items():
        if path.suffix == ".parquet":
            packed[name] = path
    naming |= {
        name
        for name, path in packed.items()
        if SECRET in pd.read_parquet(path)["id"].tolist()
    }
    return sorted(naming)


def test_forget_every_byte(site):
    """No byte names the patient, and every count stays."""

    def tables() -> list[pd.DataFrame]:
        run = site / "runs/1"
        return [
            scores_in(run),
            pd.read_csv(run / "flagged.csv", dtype=str),
        ]

    before = read_document(site / "runs/1", "run")
    learned = load_model(site / "models/a")
    rows = tables()
    assert len(naming(site)) == 14
    said = forget(site)
    after = read_document(site / "runs/1", "run")
    again = load_model(site / "models/a")

    assert naming(site) == []
    assert after["counts"] == before["counts"]
    assert after["cases_total"] == before["cases_total"]
    assert after["erased"] == 1
    assert after["cases_shown"] == (before["cases_shown"] - 1)
    assert (
        "1 patient named here was erased later"
        in (site / "runs/1/report.html").read_text()
    )
    assert said["ledger"] == {
        "nights": 2,
        "cases": 2,
        "verdicts": 2,
        "mentions": 0,
    }
    assert [len(said[key]) for key in ("runs", "comparisons", "models", "pages")] == [
        2,
        1,
        1,
        3,
    ]
    assert said["pieces"] == said["left"] == []
    # Everybody else stays in the tables of the run, and their digests are sealed.
    for old, new in zip(rows, tables(), strict=True):
        others = old[old["id"] != SECRET].reset_index(drop=True)
        assert_frame_equal(new[others.columns], others)
    assert after["outputs"]["scores.parquet"] == digest_of(
        site / "runs/1/scores.parquet"
    )
    # The model scores on, and says until when.
    retrain_by = {str(site / "models/a"): DAY.isoformat()}
    assert said["retrain"] == retrain_by
    assert len(again.validation) == len(learned.validation) - 1
    assert len(again.calibration) == len(learned.calibration)
    assert again.document["operating_points"] == learned.document["operating_points"]
    later = table(20, 9).drop(columns="ill")[1:]
    night = written(later, site / "night.csv")
    where = [
        "--date",
        "2026-03-03",
        "--series",
        "ward-7",
        "--ledger",
        site / "screening.db",
    ]
    screen("score", site / "models/a", night, *where, "--out", site / "runs/3")
    codes = [
        each["code"] for each in read_document(site / "runs/3", "run")["attention"]
    ]
    assert "to_be_trained_again" in codes


def test_after_its_day_the_model_scores_no_more(site):
    forget(site, "--retrain-by", "2026-01-01")
    night = written(night_of_patients(20, seed=9), site / "night.csv")
    out = ["--out", site / "late"]
    refused = screen("score", site / "models/a", night, *out, code=4)
    assert "had to be trained again by 2026-01-01" in refused.stderr
    assert not (site / "late").exists()


def half_done(site: Path) -> list[Path]:
    """What killed commands left: of a first model, a model's next training, a night, a
    comparison.
    """
    names = (
        "models/.b.fits",
        "models/.a.fits",
        "runs/2026/.3.fragments",
        "runs/.compared.fits",
    )
    for name in names:
        (site / name).mkdir(parents=True, mode=0o700)
        rows = np.array([[40.5, 90.0]])
        keep_piece(site / name / "rows-0.npz", {"x": rows})
    return [site / name for name in names]


def test_forget_pieces(site):
    """Retention leaves them, for their work may go on."""
    places = half_done(site)
    told(site, "purge", "--older-than", "3000d")
    tried = forget(site, "--dry-run")
    still = [path.exists() for path in places]
    said = forget(site)
    texts = sorted(map(str, places))
    assert sorted(said["pieces"]) == texts
    assert sorted(tried["pieces"]) == texts
    assert still == [True] * 4
    assert [path.name for path in site.rglob(".*")] == []


def test_forget_pieces_in_use(site):
    """Pieces of a command that still runs stay and are named."""
    half_done(site)
    with publishing.hold(site / "models" / "b"):
        words = [
            "forget",
            SECRET,
            "--models",
            site / "models",
            "--ledger",
            site / "screening.db",
        ]
        ended = screen(*words, code=5)
    assert ".b.fits: another run is writing" in ended.stderr
    assert "run this again afterwards" in ended.stderr
    partial = [path.name for path in (site / "models").glob(".*")]
    assert partial == [".b.fits"]


def test_forget_registered(site):
    """Pages in a folder a series, a page of one case, an export: none of them is named
    to `forget`.
    """
    run = site / "runs/1"
    ledger = ["--ledger", site / "screening.db"]
    somebody = read_document(run, "run")["cases"][1]["id"]
    for command in (
        ["explain", run, SECRET, "--out", site / "case.html"],
        ["explain", run, somebody, "--out", site / "other.html"],
        ["export", run, "--to", "csv", "--out", site / "flagged.csv"],
        ["report", run, "--out", site / "out.html"],
    ):
        screen(*command, *ledger)
    listed = as_json("status", *ledger, "--artefacts", code=5)["artefacts"]
    said = as_json("forget", SECRET, *ledger, "--runs", site / "runs/compared")

    assert sorted(each["what"] for each in listed) == [
        "case",
        "case",
        "export",
        *["page"] * 4,
    ]
    assert {each["state"] for each in listed} == {"as written"}
    assert {each["mode"] for each in listed} == {"0600"}
    assert naming(site) == []
    removed = [Path(path).name for path in said["removed"]]
    assert removed == ["case.html", "flagged.csv"]
    assert len(said["pages"]) == 4
    assert (site / "other.html").exists()
    assert as_json("forget", SECRET, *ledger)["removed"] == []
    with open_ledger(site / "screening.db") as book:
        history(book, verify=True)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the bytes of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files}


def test_forget_in_copy_of_site(site):
    """A copy says whose it is; only what is named is erased there, nothing in the
    original.
    """
    copy = Path(shutil.copytree(site, site.with_name("staging")))
    before = contents(site)

    ledger = ["--ledger", copy / "screening.db"]
    unnamed = screen("forget", SECRET, *ledger, code=5).stderr
    left = naming(copy)
    named = screen("forget", SECRET, *places(copy)).stderr

    whose = f"with the original at {site / 'screening.db'}"
    assert unnamed.startswith("screen: this ledger is a copy of site ")
    assert whose in unnamed
    assert f"{copy / 'runs/1'}: this ledger is a copy of" in unnamed
    assert "runs/1/scores.parquet" in left
    assert whose in named
    assert naming(copy) == []
    assert contents(site) == before
    shutil.rmtree(copy)


def test_forget_in_copy_names_places_of_original(site, tmp_path):
    """A file of the original that a copy's register lists is named there and left."""
    outside = tmp_path / "case.html"
    on_ledger = ["--ledger", site / "screening.db"]
    screen("explain", site / "runs/1", SECRET, "--out", outside, *on_ledger)
    copy = Path(shutil.copytree(site, site.with_name("staging")))

    refused = screen("forget", SECRET, *places(copy), code=5).stderr

    assert f"{outside}: this ledger is a copy of" in refused
    assert SECRET in outside.read_text()
    shutil.rmtree(copy)


def test_entries_in_copy_of_site(site):
    """A copy takes no nights and no decisions on models; a site that was moved does."""
    moved = site.with_name("moved")
    site.rename(moved)
    ledger = moved / "screening.db"
    written(table(60, 3), moved / "night3.csv")
    night = ["--date", "2026-03-03", "--out", moved / "runs/3", "--series", "ward-7"]
    score = ["score", moved / "models/a", moved / "night3.csv", *night]
    retire = ["retire", "ward-7", "--ledger", ledger, "--reason", "closed"]

    for command in ([*score, "--ledger", ledger], retire):
        assert "use the original" in screen(*command, code=4).stderr
    assert not (moved / "runs/3").exists()
    enter = ["ledger", "moved", ledger, "--reason", "new disk"]
    assert as_json(*enter) == {"site": str(ledger)}
    screen(*score, "--ledger", ledger)
    assert "already at" in screen(*enter, code=2).stderr
    # Without a copy, what lies in the site's folder need not be named.
    assert as_json("forget", SECRET, "--ledger", ledger)["left"] == []
    with open_ledger(ledger) as book:
        history(book, verify=True)
    moved.rename(site)


def test_restored_backup_is_no_copy(site):
    """A backup that was put back at its place is the original."""
    backup = Path(shutil.copytree(site, site.with_name("backup")))
    shutil.rmtree(site)
    shutil.copytree(backup, site)
    shutil.rmtree(backup)

    said = screen("forget", SECRET, "--ledger", site / "screening.db").stderr

    assert "copy" not in said
    assert naming(site) == ["runs/compared/scores.parquet"]


def test_link_to_site_is_no_copy(site):
    """A ledger that is reached by a link is the original, whichever way it was
    begun.
    """
    link = site.with_name("link")
    link.symlink_to(site)

    said = screen("forget", SECRET, "--ledger", link / "screening.db").stderr

    assert "copy" not in said
    link.unlink()


def test_forget_leaves_what_was_not_named(site, tmp_path):
    """A file outside the site is named and left, whatever the register says of it."""
    outside = tmp_path / "elsewhere" / "case.html"
    outside.parent.mkdir()
    ledger = site / "screening.db"
    run = site / "runs/1"
    screen("explain", run, SECRET, "--out", outside, "--ledger", ledger)

    refused = screen("forget", SECRET, "--ledger", ledger, code=5).stderr
    kept = outside.read_bytes()
    as_json("forget", SECRET, "--ledger", ledger, "--pages", outside.parent)

    assert "case.html: it is outside the ledger's folder" in refused
    assert SECRET.encode() in kept
    assert not outside.exists()


FORGED_PLACES = {
    "beyond the site": "../private/kept.csv",
    "by way of a link": "linked/kept.csv",
}


@pytest.mark.parametrize("place", FORGED_PLACES.values(), ids=FORGED_PLACES)
def test_forget_forged_place(site, place):
    """An entry of the register that leads out of the site deletes nothing there."""
    private = site.with_name("private")
    private.mkdir(exist_ok=True)
    names = pd.DataFrame({"id": [SECRET]})
    kept = written(names, private / "kept.csv")
    (site / "linked").symlink_to(private)
    key = read_document(site / "runs/1", "run")["ledger"]["key"]
    forged = Artefact(
        what="export",
        place=site / place,
        sha256=digest_of(kept),
        key=key,
    )
    ledger = site / "screening.db"
    with open_ledger(ledger) as book:
        hand_out(book, forged)

    refused = screen("forget", SECRET, "--ledger", ledger, code=5)

    assert "it is outside the ledger's folder" in refused.stderr
    assert kept.exists()


def test_forget_forged_directory(site):
    """A directory that no export writes is left, though the register has its digest."""
    folder = site / "inbox"
    folder.mkdir()
    (folder / "tonight.csv").write_text("id\n")
    key = read_document(site / "runs/1", "run")["ledger"]["key"]
    digest = digest_at("export", folder)
    with open_ledger(site / "screening.db") as book:
        export = Artefact(what="export", place=folder, sha256=digest, key=key)
        hand_out(book, export)

    refused = screen("forget", SECRET, "--ledger", site / "screening.db", code=5)

    assert "this directory does not look like an export" in refused.stderr
    assert (folder / "tonight.csv").exists()


def test_forget_renamed_page(site):
    """A page that a reader renamed is found beside its place, also when it was
    changed.
    """
    pages = site / "pages"
    (pages / "2026-03-01.html").rename(pages / "first night.html")
    changed = pages / "second night.html"
    (pages / "2026-03-02.html").rename(changed)
    changed.write_bytes(changed.read_bytes() + b"<!-- -->")
    words = ["forget", SECRET, "--ledger", site / "screening.db"]

    refused = screen(*words, code=5)
    changed.unlink()
    screen(*words)

    assert "second night.html: its run directory" in refused.stderr
    assert SECRET not in (pages / "first night.html").read_text(encoding="utf-8")
    naming_pages = [name for name in naming(site) if name.startswith("pages")]
    assert naming_pages == []


def test_forget_export_behind_link(site):
    """An export that was moved away behind a link is not gone when the link is."""
    ledger = ["--ledger", site / "screening.db"]
    out = site / "flagged.csv"
    screen("export", site / "runs/1", "--to", "csv", "--out", out, *ledger)
    moved = site.with_name("moved.csv")
    shutil.move(out, moved)
    out.symlink_to(moved)

    refused = screen("forget", SECRET, *ledger, code=5)

    assert "flagged.csv: this is a link" in refused.stderr
    assert out.is_symlink()
    assert moved.exists()


def test_forget_moved_export_beside_ledger(site):
    """Where an export beside the ledger was moved, the answer names neither the ledger
    nor a table that has the patient: nothing could make them again.
    """
    ledger = site / "screening.db"
    out = site / "flagged.csv"
    on_ledger = ["--ledger", ledger]
    screen("export", site / "runs/1", "--to", "csv", "--out", out, *on_ledger)
    shutil.move(out, site.with_name("moved.csv"))
    tables = [site / "outcomes.csv", site / "letter.html", Path(f"{ledger}-wal.kept")]
    for path in tables:
        path.write_text(f"<p>{SECRET}</p>\n")
    empty = site / "empty.csv"
    empty.touch()

    told = as_json("forget", SECRET, *on_ledger)

    assert told["left"] == []
    assert all(SECRET in path.read_text() for path in tables)
    assert ledger.exists()
    assert empty.exists()


def test_forget_forged_register_of_ledger(site):
    """A register that lists the ledger itself as an export is no leave to delete it."""
    ledger = site / "screening.db"
    with open_ledger(ledger) as book:
        forged = Artefact(what="case", place=ledger, sha256="0" * 64, patient=SECRET)
        hand_out(book, forged)

    told = as_json("forget", SECRET, *places(site), code=5)

    assert told["removed"] == []
    assert any(line.startswith(f"{ledger}: it is the ledger") for line in told["left"])
    assert ledger.exists()


@pytest.mark.parametrize("form", ["csv", "fhir"])
def test_forget_export_since(site, form):
    """An export that says who is no longer flagged names patients of other nights."""
    ledger = ["--ledger", site / "screening.db"]
    without_first = table(60, 3)[1:]
    night = written(without_first, site / "night3.csv")
    words = ["--date", "2026-03-03", "--series", "ward-7", *ledger]
    screen("score", site / "models/a", night, *words, "--out", site / "runs/3")
    out = site / "export"
    since = ["--since", site / "runs/2"]
    screen("export", site / "runs/3", "--to", form, "--out", out, *since, *ledger)
    assert SECRET in out.read_text(encoding="utf-8")

    screen("forget", SECRET, *ledger)

    assert not out.exists()


@pytest.mark.parametrize("step", ["before it is written", "before it is entered"])
@pytest.mark.parametrize("form", ["csv", "fhir", "xlsx", "table"])
def test_export_killed(site, monkeypatch, form, step):
    """An export that was killed is finished by the same command."""
    ledger = ["--ledger", site / "screening.db"]
    out = ["--out", site / "exported"]
    if form == "table":
        out = ["--url", f"sqlite:///{site / 'ward.db'}", "--table", "flagged"]
    words = ["export", site / "runs/1", "--to", form, *out, *ledger]
    entered = []

    def entering(book, *artefacts):
        if len(entered) == 1 and step == "before it is entered":
            raise Killed
        entered.extend(artefacts)
        hand_out(book, *artefacts)
        if step == "before it is written":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(register, "hand_out", entering)
        with pytest.raises(Killed):
            screen(*words)
    for _ in range(2):
        screen(*words)

    with open_ledger(site / "screening.db") as book, book.reading() as connection:
        last = current_artefacts(connection)[-1]
    assert last.sha256 != register.UNFINISHED
    assert form == "table" or state_of(last) == "as written"
    assert not list(site.glob(".*"))


def test_forget_misspelt_folder(site):
    """A folder that does not exist is no folder without the patient."""
    runs = site / "run"

    refused = screen(
        "forget", SECRET, "--ledger", site / "screening.db", "--runs", runs, code=2
    )

    assert f"{runs} is not a directory" in refused.stderr
    assert SECRET in (site / "runs/1/flagged.csv").read_text(encoding="utf-8")


def test_forget_unfinished_export(site, monkeypatch):
    """An export whose command was killed is named until that is run again."""
    ledger = ["--ledger", site / "screening.db"]
    out = site / "exported.csv"
    words = ["export", site / "runs/1", "--to", "csv", "--out", out, *ledger]
    entered = []

    def entering(book, *artefacts):
        if entered:
            raise Killed
        entered.extend(artefacts)
        hand_out(book, *artefacts)

    with monkeypatch.context() as patch:
        patch.setattr(register, "hand_out", entering)
        with pytest.raises(Killed):
            screen(*words)
    refused = screen("forget", SECRET, *ledger, code=5).stderr
    left = out.read_text(encoding="utf-8-sig")
    screen(*words)
    screen("forget", SECRET, *ledger)

    assert "exported.csv: its export did not finish; export it again" in refused
    assert SECRET in left
    assert SECRET not in out.read_text(encoding="utf-8-sig")


def test_forget_model_written_meanwhile(site, monkeypatch):
    """A model that another command writes while it is rewritten keeps that change."""
    model = site / "models/a"
    without_patient = erasing.without_patient
    changes = []

    def slow(*args):
        after = without_patient(*args)
        if not changes:
            words = ["--max-flag-rate", 0.1, "--reason", "fewer"]
            changes.append(screen("threshold", model, *words))
        return after

    monkeypatch.setattr(erasing, "without_patient", slow)
    refused = screen("forget", SECRET, *places(site), code=5).stderr
    changed = load_model(model).operating_points
    screen("forget", SECRET, *places(site))

    assert "another process has just written it; run this again" in refused
    assert load_model(model).operating_points == changed
    assert naming(site) == []


@pytest.mark.parametrize("word", ["03", "runs", "html"])
def test_forget_id_in_a_path(site, word):
    """An id that is a word of a path, such as a month, loses no file of the
    register.
    """
    ledger = ["--ledger", site / "screening.db"]

    screen("forget", word, *ledger)

    with open_ledger(site / "screening.db") as book:
        history(book, verify=True)
    states = as_json("status", *ledger, "--artefacts", "--max-age", "9999d")
    listed = [one["state"] for one in states["artefacts"]]
    assert set(listed) == {"as written"}
    forget(site)
    assert naming(site) == []


def test_forget_unreachable(site):
    """What cannot be reached, or was altered, is named until it is done."""
    page = site / "pages/2026-03-01.html"
    away = site.with_name("unmounted")
    page.write_bytes(page.read_bytes() + b"<!-- -->")
    (site / "runs").rename(away)
    words = ["forget", SECRET, "--ledger", site / "screening.db"]
    for _ in range(2):
        assert "runs/1: it cannot be reached" in screen(*words, code=5).stderr
    away.rename(site / "runs")
    altered = screen(*words, code=5).stderr
    assert "runs/1" not in altered
    assert "2026-03-01.html: it has been changed since it was written" in altered
    page.unlink()
    screen(*words)
    assert naming(site) == ["runs/compared/scores.parquet"]


@pytest.mark.parametrize("to", ["elsewhere", None])
def test_forget_moved_runs(site, to):
    """Moved files are erased where they are; deleted ones are not asked for."""
    new = site.with_name("elsewhere")
    ledger = site / "screening.db"
    (site / "runs").rename(new)
    shutil.rmtree(new / "compared")
    moved = ["ledger", "moved", ledger, "--reason", "new disk", "--from"]
    elsewhere = screen(*moved, site.with_name("old"), code=2)
    assert "nothing is registered at or below" in elsewhere.stderr
    assert f"are registered in {site}" in elsewhere.stderr
    destination = ["--to", new] if to else []
    said = as_json(*moved, site / "runs", *destination)
    where = ["--runs", new] if to else []
    words = ["forget", SECRET, "--ledger", ledger, *where]
    told = screen(*words, code=0 if to else 5).stderr

    assert said == {"moved" if to else "gone": 2}
    assert told.count("its run directory does not exist") == (0 if to else 3)
    is_named = to is None
    assert bool(naming(site)) is is_named
    assert bool(naming(new)) is is_named
    shutil.rmtree(new)
    with open_ledger(ledger) as book:
        history(book, verify=True)


def test_forget_exported_table(site):
    """A table is named until it is exported again or entered as deleted."""
    ledger = ["--ledger", site / "screening.db"]
    url = f"sqlite:///{site / 'exported.sqlite'}"
    export = [
        "export",
        site / "runs/1",
        "--to",
        "table",
        "--url",
        url,
        "--table",
        "flagged",
        *ledger,
    ]
    screen(*export)
    for _ in range(2):
        runs = ["--runs", site / "runs"]
        refused = screen("forget", SECRET, *ledger, *runs, code=5)
        assert "sqlite:/exported.sqlite/flagged: a database table" in refused.stderr
    screen(*export, "--force")
    screen("forget", SECRET, *ledger)


def test_forget_gone_by_printed_command(site):
    """A place that cannot be reached, and a table, are not asked for once the printed
    commands have entered that they are deleted.
    """
    ledger = ["--ledger", site / "screening.db"]
    url = f"sqlite:///{site / 'exported.sqlite'}"
    table = ["--to", "table", "--url", url, "--table", "flagged"]
    screen("export", site / "runs/1", *table, *ledger)
    shutil.rmtree(site / "runs")
    left = screen("forget", SECRET, *ledger, code=5).stderr

    for command in re.findall("screen ledger moved .*? --reason WHY", left):
        typed(command, site, (0,))

    left = screen("forget", SECRET, *ledger, code=5).stderr
    assert "cannot be reached" not in left
    assert "a database table" not in left


def test_nothing_is_left_in_caches_or_temporary_folders(site, tmp_path):
    private = {
        "TMPDIR": tmp_path / "tmp",
        "XDG_CACHE_HOME": tmp_path / "cache",
        "HOME": tmp_path,
    }
    for place in private.values():
        place.mkdir(exist_ok=True)
    night = written(table(60, 3), site / "night3.csv")
    scored = [
        "score",
        site / "models/a",
        night,
        "--out",
        site / "runs/3",
        "--date",
        "2026-03-03",
    ]
    for command in (
        [*scored, "--series", "ward-7"],
        ["forget", SECRET, "--runs", site / "runs"],
    ):
        words = [
            sys.executable,
            "-m",
            "screening",
            *command,
            "--ledger",
            site / "screening.db",
        ]
        environment = os.environ | private
        subprocess.run(words, check=True, env=environment, capture_output=True)
    night.unlink()
    assert naming(site) == naming(tmp_path) == []


def test_forget_dry_run(site):
    """A dry run reports the same and changes nothing; a second run finds nothing."""

    def files() -> dict[Path, bytes]:
        """But for the ledger's, which is cleaned each time; what it holds is compared
        where it is tested.
        """
        paths = [
            path
            for path in site.rglob("*.*")
            if path.is_file() and path.suffix != ".db"
        ]
        return {path: path.read_bytes() for path in paths}

    # A page that somebody removed is not entered as missing either.
    (site / "pages/2026-03-01.html").unlink()
    before = files()
    ledger = (site / "screening.db").read_bytes()
    tried = forget(site, "--dry-run")
    assert files() == before
    assert (site / "screening.db").read_bytes() == ledger
    assert forget(site) == tried
    after = files()
    again = forget(site)
    assert files() == after
    assert again["ledger"] == {
        "nights": 0,
        "cases": 0,
        "verdicts": 0,
        "mentions": 0,
    }
    assert [again[key] for key in ("runs", "comparisons", "models", "pages")] == [
        [],
        [],
        [],
        [],
    ]


def test_forget_standard_input(site):
    """The id can be read from standard input and is printed nowhere."""
    words = ["forget", "-", *map(str, places(site))]
    done = CliRunner().invoke(app, words, input=f"{SECRET}\n")
    where = [
        "--ledger",
        site / "screening.db",
        "--runs",
        site / "runs",
        "--models",
        site / "models",
    ]
    unknown = screen("forget", "00123", *where).stderr
    assert done.exit_code == 0
    assert naming(site) == []
    assert SECRET not in done.output
    assert "this id was not found" not in done.output
    assert "this id was not found" in unknown
    assert "00123" not in unknown


STEPS = {
    "the model's files": (erasing, "write_model_files"),
    "its entry in the trail": (erasing, "record_sealed"),
    "the model's place": (publishing, "exchange"),
    "a run's tables": (erasing, "rewrite"),
    "a run's page": (erasing, "render_run"),
    "a page's copy": (erasing, "write_whole"),
    "a comparison": (erasing, "rewrite_scores"),
    "the ledger": (erasing, "erase"),
    "the ledger's entry": (taking, "append"),
    "the file's free pages": (Ledger, "compact"),
}


@pytest.mark.parametrize("nth", [1, 2] if LONG else [1])
@pytest.mark.parametrize("step", STEPS)
def test_forget_killed(site, monkeypatch, step, nth):
    """The next attempt finishes one that was killed at any step."""
    owner, name = STEPS[step]
    real = getattr(owner, name)
    calls = []

    def dying(*args: object, **named: object) -> object:
        calls.append(1)
        if len(calls) == nth:
            raise Killed
        return real(*args, **named)

    def attempt(ledger: Ledger) -> dict:
        where = [site / name for name in ("runs", "models", "pages")]
        erasure = Erasure(Scope(SECRET), ledger, *where, DAY)
        return erasure.done("asked for")

    with open_ledger(site / "screening.db") as ledger:
        # A step that is taken once ends well where its second call is waited for.
        killed = pytest.raises(Killed) if nth == 1 else suppress(Killed)
        with monkeypatch.context() as patched, killed:
            patched.setattr(owner, name, dying)
            attempt(ledger)
        assert calls
        assert attempt(ledger)["left"] == []
        history(ledger, verify=True)
    assert naming(site) == []
    assert [path.name for path in site.rglob(".*")] == []
    load_model(site / "models/a")


PURGED = [
    "a run's tables",
    "a run's page",
    "a page's copy",
    "the ledger",
    "the ledger's entry",
    "the file's free pages",
]


@pytest.mark.parametrize("step", PURGED)
def test_purge_killed(site, monkeypatch, step):
    """A purge that was killed at any step is finished by the same command."""
    owner, name = STEPS[step]

    def dying(*args: object, **named: object) -> object:
        raise Killed

    def attempt(ledger: Ledger) -> dict:
        where = [site / name for name in ("runs", "models", "pages")]
        erasure = Erasure(Scope(before="2026-03-02"), ledger, *where)
        return erasure.done("old")

    with open_ledger(site / "screening.db") as ledger:
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(owner, name, dying)
            attempt(ledger)

        assert attempt(ledger)["left"] == []
        assert attempt(ledger)["runs"] == []
        history(ledger, verify=True)
    document = read_document(site / "runs/1", "run")
    assert document["cases"] == []
    assert len(pd.read_parquet(site / "runs/1/scores.parquet")) == 0


def test_forget_category_of_one_patient(tmp_path):
    """A model with a category that one patient had is to be trained again."""
    past = patients(200)
    rows = past.copy()
    rows.loc[0, "ward"] = "Lighthouse"
    retrain = []
    for name, table in (("many", past), ("one", rows)):
        file = written(table, tmp_path / f"{name}.csv")
        model = tmp_path / name / "model"
        known = ["--label", "ill", "--positive", "yes", "--id", "patient"]
        method = ["--recipe", "logistic", "--beside", "none"]
        screen("train", file, *known, *method, *QUICK, "--out", model)
        open_ledger(tmp_path / f"{name}.db", make=True).close()
        where = ["--ledger", tmp_path / f"{name}.db", "--models", model.parent]
        said = as_json("forget", rows.loc[0, "patient"], *where)
        retrain.append([*said["retrain"].values()])

    notes = read_document(model, "model")["training"]["notes"]
    assert retrain == [[], [DAY.isoformat()]]
    assert "a category of ward may have been the erased patient's alone" in notes[-1]


# Not so short that the random bytes of a ledger's hashes hold one by chance.
CANARIES = [
    "O'Neil-7",
    'the "7"',
    "Ann&Bob",
    "Ann<Bob>C",
    "back\\slash",
    "Q100%-7",
    "Ann;Bob",
    "Ann,Bob",
    "\u017dofie-7",
    "Z\u030cofie-8",
    "x" * 200,
]


def texts_in(site: Path) -> dict[str, bytes]:
    """Return the content of every file of a site, and of what workbooks pack."""
    contents = {}
    for path in sorted(site.rglob("*")):
        if path.is_file():
            contents[str(path.relative_to(site))] = path.read_bytes()
        if path.suffix == ".xlsx":
            with ZipFile(path) as archive:
                for name in archive.namelist():
                    contents[f"{path.name}/{name}"] = archive.read(name)
    return contents


def night_of_canaries(site: Path) -> Path:
    """Write a night on which all patients of odd names are flagged."""
    night = table(60, 3)
    first = slice(0, len(CANARIES) - 1)
    night.loc[first, "patient"] = CANARIES
    night.loc[first, ["fever", "crp"]] = [40.5, 60.0]
    return written(night, site / "night3.csv")


def test_forget_canaries_in_every_output(site):
    """Ids with every sign that a writer escapes leave whatever was written of them."""
    file = night_of_canaries(site)
    ledger = ["--ledger", site / "screening.db"]
    words = ["--date", "2026-03-03", "--series", "ward-7", *ledger]
    words += ["--accept-delivery", "these ids differ in signs alone"]
    out = ["--out", site / "runs/3", "--publish", site / "pages"]
    screen("score", site / "models/a", file, *words, *out)
    file.unlink()
    run = read_document(site / "runs/3", "run")
    listed = {case["id"] for case in run["cases"]}
    for form in ("csv", "fhir", "xlsx"):
        to = ["--to", form, "--out", site / f"flagged.{form}"]
        screen("export", site / "runs/3", *to, *ledger)
    for number, name in enumerate(CANARIES):
        page = ["--out", site / f"case{number}.html"]
        screen("explain", site / "runs/3", name, *page, *ledger)
    before = texts_in(site)

    for name in CANARIES:
        words = ["forget", "-", *map(str, ledger)]
        ended = CliRunner().invoke(app, words, input=f"{name}\n")
        assert ended.exit_code == 0, ended.output

    assert listed >= {*CANARIES}
    after = texts_in(site)
    for name in CANARIES:
        named_before = [file for file, text in before.items() if mentions(text, name)]
        named_after = [file for file, text in after.items() if mentions(text, name)]
        assert len(named_before) >= 6, named_before
        assert named_after == []


def test_forget_canaries_in_table(site):
    """A table of a database is named until it was exported again without any of the
    ids.
    """
    file = night_of_canaries(site)
    run = site / "runs/3"
    ledger = ["--ledger", site / "screening.db"]
    night_of = ["--date", "2026-03-03", "--series", "ward-7"]
    night_of += ["--accept-delivery", "these ids differ in signs alone"]
    screen("score", site / "models/a", file, *night_of, *ledger, "--out", run)
    database = site / "exported.sqlite"
    into = ["--to", "table", "--url", f"sqlite:///{database}", "--table", "f"]
    screen("export", run, *into, *ledger)
    before = ids_in(database)

    for name in CANARIES:
        words = ["forget", "-", *map(str, ledger)]
        ended = CliRunner().invoke(app, words, input=name + "\n")
        assert ended.exit_code == 5
        assert "f: a database table cannot be changed" in ended.output
    screen("export", run, *into, "--force", *ledger)

    assert before >= {*CANARIES}
    assert ids_in(database).isdisjoint(CANARIES)
    for name in CANARIES:
        assert as_json("forget", name, *ledger)["left"] == []


def ids_in(database: Path) -> set[str]:
    """Return the ids of the exported table."""
    with closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM f")}


def test_forget_refused_cells(site):
    """A list of refused cells goes with a patient that it names, and alone with one."""
    night = table(60, 3).astype({"fever": object})
    night.loc[0, "fever"] = "not measured"
    file = written(night, site / "night3.csv")
    refused = site / "refused.csv"
    ledger = ["--ledger", site / "screening.db"]
    night_of = ["--date", "2026-03-03", "--series", "ward-7", "--out", site / "runs/3"]
    screen("score", site / "models/a", file, *night_of, *ledger, "--refused", refused)
    before = refused.read_text()

    nobody = as_json("forget", "Zx9-99999", *ledger)["removed"]
    removed = as_json("forget", SECRET, *ledger)["removed"]

    assert SECRET in before
    assert nobody == []
    assert removed == [str(refused)]
    assert not refused.exists()


def test_forget_person_of_omop(site):
    """The tables of an OMOP export go with a person that they name, and alone with
    one.
    """
    night = table(60, 3)
    numbers = 800_000_123 + np.arange(len(night))
    night["patient"] = numbers.astype(str)
    person = night.loc[0, "patient"]
    file = written(night, site / "night3.csv")
    run = site / "runs/3"
    out = site / "omop"
    ledger = ["--ledger", site / "screening.db"]
    night_of = ["--date", "2026-03-03", "--accept-delivery", "numbers of the CDM"]
    screen("score", site / "models/a", file, *night_of, *ledger, "--out", run)
    file.unlink()
    screen("export", run, "--to", "omop", "--out", out, *ledger)
    texts = texts_in(site)
    naming = [file for file, text in texts.items() if mentions(text, person)]

    nobody = as_json("forget", "800000999", *ledger)["removed"]
    removed = as_json("forget", person, *ledger)["removed"]

    assert "omop/cohort.csv" in naming
    assert nobody == []
    assert removed == [str(out)]
    assert not out.exists()
    for text in texts_in(site).values():
        assert not mentions(text, person)


def test_forget_retrain(site):
    """One without anybody else is refused."""
    model = load_model(site / "models/a")

    def saved(name: str, **columns: object) -> None:
        held_out = columns_of(model.validation.assign(**columns))
        save_model(
            replace(model, held_out=held_out, directory=None), site / "models" / name
        )

    saved("b", held=False)
    said = forget(site)
    assert [*said["retrain"]] == [str(site / "models/a")]
    assert len(said["models"]) == 2
    saved("a", id=SECRET)
    refused = screen("forget", SECRET, *places(site), code=5)
    assert "no other patient" in refused.stderr


def test_forget_damaged_model(site):
    """A damaged model and a page without its run are named; the rest is erased."""
    shutil.copytree(site / "models/a", site / "models/b")
    (site / "models/b/arrays.npz").write_bytes(b"no arrays")
    shutil.copyfile(site / "pages/latest.html", site / "pages/kept.html")
    shutil.rmtree(site / "runs/2")
    refused = screen("forget", SECRET, *places(site), code=5).stderr
    places_named = ("models/b", "kept.html", "2026-03-01.html", "2026-03-02.html")
    assert [name for name in places_named if name in refused] == [
        "models/b",
        "kept.html",
        "2026-03-02.html",
    ]
    pages_left = [f"pages/{name}.html" for name in ("2026-03-02", "kept", "latest")]
    assert naming(site) == ["models/b/validation.parquet", *pages_left]


def test_forget_voxels(tmp_path):
    """A patient is erased with all voxels."""
    past = written(voxels(), tmp_path / "past.parquet")
    who = ["--label", "tissue", "--group", "patient", "--positive", "lesion"]
    method = ["--recipe", "logistic", "--max-flag-rate", 0.3]
    model = tmp_path / "models/v"
    run = tmp_path / "runs/1"
    ledger = tmp_path / "screening.db"
    screen("train", past, *who, *method, *QUICK, "--out", model)
    screen(
        "score",
        model,
        written(voxels(4, seed=1), tmp_path / "n.csv"),
        "--out",
        run,
        "--ledger",
        ledger,
    )
    before = read_document(run, "run")
    for name in ("P10", "P00"):
        screen(
            "forget",
            name,
            "--runs",
            run.parent,
            "--models",
            model.parent,
            "--ledger",
            ledger,
        )

    after = read_document(run, "run")
    assert "P10" not in json.dumps(after)
    assert after["counts"] == before["counts"]
    assert after["groups_total"] == 4
    assert len(after["groups"]) == 3
    assert len(scores_in(run)) == 180
    assert "P00" not in set(load_model(model).validation["group"])


def test_purge_old_nights(site):
    """A purge erases everybody of old nights and keeps the counts."""
    before = read_document(site / "runs/1", "run")
    kept = (site / "runs/2/run.json").read_bytes()
    since = datetime.date.today() - datetime.date(2026, 3, 2)
    days = since.days
    said = told(site, "purge", "--older-than", f"{days}d")
    again = told(site, "purge", "--older-than", f"{days}d")
    after = read_document(site / "runs/1", "run")

    assert len(said["runs"]) == 1
    assert said["ledger"]["nights"] == 1
    assert again["runs"] == []
    assert after["counts"] == before["counts"]
    assert after["cases"] == []
    assert after["near_misses"] == []
    assert after["sample"] == []
    assert len(pd.read_parquet(site / "runs/1/scores.parquet")) == 0
    assert len(pd.read_csv(site / "runs/1/flagged.csv")) == 0
    assert (site / "runs/2/run.json").read_bytes() == kept
    with open_ledger(site / "screening.db") as ledger:
        history(ledger, verify=True)


def test_page_after_forget(site):
    """No page of erased patients says that nobody was flagged."""
    forget(site)
    one = pages.render_run(read_document(site / "runs/1", "run"))
    told(site, "purge", "--older-than", "1d")
    purged = read_document(site / "runs/1", "run")
    everybody = pages.render_run(purged)
    n = purged["counts"]["flagged"]
    unknown = screen("explain", site / "runs/1", SECRET, code=2).stderr

    assert (
        f"1 of {n} flagged are not named here: erased later, or only in flagged.csv."
        in one
    )
    assert f"{n} of {n} flagged are not named here" in everybody
    assert "Nobody was flagged" not in everybody
    assert (
        f"{purged['counts']['scored']} rows were scored, and some have since been erased"
        in unknown
    )
