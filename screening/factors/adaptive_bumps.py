"""Bumps on the support vectors, each as wide as the other class is near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    FLAT,
    SMALLEST,
    BumpTerms,
    Factor,
    FirstPass,
    Remembered,
    near_mean,
    right_side,
)
from screening.kernels import input_distances, log_sum_exp


@dataclass(frozen=True)
class AdaptiveBumps(Factor):
    """Conformal factor c(x) = sum_k exp(-dist(x, x_k) / tau_k^2), Wu and Chang (2003) eq. 13-17.

    Support vectors on the wrong side (y f < 0) are left out. tau_k^2 is the mean squared distance to those of
    the other class that are closer than M_k, the mean of the nearest and the farthest (no such one: the
    nearest of the other class). It is multiplied by eta_p = |SV-| / |SV+| on positive support vectors and by
    its inverse on negative ones.

    Parameters
    ----------
    distance : {"feature", "input", "feature_both"}
        Where tau is measured: the feature space (ACT_F) or the input space (ACT_I). "feature_both" takes
        the feature-space distance inside the exponential as well, which does not collapse.
    norm : {2, 1}
        Of input-space distances: squared Euclidean or city-block.
    """

    distance: str = "feature"
    norm: int = 2

    name: ClassVar[str] = "adaptive_bumps"

    def __post_init__(self) -> None:
        if self.distance not in ("feature", "input", "feature_both"):
            raise ValueError(
                f"distance must be 'feature', 'input' or 'feature_both', got {self.distance!r}"
            )
        if isinstance(self.norm, bool) or self.norm not in (1, 2):
            raise ValueError(f"norm must be 1 or 2, got {self.norm!r}")

    def parameters(self, first_pass: FirstPass) -> Remembered:
        kept = right_side(first_pass)
        labels = first_pass.support_labels[kept]
        if self.distance == "input":
            vectors = first_pass.support_vectors[kept]
            among = input_distances(vectors, vectors, self.norm)
        else:
            among = first_pass.support_distances()[np.ix_(kept, kept)]
        tau2 = np.full(len(kept), FLAT)
        others = labels[:, None] != labels
        if others.any():
            own = np.eye(len(among), dtype=bool)
            nearest = np.where(own, np.inf, among).min(axis=1)
            farthest = np.where(own, -np.inf, among).max(axis=1)
            width = near_mean(
                np.where(others, among, np.inf), (nearest + farthest) / 2.0, "nearest"
            )
            skew = (labels < 0).sum() / (labels > 0).sum()
            tau2[kept] = np.maximum(
                width * np.where(labels > 0, skew, 1.0 / skew), SMALLEST
            )
        return {"kept": kept, "tau2": tau2}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms | None:
        if self.distance == "feature_both":
            return None
        return 1.0 / remembered["tau2"], remembered["kept"].astype(float), self.norm

    def log_at(self, first_pass: FirstPass, remembered: Remembered) -> np.ndarray:
        """log c at the rows of first_pass.x, shape (n_rows,)."""
        if self.distance != "feature_both":
            return super().log_at(first_pass, remembered)
        heights = remembered["kept"].astype(float)
        return log_sum_exp(
            -first_pass.feature_distances() / remembered["tau2"], heights
        )
