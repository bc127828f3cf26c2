"""`numba.njit` for this package: compiled once, and cached on disk if numba can.

numba writes its cache to ``NUMBA_CACHE_DIR``, else beside the package, else to the
user's cache folder. If none of them can be written (a read-only container without a
home folder) it refuses to define a cached function; such a function is then compiled in
every process. So is a function whose cache another user could have written, because the
index of the cache is a pickle, which may run code when it is loaded.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from screening.files import is_private, others_may_write

logger = logging.getLogger("screening")

_warned = threading.Event()


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit`, without its cache if it cannot be written.

    Division by 0 gives infinity, as in NumPy: a check for it would prevent LLVM from
    vectorizing loops.
    """
    options = {"error_model": "numpy"} | options
    if function is not None:
        return numba.njit(**options)(function)

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            compiled = numba.njit(**options)(function)
        except (RuntimeError, OSError):
            if not options.get("cache"):
                raise
            reason = "no folder can store them"
        else:
            folder = compiled.stats.cache_path
            if folder is None or _is_private(Path(folder)):
                return compiled
            reason = "others may write to the folder that keeps them"
        _warn_once(
            "every process compiles the numerical loops again, which takes half a "
            f"minute: {reason}; set NUMBA_CACHE_DIR to a private folder"
        )
        return numba.njit(**options | {"cache": False})(function)

    return decorate


def _is_private(folder: Path) -> bool:
    """Return True if only this user and root can have written to a folder.

    An empty folder of this user that others may write gets mode 0700 first.
    """
    try:
        status = folder.stat()
        if others_may_write(status) and status.st_uid == os.geteuid():
            is_empty = not any(folder.iterdir())
            if is_empty:
                folder.chmod(0o700)
    except OSError:
        return False
    return is_private(folder)


class _CompileNotice(event.Listener):
    """Warn when a function of this package is compiled, not when it is loaded."""

    def on_start(self, event: event.Event) -> None:
        if str(event.data["dispatcher"].py_func.__module__).startswith("screening."):
            _warn_once(
                "compiling once: the numerical loops are built on first use and kept "
                "on disk"
            )

    def on_end(self, event: event.Event) -> None: ...


def _warn_once(message: str) -> None:
    """Log a warning unless this process has logged one about compilation.

    Workers log none: the command that started them compiles the same loops.
    """
    if not _warned.is_set() and current_process().name == "MainProcess":
        _warned.set()
        logger.warning(message)


event.register("numba:compile", _CompileNotice())
