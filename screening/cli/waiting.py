"""What a command that takes more than two seconds says on a terminal until it is done.

A line names the work and counts the seconds, or a progress bar is drawn. A timer of the
system draws them: no thread, so that processes can be forked.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

# Seconds before anything is drawn, and between two drawings.
PATIENCE = 2.0
INTERVAL = 0.5
# Move to the start of the line, and erase it.
_ERASE = "\r\x1b[K"


class _Screen:
    """What is drawn on the terminal now.

    Parameters
    ----------
    draw : callable or None
        Draws a bar again; None while the line is shown.
    """

    def __init__(self) -> None:
        self.work = ""
        self.began = 0.0
        self.is_on = False
        self.has_line = False
        self.draw: Callable[[], None] | None = None

    def tick(self, number: int, frame: object) -> None:
        """Draw the bar, or the line with the seconds so far."""
        # The work goes on if the terminal has gone.
        with suppress(OSError, ValueError):
            if self.draw is not None:
                self.draw()
            elif self.is_on:
                seconds = round(time.monotonic() - self.began)
                sys.stderr.write(f"{_ERASE}{self.work}: {seconds} s")
                sys.stderr.flush()
                self.has_line = True

    def erase(self) -> None:
        """Erase the line, such as before something is printed."""
        if self.has_line:
            self.has_line = False
            with suppress(OSError, ValueError):
                sys.stderr.write(_ERASE)
                sys.stderr.flush()


_screen = _Screen()


@contextmanager
def shown_work(work: str) -> Iterator[None]:
    """Say on a terminal what is waited for once it takes more than `PATIENCE`."""
    if not sys.stderr.isatty():
        yield
        return
    _screen.work = work
    _screen.began = time.monotonic()
    _screen.is_on = True
    before = signal.signal(signal.SIGALRM, _screen.tick)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, INTERVAL)
    try:
        yield
    finally:
        stop_waiting()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stop_waiting() -> None:
    """Draw the line no more: the command asks or answers."""
    _screen.is_on = False
    _screen.erase()


def erase_line() -> None:
    """Erase the line before something else is written; it comes back below."""
    _screen.erase()


@contextmanager
def drawing(draw: Callable[[], None]) -> Iterator[None]:
    """Draw a bar instead of the line, as often as the line."""
    _screen.erase()
    before = _screen.draw
    _screen.draw = draw
    try:
        yield
    finally:
        _screen.draw = before
        # What comes after the bar has seconds of its own.
        _screen.began = time.monotonic()
        _screen.work = "Finishing"
