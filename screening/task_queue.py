"""Tasks in order, which are given out again if the process that had them was killed."""

from __future__ import annotations

import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from joblib import delayed

from screening.fork_server import end_with, is_worker
from screening.shared_arrays import SharedArrays
from screening.threads import limit_libraries, limit_threads

Arguments = tuple[Any, ...]
Call = tuple[Callable[..., Any], Arguments, dict[str, Any]]


class TaskQueue:
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
    # A forked process, such as a site's night, may also make its calls itself.
    if is_worker() and caller != os.getpid():
        end_with(caller)
        limits["openmp"] = n_threads
    with limit_threads(n_threads), limit_libraries(limits):
        return function(*arguments)
