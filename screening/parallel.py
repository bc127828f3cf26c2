"""Pieces of work side by side: on threads of this process, or by workers of a cluster (dask)."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakSet, finalize

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from screening.errors import ClusterError
from screening.kernels.threads import (
    available_cores,
    limit_threads,
    with_share_of_cores,
)
from screening.spelling import did_you_mean

logger = logging.getLogger("screening")

LOOPBACK = "127.0.0.1"
LOCAL = "local"
MOST_LOCAL = 256
# A scheduler answers at once, or it is not there.
PATIENCE_SECONDS = 20
# A worker that died is mostly started again at once.
DESERTED_SECONDS, LOOK_SECONDS = 120.0, 5.0
# On a host of many users nobody else is to read or steer what runs: a certificate that lives as long as the
# processes is asked of every connection, and the pages that dask would serve are left out.
SETTINGS = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.daemon": True,
    # The rows that all pieces share go with the first of them.
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


@dataclass(frozen=True)
class Cluster:
    """Workers that take pieces of work."""

    client: Any
    where: str  # As it was asked for.
    threads: int  # What one piece may use of its worker's cores.
    begun: WeakSet[Any] = field(
        default_factory=WeakSet, repr=False
    )  # What somebody waits for.
    held: dict[int, Any] = field(
        default_factory=dict, repr=False
    )  # Large arguments there, as long as here.
    holds: Lock = field(default_factory=Lock, repr=False)

    def call_off(self) -> None:
        """Have whoever waits for a result wait no more."""
        self.client.cancel(list(self.begun), force=True)

    def holding(self, value: Any) -> Any:
        """A large argument of many pieces: it goes to every worker once, again where its holders died."""
        with self.holds:
            if id(value) not in self.held:
                self.held[id(value)] = self.client.submit(_given, value, pure=False)
                finalize(value, self.held.pop, id(value), None)
            return self.held[id(value)]

    def check(self, paths: Sequence[Path] = (), secret: bool = False) -> None:
        """Refuse workers that are of another version, or do not see the same files.

        `paths`: read or written by the workers.
        `secret`: rows of patients or a password go to the workers by the network: only over TLS.
        Raises ClusterError: naming the worker and what it lacks.
        """
        own = version("screening")
        if secret and not self.client.scheduler.address.startswith("tls://"):
            raise ClusterError(
                f"--cluster {self.where}: what is secret would travel unencrypted; start scheduler and "
                "workers with TLS and give its tls:// address, or give local:N"
            )
        try:
            answers = self.client.run(_seen, [str(path.resolve()) for path in paths])
        except ImportError:
            raise ClusterError(
                f"--cluster {self.where}: a worker cannot import screening; it needs version {own}"
            ) from None
        for worker, (theirs, missing) in answers.items():
            if theirs != own:
                raise ClusterError(
                    f"--cluster {self.where}: {worker} has screening {theirs}, here it is {own}"
                )
            if missing:
                raise ClusterError(
                    f"--cluster {self.where}: {worker} does not see {missing[0]}; workers read and write by "
                    "the same paths as this command: use a shared file system"
                )


def in_parallel(
    function: Callable[..., Any],
    pieces: Iterable[Sequence[Any]],
    *,
    jobs: int = -1,
    cluster: Cluster | None = None,
    shared: Sequence[Any] = (),
) -> Iterator[Any]:
    """Start function(*piece) for each piece of work, and give the results in their order.

    A piece whose worker dies is given to another. What is left when the caller stops is called off.

    `function`: of this package: it goes to workers by its name.
    `pieces`: arguments; small but for those that are shared.
    `jobs`: threads, -1 for all cores; each takes its share of the cores. Workers do a piece at a time.
    `cluster`: workers in place of threads.
    `shared`: large arguments that many pieces have: they go to every worker once.
    Raises ClusterError: workers died of the same piece again and again, none is left, or the scheduler went
    away.
    """
    if cluster is None:
        return _by_threads(function, pieces, effective_n_jobs(jobs))
    held = {id(value): cluster.holding(value) for value in shared if value is not None}
    # Not pure: equal pieces of two callers are two tasks, for each has files of its own to write.
    futures = [
        cluster.client.submit(
            _on_worker,
            cluster.threads,
            function,
            *(held.get(id(value), value) for value in piece),
            pure=False,
        )
        for piece in pieces
    ]
    cluster.begun.update(futures)
    return _results(cluster, futures)


def _by_threads(
    function: Callable[..., Any], pieces: Iterable[Sequence[Any]], jobs: int
) -> Iterator[Any]:
    # Around them all: threads that each set and restore it would restore it under each other. Small matrix
    # products by many threads of their own mostly wait for each other.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(
            lambda piece: with_share_of_cores(jobs, function, *piece), pieces
        )


def _given(shared: Any) -> Any:
    return shared


def _on_worker(threads: int, function: Callable[..., Any], *given: Any) -> Any:
    """function(*given) on a worker: its loops take its share of the cores."""
    with limit_threads(threads), threadpool_limits(1, user_api="blas"):
        return function(*given)


def _results(cluster: Cluster, futures: list[Any]) -> Iterator[Any]:
    from distributed import KilledWorker

    try:
        while futures:
            # A future that nobody holds is forgotten by the scheduler: so is what was not begun.
            yield _result(cluster, futures.pop(0))
    except KilledWorker:
        raise ClusterError(
            f"--cluster {cluster.where}: workers died one after the other of one piece; is memory short?"
        ) from None
    except CancelledError:
        raise ClusterError(
            f"--cluster {cluster.where}: its scheduler went away; ask again to go on from what is finished"
        ) from None


def _result(cluster: Cluster, future: Any) -> Any:
    """What a piece comes to; ClusterError where no worker was left for `DESERTED_SECONDS`."""
    while True:
        try:
            return future.result(timeout=LOOK_SECONDS)
        except TimeoutError:
            if future.status == "error":
                raise  # the piece's own
        with suppress(
            OSError
        ):  # the scheduler went away: then the future is soon cancelled
            if cluster.client.nthreads():
                continue
            logger.warning(
                "--cluster %s: no worker is left; waiting for one", cluster.where
            )
            if not _has_workers(cluster.client, DESERTED_SECONDS):
                raise ClusterError(
                    f"--cluster {cluster.where}: no worker was left for {DESERTED_SECONDS:g} s; start some, "
                    "and ask again to go on from what is finished"
                )


def _has_workers(client: Any, seconds: float) -> bool:
    """Whether a scheduler has a worker, or gets one within so many seconds."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        return False
    return True


