"""Turn errors of usage, system, terminal and memory into a message and an exit code."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

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
from screening.garbage import search_seldom
from screening.spelling import did_you_mean
from screening.store.publishing import release_all

if TYPE_CHECKING:
    from typer import TyperException
else:
    # Before typer 0.28 this base of its usage errors had no public name.
    TyperException = getattr(typer, "TyperException", typer.BadParameter.__mro__[2])

_is_json: ContextVar[bool] = ContextVar("is_json", default=False)


def print_error(message: str, code: int) -> None:
    """Print an error on stderr; with --json a usage error on stdout as JSON, too."""
    logs.failed(message, code)
    if _is_json.get() and code == 2:
        usage = message.partition(": ")[2] or message
        answer = {"error": {"kind": "usage", "message": usage, "exit_code": code}}
        typer.echo(printable(json.dumps(answer, ensure_ascii=False)))


class Command(TyperCommand):
    """A command whose usage names a required argument without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line."""
        pieces = super().collect_usage_pieces(ctx)
        # Dots of its own, and those that are added where it may be repeated.
        once = [piece.replace("...}...", "...}") for piece in pieces]
        return [piece.strip("{}") for piece in once]


class Commands(TyperGroup):
    """The commands, with usage errors of one line instead of three."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that `args` name, and end the process as typer does."""
        arguments = sys.argv[1:] if args is None else args
        _is_json.set("--json" in arguments)
        logs.begin(arguments)
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
                print_error(_usage_message(error), code)
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _is_help(error: TyperException) -> bool:
    """Return True if no command was given: then the message is the help."""
    context = getattr(error, "ctx", None)
    return context is not None and error.message == context.get_help()


def _usage_message(error: TyperException) -> str:
    """Return a usage error on one line, with a suggestion or the command's help."""
    # Errors with a context or with similar options are not public classes of typer.
    context = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        hint = did_you_mean(option, error.possibilities or ())
        message = f"option {option} does not exist{hint}"
    else:
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
        # Words of the library that checks types, not of this one.
        message = message.replace("Value error, ", "")
        message = message.replace("Input should be", "it must be")
    if message.endswith("?"):
        return f"screen: {message}"
    command = context.command_path if context else "screen"
    return f"screen: {message} (see {command} --help)"


class Stopped(BaseException):
    """A signal that ends the process.

    Typer would give a `KeyboardInterrupt` an exit code of its own.
    """

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
# Errors of libraries that cannot load or start a thread for lack of memory; without a
# limit on memory they are bugs.
ERRORS_OF_MEMORY = (ImportError, RuntimeError, SystemError)
# With less the numerical libraries cannot be loaded, and some end without a message.
MIN_MEMORY = 1 << 30
# With less a thread's stack and heap may be one too many.
MIN_MEMORY_OF_THREADS = 4 << 30
# Exit codes of processes whose memory ended: abort, a fault, the loader's own code.
ABORTED = (-signal.SIGABRT, -signal.SIGSEGV, 127)
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
_received_signals: list[int] = []


@contextmanager
def exits() -> Iterator[None]:
    """Turn an error meant for the user into a message and an exit code.

    A bug keeps its traceback.
    """
    try:
        yield
    except (typer.Exit, TyperException):
        raise
    except BaseException as error:
        expected = _expected_error(error)
        if expected is None:
            raise
        raise typer.Exit(report_error(expected)) from None


def _expected_error(error: BaseException) -> BaseException | None:
    """Return the error that ends the command with a message; None for a bug."""
    # A library that was interrupted may have raised an error of its own.
    if _received_signals:
        return Stopped(_received_signals[0])
    # So may code that ran out of memory: a file that could not be read is not damaged.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, tuple(EXIT_CODES)):
        return error
    if isinstance(error, ERRORS_OF_MEMORY) and _memory_limit() is not None:
        return MemoryError(error)
    return None


