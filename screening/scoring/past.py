"""Where a value lies among those of past patients, from the profile that training keeps of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from screening.documents.model import NumberProfile, Profile, TextProfile


class Past:
    """The values of the training rows, by feature.

    Parameters
    ----------
    profile : Profile or None
        Without one nothing is said.
    """

    def __init__(self, profile: Profile | None):
        self.features: Mapping[str, NumberProfile | TextProfile] = profile.features if profile else {}

    def of(self, name: str, value: float | str | None) -> dict[str, float | None]:
        """`lower`, the share of training rows with a lower value (ties halved), or `alike`, with the same.

        Texts have no order, so of a category only `alike` is known; both are None for a missing value.
        """
        unknown: dict[str, float | None] = {"lower": None, "alike": None}
        stored = self.features.get(name)
        if stored is None or value is None or value != value:
            return unknown
        if isinstance(stored, NumberProfile):
            return unknown | {"lower": _below(stored, float(value))}
        counts = stored.counts
        whole = sum(counts.values()) + stored.more
        if not whole:
            return unknown
        if isinstance(value, str):
            return unknown | {"alike": counts.get(value, 0) / whole}
        # Codes of steps and of yes and no have an order.
        below = sum(n for code, n in counts.items() if float(code) < float(value))
        return unknown | {"lower": (below + counts.get(f"{float(value):g}", 0) / 2) / whole}


def _below(stored: NumberProfile, value: float) -> float | None:
    counts, bounds = np.asarray(stored.counts, float), stored.range
    if bounds is None:
        return None
    if not bounds[0] <= value <= bounds[1]:
        return float(value > bounds[1])
    place = int(np.searchsorted(stored.edges, value, side="left"))
    return float((counts[:place].sum() + counts[place] / 2) / counts.sum())
