"""What is printed is typed: printed commands go through a shell as they stand."""

import ast
import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import LOGISTIC, WHO, as_json, screen, verdict_file, verdicts_on
from flow_cohorts import night_of_patients, patients, written
from kept import keep, put_back
from typer.testing import CliRunner

import screening
from faults.amounts import LONG
from faults.remedies import (
    ACKNOWLEDGE,
    AGAIN,
    BY_MODEL,
    ELSEWHERE,
    GIVE_UP,
    N_NIGHTS,
    NIGHT,
    NIGHTS_TOGETHER,
    NO_COMMAND,
    PROVOKED,
    REPLACE,
    lay_drifts,
    lay_models,
    lay_site,
    wards,
)
from faults.shell import HOSTILE, in_shell, typed
from screening.cli import app
from screening.schemas.base import Reason
from screening.schemas.reasons import REASONS
from screening.site import night
from screening.spelling import SERVER_LEDGER, command_line
from screening.store.serialization import read_document

ROOT = Path(__file__).parents[2]
TABLE_CHANGED = "CREATE INDEX mine ON cases (case_id)"
SITE = """
[site]
ledger = "l.db"
runs = "runs"
jobs = 1

[series.icu]
model = "m"
cohort = "in/{date}.csv"
catch_up = 0
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model that is trained once for all cases."""
    folder = tmp_path_factory.mktemp("model")
    past = written(patients(), folder / "past.csv")
    words = (*WHO, "--positive", "yes", *LOGISTIC, "--max-flag-rate", "0.3")
    screen("train", past, *words, "--out", folder / "m")
    return folder / "m"


@pytest.fixture
def hostile(tmp_path) -> Iterator[Path]:
    """A new folder with a hostile name, in which no name was run by a shell."""
    folder = tmp_path / HOSTILE
    folder.mkdir()
    yield folder
    assert not list(folder.rglob("pwned"))


@pytest.fixture
def site(model, tmp_path) -> Path:
    """NIGHT.toml of a site in a folder with a hostile name, and three tables."""
    return lay(model, tmp_path / HOSTILE)


def lay(model: Path, folder: Path) -> Path:
    """Lay a site without a night in a new folder; return its NIGHT.toml."""
    (folder / "in").mkdir(parents=True)
    subprocess.run(["cp", "-a", model, folder / "m"], check=True)
    for day in (1, 2, 3):
        table = night_of_patients(60, seed=day)
        written(table, folder / f"in/2026-03-0{day}.csv")
    (folder / "NIGHT.toml").write_text(SITE)
    return folder / "NIGHT.toml"


def line_of(file: Path, day: int, code: int = 0) -> dict:
    """Return the overview's line of the series on a night."""
    (line,) = as_json("run", file, "--date", f"2026-03-0{day}", code=code)["series"]
    return line


