"""docs/nightly.md works as pasted: accounts, site file, cron lines, units and hooks are those of its text."""

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
from pathlib import Path

import pytest
from flow_cohorts import patients, written

from screening import MaxFlagRate, save_model

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
ALONE = os.geteuid() == 0 and all(map(shutil.which, ("unshare", "setpriv", "useradd", "mount")))
NIGHT = "2026-03-03"


def block(beginning: str) -> str:
    """The one block of the document that begins so."""
    (text,) = [text for text in BLOCKS if text.startswith(beginning)]
    return text


def job(command: str) -> str:
    """The command of a line of the crontab, and what runs it: its PATH and other settings."""
    lines = block("# /etc/cron.d/screening").splitlines()
    settings = " ".join(line for line in lines if re.match(r"[A-Z_]+=", line))
    (words,) = [line.split(None, 6)[6] for line in lines if command in line]
    assert [line.split()[5] for line in lines if command in line] == ["screening"]
    # cron gives nothing else; the account has no home.
    return f"env -i HOME=/nonexistent {settings} /bin/sh -c '{words}'"


def opened(places: list[Path]) -> str:
    """Shell lines that let every account reach these places, though a directory above them is closed."""
    lines = []
    for number, place in enumerate(dict.fromkeys(places)):
        above = [each for each in [*place.parents][::-1] if not each.stat().st_mode & stat.S_IXOTH]
        for closed in above[:1]:
            kept = f"/mnt/kept{number}"
            lines += [
                f"mkdir -p {kept} && mount --bind {place} {kept}",
                f"mountpoint -q {closed} || mount -t tmpfs -o mode=755 none {closed}",
                f"mkdir -p {place} && mount --bind {kept} {place}",
            ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def host():
    """A folder that every account may enter, for what the night reads and writes."""
    folder = Path(tempfile.mkdtemp(prefix="screening-host"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def night(host, cohort, trained):
    """The document's commands on a host of their own: other accounts, a read-only root, another `screen`."""
    save_model(trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.1)), host / "sepsis")
    for ward in ("ward-7.sepsis", "ward-9.sepsis"):
        (host / "in" / ward).mkdir(parents=True)
        table = patients(60, seed=len(ward)).drop(columns="ill")
        written(table, host / "in" / ward / f"{NIGHT}.csv")
    (host / "NIGHT.toml").write_text(block("# /etc/screening/NIGHT.toml"))
    scored = job("run /etc/screening").replace("NIGHT.toml", f"NIGHT.toml --date {NIGHT}")
    watched = job("screening status").replace("--night today", f"--night {NIGHT}")
    somebody = "setpriv --reuid screening --regid screening --init-groups --no-new-privs --bounding-set=-all"
    script = f"""
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
{opened([Path(sys.base_prefix), Path(sys.prefix), ROOT])}
for place in opt srv usr/local/bin; do mount -t tmpfs -o mode=755 none /$place; done
cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc
mkdir /mnt/lib /mnt/cache
mount --bind /mnt/lib /var/lib && mount --bind /mnt/cache /var/cache
ln -s {sys.prefix} /opt/screening
printf '#!/bin/sh\\necho this is GNU screen >&2; exit 99\\n' > /usr/local/bin/screen
printf '#!/bin/sh\necho mailed: "$@"\n' > /usr/local/bin/mail
chmod 755 /usr/local/bin/screen /usr/local/bin/mail
{block("groupadd")}
cp -r {host}/sepsis /var/lib/screening/models/ && cp -r {host}/in /var/lib/screening/
chown -R screening:screening /var/lib/screening
cp {host}/NIGHT.toml /etc/screening/
mkdir {host}/out && chmod 777 {host}/out && mount --bind {host}/out {host}/out
for place in / /etc /opt /usr/local/bin; do mount -o remount,ro,bind $place; done
cd /
code=0
{somebody} {scored} || code=$?
echo $code > {host}/out/code
cp /var/lib/screening/night.log {host}/out/
{somebody} touch {ROOT}/screening/x 2> {host}/out/touched || true
{somebody} {watched} > {host}/out/status
clinician="setpriv --reuid 4713 --regid 4713 --groups $(getent group ward | cut -d: -f3)"
$clinician cat /srv/screening/ward-7.sepsis/latest.html > {host}/out/page.html
$clinician cat /srv/screening/latest.html > {host}/out/overview.html
$clinician cat /var/lib/screening/runs/ward-7.sepsis/{NIGHT}/report.html > {host}/out/private 2>&1 || true
stranger="setpriv --reuid 4714 --regid 4714 --clear-groups"
$stranger cat /srv/screening/latest.html > {host}/out/stranger 2>&1 || true
"""
    ended = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=280, check=False
    )
    log = host / "out" / "night.log"
    assert ended.returncode == 0, ended.stderr + (log.read_text() if log.exists() else "")
    return host / "out"


