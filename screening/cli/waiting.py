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

WORK = {
    "demo": "Running the whole job on the sample cohorts",
    "recipes": "Reading the recipes",
    "init": "Reading the table",
    "check": "Checking the table",
    "features": "Making the table of features",
    "train": "Preparing the training",
    "compare": "Preparing the comparison",
    "score": "Reading the model and the table",
    "run": "Scoring the night of every series",
    "explain": "Explaining the case",
    "export": "Writing the export",
    "report": "Drawing the report",
    "review": "Entering the verdicts",
    "serve": "Showing the published pages",
    "outcomes": "Joining the outcomes with the nights",
    "history": "Reading the nights of the ledger",
    "validate": "Scoring and evaluating the cohort",
    "threshold": "Evaluating the model at the new threshold",
    "approve": "Writing the approved model",
    "retrain": "Reading the past cohort and the tables of the nights",
    "promote": "Comparing the nights of both models",
    "retire": "Entering the end of the series",
    "ledger": "Working on the ledger",
    "schema": "Writing the schema",
    "status": "Reading the ledger",
    "forget": "Erasing the patient from every file",
    "purge": "Erasing old nights from every file",
}
"""The work that a user waits for, by command."""


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
