"""Remedies for imbalance: frozen values wrapped around the two-class machine; one file a remedy."""

from __future__ import annotations

from screening.estimators.remedies.base import Remedy
from screening.registry import attributes

__all__ = ["REMEDIES", "Remedy"]

__getattr__ = attributes(__name__, "REMEDIES")
