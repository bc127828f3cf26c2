"""Whether a score made elsewhere is a fraction in one table and per cent in another."""

from __future__ import annotations

import numpy as np

from screening.contract.contract import Contract
from screening.schemas.model import NumberProfile, Profile

# Chance of as many small values as tonight's, below which they are fractions.
MAX_CHANCE = 1e-4


def scale_counts(scores: np.ndarray) -> np.ndarray:
    """Count the scores of some rows, and those above 1; NaN is none."""
    return np.array([np.count_nonzero(~np.isnan(scores)), np.count_nonzero(scores > 1)])


def fault_of_scale(counts: np.ndarray, contract: Contract, past: Profile) -> str | None:
    """Return what is wrong with a table whose score is on the other scale.

    Parameters
    ----------
    counts : ndarray of int, shape (2,)
        Sum of `scale_counts`.
    contract : Contract
        Its `kind` is the scale of training.
    past : Profile
        Distributions in training.

    Returns
    -------
    str or None
        None where the scale is that of training, as far as the values show.
    """
    n_values, n_above_one = counts.tolist()
    if contract.kind == "probability" and 2 * n_above_one > n_values:
        return (
            f"column '{contract.score}': most values are above 1, but training "
            "had fractions of 0 to 1; if this table is in per cent, divide by "
            "100, or train again on per cent"
        )
    if contract.kind != "percent" or n_above_one or not n_values:
        return None
    profile = past.features.get(str(contract.score))
    if not isinstance(profile, NumberProfile):
        return None
    # Values of training above 1, at least.
    n_training = np.array(profile.counts)
    share = n_training[1:][np.array(profile.edges) >= 1].sum() / max(
        n_training.sum(), 1
    )
    if (1 - share) ** n_values >= MAX_CHANCE:
        return None
    return (
        f"column '{contract.score}': no value is above 1, but training had "
        "percentages of 0 to 100; if this table has fractions, multiply by 100, or "
        "train again on fractions"
    )
