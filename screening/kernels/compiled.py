"""Telling the user that the first run compiles, and where numba may keep what it compiled.

numba writes its cache beside the package and, where that is read-only, into the user's cache folder
(``NUMBA_CACHE_DIR`` overrides both); the loops are compiled in each process where none can be written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("screening")

_told = threading.Event()
_importing = threading.Lock()


def prepare() -> None:
    """Import the compiler, one thread at a time: numba's modules import each other in circles."""
    with _importing:
        import screening.kernels.loops  # noqa: F401


@contextmanager
def announced() -> Iterator[None]:
    """Log one line if anything is compiled inside, once a process; reading the disk cache does not count."""
    prepare()
    if _told.is_set():
        yield
        return
    from numba.core import event

    class Teller(event.Listener):
        def on_start(self, event: object) -> None:
            if not _told.is_set():
                _told.set()
                logger.warning("compiling once: the numerical loops are built on first use and kept on disk")

        def on_end(self, event: object) -> None: ...

    with event.install_listener("numba:compile", Teller()):
        yield
