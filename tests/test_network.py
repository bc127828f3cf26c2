"""A site's night: every series by itself, nothing twice or missed, one overview that
names no patient."""

import contextlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import as_json, screen
from flow_cohorts import night_of_patients, patients, written
from hung import HUNG_SECONDS
from hypothesis import given, settings
from hypothesis import strategies as st
from written_files import contents_of, names_in, page_in, read_json

from screening import open_ledger
from screening.cli.logs import KEYS
from screening.errors import UsageError
from screening.ledger.entries import Night, stated
from screening.report.page import render_overview
from screening.schemas import reasons
from screening.schemas.base import Reason
from screening.schemas.figures import MaxFlagRate
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.reasons import REASONS
from screening.site import findings, night
from screening.site.findings import Findings
from screening.site.night import WORST_FIRST, worst
from screening.site.processes import PRELOADED, Budget, Processes, run_hooks
from screening.site.site import read_network
from screening.store.model import save_model
from screening.store.publishing import hold

ROOT = Path(__file__).parents[1]
NIGHT = "2026-03-03"
SITE = """
[site]
ledger = "l.db"
publish = "pages"
mode = "0640"
jobs = 2
hooks = [["/bin/sh", "-c", "cat > told.json"], ["/bin/false"]]

[series.ward-a]
model = "m"
cohort = "in/a/{date}.csv"
shadow = ["m2"]
memory_mb = 20

[series.ward-b]
model = "m"
cohort = "in/b/{date}.csv"
"""


def table(folder, ward: str, day: int, seed: int):
    place = folder / "in" / ward
    place.mkdir(parents=True, exist_ok=True)
    return written(night_of_patients(60, seed=seed), place / f"2026-03-{day:02d}.csv")


@pytest.fixture(scope="module")
def site(cohort, trained, tmp_path_factory):
    """A site after its first night: ward a with a missed night and a shadow, ward b
    without a table.
    """
    folder = tmp_path_factory.mktemp("site")
    save_model(trained(cohort, "logistic", search=1), folder / "m")
    flagging_fewer = trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.1))
    save_model(flagging_fewer, folder / "m2")
    table(folder, "a", 2, seed=1)
    table(folder, "a", 3, seed=2)
    (folder / "NIGHT.toml").write_text(SITE)
    return folder


@pytest.fixture(scope="module")
def first(site):
    with contextlib.chdir(site):
        return screen(
            "--log", "json", "run", "NIGHT.toml", "--date", NIGHT, "--json", code=2
        )


def states(lines) -> list[tuple[str, str, str]]:
    return [(line["series"], line["night"], line["status"]) for line in lines]


def line_of(answer: dict, series: str) -> dict:
    (line,) = [line for line in answer["series"] if line["series"] == series]
    return line


def test_first_night_of_a_site(site, first):
    """One series that fails stops no other, and missed nights are caught up."""
    answer = json.loads(first.stdout)

    assert states(answer["series"]) == [
        ("ward-a", NIGHT, "published"),
        ("ward-b", NIGHT, "failed"),
    ]
    assert states(answer["caught_up"]) == [("ward-a", "2026-03-02", "published")]
    assert answer["exit_code"] == 2
    document = answer.copy()
    del document["overview"], document["hooks"]
    assert OverviewDocument.from_dict(document, "the overview").night == NIGHT
    # A shadow is scored and shown to nobody.
    shadows = answer["shadows"]
    assert states(shadows) == [
        ("ward-a", "2026-03-02", "published"),
        ("ward-a", NIGHT, "published"),
    ]
    assert [line["page"] for line in shadows] == [None, None]
    assert not list((site / "runs" / "ward-a").glob("*.shadow-m2/report.html"))
    # Hooks are told, and their failure spoils nothing.
    hooks = [(hook["command"], hook["fine"]) for hook in answer["hooks"]]
    assert hooks == [
        ("sh", True),
        ("false", False),
    ]
    assert read_json(site / "told.json")["exit_code"] == 2


