"""Bands in place of values, and counts that are not told: numbers of a copy that are nobody's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from screening.deidentify.crowds import LEAST
from screening.documents.shape import Range


def told(counts: Mapping[str, int]) -> dict[str, int]:
    """Leave out counts below five, and one more where the sum would give a single one away."""
    ordered = sorted((n, name) for name, n in counts.items() if n)
    hidden = [(n, name) for n, name in ordered if n < LEAST]
    if hidden and sum(n for n, _ in hidden) < LEAST:
        hidden = ordered[: len(hidden) + 1]
    names = {name for _, name in hidden}
    return {name: n for name, n in counts.items() if name not in names}


def share(value: float, of: int) -> float:
    """A share in whole per cents; none where fewer than five rows stand behind it."""
    return 0.0 if value * of < LEAST - 0.5 else round(value, 2)


def even_step(spread: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below a fifth of a spread (> 0)."""
    power = 10.0 ** math.floor(math.log10(spread / 5))
    return next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= spread / 5 * (1 - 1e-9))


def at_least(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, 1 at most: a p-value that is nobody's own."""
    return min(even_step(5 * value), 1.0) if value > 0 else 0.0


def band(values: Sequence[float], step: float) -> tuple[float, float]:
    """Return the ends of the band in which all values lie.

    Parameters
    ----------
    values : sequence of float, finite
    step : float, > 0
        The ends are multiples of it, whatever the values: with few digits (`even_step`), and nobody's own.
    """
    low = math.floor(min(values) / step)
    return low * step, (math.floor(max(values) / step) + 1) * step


def widened(usual: Range | None, step: float) -> Range | None:
    """A range learned from patients with its ends moved outwards to multiples of a step."""
    if usual is None:
        return None
    low, high = usual
    return (
        None if low is None else math.floor(low / step) * step,
        None if high is None else math.ceil(high / step) * step,
    )


def step_of(usual: Range | None, values: Sequence[float]) -> float:
    """The step of a feature's bands: a fifth of its usual range, or of what the values span if that is more.

    Parameters
    ----------
    usual : (low, high), optional
    values : sequence of float
        May be empty.
    """
    low, high = usual or (None, None)
    spans = [high - low] if low is not None and high is not None else []
    spans.append(max(values, default=0.0) - min(values, default=0.0))
    return even_step(max(spans) or max(map(abs, values), default=0.0) or 1.0)
