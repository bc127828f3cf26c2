"""One column of a night, counted on what training keeps of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from screening.documents.model import NumberProfile, TextProfile
from screening.gates.profiling import binned, tenths, texts
from screening.gates.sampling import SampledValues
from screening.gates.tests import ks, psi, total_variation

MOST_UNSEEN = 1000
MOST_SAMPLED = 8192


class Column:
    """What training knew of a feature, and what the night holds so far.

    Parameters
    ----------
    past : NumberProfile or TextProfile
        Its entry of the profile.
    missing_past : int
        Training rows without a value.

    Attributes
    ----------
    present : int
        Rows of tonight with a value, one of an unseen category included.
    known : set of str or None
        Texts that are nothing new; None is that of a missing value.
    unseen : Counter
        Rows of each category that training never had.
    """

    def __init__(self, past: NumberProfile | TextProfile, missing_past: int):
        self.past, self.missing_past = past, missing_past
        texts_past = past.counts if isinstance(past, TextProfile) else {}
        counts = past.counts if isinstance(past, NumberProfile) else list(texts_past.values())
        self.numeric = isinstance(past, NumberProfile)
        self.expected = np.array(counts, dtype=float)
        self.more = past.more if isinstance(past, TextProfile) else 0
        self.counts = np.zeros(len(counts), dtype=np.int64)
        self.present = self.outside = 0
        self.unseen: Counter[str] = Counter()
        self.sample = SampledValues(MOST_SAMPLED)
        self._places = {text: i for i, text in enumerate(texts_past)}
        self.known = {*texts_past, None}

    @property
    def n_past(self) -> int:
        """Training rows with a value."""
        return int(self.expected.sum()) + self.more

    @property
    def n_unseen(self) -> int:
        return self.unseen.total()

    def add(self, values: np.ndarray) -> None:
        """Count the typed values of one batch."""
        if isinstance(self.past, NumberProfile):
            self._add_numbers(values, self.past)
        else:
            self._add_texts(texts(values))

    def add_unlisted(self, n_rows: int) -> None:
        """Count rows whose text stands for no value at all."""
        self.present += n_rows
        if n_rows:
            self.unseen[""] += n_rows

    def distance(self) -> float | None:
        """Largest difference of shares: of cumulative ones for numbers, of any set of known categories."""
        return ks(self.expected, self.counts) if self.numeric else total_variation(self.expected, self.counts)

    def index(self) -> float | None:
        """PSI of tenths of the training rows, or of the categories."""
        if self.numeric:
            place = tenths(self.expected)
            return psi(np.bincount(place, self.expected), np.bincount(place, self.counts))
        return psi(np.append(self.expected, self.more), np.append(self.counts, self.n_unseen))

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
