"""`njit` as the loops use it: what is compiled is kept on disk where there is a place for it.

numba keeps it in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder. Where none of
them can be written (a read-only container without a home), it would refuse to define the function at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from screening.kernels.telling import tell_of_no_cache


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`; with ``cache=True`` a function that cannot be kept is compiled in this process.

    A division by 0 is infinite, as numpy has it: looking for it would keep a loop from becoming vector code.
    """
    options = {"error_model": "numpy"} | options
    if function is not None:
        return numba.njit(**options)(function)

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(**options)(function)
        except (RuntimeError, OSError):
            if not options.get("cache"):
                raise
            tell_of_no_cache()
            return numba.njit(**options | {"cache": False})(function)

    return compiled
