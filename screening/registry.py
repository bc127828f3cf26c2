"""Members of each kind: what ships, what plug-ins add, and rooms that may be removed.

A plug-in is an installed distribution with entry points of the group ``screening``,
called by kind and name, such as "factor.slab" (docs/plugins.md). What ships is
registered in the same way, but is found by the files of its package: an editable
installation has the entry points of the day it was installed, and a copy of the package
has none.
"""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from screening.errors import UsageError

Member = TypeVar("Member")
Answer = TypeVar("Answer")

# Rooms that may be taken out: without a folder and its lines here only what it does is
# gone.
# Nothing below imports them; by these names it asks for them.
OPTIONAL = {
    "images": "screening.imaging.images",
    "neighbourhood": "screening.imaging.neighbourhood",
    "lesions": "screening.imaging.lesions",
    "voxels": "screening.imaging.voxels",
}
# What a night is exported as, beside the forms of `scoring/exports`.
EXPORTS = {
    "dicom-seg": "screening.imaging.dicom_seg",
    "nifti": "screening.imaging.nifti",
}

GROUP = "screening"
"""Group of the entry points of plug-ins."""
DEBUG = "SCREEN_PLUGIN_DEBUG"
"""Environment variable with which failures of plug-ins are logged with a traceback."""
# The registry of each kind of member, by the first word of an entry point's name.
KINDS = {
    "factor": "screening.factors:FACTORS",
    "remedy": "screening.estimators.remedies:REMEDIES",
    "estimator": "screening.recipes.recipe:ESTIMATORS",
    "recipe": "screening.recipes.building:RECIPES",
    "reader": "screening.io.opening:READERS",
    "export": "screening.scoring.exports:FORMS",
    "reason": "screening.schemas.reasons:REASONS",
    "figure": "screening.metrics.figures:FIGURES",
    "column": "screening.report.columns:COLUMNS",
}

_logger = logging.getLogger("screening")
_with_plugins: ContextVar[bool] = ContextVar("with_plugins", default=True)


class Plugin(NamedTuple):
    """An installed distribution that adds members."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class _Entry(NamedTuple):
    """An entry point of a plug-in: what it adds under which name."""

    kind: str
    name: str
    plugin: Plugin
    point: EntryPoint


@cache
def _entries() -> tuple[_Entry, ...]:
    """Return the entry points of all plug-ins, in the order of their names."""
    entries = []
    for point in entry_points(group=GROUP):
        kind, _, name = point.name.partition(".")
        assert point.dist is not None, "entry points of distributions have one"
        plugin = Plugin(point.dist.name, point.dist.version)
        entries.append(_Entry(kind, name, plugin, point))
    return tuple(sorted(entries))


def plugin_names(kind: str) -> list[str]:
    """Return the names that plug-ins give members of a kind; imports no plug-in."""
    return [entry.name for entry in _entries() if entry.kind == kind]


def refuse_plugins() -> None:
    """Raise UsageError if there are plug-ins, before files of the repository are made.

    These have only what ships.
    """
    if _entries():
        raise UsageError(
            f"plug-ins are installed ({', '.join(plugin_members())}) and would be in "
            "the files of this repository; uninstall them first"
        )


@contextmanager
def without_plugins() -> Iterator[None]:
    """Let registries have only what ships.

    For a process that others are forked from: a plug-in may start threads, and what is
    logged there is lost.
    """
    token = _with_plugins.set(False)
    try:
        yield
    finally:
        _with_plugins.reset(token)


class LeftOut(NamedTuple):
    """What a plug-in adds and cannot be used, and why.

    `member`: its kind and name, such as "column points".
    """

    plugin: Plugin
    member: str
    fault: str

    def __str__(self) -> str:
        return f"plug-in {self.plugin}: its {self.member} is left out: {self.fault}"


class Registry(Mapping[str, Member]):
    """Members of one kind by name: what ships, then what plug-ins add.

    It imports the plug-ins of its kind when it is first used. A plug-in that cannot be
    imported, or used, is logged and left out.

    Parameters
    ----------
    kind : str
        Key of `KINDS`.
    shipped : callable
        Returns the (name, member) pairs of what ships.
    accepted : callable
        Takes the name and the object of an entry point. Returns the member; raises
        TypeError or ValueError if it cannot be used. What ships is checked by tests.
    """

    def __init__(
        self,
        kind: str,
        shipped: Callable[[], Iterator[tuple[str, Member]]],
        accepted: Callable[[str, Any], Member],
    ) -> None:
        self.kind = kind
        self.faults: list[LeftOut] = []
        self._shipped = shipped
        self._accepted = accepted
        self._plugins: dict[str, Plugin] = {}
        self._members: dict[str, Member] | None = None

    def __getitem__(self, name: str) -> Member:
        return self._filled()[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._filled()])

    def __len__(self) -> int:
        return len(self._filled())

    def plugin_of(self, name: str) -> Plugin | None:
        """Return the plug-in that a member is of; None for what ships."""
        self._filled()
        return self._plugins.get(name)

    def call(
        self,
        name: str,
        function: Callable[..., Answer],
        *arguments: object,
        default: Answer,
    ) -> Answer:
        """Call a function of a member.

        A plug-in's member that raises is left out from then on, and `default` returned.
        """
        try:
            return function(*arguments)
        except Exception as error:
            plugin = self._plugins.get(name)
            if plugin is None:
                raise
            # Its message might contain a patient's value.
            self._leave_out(name, plugin, type(error).__name__, error)
            return default

    def _filled(self) -> dict[str, Member]:
        """Return the members; those of plug-ins are loaded by the first call."""
        if not _with_plugins.get():
            return dict(self._shipped())
        if self._members is None:
            _unknown_kinds()
            members: dict[str, Member] = {}
            for name, member in self._shipped():
                self._register(members, name, member)
            for entry in _entries():
                if entry.kind == self.kind:
                    self._load(members, entry)
            self._members = members
        return self._members

    def _load(self, members: dict[str, Member], entry: _Entry) -> None:
        """Add the member of an entry point, or note why it is left out."""
        try:
            member = self._accepted(entry.name, entry.point.load())
            self._register(members, entry.name, member)
            self._plugins[entry.name] = entry.plugin
        # A module may do anything while it is imported, such as exit.
        except (Exception, SystemExit) as error:
            lines = str(error).splitlines()
            fault = ": ".join([type(error).__name__, *lines[:1]])
            self._leave_out(entry.name, entry.plugin, fault, error)

    def _register(self, members: dict[str, Member], name: str, member: Member) -> None:
        if name in members:
            raise ValueError(f"two members have the name {name}")
        members[name] = member

    def _leave_out(
        self, name: str, plugin: Plugin, fault: str, error: BaseException
    ) -> None:
        """Remove a plug-in's member, and log why."""
        if self._members is not None:
            self._members.pop(name, None)
        left_out = LeftOut(plugin, f"{self.kind} {name}", fault)
        if left_out not in self.faults:
            self.faults.append(left_out)
            _logger.warning(str(left_out))
            log_traceback(error)


