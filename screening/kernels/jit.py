"""`numba.njit` for this package: compiled once, and cached on disk if numba can.

numba writes its cache to ``NUMBA_CACHE_DIR``, else beside the package, else to the
user's cache folder. If none of them can be written (a read-only container without a
home folder) it refuses to define a cached function; such a function is then compiled in
every process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

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
            return numba.njit(**options)(function)
        except (RuntimeError, OSError):
            if not options.get("cache"):
                raise
            _warn_once(
                "the numerical loops are compiled anew in every process, which takes "
                "half a minute: there is no folder to keep them in; set "
                "NUMBA_CACHE_DIR to one that can be written"
            )
            return numba.njit(**options | {"cache": False})(function)

    return decorate


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
    """Log a warning unless this process has logged one about compilation."""
    if not _warned.is_set():
        _warned.set()
        logger.warning(message)


event.register("numba:compile", _CompileNotice())
