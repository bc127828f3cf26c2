"""docs/nightly.md and docs/runbook.md work as pasted: accounts, site file, cron lines,
units, hooks.
"""

import http.server
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import tomllib
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from commands import KNOWN_BEFORE, screen
from docs_pages import read_blocks
from flow_cohorts import patients, written
from hung import HUNG_SECONDS
from numba.core.caching import UserProvidedCacheLocator
from written_files import read_json, scores_in

from screening import MaxFlagRate, save_model
from screening.contract.contract import Contract
from screening.ledger.merge_tables import read_merges
from screening.site.site import read_network

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "nightly.md"
# The recipe in deploy/conda is for publishing: docs/publishing.md.
DEPLOYED = {
    path.name: path.read_text("utf-8")
    for path in (ROOT / "deploy").iterdir()
    if path.is_file()
}
SHOWN = [block.text for block in read_blocks(PAGE)]
# What the page shows or links to, once each.
BLOCKS = list(dict.fromkeys([*SHOWN, *DEPLOYED.values()]))
ALONE = os.geteuid() == 0 and all(
    map(shutil.which, ("unshare", "setpriv", "useradd", "mount"))
)
NIGHT = "2026-03-01"
RUNBOOK = [
    block
    for block in read_blocks(ROOT / "docs" / "runbook.md")
    if block.language == "sh"
]
# As each user of the runbook types: what runs a file of commands.
AS_USER = {
    "root": "sh -eu",
    "screening": "setpriv --reuid screening --regid screening --init-groups "
    "env PATH=/opt/screening/bin:/usr/bin:/bin sh -eu",
}
# Before the block that goes back to an earlier model: the one that is gone back from.
CHANGE = """screening threshold /var/lib/screening/models/sepsis --g-mean \\
  --reason "a trial" --ledger /var/lib/screening/screening.db --series ward-7.sepsis
"""


def block(beginning: str) -> str:
    """Return the block of the page, or the file of deploy/, that begins so."""
    (text,) = [text for text in BLOCKS if text.startswith(beginning)]
    return text


def job(command: str) -> str:
    """The command of a line of the crontab, and what runs it: its PATH and other
    settings.
    """
    lines = block("# /etc/cron.d/screening").splitlines()
    settings = " ".join(line for line in lines if re.match(r"[A-Z_]+=", line))
    (entry,) = [line for line in lines if command in line]
    *_, user, words = entry.split(None, 6)
    assert user == "screening"
    # cron gives nothing else; the account has no home. The tree is the one tested.
    settings += f" PYTHONPATH={ROOT}"
    return f"env -i HOME=/nonexistent {settings} /bin/sh -c '{words}'"


def opened(places: list[Path]) -> str:
    """Shell lines that let every account reach these places, though a directory above
    them is closed.
    """
    lines = []
    for number, place in enumerate(dict.fromkeys(places)):
        above = [
            each
            for each in [*place.parents][::-1]
            if not each.stat().st_mode & stat.S_IXOTH
        ]
        for closed in above[:1]:
            kept = f"/mnt/kept{number}"
            lines += [
                f"mkdir -p {kept} && mount --bind {place} {kept}",
                f"mountpoint -q {closed} || mount -t tmpfs -o mode=755 none {closed}",
                f"mkdir -p {place} && mount --bind {kept} {place}",
            ]
    return "\n".join(lines)


