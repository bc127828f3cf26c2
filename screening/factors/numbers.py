"""Numbers that factors and remedies refuse."""

from __future__ import annotations

import numpy as np


def check_number(name: str, value: float, *, zero: bool = False) -> None:
    """Refuse what is no finite number > 0, or >= 0 where ``zero`` (ValueError)."""
    fits = not isinstance(value, (bool, str)) and np.isfinite(value) and (value > 0 or (zero and value == 0))
    if not fits:
        raise ValueError(f"{name} must be a number {'>=' if zero else '>'} 0, got {value!r}")


def check_count(name: str, value: int | str, *, least: int = 1, or_else: str = "") -> None:
    """Refuse what is no whole number of at least ``least`` (ValueError)."""
    if isinstance(value, (bool, str)) or value != int(value) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}{or_else}, got {value!r}")
