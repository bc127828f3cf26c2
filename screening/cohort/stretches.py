"""Rows that stand together: where one name follows itself, in one batch and across batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TypeVar

import numpy as np

Name = TypeVar("Name")
Part = TypeVar("Part")


def stretches(names: np.ndarray) -> Iterator[tuple[str, slice]]:
    """Each stretch of rows of one name, in order; a name whose rows stand apart comes more than once."""
    cuts = [0, *(1 + np.flatnonzero(names[1:] != names[:-1])), len(names)] if len(names) else []
    for start, end in pairwise(cuts):
        yield names[start], slice(start, end)


def gathered(parts: Iterable[tuple[Name, Part]]) -> Iterator[tuple[Name, list[Part]]]:
    """Parts of one name that follow each other, together; no more than one name's are held."""
    for name, mine in groupby(parts, key=itemgetter(0)):
        yield name, [part for _, part in mine]
