"""The machines of the folds as one, and several methods as one: a score is the mean of their decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from screening.data.encoding import Bundles
from screening.estimators.base import Classifier, Estimator
from screening.estimators.kernel_machine import KernelMachine
from screening.estimators.multi_class import MultiClassSVM
from screening.estimators.passes import KernelExpansion, Scorer, under
from screening.factors.first_pass import Pass
from screening.metrics.calibration import fit_platt
from screening.metrics.ranking import average_precision


@dataclass(eq=False)
class FoldEnsemble:
    """Fitted machines of one recipe and setting, each on the rows of its fold; their mean is the model."""

    machines: Sequence[Estimator]
    kind: str
    n_outputs: int
    bundles: Bundles | None = (
        None  # where machines learned from the columns of a category as one
    )

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """Mean decision at encoded rows, higher for more suspicious; shape as of `oriented_decisions`."""
        x = self._seen(x)
        if not self.kernel_machines:
            decisions = [
                oriented_decisions(machine, x, self.kind, self.n_outputs)
                for machine in self.machines
            ]
        else:  # one decision where plain machines are averaged
            decisions = [
                oriented(machine.scores_from(own), machine, self.kind, self.n_outputs)
                for own, machine in zip(
                    self._scorer.decisions(x), self.kernel_machines, strict=False
                )
            ]
        return np.mean(decisions, axis=0)

    def decision_of(self, machine: int, x: np.ndarray) -> np.ndarray:
        """Decision of a single machine, as rows held out have theirs; same shape as `decisions`."""
        return oriented_decisions(
            self.machines[machine], self._seen(x), self.kind, self.n_outputs
        )

    def _seen(self, x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x, dtype=np.float64)
        return x if self.bundles is None else self.bundles.of(x)

    @cached_property
    def _scorer(self) -> Scorer:
        """All machines, or the one they average to, ready to score over the union of their rows."""
        if self._one is not None:
            return self._one.scorer
        rows, places = self.union
        return Scorer(
            [machine.passes_kept for machine in self.kernel_machines], rows, places
        )

    @property
    def kernel_machines(self) -> list[KernelMachine]:
        """The machines that stand on training rows (patients): all of them, or none."""
        return [
            machine for machine in self.machines if isinstance(machine, KernelMachine)
        ]

    def support_share(self, n_learned: Sequence[int]) -> float | None:
        """Support vectors of a machine as a share of the rows it learned from; None where it has none."""
        if not self.kernel_machines:
            return None
        pairs = zip(self.kernel_machines, n_learned, strict=True)
        return float(
            np.mean([len(machine.support_) / n_rows for machine, n_rows in pairs])
        )

    @cached_property
    def union(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Every training row that some machine stands on, once, and each machine's places among them.

        Rows of one machine keep places of their own where they are alike: each has its weight and its bump.
        """
        parts = [machine.passes_kept.rows for machine in self.kernel_machines]
        together = np.concatenate(parts)
        # Two are alike where all their bytes are.
        whole = together.view(
            np.dtype((np.void, together.itemsize * together.shape[1]))
        ).ravel()
        alike = np.unique(whole, return_inverse=True)[1].ravel()
        ends = np.cumsum([len(part) for part in parts])[:-1]
        copy = np.concatenate([occurrence(part) for part in np.split(alike, ends)])
        names = alike * (int(copy.max()) + 1) + copy
        _, first, numbers = np.unique(names, return_index=True, return_inverse=True)
        return together[first], np.split(numbers.ravel(), ends)

    @property
    def is_averageable(self) -> bool:
        """Whether the machines average to a single one, so that more of them cost no more at scoring."""
        if not self.kernel_machines:
            return all(machine.linear for machine in self.machines)
        kernel = self.kernel_machines[0].passes_kept.kernel
        return all(
            machine.linear
            and len(machine.passes_kept.chain) == 1
            and machine.passes_kept.kernel == kernel
            and (self.kind != "multi_class" or len(machine.classes_) == self.n_outputs)
            for machine in self.kernel_machines
        )

    @cached_property
    def _one(self) -> KernelExpansion | None:
        """Plain machines as one over the union of their rows; None where there is a factor or a vote."""
        if not self.is_averageable:
            return None
        rows, places = self.union
        parts = [machine.passes_kept.last.dual for machine in self.kernel_machines]
        weights = np.zeros((len(rows), parts[0].weights.shape[1]))
        for dual, at in zip(parts, places, strict=True):
            np.add.at(weights, at, dual.weights / len(parts))
        intercept = np.mean([dual.intercept for dual in parts], axis=0)
        dual = replace(
            parts[0], weights=weights, intercept=intercept, margin=weights != 0
        )
        labels, plain = np.sign(weights).astype(np.int8), np.ones((len(rows), 1))
        first = self.kernel_machines[0].passes_kept
        return replace(
            first,
            rows=rows,
            support=np.arange(len(rows)),
            chain=(Pass(dual, labels, plain),),
        )

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays: what machines share once, then each machine's own."""
        state = {"n_machines": np.asarray(len(self.machines))}
        if self.bundles is not None:
            state["bundled"] = np.asarray(True)  # the encoder knows how
        if self.kernel_machines:
            state["rows"], places = self.union
        for k, machine in enumerate(self.machines):
            own = dict(machine.state())
            if self.kernel_machines:
                del own["rows"]
                own["places"] = places[k]
            state |= {f"machine{k}/{name}": value for name, value in own.items()}
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
        """Inverse of ``state``; `build` makes the unfitted estimator, `bundles` are the encoder's."""
        machines = []
        for k in range(int(state["n_machines"])):
            own = under(state, f"machine{k}/")
            if "rows" in state:
                own["rows"] = np.ascontiguousarray(state["rows"][own.pop("places")])
            machines.append(build().restore(own))
        return cls(machines, kind, n_outputs, bundles if "bundled" in state else None)