def runbook(folder: Path) -> str:
    """Write the runbook's blocks into a folder; return shell lines that paste them.

    Each is run by the user it names, and its words are kept if it fails.
    """
    blocks = [(block.marks[0], block.text) for block in RUNBOOK]
    back = next(
        number for number, (_, text) in enumerate(blocks) if "sepsis.back" in text
    )
    blocks.insert(back, ("screening", CHANGE))
    lines = []
    for number, (user, text) in enumerate(blocks):
        file = folder / f"runbook-{number}.sh"
        file.write_text(text)
        file.chmod(0o644)
        lines.append(f"{AS_USER[user]} {file}")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def host():
    """A folder that every account may enter, for what the night reads and writes."""
    folder = Path(tempfile.mkdtemp(prefix="screening-host"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def lay_compiled(folder: Path) -> None:
    """Copy the loops that are compiled beside the package, as NUMBA_CACHE_DIR has them.

    A host compiles them once in its life, which takes minutes.
    """
    for path in (ROOT / "screening").rglob("__pycache__/*.nb[ic]"):
        module = path.parents[1] / "module.py"
        name = UserProvidedCacheLocator.get_suitable_cache_subpath(str(module))
        (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)


@pytest.fixture(scope="module")
def night(host, cohort, trained):
    """The document's commands on a host of their own: other accounts, a read-only root,
    another `screen`.
    """
    model = trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.1))
    save_model(model, host / "sepsis")
    approval = ["--by", "A. Weber", "--reason", "a trial", *KNOWN_BEFORE]
    screen("approve", host / "sepsis", *approval)
    for ward in ("ward-7.sepsis", "ward-9.sepsis"):
        (host / "in" / ward).mkdir(parents=True)
        table = patients(60, seed=len(ward)).drop(columns="ill")
        written(table, host / "in" / ward / f"{NIGHT}.csv")
    lay_compiled(host / "compiled")
    (host / "NIGHT.toml").write_text(block("# /etc/screening/NIGHT.toml"))
    scored = job("run /etc/screening").replace(
        "NIGHT.toml", f"NIGHT.toml --date {NIGHT}"
    )
    watched = job("screening status").replace("--night today", f"--night {NIGHT}")
    somebody = "setpriv --reuid screening --regid screening --init-groups --no-new-privs --bounding-set=-all"
    script = f"""
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
{opened([Path(sys.base_prefix), Path(sys.prefix), ROOT])}
for place in opt srv usr/local/bin; do mount -t tmpfs -o mode=755 none /$place; done
cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc
mkdir /mnt/lib /mnt/cache /mnt/backups
mkdir -p /var/backups && mount --bind /mnt/backups /var/backups
mkdir -p /root && echo 00700003 > /root/id.txt
mount --bind /mnt/lib /var/lib && mount --bind /mnt/cache /var/cache
ln -s {sys.prefix} /opt/screening
printf '#!/bin/sh\\necho this is GNU screen >&2; exit 99\\n' > /usr/local/bin/screen
printf '#!/bin/sh\necho mailed: "$@"; cat\n' > /usr/local/bin/mail
chmod 755 /usr/local/bin/screen /usr/local/bin/mail
{block("groupadd")}
cp -r {host}/sepsis /var/lib/screening/models/ && cp -r {host}/in /var/lib/screening/
chown -R screening:screening /var/lib/screening
cp {host}/NIGHT.toml /etc/screening/
cp -r {host}/compiled/. /var/cache/screening/
chown -R screening:screening /var/cache/screening
mkdir {host}/out && chmod 777 {host}/out && mount --bind {host}/out {host}/out
for place in / /etc /opt /usr/local/bin; do mount -o remount,ro,bind $place; done
cd /
code=0
{somebody} {scored} || code=$?
echo $code > {host}/out/code
cp /var/lib/screening/night.log {host}/out/
{somebody} touch {ROOT}/screening/x 2> {host}/out/touched || true
{somebody} {watched} > {host}/out/status
cd /var/lib/screening
export PYTHONPATH={ROOT} NUMBA_CACHE_DIR=/var/cache/screening
{runbook(host)}
cp -r /var/lib/screening/models/sepsis.back /var/lib/screening/runs /var/backups/screening/ledger {host}/out/
find /var/lib/screening ! -user screening > {host}/out/of_others
cd /
clinician="setpriv --reuid 4713 --regid 4713 --groups $(getent group ward | cut -d: -f3)"
$clinician cat /srv/screening/ward-7.sepsis/latest.html > {host}/out/page.html
$clinician cat /srv/screening/latest.html > {host}/out/overview.html
$clinician cat /var/lib/screening/runs/ward-7.sepsis/{NIGHT}/report.html > {host}/out/private 2>&1 || true
stranger="setpriv --reuid 4714 --regid 4714 --clear-groups"
$stranger cat /srv/screening/latest.html > {host}/out/stranger 2>&1 || true
"""
    apart = ["unshare", "-m", "/bin/sh", "-c", script]
    ended = subprocess.run(
        apart,
        capture_output=True,
        text=True,
        check=False,
    )
    log = host / "out" / "night.log"
    assert ended.returncode == 0, ended.stderr + (
        log.read_text() if log.exists() else ""
    )
    return host / "out"


