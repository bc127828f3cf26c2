"""Remedies for imbalance, wrapped around the two-class machine; one file each.

A remedy is a frozen dataclass with a ``name``, as recipes call it, and the methods of
``base.Remedy``. ``REMEDIES`` maps these names to the classes.
"""

from __future__ import annotations

from screening.estimators.remedies.base import Remedy
from screening.registry import attributes

__all__ = ["REMEDIES", "Remedy"]

__getattr__ = attributes(__name__, "REMEDIES")
