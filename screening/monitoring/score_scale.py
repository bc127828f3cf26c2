"""Whether a score made elsewhere is a fraction in one table and per cent in another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from screening.contract.contract import Contract
from screening.schemas.model import NumberProfile, Profile

# Chance of as many small values as tonight's, below which they are fractions.
MAX_CHANCE = 1e-4


@dataclass(frozen=True)
class FractionCounts:
    """Counts of a score's values; those of consecutive rows add up.

    Parameters
    ----------
    n_values : int
        Rows with a score.
    n_above_one : int
        Those whose score is above 1.
    """

    n_values: int = 0
    n_above_one: int = 0

    @classmethod
    def of(cls, scores: np.ndarray) -> FractionCounts:
        """Count scores of shape (n_rows,); NaN where a row has none."""
        n_values = int(np.count_nonzero(~np.isnan(scores)))
        return cls(n_values, int(np.count_nonzero(scores > 1)))

    def __add__(self, other: FractionCounts) -> FractionCounts:
        n_above_one = self.n_above_one + other.n_above_one
        return FractionCounts(self.n_values + other.n_values, n_above_one)

    def fault(self, contract: Contract, past: Profile | None) -> str | None:
        """Return what is wrong with a table whose score is on the other scale.

        Parameters
        ----------
        contract : Contract
            Its `kind` is the scale of training.
        past : Profile, optional
            Distributions in training.

        Returns
        -------
        str or None
            None where the scale is that of training, as far as the values show.
        """
        if contract.kind == "probability" and 2 * self.n_above_one > self.n_values:
            return (
                f"column '{contract.score}': most values are above 1, but training "
                "had fractions of 0 to 1; if this table is in per cent, divide by "
                "100, or train again on per cent"
            )
        if contract.kind != "percent" or self.n_above_one or not self.n_values:
            return None
        profile = past.features.get(str(contract.score)) if past else None
        if not isinstance(profile, NumberProfile):
            return None
        chance = (1 - _share_above_one(profile)) ** self.n_values
        if chance >= MAX_CHANCE:
            return None
        return (
            f"column '{contract.score}': no value is above 1, but training had "
            "percentages of 0 to 100; if this table has fractions, multiply by 100, or "
            "train again on fractions"
        )


def _share_above_one(profile: NumberProfile) -> float:
    """Return the share of training's values above 1, at least."""
    total = sum(profile.counts)
    if not total:
        return 0.0
    bins = zip(profile.edges, profile.counts[1:], strict=True)
    return sum(count for edge, count in bins if edge >= 1) / total