@pytest.mark.first
@pytest.mark.skipif(
    not ALONE,
    reason="needs root and mount namespaces: other accounts, a read-only root",
)
def test_night_without_home(night):
    """The pasted night runs for an account without a home on a read only root.

    The clinician's account reads pages and nothing else.
    """
    files = [path for path in night.iterdir() if path.is_file()]
    said = {path.name: path.read_text() for path in files}
    log = said["night.log"]
    lines = [json.loads(line) for line in log.splitlines()]
    assert said["code"].strip() in ("0", "5"), log
    assert {line["series"] for line in lines if "run" in line} == {
        "ward-7.sepsis",
        "ward-9.sepsis",
    }
    assert "ward-9.sepsis" in said["status"]
    assert "cannot touch" in said["touched"]
    assert "<h1>" in said["page.html"]
    assert f"ward-7.sepsis/{NIGHT}.html" in said["overview.html"]
    assert "Permission denied" in said["private"]
    assert "Permission denied" in said["stranger"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)
def test_the_unit_leaves_little_to_attack(tmp_path):
    unit = tmp_path / "screening.service"
    unit.write_text(block("# /etc/systemd/system/screening.service"))

    def analysed(*words: str) -> subprocess.CompletedProcess:
        command = ["systemd-analyze", *words, str(unit)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    ended = analysed("security", "--offline=true", "--threshold=30")
    assert ended.returncode == 0, ended.stdout[-300:]
    assert "SuccessExitStatus=5" in unit.read_text()
    assert "OnFailure=" in unit.read_text()
    said = analysed("verify", "--man=no", "--recursive-errors=no").stderr
    # Restarts of a one-shot unit are refused but for some of their keys.
    assert "isn't allowed" not in said
    assert "Unknown" not in said


def test_outcome_of_the_contract_is_read():
    """The lines of docs/outcomes.md are two tables of a contract."""
    lines, *_ = read_blocks(ROOT / "docs" / "outcomes.md")
    content = tomllib.loads(lines.text)

    contract = Contract.from_dict(content)

    assert contract.outcome.within == 72
    assert contract.outcome.time == "infected_at"


def test_table_of_merged_numbers_is_read(tmp_path):
    """The lines on merged numbers are a table that `ledger merge` enters."""
    path = tmp_path / "merged.csv"
    path.write_text(block("old,new,since"), encoding="utf-8")

    (merge,) = read_merges(path)

    assert (merge.old, merge.new) == ("00077370", "00081144")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)
@pytest.mark.parametrize(
    "heading",
    [
        "# /etc/systemd/system/screening-failed.service",
        "# /etc/systemd/system/screening.timer",
        "# /etc/systemd/system/screening-watch.service",
        "# /etc/systemd/system/screening-watch.timer",
        "# /etc/systemd/system/screening-serve.socket",
        "# /etc/systemd/system/screening-serve.service",
    ],
)
def test_other_units_verified(tmp_path, heading):
    """systemd knows every key of the timer and of the unit that reports a failure."""
    units = ("screening.service", "screening-serve.service", "screening-serve.socket")
    for name in (*(f"# /etc/systemd/system/{unit}" for unit in units), heading):
        text = block(name)
        # What a unit starts need not be installed where it is verified.
        text = text.replace("/opt/screening/bin/screening", "/bin/true")
        (tmp_path / Path(name).name).write_text(text)
    unit = tmp_path / Path(heading).name
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "Unknown" not in ended.stderr
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", DEPLOYED)
def test_deploy_file_is_on_the_page(name):
    """Each file is a block of the page or linked from it."""
    link = f"(../deploy/{name})"

    assert DEPLOYED[name] in SHOWN or link in PAGE.read_text(encoding="utf-8")


def test_installation_names_what_is_shipped():
    """The commands of an installation name the lock, and the wheel of this version."""
    lines = block("python3 -m venv /opt/screening").splitlines()
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    wheel = f"{project['name']}-{project['version']}-py3-none-any.whl"

    assert lines[1].endswith("install --require-hashes -r requirements.lock")
    assert lines[2].endswith(f"install --no-deps {wheel}")
    assert (ROOT / "requirements.lock").exists()
    assert f"{wheel} /tmp/" in block("# Containerfile")


