"""A mistyped command or option gets one line, and one JSON object where `--json` was given."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperGroup

from screening.cli import logs
from screening.cli.printing import printable
from screening.spelling import did_you_mean

_json_asked: ContextVar[bool] = ContextVar("json_asked", default=False)


def refused(message: str, code: int) -> None:
    """Print a usage error on stderr, and as the one JSON object on stdout where that was asked for."""
    logs.failed(message, code)
    if _json_asked.get() and code == 2:
        said = message.partition(": ")[2] or message
        answer = {"error": {"kind": "usage", "message": said, "exit_code": code}}
        typer.echo(printable(json.dumps(answer, ensure_ascii=False)))


class Commands(TyperGroup):
    """The commands, whose usage errors take one line and not three."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that `args` name, and end the process as typer does."""
        words = sys.argv[1:] if args is None else args
        _json_asked.set("--json" in words)
        logs.begin(words)
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            code = 1
            logs.failed("screen: aborted", code)
        except typer.TyperException as error:
            code = error.exit_code
            if _is_help(error):
                typer.echo(error.message, err=True)
            else:
                refused(_line(error), code)
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _is_help(error: typer.TyperException) -> bool:
    """Whether nothing at all was asked for: then the message is the help."""
    context = getattr(error, "ctx", None)
    return context is not None and error.message == context.get_help()


def _line(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "screen"
    # The errors that have a context, or options that are alike, are no public classes of typer.
    if hasattr(error, "possibilities"):
        option = getattr(error, "option_name", "")
        said = f"there is no option {option}{did_you_mean(option, error.possibilities or ())}"
    else:
        said = error.format_message().rstrip(".")
        said = said[:1].lower() + said[1:]
    return f"screen: {said}{'' if said.endswith('?') else f' (see {command} --help)'}"
