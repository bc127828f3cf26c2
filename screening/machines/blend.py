"""Several methods as one, the mean of their standardised scores: of fitted folds, and as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.machines.base import Classifier, Estimator
from screening.machines.fold_ensemble import FoldEnsemble, under

# Scores that spread by less than this share of their size are not divided by their spread.
FLAT = 1e-12


class BlendedEnsemble:
    """The fold machines of several methods; a row's score is the mean of the methods' standardised decisions.

    `centres` and `scales` (n_members, n_outputs) are of each member's held-out decisions.
    """

    kernel_machines = False

    def __init__(self, members: Sequence[FoldEnsemble], centres: np.ndarray, scales: np.ndarray) -> None:
        self.members = tuple(members)
        self.centres = centres
        self.scales = scales

    @property
    def machines(self) -> tuple[Estimator, ...]:
        """All machines of all members."""
        return tuple(machine for member in self.members for machine in member.machines)

    def by_member(self, x: np.ndarray) -> np.ndarray:
        """Standardised decisions at encoded rows, (n_members, n_rows, n_outputs)."""
        each = np.stack([member.decisions(x) for member in self.members])
        return (each - self.centres[:, None]) / self.scales[:, None]

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """Mean standardised decision at encoded rows, (n_rows, n_outputs), higher for more suspicious."""
        return self.by_member(x).mean(axis=0)

    def of_one(self, machine: int, x: np.ndarray) -> np.ndarray:
        """Blended decision by the members' machines of one fold, as rows held out have theirs."""
        each = np.stack([member.of_one(machine, x) for member in self.members])
        return ((each - self.centres[:, None]) / self.scales[:, None]).mean(axis=0)

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays."""
        state = {"blend/centres": self.centres, "blend/scales": self.scales}
        for j, member in enumerate(self.members):
            state |= {f"member{j}/{name}": value for name, value in member.state().items()}
        return state

    @classmethod
    def from_state(
        cls,
        builders: Sequence[tuple[Callable[[], Estimator], str]],
        n_classes: int,
        state: Mapping[str, np.ndarray],
    ) -> BlendedEnsemble:
        """Inverse of ``state``, by what makes each member's unfitted estimator, and its kind of machine
        (ModelError).
        """
        members = []
        for j, (build, kind) in enumerate(builders):
            members.append(FoldEnsemble.from_state(build, kind, n_classes, under(state, f"member{j}/")))
        centres, scales = state["blend/centres"], state["blend/scales"]
        shape = (len(members), 1 if n_classes == 2 else n_classes)
        sound = centres.shape == scales.shape == shape and np.isfinite(centres).all() and (scales > 0).all()
        if not sound:
            raise ModelError("the model's arrays do not fit each other")
        return cls(members, centres, scales)


def standards(decisions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of held-out decisions (n_rows, n_outputs), a column each."""
    centre, scale = decisions.mean(axis=0), decisions.std(axis=0)
    return centre, np.where(scale > FLAT * np.abs(centre), scale, 1.0)


class BlendedClassifier(Classifier):
    """The blend as an estimator: every member fitted on folds at its own parameters, two classes.

    Parameters
    ----------
    members : tuple of estimators
        Classifiers with ``decision_function``, and outlier detectors, which learn from the first class alone.
    folds : int, >= 2
        Fewer where the rarer class has fewer rows.
    seed : int
    """

    def __init__(self, members: tuple[Any, ...] = (), folds: int = 5, seed: int = 0) -> None:
        self.members = members
        self.folds = folds
        self.seed = seed

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if self.folds < 2:
            raise ValueError(f"folds must be >= 2, got {self.folds!r}")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        if len(self.classes_) > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        folds = min(self.folds, int(np.bincount(codes).min()))
        if folds < 2:
            raise ValueError("the rarer class has one row: nothing is left to standardise scores by")
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.seed).split(x, codes))
        fitted, centres, scales = [], [], []
        for member in self.members:
            kind = getattr(member, "kind", "baseline")
            held_out = np.zeros((len(x), 1))
            machines = []
            for train, test in splits:
                rows = train[codes[train] == 0] if kind == "one_class" else train
                machines.append(clone(member).fit(x[rows], codes[rows]))
                held_out[test] = FoldEnsemble(machines[-1:], kind, 2).decisions(x[test])
            centre, scale = standards(held_out)
            fitted.append(FoldEnsemble(machines, kind, 2))
            centres.append(centre)
            scales.append(scale)
        self.ensemble_ = BlendedEnsemble(fitted, np.array(centres), np.array(scales))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Mean standardised decision, (n_rows,); higher is the second of ``classes_``."""
        check_is_fitted(self)
        return self.ensemble_.decisions(self._rows(X))[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
