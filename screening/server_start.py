"""Begin a server of processes, which imports this module before all others."""

from __future__ import annotations

from screening.garbage import search_seldom

search_seldom()
