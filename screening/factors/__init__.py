"""Conformal factors c(x): each file of this folder that defines one adds it.

A factor is a frozen dataclass with a ``name``, as recipes call it, and the methods of
``first_pass.Factor``. ``FACTORS`` maps these names to the classes, with those of
plug-ins.
"""

from __future__ import annotations

from functools import partial

from screening.factors.base import (
    Factor,
    FirstPass,
    KernelMachineState,
    incompatibility,
)
from screening.registry import Registry, accepted_class, attributes, classes_of

__all__ = ["FACTORS", "Factor", "FirstPass", "KernelMachineState", "incompatibility"]

FACTORS: Registry[type[Factor]] = Registry(
    "factor", partial(classes_of, __name__), partial(accepted_class, Factor)
)
__getattr__ = attributes(__name__, FACTORS)
