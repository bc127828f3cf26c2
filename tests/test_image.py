"""The image of deploy/Containerfile, built and run by podman without root and without a
network. It takes minutes: `make image` runs it.
"""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from commands import screen

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_cohorts"
# The wheel of the package, and those of requirements.lock.
BUILT = ROOT / "build" / "image_test"
STAND_IN = ROOT / "build" / "image_base.tar"
BASE = "docker.io/library/python:3.11.13-slim-bookworm"
NIGHT = "2026-01-13"
SERIES = ("ward-7.sepsis", "ward-9.sepsis")
# Of deploy/compose.yaml: where the container may write, and what it reads.
VOLUMES = {
    "NIGHT.toml": "/etc/screening/NIGHT.toml:ro",
    "state": "/var/lib/screening",
    "cache": "/var/cache/screening",
    "models": "/var/lib/screening/models:ro",
    "in": "/var/lib/screening/in:ro",
    "pages": "/srv/screening",
}
HARDENED = (
    *("--read-only", "--tmpfs", "/tmp", "--network", "none", "--cap-drop", "all"),
    *("--security-opt", "no-new-privileges", "--group-add", "4712"),
)

pytestmark = pytest.mark.skipif(
    "IMAGE_TEST" not in os.environ,
    reason="builds an image, which takes minutes: make image",
)