def log_traceback(error: BaseException) -> None:
    """Log where a plug-in failed if `DEBUG` is set, since it may show values."""
    if os.environ.get(DEBUG):
        _logger.warning("".join(traceback.format_exception(error)))


def plugin_faults() -> list[LeftOut]:
    """Load all plug-ins, and return what of theirs is left out."""
    # Without plug-ins nothing is imported.
    for place in KINDS.values() if _entries() else ():
        len(pkgutil.resolve_name(place))
    return faults_so_far()


def faults_so_far() -> list[LeftOut]:
    """Return what of plug-ins was found to be left out; imports no plug-in."""
    if not _entries():
        return []
    faults = [*_unknown_kinds()]
    for place in KINDS.values():
        registry: Registry[Any] = pkgutil.resolve_name(place)
        faults += registry.faults
    return faults


def plugin_members() -> dict[str, list[str]]:
    """Return what each plug-in adds, such as "column points"; imports no plug-in."""
    members: dict[str, list[str]] = {}
    for entry in _entries():
        members.setdefault(str(entry.plugin), []).append(f"{entry.kind} {entry.name}")
    return members


@cache
def _unknown_kinds() -> tuple[LeftOut, ...]:
    """Return, and log once, which entry points are of no kind."""
    rule = f"names begin with {', '.join(KINDS)}, and a dot"
    faults = [
        LeftOut(entry.plugin, f"entry point {entry.point.name}", rule)
        for entry in _entries()
        if entry.kind not in KINDS
    ]
    for fault in faults:
        _logger.warning(str(fault))
    return tuple(faults)


def optional(name: str) -> ModuleType:
    """Return the module of an optional room; raise UsageError if it is removed."""
    if name not in OPTIONAL:
        raise UsageError(f"this installation does not contain {name}")
    return importlib.import_module(OPTIONAL[name])


def classes_of(package: str) -> Iterator[tuple[str, type]]:
    """Yield the classes with a `name` that a package defines, sorted by it.

    Those of its module `base` are left out.
    """
    by_name = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name == "base":
            continue
        here = f"{package}.{module.name}"
        for member in vars(importlib.import_module(here)).values():
            if isinstance(member, type) and member.__module__ == here:
                name = vars(member).get("name")
                if isinstance(name, str):
                    by_name[name] = member
    yield from sorted(by_name.items())


def accepted_class(base: type, name: str, member: Any) -> type:
    """Return the class of a plug-in; TypeError or ValueError if it cannot be used."""
    if not isinstance(member, type) or not issubclass(member, base):
        raise TypeError(f"it is not a class derived from {base.__name__}")
    if getattr(member, "name", None) != name:
        raise ValueError(f"its attribute `name` is not {name!r}")
    return member


def attributes(package: str, registry: Registry[type]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`: the members of its registry by class name."""

    def attribute(name: str) -> Any:
        members = () if name.startswith("_") else registry.values()
        for member in members:
            if member.__name__ == name:
                return member
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
