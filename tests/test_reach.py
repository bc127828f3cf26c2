"""What lies outside the folders of a ledger is never written, by any command."""

import json
import shutil
from pathlib import Path

import pytest
from commands import LOGISTIC, WHO, screen
from event_tables import small_spec
from flow_cohorts import night_of_patients, patients, written
from typer.testing import CliRunner

from screening import open_ledger
from screening.cli import COMMANDS, app
from screening.cli.ledger import Action
from screening.ledger.reach import reach_of
from screening.store.serialization import read_document

NIGHTS = ("2026-03-01", "2026-03-02")
WHY = ("--reason", "a rehearsal")

SITE = """
[site]
title = "County"
ledger = "screening.db"
runs = "runs"
publish = "{outside}/pages"
verdicts = "{outside}/inbox"
jobs = 1

[series.ward]
model = "models/a"
cohort = "in/{{date}}.csv"
outcomes = "{outside}/events.csv"
"""


def verdicts_on(run: Path, place: Path) -> None:
    """Write a file of verdicts as the page of a run saves it."""
    document = read_document(run, "run")
    case = {"id": document["cases"][0]["id"], "verdict": "confirmed"}
    content = {"format": 1, "run_id": document["run_id"], "initials": "ab"}
    place.write_text(json.dumps(content | {"verdicts": [case]}))