class Builder:
    """An account that is not root, with storage of its own for images.

    Attributes
    ----------
    folder : Path
        Belongs to the account.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._account: tuple[str, ...] = ()
        if os.geteuid() == 0:
            self._account = ("runuser", "-u", account_of_builds(), "--")
            owner = pwd.getpwnam(self._account[2])
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        # crun refuses hosts with both versions of cgroups.
        runtimes = [name for name in ("runc", "crun") if shutil.which(name)]
        self._options = (
            *("--root", f"{folder}/images", "--runroot", f"{folder}/run"),
            *("--storage-driver", "overlay", "--cgroup-manager", "cgroupfs"),
            *("--events-backend", "file", "--runtime", *runtimes[:1]),
        )

    def run(self, *words: object, code: int | None = 0) -> str:
        """Run a command as the account, insist on its exit code; return its output."""
        # The account may not write where the tests do.
        places = (f"{name}={self.folder}" for name in ("HOME", "TMPDIR"))
        runtime = f"XDG_RUNTIME_DIR={self.folder}"
        line = ["env", *places, runtime, *map(str, words)]
        done = subprocess.run(
            [*self._account, *line],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout[-4000:]
        return done.stdout

    def podman(self, *words: object, code: int | None = 0) -> str:
        """Run podman; return its output."""
        return self.run("podman", *self._options, *words, code=code)

    def inside(self, *words: object) -> str:
        """Run a command as root of the user namespace, which owns the volumes."""
        return self.podman("unshare", *words)


def account_of_builds() -> str:
    """Return an account with subordinate ids; skip the test if there is none."""
    ranges = Path("/etc/subuid")
    accounts = ranges.read_text().split(":")[:1] if ranges.exists() else []
    names = [name for name in accounts if name]
    if not names:
        pytest.skip("needs an account with subordinate ids: useradd -m imagebuilder")
    return names[0]


def import_base(builder: Builder) -> None:
    """Fetch the base image, or make one of that name from Debian's packages.

    Debian's Python 3.11 then stands in for that of the base image.
    """
    builder.podman("pull", "--quiet", BASE, code=None)
    if BASE in builder.podman("images", "--format", "{{.Repository}}:{{.Tag}}"):
        return
    if shutil.which("mmdebstrap") is None:
        pytest.skip("needs the base image, or mmdebstrap to make one: apt install it")
    if not STAND_IN.exists():
        subprocess.run(
            [
                *("mmdebstrap", "--quiet", "--variant=minbase"),
                "--include=python3,python3-pip,ca-certificates",
                # Debian reserves its Python for packages of Debian.
                '--customize-hook=rm "$1"/usr/lib/python3.11/EXTERNALLY-MANAGED',
                *("bookworm", str(STAND_IN)),
            ],
            check=True,
        )
    archive = builder.folder / STAND_IN.name
    shutil.copyfile(STAND_IN, archive)
    archive.chmod(0o644)
    builder.podman("import", "--quiet", archive, BASE)
    archive.unlink()


@pytest.fixture(scope="module")
def builder():
    """Return an account that builds, with the base image in its storage."""
    if shutil.which("podman") is None:
        pytest.skip("needs podman")
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="image-"))
    try:
        made = Builder(folder)
        works = made.podman("unshare", "id", "-u", code=None)
        if works.strip().splitlines()[-1:] != ["0"]:
            pytest.skip(f"podman cannot make user namespaces here: {works[-300:]}")
        import_base(made)
        yield made
        # podman mounts its storage; `migrate` ends what keeps the user namespace.
        remove = (
            f"umount -l {folder}/images/overlay; rm -rf {folder}/images {folder}/site"
        )
        made.podman("unshare", "sh", "-c", remove, code=None)
        made.podman("system", "migrate", code=None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def image(builder):
    """Build the image from wheels, without a network; return its facts."""
    context = builder.folder / "context"
    shutil.copytree(BUILT, context)
    shutil.copy(ROOT / "deploy" / "Containerfile", context)
    shutil.copy(ROOT / "requirements.lock", context)
    (context / "pip.conf").write_text(
        "[global]\nno-index = true\nfind-links = /wheels\n"
    )
    for path in (context, *context.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    builder.podman(
        *("build", "--pull=never", "--network", "none", "--tag", "screening"),
        *("--volume", f"{context}/wheels:/wheels:ro"),
        *("--volume", f"{context}/pip.conf:/etc/pip.conf:ro"),
        context,
    )
    return json.loads(builder.podman("inspect", "screening"))[0]


@pytest.fixture(scope="module")
def site(builder, image, tmp_path_factory):
    """Return a folder of a site as compose.yaml mounts it, with a model and tables."""
    folder = builder.folder / "site"
    for name in ("state", "cache", "pages", *(f"in/{series}" for series in SERIES)):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "NIGHT.toml", folder)
    for series in SERIES:
        table = folder / "in" / series / f"{NIGHT}.csv"
        shutil.copy(SAMPLES / "nosocomial_night.csv", table)
    screen(
        *("train", SAMPLES / "nosocomial_past.csv"),
        *("--contract", SAMPLES / "nosocomial.toml", "--recipe", "logistic"),
        *("--search", 1, "--repeats", 1, "--beside", "none", "--jobs", 1),
        *("--max-flag-rate", 0.2, "--out", folder / "models" / "sepsis"),
    )
    owner = folder.parent.stat()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    builder.inside(
        "chown", "-R", "4711:4711", *map(folder.joinpath, ("state", "cache"))
    )
    builder.inside("chown", "-R", "4711:4711", folder / "models", folder / "in")
    builder.inside("chown", "4711:4712", folder / "pages")
    return folder


@pytest.fixture(scope="module")
def contained(builder, site):
    """Return a function that runs words in a hardened container."""
    volumes = [
        word
        for name, place in VOLUMES.items()
        for word in ("--volume", f"{site / name}:{place}")
    ]

    def run(*words: object, options: tuple[str, ...] = (), code: int = 0) -> str:
        line = ("run", "--rm", *HARDENED, *volumes, *options, "screening", *words)
        return builder.podman(*line, code=code)

    return run


def test_image_runs_as_nobody_special(builder, image):
    """An account that is not root builds the image, whose user is not root either."""
    assert builder.run("id", "-u").strip() != "0"
    assert image["User"] == "4711:4711"
    assert image["Config"]["Entrypoint"] == ["screening", "--log", "json"]


def test_container_has_nothing_to_write_or_reach(contained):
    """The root is read-only. There is only a loopback network, and no capability."""
    shell = "touch /etc/x; ls /sys/class/net; grep CapEff /proc/self/status; id -u"
    seen = contained("-c", shell, options=("--entrypoint", "/bin/sh"))

    refusal, network, capabilities, user = seen.strip().splitlines()[-4:]
    assert "Read-only file system" in refusal
    assert network == "lo"
    assert int(capabilities.split()[1], 16) == 0
    assert user == "4711"


def test_night_in_container(contained, builder, site):
    """The image's command, and then `status`, do a night of two wards."""
    contained("run", "/etc/screening/NIGHT.toml", "--strict", "--date", NIGHT)
    status = contained(
        *("status", "--site", "/etc/screening/NIGHT.toml", "--night", NIGHT)
    )

    pages = builder.inside("find", site / "pages", "-name", "*.html").split()
    written = {str(Path(page).relative_to(site / "pages")) for page in pages}
    run = site / "state" / "runs" / SERIES[0] / NIGHT / "run.json"
    document = json.loads(builder.inside("cat", run))
    assert {f"{NIGHT}.html", "latest.html"} <= written
    assert {f"{series}/latest.html" for series in SERIES} <= written
    assert document["counts"]["scored"] == 240
    assert all(series in status for series in SERIES)
