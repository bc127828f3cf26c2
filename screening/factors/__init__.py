"""What c(x) can be: one file a factor; lying in this folder is enough.

A factor is a frozen dataclass with a ``name``, as recipes call it, and the members of ``first_pass.Factor``.
"""

from __future__ import annotations

from screening.factors.base import Factor, FirstPass, KernelMachineState, why_not
from screening.registry import attributes

__all__ = ["FACTORS", "Factor", "FirstPass", "KernelMachineState", "why_not"]

__getattr__ = attributes(__name__, "FACTORS")
