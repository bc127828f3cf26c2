"""Nights side by side, each in a process of its own: what ends one, be it the system, ends no other.

And the commands that are told of a night, its overview on their stdin: whatever they do, the night stands.
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
from threadpoolctl import threadpool_limits

from screening.cluster import Cluster
from screening.errors import ClusterError
from screening.files import is_private
from screening.parallel import THREAD_VARIABLES, in_parallel, server_environment
from screening.schemas.history import HookFacts

# What one process may still do to leave nothing half-done.
GRACE_SECONDS = 20
# The kernel kills what takes the last memory, and a library that cannot have what it asks for aborts.
BY_MEMORY = (-9, -6)
MEMORY = "give it more memory, or let fewer series work side by side (memory_mb)"
# Of the environment, what a hook is given: where things are, who it is, its language and time zone.
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
TOLD = "was told"
UNTRUSTED = (
    "was not started, since others may write to the site's file or replace it: "
    "chmod go-w it, and its folder"
)
# What the server that nights are forked from has imported. No thread may run there.
PRELOADED = ["screening.__main__", "screening.site.night_server"]


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and the lines of its JSON log."""

    code: int
    lines: Sequence[Mapping[str, Any]] = ()
    late: bool = False

    @classmethod
    def refused(cls, event: str) -> Outcome:
        """Of what could not begin, or was ended by the system."""
        return cls(2, [{"event": event, "exit_code": 2}])

    @property
    def message(self) -> str | None:
        """Why it failed, in its own words."""
        events = [str(line["event"]) for line in self.lines if "exit_code" in line]
        return (
            None
            if self.code == 0
            else events[-1]
            if events
            else f"ended without a word ({self.code})"
        )

    @property
    def peak_mb(self) -> int | None:
        """The most memory it took."""
        return next(
            (line["peak_mb"] for line in reversed(self.lines) if "peak_mb" in line),
            None,
        )


