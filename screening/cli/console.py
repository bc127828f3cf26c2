"""What every command shares: exit codes, one answer on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import typer

from screening.cli.usage import refused
from screening.errors import CohortError, Locked, ModelError, ScreenError, UsageError

EXIT_CODES: dict[type[BaseException], int] = {
    UsageError: 2,
    CohortError: 3,
    ModelError: 4,
    Locked: 75,
    ScreenError: 1,
    KeyboardInterrupt: 130,
}
# The command did its work, and what it found should not wait for somebody to open the page.
ATTENTION = 5


class LogFormat(StrEnum):
    """How log lines look."""

    text = "text"
    json = "json"


@contextmanager
def exits() -> Iterator[None]:
    """Turn an error meant for the user into a message and its exit code; a bug keeps its traceback."""
    try:
        yield
    except tuple(EXIT_CODES) as error:
        code = next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        refused(f"screen: {_message(error)}", code)
        raise typer.Exit(code) from None


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted, nothing was written"
    if isinstance(error, CohortError) and len(error.violations) > 1:
        count = len(error.violations)
        return "\n  ".join([f"{error.broken} in {count} places:", *error.violations])
    return str(error)


def tell(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print the answer of a command: one JSON object, or a line a key."""
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False, allow_nan=False))
        return
    width = max(map(len, answer), default=0)
    for key, value in answer.items():
        lines = [_inline(one) for one in value] if isinstance(value, list) else [_inline(value)]
        for head, line in zip([key, *[""] * len(lines)], lines or ["-"], strict=False):
            typer.echo(f"{head:{width}}  {line}")


def sentences(reasons: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why something wants attention, a line each: what was found, and what to do."""
    return [" ".join(filter(None, (each["words"], each["remedy"]))) for each in reasons]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_inline(one)}" for key, one in value.items()) or "-"
    if isinstance(value, list):
        return " | ".join(map(_inline, value)) or "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def bar(title: str) -> Callable[[int, int], None]:
    """Make a progress bar on stderr; it shows after a second, and never where stderr is no terminal.

    Returns
    -------
    callable
        `progress(done, total)`.
    """
    began = time.monotonic()
    shown = False
    start: int | None = None

    def progress(done: int, total: int) -> None:
        nonlocal shown, start
        # What was done before the first call (an earlier attempt) says nothing of how fast this one is.
        start = done if start is None else start
        spent = time.monotonic() - began
        if not sys.stderr.isatty() or spent < 1:
            return
        share = min(done / max(total, 1), 1.0)
        ended = done >= total
        if ended and not shown:
            return
        marks = "#" * round(30 * share)
        left = f", {_duration(spent * (total - done) / (done - start))} left" if start < done < total else ""
        line = f"\r{title} [{marks:<30}] {share:4.0%}{left:<18}"
        print(line, end="\n" if ended else "", file=sys.stderr, flush=True)
        shown = not ended

    return progress


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest:02} s"


class _JsonLines(logging.Formatter):
    """One JSON object a line: what happened and where, never the values that were put in."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"level": record.levelname.lower(), "logger": record.name, "event": str(record.msg)}
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(form: LogFormat) -> None:
    """Send logs and warnings to stderr, as text or as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form is LogFormat.json else logging.Formatter("screen: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)
