"""The search for garbage in the memory of a process."""

from __future__ import annotations

import gc

# New objects until the next search: more than a night of a ward makes.
THRESHOLD = 200_000


def search_seldom() -> None:
    """Search seldom, in this process and in those that are forked from it.

    A command needs what it loads until its end: searches took a fifth of the time of
    its imports, and a sixth of a night's.
    """
    gc.set_threshold(THRESHOLD)