def occurrence(values: np.ndarray) -> np.ndarray:
    """How many equal values stand before each one, shape (n,)."""
    return pd.Series(values).groupby(values).cumcount().to_numpy()


def oriented_decisions(
    estimator: Estimator, encoded: np.ndarray, kind: str, n_outputs: int
) -> np.ndarray:
    """Decisions of encoded rows, higher for more suspicious, (n_rows, n_outputs)."""
    if isinstance(estimator, MultiClassSVM):
        own = estimator.class_scores(encoded)
    else:
        own = estimator.decision_function(encoded)
    return oriented(np.asarray(own, dtype=float), estimator, kind, n_outputs)


def oriented(
    scores: np.ndarray, estimator: Estimator, kind: str, n_outputs: int
) -> np.ndarray:
    """An estimator's own scores, (n_rows,) or (n_rows, n_outputs), turned the same way.

    One output tells the positive class from the rest, several are one a class. An estimator of several that
    was fitted on rows without some class gives that class the row's lowest score.
    """
    if n_outputs == 1:
        scores = scores.reshape(len(scores), 1)
        return -scores if kind == "one_class" else scores
    if scores.ndim == 1:  # a baseline that met two classes only
        scores = np.column_stack([-scores, scores])
    if scores.shape[1] == n_outputs:
        return scores
    everywhere = np.repeat(scores.min(axis=1, keepdims=True), n_outputs, axis=1)
    everywhere[:, np.asarray(estimator.classes_, dtype=int)] = scores
    return everywhere


# A member that is behind the best by 14 points of average precision weighs half as much.
STEEPNESS = 5.0
# From so many cases on, weights are told from chance: they are those of the best mean, but for a trace.
MANY_CASES, LEAST_STACKED = 2_500, 1e-9
# Scores that spread by less than this share of their size are not divided by their spread.
FLAT = 1e-12


@dataclass(frozen=True)
class Pooling:
    """How the decisions of several methods become one score: standardised, weighted, and put on log odds.

    Parameters
    ----------
    slopes, intercepts : ndarray, shape (n_members, n_outputs)
        From decisions to the scale of the blend: standardised decisions, and what of the blend they are in
        log odds where labels are known.
    weights : ndarray, shape (n_members, n_outputs)
        Of each output they sum to 1.

    References
    ----------
    Platt 1999, Probabilistic outputs for support vector machines.
    """

    slopes: np.ndarray
    intercepts: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, held_out: np.ndarray, positive: np.ndarray | None) -> Pooling:
        """Learn it from held-out decisions, (n_rows, n_members, n_outputs).

        `positive`: whether a row is what an output looks for, (n_rows, n_outputs). None where members know
        no labels: standardised decisions weigh alike.
        """
        centres, scales = held_out.mean(axis=0), held_out.std(axis=0)
        slopes = 1 / np.where(scales > FLAT * np.abs(centres), scales, 1.0)
        intercepts, weights = -centres * slopes, np.ones_like(slopes)
        # No member is turned, dropped or stretched by the labels: where they mean nothing, that alone gave
        # held-out scores an AUROC of 0.54. Its average precision moves a weight by little.
        for k, cases in enumerate(() if positive is None else positive.T):
            if cases.sum() < MANY_CASES or (~cases).sum() < MANY_CASES:
                precision = [
                    average_precision(held_out[:, m, k], cases)
                    for m in range(len(slopes))
                ]
                weights[:, k] = np.exp(STEEPNESS * np.array(precision))
            else:
                weights[:, k] = _stacked(
                    held_out[:, :, k] * slopes[:, k] + intercepts[:, k], cases
                )
        pooling = cls(slopes, intercepts, weights / weights.sum(axis=0))
        pooled = pooling.pooled(held_out)
        for k, cases in enumerate(() if positive is None else positive.T):
            platt = fit_platt(pooled[:, k], cases, np.ones(len(cases)))
            if platt.slope > 0:
                slopes[:, k] *= platt.slope
                intercepts[:, k] = (
                    intercepts[:, k] - platt.centre
                ) * platt.slope + platt.intercept
        return pooling

    def by_member(self, decisions: np.ndarray) -> np.ndarray:
        """Decisions (..., n_members, n_outputs) on the scale of the blend; same shape."""
        return decisions * self.slopes + self.intercepts

    def pooled(self, decisions: np.ndarray) -> np.ndarray:
        """Weighted mean of what `by_member` gives, (..., n_outputs)."""
        return (self.by_member(decisions) * self.weights).sum(axis=-2)

    def state(self) -> dict[str, np.ndarray]:
        """As arrays."""
        return {
            f"blend/{field.name}": getattr(self, field.name) for field in fields(self)
        }

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Pooling:
        """Inverse of ``state``."""
        return cls(
            **{field.name: state[f"blend/{field.name}"] for field in fields(cls)}
        )


