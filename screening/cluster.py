"""Pieces of work in other processes (dask.distributed): functions and paths travel, rows never do."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from screening.errors import UsageError
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from distributed import Client, Future

Piece = TypeVar("Piece")
Result = TypeVar("Result")

LOOPBACK = "127.0.0.1"
LOCAL = "local"
MOST_LOCAL = 256
# A scheduler answers at once, or it is not there.
PATIENCE_SECONDS = 20
# On a host of many users nobody else is to read or steer what runs: a certificate that lives as long as the
# processes is asked of every connection, and the pages that dask would serve are left out.
SETTINGS = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.daemon": True,
}


@dataclass(frozen=True)
class Cluster:
    """Workers that take pieces of work.

    Parameters
    ----------
    client : Client
    where : str
        As it was asked for.
    threads : int
        What one piece may use of its worker's cores.
    """

    client: Client
    where: str
    threads: int
    _begun: WeakSet[Future] = field(default_factory=WeakSet, repr=False)

    def map(self, function: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        """Start function(piece) for every piece, and give the results in order.

        A piece whose worker dies is given to another. What is left when the caller stops is called off.

        Parameters
        ----------
        function : callable
            Of this package: it goes by its name.
        pieces : sequence
            Small: paths, ranges, digests.

        Raises
        ------
        UsageError
            Workers died of the same piece again and again, or the scheduler went away.
        """
        # Not pure: equal pieces of two callers are two tasks, for each has files of its own to write.
        futures = self.client.map(function, pieces, pure=False, batch_size=1000)
        self._begun.update(futures)
        return self._results(futures)

    def call_off(self) -> None:
        """Have whoever waits for a result wait no more."""
        self.client.cancel(list(self._begun), force=True)

    def _results(self, futures: list[Future]) -> Iterator[Any]:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            while futures:
                # A future that nobody holds is forgotten by the scheduler: so is what was not begun.
                yield futures.pop(0).result()
        except KilledWorker:
            raise UsageError(
                f"--cluster {self.where}: workers died one after the other of one piece; is memory short?"
            ) from None
        except CancelledError:
            raise UsageError(
                f"--cluster {self.where}: its scheduler went away; ask again to go on from what is finished"
            ) from None

    def check(self, paths: Sequence[Path]) -> None:
        """Refuse workers that are of another version, or do not see the same files.

        Raises
        ------
        UsageError
            Naming the worker and what it lacks.
        """
        from screening import __version__

        try:
            answers = self.client.run(_seen, [str(path.resolve()) for path in paths])
        except ImportError:
            raise UsageError(
                f"--cluster {self.where}: a worker cannot import screening; it needs version {__version__}"
            ) from None
        for worker, (version, missing) in answers.items():
            if version != __version__:
                raise UsageError(
                    f"--cluster {self.where}: {worker} has screening {version}, here it is {__version__}"
                )
            if missing:
                raise UsageError(
                    f"--cluster {self.where}: {worker} does not see {missing[0]}; workers read and write by "
                    "the same paths as this command: use a shared file system"
                )


def _seen(paths: list[str]) -> tuple[str, list[str]]:
    """The version that runs on a worker, and which of some paths are not there for it."""
    from screening import __version__

    return __version__, [path for path in paths if not os.access(path, os.R_OK)]


@contextmanager
def opened(where: str | None) -> Iterator[Cluster | None]:
    """Reach the workers of `--cluster`: `local:N` starts N on this machine, for as long as the block.

    None where none are asked for.

    Raises
    ------
    UsageError
        It is no address, nobody answers there, there is no worker, or dask.distributed is not installed.
    """
    if where is None:
        yield None
        return
    n_local = _local(where)
    try:
        import dask
        import distributed
    except ImportError:
        raise UsageError('--cluster needs dask.distributed: pip install "screening[cluster]"') from None
    # What dask says of processes that come and go is said by nobody's command.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        if n_local is None:
            client = stack.enter_context(_reached(distributed, where))
            threads = 1
        else:
            stack.enter_context(dask.config.set(SETTINGS))
            client = stack.enter_context(_started(distributed, n_local, stack))
            threads = max(1, (os.cpu_count() or 1) // n_local)
        yield Cluster(client, where, threads)


def _local(where: str) -> int | None:
    """N of `local:N`; None for the address of a scheduler."""
    head, colon, number = where.rpartition(":")
    if head == LOCAL and number.isdigit() and 1 <= int(number) <= MOST_LOCAL:
        return int(number)
    if head == LOCAL or where == LOCAL or not (colon and number.isdigit()):
        raise UsageError(
            f"--cluster {where}: give local:N, with 1 to {MOST_LOCAL} workers, or a scheduler's address, "
            f"such as tcp://host:8786{did_you_mean(head or where, [LOCAL])}"
        )
    return None


def _reached(distributed: Any, where: str) -> Client:
    try:
        client = distributed.Client(where, timeout=PATIENCE_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise UsageError(
            f"--cluster {where}: no scheduler of dask answers there ({type(error).__name__}); "
            "start one with `dask scheduler`, or give local:N"
        ) from None
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError:
        client.close()
        raise UsageError(
            f"--cluster {where}: the scheduler has no worker; start some with `dask worker {where}`"
        ) from None
    return client


def _started(distributed: Any, n_workers: int, stack: ExitStack) -> Client:
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
        # Dask would stop a worker by a share of its own; what a night may take is the operator's to say.
        memory_limit=0,
        local_directory=scratch,
        silence_logs=logging.CRITICAL,
    )
    stack.enter_context(cluster)
    return distributed.Client(cluster, security=security, set_as_default=False)
