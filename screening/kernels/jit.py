"""`njit` as the loops use it: compiled once and kept on disk where numba has a place for it.

numba keeps what it compiles in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder.
Where none of them can be written (a read-only container without a home) it would refuse to define a function
that is to be kept; such a one is compiled in every process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

logger = logging.getLogger("screening")

_said = threading.Event()


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`; with ``cache=True`` a function that cannot be kept is compiled in this process.

    A division by 0 is infinite, as numpy has it: looking for it would keep a loop from becoming vector code.
    """
    options = {"error_model": "numpy"} | options
    if function is not None:
        return numba.njit(**options)(function)

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except (RuntimeError, OSError):
            if not options.get("cache"):
                raise
            _warn_once(
                "the numerical loops are compiled anew in every process, which takes half a minute: there is "
                "no folder to keep them in; set NUMBA_CACHE_DIR to one that can be written"
            )
            return numba.njit(**options | {"cache": False})(function)

    return compiled


class _CompileNotice(event.Listener):
    """Says that a loop of ours is compiled; reading one from the disk is no such event."""

    def on_start(self, event: event.Event) -> None:
        if str(event.data["dispatcher"].py_func.__module__).startswith("screening."):
            _warn_once(
                "compiling once: the numerical loops are built on first use and kept on disk"
            )

    def on_end(self, event: event.Event) -> None: ...


def _warn_once(message: str) -> None:
    """One line for all the loops of this process."""
    if not _said.is_set():
        _said.set()
        logger.warning(message)


event.register("numba:compile", _CompileNotice())
