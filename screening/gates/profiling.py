"""What training keeps of its rows for the nights to come: counts on bins, and measures between two."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.documents.model import NumberProfile, Profile, TextProfile
from screening.gates.tests import effective_units
from screening.sources.columns import Columns, absent

STEPS = 50
MOST_CATEGORIES = 1000


def profile(features: Columns, contract: Contract, groups: np.ndarray | None = None) -> Profile:
    """What a night is compared with: counts of the training rows on bins of their own quantiles.

    Parameters
    ----------
    features : Columns, shape (n_rows, n_features)
        Typed columns, before any normalisation within groups.
    groups : ndarray, shape (n_rows,), optional
        Rows of one group are alike, so groups, not rows, tell how sure a difference is.

    Returns
    -------
    Profile
        `n_units` is the effective number of rows; texts and codes come the most frequent first.
    """
    units = features.n_rows if groups is None else effective_units(np.unique(groups, return_counts=True)[1])
    described: dict[str, NumberProfile | TextProfile] = {}
    for name, feature in contract.features.items():
        values = features[name]
        if feature.type == "number":
            described[name] = _numbers(values)
        else:
            ordered = sorted(texts(values).items(), key=lambda item: (-item[1], item[0]))
            described[name] = TextProfile(
                counts=dict(ordered[:MOST_CATEGORIES]), more=sum(n for _, n in ordered[MOST_CATEGORIES:])
            )
    return Profile(n_rows=features.n_rows, n_units=units, features=described)


def _numbers(values: np.ndarray) -> NumberProfile:
    values = values[np.isfinite(values)]
    if not values.size:
        return NumberProfile(edges=(), counts=(0,), range=None)
    # Data values as edges, right-closed: then no bin is empty.
    edges = np.unique(np.quantile(values, np.arange(1, STEPS) / STEPS, method="inverted_cdf"))
    edges = edges[edges < values.max()]
    return NumberProfile(
        edges=edges.tolist(),
        counts=binned(values, edges).tolist(),
        range=(float(values.min()), float(values.max())),
    )


def binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values each right-closed bin holds, shape (n_edges + 1,)."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def texts(values: np.ndarray) -> dict[str, int]:
    """How often each text, or code written as text, occurs, the most frequent first; missing ones apart."""
    counted = Counter(values[~absent(values)].tolist()).most_common()
    return {f"{value:g}" if isinstance(value, float) else value: n for value, n in counted}


def tenths(counts: ArrayLike) -> np.ndarray:
    """Which tenth of the training rows each bin lies in: the bins a PSI is taken over, shape (n_bins,)."""
    counted = np.asarray(counts, float)
    share = counted / max(counted.sum(), 1.0)
    middle = np.cumsum(share) - share / 2
    return np.unique(np.minimum((middle * 10).astype(int), 9), return_inverse=True)[1].ravel()


def missing_in(past: Profile, name: str) -> int:
    """Training rows without a value of a feature."""
    found = past.features[name]
    if isinstance(found, TextProfile):
        return past.n_rows - sum(found.counts.values()) - found.more
    return past.n_rows - sum(found.counts)
