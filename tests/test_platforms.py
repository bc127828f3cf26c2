"""Linux and macOS are the platforms; Windows has WSL."""

import fcntl
import io
import os
import resource
import runpy
import sys
from types import SimpleNamespace

import pytest
from written_files import names_in

import screening
from screening import threads
from screening.cli import boundary, logs
from screening.errors import UsageError
from screening.ledger.database import READING, open_ledger
from screening.site.site import read_network
from screening.store.publishing import flush_to_disk, publish
from screening.threads import available_cores


@pytest.fixture
def macos(monkeypatch):
    """What differs on macOS, as far as it can be imitated."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    return monkeypatch


def test_import_on_windows_refused(monkeypatch):
    """Native Windows is refused before anything else, in a sentence that names WSL."""
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(ImportError, match="on Windows, install and run it in WSL"):
        runpy.run_path(screening.__file__)


def test_peak_mb_macos(macos):
    """The system counts in bytes there, and in KiB on Linux."""
    usage = SimpleNamespace(ru_maxrss=300 << 20)
    macos.setattr(resource, "getrusage", lambda who: usage)

    assert logs.peak_mb() == 300


def test_peak_mb_linux_without_proc(monkeypatch):
    """A host that hides /proc/self/status is asked by getrusage."""
    usage = SimpleNamespace(ru_maxrss=300 << 10)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(logs.Path, "read_text", lambda path: "")
    monkeypatch.setattr(resource, "getrusage", lambda who: usage)

    assert logs.peak_mb() == 300


def test_memory_cap_macos(macos):
    """A cap that the system does not enforce is none."""
    macos.setattr(resource, "getrlimit", lambda kind: (1 << 30, 1 << 30))

    assert boundary._memory_limit() is None


@pytest.fixture
def counted_anew(monkeypatch):
    """Count the cores at each call; what is counted here is of no real host."""
    monkeypatch.setattr(threads, "_count_cores", threads._count_cores.__wrapped__)


@pytest.mark.usefixtures("counted_anew")
def test_available_cores_macos(macos):
    """A process cannot be bound to some of the cores there."""
    macos.setattr(os, "cpu_count", lambda: 10)
    macos.setitem(sys.modules, "psutil", None)

    assert available_cores() == 10


@pytest.mark.usefixtures("counted_anew")
def test_available_cores_cgroup(monkeypatch):
    """A container's share of the host's cores counts, not the host's cores."""
    limit = "/sys/fs/cgroup/cpu.max"
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10)))
    monkeypatch.setattr(os.path, "exists", lambda path: path == limit)
    monkeypatch.setattr("builtins.open", lambda path: io.StringIO("300000 100000\n"))

    assert available_cores() == 3


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="needs a process bound to cores"
)
def test_available_cores_affinity():
    """A process that is bound to one core later counts again."""
    cores = os.sched_getaffinity(0)
    available_cores()
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, cores)


def test_flush_to_disk_macos(macos, tmp_path):
    """The drive's cache is flushed too."""
    calls = []
    macos.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    macos.setattr(fcntl, "fcntl", lambda handle, command: calls.append(command))

    with (tmp_path / "page").open("wb") as file:
        flush_to_disk(file.fileno())

    assert calls == [51]


def test_flush_to_disk_macos_share(macos, tmp_path):
    """A share that knows no full flush is flushed as elsewhere."""
    synced = []

    def refuse(handle, command):
        raise OSError(45, "Operation not supported")

    macos.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    macos.setattr(fcntl, "fcntl", refuse)
    macos.setattr(os, "fsync", synced.append)

    with (tmp_path / "page").open("wb") as file:
        flush_to_disk(file.fileno())
        assert synced == [file.fileno()]


def test_ledger_macos(macos, tmp_path):
    """SQLite is told to flush the drive's cache."""
    with (
        open_ledger(tmp_path / "ledger.db", make=True) as ledger,
        ledger._transaction(READING) as connection,
    ):
        assert connection.exec_driver_sql("PRAGMA fullfsync").scalar() == 1


def test_publish_macos(macos, tmp_path):
    """Two directories cannot be exchanged; an earlier one is replaced all the same."""
    macos.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    macos.setattr(fcntl, "fcntl", lambda handle, command: 0)
    target = tmp_path / "run"
    for content in ("first", "second"):
        with publish(target, "run") as folder:
            (folder / "run.json").write_text(content)

    assert (target / "run.json").read_text() == "second"
    assert names_in(tmp_path) == {"run"}


def test_site_series_of_one_folder(tmp_path):
    """Series that differ in the size of a letter have one folder on many systems."""
    file = tmp_path / "NIGHT.toml"
    plan = 'model = "m"\ncohort = "in/{series}/{date}.csv"\n'
    file.write_text(
        f'[site]\nledger = "l.db"\n[series.Ward-7]\n{plan}[series.ward-7]\n{plan}'
    )

    with pytest.raises(
        UsageError, match=r"ward-7: differs from series.Ward-7"
    ) as refusal:
        read_network(file)

    assert "in 1 place:" in str(refusal.value)
