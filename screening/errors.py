"""Errors that a caller can meet, one class per documented exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence

# Of the faults of a file; the others are counted.
MAX_FAULTS_SHOWN = 20


class ScreenError(Exception):
    """Base of every error whose message is meant for the user.

    Parameters
    ----------
    message : str
        Parameters are in backticks, by their names in Python.
    parameters : sequence of str
        Those parameters; the command line writes its options in their place.
    """

    def __init__(self, message: object = "", *, parameters: Sequence[str] = ()):
        self.parameters = tuple(parameters)
        super().__init__(message)


class UsageError(ScreenError):
    """A parameter, or a combination of them, makes no sense here (exit code 2)."""


class RecipeError(UsageError):
    """A recipe, or an override of one, cannot be built (exit code 2)."""


class PromiseError(RecipeError):
    """A model would not do what it promises, so it is refused (exit code 2)."""


class PromiseWarning(UserWarning):
    """`Screen` keeps a model that `train` refuses by a `PromiseError`."""


class ClusterError(UsageError):
    """Workers are not there, went away, or cannot do their part (exit code 2)."""


class CohortError(ScreenError):
    """The table breaks its contract (exit code 3).

    Parameters
    ----------
    violations : sequence of str
        One line per violation, by row number and column; never a patient's value or id.
    parameters : sequence of str
        Parameters that these lines name in backticks, as for `ScreenError`.
    """

    broken = "the cohort breaks its contract"

    def __init__(
        self, violations: Sequence[str] | str, *, parameters: Sequence[str] = ()
    ):
        self.violations = (
            [violations] if isinstance(violations, str) else list(violations)
        )
        super().__init__("\n".join(self.violations), parameters=parameters)


class VerdictError(CohortError):
    """A file of verdicts does not fit its run (exit code 3)."""

    broken = "the verdicts cannot be read"


class EventsError(CohortError):
    """A source of events cannot be read (exit code 3).

    Lines that are wrong by themselves are left out and counted; this ends the run.
    """

    broken = "the events cannot be read"


class ModelError(ScreenError):
    """A model, run or ledger is damaged or of another format (exit code 4)."""


class Locked(ScreenError):
    """Another run has locked this output directory (exit code 75)."""


def of_system(error: OSError, path: object = None) -> UsageError:
    """Return an error of the operating system for the user, with path and reason.

    Parameters
    ----------
    error : OSError
    path : optional
        What was being read or written, for errors that do not carry their own path.
    """
    # The number of an open file does not help a user.
    named = error.filename if isinstance(error.filename, str | bytes) else path
    path = os.fsdecode(named) if isinstance(named, bytes) else named
    reason = error.strerror or (
        os.strerror(error.errno) if error.errno else type(error).__name__
    )
    if path is None:
        return UsageError(f"system error: {reason}")
    return UsageError(f"cannot use {path}: {reason}")


def list_faults(head: str, faults: Sequence[str]) -> str:
    """Join faults to a message, one per line; of many only the first."""
    shown = list(faults[:MAX_FAULTS_SHOWN])
    if len(faults) > len(shown):
        shown.append(f"and {len(faults) - len(shown):,} more")
    return "\n  ".join([head, *shown])
