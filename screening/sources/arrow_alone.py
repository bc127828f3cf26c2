"""Arrow without pandas: it looks for pandas at its first array, which takes a fifth of a night's time."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _Hidden(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for now", name=name)


def leave_pandas_unread() -> None:
    """Let Arrow's one look find nothing, in a process that hands it no frames.

    Whoever imports pandas, or asks Arrow for a frame, has it all the same.
    """
    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(hidden)