def _seen(paths: list[str]) -> tuple[str, list[str]]:
    """The version that runs on a worker, and which of some paths are not there for it."""
    return version("screening"), [
        path for path in paths if not os.access(path, os.R_OK)
    ]


@contextmanager
def opened(where: str | None) -> Iterator[Cluster | None]:
    """Reach the workers of `--cluster`: `local:N` starts N on this machine, for as long as the block.

    None where none are asked for.

    Raises ClusterError: it is no address, nobody answers there, there is no worker, or dask.distributed is
    not installed.
    """
    if where is None:
        yield None
        return
    n_local = _local(where)
    try:
        import dask
        import distributed
    except ImportError:
        raise ClusterError(
            '--cluster needs dask.distributed: pip install "screening[cluster]"'
        ) from None
    # What dask says of processes that come and go is said by nobody's command.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        if n_local is None:
            client = stack.enter_context(_reached(distributed, where))
            threads = 1
        else:
            client = stack.enter_context(_started(distributed, n_local, stack))
            threads = max(1, available_cores() // n_local)
        yield Cluster(client, where, threads)


def _local(where: str) -> int | None:
    """N of `local:N`; None for the address of a scheduler."""
    head, colon, number = where.rpartition(":")
    if head == LOCAL and number.isdigit() and 1 <= int(number) <= MOST_LOCAL:
        return int(number)
    if head == LOCAL or where == LOCAL or not (colon and number.isdigit()):
        raise ClusterError(
            f"--cluster {where}: give local:N, with 1 to {MOST_LOCAL} workers, or a scheduler's address, "
            f"such as tcp://host:8786{did_you_mean(head or where, [LOCAL])}"
        )
    return None


def _reached(distributed: Any, where: str) -> Any:
    try:
        client = distributed.Client(
            where, timeout=PATIENCE_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ClusterError(
            f"--cluster {where}: no scheduler of dask answers there ({type(error).__name__}); "
            "start one with `dask scheduler`, or give local:N"
        ) from None
    if not _has_workers(client, PATIENCE_SECONDS):
        client.close()
        raise ClusterError(
            f"--cluster {where}: the scheduler has no worker; start some with `dask worker {where}`"
        )
    return client


def _started(distributed: Any, n_workers: int, stack: ExitStack) -> Any:
    """Worker processes on this machine, listening on the loopback interface only, closed to other users."""
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
        # Any free port: the usual one is the next command's, too.
        scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
        # Dask would stop a worker by a share of its own; what a night may take is the operator's to say.
        memory_limit=0,
        local_directory=scratch,
        silence_logs=logging.CRITICAL,
    )
    stack.enter_context(cluster)
    return distributed.Client(cluster, security=security, set_as_default=False)
