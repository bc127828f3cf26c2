"""Run nights in parallel, each in a process of its own, isolated from the others.

Also run hooks: commands that receive the overview of a night on stdin. Whatever they
do, the night is published.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from screening.cluster import Cluster
from screening.errors import ClusterError
from screening.files import is_private
from screening.fork_server import (
    PRELOADED_FIRST,
    THREAD_VARIABLES,
    end_with,
    server_environment,
)
from screening.parallel import in_parallel
from screening.schemas.history import HookFacts
from screening.threads import limit_libraries

# Time for a process to clean up before it is killed.
GRACE_SECONDS = 20
# Without memory the kernel kills a process, or a library aborts.
CODES_WITHOUT_MEMORY = (-9, -6)
MEMORY = "give it more memory, or run fewer series at a time (memory_mb)"
# Variables of the environment that a hook receives: paths, user, language, time zone.
INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
)
NOTIFIED = "was told"
UNTRUSTED = (
    "was not started, because other users can change the site's file: run "
    "chmod go-w on it and on its folder"
)
# Modules that the server imports which nights are forked from. They start no thread.
PRELOADED = [PRELOADED_FIRST, "screening.__main__", "screening.site.night_server"]


@dataclass(frozen=True)
class Outcome:
    """Result of a command.

    Parameters
    ----------
    code : int
        Its exit code, or minus the number of the signal that ended it.
    lines : sequence of mapping
        Its JSON log.
    late : bool
        It was stopped because it took too long.
    """

    code: int
    lines: Sequence[Mapping[str, Any]] = ()
    late: bool = False

    @classmethod
    def refused(cls, event: str) -> Outcome:
        """Return the outcome of a command that could not begin or was ended."""
        return cls(2, [{"event": event, "exit_code": 2}])

    @property
    def message(self) -> str | None:
        """Its last error, or None if it ended well."""
        if self.code == 0:
            return None
        events = [str(line["event"]) for line in self.lines if "exit_code" in line]
        return events[-1] if events else f"ended without a message ({self.code})"

    @property
    def peak_mb(self) -> int | None:
        """The most memory it took, in MiB."""
        peaks = [line["peak_mb"] for line in self.lines if "peak_mb" in line]
        return peaks[-1] if peaks else None


class Budget:
    """Threads and memory that nights take while they run, and give back.

    Parameters
    ----------
    jobs : int
        Threads in all; no night takes more.
    memory_mb : int
        MiB in all.
    """

    def __init__(self, jobs: int, memory_mb: int):
        self._jobs = jobs
        self._memory_mb = memory_mb
        self._changed = threading.Condition()

    @contextmanager
    def share(self, jobs: int, memory_mb: int) -> Iterator[None]:
        """Wait until so much is left, and reserve it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._jobs >= jobs and self._memory_mb >= memory_mb
            )
            self._jobs -= jobs
            self._memory_mb -= memory_mb
        try:
            yield
        finally:
            with self._changed:
                self._jobs += jobs
                self._memory_mb += memory_mb
                self._changed.notify_all()


class Processes:
    """The processes that run now, so that all can be stopped; each ends with this one.

    Parameters
    ----------
    runs : Path, optional
        Folder for the server's socket if the host has no temporary folder.
    cluster : Cluster, optional
        Commands run on its workers.
    """

    def __init__(
        self, runs: Path | None = None, cluster: Cluster | None = None
    ) -> None:
        self._cluster = cluster
        try:
            tempfile.gettempdir()
        except FileNotFoundError:
            # The root is read-only.
            tempfile.tempdir = None if runs is None else str(runs)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._running: set[BaseProcess] = set()
        # Also around exit codes: a process that starts collects those of the others.
        self._guard = threading.Lock()
        self._is_stopped = False

    def run(
        self,
        words: Sequence[str],
        secrets: Mapping[str, str],
        jobs: int,
        seconds: float,
    ) -> Outcome:
        """Run `screen` with some words and JSON logs.

        Parameters
        ----------
        words : sequence of str
        secrets : mapping
            Variables of its environment alone: URLs may contain passwords, and lists of
            processes show words.
        jobs : int
            Threads.
        seconds : float
            After that it is stopped.
        """
        if self._cluster is not None:
            return self._run_on_cluster(words, secrets, jobs, seconds)
        listener, speaker = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(words, secrets, jobs, speaker)
        )
        with self._guard:
            if self._is_stopped:
                return Outcome(143)
            try:
                with server_environment():
                    process.start()
            except (EOFError, OSError):
                # The system has no process for the night, or for the server.
                return Outcome.refused(f"no process could be started: {MEMORY}")
            self._running.add(process)
        speaker.close()
        return self._wait_for(process, listener, seconds)

    def _run_on_cluster(self, *command: Any) -> Outcome:
        """Run a command on a worker; an error there concerns this night alone."""
        try:
            return next(in_parallel(_run_on_worker, [command], cluster=self._cluster))
        except ClusterError as error:
            return Outcome.refused(str(error))

    def _wait_for(
        self, process: BaseProcess, listener: Connection, seconds: float
    ) -> Outcome:
        """Wait until a process ends, or stop it; return its outcome."""
        # Not for its message alone: if it was killed, another process may still have
        # the other end of the pipe.
        ends: list[Connection | int] = [listener, process.sentinel]
        is_late = not wait(ends, seconds)
        if is_late:
            process.terminate()
            wait(ends, GRACE_SECONDS)
        log = ""
        # It may have been ended before it could send its log.
        with suppress(EOFError, OSError):
            log = listener.recv() if listener.poll() else ""
        if not wait([process.sentinel], GRACE_SECONDS):
            process.kill()
            wait([process.sentinel], GRACE_SECONDS)
        with self._guard:
            self._running.discard(process)
            code = -9 if process.exitcode is None else process.exitcode
        lines = _read_log(log)
        if code in CODES_WITHOUT_MEMORY and not is_late and not lines:
            return Outcome.refused(
                f"ended without a message ({code}), as happens when memory is short: "
                f"{MEMORY}"
            )
        return Outcome(code, lines, is_late)

    def stop(self) -> None:
        """Start nothing more, and let what runs clean up and end."""
        if self._cluster is not None:
            self._cluster.call_off()
        with self._guard:
            self._is_stopped = True
            running = list(self._running)
            for process in running:
                process.terminate()
        end = time.monotonic() + GRACE_SECONDS
        for process in running:
            if not wait([process.sentinel], max(0.0, end - time.monotonic())):
                process.kill()