def test_overview_links(site, first):
    """The overview links to pages that exist, and names no patient."""
    page = (site / "pages" / f"{NIGHT}.html").read_text()
    series = json.loads(first.stdout)["series"][0]
    names = [*patients(60, seed=1)["patient"], *patients(60, seed=2)["patient"]]
    attention = series["attention"]
    (memory,) = [each for each in attention if each["code"] == "over_memory"]
    printed = page + first.stdout + first.stderr

    assert (site / "pages" / series["page"]).is_file()
    assert f'href="{series["page"]}"' in page
    assert (site / "pages" / "latest.html").read_text() == page
    assert [name for name in names if name in printed] == []
    assert "script" not in page.replace("noscript", "")
    # More memory than the series claims.
    assert memory["figure"] > memory["threshold"] == 20
    assert memory["words"] in unescape(page)


def test_log_of_all_series(first):
    """Lines of the log have declared keys and name the series that failed."""
    lines = [json.loads(line) for line in first.stderr.splitlines()]
    of_runs = [line for line in lines if "run" in line]
    runs = sorted({(line["series"], line["night"]) for line in of_runs})
    failed = [line["series"] for line in lines if line.get("exit_code") == 2]
    assert all(set(line) <= set(KEYS) for line in lines)
    assert failed == ["ward-b"]
    assert runs == [("ward-a", "2026-03-02"), ("ward-a", NIGHT)]


def test_run_in_copy_of_site(site, first, tmp_path, monkeypatch):
    """A night of a copied site is refused before anything is scored, with the
    original.
    """
    monkeypatch.chdir(shutil.copytree(site, tmp_path / "copy"))
    before = sorted(Path("runs").rglob("*.json"))
    night = ["run", "NIGHT.toml", "--date", "2026-03-04"]

    refused = screen(*night, code=4).stderr
    after = sorted(Path("runs").rglob("*.json"))
    screen("ledger", "moved", "l.db", "--reason", "a rehearsal")

    assert f"with the original at {site / 'l.db'}" in refused
    assert f"screen ledger moved {tmp_path / 'copy' / 'l.db'} --reason WHY" in refused
    assert after == before
    # Ward b has no table.
    screen(*night, code=2)
    screen("history", "--ledger", "l.db", "--verify")


@pytest.fixture
def again(site, first, tmp_path, monkeypatch):
    """The site as the first night left it, moved to a place of its own."""
    monkeypatch.chdir(shutil.copytree(site, tmp_path / "site"))
    screen("ledger", "moved", "l.db", "--reason", "another place for every test")
    return tmp_path / "site"


def test_run_again_late_table(again):
    """A night that was scored stays; one whose table came late is scored."""
    run = ["run", "NIGHT.toml", "--date", NIGHT]
    scored = again / "runs" / "ward-a" / NIGHT / "run.json"
    before = scored.stat().st_mtime_ns
    table(again, "b", 3, seed=3)
    shutil.copy("l.db", "older.db")
    answer = as_json(*run)

    assert states(answer["series"]) == [
        ("ward-a", NIGHT, "unchanged"),
        ("ward-b", NIGHT, "published"),
    ]
    assert answer["caught_up"] == []
    assert scored.stat().st_mtime_ns == before
    # A copy of the ledger from before it is older than what stands among the site's
    # runs.
    shutil.copy("older.db", "l.db")
    assert (
        "the ledger is older than"
        in screen("status", "--site", "NIGHT.toml", code=4).stderr
    )
    # One that was lost is not begun anew in silence.
    Path("l.db").unlink()
    assert "l.db is not there" in screen(*run, code=4).stderr
    assert not Path("l.db").exists()
    screen("ledger", "accept", "l.db", "--runs", "runs", "--reason", "the disk is gone")
    screen(*run)


@pytest.mark.parametrize("replaced_by", ["none", "another"])
def test_ledger_lost_or_replaced(again, replaced_by):
    """No command goes on with a ledger that is not the one of its run directories."""
    Path("l.db").unlink()
    entered = ["--ledger", "l.db", "--series", "ward-a"]
    if replaced_by == "another":
        other = ["score", "m", f"in/a/{NIGHT}.csv", "--out", "elsewhere/run"]
        screen(*other, "--date", NIGHT, *entered)
    out = Path("runs/ward-a/2026-03-04")
    night = table(again, "a", 4, seed=5)
    score = ["score", "m", night, "--out", out]
    score += ["--date", out.name, *entered]

    refused = [
        screen(*score, code=4),
        screen("run", "NIGHT.toml", "--date", "2026-03-04", code=4),
        screen("status", "--site", "NIGHT.toml", code=4),
    ]

    command = {"none": "restore", "another": "accept"}[replaced_by]
    for result in refused:
        assert f"screen ledger {command} {again / 'l.db'} --" in result.stderr
    assert not out.exists()
    screen("ledger", "accept", "l.db", "--runs", "runs", "--reason", "the disk is gone")
    screen(*score)