@pytest.mark.skipif(not ALONE, reason="needs root and mount namespaces: other accounts, a read-only root")
def test_the_pasted_night_runs_for_an_account_without_a_home_on_a_read_only_root(night):
    assert (night / "code").read_text().strip() in ("0", "5"), (night / "night.log").read_text()
    lines = [json.loads(line) for line in (night / "night.log").read_text().splitlines()]
    assert {line["series"] for line in lines if "run" in line} == {"ward-7.sepsis", "ward-9.sepsis"}
    assert "ward-9.sepsis" in (night / "status").read_text()
    assert "cannot touch" in (night / "touched").read_text()


@pytest.mark.skipif(not ALONE, reason="needs root and mount namespaces: a second account reads the page")
def test_the_clinicians_account_reads_pages_and_nothing_else(night):
    assert "<h1>" in (night / "page.html").read_text()
    assert "ward-7.sepsis/2026-03-03.html" in (night / "overview.html").read_text()
    assert "Permission denied" in (night / "private").read_text()
    assert "Permission denied" in (night / "stranger").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_leaves_little_to_attack(tmp_path):
    unit = tmp_path / "screening.service"
    unit.write_text(block("# /etc/systemd/system/screening.service"))
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(unit)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout[-300:]
    assert "SuccessExitStatus=5" in unit.read_text() and "OnFailure=" in unit.read_text()
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    # Restarts of a one-shot unit are refused but for some of their keys.
    assert "isn't allowed" not in said and "Unknown" not in said


STORY = {
    "night": NIGHT,
    "exit_code": 5,
    "series": [{"series": "ward-7.sepsis", "status": "published", "flagged": 7}],
}


def told(script: str, *words: object) -> None:
    code = block(f"# /etc/screening/{script}")
    command = [sys.executable, "-c", code, *map(str, words)]
    subprocess.run(command, input=json.dumps(STORY), text=True, check=True, timeout=60)


def test_the_web_hook_posts_what_it_was_told():
    posted = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        told("web_hook.py", f"http://127.0.0.1:{server.server_port}/screening")
        thread.join(10)

    assert json.loads(posted[0]) == STORY


def test_the_mail_hook_sends_a_letter_with_a_line_a_series(monkeypatch):
    letters = []

    class PostOffice:
        def __init__(self, host, port, timeout) -> None: ...

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None: ...

        def send_message(self, letter) -> None:
            letters.append(letter)

    monkeypatch.setattr("smtplib.SMTP", PostOffice)
    monkeypatch.setattr("sys.argv", ["mail_hook.py", "localhost", "25", "ward@localhost"])
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(STORY)))
    exec(block("# /etc/screening/mail_hook.py"), {})

    assert letters[0]["Subject"] == "Screening of 2026-03-03: code 5"
    assert "ward-7.sepsis: published, flagged 7" in letters[0].get_content()


def test_the_container_runs_as_nobody_special_on_a_read_only_root_with_pinned_images():
    image, service = block("# Containerfile"), block("# compose.yaml")

    assert re.search(r"^USER \d+:\d+$", image, flags=re.MULTILINE)
    assert all(
        re.search(r":\d+\.\d+", line) for line in re.findall(r"(?:FROM|image:) (\S+)", image + service)
    )
    assert "--require-hashes" in image
    assert "read_only: true" in service and "cap_drop: [ALL]" in service
