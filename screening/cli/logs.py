"""Log lines on stderr: when what happened, to which night; declared keys only, never a patient's value."""

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

# Every line of `--log json` has the first four; the others where they are known.
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
)

_logger = logging.getLogger("screening")


class LogFormat(StrEnum):
    """How log lines look."""

    text = "text"
    json = "json"


_form: ContextVar[LogFormat] = ContextVar("log_form", default=LogFormat.text)
_known: ContextVar[dict[str, str | int]] = ContextVar("log_known")


def begin(words: Sequence[str]) -> None:
    """Know the form from the command's words, which may be mistyped, and nothing of any night yet."""
    asked = "--log=json" in words or ("--log", "json") in pairwise(words)
    _form.set(LogFormat.json if asked else LogFormat.text)
    _known.set({})


def about(**known: str | int | None) -> None:
    """Say which series, night and run the lines from here on are about."""
    _known.set(
        _known.get({})
        | {key: value for key, value in known.items() if value is not None}
    )


def peak_mb() -> int:
    """Return the most memory that this process has used so far, in MiB."""
    if sys.platform == "linux":
        # What `getrusage` tells may be of the process that started this one; some hosts hide these lines.
        with suppress(OSError, IndexError):
            return (
                int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
                >> 10
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak >> 20  # bytes there, KiB elsewhere
    return peak >> 10


def done(event: str) -> None:
    """A line for a machine that something went well; people see the answer on stdout."""
    _logger.info(event)


def note(words: str) -> None:
    """Something that the user should know, though the command goes on."""
    _logger.warning(words)


def relay(line: Mapping[str, object]) -> None:
    """Pass on a line of another process's log: declared keys only; as text only what went wrong."""
    if _form.get() is LogFormat.json:
        typer.echo(
            printable(json.dumps({key: line[key] for key in KEYS if key in line})),
            err=True,
        )
    elif line.get("level") != "info":
        note(f"{line.get('series')} {line.get('night')}: {line['event']}")


def failed(message: str, code: int) -> None:
    """What ended the command."""
    if _form.get() is LogFormat.json:
        _write(logging.ERROR, _logger.name, message.removeprefix("screen: "), code)
    else:
        typer.echo(printable(message, lines=True), err=True)


def log_to_stderr(form: LogFormat) -> None:
    """Send logs and warnings to stderr, as text or as JSON lines."""
    _form.set(form)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("screen: %(message)s"))
    handler.setLevel(logging.WARNING)
    if form is LogFormat.json:
        handler.setFormatter(_JsonLines())
        handler.setLevel(logging.INFO)
        sys.excepthook = _bug
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)


class _JsonLines(logging.Formatter):
    """One JSON object a line: what happened and where, never the values that were put in."""

    def format(self, record: logging.LogRecord) -> str:
        # What a library warns of comes as a value, and may quote the data.
        words = "a library warned" if record.name == "py.warnings" else str(record.msg)
        return _line(record.levelno, record.name, words)


class _Lines(logging.Formatter):
    """Text whose steering characters, perhaps a column's name, are shown by number."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)


def _line(level: int, logger: str, event: str, code: int | None = None) -> str:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    line = {
        "time": now,
        "level": logging.getLevelName(level).lower(),
        "logger": logger,
        "event": event,
    }
    known = line | _known.get({}) | ({} if code is None else {"exit_code": code})
    return printable(
        json.dumps(
            {key: known[key] for key in KEYS if key in known}, ensure_ascii=False
        )
    )


def _write(level: int, logger: str, event: str, code: int) -> None:
    typer.echo(_line(level, logger, event, code), err=True)


def _bug(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """A bug by its place: its message, and the lines of a traceback, might hold a patient's value."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = (
        f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        if trace
        else ""
    )
    event = f"a bug: {kind.__name__}{where}; run it again with --log text for the whole of it"
    _write(logging.CRITICAL, _logger.name, event, 1)
