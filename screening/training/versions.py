"""Versions of what the numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version

PACKAGES = ("screening", "numpy", "scikit-learn", "pandas", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
