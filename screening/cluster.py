"""Workers that are processes of dask: opened, closed, or refused."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import parallel_config
from joblib.parallel import ParallelBackendBase, get_active_backend

from screening.errors import ClusterError
from screening.spelling import did_you_mean
from screening.threads import available_cores

logger = logging.getLogger("screening")

LOOPBACK = "127.0.0.1"
LOCAL = "local"
MAX_LOCAL_WORKERS = 256
# A scheduler answers at once, or it is not there.
CONNECT_SECONDS = 20
# A worker that died is mostly started again at once.
DESERTED_SECONDS = 120.0
POLL_SECONDS = 5.0
# Other users of this host must neither read nor steer what runs: every connection needs
# a certificate that lives as long as the processes, and dask serves no pages.
SETTINGS = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.daemon": True,
    # Large arguments that tasks share are sent with the first of them.
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


@dataclass(frozen=True)
class Cluster:
    """Workers that take tasks.

    Parameters
    ----------
    client : distributed.Client
    address : str
        Of the scheduler, or ``local:N``.
    n_threads : int
        Threads that a task may use.
    """

    client: Any
    address: str
    n_threads: int
    # What receives the result of each unfinished task.
    _receivers: set[Callable[[Any], None]] = field(default_factory=set, repr=False)

    @property
    def n_workers(self) -> int:
        """Number of workers that are there now."""
        return len(self.client.nthreads())

    def backend(self) -> ParallelBackendBase:
        """Return a new backend of joblib for one series of tasks."""
        cluster = self
        with parallel_config("dask", client=self.client):
            dask_backend: Any = type(get_active_backend()[0])

        class Backend(dask_backend):
            """Dask's backend, which also reports tasks that dask gave up.

            joblib's own waits for them without end.
            """

            def effective_n_jobs(self, n_jobs: int) -> int:
                # joblib itself would make the calls of a single worker.
                return max(2, int(super().effective_n_jobs(n_jobs)))

            def submit(self, func: Any, callback: Any = None) -> Any:
                cluster._receivers.add(callback)
                future = super().submit(func, callback)
                future.add_done_callback(partial(cluster._report, callback))
                return future

            def retrieve_result_callback(self, out: Any) -> Any:
                if isinstance(out, BaseException):
                    raise cluster._explain(out) from None
                return super().retrieve_result_callback(out)

        # `watch` waits for workers.
        return Backend(client=self.client, wait_for_workers_timeout=0)

    def call_off(self, error: Exception | None = None) -> None:
        """End all waiting for results, with an error."""
        for receiver in list(self._receivers):
            receiver(error or CancelledError())

    def _report(self, receiver: Callable[[Any], None], future: Future[Any]) -> None:
        self._receivers.discard(receiver)
        error = future.exception()
        if error is not None:
            receiver(error)

    def _explain(self, error: BaseException) -> BaseException:
        """Convert an error of dask to one for the user."""
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return _refusal(
                self.address,
                "several workers ended, one after the other, during the same "
                "task; they may need more memory",
            )
        if isinstance(error, CancelledError):
            return _refusal(
                self.address,
                "its scheduler has ended; repeat the command to continue from the "
                "finished work",
            )
        return error

    def check(self, paths: Sequence[Path] = (), secret: bool = False) -> None:
        """Refuse workers that are of another version, or do not see the same files.

        Parameters
        ----------
        paths : sequence of Path
            Read or written by the workers.
        secret : bool
            Rows of patients or a password are sent to the workers: only over TLS.

        Raises
        ------
        ClusterError
            Names the worker and what is missing there.
        """
        here = version("screening")
        if secret and not self.client.scheduler.address.startswith("tls://"):
            raise _refusal(
                self.address,
                "secrets would travel unencrypted; start scheduler and workers with "
                "TLS and give the tls:// address, or give local:N",
            )
        try:
            answers = self.client.run(_survey, [str(path.resolve()) for path in paths])
        except ImportError:
            raise _refusal(
                self.address,
                f"a worker cannot import screening; install version {here} there",
            ) from None
        for worker, (there, missing) in answers.items():
            if there != here:
                raise _refusal(
                    self.address,
                    f"{worker} has screening {there}, this host has "
                    f"{here}; install the same version",
                )
            if missing:
                raise _refusal(
                    self.address,
                    f"{worker} cannot read {missing[0]}; workers use the same paths "
                    "as this command: use a shared file system",
                )

    def sees(self, paths: Sequence[Path]) -> bool:
        """Return True if every worker can read files by the paths of this process."""
        answers = self.client.run(_survey, [str(path.resolve()) for path in paths])
        return not any(missing for _, missing in answers.values())

    def watch(self, closed: threading.Event) -> None:
        """Call off all tasks if no worker is left for `DESERTED_SECONDS`."""
        deserted_since = None
        while not closed.wait(POLL_SECONDS):
            try:
                is_deserted = self._receivers and not self.client.nthreads()
            except OSError:
                # The scheduler went away: dask cancels the tasks.
                return
            if not is_deserted:
                deserted_since = None
            elif deserted_since is None:
                deserted_since = time.monotonic()
                logger.warning(
                    "cluster %s: no worker is left; waiting for one", self.address
                )
            elif time.monotonic() - deserted_since >= DESERTED_SECONDS:
                deserted_since = None
                self.call_off(
                    _refusal(
                        self.address,
                        f"no worker was left for {DESERTED_SECONDS:g} s; start some, "
                        "and repeat the command to continue from the finished work",
                    )
                )


def _refusal(address: str, fault: str) -> ClusterError:
    """Return the error of a cluster that cannot be used."""
    return ClusterError(f"`cluster` {address}: {fault}", parameters=["cluster"])


def _has_workers(client: Any, seconds: float) -> bool:
    """Return True if a scheduler has a worker, or gets one within so many seconds."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        return False
    return True


