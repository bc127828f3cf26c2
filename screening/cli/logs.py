"""Log lines on stderr: time, event and night.

They have declared keys only, and never a patient's value.
"""

from __future__ import annotations

import datetime
import json
import logging
import resource
import sys
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

import typer

from screening.cli.console import printable
from screening.cli.waiting import erase_line

# Every line of `--log json` has the first four, and the others if they are known.
KEYS = (
    "time",
    "level",
    "logger",
    "event",
    "series",
    "night",
    "run",
    "peak_mb",
    "exit_code",
    "code",
)

_logger = logging.getLogger("screening")


class LogFormat(StrEnum):
    """Format of log lines."""

    text = "text"
    json = "json"


_format: ContextVar[LogFormat] = ContextVar("log_format", default=LogFormat.text)
_context: ContextVar[dict[str, str | int]] = ContextVar("log_context")


def begin(arguments: Sequence[str]) -> None:
    """Find the format in the command's words, which may be mistyped."""
    is_json = "--log=json" in arguments or ("--log", "json") in pairwise(arguments)
    log_format = LogFormat.json if is_json else LogFormat.text
    _format.set(log_format)
    _context.set({})


def about(**context: str | int | None) -> None:
    """Set the series, night or run of the lines from here on; None changes nothing."""
    stated = {key: value for key, value in context.items() if value is not None}
    _context.set(_context.get({}) | stated)


def peak_mb() -> int:
    """Return the most memory that this process has used so far, in MiB."""
    if sys.platform == "linux":
        # `getrusage` may count the process that started this one. Some hosts hide this
        # line.
        with suppress(OSError, IndexError):
            status = Path("/proc/self/status").read_text()
            kib = status.split("VmHWM:")[1].split()[0]
            return int(kib) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, KiB elsewhere.
    return peak >> 20 if sys.platform == "darwin" else peak >> 10


def done(event: str) -> None:
    """Log for machines that something succeeded; people see the answer on stdout."""
    _logger.info(event)


def note(message: str) -> None:
    """Log something that the user should know; the command goes on."""
    erase_line()
    _logger.warning(message)


def attention(series: str | None, night: str, code: str, words: str) -> None:
    """Warn of a reason for attention of a series, or of the site if it is None."""
    erase_line()
    if _format.get() is LogFormat.json:
        facts: dict[str, object] = {"night": night, "code": code}
        if series is not None:
            facts["series"] = series
        written = json.loads(_line(logging.WARNING, _logger.name, words)) | facts
        typer.echo(printable(json.dumps(written, ensure_ascii=False)), err=True)
    else:
        note(f"{series or 'all series'} {night}: attention, {code}: {words}")


def relay(line: Mapping[str, object]) -> None:
    """Log a line of another process; as text only what went wrong."""
    if _format.get() is LogFormat.json:
        declared = {key: line[key] for key in KEYS if key in line}
        typer.echo(printable(json.dumps(declared)), err=True)
    elif line.get("level") != "info":
        note(f"{line.get('series')} {line.get('night')}: {line['event']}")


def failed(message: str, code: int) -> None:
    """Log what ended the command."""
    erase_line()
    if _format.get() is LogFormat.json:
        _write(logging.ERROR, _logger.name, message.removeprefix("screen: "), code)
    else:
        typer.echo(printable(message, lines=True), err=True)


def log_to_stderr(log_format: LogFormat) -> None:
    """Send logs and warnings to stderr, as text or as JSON lines."""
    _format.set(log_format)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_TextLines("screen: %(message)s"))
    handler.setLevel(logging.WARNING)
    if log_format is LogFormat.json:
        handler.setFormatter(_JsonLines())
        handler.setLevel(logging.INFO)
        sys.excepthook = _bug
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)


class _JsonLines(logging.Formatter):
    """Write one JSON object a line: the message, never the values put into it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        # The text of a library's warning is such a value, and may quote the data.
        message = (
            "a library warned" if record.name == "py.warnings" else str(record.msg)
        )
        return _line(record.levelno, record.name, message)


class _TextLines(logging.Formatter):
    """Write text with control characters, such as of a column's name, escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return printable(super().format(record), lines=True)


def _line(level: int, logger: str, event: str, code: int | None = None) -> str:
    """Return a line of `--log json`."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    facts: dict[str, str | int] = {
        "time": now,
        "level": logging.getLevelName(level).lower(),
        "logger": logger,
        "event": event,
        **_context.get({}),
    }
    if code is not None:
        facts["exit_code"] = code
    declared = {key: facts[key] for key in KEYS if key in facts}
    return printable(json.dumps(declared, ensure_ascii=False))


def _write(level: int, logger: str, event: str, code: int) -> None:
    """Write a line of `--log json` that ends the command."""
    typer.echo(_line(level, logger, event, code), err=True)


def _bug(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """Log a bug by its place.

    Its message, and the lines of a traceback, might contain a patient's value.
    """
    place = ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename).name
        place = f" at {file}:{trace.tb_lineno}"
        trace = trace.tb_next
    event = f"a bug: {kind.__name__}{place}; for details run again with --log text"
    _write(logging.CRITICAL, _logger.name, event, 1)