def test_run_restores_pages(again):
    """Lost and altered pages are drawn again, and what was killed is removed."""
    pages = again / "pages" / "ward-a"
    runs = again / "runs" / "ward-a"
    before = contents_of(pages)
    for name in ("2026-03-02.html", "latest.html"):
        (pages / name).unlink()
    (pages / f"{NIGHT}.html").write_text("altered")
    (pages / ".2026-03-01.html.partial").touch()
    for ending in ("partial", "screening-lock"):
        (runs / f".2026-03-01.{ending}").touch()
    run = (runs / NIGHT / "run.json").stat().st_mtime_ns
    screen("run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-a")

    assert contents_of(pages) == before
    assert not list(runs.glob(".*"))
    assert (runs / NIGHT / "run.json").stat().st_mtime_ns == run


def test_a_night_that_somebody_else_writes_is_waited_for(again):
    table(again, "b", 3, seed=3)
    guard = hold(again / "runs" / "ward-b" / NIGHT)
    guard.__enter__()
    threading.Timer(1, guard.__exit__, (None, None, None)).start()
    answer = as_json("run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-b")
    _, *of_b = states(answer["series"])
    assert of_b == [("ward-b", NIGHT, "published")]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="asks /proc")
def test_passwords_hidden(again, monkeypatch):
    """Passwords are in no list of processes, and no hook inherits them."""
    monkeypatch.setenv("WARD_URL", "postgresql://reader:s3cr3t@127.0.0.1:1/ward")
    monkeypatch.setenv("SCREEN_LEDGER", str(again / "l.db?s3cr3t"))
    hook = 'hooks = [["/bin/sh", "-c", "cat /proc/self/environ > environ"]]'
    series = (
        '[series.ward-b]\nmodel = "m"\ncohort = "$WARD_URL"\ntable = "past_{date}"\n'
    )
    (again / "NIGHT.toml").write_text(f'[site]\nledger = "l.db"\n{hook}\n{series}')
    lists = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    lists.add(place.read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    only = ("--only", "ward-b")
    answer = as_json("run", "NIGHT.toml", "--date", NIGHT, *only, code=2)
    over.set()
    watcher.join()

    assert "postgresql://127.0.0.1:1/ward" in answer["series"][0]["said"]
    written = [*lists, json.dumps(answer).encode()]
    assert [words for words in written if b"s3cr3t" in words] == []
    given = (again / "environ").read_bytes()
    assert b"PATH=" in given
    assert b"s3cr3t" not in given


def test_status_of_site(again):
    """Every series of the site's file is due until its night is given up."""
    due = ["status", "--site", "NIGHT.toml", "--night", NIGHT]
    missing = screen(*due, code=5).stdout
    assert "ward-b  no run has been published yet" in missing
    assert "ok         ward-a" not in missing
    screen(*due, "--give-up", NIGHT, "--reason", "x", code=2)
    screen(
        *due, "--series", "ward-b", "--give-up", NIGHT, "--reason", "the analyser broke"
    )
    answer = as_json("run", "NIGHT.toml", "--date", NIGHT)
    _, *of_b = states(answer["series"])
    assert of_b == [("ward-b", NIGHT, "given up")]
    assert "the analyser broke" in (again / "pages" / "latest.html").read_text()


def test_two_tables_of_one_night(again, place):
    """The second table of a night waits for the first and is refused."""
    tables = [table(again, "x", 9, 1), table(again, "y", 9, 2)]
    processes = Processes()
    codes = []

    def scored(number: int, name: str) -> None:
        words = [
            "score",
            "m",
            "--date",
            "2026-03-09",
            "--series",
            name,
            "--out",
            f"run{number}{name}",
        ]
        secrets = {"SCREEN_LEDGER": place, "SCREEN_COHORT": str(tables[number])}
        ended = processes.run(words, secrets, 1, HUNG_SECONDS)
        codes.append(ended.code)

    for name in ("one", "two", "three"):
        threads = [
            threading.Thread(target=scored, args=(number, name)) for number in (0, 1)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    for first in (0, 2, 4):
        assert sorted(codes[first : first + 2]) == [0, 2]
    for name in ("one", "two", "three"):
        assert len(list(again.glob(f"run?{name}"))) == 1


def test_only_some_series(again):
    """With --only a changed table is refused, and other series stay as they are."""
    table(again, "a", 3, seed=9)
    page = (again / "pages" / "ward-a" / "latest.html").read_bytes()
    run = ("run", "NIGHT.toml", "--date", NIGHT, "--only")
    of_b = as_json(*run, "ward-b", code=2)["series"]
    of_a = as_json(*run, "ward-a", code=2)["series"]
    left_out = ("ward-a", NIGHT, "left out")
    assert states(of_b) == [left_out, ("ward-b", NIGHT, "failed")]
    assert "another table for the night" in of_a[0]["said"]
    assert (again / "pages" / "ward-a" / "latest.html").read_bytes() == page


def test_rule_of_series(again):
    """A model by another rule than the agreed one is refused."""
    (again / "NIGHT.toml").write_text(
        SITE.replace('shadow = ["m2"]', "rule = {max_flag_rate = 0.2}")
    )
    table(again, "a", 4, seed=4)
    words = ["run", "NIGHT.toml", "--date", "2026-03-04", "--only", "ward-a"]
    line, *_ = as_json(*words, code=4)["series"]
    said = line["said"]
    assert "the series states at most 20 flags per 100 rows" in said


A_MODEL = "[series.a]\nmodel='m'\ncohort='c'\n"
FAULTY = "[series.a]\nmodel='m'\ncohort='in/{dat}.csv'\nout='same'\n[series.each]\nmodel='m'\n[sereis.b]\n"
PLANS = [
    # Every fault of a file is named at once, with what was meant.
    (
        FAULTY,
        [
            "did you mean 'series'",
            "{dat}",
            "did you mean 'date'",
            "series.a.out",
            "series.each.cohort",
            "cannot be named 'each'",
        ],
    ),
    ("ledgr='l.db'\n" + A_MODEL, ["did you mean 'ledger'"]),
    (A_MODEL + "jobs=9\n", ["series.a.jobs: 9 is more than the 2"]),
    (
        "[series.a]\nmodel='m'\ncohort='runs/in/{date}'\nout='in/{date}/out'\n",
        ["series' table"],
    ),
    (((A_MODEL + "out='{date}'\n") * 2).replace("a]", "b]", 1), ["same place"]),
    (A_MODEL + "shadow=['x/m','y/m']\n", ["the same name"]),
    ("", ["no series"]),
    (A_MODEL.replace("a", "'latest.html'", 1), ["name the series 'latest'"]),
    (A_MODEL.replace("'c'", "'in/$'"), ["write $$"]),
]


@pytest.mark.parametrize(("text", "words"), PLANS)
def test_plans_that_cannot_work_together_are_refused(tmp_path, text, words):
    (tmp_path / "N.toml").write_text(f"[site]\nledger='l.db'\njobs=2\n{text}")
    with pytest.raises(UsageError) as refused:
        read_network(tmp_path / "N.toml")
    untold = [word for word in words if word not in str(refused.value)]
    assert untold == []


def test_cluster_unreachable(tmp_path):
    """Without the cluster nothing is begun."""
    (tmp_path / "NIGHT.toml").write_text(SITE)
    screen("run", tmp_path / "NIGHT.toml", "--cluster", "local:none", code=2)
    assert names_in(tmp_path) == {"NIGHT.toml"}


@given(st.lists(st.sampled_from([*WORST_FIRST, 137, -9]), min_size=1))
def test_worst_any_order(codes):
    """The worst exit code does not depend on the order."""
    code = worst(codes)
    assert code == worst(reversed(codes))
    assert code == worst([*codes, 0])
    assert code in WORST_FIRST
    assert (code == 0) == (set(codes) == {0})


claim = st.tuples(st.integers(1, 3), st.integers(1, 100))


@given(st.lists(claim, min_size=1, max_size=12))
def test_budget_shared(claims):
    """Nights never take more than the site has, and each gets its turn."""
    budget = Budget(3, 100)
    guard = threading.Lock()
    held = [0, 0]
    most = [0, 0]
    done = []

    def night(claim: tuple[int, int]) -> None:
        with budget.share(*claim):
            with guard:
                held[:] = [a + b for a, b in zip(held, claim, strict=True)]
                most[:] = map(max, most, held)
            with guard:
                held[:] = [a - b for a, b in zip(held, claim, strict=True)]
                done.append(claim)

    threads = [threading.Thread(target=night, args=(claim,)) for claim in claims]
    [thread.start() for thread in threads]
    [thread.join(HUNG_SECONDS) for thread in threads]

    assert sorted(done) == sorted(claims)
    assert most[0] <= 3
    assert most[1] <= 100


@pytest.mark.parametrize(
    ("mode_above", "mode", "is_started"),
    [
        (0o755, 0o644, True),
        (0o755, 0o666, False),
        (0o777, 0o644, False),
    ],
)
def test_hooks_others_may_write(mode_above, mode, is_started, tmp_path):
    """Hooks of a file that others may write, or replace, are not started."""
    file = tmp_path / "etc" / "NIGHT.toml"
    file.parent.mkdir()
    file.touch()
    file.parent.chmod(mode_above)
    file.chmod(mode)
    made = tmp_path / "made"

    touch = ["/bin/touch", str(made)]
    (hook,) = run_hooks([touch], b"{}", 30, file)

    assert made.exists() == hook.fine == is_started
    assert ("other users can change" in hook.said) != is_started


def test_hook_reads_answer_of_schema(again):
    """What a hook reads, and what the command prints, fit the schema of the answer."""
    table(again, "b", 3, seed=3)
    screen("run", "NIGHT.toml", "--date", NIGHT)
    schema = json.loads(screen("schema", "run", "--printed").stdout)
    read = read_json(Path("told.json"))

    assert set(schema["required"]) <= set(read) <= set(schema["properties"])


def test_hook_hangs_or_missing(tmp_path):
    """A hook that hangs is stopped; one that is missing is reported."""
    (tmp_path / "NIGHT.toml").touch()
    hung, absent = run_hooks(
        [["/bin/sh", "-c", "sleep 60"], ["/no/such/hook"]],
        b"{}",
        0.3,
        tmp_path / "NIGHT.toml",
    )
    assert hung.fine is False
    assert hung.said == "was stopped: it took more than 0.3 s"
    assert absent.fine is False
    assert absent.said == "could not be started: No such file or directory"


def test_night_too_long(tmp_path):
    """A night that takes too long is stopped; nothing starts afterwards."""
    processes = Processes()
    words = ["demo", "--out", str(tmp_path / "demo")]
    late = processes.run(words, {}, 1, 0.01)
    processes.stop()
    assert late.late
    after = processes.run(["recipes"], {}, 1, HUNG_SECONDS)
    assert after.code == 143
    assert list(tmp_path.iterdir()) == []


def test_night_killed(tmp_path, monkeypatch):
    """Also where somebody else still holds the pipe that it would have spoken into."""
    processes = Processes()
    ended = []
    held = []

    def pipe(duplex):
        ends = multiprocessing.Pipe(duplex)
        held.append(os.dup(ends[1].fileno()))
        return ends

    monkeypatch.setattr(processes._context, "Pipe", pipe)
    demo = (["demo", "--out", str(tmp_path / "demo")], {}, 1, HUNG_SECONDS)
    thread = threading.Thread(target=lambda: ended.append(processes.run(*demo)))
    thread.start()
    while not processes._running:
        time.sleep(0.01)
    next(iter(processes._running)).kill()
    thread.join()

    assert ended[0].code == 2
    assert ended[0].message.partition(",")[0] == "ended without a message (-9)"
    after = processes.run(["recipes"], {}, 1, HUNG_SECONDS)
    assert after.code == 0
    [os.close(end) for end in held]


def test_night_server_threads():
    """A name that is gone would be passed over in silence, and every night be
    slower.
    """
    assert [name for name in PRELOADED if find_spec(name) is None] == []
    asked = (
        "import screening.site.night_server, threading; print(threading.active_count())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "1"


names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@given(names, names, st.sampled_from(["published", "unchanged", "failed", "left out"]))
@settings(max_examples=15)
def test_overview_escapes(title, said, status):
    """Whatever a series reports is text on the page."""
    reason = Reason("noted", said, remedy="<script>alert(1)</script>")
    line = SeriesNight(
        series="ward",
        night=NIGHT,
        status=status,
        shadow=False,
        exit_code=0,
        said=said,
        model="m",
        attention=[reason],
        page="ward/x.html",
        to_review=5,
        capacity=4,
        run_id=None,
        scored=9,
        refused=0,
        flagged=5,
        drift_p=None,
        peak_mb=None,
    )
    lines = {
        "series": [line],
        "shadows": [line],
        "caught_up": [line],
    }
    overview = OverviewDocument(title=title, night=NIGHT, exit_code=0, **lines)
    page = render_overview(overview)
    assert page == render_overview(overview)
    assert "<script" not in page
    assert 'content="default-src &#39;none&#39;; style-src' in page


PARENT = """
import multiprocessing, sys, threading, time
from screening.site.processes import PRELOADED, Processes
# What the server of nights imports beforehand has no part in how a night ends.
PRELOADED.clear()
order = ["demo", "--out", sys.argv[1]], {}, 1, 60
threading.Thread(target=Processes().run, args=order, daemon=True).start()
while not multiprocessing.active_children():
    time.sleep(0.01)
print(multiprocessing.active_children()[0].pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")
def test_night_ends_with_parent(tmp_path):
    """A night ends with the process that began it."""
    words = [sys.executable, "-c", PARENT, str(tmp_path / "demo")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    assert any(is_gone(child) for _ in range(20 * HUNG_SECONDS))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; asked once in a while."""
    time.sleep(0.05)
    place = Path(f"/proc/{pid}/stat")
    if not place.exists():
        return True
    state, *_ = place.read_text().rsplit(")", 1)[1].split()
    return state == "Z"


HOME_SITE = """
[site]
ledger = "$HOME/screen/ledger.db"
runs = "~/screen/runs"

[series.ward]
model = "$HOME/models/ward"
cohort = "~/tables/ward.csv"
"""


def test_home_in_night_toml(tmp_path, monkeypatch):
    """`~` and `$HOME` are the home directory in every path."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "N.toml").write_text(HOME_SITE)

    network = read_network(tmp_path / "N.toml")

    home = tmp_path / "home"
    assert network.site.runs == home / "screen" / "runs"
    assert network.ledger == str(home / "screen" / "ledger.db")
    assert network.series["ward"].model == home / "models" / "ward"
    assert network.cohort("ward", "2026-03-01") == str(home / "tables" / "ward.csv")


def test_unknown_variable_in_night_toml(tmp_path, monkeypatch):
    """A variable that is not set is named with its key."""
    monkeypatch.delenv("NOWHERE", raising=False)
    (tmp_path / "N.toml").write_text(HOME_SITE.replace("~/screen", "$NOWHERE"))

    with pytest.raises(UsageError, match=r"site\.runs: \$NOWHERE is not set"):
        read_network(tmp_path / "N.toml")


def test_unreadable_run(again, monkeypatch):
    """A run directory that cannot be read is one line, and no end of the night."""
    read = night.read_run

    def refuse(place):
        if place.name == "2026-03-02":
            raise UsageError(f"cannot use {place}: Permission denied")
        return read(place)

    monkeypatch.setattr(night, "read_run", refuse)

    only = ("--only", "ward-a")
    answer = as_json("run", "NIGHT.toml", "--date", NIGHT, *only, code=2)

    (line,) = answer["caught_up"]
    assert line["night"] == "2026-03-02"
    assert line["status"] == "failed"
    assert "Permission denied" in line["said"]
    assert answer["series"][0]["status"] == "unchanged"


def test_drift_over_nights_is_on_the_page(again, monkeypatch):
    """What a series' nights show together is on its page, until they no longer do."""
    run = ["run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-a"]
    folder = again / "runs" / "ward-a" / NIGHT
    published = again / "pages" / "ward-a" / f"{NIGHT}.html"
    before = published.read_bytes()
    of_ward = Reason("scores_drift", "The scores are higher.", None, 0.4)
    of_site = Reason("column_drifts", "CRP reads 1.5 times as high.", "crp", 0.4)
    elsewhere = Reason("column_drifts", "Sodium reads lower.", "sodium", 0.4)
    findings = Findings(
        [of_site, elsewhere],
        {"ward-a": [of_ward]},
        {("column_drifts", "crp"): ("ward-a",), ("column_drifts", "sodium"): ()},
    )
    monkeypatch.setattr(night, "find", lambda *_: findings)

    screen(*run)

    page = published.read_text()
    assert of_ward.words in page
    assert of_site.words in page
    assert elsewhere.words not in page
    assert page_in(folder) == page
    document = read_json(folder / "run.json")
    assert [reason["code"] for reason in document["over_nights"]] == [
        "scores_drift",
        "column_drifts",
    ]
    written_first = (folder / "run.json").stat().st_ino
    screen(*run)
    assert (folder / "run.json").stat().st_ino == written_first
    screen("history", "--ledger", "l.db", "--verify")
    patient = patients(60, seed=2)["patient"].iloc[0]
    screen("forget", patient, "--ledger", "l.db", "--reason", "asked")

    monkeypatch.setattr(night, "find", lambda *_: Findings())
    screen(*run)
    after = published.read_text()
    assert of_ward.words not in after
    assert len(after) <= len(before)


def test_drift_whose_page_cannot_be_written_is_no_end_of_the_night(again, monkeypatch):
    """The overview says what the page lacks, and is written."""

    def refuse(*_):
        raise UsageError("cannot use runs: Permission denied")

    monkeypatch.setattr(night, "show_over_nights", refuse)

    answer = as_json("run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-a")

    line = answer["series"][0]
    assert line["status"] == "unchanged"
    assert "is without the results over all its nights: cannot use runs" in line["said"]


def test_remedy_of_drift_acknowledges_it_until_it_grows(again, monkeypatch):
    """The command on a ward's line silences its drift, which comes back grown."""
    run = ["run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-a", "--strict"]

    def show(figure: float, code: int) -> dict:
        reason = Reason("column_drifts", "CRP reads higher.", "crp", figure)
        findings = Findings(by_series={"ward-a": [reason]})
        monkeypatch.setattr(night, "find", lambda *_: findings)
        return as_json(*run, code=code)["series"][0]

    (remedy,) = show(0.4, code=5)["remedies"]
    assert "--acknowledge column_drifts --until 2026-03-17" in remedy
    # Ward b has no night.
    _, *words = shlex.split(remedy.replace("WHY", "'a new analyser'"))
    screen(*words, code=5)

    acknowledged = show(0.5, code=5)
    assert [reason["code"] for reason in acknowledged["acknowledged"]] == [
        "column_drifts"
    ]
    assert acknowledged["remedies"] == []
    grown = show(0.7, code=5)
    assert "column_drifts" in [reason["code"] for reason in grown["attention"]]


DRIFTS = {
    "scores_drift": {"direction": "higher"},
    "flags_drift": {
        "direction": "rarer",
        "of_late": 0.1,
        "before": 0.2,
        "earlier": "before",
    },
    "outbreak": {"new": 9, "expected": 2.0, "p": 0.0001},
}


def test_drift_acknowledged(again, monkeypatch):
    """The commands on a ward's line, and those in the sentences, silence what the
    nights show together, of a ward and of the site.
    """
    network = read_network(again / "NIGHT.toml")
    since = {"since": "2026-02-01", "figure": 0.4}
    of_ward = findings._options(network, "ward-a")
    by_code = {
        code: REASONS[code](options=of_ward, **since, **facts)
        for code, facts in DRIFTS.items()
    }
    of_site = reasons.COLUMN_DRIFTS(
        column="crp",
        change="reads higher",
        where="",
        options=findings._options(network, None),
        **since,
    )
    found = Findings(of_site=[of_site], by_series={"ward-a": list(by_code.values())})
    monkeypatch.setattr(night, "find", lambda *_: found)
    run = ("run", "NIGHT.toml", "--date", NIGHT)
    # Ward b has no table.
    line = as_json(*run, code=2)["series"][0]
    sentences = [of_site.remedy, by_code["scores_drift"].remedy]
    in_sentences = [
        re.search("screen status .* --reason WHY", sentence)[0]
        for sentence in sentences
    ]

    for command in [*line["remedies"], *in_sentences]:
        until = command.replace("DATE", "2026-03-17").replace("WHY", "meant")
        screen(*shlex.split(until)[1:], code=5)

    after = as_json(*run, code=2)
    codes = {reason["code"] for reason in after["series"][0]["acknowledged"]}
    assert len(line["remedies"]) == 3
    assert codes == set(DRIFTS)
    assert after["series"][0]["remedies"] == []
    assert [reason["code"] for reason in after["acknowledged"]] == ["column_drifts"]


def test_commands_of_compose(again, monkeypatch):
    """What docs type in the container, and what follows a night there, works where
    SCREEN_LEDGER names the ledger.
    """
    site = Path("NIGHT.toml")
    site.write_text(site.read_text().replace('ledger = "l.db"', 'verdicts = "inbox"'))
    (again / "inbox").mkdir()
    monkeypatch.setenv("SCREEN_LEDGER", f"sqlite:///{again / 'l.db'}")
    container = (ROOT / "deploy" / "Containerfile").read_text()
    entry = json.loads(re.search("ENTRYPOINT (.*)", container)[1])
    night = json.loads(re.search("CMD (.*)", container)[1])
    page = (ROOT / "docs" / "nightly.md").read_text()
    commands = re.findall("docker compose run --rm night ([^`]+)`", page)

    assert len(commands) == 1
    commands += [
        "review --site /etc/screening/NIGHT.toml",
        "history --series ward-7.sepsis",
    ]
    assert entry[0] == "screening"
    for words in [night, *map(shlex.split, commands)]:
        here = " ".join(words).replace("/etc/screening/", "")
        here = here.replace("today", NIGHT).replace("ward-7.sepsis", "ward-a")
        # Ward b has no table: the night is not complete.
        code = {"run": 2, "status": 5}.get(words[0], 0)
        screen(*entry[1:], *here.split(), *added(words), code=code)


def added(words: list[str]) -> list[str]:
    """Return the date of the night, for the command that would take today's."""
    return ["--date", NIGHT] if words[0] == "run" else []


def test_replace_corrected_table(again):
    """A corrected table is refused with the command that enters it, which works."""
    table(again, "a", 3, seed=9)

    only = ("--only", "ward-a")
    refused = as_json("run", "NIGHT.toml", "--date", NIGHT, *only, code=2)
    line = line_of(refused, "ward-a")
    (remedy,) = line["remedies"]
    _, *words = shlex.split(remedy.replace("WHY", "'two rows were missing'"))
    replaced = as_json(*words)

    first, *_ = states(replaced["series"])
    assert first == ("ward-a", NIGHT, "published")
    assert replaced["series"][0]["remedies"] == []
    with open_ledger(again / "l.db", read_only=True) as book, book.reading() as rows:
        nights = stated(rows, Night)
        reasons = {(night.facts.night, night.facts.replaced) for night in nights}
    assert (NIGHT, "two rows were missing") in reasons


def test_remedies_of_missing_table(again):
    """A night whose table did not come is run again, or given up, by what is
    printed.
    """
    only = ("--only", "ward-b")
    refused = as_json("run", "NIGHT.toml", "--date", NIGHT, *only, code=2)
    line = line_of(refused, "ward-b")

    again_words, give_up = line["remedies"]
    assert "ward-b" in again_words
    _, *words = shlex.split(give_up.replace("WHY", "moved"))
    screen(*words, code=5)
    after = as_json("run", "NIGHT.toml", "--date", NIGHT, "--only", "ward-b")
    line = line_of(after, "ward-b")
    assert line["status"] == "given up"


def test_many_unknown_keys_are_twenty_lines_and_a_count(tmp_path):
    keys = "\n".join(f"key{number} = 1" for number in range(3000))
    (tmp_path / "N.toml").write_text(f"[site]\n{keys}\n")

    with pytest.raises(UsageError) as refusal:
        read_network(tmp_path / "N.toml")

    head, *lines = str(refusal.value).splitlines()
    assert head.startswith("N.toml is wrong in 3000 places")
    assert len(lines) == 21
    assert lines[-1] == "  and 2,980 more"


def test_more_than_can_be_reviewed_offers_no_table_and_no_acknowledgement():
    """Neither mends it: the remedy is another threshold."""
    line = SimpleNamespace(night=NIGHT, series="ward")
    plan = SimpleNamespace(model=Path("m"))
    network = SimpleNamespace(
        file=Path("N.toml"), ledger="l.db", series={"ward": plan, "annex": plan}
    )
    facts = {
        "reviews": 30,
        "patients": "",
        "state": "flagged",
        "capacity": "12 reviews",
    }
    over = reasons.OVER_CAPACITY(figure=30, threshold=12, **facts)
    other = reasons.NOBODY_FLAGGED(expectation="")

    assert "screen threshold MODEL --max-flag-rate" in over.remedy
    assert night._remedies(network, line, [over]) == [
        "screen threshold m --max-flag-rate SHARE --reason WHY --ledger l.db --series "
        "ward,annex"
    ]
    assert any("--replace" in each for each in night._remedies(network, line, [other]))
