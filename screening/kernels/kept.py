"""`njit` as the loops use it: what is compiled is kept on disk where there is a place for it.

numba keeps it in ``NUMBA_CACHE_DIR``, else beside the package, else in the user's cache folder. Where none of
them can be written (a read-only container without a home), it would refuse to define the function at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from screening.kernels.telling import tell_of_no_cache


class _Loaded(FunctionCache):
    """Machine code kept on disk, read without what only compiling needs: numba's registers.

    Filling them takes longer than the folds of a ward; a loop that is not on disk fills them, as ever.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`; with ``cache=True`` a function that cannot be kept is compiled in this process.

    A division by 0 is infinite, as numpy has it: looking for it would keep a loop from becoming vector code.
    """
    options = {"error_model": "numpy"} | options
    if function is not None:
        return numba.njit(**options)(function)

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            dispatcher: Any = numba.njit(**options)(function)
            if options.get("cache"):
                dispatcher._cache = _Loaded(function)
            return dispatcher
        except (RuntimeError, OSError):
            if not options.get("cache"):
                raise
            tell_of_no_cache()
            return numba.njit(**options | {"cache": False})(function)

    return compiled
