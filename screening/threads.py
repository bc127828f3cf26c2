"""Number of threads of the compiled loops, of BLAS and of OpenMP."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache

from threadpoolctl import ThreadpoolController

_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available_cores() -> int:
    """Return the number of cores that this process may use.

    A container's CPU limit counts, and so does a process's affinity.
    """
    affinity = None
    if hasattr(os, "sched_getaffinity"):
        affinity = frozenset(os.sched_getaffinity(0))
    return _count_cores(affinity)


@lru_cache
def _count_cores(affinity: frozenset[int] | None) -> int:
    """Count the cores; again if `affinity` changes.

    Each count reads files of the control group (0.05 ms), and fits of a few
    milliseconds ask several times.
    """
    # Commands that only read a table start without it.
    from joblib import cpu_count

    return int(cpu_count())


def n_threads() -> int:
    """Return the number of threads that a loop called here may use."""
    return _limit.get() or available_cores()


@contextmanager
def limit_threads(jobs: int = -1) -> Iterator[None]:
    """Limit the threads of loops inside a ``with`` block.

    Parameters
    ----------
    jobs : int
        Number of threads, -1 for one per core.
    """
    limit = None if jobs == -1 else jobs
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def limit_libraries(limits: dict[str, int]) -> AbstractContextManager[object]:
    """Limit the threads of BLAS or OpenMP inside a ``with`` block.

    Parameters
    ----------
    limits : dict of str to int
        Number of threads of ``"blas"``, ``"openmp"`` or both.
    """
    return _loaded_libraries(len(sys.modules)).limit(limits=limits)


@lru_cache(maxsize=1)
def _loaded_libraries(n_modules: int) -> ThreadpoolController:
    """Return the loaded libraries that have threads.

    To find them takes 5 ms, and a training limits them for every task. Only an import
    loads another library.
    """
    return ThreadpoolController()


def run_in_threads(task: Callable[[int], object], items: Sequence[int]) -> None:
    """Call task(item) for every item, in ``n_threads()`` threads."""
    # One item waits for no import of what counts the cores.
    threads = min(n_threads(), len(items)) if len(items) > 1 else 1
    if threads <= 1:
        for item in items:
            task(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(task, items):
            pass
