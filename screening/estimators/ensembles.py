"""Fold ensembles and blends: a score is the mean of several machines' decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from screening.data.encoding import Bundles
from screening.estimators.base import Classifier, Estimator
from screening.estimators.forests import Forest
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.passes import KernelExpansion, Scorer, under
from screening.factors.first_pass import Pass
from screening.kernels import Kernel
from screening.metrics.calibration import fit_platt
from screening.metrics.ranking import average_precision

# Trees of a forest that is stored. With 300 new rows are ranked as with 1,500; with 200
# average precision is 0.2 points lower.
_MAX_TREES = 300


@dataclass(eq=False)
class FoldEnsemble:
    """Machines of one recipe and setting, each fitted on one fold; their mean decides.

    Parameters
    ----------
    machines : sequence of Estimator
        Fitted.
    kind : str
        Kind of machine, such as "one_class" or "baseline".
    n_outputs : int
        Number of outputs: 1, or the number of classes.
    bundles : Bundles, optional
        If machines learned from one column per categorical variable.
    """

    machines: Sequence[Estimator]
    kind: str
    n_outputs: int
    bundles: Bundles | None = None

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """Return mean decisions at encoded rows, (n_rows, n_outputs).

        Higher is more suspicious.
        """
        x = self._bundle(x)
        if not self.kernel_machines:
            # Checked once: fifteen checks of the same rows took as long as a decision.
            x = check_array(x)
            machines = self.machines
            if not machines[0].requires_training:
                # The mean of equal decisions is theirs but for the last digit.
                machines = machines[:1]
            decisions = [
                oriented(machine.decide(x), machine, self.kind, self.n_outputs)
                for machine in machines
            ]
            return np.mean(decisions, axis=0)
        if self.kernel_machines[0].has_log_scores:
            # The mean of f / rho, as of other machines, on the scale of one machine.
            log_ratios = self._scorer.log_ratios(x)
            return np.log(len(log_ratios)) - logsumexp(log_ratios, axis=0)
        decisions = []
        # If machines average to one there is a single decision.
        scored = zip(self._scorer.decisions(x), self.kernel_machines, strict=False)
        for decision, machine in scored:
            scores = machine.scores_from(decision)
            decisions.append(oriented(scores, machine, self.kind, self.n_outputs))
        return np.mean(decisions, axis=0)

    def condensed(self, n_folds: int) -> FoldEnsemble:
        """Return the ensemble with fewer trees, if its machines are forests.

        The forests of a repeat are joined to one of the same size, or to several, up
        to `_MAX_TREES` in all. So a new row is scored by forests as large as those
        that scored held-out rows. Other machines are kept as they are.

        Parameters
        ----------
        n_folds : int
            Machines of a repeat.
        """
        forests = [machine for machine in self.machines if isinstance(machine, Forest)]
        if len(forests) < len(self.machines):
            return self
        n_repeats = len(forests) // n_folds
        n_joined = _MAX_TREES // (n_repeats * forests[0].n_estimators)
        n_joined = min(max(n_joined, 1), n_folds)
        machines: list[Estimator] = []
        for start in range(0, len(forests), n_folds):
            joined = Forest.join(forests[start : start + n_folds], n_joined)
            if joined is None:
                return self
            machines.extend(joined)
        return replace(self, machines=machines)

    def decision_of(self, machine: int, x: np.ndarray) -> np.ndarray:
        """Return the decisions of one machine, by number, as held-out rows have them.

        Numbers are those of folds; in a condensed ensemble every machine represents all
        folds. Shape as for ``decisions``.
        """
        estimator = self.machines[machine % len(self.machines)]
        scores = estimator.decide(self._bundle(x))
        return oriented(scores, estimator, self.kind, self.n_outputs)

    def _bundle(self, x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x, dtype=np.float64)
        return x if self.bundles is None else self.bundles.of(x)

    @cached_property
    def _scorer(self) -> Scorer:
        """Scorer of all kernel machines, or of the one that they average to."""
        if self._average is not None:
            return self._average.scorer
        rows, basis_index = self.union
        expansions = [machine.passes_kept for machine in self.kernel_machines]
        return Scorer(expansions, rows, basis_index)

    @property
    def kernel_machines(self) -> list[KernelMachine]:
        """The machines that store training rows (patients): all of them, or none."""
        return [
            machine for machine in self.machines if isinstance(machine, KernelMachine)
        ]

    def support_share(self, n_learned: Sequence[int]) -> float | None:
        """Return the mean share of training rows that are support vectors.

        None if the machines have none. `n_learned` is the number of training rows of
        each machine.
        """
        if not self.kernel_machines:
            return None
        shares = [
            len(machine.support_) / n_rows
            for machine, n_rows in zip(self.kernel_machines, n_learned, strict=True)
        ]
        return float(np.mean(shares))

    @cached_property
    def union(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The rows of all kernel machines, each once, and each machine's indices.

        Equal rows within one machine stay separate, since each has its own weight and
        bump.
        """
        parts = [machine.passes_kept.rows for machine in self.kernel_machines]
        rows = np.concatenate(parts)
        # Rows are equal if all their bytes are.
        row_type = np.dtype((np.void, rows.itemsize * rows.shape[1]))
        as_bytes = rows.view(row_type).ravel()
        row_code = np.unique(as_bytes, return_inverse=True)[1].ravel()
        ends = np.cumsum(list(map(len, parts)))[:-1]
        code_parts = np.split(row_code, ends)
        copy = np.concatenate(list(map(occurrence, code_parts)))
        key = row_code * (int(copy.max()) + 1) + copy
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
        return rows[first], np.split(index.ravel(), ends)

    @property
    def is_averageable(self) -> bool:
        """True if the machines average to one, so scoring costs no more than one."""
        if not self.kernel_machines:
            return all(machine.linear for machine in self.machines)
        kernel = self.kernel_machines[0].passes_kept.kernel
        return all(self._is_plain(machine, kernel) for machine in self.kernel_machines)

    def _is_plain(self, machine: KernelMachine, kernel: Kernel) -> bool:
        """Return True if a machine has one linear pass of this kernel, all classes."""
        expansion = machine.passes_kept
        has_all_classes = True
        if self.kind == "multi_class":
            has_all_classes = len(machine.classes_) == self.n_outputs
        is_single_pass = len(expansion.chain) == 1 and expansion.kernel == kernel
        return machine.linear and is_single_pass and has_all_classes

    @cached_property
    def _average(self) -> KernelExpansion | None:
        """The mean of plain machines over the union of their rows, or None."""
        if not self.is_averageable:
            return None
        rows, basis_index = self.union
        duals = [machine.passes_kept.last.dual for machine in self.kernel_machines]
        n_outputs = duals[0].weights.shape[1]
        weights = np.zeros((len(rows), n_outputs))
        for dual, index in zip(duals, basis_index, strict=True):
            np.add.at(weights, index, dual.weights / len(duals))
        intercept = np.mean([dual.intercept for dual in duals], axis=0)
        mean_dual = replace(
            duals[0], weights=weights, intercept=intercept, margin=weights != 0
        )
        labels = np.sign(weights).astype(np.int8)
        mean_pass = Pass(mean_dual, labels, np.ones((len(rows), 1)))
        return replace(
            self.kernel_machines[0].passes_kept,
            rows=rows,
            support=np.arange(len(rows)),
            chain=(mean_pass,),
        )

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays; rows of all machines are stored once."""
        state = {"n_machines": np.asarray(len(self.machines))}
        if self.bundles is not None:
            state["bundled"] = np.asarray(True)  # the encoder stores how
        if self.kernel_machines:
            state["rows"], basis_index = self.union
        for k, machine in enumerate(self.machines):
            machine_state = dict(machine.state())
            if self.kernel_machines:
                del machine_state["rows"]
                machine_state["places"] = basis_index[k]
            for name, value in machine_state.items():
                state[f"machine{k}/{name}"] = value
        return state

    @classmethod
    def from_state(
        cls,
        build: Callable[[], Estimator],
        kind: str,
        n_outputs: int,
        state: Mapping[str, np.ndarray],
        bundles: Bundles | None = None,
    ) -> FoldEnsemble:
        """Return the ensemble that ``state`` described.

        Parameters
        ----------
        build : callable
            Returns the unfitted estimator.
        kind, n_outputs
            As for ``FoldEnsemble``.
        state : dict of str to ndarray
        bundles : Bundles, optional
            Those of the encoder.
        """
        machines = []
        for k in range(int(state["n_machines"])):
            machine_state = under(state, f"machine{k}/")
            if "rows" in state:
                rows = state["rows"][machine_state.pop("places")]
                machine_state["rows"] = np.ascontiguousarray(rows)
            machines.append(build().restore(machine_state))
        if "bundled" not in state:
            bundles = None
        return cls(machines, kind, n_outputs, bundles)


def occurrence(values: np.ndarray) -> np.ndarray:
    """Return the number of equal values before each one, shape (n,)."""
    return pd.Series(values).groupby(values).cumcount().to_numpy()


def oriented(
    scores: np.ndarray, estimator: Estimator, kind: str, n_outputs: int
) -> np.ndarray:
    """Return an estimator's scores with one sign and shape, (n_rows, n_outputs).

    Higher is more suspicious. One output separates the positive class from the rest,
    several are one per class. If the estimator was fitted on rows without some class,
    that class gets the row's lowest score.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
        As its ``decide`` returns them.
    estimator : Estimator
    kind, n_outputs
        As for ``FoldEnsemble``.
    """
    scores = np.asarray(scores, dtype=float)
    if n_outputs == 1:
        scores = scores.reshape(len(scores), 1)
        return -scores if kind == "one_class" else scores
    if scores.ndim == 1:  # a baseline that was fitted on two of the classes
        scores = np.column_stack([-scores, scores])
    if scores.shape[1] == n_outputs:
        return scores
    lowest = scores.min(axis=1, keepdims=True)
    all_classes = np.repeat(lowest, n_outputs, axis=1)
    all_classes[:, np.asarray(estimator.classes_, dtype=int)] = scores
    return all_classes


# With many cases a member whose average precision is 0.05 below the best has half its
# weight; with as many as the second number, where chance moves average precision more,
# one that is 0.09 below.
_STEEPNESS = 15.0
_CASES_OF_HALF_STEEPNESS = 30
# Cases, and as many others, from which weights can be estimated.
_MIN_CASES_TO_STACK = 2_500
# Smallest weight of a member that is estimated.
_MIN_STACKED_WEIGHT = 1e-9
# Scores whose spread is below this share of their size are not divided by it.
_MIN_RELATIVE_SPREAD = 1e-12


@dataclass(frozen=True)
class Pooling:
    """Blend of the decisions of several methods: standardized, weighted, in log odds.

    Parameters
    ----------
    slopes, intercepts : ndarray of shape (n_members, n_outputs)
        From decisions to the scale of the blend: standardized decisions or, if labels
        are known, log odds.
    weights : ndarray of shape (n_members, n_outputs)
        They sum to 1 for each output.

    References
    ----------
    Platt 1999, Probabilistic outputs for support vector machines.
    """

    slopes: np.ndarray
    intercepts: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls,
        held_out: np.ndarray,
        positive: np.ndarray | None,
        fading: np.ndarray | None = None,
    ) -> Pooling:
        """Fit the blend to held-out decisions.

        Parameters
        ----------
        held_out : ndarray of shape (n_rows, n_members, n_outputs)
        positive : bool ndarray of shape (n_rows, n_outputs), optional
            True for rows of an output's class. None if members know no labels:
            standardized decisions then have equal weights.
        fading : ndarray of shape (n_members,), optional
            Factor of each member's weight, where labels are known.
        """
        centres = held_out.mean(axis=0)
        scales = held_out.std(axis=0)
        is_flat = ~(scales > _MIN_RELATIVE_SPREAD * np.abs(centres))
        slopes = 1 / np.where(is_flat, 1.0, scales)
        intercepts = -centres * slopes
        weights = np.ones_like(slopes)
        cases_of_outputs = [] if positive is None else list(positive.T)
        for k, cases in enumerate(cases_of_outputs):
            decisions = held_out[:, :, k]
            standardized = decisions * slopes[:, k] + intercepts[:, k]
            weights[:, k] = _member_weights(decisions, standardized, cases)
            if fading is not None:
                weights[:, k] *= fading
        pooling = cls(slopes, intercepts, weights / weights.sum(axis=0))
        pooled = pooling.pooled(held_out)
        for k, cases in enumerate(cases_of_outputs):
            platt = fit_platt(pooled[:, k], cases, np.ones(len(cases)))
            if platt.slope > 0:
                slopes[:, k] *= platt.slope
                centred = intercepts[:, k] - platt.centre
                intercepts[:, k] = centred * platt.slope + platt.intercept
        return pooling

    def by_member(self, decisions: np.ndarray) -> np.ndarray:
        """Return decisions (..., n_members, n_outputs) on the scale of the blend."""
        return decisions * self.slopes + self.intercepts

    def pooled(self, decisions: np.ndarray) -> np.ndarray:
        """Return the weighted mean of ``by_member``, shape (..., n_outputs)."""
        return (self.by_member(decisions) * self.weights).sum(axis=-2)

    def state(self) -> dict[str, np.ndarray]:
        """Return arrays from which ``from_state`` makes the same blend."""
        return {
            f"blend/{field.name}": getattr(self, field.name) for field in fields(self)
        }

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Pooling:
        """Return the blend that ``state`` described."""
        arrays = {field.name: state[f"blend/{field.name}"] for field in fields(cls)}
        return cls(**arrays)


def _member_weights(
    decisions: np.ndarray, standardized: np.ndarray, cases: np.ndarray
) -> np.ndarray:
    """Return the weights of the members of one output, (n_members,), > 0.

    With few cases labels change them only a little, by average precision: no member is
    reversed, dropped or stretched. Where labels were random, that alone gave held-out
    scores an AUROC of 0.54.

    Parameters
    ----------
    decisions, standardized : ndarray of shape (n_rows, n_members)
    cases : bool ndarray of shape (n_rows,)
    """
    if min(cases.sum(), (~cases).sum()) >= _MIN_CASES_TO_STACK:
        return _stacked_weights(standardized, cases)
    precisions = [average_precision(decision, cases) for decision in decisions.T]
    n_cases = cases.sum()
    steepness = _STEEPNESS * n_cases / (n_cases + _CASES_OF_HALF_STEEPNESS)
    return np.exp(steepness * np.array(precisions))


def _stacked_weights(decisions: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Return the weights of the most likely mean of standardized decisions.

    Logistic regression without negative weights (Breiman 1996, Stacked regressions).

    Parameters
    ----------
    decisions : ndarray of shape (n_rows, n_members)
    cases : bool ndarray of shape (n_rows,)

    Returns
    -------
    ndarray of shape (n_members,), all > 0
    """

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        log_odds = decisions @ weights[1:] + weights[0]
        residual = (expit(log_odds) - cases) / len(cases)
        value = np.mean(np.logaddexp(0, log_odds) - cases * log_odds)
        gradient = np.append(residual.sum(), residual @ decisions)
        return float(value), gradient

    n_members = decisions.shape[1]
    bounds = [(None, None), *[(_MIN_STACKED_WEIGHT, None)] * n_members]
    start = np.append(0.0, np.full(n_members, 1 / n_members))
    likeliest = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return likeliest.x[1:]


