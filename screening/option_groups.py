"""Options as fields of frozen dataclasses.

A field has its type and default once, and an `Option` with the rest: what it does, how
the command line writes it, and its least value. Parameters of commands are declared in
the same way. The options of a command, its help, docs/commands.md and the docstring of
the group come from these; `cli.groups` makes typer's options of them. A field with a
`Keyword` in place of an `Option` is for Python alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from screening.errors import UsageError
from screening.spelling import did_you_mean

_OPTION_IN_HELP = re.compile(r"--([a-z-]+)")


@dataclass(frozen=True)
class Keyword:
    """What a field of a group says apart from its type and default.

    Parameters
    ----------
    help : str
        Its sentences in the docstring of the group, and in `--help`.
    unit : str, optional
        Unit of the value in Python.
    """

    help: str
    unit: str | None = field(default=None, kw_only=True)

    @property
    def help_of_parameter(self) -> str:
        """Help with the names of parameters in place of options."""
        return _OPTION_IN_HELP.sub(
            lambda option: f"`{option[1].replace('-', '_')}`", self.help
        )


@dataclass(frozen=True, kw_only=True)
class Option(Keyword):
    """A keyword that the command line has too.

    Parameters
    ----------
    metavar : str, optional
        Name of the value on the command line.
    flags : tuple of str
        Names on the command line; by default that of the field.
    panel : str, optional
        Group in the help on a terminal.
    min, max : float, optional
        Least and greatest value.
    takes : type, optional
        Type on the command line where it is not the field's; left out, the field keeps
        its default.
    read : callable, optional
        Makes the value of what the command line takes.
    envvar : str, optional
        Variable of the environment that has the value if the option is left out.
    shows_default : bool
        The help states the default.
    """

    metavar: str | None = None
    flags: tuple[str, ...] = ()
    panel: str | None = None
    min: float | None = None
    max: float | None = None
    takes: Any = None
    read: Callable[[Any], Any] | None = None
    envvar: str | None = None
    shows_default: bool = True


@dataclass(frozen=True)
class OptionGroup:
    """Base of a group: checks its fields, and writes them as options."""

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            value = getattr(self, name)
            if value is None:
                continue
            if option.min is not None and value < option.min:
                limit = f"{option.min} or more"
            elif option.max is not None and value > option.max:
                limit = f"{option.max} or less"
            else:
                continue
            raise UsageError(
                f"`{name}` must be {limit}, not {value}", parameters=[name]
            )

    def stated(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        defaults = {each.name: each.default for each in fields(self)}
        return {
            name: value
            for name, value in vars(self).items()
            if value is not defaults[name] and value != defaults[name]
        }

    def refuse_stated(self, *names: str, by: str) -> None:
        """Raise UsageError if a field is stated that a function cannot use."""
        for name in names:
            if name in self.stated():
                raise UsageError(f"{by} takes no `{name}`", parameters=[name])

    def words(self) -> Iterator[str]:
        """Yield the words of the command line that state the same."""
        stated = self.stated()
        for name, option in options_of(type(self)).items():
            if name not in stated:
                continue
            yield next(iter(option.flags), option_of(name))
            if stated[name] is not True:
                yield str(stated[name])


Group = TypeVar("Group", bound=OptionGroup)


def keywords_of(group: type) -> dict[str, Keyword]:
    """Return what each field of a group says, options and others."""
    keywords = {}
    for name, hint in get_type_hints(group, include_extras=True).items():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, Keyword):
                keywords[name] = extra
    return keywords


def options_of(group: type) -> dict[str, Option]:
    """Return the options of a group by the names of their fields."""
    return {
        name: keyword
        for name, keyword in keywords_of(group).items()
        if isinstance(keyword, Option)
    }


def option_of(parameter: str) -> str:
    """Return the option of a command's parameter."""
    return "--" + parameter.replace("_", "-")


def documented(group: type[Group]) -> type[Group]:
    """Add the fields of a group to its docstring, as numpydoc lists parameters."""
    types = get_type_hints(group)
    parameters = "    Parameters\n    ----------\n"
    for name, keyword in keywords_of(group).items():
        parameters += f"    {name} : {_type_in_words(types[name])}\n"
        words = keyword.help_of_parameter
        if keyword.unit is not None:
            words += f" In {keyword.unit}."
        parameters += f"        {words}\n"
    head, title, examples = str(group.__doc__).partition("    Examples\n")
    group.__doc__ = f"{head.rstrip()}\n\n{parameters}\n{title}{examples}"
    return group


def _type_in_words(hint: Any) -> str:
    """Return a type as numpydoc writes it."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        words = " or ".join(map(_type_in_words, kinds))
        is_optional = len(kinds) < len(get_args(hint))
        return f"{words}, optional" if is_optional else words
    if origin is Literal:
        return f"{{{', '.join(map(json.dumps, get_args(hint)))}}}"
    if origin in (Sequence, Collection):
        (item,) = get_args(hint)
        return f"{origin.__name__.lower()} of {item.__name__}"
    if origin is not None:
        return str(origin.__name__).lower()
    return str(hint.__name__)


def groups_from(
    keywords: Mapping[str, Any], *groups: tuple[type[Group], Group | None]
) -> list[Any]:
    """Return groups of options with the fields that a caller gave as keywords.

    Parameters
    ----------
    keywords : mapping
        Fields of any of the groups.
    *groups : tuple of type and group
        A kind of group, and the group that the caller gave or None.

    Raises
    ------
    TypeError
        If no group has such a field.
    """
    left = dict(keywords)
    filled: list[Any] = []
    for kind, group in groups:
        names = [each.name for each in fields(kind) if each.name in left]
        given = {name: left.pop(name) for name in names}
        filled.append(kind(**given) if group is None else replace(group, **given))
    for name in left:
        known = [each.name for kind, _ in groups for each in fields(kind)]
        raise TypeError(
            f"unexpected keyword argument '{name}'{did_you_mean(name, known)}"
        )
    return filled