def _stacked(decisions: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Weights, (n_members,), all > 0, of the likeliest mean of standardised decisions, (n_rows, n_members).

    Logistic regression without negative weights (Breiman 1996, Stacked regressions).
    """

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        log_odds = decisions @ weights[1:] + weights[0]
        over = (expit(log_odds) - cases) / len(cases)
        value = np.mean(np.logaddexp(0, log_odds) - cases * log_odds)
        return float(value), np.append(over.sum(), over @ decisions)

    n_members = decisions.shape[1]
    bounds = [(None, None), *[(LEAST_STACKED, None)] * n_members]
    start = np.append(0.0, np.full(n_members, 1 / n_members))
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[1:]


@dataclass(eq=False)
class BlendedEnsemble:
    """The fold machines of several methods; a row's score is their weighted mean, in log odds."""

    members: Sequence[FoldEnsemble]
    pooling: Pooling

    @property
    def machines(self) -> tuple[Estimator, ...]:
        """All machines of all members."""
        return tuple(machine for member in self.members for machine in member.machines)

    def by_member(self, x: np.ndarray) -> np.ndarray:
        """Encoded rows by each member, on the scale of the blend, (n_rows, n_members, n_outputs)."""
        return self.pooling.by_member(
            np.stack([member.decisions(x) for member in self.members], axis=1)
        )

    def decisions(self, x: np.ndarray) -> np.ndarray:
        """Log odds of encoded rows, (n_rows, n_outputs), higher for more suspicious."""
        return self.pooling.pooled(
            np.stack([member.decisions(x) for member in self.members], axis=1)
        )

    def decision_of(self, machine: int, x: np.ndarray) -> np.ndarray:
        """Blended decision by the members' machines of one fold, as rows held out have theirs."""
        own = [member.decision_of(machine, x) for member in self.members]
        return self.pooling.pooled(np.stack(own, axis=1))

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays."""
        state = self.pooling.state()
        for j, member in enumerate(self.members):
            state |= {
                f"member{j}/{name}": value for name, value in member.state().items()
            }
        return state

    @classmethod
    def from_state(
        cls,
        builders: Sequence[tuple[Callable[[], Estimator], str]],
        n_outputs: int,
        state: Mapping[str, np.ndarray],
        bundles: Bundles | None = None,
    ) -> BlendedEnsemble:
        """Inverse of ``state``, by what makes each member's unfitted estimator, and its kind of machine."""
        members = [
            FoldEnsemble.from_state(
                build, kind, n_outputs, under(state, f"member{j}/"), bundles
            )
            for j, (build, kind) in enumerate(builders)
        ]
        return cls(members, Pooling.from_state(state))


@dataclass(eq=False, repr=False)
class BlendedClassifier(Classifier):
    """The blend as an estimator: every member fitted on folds at its own parameters, two classes.

    It scales by itself: of its members trees need no scale, and a kernel machine on columns in units of
    their own learns little.

    Parameters
    ----------
    members : tuple of estimators
        Classifiers with ``decision_function``, and outlier detectors, which learn from the first class alone.
    folds : int, >= 2
        Fewer where the rarer class has fewer rows.
    seed : int
    """

    members: tuple[Any, ...] = ()
    folds: int = 5
    seed: int = 0

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if self.folds < 2:
            raise ValueError(f"folds must be >= 2, got {self.folds!r}")

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        if len(self.classes_) > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        self.scaler_ = StandardScaler().fit(x)
        x = self.scaler_.transform(x)
        folds = min(self.folds, int(np.bincount(codes).min()))
        if folds < 2:
            raise ValueError(
                "the rarer class has one row: nothing is left to scale scores by"
            )
        splits = list(
            StratifiedKFold(folds, shuffle=True, random_state=self.seed).split(x, codes)
        )
        fitted, decisions = [], []
        for member in self.members:
            kind = getattr(member, "kind", "baseline")
            held_out = np.zeros((len(x), 1))
            machines = []
            for train, test in splits:
                rows = train[codes[train] == 0] if kind == "one_class" else train
                machines.append(clone(member).fit(x[rows], codes[rows]))
                held_out[test] = FoldEnsemble(machines[-1:], kind, 1).decisions(x[test])
            fitted.append(FoldEnsemble(machines, kind, 1))
            decisions.append(held_out)
        labelled = any(member.kind != "one_class" for member in fitted)
        self.ensemble_ = BlendedEnsemble(
            fitted,
            Pooling.of(
                np.stack(decisions, axis=1), codes[:, None] == 1 if labelled else None
            ),
        )

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,), of the second of ``classes_``."""
        check_is_fitted(self)
        return self.ensemble_.decisions(self.scaler_.transform(self._rows(X)))[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