def _run_on_worker(*command: Any) -> Outcome:
    """Run a command on a worker of a cluster."""
    # Workers of dask are daemons, which may have no children; this one ends when its
    # parent does.
    multiprocessing.current_process().daemon = False
    return Processes().run(*command)


def _work(
    arguments: Sequence[str], secrets: Mapping[str, str], jobs: int, speaker: Connection
) -> None:
    """Run the command in this process, and send its log once it has ended."""
    log = io.StringIO()
    sys.stderr = log
    try:
        _end_with_parent()
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.environ |= {**secrets, **dict.fromkeys(THREAD_VARIABLES, str(jobs))}
        pa.set_cpu_count(jobs)
        sys.argv = ["screen", "--log", "json", *arguments]
        with limit_libraries({"blas": jobs, "openmp": jobs}):
            runpy.run_module("screening", run_name="__main__")
    except MemoryError:
        event = f"not enough memory to begin: {MEMORY}"
        log.write(json.dumps({"event": event, "exit_code": 2}))
        sys.exit(2)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
    finally:
        speaker.send(log.getvalue())


def _end_with_parent() -> None:
    """Let this process end when its parent does."""
    parent = multiprocessing.parent_process()
    assert parent is not None and parent.pid is not None
    try:
        end_with(parent.pid)
    except RuntimeError as error:
        # The system has no thread left.
        raise MemoryError from error


def _read_log(log: str) -> list[Mapping[str, Any]]:
    """Read the lines of a JSON log.

    Other text that a library wrote there may quote the data and is dropped.
    """
    lines: list[Mapping[str, Any]] = []
    for text in log.splitlines():
        with suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict) and "event" in line:
                lines.append(line)
    return lines


def run_hooks(
    hooks: Sequence[Sequence[str]], overview: bytes, seconds: float, file: Path
) -> list[HookFacts]:
    """Run each hook with the overview as JSON on stdin; it names no patient.

    Parameters
    ----------
    hooks : sequence of sequences of str
        Words of each command; it is run without a shell.
    overview : bytes
    seconds : float
        A hook that takes longer is stopped, with all that it started.
    file : Path
        The file that names the hooks. If others may write to it, no hook is started,
        since they would choose what runs as this user.
    """
    is_trusted = is_private(file.resolve())
    outcomes = []
    for command in hooks:
        outcome = _run_hook(command, overview, seconds) if is_trusted else UNTRUSTED
        name = Path(command[0]).name
        outcomes.append(HookFacts(command=name, fine=outcome == NOTIFIED, said=outcome))
    return outcomes


def _run_hook(command: Sequence[str], overview: bytes, seconds: float) -> str:
    """Run a hook; return how it ended, in words."""
    # No other variable is inherited: a URL or a setting may contain a password.
    environment = {key: value for key, value in os.environ.items() if key in INHERITED}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return f"could not be started: {reason}"
    try:
        process.communicate(overview, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"was stopped: it took more than {seconds:g} s"
    finally:
        if process.returncode is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return NOTIFIED if process.returncode == 0 else f"ended with {process.returncode}"
