"""Telling the user that the first run compiles, and where numba may keep what it compiled.

numba writes its cache beside the package and, where that is read-only, into the user's cache folder
(``NUMBA_CACHE_DIR`` overrides both); where none can be written, `kept` has each process compile anew.
"""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("screening")

_told = threading.Event()


def tell_of_no_cache() -> None:
    """Log one line for all the loops that will be compiled in this process and then forgotten."""
    if not _told.is_set():
        _told.set()
        logger.warning(
            "the numerical loops are compiled anew in every process, which takes half a minute: there is no "
            "folder to keep them in; set NUMBA_CACHE_DIR to one that can be written"
        )


def tell() -> None:
    """Log one line for all the loops that are compiled in this process."""
    if not _told.is_set():
        _told.set()
        logger.warning("compiling once: the numerical loops are built on first use and kept on disk")


def tell_of_compiling() -> None:
    """Have `tell` called when one of our functions is compiled; reading the disk cache does not count."""
    from numba.core import event

    class Teller(event.Listener):
        def on_start(self, event: event.Event) -> None:
            function = event.data["dispatcher"].py_func
            if function.__module__.startswith("screening."):
                tell()

        def on_end(self, event: event.Event) -> None: ...

    event.register("numba:compile", Teller())
