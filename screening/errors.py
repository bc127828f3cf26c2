"""What can go wrong for a caller, one class per documented exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence


class ScreenError(Exception):
    """Base of every error whose message is meant for the user."""


class UsageError(ScreenError):
    """The command, or an argument of it, makes no sense for this cohort (exit code 2)."""


class RecipeError(UsageError):
    """A recipe, or an override of one, cannot be built (exit code 2)."""


class ClusterError(UsageError):
    """Workers that were asked for are not there, went away, or cannot do their part (exit code 2)."""


class CohortError(ScreenError):
    """The table breaks its contract (exit code 3).

    Parameters
    ----------
    violations : sequence of str
        One line per violation, by row number and column; never a patient's value or id.
    """

    broken = "the cohort breaks its contract"

    def __init__(self, violations: Sequence[str] | str):
        self.violations = (
            [violations] if isinstance(violations, str) else list(violations)
        )
        super().__init__("\n".join(self.violations))


class VerdictError(CohortError):
    """A file of verdicts does not fit its run (exit code 3)."""

    broken = "the verdicts cannot be read"


class ModelError(ScreenError):
    """A model, run or ledger is damaged, of another format, or made for other features (exit code 4)."""


class Locked(ScreenError):
    """Another run holds the lock of this output directory (exit code 75)."""


def of_system(error: OSError, place: object = None) -> UsageError:
    """What the operating system refused, as an error for the user: path and reason.

    Parameters
    ----------
    error : OSError
    place : optional
        What was being read or written, for errors that do not carry their own path.
    """
    # The number of an open file says nothing to anybody.
    named = error.filename if isinstance(error.filename, str | bytes) else place
    place = os.fsdecode(named) if isinstance(named, bytes) else named
    reason = error.strerror or (
        os.strerror(error.errno) if error.errno else type(error).__name__
    )
    return UsageError(
        f"cannot use {place}: {reason}"
        if place is not None
        else f"the system says: {reason}"
    )
