"""Remedies for imbalance: frozen values wrapped around the two-class machine; one file a remedy."""

from __future__ import annotations

from screening.registry import attributes
from screening.remedies.base import Remedy

__all__ = ["REMEDIES", "Remedy"]

__getattr__ = attributes(__name__, "REMEDIES")
