"""Separate reasons for attention that persist for several nights from new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from screening.schemas.base import Reason
from screening.schemas.reasons import REASONS

NIGHTS_UNTIL_STANDING = 3
"""Nights in a row on which a reason is given as new; from then on it is standing."""

GROWN = 1.5
"""Growth of a figure from which a known change alerts again."""


class GivenReasons(NamedTuple):
    """Reasons for attention that a night was given."""

    night: str
    reasons: Sequence[Reason]


def mark_standing(
    reasons: Iterable[Reason], earlier: Sequence[GivenReasons]
) -> list[Reason]:
    """Mark standing reasons with the night they began, and sort them to the end.

    A reason is standing if each of the last nights had it, by code and column, and if
    its kind is about a lasting state (`ReasonKind.becomes_standing`).

    Parameters
    ----------
    reasons : iterable of Reason
    earlier : sequence of GivenReasons
        The nights before, in order; the last `NIGHTS_UNTIL_STANDING` are enough.
    """
    recent = earlier[-NIGHTS_UNTIL_STANDING:]
    marked = [
        replace(reason, since=_standing_since(reason, recent)) for reason in reasons
    ]
    return sorted(marked, key=lambda reason: reason.since is not None)


def has_grown(reason: Reason, earlier: float | None) -> bool:
    """Return True if a reason is about a change that has grown by half since."""
    kind = REASONS.get(reason.code)
    if kind is None or not kind.grows or reason.figure is None or earlier is None:
        return False
    return abs(reason.figure) > GROWN * abs(earlier)


def _standing_since(reason: Reason, recent: Sequence[GivenReasons]) -> str | None:
    """Return the first night of an unbroken row with a reason; None if it is new."""
    kind = REASONS.get(reason.code)
    if kind is None or not kind.becomes_standing or len(recent) < NIGHTS_UNTIL_STANDING:
        return None
    cause = (reason.code, reason.column)
    began = []
    for night, reasons in recent:
        same = [other for other in reasons if (other.code, other.column) == cause]
        if not same or has_grown(reason, same[0].figure):
            return None
        began.append(same[0].since or night)
    return min(began)