def report_error(error: BaseException) -> int:
    """Print on stderr what ended the command; return its exit code."""
    if isinstance(error, Stopped):
        code = 128 + error.number
    else:
        codes = (code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
        code = next(codes)
    # Nobody may be left to read it.
    with suppress(OSError, ValueError):
        print_error(f"screen: {with_options(_message(error), error)}", code)
    return code


# Options whose name is not that of their parameter.
OPTION_OF_PARAMETER = {
    "params": "--param",
    "pattern": "--nights",
    "watched": "--class",
}


# Where no command was named.
_ANY_OUT = frozenset({"out"})
# What a command that has no --out does not offer.
WITHOUT_OUT = re.compile("give another `out`, or |(,? or |; )give another `out`")


_parameters: ContextVar[frozenset[str]] = ContextVar("parameters", default=_ANY_OUT)


def offers(parameters: Iterable[str | None]) -> None:
    """Say which parameters the command has that runs now."""
    _parameters.set(frozenset(filter(None, parameters)))


def with_options(message: str, error: BaseException) -> str:
    """Write the options of the command line in place of the parameters of an error."""
    parameters = error.parameters if isinstance(error, ScreenError) else ()
    if "out" in parameters and "out" not in _parameters.get():
        message = WITHOUT_OUT.sub("", message)
    for name in parameters:
        default = "--" + name.replace("_", "-")
        message = message.replace(f"`{name}`", OPTION_OF_PARAMETER.get(name, default))
    return message


def _message(error: BaseException) -> str:
    """Return the message of an error that ends the command."""
    if isinstance(error, Stopped) and error.number != signal.SIGINT:
        name = signal.Signals(error.number).name
        return f"stopped by {name}; incomplete output is removed"
    if isinstance(error, KeyboardInterrupt | Stopped):
        return "interrupted; incomplete output is removed"
    if isinstance(error, BrokenPipeError):
        return "the output was closed before everything was written (broken pipe)"
    if _is_of_memory(error):
        limit = _memory_limit()
        cap = ""
        if limit:
            cap = f": the process may use {limit / 2**30:.1f} GiB (ulimit -v)"
        return (
            f"not enough memory{cap}; allow more (train and compare can use fewer "
            "rows: --max-rows)"
        )
    if isinstance(error, OSError):
        return str(of_system(error))
    if isinstance(error, CohortError) and len(error.violations) > 1:
        count = len(error.violations)
        return "\n  ".join([f"{error.broken} in {count} places:", *error.violations])
    return str(error)


def _is_of_memory(error: BaseException) -> bool:
    """Return True if memory ended; a library that cannot be mapped has no errno."""
    if isinstance(error, MemoryError):
        return True
    has_no_number = isinstance(error, OSError) and error.errno is None
    return has_no_number and _memory_limit() is not None


def _memory_limit() -> int | None:
    """Return the bytes of address space that the process may use; None without limit.

    macOS takes the limit for one on resident memory, and enforces neither.
    """
    if sys.platform == "darwin":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def bounded(command: Callable[[], object]) -> NoReturn:
    """Run a command, clean up, and end the process with its exit code.

    This is not a context manager: a signal between a manager's own steps would end as a
    traceback.
    """
    code: int | str | None = 0
    try:
        try:
            _prepare()
            _refuse_deleted_directory()
            command()
        except SystemExit as ended:
            code = ended.code
            _raise_broken_pipe(ended)
        if sys.stdout is not None:
            sys.stdout.flush()
        _ignore_signals()
    except BaseException as error:
        _ignore_signals()
        expected = _expected_error(error)
        if expected is None:
            raise
        code = report_error(expected)
    finally:
        release_all()
        _mute_broken_streams()
    sys.exit(code)


def _refuse_deleted_directory() -> None:
    """Raise UsageError where the working directory is gone: no path means anything."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory was deleted; change to another directory"
        ) from None


def _prepare() -> None:
    """Set up signals, streams, garbage collection and the process for the command."""
    _received_signals.clear()
    for number in SIGNALS:
        # A signal that `nohup` or a shell has ignored stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    search_seldom()
    _open_streams()
    # Do not print tracebacks for broken log lines.
    logging.raiseExceptions = False
    if (_memory_limit() or MIN_MEMORY) < MIN_MEMORY:
        sys.exit(report_error(MemoryError()))
    if _memory_limit() is not None:
        _continue_in_child()


def _continue_in_child() -> None:
    """Continue in a child process, and end this one as it ends.

    When limited memory ends, C++ and the loader abort: only a parent can report it.
    """
    if (_memory_limit() or 0) < MIN_MEMORY_OF_THREADS:
        # OpenMP ends the process if it cannot start a thread, with the exit code of a
        # bug.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    child = os.fork()
    if not child:
        return
    # The child receives the signals of a terminal by itself.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in ABORTED:
        _is_json.set("--json" in sys.argv)
        code = report_error(MemoryError())
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if code < 0:
        code = 128 - code
    os._exit(code)


def _raise_broken_pipe(ended: SystemExit) -> None:
    """Raise a broken pipe that typer replaced by an exit code of its own."""
    cause: BaseException | None = ended
    while cause is not None:
        if isinstance(cause, BrokenPipeError):
            raise cause from None
        context = None if cause.__suppress_context__ else cause.__context__
        cause = cause.__cause__ or context


def _open_streams() -> None:
    """Open standard streams that are closed.

    Otherwise a patient's file would get the number of stderr, and with it the log.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # It takes the lowest free number, which is this one.
            os.open(os.devnull, mode)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _mute_broken_streams() -> None:
    """Redirect broken streams, so that the interpreter can close them."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _stop(number: int, frame: types.FrameType | None) -> None:
    """Stop the command; the handler of signals."""
    _received_signals.append(number)
    raise Stopped(number)


def _ignore_signals() -> None:
    """Ignore further signals while the command cleans up."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
