"""Independent calls of a function, on the cores of this machine or by other machines.

The calls are run by `joblib.Parallel`, so that a caller's ``joblib.parallel_config``
chooses what runs them: processes of this machine by default, threads, or a cluster of
dask or ray.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import chain, islice
from multiprocessing import current_process, forkserver, parent_process
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import context as loky_context
from joblib.parallel import LokyBackend, get_active_backend
from threadpoolctl import threadpool_limits

from screening.cluster import Cluster
from screening.errors import UsageError
from screening.kernels.threads import available_cores, limit_threads
from screening.shared_arrays import SharedArrays

Arguments = tuple[Any, ...]
Call = tuple[Callable[..., Any], Arguments, dict[str, Any]]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit the threads of numerical libraries, by default one a core."""


@contextmanager
def server_environment() -> Iterator[None]:
    """Set the environment that a server of processes is started with.

    Libraries start no threads there, and no module of the current folder is imported.
    """
    environment = dict(os.environ)
    os.environ |= dict.fromkeys(THREAD_VARIABLES, "1") | {"PYTHONSAFEPATH": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= environment


def prepare_processes(module: str) -> None:
    """Start the server from which this command's processes are forked.

    It imports a module while the command itself imports, so that processes started
    later are there in a fraction of a second; each would take seconds to import it
    otherwise. Only a command may ask for it: the main module is imported there too,
    which a caller of the library need not have written for that.

    Parameters
    ----------
    module : str
        Imports what the processes will call, and starts no thread.
    """
    is_possible = sys.platform == "linux" and parent_process() is None
    if is_possible and available_cores() > 1:
        forkserver.set_forkserver_preload([module])
        with server_environment():
            forkserver.ensure_running()
        loky_context.set_start_method("forkserver", force=True)


def seconds_to_start() -> float:
    """Return about how long processes take to start, in seconds."""
    return 0.5 if _is_prepared() else 2.5


def _is_prepared() -> bool:
    return bool(loky_context.get_start_method() == "forkserver")


def shares_files() -> bool:
    """Return True if joblib's own processes, on this machine, make the calls."""
    return isinstance(get_active_backend(prefer="processes")[0], LokyBackend)


def in_parallel(
    function: Callable[..., Any],
    tasks: Iterable[Arguments],
    *,
    jobs: int = -1,
    cluster: Cluster | None = None,
    threads: bool = False,
) -> Iterator[Any]:
    """Call function(*task) for every task; return the results in the order of tasks.

    The calls begin at once. Without a cluster, one job or one task runs in this process.
    Processes get large arrays as memory maps. Loops of each call use one thread; a
    single task may use one for each job. If a process is killed, all calls whose results
    have not been taken are made again. Until the iterator ends or is closed, which
    abandons calls that still run, BLAS of this process uses one thread.

    Parameters
    ----------
    function : callable
        A function of a module, which other processes import by its name.
    tasks : iterable of tuple
        Arguments of each call. They are read ahead by twice the number of jobs.
    jobs : int
        Calls at a time; -1 for as many as a caller's ``joblib.parallel_config`` says,
        and otherwise one for each core.
    cluster : Cluster, optional
        Workers that make the calls, even a single one.
    threads : bool
        Prefer threads to processes, for calls of compiled code without the GIL.

    Raises
    ------
    UsageError
        If processes are killed again and again (ClusterError: workers of a cluster), or
        if no worker is left.
    """
    source = iter(tasks)
    first_tasks = list(islice(source, 2))
    if jobs == -1:
        jobs = get_active_backend()[1] or -1
    n_available = effective_n_jobs(jobs)
    if len(first_tasks) < 2:
        jobs = 1
    n_threads = n_available // min(n_available, effective_n_jobs(jobs))
    if cluster is not None:
        n_threads = cluster.n_threads

    is_forked = _is_prepared() and not threads and cluster is None and shares_files()
    arrays = SharedArrays() if is_forked and jobs != 1 else None

    def start(calls: Iterable[Call]) -> Any:
        return Parallel(
            jobs,
            backend=None if cluster is None else cluster.backend(),
            return_as="generator",
            prefer="threads" if threads else "processes",
            batch_size=1,
            # The loops are compiled for arrays that can be written to.
            mmap_mode="c",
            # What joblib maps is tracked by a process that forked ones do not know.
            max_nbytes="1M" if arrays is None else None,
        )(calls)

    waiting = _Tasks(chain(first_tasks, source), function, n_threads, arrays)
    results = _results(waiting, start, arrays)
    next(results)
    return results


def _results(
    tasks: _Tasks,
    start: Callable[[Iterable[Call]], Any],
    arrays: SharedArrays | None,
) -> Iterator[Any]:
    """Start the calls, yield None, and then yield all results.

    After a kill those that are missing are started again.
    """
    results = start(tasks.calls())
    n_yielded = 0
    n_before_kill = None
    try:
        # Threads that each limited BLAS would restore its threads under each other.
        with threadpool_limits(1, user_api="blas"), arrays or nullcontext():
            yield None
            while True:
                try:
                    for result in results:
                        n_yielded += 1
                        tasks.forget_first()
                        yield result
                    return
                except BrokenProcessPool:
                    if n_before_kill == n_yielded:
                        raise UsageError(
                            "a process that worked for this command was killed twice "
                            "at the same task; is memory short? Give fewer `jobs`",
                            parameters=["jobs"],
                        ) from None
                    n_before_kill = n_yielded
                results = start(tasks.calls())
    finally:
        # joblib warns that calls which nobody waits for are abandoned.
        with warnings.catch_warnings(action="ignore"):
            results.close()


class _Tasks:
    """Tasks in order, kept until their results have been taken.

    Parameters
    ----------
    source : iterable of tuple
        Arguments of each call.
    function : callable
    n_threads : int
        Threads that loops of each call may use.
    arrays : SharedArrays or None
        Packs the arguments of each call.
    """

    def __init__(
        self,
        source: Iterable[Arguments],
        function: Callable[..., Any],
        n_threads: int,
        arrays: SharedArrays | None,
    ) -> None:
        self._source = iter(source)
        self._function = function
        self._n_threads = n_threads
        self._arrays = arrays
        self._unfinished: deque[Arguments] = deque()
        self._n_starts = 0
        # joblib asks for the next task in whichever thread a result comes.
        self._lock = threading.Lock()

    def forget_first(self) -> None:
        """Forget the oldest task, whose result has been taken."""
        self._unfinished.popleft()

    def calls(self) -> Iterator[Call]:
        """Yield all calls whose results are missing; earlier iterators end."""
        with self._lock:
            self._n_starts += 1
            number = self._n_starts
            repeated = list(self._unfinished)
        for task in repeated:
            yield self._call(task)
        while True:
            with self._lock:
                if number != self._n_starts:
                    return
                try:
                    task = next(self._source)
                except StopIteration:
                    return
                self._unfinished.append(task)
            yield self._call(task)

    def _call(self, task: Arguments) -> Call:
        function: Callable[..., Any] = self._function
        arguments = task
        if self._arrays is not None:
            function = _call_packed
            arguments = (self._arrays.pack((self._function, task)),)
        call: Call = delayed(_run)(os.getpid(), self._n_threads, function, *arguments)
        return call


def _call_packed(content: bytes) -> Any:
    """Call a function with arguments, both as `SharedArrays.pack` wrote them."""
    function, arguments = pickle.loads(content)
    return function(*arguments)


def _run(
    caller: int, n_threads: int, function: Callable[..., Any], *arguments: Any
) -> Any:
    """Call function(*arguments) with so many threads for its loops, and one for BLAS.

    Small matrix products by several threads of BLAS mostly wait for each other.
    `caller` is the process that asked for the result.
    """
    limits = {"blas": 1}
    is_worker = _is_forked() or current_process().name.startswith("LokyProcess")
    # A forked process, such as a site's night, may also make its calls itself.
    if is_worker and caller != os.getpid():
        end_with(caller)
        limits["openmp"] = n_threads
    with limit_threads(n_threads), threadpool_limits(limits):
        return function(*arguments)


@cache
def end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed at any time.

    RuntimeError if the system has no thread left to wait for that.
    """

    def watch() -> None:
        caller = parent_process()
        if _is_forked() and caller is not None:
            caller.join()
        # What joblib starts itself is not told when its parent ends.
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_forked() -> bool:
    """Return True in a process that a server of processes forked."""
    return current_process().name.startswith("ForkServerProcess")
