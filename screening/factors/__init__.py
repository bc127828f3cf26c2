"""Conformal factors c(x): each file of this folder that defines one adds it.

A factor is a frozen dataclass with a ``name``, as recipes call it, and the methods of
``first_pass.Factor``. ``FACTORS`` maps these names to the classes.
"""

from __future__ import annotations

from screening.factors.base import (
    Factor,
    FirstPass,
    KernelMachineState,
    incompatibility,
)
from screening.registry import attributes

__all__ = ["FACTORS", "Factor", "FirstPass", "KernelMachineState", "incompatibility"]

__getattr__ = attributes(__name__, "FACTORS")
