"""An operating point by lesions: what is done to maps of scores, and what is found then."""

from __future__ import annotations

from collections.abc import Sequence

from screening.documents.shape import document, even


@document
class Froc:
    """Share of lesions found against false clusters a patient, at rising thresholds."""

    threshold: Sequence[float]
    sensitivity: Sequence[float]
    false_positives: Sequence[float]

    def __post_init__(self) -> None:
        even(self.threshold, self.sensitivity, self.false_positives)


@document
class LesionFacts:
    """How maps of scores become clusters, and what these find in patients held out, with 95 % intervals.

    Maps are smoothed by a Gaussian of `smoothing` voxels within the mask (0: not), and clusters of fewer than
    `min_voxels` voxels do not count; voxels touch by faces, edges and corners (`connectivity` 26). A lesion
    is found where a flagged voxel lies in it; a false positive is a cluster that touches none. `sensitivity`
    is the one expected of new lesions, `asked` what was asked for, `n_settings` how many ways were tried.
    """

    smoothing: float
    min_voxels: int
    connectivity: int
    asked: float
    n_patients: int
    n_lesions: int
    missed: int
    sensitivity: float
    sensitivity_low: float
    sensitivity_high: float
    false_positives: float
    false_positives_low: float
    false_positives_high: float
    n_settings: int
    froc: Froc
