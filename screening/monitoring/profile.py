"""What training stores of each column, and what a night counts on its bins.

Training stores a small profile; the pass over a night's table counts on its bins, so
that memory does not grow with the table.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from screening.contract.contract import Contract
from screening.io.columns import Columns, SampledValues, count_rows, count_values
from screening.monitoring.bins import TENTHS, equal_shares
from screening.monitoring.chance import effective_units
from screening.schemas.model import NumberProfile, Profile, TextProfile

STEPS = 50
MOST_CATEGORIES = 1000
MOST_UNSEEN = 1000
MOST_SAMPLED = 512
# Of a larger number other units overflow; it is an error of the cell.
LARGEST_SAMPLED = 1e100
# Bins of a column, as nights are compared and as the ledger keeps them.
BINS = 20
# A column's counts begin with rows, those with a value, those of an unseen category and
# those outside the range of training; its bins follow.
N_SHARES = 4


def profile(
    features: Columns, contract: Contract, groups: np.ndarray | None = None
) -> Profile:
    """Count the training rows on bins of their own quantiles, to compare nights with.

    Parameters
    ----------
    features : dict of str to ndarray
        Typed columns, before any normalisation within groups.
    contract : Contract
    groups : ndarray of shape (n_rows,), optional
        Rows of a group are alike, so that the number of groups determines how certain a
        difference is.
    """
    n_rows = count_rows(features)
    n_units: float = n_rows
    if groups is not None:
        n_units = effective_units(np.unique(groups, return_counts=True)[1])
    described: dict[str, NumberProfile | TextProfile] = {}
    for name, feature in contract.features.items():
        values = features[name]
        if feature.type == "number":
            described[name] = number_profile(values)
        else:
            counted = count_texts(values)
            ordered = sorted(counted, key=lambda text: (-counted[text], text))
            most_frequent = ordered[:MOST_CATEGORIES]
            counts = {text: counted[text] for text in most_frequent}
            more = sum(counted.values()) - sum(counts.values())
            described[name] = TextProfile(counts=counts, more=more)
    return Profile(n_rows=n_rows, n_units=n_units, features=described)


def number_profile(values: np.ndarray) -> NumberProfile:
    """Return the distribution of a column of numbers, shape (n_rows,)."""
    values = values[np.isfinite(values)]
    if not values.size:
        return NumberProfile(edges=(), counts=(0,), range=None)
    # Data values as edges, right-closed: then no bin is empty.
    shares = np.arange(1, STEPS) / STEPS
    edges = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    edges = edges[edges < values.max()]
    return NumberProfile(
        edges=edges.tolist(),
        counts=binned(values, edges).tolist(),
        range=(float(values.min()), float(values.max())),
    )


def binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the values in each right-closed bin, shape (n_edges + 1,)."""
    # A fifth of the time of sorting the values, or of searching the edges for each.
    ends = [np.count_nonzero(values <= edge) for edge in edges]
    return np.diff(ends, prepend=0, append=len(values))