def _survey(paths: list[str]) -> tuple[str, list[str]]:
    """Return a worker's version of screening, and the paths that it cannot read."""
    missing = [path for path in paths if not os.access(path, os.R_OK)]
    return version("screening"), missing


@contextmanager
def open_cluster(address: str | Cluster | None) -> Iterator[Cluster | None]:
    """Connect to workers while the block runs; yield None for None.

    `address` is that of a scheduler, or ``local:N``, which starts N workers on this
    machine. Workers that are connected already are not closed.

    Raises
    ------
    ClusterError
        If it is not an address, no scheduler answers there, there are no workers, or
        dask.distributed is not installed.
    """
    if not isinstance(address, str):
        yield address
        return
    n_local = _n_local_workers(address)
    try:
        import dask
        import distributed
    except ImportError:
        raise ClusterError(
            '`cluster` needs dask.distributed: pip install "screening[cluster]"',
            parameters=["cluster"],
        ) from None
    # Dask's reports of processes that come and go belong to no command.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        if n_local is None:
            client = stack.enter_context(_connect(distributed, address))
            n_threads = 1
        else:
            client = stack.enter_context(_start(distributed, n_local, stack))
            n_threads = max(1, available_cores() // n_local)
        cluster = Cluster(client, address, n_threads)
        closed = threading.Event()
        stack.callback(closed.set)
        threading.Thread(target=cluster.watch, args=(closed,), daemon=True).start()
        yield cluster


def _n_local_workers(address: str) -> int | None:
    """Return N of ``local:N``; None for the address of a scheduler."""
    head, colon, number = address.rpartition(":")
    is_number = number.isdigit()
    if head == LOCAL and is_number and 1 <= int(number) <= MAX_LOCAL_WORKERS:
        return int(number)
    is_address = colon and is_number
    if LOCAL in (head, address) or not is_address:
        raise _refusal(
            address,
            f"give local:N, with 1 to {MAX_LOCAL_WORKERS} "
            "workers, or a scheduler's address, such as tcp://host:8786"
            f"{did_you_mean(head or address, [LOCAL])}",
        )
    return None


def _connect(distributed: Any, address: str) -> Any:
    try:
        client = distributed.Client(
            address, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise _refusal(
            address,
            f"no dask scheduler answers there ({type(error).__name__}); start one "
            "with `dask scheduler`, or give local:N",
        ) from None
    if not _has_workers(client, CONNECT_SECONDS):
        client.close()
        raise _refusal(
            address,
            f"the scheduler has no workers; start some with `dask worker {address}`",
        )
    return client


def _start(distributed: Any, n_workers: int, stack: ExitStack) -> Any:
    """Start workers on this machine's loopback interface, closed to other users."""
    security = distributed.Security.temporary()
    scratch = tempfile.mkdtemp(prefix="screening-")
    stack.callback(shutil.rmtree, scratch, ignore_errors=True)
    cluster = distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host=LOOPBACK,
        protocol="tls://",
        security=security,
        dashboard_address=None,
        worker_dashboard_address=None,
        # Any free port: another command may have the usual one.
        scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
        # Dask would stop a worker at a limit of its own; the operator sets the limit.
        memory_limit=0,
        local_directory=scratch,
        silence_logs=logging.CRITICAL,
    )
    stack.enter_context(cluster)
    return distributed.Client(cluster, security=security, set_as_default=False)
