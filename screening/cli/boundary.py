"""Where the outside world ends: mistyped words, system, terminal and memory become message and exit code."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from screening.cli import logs
from screening.cli.console import printable
from screening.errors import (
    CohortError,
    Locked,
    ModelError,
    ScreenError,
    UsageError,
    of_system,
)
from screening.spelling import did_you_mean
from screening.store.publishing import let_go

if TYPE_CHECKING:
    from typer import TyperException
else:
    # Before typer 0.28 this base of its usage errors had no public name.
    TyperException = getattr(typer, "TyperException", typer.BadParameter.__mro__[2])

_json_asked: ContextVar[bool] = ContextVar("json_asked", default=False)


def refused(message: str, code: int) -> None:
    """Print a usage error on stderr, and as the one JSON object on stdout where that was asked for."""
    logs.failed(message, code)
    if _json_asked.get() and code == 2:
        usage = message.partition(": ")[2] or message
        answer = {"error": {"kind": "usage", "message": usage, "exit_code": code}}
        typer.echo(printable(json.dumps(answer, ensure_ascii=False)))


class Commands(TyperGroup):
    """The commands, whose usage errors take one line and not three."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that `args` name, and end the process as typer does."""
        words = sys.argv[1:] if args is None else args
        _json_asked.set("--json" in words)
        logs.begin(words)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except typer.Abort:
            code = 1
            logs.failed("screen: aborted", code)
        except TyperException as error:
            code = error.exit_code
            if _is_help(error):
                typer.echo(error.message, err=True)
            else:
                refused(_line(error), code)
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _is_help(error: TyperException) -> bool:
    """Whether nothing at all was asked for: then the message is the help."""
    context = getattr(error, "ctx", None)
    return context is not None and error.message == context.get_help()


