"""Independent calls of a function, on the cores of this machine or by other machines.

The calls are run by `joblib.Parallel`, so that a caller's ``joblib.parallel_config``
chooses what runs them: processes of this machine by default, threads, or a cluster of
dask or ray.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any

from joblib import Parallel, effective_n_jobs
from joblib.parallel import LokyBackend, get_active_backend

from screening.cluster import Cluster
from screening.errors import UsageError
from screening.fork_server import is_prepared
from screening.shared_arrays import SharedArrays
from screening.task_queue import Arguments, Call, TaskQueue
from screening.threads import limit_libraries


def shares_files() -> bool:
    """Return True if joblib's own processes, on this machine, make the calls."""
    return isinstance(get_active_backend(prefer="processes")[0], LokyBackend)


def calls_at_a_time(jobs: int) -> int:
    """Return how many calls `in_parallel` makes at a time for a number of jobs."""
    if jobs == -1:
        jobs = get_active_backend()[1] or -1
    return int(effective_n_jobs(jobs))


def in_parallel(
    function: Callable[..., Any],
    tasks: Iterable[Arguments],
    *,
    jobs: int = -1,
    cluster: Cluster | None = None,
) -> Iterator[Any]:
    """Call function(*task) for every task; return the results in the order of tasks.

    The calls begin at once. Without a cluster, one job or one task runs in this
    process. Processes get large arrays as memory maps. Loops of each call use one
    thread; a single task may use one for each job. If a process is killed, all calls
    whose results have not been taken are made again. Until the iterator ends or is
    closed, which abandons calls that still run, BLAS of this process uses one thread.

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

    Raises
    ------
    UsageError
        If a process is killed twice at the same task (ClusterError: a worker of a
        cluster), or if no worker is left. What `function` raises is raised.
    """
    source = iter(tasks)
    first_tasks = list(islice(source, 2))
    n_available = calls_at_a_time(jobs)
    if len(first_tasks) < 2:
        # The only task gets the threads of all jobs.
        jobs = 1
    elif cluster is None:
        jobs = n_available
    n_threads = n_available // jobs if cluster is None else cluster.n_threads

    is_forked = is_prepared() and cluster is None and shares_files()
    arrays = SharedArrays() if is_forked and jobs != 1 else None

    backend = None if cluster is None else cluster.backend()
    # What joblib maps is tracked by a process that forked ones do not know.
    max_nbytes = "1M" if arrays is None else None

    def start(calls: Iterable[Call]) -> Any:
        return Parallel(
            jobs,
            backend=backend,
            return_as="generator",
            prefer="processes",
            batch_size=1,
            # The loops are compiled for arrays that can be written to.
            mmap_mode="c",
            max_nbytes=max_nbytes,
        )(calls)

    waiting = TaskQueue(chain(first_tasks, source), function, n_threads, arrays)
    results = _results(waiting, start, arrays)
    next(results)
    return results


def _results(
    tasks: TaskQueue,
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
        # Limited once, here: threads that limited BLAS would undo each other's limits.
        with (
            limit_libraries({"blas": 1}),
            nullcontext() if arrays is None else arrays,
        ):
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
                            "a process of this command was killed twice at the same "
                            "task; memory may be short: give fewer `jobs`",
                            parameters=["jobs"],
                        ) from None
                    n_before_kill = n_yielded
                results = start(tasks.calls())
    finally:
        # joblib warns of calls that are abandoned.
        with warnings.catch_warnings(action="ignore"):
            results.close()
