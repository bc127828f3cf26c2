"""What training keeps of each column for the nights to come, and a night's column counted on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.io.columns import Columns, absent
from screening.monitoring.tests import effective_units, ks, psi, total_variation
from screening.schemas.model import NumberProfile, Profile, TextProfile

STEPS, TENTHS = 50, 10
MOST_CATEGORIES = 1000
MOST_UNSEEN = 1000
MOST_SAMPLED = 8192
N_SHARES = 4
"""Of a column's counts: rows, those with a value, of an unseen category and outside training's range."""


def profile(features: Columns, contract: Contract, groups: np.ndarray | None = None) -> Profile:
    """What a night is compared with: counts of the training rows on bins of their own quantiles.

    `features` (shape (n_rows, n_features)): typed columns, before any normalisation within groups; `groups`
    (shape (n_rows,)): rows of one group are alike, so groups, not rows, tell how sure a difference is.
    `n_units` of the profile is the effective number of rows; texts and codes come the most frequent first.
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


def steps(counts: ArrayLike, n_steps: int) -> np.ndarray:
    """Which of `n_steps` equal shares of the training rows each bin lies in, shape (n_bins,)."""
    counted = np.asarray(counts, float)
    share = counted / max(counted.sum(), 1.0)
    middle = np.cumsum(share) - share / 2
    return np.unique(np.minimum((middle * n_steps).astype(int), n_steps - 1), return_inverse=True)[1].ravel()


class SampledValues:
    """Every k-th value of a column, k doubling as the table grows; `most` at the most."""

    def __init__(self, most: int):
        self.values = np.zeros(0)
        self._most, self._step, self._seen = most, 1, 0

    def add(self, values: np.ndarray) -> None:
        """Take in finite values in the order of the table."""
        self.values = np.concatenate([self.values, values[-self._seen % self._step :: self._step]])
        self._seen += values.size
        while self.values.size > self._most:
            self.values = self.values[::2]
            self._step *= 2


class Column:
    """What training knew of a feature, and what the night holds so far.

    `past`: its entry of the profile; `n_rows_past`: of training. `present`: rows of tonight with a value, one
    of an unseen category included; `known`: texts that are nothing new, None being a missing value; `unseen`:
    rows of each category that training never had.
    """

    def __init__(self, past: NumberProfile | TextProfile, n_rows_past: int):
        self.past, self.numeric = past, isinstance(past, NumberProfile)
        texts_past = past.counts if isinstance(past, TextProfile) else {}
        bins = past.counts if isinstance(past, NumberProfile) else [*texts_past.values()]
        self.more = past.more if isinstance(past, TextProfile) else 0
        self.expected = np.array(bins, dtype=float)
        self.training = np.array([n_rows_past, sum(bins) + self.more, 0, 0, *bins])
        self.counts = np.zeros(len(bins), dtype=np.int64)
        self.n_rows = self.present = self.outside = 0
        self.unseen: Counter[str] = Counter()
        self.sample = SampledValues(MOST_SAMPLED)
        self._places = {text: i for i, text in enumerate(texts_past)}
        self.known = {*texts_past, None}

    def tonight(self, n_bins: int | None = None) -> np.ndarray:
        """The counts of `N_SHARES`, and then the bins.

        `n_bins`: at most so many, as shares of the training rows, or the most frequent categories; None: as
        training has them, which is `training`.
        """
        bins = self.counts
        if n_bins is not None:
            place = np.minimum(np.arange(len(bins)), n_bins - 1)
            bins = np.bincount(steps(self.expected, n_bins) if self.numeric else place, bins).astype(int)
        return np.array([self.n_rows, self.present, self.unseen.total(), self.outside, *bins])

    def add(self, values: np.ndarray) -> None:
        """Count the typed values of one batch."""
        self.n_rows += len(values)
        if isinstance(self.past, NumberProfile):
            self._add_numbers(values, self.past)
        else:
            self._add_texts(texts(values))

    def add_unlisted(self, n_rows: int) -> None:
        """Count rows whose text stands for no value at all."""
        self.present += n_rows
        if n_rows:
            self.unseen[""] += n_rows

    def distance(self, past: np.ndarray, now: np.ndarray) -> float | None:
        """Largest difference of shares: of cumulative ones for numbers, of any set of known categories."""
        return ks(past, now) if self.numeric else total_variation(past, now)

    def index(self) -> float | None:
        """PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            place = steps(self.expected, TENTHS)
            return psi(np.bincount(place, self.expected), np.bincount(place, self.counts))
        return psi(np.append(self.expected, self.more), np.append(self.counts, self.unseen.total()))

    def _add_numbers(self, values: np.ndarray, past: NumberProfile) -> None:
        values = values[np.isfinite(values)]
        self.present += values.size
        self.counts += binned(values, np.asarray(past.edges, float))
        if past.range:
            low, high = past.range
            self.outside += int(np.count_nonzero((values < low) | (values > high)))
        self.sample.add(values)

    def _add_texts(self, counted: Mapping[str, int]) -> None:
        for text, n in counted.items():
            self.present += n
            if text in self._places:
                self.counts[self._places[text]] += n
            elif not self.more:
                # Past the bound single texts are no longer told apart.
                known = text in self.unseen or len(self.unseen) < MOST_UNSEEN
                self.unseen[text if known else ""] += n