def test_hooks_of_the_site_are_read(tmp_path):
    """The lines on hooks belong under [site] of the site's file."""
    file = tmp_path / "NIGHT.toml"
    # This host has no group of that name.
    text = block("# /etc/screening/NIGHT.toml").replace('group = "ward"\n', "")
    hooks = block("hooks = [")
    file.write_text(text.replace("[site]\n", f"[site]\n{hooks}"))

    site = read_network(file).site

    assert [hook[1] for hook in site.hooks] == [
        "/etc/screening/mail_hook.py",
        "/etc/screening/web_hook.py",
    ]


SERIES = {"series": "ward-7.sepsis", "status": "published", "flagged": 7}
STORY = {"night": NIGHT, "exit_code": 5, "series": [SERIES]}


def test_the_web_hook_posts_what_it_was_told():
    posted = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            n_bytes = int(self.headers["Content-Length"])
            posted.append(self.rfile.read(n_bytes))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        code, url = (
            block("# /etc/screening/web_hook.py"),
            f"http://127.0.0.1:{server.server_port}/screening",
        )
        hook = [sys.executable, "-c", code, url]
        subprocess.run(
            hook,
            input=json.dumps(STORY),
            text=True,
            check=True,
        )
        thread.join(HUNG_SECONDS)
    assert json.loads(posted[0]) == STORY


def test_the_mail_hook_sends_a_letter_with_a_line_a_series(monkeypatch):
    office = MagicMock()
    monkeypatch.setattr("smtplib.SMTP", office)
    monkeypatch.setattr(
        "sys.argv", ["mail_hook.py", "localhost", "25", "ward@localhost"]
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(STORY)))
    exec(block("# /etc/screening/mail_hook.py"), {})
    (letter,) = office.return_value.__enter__.return_value.send_message.call_args.args
    assert letter["Subject"] == "Screening of 2026-03-01: code 5"
    assert "ward-7.sepsis: published, flagged 7" in letter.get_content()


def test_container_hardened():
    """The container runs as nobody special on a read only root with pinned images."""
    image, service = block("# Containerfile"), block("# compose.yaml")
    images = re.findall(r"(?:FROM|image:) (\S+)", image + service)
    assert re.search(r"^USER \d+:\d+$", image, flags=re.MULTILINE)
    assert images
    assert all(re.search(r":\d+\.\d+", name) for name in images)
    assert "--require-hashes" in image
    assert "read_only: true" in service
    assert "cap_drop: [ALL]" in service


def test_compose_file_declares_what_it_uses():
    """Volumes, networks and secrets that a service names are declared."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    services = compose["services"].values()

    assert {*compose} == {"services", "networks", "secrets", "volumes"}
    for kind in ("networks", "secrets"):
        named = {name for service in services for name in service.get(kind, ())}
        assert named == {*compose[kind]}
    mounts = [mount for service in services for mount in service["volumes"]]
    of_compose = {mount.split(":")[0] for mount in mounts if mount[0] != "."}
    assert of_compose == {*compose["volumes"]}
    for service in services:
        assert {*service.get("depends_on", ())} <= {*compose["services"]}


@pytest.mark.first
@pytest.mark.skipif(
    not ALONE,
    reason="needs root and mount namespaces: other accounts, a read-only root",
)
def test_runbook_pasted_after_the_night(night):
    """On the host of the night, each block by its user, every command does its work."""
    saved, moved = sorted((night / "ledger").glob("screening-*.db"))
    back = read_json(night / "sepsis.back" / "model.json")
    run = night / "runs" / "ward-7.sepsis" / NIGHT
    changed = read_json(run / "run.json")["model"]["id"]

    assert saved.read_bytes()[:15] == b"SQLite format 3"
    assert moved.read_bytes()[:15] == b"SQLite format 3"
    assert back["approval"] is not None
    assert changed
    assert "00700003" not in set(scores_in(run)["id"])
    # What root typed left nothing that the user of the night cannot write.
    assert (night / "of_others").read_text() == ""


def test_runbook_names_users():
    """Every block has the user who types it, in its mark and in the words above it."""
    for block in RUNBOOK:
        assert block.marks in (["root"], ["screening"]), block.place
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    above = re.findall(r"([^\n]*)\n\n```sh (\w+)", text)
    assert len(above) == len(RUNBOOK)
    for words, user in above:
        assert re.search(rf"[Aa]s `?{user}\b", words), words