@dataclass(eq=False)
class BlendedEnsemble:
    """Fold ensembles of several methods; a score is their weighted mean in log odds."""

    members: Sequence[FoldEnsemble]
    pooling: Pooling

    @property
    def machines(self) -> tuple[Estimator, ...]:
        """All machines of all members."""
        machines: list[Estimator] = []
        for member in self.members:
            machines.extend(member.machines)
        return tuple(machines)

    def condensed(self, n_folds: int) -> BlendedEnsemble:
        """Return the blend of the members' condensed ensembles."""
        members = [member.condensed(n_folds) for member in self.members]
        return replace(self, members=members)

    def _member_decisions(self, x: np.ndarray) -> np.ndarray:
        decisions = [member.decisions(x) for member in self.members]
        return np.stack(decisions, axis=1)

    def by_member(self, x: np.ndarray) -> np.ndarray:
        """Return each member's decisions on the scale of the blend.

        Shape (n_rows, n_members, n_outputs), for encoded rows x.
        """
        return self.pooling.by_member(self._member_decisions(x))

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """Return log odds at encoded rows, (n_rows, n_outputs).

        Higher is more suspicious.
        """
        return self.pooling.pooled(self._member_decisions(x))

    def decision_of(self, machine: int, x: np.ndarray) -> np.ndarray:
        """Return the blend of the members' machines of one fold, by number.

        Held-out rows have such decisions. Shape (n_rows, n_outputs).
        """
        decisions = [member.decision_of(machine, x) for member in self.members]
        return self.pooling.pooled(np.stack(decisions, axis=1))

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays."""
        state = self.pooling.state()
        for j, member in enumerate(self.members):
            for name, value in member.state().items():
                state[f"member{j}/{name}"] = value
        return state

    @classmethod
    def from_state(
        cls,
        builders: Sequence[tuple[Callable[[], Estimator], str]],
        n_outputs: int,
        state: Mapping[str, np.ndarray],
        bundles: Bundles | None = None,
    ) -> BlendedEnsemble:
        """Return the ensemble that ``state`` described.

        `builders`: for each member, a function that returns its unfitted estimator, and
        its kind of machine.
        """
        members = []
        for j, (build, kind) in enumerate(builders):
            member_state = under(state, f"member{j}/")
            members.append(
                FoldEnsemble.from_state(build, kind, n_outputs, member_state, bundles)
            )
        return cls(members, Pooling.from_state(state))


@dataclass(eq=False, repr=False)
class BlendedClassifier(Classifier):
    """The blend as an estimator of two classes: every member is fitted on folds.

    It scales columns itself: trees need no scale, and a kernel machine learns little
    from columns in different units.

    Parameters
    ----------
    members : tuple of estimators
        Classifiers with ``decision_function``, and outlier detectors, which learn from
        the first class alone.
    folds : int, >= 2
        Fewer are used if the rarer class has fewer rows.
    seed : int
    """

    members: tuple[Any, ...] = ()
    folds: int = 5
    seed: int = 0

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters."""
        if self.folds < 2:
            raise ValueError(f"folds must be >= 2, got {self.folds!r}")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Fit every member on folds, and the blend on held-out decisions."""
        if len(self.classes_) > 2:
            # scikit-learn's checks look for these words.
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                "multiclass."
            )
        self.scaler_ = StandardScaler().fit(x)
        x = self.scaler_.transform(x)
        n_of_rarer = int(np.bincount(codes).min())
        n_folds = min(self.folds, n_of_rarer)
        if n_folds < 2:
            raise ValueError(
                "the rarer class has only one row, so scores cannot be scaled; give "
                "more rows"
            )
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
        splits = list(splitter.split(x, codes))
        fitted = []
        decisions = []
        for member in self.members:
            ensemble, held_out = _fit_on_folds(member, x, codes, splits)
            fitted.append(ensemble)
            decisions.append(held_out)
        knows_labels = any(ensemble.kind != "one_class" for ensemble in fitted)
        positive = codes[:, None] == 1 if knows_labels else None
        pooling = Pooling.of(np.stack(decisions, axis=1), positive)
        self.ensemble_ = BlendedEnsemble(fitted, pooling)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return log odds of the second of ``classes_``, shape (n_rows,)."""
        check_is_fitted(self)
        x = self.scaler_.transform(self._rows(X))
        return self.ensemble_.decisions(x)[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _fit_on_folds(
    member: Any,
    x: np.ndarray,
    codes: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[FoldEnsemble, np.ndarray]:
    """Fit a member on each fold; return its ensemble and held-out decisions (n, 1)."""
    kind = getattr(member, "kind", "baseline")
    held_out = np.zeros((len(x), 1))
    machines: list[Estimator] = []
    for train, test in splits:
        rows = train[codes[train] == 0] if kind == "one_class" else train
        machine = clone(member).fit(x[rows], codes[rows])
        machines.append(machine)
        held_out[test] = FoldEnsemble([machine], kind, 1).decisions(x[test])
    return FoldEnsemble(machines, kind, 1), held_out
