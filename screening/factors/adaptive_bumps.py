"""Bumps on the support vectors, each as wide as the other class is near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import (
    FLAT_SQUARED_WIDTH,
    MIN_SQUARED_WIDTH,
    BumpTerms,
    Factor,
    FactorState,
    FirstPass,
    mean_neighbor_distance_from_matrix,
    on_correct_side,
)
from screening.kernels import input_distances, log_sum_exp


@dataclass(frozen=True)
class AdaptiveBumps(Factor):
    """Conformal factor c(x) = sum_k exp(-dist(x, x_k) / tau_k^2).

    Wu and Chang (2003) eq. 13-17. Support vectors on the wrong side (y f < 0) are left
    out. tau_k^2 is the mean squared distance to those of the other class that are
    closer than M_k, the mean of the nearest and the farthest (or, without any, to the
    nearest of the other class). It is multiplied by eta_p = |SV-| / |SV+| on positive
    support vectors and by its inverse on negative ones.

    Parameters
    ----------
    distance : {"feature", "input", "feature_both"}
        Space in which tau is measured: feature space (ACT_F) or input space (ACT_I).
        "feature_both" takes the feature-space distance inside the exponential as well,
        which does not collapse.
    norm : {2, 1}
        Norm of input-space distances: squared Euclidean or city-block.
    """

    distance: str = "feature"
    norm: int = 2

    name: ClassVar[str] = "adaptive_bumps"

    def __post_init__(self) -> None:
        if self.distance not in ("feature", "input", "feature_both"):
            raise ValueError(
                "distance must be 'feature', 'input' or 'feature_both', "
                f"got {self.distance!r}"
            )
        if isinstance(self.norm, bool) or self.norm not in (1, 2):
            raise ValueError(f"norm must be 1 or 2, got {self.norm!r}")

    def parameters(self, first_pass: FirstPass) -> FactorState:
        """Return the squared widths tau2 and the mask ``kept``, both (n_sv,)."""
        kept = on_correct_side(first_pass)
        labels = first_pass.support_labels[kept]
        if self.distance == "input":
            vectors = first_pass.support_vectors[kept]
            distances = input_distances(vectors, vectors, self.norm)
        else:
            distances = first_pass.support_distances()[np.ix_(kept, kept)]
        tau2 = np.full(len(kept), FLAT_SQUARED_WIDTH)
        other_class = labels[:, None] != labels
        if other_class.any():
            is_self = np.eye(len(distances), dtype=bool)
            nearest = np.min(distances, axis=1, initial=np.inf, where=~is_self)
            farthest = np.max(distances, axis=1, initial=-np.inf, where=~is_self)
            radius = (nearest + farthest) / 2.0
            to_others = np.where(other_class, distances, np.inf)
            width = mean_neighbor_distance_from_matrix(to_others, radius)
            eta_p = (labels < 0).sum() / (labels > 0).sum()
            scaled = width * np.where(labels > 0, eta_p, 1.0 / eta_p)
            tau2[kept] = np.maximum(scaled, MIN_SQUARED_WIDTH)
        return {"kept": kept, "tau2": tau2}

    def bumps(self, first_pass: FirstPass, state: FactorState) -> BumpTerms | None:
        """Return the bumps of the input space; None for "feature_both"."""
        if self.distance == "feature_both":
            return None
        heights = state["kept"].astype(float)
        return 1.0 / state["tau2"], heights, self.norm

    def log_at(self, first_pass: FirstPass, state: FactorState) -> np.ndarray:
        """Return log c at the rows of first_pass.x, shape (n,)."""
        if self.distance != "feature_both":
            return super().log_at(first_pass, state)
        heights = state["kept"].astype(float)
        return log_sum_exp(-first_pass.feature_distances() / state["tau2"], heights)
