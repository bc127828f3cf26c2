"""Commands whose options are fields of dataclasses.

Groups that functions of the library take too are those of `settings`; a group of
commands alone is a dataclass in the module of its command, or in `cli.options`.
`cli/__init__.py` gives typer every command as `with_groups` makes it: with an option
for each field, and calling the command with groups made of what was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer

from screening.errors import UsageError
from screening.files import is_utf8
from screening.option_groups import Keyword, Option, option_of

# Parameters that may be written in other bytes than UTF-8: ids, and tables by path.
IN_OTHER_BYTES = frozenset({"case", "patient", "cohort", "cohorts"})


class Without:
    """Fields of a group that are not options of a command."""

    def __init__(self, *names: str) -> None:
        self.names = names


@dataclass(frozen=True)
class _Member:
    """A parameter of a command, or a field of one of its groups."""

    parameter: Parameter
    kind: Any
    extras: tuple[Any, ...]

    @property
    def option(self) -> Option | None:
        """Its description; None for arguments, and for parameters of Python alone."""
        return self._extra(Option)

    @property
    def is_offered(self) -> bool:
        """True unless it is for Python alone."""
        keyword = self._extra(Keyword)
        return keyword is None or isinstance(keyword, Option)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The fields of a group that the command does not have."""
        without = self._extra(Without)
        return () if without is None else without.names

    def _extra(self, kind: type) -> Any:
        return next((extra for extra in self.extras if isinstance(extra, kind)), None)

    def for_typer(self, completions: Mapping[str, Callable[[str], list[str]]]) -> Any:
        """Return the parameter as typer takes it."""
        name = self.parameter.name
        kind = self.kind
        extras = self.extras
        default = self.parameter.default
        option = self.option
        if option is not None:
            if option.takes is not None:
                kind = option.takes | None
                default = None
            flags = option.flags
            if kind is bool and not flags:
                # Else typer adds a flag for False.
                flags = (option_of(name),)
            described = typer.Option(
                *flags,
                metavar=option.metavar,
                help=option.help,
                min=option.min,
                max=option.max,
                envvar=option.envvar,
                rich_help_panel=option.panel,
                show_default=option.shows_default,
                autocompletion=completions.get(name),
            )
            extras = (described,)
        annotation = Annotated[(kind, *extras)] if extras else kind
        return self.parameter.replace(
            kind=Parameter.KEYWORD_ONLY, annotation=annotation, default=default
        )

    def value(self, given: Any) -> Any:
        """Return the value of what the command line gave."""
        option = self.option
        if option is None or option.takes is None:
            return given
        if given is None:
            return self.parameter.default
        return given if option.read is None else option.read(given)


def with_groups(
    command: Callable[..., None],
    completions: Mapping[str, Callable[[str], list[str]]],
) -> Callable[..., None]:
    """Return a command for typer, with the options of its groups one by one.

    Options that are required come first.

    Parameters
    ----------
    command : callable
        A parameter that is a dataclass is a group. Its fields are options, or again
        groups. An option is described by an `Option`, an argument by typer's own.
    completions : mapping of str to callable
        Completes the values of options in a shell.
    """
    members = list(_options_of(command))
    parameters = [member.for_typer(completions) for member in members]
    parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)

    @wraps(command)
    def grouped(**given: Any) -> None:
        for name, value in given.items():
            if name not in IN_OTHER_BYTES:
                _refuse_undecodable(name, value)
        command(**_arguments_of(command, given))

    grouped.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    grouped.__annotations__ = {option.name: option.annotation for option in parameters}
    return grouped


def _members_of(
    owner: Callable[..., Any], left_out: tuple[str, ...] = ()
) -> Iterator[_Member]:
    """Yield the parameters of a command, or the offered fields of a group."""
    kinds = get_type_hints(owner)
    hints = get_type_hints(owner, include_extras=True)
    for name, parameter in signature(owner).parameters.items():
        extras = getattr(hints[name], "__metadata__", ())
        member = _Member(parameter, kinds[name], extras)
        if name not in left_out and member.is_offered:
            yield member


def _options_of(
    owner: Callable[..., Any], left_out: tuple[str, ...] = ()
) -> Iterator[_Member]:
    """Yield the options of a command or a group, and of the groups in it."""
    for member in _members_of(owner, left_out):
        if _is_group(member):
            yield from _options_of(member.kind, member.left_out)
        else:
            yield member


def _is_group(member: _Member) -> bool:
    return isinstance(member.kind, type) and is_dataclass(member.kind)


def _arguments_of(
    owner: Callable[..., Any],
    given: Mapping[str, Any],
    left_out: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the arguments of a command or a group, by the options that were given."""
    arguments = {}
    for member in _members_of(owner, left_out):
        name = member.parameter.name
        if _is_group(member):
            arguments_of_group = _arguments_of(member.kind, given, member.left_out)
            arguments[name] = member.kind(**arguments_of_group)
        else:
            arguments[name] = member.value(given[name])
    return arguments


def _refuse_undecodable(name: str, value: object) -> None:
    """Raise UsageError if a text of the command line is not UTF-8."""
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if type(text) is str and not is_utf8(text):
            raise UsageError(
                f"`{name}`: the text is not UTF-8; write it, or the script that "
                "contains it, in UTF-8",
                parameters=[name],
            )
