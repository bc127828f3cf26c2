"""The server from which a command's processes are forked, and the end of processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import current_process, forkserver, parent_process

from joblib.externals.loky.backend import context as loky_context

from screening.threads import available_cores

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit the threads of numerical libraries, by default one a core."""
PRELOADED_FIRST = "screening.server_start"
PRELOADED_LAST = "screening.kernels.preloading"


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
        forkserver.set_forkserver_preload([PRELOADED_FIRST, module, PRELOADED_LAST])
        with server_environment():
            forkserver.ensure_running()
        loky_context.set_start_method("forkserver", force=True)


def seconds_to_start() -> float:
    """Return about how long processes take to start, in seconds."""
    return 0.5 if is_prepared() else 2.5


def is_prepared() -> bool:
    """Return True if processes are forked from a server."""
    return bool(loky_context.get_start_method() == "forkserver")


def is_worker() -> bool:
    """Return True in a process that makes calls for another one."""
    return _is_forked() or current_process().name.startswith("LokyProcess")


@cache
def end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed at any time.

    RuntimeError if the system has no thread left to wait for that.
    """

    def watch() -> None:
        caller = parent_process()
        if _is_forked() and caller is not None:
            caller.join()
        # Processes that joblib starts do not learn that their parent ended.
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_forked() -> bool:
    """Return True in a process that a server of processes forked."""
    return current_process().name.startswith("ForkServerProcess")
