"""scikit-learn's base without what it only names: SciPy's statistics and pandas, which take long to load."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

NAMED = ("scipy.stats", "pandas")


class Later(ModuleType):
    """Stands for a module until anything of it is wanted."""

    def __getattr__(self, name: str) -> Any:
        _let_go(self)
        return getattr(import_module(self.__name__), name)


def leave_named_unread() -> None:
    """Import scikit-learn's base, but what it imports for functions that no machine calls when one is called.

    Whoever imports those afterwards has them as ever.
    """
    stand_ins = [Later(name) for name in NAMED if name not in sys.modules]
    sys.modules.update({each.__name__: each for each in stand_ins})
    try:
        import sklearn.base  # noqa: F401
    finally:
        for each in stand_ins:
            _let_go(each)


def _let_go(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
