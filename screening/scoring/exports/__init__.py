"""Export a night for other systems: a module for each format; images in `imaging`.

Each module has `write(flagged, ...)`. Its keyword arguments are fields of
`settings.ExportOptions`, the options of `screen export`; those without a default are
required. `out` is a path where nothing exists yet, and `force` allows replacing. What
it returns, if anything, is printed as the place. `FORMS` maps names of formats to these
functions, with those of plug-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from typing import Any

from screening.option_groups import options_of
from screening.registry import EXPORTS, Registry, plugin_names
from screening.settings import ExportOptions

_OWN = {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)}
_MODULES = dict(sorted((_OWN | EXPORTS).items()))

OPTIONS = (*options_of(ExportOptions), "force")
"""Options of `screen export`; each form takes some of them."""

Write = Callable[..., str | None]


def form_names() -> list[str]:
    """Return the names of all formats, without importing what writes them."""
    return sorted({*_MODULES, *plugin_names("export")})


def _shipped() -> Iterator[tuple[str, Write]]:
    """Yield the name and function of each format that ships."""
    for name, module in _MODULES.items():
        yield name, import_module(module).write


def _accepted(name: str, write: Any) -> Write:
    """Check the function of a plug-in; TypeError or ValueError if it cannot be used."""
    first, *others = [*signature(write).parameters, None]
    if first != "flagged":
        raise TypeError("it is not a function whose first parameter is `flagged`")
    unknown = [name for name in others if name not in {*OPTIONS, None}]
    if unknown:
        raise TypeError(
            f"`{unknown[0]}` is not an option of screen export: {', '.join(OPTIONS)}"
        )
    return write


FORMS: Registry[Write] = Registry("export", _shipped, _accepted)
