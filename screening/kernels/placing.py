"""Where sweeps run: on how many threads, or on an accelerator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TypeVar, TypeVarTuple

from screening.errors import UsageError

Given = TypeVarTuple("Given")
Result = TypeVar("Result")
DEVICES = ("cpu", "cuda")
_LIBRARIES = ("cupy", "torch")


@dataclass(frozen=True)
class Place:
    """Threads (None: all cores), and the library of the accelerator's arrays (None: compiled loops)."""

    threads: int | None = None
    library: str | None = None


_ANYWHERE = Place()
_current: ContextVar[Place] = ContextVar("place", default=_ANYWHERE)


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Threads that a sweep takes here."""
    return _current.get().threads or available_cores()


def library() -> str | None:
    """The library that sweeps run on here; None for the compiled loops."""
    return _current.get().library


@contextmanager
def placed(jobs: int = -1, device: str = "cpu") -> Iterator[Place]:
    """Sweeps inside run on so many threads (-1: all cores), or on an accelerator.

    Raises
    ------
    UsageError
        ``jobs`` is no number of threads, or no library for the device is installed or sees one.
    """
    if jobs != -1 and jobs < 1:
        raise UsageError(f"--jobs {jobs}: give a number of threads, or -1 for all cores")
    if device not in DEVICES:
        raise UsageError(f"--device {device}: give {' or '.join(DEVICES)}")
    with _at(Place(None if jobs == -1 else jobs, _library() if device == "cuda" else None)) as place:
        yield place


def beside_others(jobs: int, function: Callable[[*Given], Result], *given: *Given) -> Result:
    """function(*given) as one of so many jobs at a time: its sweeps take its share of the cores."""
    with _at(replace(_current.get(), threads=max(1, available_cores() // max(jobs, 1)))):
        return function(*given)


@contextmanager
def _at(place: Place) -> Iterator[Place]:
    token = _current.set(place)
    try:
        yield place
    finally:
        _current.reset(token)


def _library() -> str:
    missing = []
    for name in _LIBRARIES:
        try:
            module = import_module(name)
        except ImportError:
            missing.append(name)
            continue
        if name == "torch" and module.cuda.is_available():
            return name
        if name == "cupy" and _has_device(module):
            return name
    if len(missing) == len(_LIBRARIES):
        raise UsageError("--device cuda needs CuPy or torch, and neither is installed; use --device cpu")
    raise UsageError("--device cuda: no CUDA device is visible to CuPy or torch; use --device cpu")


def _has_device(cupy: ModuleType) -> bool:
    try:
        return int(cupy.cuda.runtime.getDeviceCount()) > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False