def _line(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "screen"
    # The errors that have a context, or options that are alike, are no public classes of typer.
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        message = f"there is no option {option}{did_you_mean(option, error.possibilities or ())}"
    else:
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
    return f"screen: {message}{'' if message.endswith('?') else f' (see {command} --help)'}"


class Stopped(BaseException):
    """A signal asked the process to end. Typer would give a `KeyboardInterrupt` a code of its own."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


EXIT_CODES: dict[type[BaseException], int] = {
    UsageError: 2,
    CohortError: 3,
    ModelError: 4,
    Locked: 75,
    ScreenError: 1,
    OSError: 2,
    MemoryError: 2,
    KeyboardInterrupt: 130,
}
# What a library raises when memory is too short to load or to start a thread; a bug where there is no cap.
STARVED = (ImportError, RuntimeError, SystemError)
# Below this the numerical libraries cannot even be loaded, and some die without a word.
LEAST_MEMORY = 1 << 30
# Below this a thread's own stack and heap may be one too many.
ROOM_FOR_THREADS = 4 << 30
# How a process ends whose libraries cannot say that memory has: abort, a fault, the loader's own code.
ABORTED = (-signal.SIGABRT, -signal.SIGSEGV, 127)
# Objects made since the last look for garbage before the next: more than a night of a ward makes.
GARBAGE = 200_000
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
_heard: list[int] = []


@contextmanager
def exits() -> Iterator[None]:
    """Turn an error meant for the user into a message and its exit code; a bug keeps its traceback."""
    try:
        yield
    except (typer.Exit, TyperException):
        raise
    except BaseException as error:
        known = _known(error)
        if known is None:
            raise
        raise typer.Exit(ended_by(known)) from None


def _known(error: BaseException) -> BaseException | None:
    """The error that ends the command with a message, None for a bug."""
    # A library that was stopped in the middle may have made an error of its own of it.
    if _heard:
        return Stopped(_heard[0])
    # Whatever a library, or we, made of it: a file that could not be read, say, is not damaged.
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, MemoryError):
        behind = behind.__cause__ or behind.__context__
    if behind is not None:
        return behind
    if isinstance(error, tuple(EXIT_CODES)):
        return error
    return (
        MemoryError(error)
        if isinstance(error, STARVED) and _most() is not None
        else None
    )


def ended_by(error: BaseException) -> int:
    """Say on stderr, if anybody listens, what ended the command; return its exit code."""
    if isinstance(error, Stopped):
        code = 128 + error.number
    else:
        code = next(
            code for kind, code in EXIT_CODES.items() if isinstance(error, kind)
        )
    with suppress(OSError, ValueError):
        refused(f"screen: {with_options(_message(error), error)}", code)
    return code


# Options that are not called as their parameter is.
OPTION_OF_PARAMETER = {"watched": "--class", "pattern": "--nights"}


def with_options(message: str, error: BaseException) -> str:
    """Write the options of the command line in place of the parameters of an error."""
    parameters = error.parameters if isinstance(error, ScreenError) else ()
    for name in parameters:
        default = "--" + name.replace("_", "-")
        message = message.replace(f"`{name}`", OPTION_OF_PARAMETER.get(name, default))
    return message


def _message(error: BaseException) -> str:
    if isinstance(error, Stopped) and error.number != signal.SIGINT:
        return (
            f"stopped by {signal.Signals(error.number).name}; what was begun is removed"
        )
    if isinstance(error, KeyboardInterrupt | Stopped):
        return "interrupted; what was begun is removed"
    if isinstance(error, BrokenPipeError):
        return "whoever was to read the answer has gone (broken pipe)"
    # A library that could not be mapped says so without a number.
    if isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno is None and _most()
    ):
        most = _most()
        cap = (
            f": the process may use {most / 2**30:.1f} GiB (ulimit -v)" if most else ""
        )
        return f"not enough memory{cap}; allow it more (train and compare can do with fewer rows: --max-rows)"
    if isinstance(error, OSError):
        return str(of_system(error))
    if isinstance(error, CohortError) and len(error.violations) > 1:
        count = len(error.violations)
        return "\n  ".join([f"{error.broken} in {count} places:", *error.violations])
    return str(error)


def _most() -> int | None:
    """Return the bytes of address space that the process may use, None without a cap.

    macOS takes the limit for one on resident memory, and enforces neither.
    """
    if sys.platform == "darwin":
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if most == resource.RLIM_INFINITY else most


def bounded(command: Callable[[], object]) -> NoReturn:
    """Run the whole command with open streams, signals that clean up and an answer that arrived; then end.

    A function and no context manager: a signal between a manager's own steps would end as a traceback.
    """
    code: int | str | None = 0
    try:
        try:
            _prepare()
            command()
        except SystemExit as ended:
            code = ended.code
            _raise_broken_pipe(ended)
        if sys.stdout is not None:
            sys.stdout.flush()
        _ignore_signals()
    except BaseException as error:
        _ignore_signals()
        known = _known(error)
        if known is None:
            raise
        code = ended_by(known)
    finally:
        let_go()
        _mute_broken_streams()
        if not code:
            gc.freeze()  # an error may keep alive what a library then calls leaked
    sys.exit(code)


def _prepare() -> None:
    _heard.clear()
    for number in SIGNALS:
        # `nohup` has SIGHUP ignored, and a shell SIGINT of what runs in the background: that stands.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    # What a command loads it needs to its end: looking through it for garbage took a sixth of a night's time.
    gc.set_threshold(GARBAGE)
    _open_streams()
    # Broken log lines are no reason to print tracebacks.
    logging.raiseExceptions = False
    if (_most() or LEAST_MEMORY) < LEAST_MEMORY:
        sys.exit(ended_by(MemoryError()))
    if _most() is not None:
        _go_on_in_a_child()


def _go_on_in_a_child() -> None:
    """Go on in a child process, and end this one as it ends.

    Where memory is capped and ends, C++ and the loader abort: only a parent can still say so.
    """
    if (_most() or 0) < ROOM_FOR_THREADS:
        # OpenMP ends the process for a thread that it cannot start, with the exit code of a bug.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    child = os.fork()
    if not child:
        return
    # What a terminal sends, the child hears by itself.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in ABORTED:
        _json_asked.set("--json" in sys.argv)
        code = ended_by(MemoryError())
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


def _raise_broken_pipe(ended: SystemExit) -> None:
    """Raise what typer hid behind an exit code of its own: that the reader has gone."""
    cause: BaseException | None = ended
    while cause is not None:
        if isinstance(cause, BrokenPipeError):
            raise cause from None
        cause = cause.__cause__ or (
            None if cause.__suppress_context__ else cause.__context__
        )


def _open_streams() -> None:
    """Open what was closed, or a patient's file would get the number of stderr, and the log in it."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _mute_broken_streams() -> None:
    """Let the interpreter find nothing left to write when it closes stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _stop(number: int, frame: types.FrameType | None) -> None:
    _heard.append(number)
    raise Stopped(number)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
