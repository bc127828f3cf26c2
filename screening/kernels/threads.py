"""How many threads the compiled loops take, and running a task over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple

from screening.errors import UsageError

Given = TypeVarTuple("Given")
Result = TypeVar("Result")

_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available_cores() -> int:
    """Cores this process may use."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


def n_threads() -> int:
    """Threads that a loop takes here."""
    return _limit.get() or available_cores()


@contextmanager
def limit_threads(jobs: int = -1) -> Iterator[None]:
    """Loops inside take so many threads, -1 for one a core (UsageError for 0 or less)."""
    if jobs != -1 and jobs < 1:
        raise UsageError(
            f"--jobs {jobs}: give a number of threads, or -1 for all cores"
        )
    token = _limit.set(None if jobs == -1 else jobs)
    try:
        yield
    finally:
        _limit.reset(token)


def with_share_of_cores(
    jobs: int, function: Callable[[*Given], Result], *given: *Given
) -> Result:
    """function(*given) as one of so many jobs at a time: its loops take its share of the cores."""
    with limit_threads(max(1, available_cores() // max(jobs, 1))):
        return function(*given)


def run_in_threads(task: Callable[[int], object], items: Sequence[int]) -> None:
    """task(item) for every item, by ``n_threads()`` threads."""
    threads = min(n_threads(), len(items))
    if threads <= 1:
        for item in items:
            task(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(task, items):
            pass