def test_command_line_hostile(tmp_path):
    """Whatever a name holds, the shell hands it on as it is, and runs nothing of it."""
    command = command_line("retire", HOSTILE, "--ledger", SERVER_LEDGER, Path("-x"))
    printed = command.replace("screen ", "printf '%s\\n' ", 1)

    ended = subprocess.run(
        ["bash", "-c", printed],
        cwd=tmp_path,
        env={"SCREEN_LEDGER": "a b", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )

    assert ended.stdout.splitlines() == ["retire", HOSTILE, "--ledger", "a b", "./-x"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def scored_kept(model, tmp_path_factory) -> Path:
    """A site after its first night."""
    site = lay(model, tmp_path_factory.mktemp("scored") / HOSTILE)
    line_of(site, 1)
    keep(site.parent)
    return site


@pytest.fixture
def scored(scored_kept) -> Path:
    """The site after its first night, which the test may change."""
    put_back(scored_kept.parent)
    return scored_kept


def test_missing_table_given_up(site):
    """The night of a table that never came is given up by the printed command."""
    line = line_of(site, 8, code=2)
    again, give_up = line["remedies"]

    typed(again, site.parent, (2,))
    # The entry is made; that no later night came is said too.
    in_shell(give_up, site.parent, code=5, WHY="the export is gone")

    assert line_of(site, 8)["status"] == "given up"
    assert not list(site.parent.rglob("pwned"))


def test_missing_table_came(site):
    """Once the table is there, the first printed command scores it."""
    again, _ = line_of(site, 8, code=2)["remedies"]
    written(night_of_patients(60, seed=8), site.parent / "in/2026-03-08.csv")

    typed(again, site.parent, (0,))

    assert line_of(site, 8)["status"] == "unchanged"


def test_night_without_rows(site):
    """A table without a row is refused; corrected, it is scored by the printed
    command.
    """
    table = site.parent / "in/2026-03-01.csv"
    whole = table.read_bytes()
    table.write_bytes(whole.splitlines(keepends=True)[0])
    line = line_of(site, 1, code=3)
    again, _ = line["remedies"]
    table.write_bytes(whole)

    typed(again, site.parent, (0,))

    assert "no data rows" in line["said"]
    assert line_of(site, 1)["status"] == "unchanged"


def test_changed_table_replaced(scored):
    """Another table of a scored night replaces it by the printed command."""
    written(night_of_patients(60, seed=9), scored.parent / "in/2026-03-01.csv")
    (replace,) = line_of(scored, 1, code=2)["remedies"]

    typed(replace, scored.parent, (0,), WHY="a corrected table")

    assert line_of(scored, 1)["status"] == "unchanged"


def test_table_of_another_night_accepted(scored):
    """A table that is yesterday's by its bytes is accepted by the printed command."""
    table = scored.parent / "in/2026-03-01.csv"
    (scored.parent / "in/2026-03-02.csv").write_bytes(table.read_bytes())
    _, accept, _ = line_of(scored, 2, code=3)["remedies"]

    typed(accept, scored.parent, (0,), WHY="nothing has changed")

    assert line_of(scored, 2)["status"] == "unchanged"


def test_threshold_takes_approval_away(site):
    """The answer says that the model is a draft again, and the printed command approves
    it.
    """
    folder = site.parent
    known = ("--known-before", "fever,crp,ward", "--reason", "it is known")
    screen("approve", folder / "m", "--by", "Dr. Weber", *known)
    why = ("--reason", "fewer flags")

    told = screen("threshold", folder / "m", "--max-flag-rate", "0.1", *why)

    approve = told.stderr.partition("somebody approves it: ")[2].splitlines()[0]
    typed(approve, folder, (0,), NAME="Dr. Weber", WHY="it is known")
    line_of(site, 1)
    assert line_of(site, 1)["approval"]["by"] == "Dr. Weber"


@pytest.fixture(scope="module")
def three_wards_kept(model, tmp_path_factory) -> Path:
    """A site with two more wards that share the model; each has two tables and a
    night.
    """
    site = lay(model, tmp_path_factory.mktemp("wards") / HOSTILE)
    second = SITE.partition("[series.icu]")[2]
    more = [f"\n[series.{name}]{second.replace('in/', f'{name}/')}" for name in "bc"]
    site.write_text(SITE + "".join(more))
    for number, name in enumerate("bc", start=1):
        (site.parent / name).mkdir()
        for day in (1, 2):
            table = night_of_patients(60, seed=20 * number + day)
            written(table, site.parent / f"{name}/2026-03-0{day}.csv")
    screen("run", site, "--date", "2026-03-01")
    keep(site.parent)
    return site


@pytest.fixture
def three_wards(three_wards_kept) -> Path:
    """The site of three wards, which the test may change."""
    put_back(three_wards_kept.parent)
    return three_wards_kept


def statuses(site: Path, day: int, code: int = 0) -> list[str]:
    """Return the status of each series on a night."""
    overview = as_json("run", site, "--date", f"2026-03-0{day}", code=code)
    return [line["status"] for line in overview["series"]]


def test_threshold_for_all_series(three_wards):
    """With all series named, no night is refused."""
    folder = three_wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu,b,c")

    told = screen("threshold", folder / "m", *change, *where)

    assert "not changed for series" not in told.stderr
    assert statuses(three_wards, 2) == ["published"] * 3


def test_threshold_for_one_series_mended(three_wards):
    """Who else uses the model is said, and the printed command gives them the change
    too; history says that their threshold changed.
    """
    folder = three_wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu")
    told = screen("threshold", folder / "m", *change, *where)
    command = told.stderr.partition("To change them too: ")[2].splitlines()[0]

    typed(command, folder, (0,), WHY="of all wards")

    assert "not changed for series b, c." in told.stderr
    assert statuses(three_wards, 2) == ["published"] * 3
    history = as_json("history", "--ledger", folder / "l.db", "--verify")
    changed = {each["series"] for each in history["threshold_changes"]}
    assert changed >= {"b", "c"}
    assert history["promotions"] == []


def test_threshold_for_all_said(three_wards):
    """Without --series the answer says who goes on with the changed model."""
    folder = three_wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")

    told = screen("threshold", folder / "m", *change, "--ledger", folder / "l.db")

    assert "series b, c, icu continue with the changed model" in told.stderr
    assert statuses(three_wards, 2) == ["published"] * 3


def test_threshold_of_a_copy(three_wards, monkeypatch):
    """A copy from which no night was scored is of no ward, though the ledger knows its
    bytes; the printed command puts it in the place of the model.
    """
    folder = three_wards.parent
    monkeypatch.setenv("SCREEN_LEDGER", str(folder / "l.db"))
    subprocess.run(["cp", "-a", folder / "m", folder / "next"], check=True)
    change = ("--max-flag-rate", "0.1", "--reason", "fewer flags")

    told = screen("threshold", folder / "next", *change)

    assert f"series b, c, icu stays with the model of {folder / 'm'}" in told.stderr
    assert statuses(three_wards, 2) == ["published"] * 3
    command = told.stderr.partition("let it replace the other one: ")[2].splitlines()[0]
    typed(command, folder, (0,), WHY="of all wards")
    three_wards.write_text(three_wards.read_text().replace('"m"', '"next"'))
    assert statuses(three_wards, 3, code=2)[0] == "published"


def test_threshold_of_one_of_two_directories(three_wards):
    """If wards have the same model in directories of their own, --series is asked for,
    and nothing is written.
    """
    folder = three_wards.parent
    subprocess.run(["cp", "-a", folder / "m", folder / "mine"], check=True)
    text = three_wards.read_text()
    three_wards.write_text(text.replace('"m"', '"mine"', 1))
    screen("run", three_wards, "--date", "2026-03-02")
    before = (folder / "m/model.json").read_bytes()
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db")

    refused = screen("threshold", folder / "m", *change, *where, code=2)

    assert "name the series that use" in refused.stderr
    assert (folder / "m/model.json").read_bytes() == before
    screen("threshold", folder / "m", *change, *where, "--series", "b,c")
    history = as_json("history", *where, "--verify")
    changed = {each["series"] for each in history["threshold_changes"]}
    assert "icu" not in changed


def test_series_without_a_name_mended(scored):
    """A series without a name gets a change of threshold by the printed command."""
    folder = scored.parent
    ledger = ("--ledger", folder / "l.db")
    for day in (1, 2):
        written(night_of_patients(60, seed=30 + day), folder / f"other-{day}.csv")
    night = ("score", folder / "m", folder / "other-1.csv", "--date", "2026-03-01")
    screen(*night, *ledger, "--out", folder / "one")
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    told = screen("threshold", folder / "m", *change, *ledger, "--series", "icu")
    command = told.stderr.partition("To change them too: ")[2].splitlines()[0]

    typed(command, folder, (0,), WHY="of all wards")

    night = ("score", folder / "m", folder / "other-2.csv", "--date", "2026-03-02")
    screen(*night, *ledger, "--out", folder / "two")
    statuses_shown = screen("status", *ledger, "--night", "2026-03-02", code=5).stdout
    assert re.search(r"series [0-9a-f]{12} \(without a name\)", statuses_shown)


def test_series_stopped_by_a_threshold(three_wards):
    """A refused night prints the one command that mends every ward it stopped, and no
    other night is lost.
    """
    folder = three_wards.parent
    change = ("--max-flag-rate", "0.2", "--reason", "fewer flags")
    where = ("--ledger", folder / "l.db", "--series", "icu")
    screen("threshold", folder / "m", *change, *where)
    overview = as_json("run", three_wards, "--date", "2026-03-02", code=2)
    first, second, third = overview["series"]

    typed(second["remedies"][0], folder, (0,), WHY="of all wards")

    assert first["status"] == "published"
    assert "recorded for other series" in second["said"]
    assert second["remedies"][0] == third["remedies"][0]
    assert statuses(three_wards, 2) == ["unchanged", "published", "published"]
    # The command of the sentence is the same for one ward, and changes nothing again.
    command = re.search("screen promote MODEL .* --reason WHY", second["said"])[0]
    assert "--series b " in command
    typed(command, folder, (0,), MODEL=str(folder / "m"), WHY="of all wards")
    assert not list(folder.rglob("pwned"))


@pytest.fixture(scope="module")
def challenged_kept(model, tmp_path_factory) -> Path:
    """A site with a challenger in shadow, its first night scored as a draft."""
    site = lay(model, tmp_path_factory.mktemp("challenged") / HOSTILE)
    folder = site.parent
    subprocess.run(["cp", "-a", folder / "m", folder / "next"], check=True)
    screen("threshold", folder / "next", "--max-flag-rate", "0.1", "--reason", "fewer")
    shadow = 'catch_up = 0\nshadow = ["next"]  # since March\n'
    site.write_text(SITE.replace("catch_up = 0\n", shadow))
    line_of(site, 1)
    keep(site.parent)
    return site


@pytest.fixture
def challenged(challenged_kept) -> Path:
    """The site with a challenger, which the test may change."""
    put_back(challenged_kept.parent)
    return challenged_kept


def approve(model: Path, *where: object) -> None:
    """Approve a model that was a draft."""
    known = ("--known-before", "fever,crp,ward", "--reason", "it is known")
    screen("approve", model, "--by", "Dr. Weber", *known, *where)


@pytest.mark.parametrize("is_told", [True, False])
def test_promotion_writes_the_site(challenged, is_told):
    """A model that was in shadow as a draft is promoted after its approval, whether or
    not the ledger was told, and the next night runs.
    """
    folder = challenged.parent
    ledger = ["--ledger", folder / "l.db", "--series", "icu"] if is_told else []
    approve(folder / "next", *ledger)
    words = ("promote", folder / "next", "--site", challenged, "--series", "icu")

    answer = as_json(*words, "--reason", "fewer flags")

    assert answer["beside"]["nights"] == 1
    text = challenged.read_text()
    assert 'model = "next"' in text
    assert "shadow = []  # since March" in text
    line = line_of(challenged, 2)
    assert line["status"] == "published"
    assert line["model"] == answer["champion"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_promotion_without_the_site(challenged, is_listed):
    """Until NIGHT.toml names the new champion, the refused night prints what writes it,
    whether or not the file lists that model in shadow.
    """
    folder = challenged.parent
    listed = 'shadow = ["next"]' if is_listed else "shadow = []"
    challenged.write_text(challenged.read_text().replace('shadow = ["next"]', listed))
    approve(folder / "next")
    where = ("--ledger", folder / "l.db", "--series", "icu", "--reason", "fewer")
    answer = as_json("promote", folder / "next", *where)
    assert "under [series." in answer["next"]
    command, again, _ = line_of(challenged, 2, code=2)["remedies"]

    typed(command, folder, (0,), WHY="fewer flags")
    typed(again, folder, (0,))

    assert line_of(challenged, 2)["status"] == "unchanged"
    assert not list(folder.rglob("pwned"))


def test_promotion_line_is_read(challenged):
    """The printed line names the model, whatever its path holds."""
    folder = challenged.parent
    approve(folder / "next")
    where = ("--ledger", folder / "l.db", "--series", "icu", "--reason", "fewer")
    answer = as_json("promote", folder / "next", *where)
    line = answer["next"].partition("write ")[2].partition(" under")[0]

    text = challenged.read_text().replace('model = "m"', line)
    challenged.write_text(text.replace('shadow = ["next"]', ""))

    assert line_of(challenged, 2)["status"] == "published"


def lines_by_series(file: Path, date: str) -> dict[str, dict]:
    """Return the lines of the overview of a night by series."""
    result = CliRunner().invoke(app, ["run", str(file), "--date", date, "--json"])
    return {line["series"]: line for line in json.loads(result.stdout)["series"]}


def codes_of(reasons: list[dict]) -> set[str]:
    """Return the codes of reasons."""
    return {reason["code"] for reason in reasons}


def test_reasons_listed():
    """Each reason has its case, or says why no command is printed for it."""
    cases = [*PROVOKED, *BY_MODEL, *ELSEWHERE, *NO_COMMAND]

    assert len(cases) == len(set(cases))
    where = "cases are in tests/faults/remedies.py: PROVOKED, or NO_COMMAND"
    assert set(cases) == set(REASONS), where
    for code in NO_COMMAND:
        assert len(NO_COMMAND[code]) > 10
    for place in ELSEWHERE.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text()


def test_no_command_printed():
    """The line of a night prints no command for a reason that has none."""
    line = SimpleNamespace(night=NIGHT, series="ward")
    network = SimpleNamespace(file=Path("NIGHT.toml"))
    without = [
        Reason(code, "Something.", None, None, None, None) for code in NO_COMMAND
    ]

    assert night._remedies(network, line, without) == []


# By module and function that prints commands, the tests that type them.
TYPED = {
    # Types what the first day prints.
    "cli/demo.py:_whole_job": "test_first_day.py",
    "cli/ledger.py:_restore": "test_restored_ledger_goes_on",
    "cli/revisions.py:_note_earlier_answers": "test_approval.py",
    "ledger/database.py:_repairing": "test_altered_tables_rebuilt",
    "scoring/erasing.py:_gone": "test_forget.py",
    "site/inbox.py:_read_one": "test_verdicts_of_a_lost_section",
    "cli/revisions.py:_note_lost_approval": "test_threshold_takes_approval_away",
    "cli/revisions.py:_note_without_ledger": "test_threshold_without_the_ledger",
    "cli/revisions.py:_promotion": "test_threshold_for_one_series_mended",
    "ledger/location.py:refuse_copy": "test_copy_moved",
    "ledger/model_registry.py:refuse_other": "test_series_stopped_by_a_threshold",
    "ledger/verifying.py:_entered_elsewhere": "test_ledger_restored",
    "ledger/verifying.py:refuse_older": "test_older_ledger_accepted",
    "model_selection/approving.py:refuse_draft": "test_draft_approved",
    "recipes/encoders.py:_check_points": "test_points_without_columns",
    "site/champion.py:_command": "test_series_stopped_by_a_threshold",
    "site/champion.py:model_command": "test_reasons_mended_by_model",
    "site/findings.py:_options": "test_network.py",
    "site/missing.py:retire_command": "test_missing_series.py",
    "site/night.py:_faults_of_slips": "test_missing_series.py",
    "site/night.py:_remedies": "test_reasons_mended",
    "site/outcomes.py:_remedies": "test_outcome_ids.py",
    "site/night.py:failed": "test_missing_table_given_up",
}


def printing_functions() -> set[str]:
    """Return module and function of each call that makes a printed command."""
    top = Path(screening.__file__).parent
    found = set()
    for path in sorted(top.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                calls = {
                    call.func.id
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
                }
                if "command_line" in calls:
                    found.add(f"{path.relative_to(top)}:{node.name}")
    return found


# A command, or an option, before a value that is put in.
BEFORE_VALUE = re.compile(r"(\bscreen [a-z]+|(^|[\s(`])--[a-z-]+) $")
# A message begins with the option that was typed and its value, to say what is wrong.
TYPED_BEFORE = {"--out ", "--night ", "--time-zone ", "--only "}


def values_put_in() -> set[str]:
    """Return the place of each text that puts a value behind a command or an option."""
    top = Path(screening.__file__).parent
    found = set()
    for path in sorted(top.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            pairs = pairwise(node.values) if isinstance(node, ast.JoinedStr) else ()
            for before, value in pairs:
                text = before.value if isinstance(before, ast.Constant) else ""
                is_value = isinstance(value, ast.FormattedValue)
                is_told = is_value and text not in TYPED_BEFORE
                if is_told and BEFORE_VALUE.search(text):
                    found.add(f"{path.relative_to(top)}:{before.lineno}")
    return found


def test_commands_in_sentences_typed():
    """A remedy that has a whole command, with words in capitals, is typed by a test."""
    whole = {
        code
        for code, kind in REASONS.items()
        if re.search(r"screen [a-z]+ ([A-Z]{2,}|--)|screen status\{", kind.remedy)
    }

    assert whole == {"over_capacity", "column_drifts", "scores_drift", "flags_drift"}
    assert "over_capacity" in BY_MODEL
    assert ELSEWHERE["column_drifts"] == NIGHTS_TOGETHER


def test_values_of_printed_options_quoted():
    """No text puts a value behind a command or an option by itself: what a shell would
    act on reaches it quoted.
    """
    assert values_put_in() == set()


def test_printed_commands_listed():
    """Whatever prints a command has a test that types it."""
    here = Path(__file__)
    tests = {path.name for path in here.parents[1].glob("test_*.py")}
    tests |= set(re.findall(r"^def (test_\w+)", here.read_text(), re.MULTILINE))

    assert printing_functions() == set(TYPED)
    assert set(TYPED.values()) <= tests


@pytest.mark.first
def test_reasons_mended(hostile):
    """Each reason for attention is provoked in a ward of its own; the command that its
    night prints is typed, and does what it promises.
    """
    listed = wards(every=LONG)
    file = lay_site(hostile, listed)
    before = lines_by_series(file, NIGHT)

    for ward in listed:
        line = before[ward.name]
        is_stopped = REASONS[ward.code].stops and line["exit_code"] == 3
        assert is_stopped or ward.code in codes_of(line["attention"]), line
        command = ward.command(line["remedies"])
        if ward.promise in (REPLACE, AGAIN):
            ward.mend(hostile)
        # A night of the past is never due: status says so, and has entered it.
        asks_status = ward.promise in (ACKNOWLEDGE, GIVE_UP)
        typed(command, hostile, (5,) if asks_status else (0,))

    after = lines_by_series(file, NIGHT)
    for ward in listed:
        line = after[ward.name]
        status = "given up" if ward.promise == GIVE_UP else "unchanged"
        assert line["status"] == status, line
        assert ward.code not in codes_of(line["attention"]), line
        silenced = ward.code in codes_of(line["acknowledged"])
        assert silenced == (ward.promise == ACKNOWLEDGE), line


def test_reasons_mended_by_model(hostile):
    """What only the model settles is gone on the next night, once the printed command
    was typed.
    """
    file = lay_models(hostile)
    before = lines_by_series(file, "2026-01-01")

    for code, (command, words) in BY_MODEL.items():
        line = before[code]
        assert code in codes_of(line["attention"]), line
        (printed,) = [each for each in line["remedies"] if f" {command} " in each]
        typed(printed, hostile, (0,), **words)

    after = lines_by_series(file, "2026-01-02")
    for code in BY_MODEL:
        assert after[code]["status"] == "published", after[code]
        assert code not in codes_of(after[code]["attention"]), after[code]


@pytest.mark.skipif(not LONG, reason="scores eighty nights")
def test_drifts_acknowledged(hostile):
    """What nights show together, of a ward and of the site, is silent once the printed
    commands, and those of the sentences, were typed.
    """
    file = lay_drifts(hostile)
    tonight = f"2026-01-{N_NIGHTS}"
    overview = as_json("run", file, "--date", tonight)
    together = ("column_drifts", "scores_drift", "flags_drift", "outbreak")
    of_series = [
        (line, reason) for line in overview["series"] for reason in line["attention"]
    ]
    printed = [
        command
        for line in overview["series"]
        for command in line["remedies"]
        if any(f"--acknowledge {code} " in command for code in together)
    ]
    sentences = [reason["remedy"] for reason in overview["attention"]]
    sentences += [
        reason["remedy"] for _, reason in of_series if reason["code"] in together
    ]
    found = codes_of([reason for _, reason in of_series])
    assert found >= set(together)
    assert codes_of(overview["attention"]) == {"column_drifts"}

    for sentence in sentences:
        printed += re.findall("screen status .* --reason WHY", sentence)
    for command in printed:
        typed(command, hostile, (5,))

    after = as_json("run", file, "--date", tonight)
    left = codes_of(
        [reason for line in after["series"] for reason in line["attention"]]
    )
    assert left.isdisjoint(together)
    assert after["attention"] == []


def test_altered_list_noticed(scored):
    """A list of flagged cases that somebody changed is named by run, status and
    history; moved away, it is written again by the printed command.
    """
    flagged = scored.parent / "runs/icu/2026-03-01/flagged.csv"
    before = flagged.read_bytes()
    flagged.write_bytes(before + b"7,my note\n")
    said = f"{flagged} has been changed"
    ledger = ("--ledger", scored.parent / "l.db")

    line = line_of(scored, 1, code=2)
    status = as_json("status", "--site", scored, "--night", "2026-03-01", code=5)
    verified = screen("history", *ledger, "--verify", code=4)

    assert line["said"].startswith(said)
    assert said in status["series"][0]["said"]
    assert verified.stderr.startswith(f"screen: {said}")
    (again,) = line["remedies"]
    flagged.rename(scored.parent / "mine.csv")
    typed(again, scored.parent, (0,))
    assert flagged.read_bytes() == before
    assert line_of(scored, 1)["status"] == "unchanged"
    screen("history", *ledger, "--verify")


def test_ledger_elsewhere_leaves_nothing(scored):
    """A slip in the ledger's path begins no empty ledger beside the nights' runs."""
    text = scored.read_text()
    scored.write_text(text.replace('"l.db"', '"elsewhere/l.db"'))

    refused = screen("run", scored, "--date", "2026-03-02", code=4)

    assert "elsewhere/l.db is not there" in refused.stderr
    assert not (scored.parent / "elsewhere").exists()
    scored.write_text(text)
    assert line_of(scored, 2)["status"] == "published"


def test_place_of_run_by_its_key(site):
    """A refused night names the key of NIGHT.toml, and no option that run lacks."""
    out = site.parent / "runs/icu/2026-03-01"
    out.mkdir(parents=True)
    (out / "notes.txt").write_text("mine")

    line = line_of(site, 1, code=2)

    assert "give another `out` under [series.icu]" in line["said"]
    assert "--out" not in line["said"]


def test_command_without_out(model, tmp_path):
    """A command that has no --out does not offer one."""
    subprocess.run(["cp", "-a", model, tmp_path / "m"], check=True)
    (tmp_path / "m" / "notes.txt").write_text("mine")

    refused = screen("approve", tmp_path / "m", "--by", "A. Weber", code=2)

    assert "notes.txt" in refused.stderr
    assert "--out" not in refused.stderr


def test_approval_without_the_ledger(scored):
    """A series whose model was approved without the ledger goes on by the printed
    command.
    """
    approve(scored.parent / "m")
    promote, *_ = line_of(scored, 2, code=2)["remedies"]

    typed(promote, scored.parent, (0,))

    assert line_of(scored, 2)["approval"]["by"] == "Dr. Weber"


@pytest.mark.parametrize("is_of_answer", [True, False])
def test_threshold_without_the_ledger(three_wards, monkeypatch, is_of_answer):
    """A change that the ledger was not told of stops every ward of the model; the
    command of the answer gives it to them, and so does the one of the refused nights.
    """
    folder = three_wards.parent
    monkeypatch.chdir(folder)
    change = ("--max-flag-rate", "0.1", "--reason", "fewer flags")
    answered = screen("threshold", folder / "m", *change)
    overview = as_json("run", three_wards, "--date", "2026-03-02", code=2)
    printed = {line["remedies"][0] for line in overview["series"]}
    if is_of_answer:
        command = answered.stderr.partition("they get the change: ")[2].splitlines()[0]
        printed = {command.replace("SERIES", "icu,b,c")}

    (command,) = printed
    typed(command, folder, (0,))

    assert statuses(three_wards, 2) == ["published"] * 3
    history = as_json("history", "--ledger", folder / "l.db", "--verify")
    changes = history["threshold_changes"]
    assert {each["series"] for each in changes} == {"icu", "b", "c"}
    rules = [each["classes"][0]["rule_after"]["value"] for each in changes]
    assert rules == [0.1] * 3


def test_copy_moved(scored):
    """A copy of a site takes no nights, until the printed command says it has moved."""
    moved = scored.parent.with_name("moved")
    scored.parent.rename(moved)
    refused = screen("run", moved / scored.name, "--date", "2026-03-02", code=4)
    command = re.search(r"screen ledger moved .* --reason WHY", refused.stderr)[0]

    typed(command, moved, (0,))

    assert line_of(moved / scored.name, 2)["status"] == "published"


def test_ledger_restored(scored):
    """A ledger that was lost is put back from its backup by the printed command."""
    folder = scored.parent
    screen("ledger", "backup", folder / "l.db", "--to", folder / "kept")
    (backup,) = (folder / "kept").iterdir()
    (folder / "l.db").unlink()
    refused = screen("run", scored, "--date", "2026-03-02", code=4)
    command = re.search(r"screen ledger restore .* BACKUP", refused.stderr)[0]

    typed(command, folder, (0,), BACKUP=str(backup))

    assert line_of(scored, 2)["status"] == "published"


def test_restored_ledger_goes_on(scored):
    """A backup that lacks nights is put back; the printed command goes on with it."""
    folder = scored.parent
    screen("ledger", "backup", folder / "l.db", "--to", folder / "kept")
    (backup,) = (folder / "kept").iterdir()
    line_of(scored, 2)
    told = screen("ledger", "restore", folder / "l.db", "--from", backup)
    command = re.search("screen ledger accept .* --reason WHY", told.stderr)[0]
    assert screen("run", scored, "--date", "2026-03-03", code=4)

    typed(command, folder, (0,), RUNS=str(folder / "runs"))

    assert line_of(scored, 3)["status"] == "published"


def test_older_ledger_accepted(scored):
    """A ledger older than the runs beside it goes on by the printed command."""
    folder = scored.parent
    older = (folder / "l.db").read_bytes()
    line_of(scored, 2)
    (folder / "l.db").write_bytes(older)
    refused = screen("run", scored, "--date", "2026-03-03", code=4)
    command = re.search(r"screen ledger accept .* --reason WHY", refused.stderr)[0]

    typed(command, folder, (0,))

    assert line_of(scored, 3)["status"] == "published"


COLUMNS_OF_QSOFA = {
    '"respiratory_rate"\nfrom = [22]': '"fever"\nfrom = [38]',
    '"systolic_blood_pressure"': '"crp"',
    '"altered_mentation"': '"ward"',
    "{ yes = 1, no = 0 }": "{ icu = 1, medicine = 0, surgery = 0 }",
}


def test_points_without_columns(tmp_path):
    """A table of points whose columns a cohort has not is copied by the printed
    command; with its own columns named, the copy trains.
    """
    past = written(patients(), tmp_path / "past.csv")
    words = (*WHO, "--positive", "yes", "--max-flag-rate", "0.3")
    out = ("--out", tmp_path / "m")
    refused = screen("train", past, *words, "--recipe", "qsofa", *out, code=2)
    command = re.search("`(screen .*)`", refused.stderr)[1]

    copied = typed(command, tmp_path, (0,))

    for theirs, ours in COLUMNS_OF_QSOFA.items():
        copied = copied.replace(theirs, ours)
    recipe = tmp_path / "mine.toml"
    recipe.write_text(copied)
    screen("train", past, *words, "--recipe", recipe, "--beside", "none", *out)
    # The name of a recipe of somebody's own is no word for `screen recipes`.
    recipe.write_text(copied.replace('"qsofa"', json.dumps(HOSTILE)))
    no_column = ("--drop", "ward", "--out", tmp_path / "other")
    refused = screen("train", past, *words, "--recipe", recipe, *no_column, code=2)
    assert refused.stderr.strip().endswith("no feature ward; name your columns in it")


def altered(site: Path, statement: str) -> None:
    """Change the ledger of a site behind its back."""
    with closing(sqlite3.connect(site.parent / "l.db")) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("change", ["UPDATE champions SET model = 'x'", TABLE_CHANGED])
def test_altered_tables_rebuilt(scored, change):
    """Tables that differ from the trail are made again by the printed command."""
    altered(scored, change)
    ledger = ("--ledger", scored.parent / "l.db")
    refused = screen("history", *ledger, "--verify", code=4)
    command = re.search("screen ledger rebuild .*", refused.stderr)[0]

    typed(command, scored.parent, (0,))

    screen("history", *ledger, "--verify")
    assert line_of(scored, 2)["status"] == "published"


def test_altered_value_found(scored):
    """A value that no command wrote is an error; the printed command finds what was
    changed, and prints what makes it again.
    """
    altered(scored, "UPDATE runs SET night = x'00'")
    refused = screen("status", "--ledger", scored.parent / "l.db", code=4)
    command = re.search("screen history .* --verify", refused.stderr)[0]

    typed(command, scored.parent, (4,))

    again = screen("history", "--ledger", scored.parent / "l.db", "--verify", code=4)
    rebuild = re.search("screen ledger rebuild .*", again.stderr)[0]
    typed(rebuild, scored.parent, (0,))
    assert line_of(scored, 2)["status"] == "published"


def test_verdicts_of_a_lost_section(scored):
    """Verdicts on a series that NIGHT.toml lacks are read by the printed command."""
    folder = scored.parent
    run = folder / "runs/icu/2026-03-01"
    case = read_document(run, "run")["cases"][0]["id"]
    (folder / "inbox").mkdir()
    file = verdict_file(run, verdicts_on([case], "confirmed"))
    file = file.rename(folder / "inbox" / file.name)
    text = scored.read_text().replace("[series.icu]", "[series.other]")
    scored.write_text(text)
    waiting = screen("review", "--site", scored, folder / "inbox", code=5)
    command = re.search(
        "screen review RUN .*", waiting.stdout.replace("\n      ", " ")
    )[0]

    typed(command, folder, (0,), RUN=str(run))

    history = as_json("history", "--ledger", folder / "l.db")
    assert history["series"][0]["verdicts"]["confirmed"] == 1


def test_draft_approved(scored):
    """A draft is not promoted; the printed command approves it."""
    folder = scored.parent
    promote = ("promote", folder / "m", "--reason", "fewer flags", "--series", "icu")
    subprocess.run(["cp", "-a", folder / "m", folder / "next"], check=True)
    change = ("--max-flag-rate", "0.1", "--reason", "fewer")
    screen("threshold", folder / "next", *change)
    night = (folder / "in/2026-03-01.csv", "--date", "2026-03-01", "--series", "icu")
    ledger = ("--ledger", folder / "l.db")
    out = ("--out", folder / "shadow", "--shadow")
    screen("score", folder / "next", *night, *ledger, *out)
    promote = ("promote", folder / "next", *promote[2:], *ledger)
    refused = screen(*promote, code=2)
    command = refused.stderr.partition("approve it first with ")[2].splitlines()[0]

    typed(command, folder, (0,))

    screen(*promote)