@pytest.fixture(scope="module")
def person_model(table, tmp_path_factory):
    """Directory of a model whose ids are persons, as an export to OMOP needs."""
    folder = tmp_path_factory.mktemp("persons")
    contract = folder / "cohort.toml"
    contract.write_text("[cohort]\nid_is_person = true\n")
    words = (*WHO, "--positive", "yes", *LOGISTIC, "--max-flag-rate", "0.3")
    screen("train", table, "--contract", contract, *words, "--out", folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def original(tmp_path_factory, person_model):
    """A site, and outside its folder what it published, exported and backed up."""
    top = tmp_path_factory.mktemp("original")
    site = top / "site"
    outside = top / "outside"
    for folder in (site / "in", outside / "inbox", outside / "models"):
        folder.mkdir(parents=True)
    (site / "NIGHT.toml").write_text(SITE.format(outside=outside))
    written(patients(200, seed=1), site / "past.csv")
    (outside / "events.csv").write_text("id,time\n")
    (outside / "merged.csv").write_text("old,new,since\na,b,2026-03-01\n")
    shutil.copytree(person_model, site / "models/a")
    shutil.copytree(person_model, outside / "models/b")
    # A site on several disks has links, which a copy of it has too.
    (site / "links").symlink_to(outside)
    ledger = ("--ledger", site / "screening.db")
    for number, night in enumerate(NIGHTS):
        rows = night_of_patients(80, seed=140 + number)
        written(rows, site / f"in/{night}.csv")
        screen("run", site / "NIGHT.toml", "--date", night)
        run = site / "runs/ward" / night
        case = read_document(run, "run")["cases"][0]["id"]
        page = outside / f"case{number}.html"
        screen("explain", run, case, "--out", page, *ledger)
        for form in ("csv", "omop"):
            out = outside / f"{form}{number}"
            screen("export", run, "--to", form, "--out", out, *ledger)
    kept = outside / "kept"
    for day in ("01", "02"):
        screen("ledger", "backup", site / "screening.db", "--to", kept)
        newest = max(kept.iterdir())
        identity = newest.name.split("-")[1]
        newest.rename(kept / f"screening-{identity}-202603{day}T010000Z.db")
    verdicts_on(site / "runs/ward" / NIGHTS[1], outside / "inbox/verdicts.json")
    return top


@pytest.fixture
def copy(original, tmp_path):
    """A copy of the site's folder, with links and absolute paths as they were."""
    return Path(shutil.copytree(original / "site", tmp_path / "copy", symlinks=True))


def everything(top: Path) -> dict[str, tuple]:
    """Return mode, time and bytes of every file, and every folder, below a place."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        status = path.lstat()
        if path.is_file() and not path.is_symlink():
            found[name] = (status.st_mode, status.st_mtime_ns, path.read_bytes())
        else:
            found[name] = (status.st_mode,)
    return found


def places(copy: Path) -> list[object]:
    """Options that name the copy's own folders, one of them behind a link."""
    return [
        *("--ledger", copy / "screening.db"),
        *("--runs", copy / "runs"),
        *("--pages", copy / "links/pages"),
    ]


ADMITTED = "p1,s1,2026-02-20T10:00:00,,ADMISSION,,,\n"


def words_of(copy: Path, outside: Path, name: str) -> list[list[object]]:
    """Return command lines of a command as somebody types them in a copy."""
    ledger = ("--ledger", copy / "screening.db")
    run = copy / "runs/ward" / NIGHTS[0]
    night = copy / f"in/{NIGHTS[1]}.csv"
    model = copy / "models/a"
    new = copy / "new"
    patient = read_document(run, "run")["cases"][0]["id"]
    site = ("--site", copy / "NIGHT.toml")
    score = ["score", model, night, "--date", "2026-03-03", "--series", "ward", *ledger]
    quick = [*WHO, *LOGISTIC, "--max-flag-rate", "0.3"]
    export = ["export", run, *ledger, "--to"]
    book = copy / "screening.db"
    lines = {
        "demo": [["demo", "--help"]],
        "recipes": [["recipes"]],
        # Its table [serve] is missing, so that it ends at once.
        "serve": [["serve", copy / "NIGHT.toml"]],
        "schema": [["schema", "run"]],
        "features": [
            [
                *("features", small_spec(copy / "models", ADMITTED, 'age = "age"')),
                *("--night", NIGHTS[1], "--out", copy / "new.parquet"),
            ]
        ],
        "init": [["init", copy / "past.csv", "--yes", "--out", copy / "new.toml"]],
        "check": [["check", night, "--model", model]],
        "train": [["train", copy / "past.csv", *quick, "--out", new, *ledger]],
        "compare": [
            [
                *("compare", copy / "past.csv", *WHO, "--recipes", "logistic,svm"),
                *("--folds", "2", "--search", "1", "--jobs", "1", "--out", new),
            ]
        ],
        "score": [
            [*score, "--publish", outside / "pages/ward", "--out", new],
            [*score, "--refused", outside / "refused.csv", "--out", new],
        ],
        "run": [
            ["run", copy / "NIGHT.toml", "--date", "2026-03-03"],
            ["run", copy / "NIGHT.toml", "--date", NIGHTS[1]],
        ],
        "explain": [["explain", run, patient, "--out", copy / "case.html", *ledger]],
        "export": [
            [*export, "csv", "--out", outside / "csv0"],
            [*export, "omop", "--out", outside / "omop0"],
            [*export, "csv", "--out", copy / "new.csv"],
        ],
        "report": [["report", run, *ledger]],
        "review": [
            ["review", *site],
            ["review", run, outside / "inbox/verdicts.json", *ledger],
        ],
        "outcomes": [
            ["outcomes", *site],
            [
                *("outcomes", outside / "events.csv", "--series", "ward", *ledger),
                *("--id", "id", "--time", "time", "--within", "72h"),
                *("--missed", outside / "missed.csv"),
            ],
        ],
        "history": [["history", *ledger, "--out", copy / "history.html"]],
        "validate": [
            ["validate", model, night, "--label", "ill", "--out", new],
        ],
        "threshold": [
            ["threshold", model, "--max-flag-rate", "0.2", *WHY],
            ["threshold", model, "--max-flag-rate", "0.2", *WHY, *ledger],
        ],
        "approve": [["approve", model, "--by", "A. Weber", *WHY, *ledger]],
        "retrain": [
            [
                *("retrain", "ward", model, copy / "past.csv", *ledger, "--jobs", "1"),
                *("--nights", f"{copy}/in/{{date}}.csv", "--out", new),
            ]
        ],
        "promote": [["promote", model, "--series", "ward", *WHY, *ledger]],
        "retire": [["retire", "ward", *WHY, *ledger]],
        "status": [
            ["status", *site, "--metrics", copy / "metrics.prom"],
            ["status", *site, "--series", "ward", "--give-up", "2026-03-05", *WHY],
        ],
        "forget": [
            ["forget", patient, *ledger],
            ["forget", patient, *places(copy), "--models", copy / "models"],
            ["forget", patient, *places(copy), "--models", copy / "links/models"],
        ],
        "purge": [
            ["purge", "--older-than", "1d", *ledger],
            ["purge", "--older-than", "1d", *places(copy)],
        ],
        "ledger": [
            ["ledger", "backup", book, "--to", outside / "kept", "--keep", "1"],
            ["ledger", "rebuild", book],
            ["ledger", "accept", book, "--runs", copy / "runs", *WHY],
            ["ledger", "restore", book, "--from", min((outside / "kept").iterdir())],
            [
                *("ledger", "moved", book, "--from", outside / "pages"),
                *("--to", copy / "pages", *WHY),
            ],
            ["ledger", "moved", book, *WHY],
            ["ledger", "merge", outside / "merged.csv", "--ledger", book],
        ],
    }
    return lines[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_in_copy_of_site(original, copy, name):
    """No byte, mode or time of the original changes, whichever command runs in a copy
    that has its absolute paths and links.
    """
    before = everything(original)

    for words in words_of(copy, original / "outside", name):
        result = CliRunner().invoke(app, [str(word) for word in words])
        # Refused or done, but no traceback.
        assert result.exit_code != 1, result.output
        assert everything(original) == before, words


def test_command_in_copy_every_action_of_ledger(original, copy):
    """Every action of `screen ledger` is among them."""
    lines = words_of(copy, original / "outside", "ledger")

    assert {line[1] for line in lines} == {action.value for action in Action}


def test_forget_in_copy_leaves_published_pages(original, copy):
    """Pages of the original, which have the same bytes as the copy's, stay; the answer
    lists them.
    """
    outside = original / "outside"
    run = copy / "runs/ward" / NIGHTS[0]
    patient = read_document(run, "run")["cases"][0]["id"]
    page = outside / f"pages/ward/{NIGHTS[0]}.html"
    assert page.read_bytes() == (run / "report.html").read_bytes()

    told = screen("forget", patient, *places(copy), "--json", code=5)

    answer = json.loads(told.stdout)
    assert answer["pages"] == []
    assert patient in page.read_text()
    assert patient not in (run / "report.html").read_text()
    assert any(line.startswith(f"{page}: this ledger is a") for line in answer["left"])


def test_reach_of_original_and_copy(original, copy, tmp_path):
    """An original reaches its folder, a copy what was named; neither goes through a
    link or by `..`, and a copy never into the original's folder.
    """
    named = tmp_path / "named"
    named.mkdir()

    def reached(site: Path, *folders: Path):
        with (
            open_ledger(site / "screening.db") as book,
            book.reading() as connection,
        ):
            return reach_of(connection, folders)

    own = reached(original / "site")
    assert own.covers(original / "site/runs/x")
    assert not own.covers(original / "site/../outside/x")
    assert not own.covers(original / "site/links/case0.html")
    assert not own.covers(named / "x")
    assert own.covers_copy(named / "x")
    theirs = reached(copy, named, original / "site", copy / "links")
    assert theirs.covers(named / "x")
    assert not theirs.covers(copy / "runs/x")
    assert not theirs.covers(original / "site/runs/x")
    assert not theirs.covers(original / "outside/x")
    assert not theirs.covers_copy(original / "outside/x")


def test_reach_of_copy_within_the_original(original):
    """A copy in a folder of the original reaches what was named there."""
    folder = original / "site/copy"
    folder.mkdir()
    shutil.copy(original / "site/screening.db", folder)
    with open_ledger(folder / "screening.db") as book, book.reading() as connection:
        reach = reach_of(connection, [folder])
    shutil.rmtree(folder)

    assert reach.covers(folder / "runs/x")
    assert not reach.covers(original / "site/runs/x")