def count_texts(values: np.ndarray) -> dict[str, int]:
    """Count how often each text, or code written as text, occurs."""
    return {
        f"{value:g}" if isinstance(value, float) else value: n
        for value, n in count_values(values).items()
    }


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of one column in some rows; counts of consecutive rows add up.

    Parameters
    ----------
    n_rows : int
    present : int
        Rows with a value, one of an unseen category included.
    outside : int
        Rows with a number outside the range of training.
    bins : ndarray of int, shape (n_bins,)
        Rows in each bin of the training profile.
    unseen : Counter
        Rows of each category that training never had; "" for those beyond
        `MOST_UNSEEN`.
    sample : SampledValues
        Of numbers.
    """

    n_rows: int
    present: int
    outside: int
    bins: np.ndarray
    unseen: Counter[str]
    sample: SampledValues

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        return ColumnCounts(
            self.n_rows + other.n_rows,
            self.present + other.present,
            self.outside + other.outside,
            self.bins + other.bins,
            _first_texts(self.unseen + other.unseen),
            self.sample + other.sample,
        )


def _first_texts(counts: Counter[str]) -> Counter[str]:
    """Keep the first `MOST_UNSEEN` texts in alphabetical order; "" counts the others.

    A text that is kept of a sum was kept of each of its terms, so its count is whole.
    """
    texts = sorted(text for text in counts if text)
    for text in texts[MOST_UNSEEN:]:
        counts[""] += counts.pop(text)
    return counts


class ColumnGate:
    """A feature's distribution in training, and that of the night so far.

    Attributes
    ----------
    counted : ColumnCounts
        Of tonight.
    known : dict of str or None to int
        Bin of each text of training; -1 for a missing one.
    more : int
        Training rows of categories beyond `MOST_CATEGORIES`: with any, no text can be
        said to be unseen.
    coarse_bin : ndarray of int, shape (n_bins,)
        Coarse bin of each bin of the profile.
    training : ndarray of int
        Counts of the training rows, as `tonight` returns those of the night.
    """

    def __init__(self, past: NumberProfile | TextProfile, n_rows_past: int):
        self.past = past
        self.numeric = isinstance(past, NumberProfile)
        self.known: dict[str | None, int] = {None: -1}
        self.more = 0
        if isinstance(past, NumberProfile):
            bins = [*past.counts]
        else:
            bins = [*past.counts.values()]
            self.more = past.more
            self.known |= {text: i for i, text in enumerate(past.counts)}
        self.expected = np.array(bins, dtype=float)
        # At most `BINS` bins: shares of the training rows, or the most frequent
        # categories.
        most_frequent = np.minimum(np.arange(len(bins)), BINS - 1)
        self.coarse_bin = (
            equal_shares(self.expected, BINS) if self.numeric else most_frequent
        )
        past_bins = np.bincount(self.coarse_bin, self.expected).astype(int)
        n_present = sum(bins) + self.more
        self.training = np.array([n_rows_past, n_present, 0, 0, *past_bins])
        no_rows = np.zeros(0, dtype=np.int64)
        self.counted = self.count(np.zeros(0), no_rows)

    def tonight(self) -> np.ndarray:
        """Return `N_SHARES` counts of tonight, and then its bins."""
        counted = self.counted
        bins = np.bincount(self.coarse_bin, counted.bins).astype(int)
        n_unseen = counted.unseen.total()
        return np.array(
            [counted.n_rows, counted.present, n_unseen, counted.outside, *bins]
        )

    def count(
        self, values: np.ndarray, rows: np.ndarray, n_unlisted: int = 0
    ) -> ColumnCounts:
        """Count the typed values of some rows.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
        rows : ndarray of int, shape (n_rows,)
            Numbers of the rows, from 0.
        n_unlisted : int
            Rows with a text that an ordinal does not list. Their value is missing in
            `values`; they count as present and unseen.
        """
        if isinstance(self.past, NumberProfile):
            return self._count_numbers(self.past, values, rows)
        bins = np.zeros(len(self.expected), dtype=np.int64)
        unseen: Counter[str] = Counter()
        present = n_unlisted
        for text, n in count_texts(values).items():
            present += n
            if text in self.known:
                bins[self.known[text]] += n
            elif not self.more:
                unseen[text] += n
        if n_unlisted:
            unseen[""] += n_unlisted
        sample = SampledValues(MOST_SAMPLED)
        return ColumnCounts(len(values), present, 0, bins, _first_texts(unseen), sample)

    def _count_numbers(
        self, past: NumberProfile, values: np.ndarray, rows: np.ndarray
    ) -> ColumnCounts:
        is_finite = np.isfinite(values)
        finite = values[is_finite]
        bins = binned(finite, np.asarray(past.edges, float))
        outside = 0
        if past.range:
            low, high = past.range
            is_outside = (finite < low) | (finite > high)
            outside = int(np.count_nonzero(is_outside))
        is_sampled = is_finite & (np.abs(values) < LARGEST_SAMPLED)
        sample = SampledValues.of(MOST_SAMPLED, rows[is_sampled], values[is_sampled])
        return ColumnCounts(len(values), finite.size, outside, bins, Counter(), sample)

    def distance(self, past: np.ndarray, now: np.ndarray) -> float | None:
        """Return the largest difference of shares.

        Cumulative shares of numbers; of texts, shares of any set of known categories.
        """
        measure = ks if self.numeric else total_variation
        return measure(past, now)

    def index(self) -> float | None:
        """Return the PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            tenth = equal_shares(self.expected, TENTHS)
            return psi(
                np.bincount(tenth, self.expected),
                np.bincount(tenth, self.counted.bins),
            )
        return psi(
            np.append(self.expected, self.more),
            np.append(self.counted.bins, self.counted.unseen.total()),
        )


def psi(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Return the population stability index, sum of (q - p) ln(q / p) over bins.

    An empty bin counts as half a row.
    """
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.any() or not now.any():
        return None
    filled = (before > 0) | (now > 0)
    p = np.maximum(before[filled], 0.5) / before.sum()
    q = np.maximum(now[filled], 0.5) / now.sum()
    terms = (q - p) * np.log(q / p)
    return float(terms.sum())


def ks(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Return the Kolmogorov-Smirnov distance of shares over ordered bins, 0 to 1."""
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.sum() or not now.sum():
        return None
    differences = now / now.sum() - before / before.sum()
    return float(np.abs(np.cumsum(differences)).max())


def total_variation(expected: ArrayLike, observed: ArrayLike) -> float | None:
    """Largest difference of the shares of any set of categories, 0 to 1."""
    before = np.asarray(expected, float)
    now = np.asarray(observed, float)
    if not before.sum() or not now.sum():
        return None
    differences = before / before.sum() - now / now.sum()
    return float(np.abs(differences).sum() / 2)
