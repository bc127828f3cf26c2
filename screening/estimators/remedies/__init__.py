"""Remedies for imbalance, wrapped around the two-class machine; one file each.

A remedy is a frozen dataclass with a ``name``, as recipes call it, and the methods of
``base.Remedy``. ``REMEDIES`` maps these names to the classes, with those of plug-ins.
"""

from __future__ import annotations

from functools import partial

from screening.estimators.remedies.base import Remedy
from screening.registry import Registry, accepted_class, attributes, classes_of

__all__ = ["REMEDIES", "Remedy"]

REMEDIES: Registry[type[Remedy]] = Registry(
    "remedy", partial(classes_of, __name__), partial(accepted_class, Remedy)
)
__getattr__ = attributes(__name__, REMEDIES)
