"""Has a column changed its unit? Degrees F for degrees C, mg/dL for mmol/L, grams for kilograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SAMPLE = 8192
# (factor, offset, what the night's values look like, the conversion): night = factor * training + offset.
CONVERSIONS = (
    (1.8, 32.0, "temperature looks like degrees F, not the degrees C", "times 1.8, plus 32"),
    (1 / 1.8, -32 / 1.8, "temperature looks like degrees C, not the degrees F", "minus 32, divided by 1.8"),
    *(
        entry
        for factor in (18.0, 1000.0, 10.0)
        for entry in (
            (factor, 0.0, f"values look {factor:g} times as large as in the unit", f"times {factor:g}"),
            (
                1 / factor,
                0.0,
                f"values look {factor:g} times as small as in the unit",
                f"divided by {factor:g}",
            ),
        )
    ),
)
TEMPERATURES = ("", "degc", "°c", "c", "celsius", "degf", "°f", "f", "fahrenheit")
FEWEST = 5


class SampledValues:
    """Every k-th value of a column, k doubling as the table grows: at most `SAMPLE` of them."""

    def __init__(self) -> None:
        self.values = np.zeros(0)
        self._step, self._seen = 1, 0

    def add(self, values: np.ndarray) -> None:
        """Take in finite values in the order of the table."""
        self.values = np.concatenate([self.values, values[-self._seen % self._step :: self._step]])
        self._seen += values.size
        while self.values.size > SAMPLE:
            self.values = self.values[::2]
            self._step *= 2


@dataclass(frozen=True)
class UnitShift:
    """A likely change of unit, in words.

    Parameters
    ----------
    share : float
        Rows it concerns, 0 to 1.
    whole : bool
        Whether the column as a whole has changed, not some rows of it.
    """

    words: str
    conversion: str
    share: float
    whole: bool


def unit_shift(values: np.ndarray, training: Mapping[str, Any], unit: str | None = None) -> UnitShift | None:
    """Compare values with the training bins as they are and after undoing each known conversion.

    A column has changed its unit where it does not look like training, and does after the conversion: nearly
    all values lie further outside the training core (0.5 to 99.5 %) than that is wide, and inside it when
    converted; or, for wide distributions, the cumulative shares differ much before and hardly after.

    Parameters
    ----------
    values : ndarray, shape (n,)
    training : mapping
        A number's entry of `drift.profile`.
    unit : str, optional
        The contract's unit; degrees are considered only where it is a temperature or not stated.

    Returns
    -------
    UnitShift or None
    """
    if training.get("core") is None or not values.size:
        return None
    low, high = training["core"]
    width = high - low
    found: list[tuple[float, UnitShift]] = []
    for factor, offset, words, conversion in CONVERSIONS:
        if offset and (unit or "").strip().lower() not in TEMPERATURES:
            continue
        # Zero says nothing of a unit that only multiplies.
        told = values if offset else values[values != 0]
        if not told.size or not width > 0:
            continue
        back = (told - offset) / factor
        far = (told < low - width) | (told > high + width)
        moved = float(np.mean(far & (back >= low) & (back <= high)))
        before, after = (_ks(part, training, above_zero=not offset) for part in (told, back))
        whole = moved >= 0.8 or _told_apart(before, after, len(told), len(training["edges"]))
        if whole or (moved >= 0.05 and moved * len(told) >= 3):
            found.append((after - 2 * whole, UnitShift(words, conversion, 1.0 if whole else moved, whole)))
    return min(found, key=lambda item: item[0])[1] if found else None


def _told_apart(before: float, after: float, n: int, n_edges: int) -> bool:
    if n < FEWEST or n_edges < 4:
        return False
    differs = before >= (0.6 if n >= 20 else 0.9)
    return differs and after <= min(0.5, 0.1 + 1.36 / np.sqrt(n))


def _ks(values: np.ndarray, training: Mapping[str, Any], above_zero: bool) -> float:
    """Largest difference of cumulative shares at the training edges; of the values above zero only."""
    edges, counts = np.asarray(training["edges"], float), np.cumsum(training["counts"])
    if not edges.size:
        return 0.0
    cumulative, total = counts[:-1].astype(float), float(counts[-1])
    if above_zero and training["range"][0] >= 0:
        zeros = cumulative[edges <= 0][-1] if (edges <= 0).any() else 0.0
        cumulative, total = (cumulative - zeros)[edges > 0], total - zeros
        edges, values = edges[edges > 0], values[values > 0]
    if not edges.size or not values.size or not total:
        return 0.0
    share = np.searchsorted(np.sort(values), edges, side="right") / len(values)
    return float(np.abs(share - cumulative / total).max())
