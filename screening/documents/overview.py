"""What one night of a whole site came to: counts and reasons, a line a series, no patient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from screening.documents.reason import Reason
from screening.documents.shape import document

# The worst of several exit codes, the worst first: a bug, a refused model or table, a wrong setting, a lock.
WORST_FIRST = (1, 4, 3, 2, 75, 5, 0)


def worst(codes: Iterable[int]) -> int:
    """The one exit code that stands for several; a process that a signal ended counts as a bug."""
    return min((code if code in WORST_FIRST else 1 for code in codes), key=WORST_FIRST.index, default=0)


@document
class SeriesNight:
    """One night of one series: done now, done before, left out, or why it could not be done."""

    series: str
    night: str
    status: Literal["published", "unchanged", "failed", "left out", "given up"]
    shadow: bool
    exit_code: int = 0
    said: str | None = None
    model: str
    # From here on of its run, where there is one.
    run_id: str | None = None
    scored: int | None = None
    refused: int | None = None
    flagged: int | None = None
    to_review: int | None = None
    capacity: int | None = None
    drift_p: float | None = None
    attention: Sequence[Reason] = ()
    acknowledged: Sequence[Reason] = ()  # Reasons that rest.
    page: str | None = None
    peak_mb: int | None = None


@document
class OverviewDocument:
    """Every series of a site on one night, and the missed nights that were caught up."""

    title: str
    night: str
    exit_code: int
    series: Sequence[SeriesNight]
    shadows: Sequence[SeriesNight]
    caught_up: Sequence[SeriesNight]


@document
class HookFacts:
    """How a command that was to be told of the night ended."""

    command: str
    fine: bool
    said: str