class Budget:
    """Threads and memory that nights take while they work, and give back.

    `jobs`, `memory_mb`: what there is in all; nobody asks for more than that.
    """

    def __init__(self, jobs: int, memory_mb: int):
        self._left = [jobs, memory_mb]
        self._changed = threading.Condition()

    @contextmanager
    def share(self, jobs: int, memory_mb: int) -> Iterator[None]:
        """Wait until so much is left, and hold it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._left[0] >= jobs and self._left[1] >= memory_mb
            )
            self._left = [self._left[0] - jobs, self._left[1] - memory_mb]
        try:
            yield
        finally:
            with self._changed:
                self._left = [self._left[0] + jobs, self._left[1] + memory_mb]
                self._changed.notify_all()


class Processes:
    """The processes that work now, so that all can be stopped; each ends when this one does.

    `runs`: a folder for the server's socket where the host has none. `cluster`: they are on its workers.
    """

    def __init__(
        self, runs: Path | None = None, cluster: Cluster | None = None
    ) -> None:
        self._cluster = cluster
        try:
            tempfile.gettempdir()
        except FileNotFoundError:  # a read-only root
            tempfile.tempdir = None if runs is None else str(runs)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._working: set[BaseProcess] = set()
        # Also around exit codes: a process that starts collects those of the others.
        self._guard = threading.Lock()
        self._over = False

    def run(
        self,
        words: Sequence[str],
        secrets: Mapping[str, str],
        jobs: int,
        seconds: float,
    ) -> Outcome:
        """Run `screen WORDS` with JSON logs, by so many threads and for so long at most.

        `secrets`: of its environment alone: URLs may hold passwords, and words stand in lists of processes.
        """
        if self._cluster is not None:
            command = (words, secrets, jobs, seconds)
            try:
                return next(
                    in_parallel(_run_on_worker, [command], cluster=self._cluster)
                )
            except (
                ClusterError
            ) as error:  # what goes wrong there concerns this night alone
                return Outcome.refused(str(error))
        listener, speaker = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(words, secrets, jobs, speaker)
        )
        with self._guard:
            if self._over:
                return Outcome(143)
            try:
                with server_environment():
                    process.start()
            except (
                EOFError,
                OSError,
            ):  # neither a process nor the server of processes can be had
                return Outcome.refused(f"no process could be started: {MEMORY}")
            self._working.add(process)
        speaker.close()
        # Not for its word alone: somebody else may hold the other end of the pipe when it was killed.
        ends: list[Connection | int] = [listener, process.sentinel]
        late = not wait(ends, seconds)
        if late:
            process.terminate()
            wait(ends, GRACE_SECONDS)
        log = ""
        with suppress(EOFError, OSError):  # it was ended before it could say why
            log = listener.recv() if listener.poll() else ""
        if not wait([process.sentinel], GRACE_SECONDS):
            process.kill()
            wait([process.sentinel], GRACE_SECONDS)
        with self._guard:
            self._working.discard(process)
            code, lines = (
                -9 if process.exitcode is None else process.exitcode,
                _lines(log),
            )
        if code in BY_MEMORY and not late and not lines:
            return Outcome.refused(
                f"ended without a word ({code}), as happens where memory ends: {MEMORY}"
            )
        return Outcome(code, lines, late)

    def stop(self) -> None:
        """Start nothing more, and have what works clean up and end."""
        if self._cluster is not None:
            self._cluster.call_off()
        with self._guard:
            self._over = True
            working = list(self._working)
            for process in working:
                process.terminate()
        end = time.monotonic() + GRACE_SECONDS
        for process in working:
            if not wait([process.sentinel], max(0.0, end - time.monotonic())):
                process.kill()


def _run_on_worker(*command: Any) -> Outcome:
    # Workers of dask are daemons, which may have no children; this one ends when its parent does.
    multiprocessing.current_process().daemon = False
    return Processes().run(*command)


def _work(
    words: Sequence[str], secrets: Mapping[str, str], jobs: int, speaker: Connection
) -> None:
    """Be the command, and tell its log once it has ended."""
    sys.stderr = log = io.StringIO()
    try:
        _end_with_parent()
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.environ |= {**secrets, **dict.fromkeys(THREAD_VARIABLES, str(jobs))}
        pa.set_cpu_count(jobs)
        sys.argv = ["screen", "--log", "json", *words]
        with threadpool_limits(jobs):
            runpy.run_module("screening", run_name="__main__")
    except MemoryError:
        log.write(
            json.dumps(
                {"event": f"not enough memory to begin: {MEMORY}", "exit_code": 2}
            )
        )
        sys.exit(2)
    except Exception:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        sys.exit(1)
    finally:
        speaker.send(log.getvalue())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    try:
        threading.Thread(target=watch, daemon=True).start()
    except RuntimeError as error:  # no thread can be had
        raise MemoryError from error


def _lines(log: str) -> list[Mapping[str, Any]]:
    """The lines of the log; what else a library wrote there may quote the data and is not passed on."""
    lines: list[Mapping[str, Any]] = []
    for text in log.splitlines():
        with suppress(ValueError):
            line = json.loads(text)
            lines += [line] if isinstance(line, dict) and "event" in line else []
    return lines


def tell_hooks(
    hooks: Sequence[Sequence[str]], overview: bytes, seconds: float, file: Path
) -> list[HookFacts]:
    """Run each hook with the overview as JSON on stdin; it names no patient.

    Parameters
    ----------
    hooks : sequence of sequences of str
        Commands by their words; no shell reads them.
    overview : bytes
    seconds : float
        A hook that takes longer is stopped, with all that it started.
    file : Path
        The file that names the hooks. If others may write to it none is started, since
        they would choose what runs as this user.
    """
    is_trusted = is_private(file.resolve())
    outcomes = []
    for words in hooks:
        outcome = _run_hook(words, overview, seconds) if is_trusted else UNTRUSTED
        name = Path(words[0]).name
        outcomes.append(HookFacts(command=name, fine=outcome == TOLD, said=outcome))
    return outcomes


def _run_hook(words: Sequence[str], overview: bytes, seconds: float) -> str:
    # Nothing else is inherited: a URL or a setting may hold a password.
    environment = {key: value for key, value in os.environ.items() if key in INHERITED}
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"could not be started: {getattr(error, 'strerror', None) or type(error).__name__}"
    try:
        process.communicate(overview, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"was stopped: it took more than {seconds:g} s"
    finally:
        if process.returncode is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return TOLD if process.returncode == 0 else f"ended with {process.returncode}"
