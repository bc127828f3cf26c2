"""A stored document before it has its type: JSON, of which every part is checked as it is reached for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TypeVar

T = TypeVar("T")

Table = Mapping[str, object]
"""An object of JSON, by its keys."""


class WrongTypeUnder(TypeError):
    """Something else stands under a key than what was to stand there."""

    def __init__(self, key: str, found: object):
        super().__init__(f"{key}: something else was to stand there than a {type(found).__name__}")
        self.key = key


def table(within: Table, key: str) -> dict[str, object]:
    """The object under a key.

    Raises
    ------
    KeyError
        There is no such key.
    WrongTypeUnder
        Something else stands there.
    """
    return _under(key, dict, within[key])


def tables(within: Table, key: str) -> list[dict[str, object]]:
    """The list of objects under a key; raises as `table` does."""
    return [_under(key, dict, each) for each in elements(within, key)]


def part(within: Table, key: str) -> dict[str, object]:
    """The object under a key, an empty one where there is none; raises as `table` does."""
    return _under(key, dict, within.get(key, {}))


def elements(within: Table, key: str) -> Sequence:
    """The list under a key; raises as `table` does."""
    return _under(key, (list, tuple), within[key])


def word(within: Table, key: str) -> str:
    """The text under a key; raises as `table` does."""
    return _under(key, str, within[key])


def _under(key: str, kind: type[T] | tuple[type[T], ...], value: object) -> T:
    if not isinstance(value, kind):
        raise WrongTypeUnder(key, value)
    return value


def listed(value: object) -> Sequence:
    """The elements of a list, a tuple where it has not been JSON yet; TypeError where it is neither."""
    if isinstance(value, list | tuple):
        return value
    raise TypeError(f"a list was to stand where a {type(value).__name__} stands")


def number(value: object) -> float:
    """The value, which is a number; TypeError where it is not."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, Real):
        raise TypeError(f"a number was to stand where a {type(value).__name__} stands")
    return float(value)


def made(make: Callable[..., T], named: Table) -> T:
    """What is made of these arguments; TypeError where one is missing or unknown."""
    return make(**named)


def of(kind: type[T], value: object) -> T:
    """The value, which is of this type; TypeError where it is not."""
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} was to stand where a {type(value).__name__} stands")
    return value
