"""Where the compiled loops are imported from: numba is read when the first of them is needed."""

from __future__ import annotations

import threading

SQUARED, ABSOLUTE = 0, 1
"""Kinds of distances, as the loops know them."""
BLOCK = 256
"""Rows in a block: the accumulators of a block stay in the first-level cache."""
PANEL = 32
"""Rows of a block that lie together, feature by feature."""
CENTRES = 4
"""Of which distances are taken at once."""

_importing = threading.Lock()


def prepare() -> None:
    """Import the compiled loops, one thread at a time: numba's modules import each other in circles."""
    with _importing:
        import screening.kernels.loops  # noqa: F401
