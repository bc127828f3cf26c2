"""Bases of the kernel machines: parameters, training rows, and fitted attributes."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    validate_data,
)

from screening.estimators import landmarks
from screening.estimators.base import Estimator, as_array, check_weights
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion
from screening.estimators.training import inner_folds, mean_recall, n_rescalings_by_cv
from screening.factors import Factor, incompatibility
from screening.factors.base import check_count
from screening.kernels import KERNELS, Gaussian, Kernel
from screening.kernels.kernel_cache import KernelCache

# Test rows never decide when to stop: a machine cannot be tested on rows that chose it.
_STOP_RULES = ("fixed", "inner")
# Inner folds of ``stop="inner"``.
_STOP_FOLDS = 5
# Up to so many rows are solved to a smaller tolerance, at no cost: a row of weight 2
# then gives the same result as the row twice.
_FEW_ROWS = 40
_FEW_ROWS_TOL = 1e-10
# Rows that whole-number sample weights may repeat rows to.
_MAX_REPEATED_ROWS = 20_000

ClassWeight = Mapping[Any, float] | str | None


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(Estimator):
    """Base of the kernel machines, whose kernel, factor and remedies are frozen values.

    Their fields can be set as ``kernel__gamma``, ``factor__Q`` or
    ``unequal_costs__cost_ratio`` in ``set_params`` and ``GridSearchCV``; a new value is
    made and the old one is not changed.

    Its parameters are documented in the subclasses.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, gamma a number.
    support_, support_vectors_, dual_coef_, intercept_
        Of the last pass, as in scikit-learn's SVC.
    n_iter_ : int
        Iterations of all passes.
    kkt_gap_ : float
        Largest violation of the optimality conditions over all passes.
    """

    kernel: Any = field(default=None, kw_only=False)
    gamma: float | str = "scale"
    factor: Factor | None = None
    passes: int = 1
    tol: float = 1e-3
    approximation: str = "none"
    n_landmarks: int = 8000
    random_state: int | np.random.RandomState | None = 0

    name: ClassVar[str]
    component_parameters = (
        "kernel",
        "gamma",
        "factor",
        "scheme",
        "remedies",
        "class_weight",
    )

    @property
    def by_rows(self) -> bool:
        """True if a fit needs only some rows of the kernel matrix, never all of it."""
        return True

    @property
    def _remedies(self) -> tuple[Any, ...]:
        remedies = getattr(self, "remedies", ())
        return tuple(remedies) if isinstance(remedies, (tuple, list)) else ()

    def _components(self) -> dict[str, Any]:
        """Return kernel, factor and remedies by name, without those that are None."""
        components = {"kernel": self.kernel, "factor": self.factor}
        for remedy in self._remedies:
            components[getattr(remedy, "name", "")] = remedy
        return {
            name: component
            for name, component in components.items()
            if is_dataclass(component) and name
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters; if ``deep`` also those of kernel, factor and remedies."""
        params = super().get_params(deep=False)
        if deep:
            for name, component in self._components().items():
                for parameter in fields(component):
                    value = getattr(component, parameter.name)
                    params[f"{name}__{parameter.name}"] = value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including those of components such as ``kernel__gamma``."""
        for key in [key for key in params if "__" in key]:
            self._set_component_param(key, params.pop(key))
        super().set_params(**params)
        return self

    def _set_component_param(self, key: str, value: Any) -> None:
        """Replace a component by one with another value of a parameter."""
        name, _, parameter = key.partition("__")
        component = self._components().get(name)
        is_known = component is not None and parameter in {
            component_field.name for component_field in fields(component)
        }
        if component is None or not is_known:
            raise ValueError(
                f"Invalid parameter {key!r}; valid are {sorted(self.get_params())}"
            )
        changed = replace(component, **{parameter: value})
        if name in ("kernel", "factor"):
            setattr(self, name, changed)
            return
        remedies = []
        for remedy in self._remedies:
            new = changed if remedy is component else remedy
            remedies.append(new)
        setattr(self, "remedies", tuple(remedies))  # noqa: B010

    @property
    def _kernel(self) -> Kernel:
        """The kernel as a value, from its name and the machine's gamma if named."""
        if self.kernel is None or isinstance(self.kernel, str):
            return _kernel_by_name(self.kernel or "gaussian", self.gamma)
        return self.kernel

    @property
    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _tol(self, n_rows: int) -> float:
        if n_rows <= _FEW_ROWS:
            return min(self.tol, _FEW_ROWS_TOL)
        return float(self.tol)

    @property
    def n_rescalings(self) -> int:
        """Largest number of rescalings; 0 without a factor."""
        return self.passes if self.factor is not None else 0

    @property
    def _allows_nystroem(self) -> bool:
        """True for two classes, one pass, and no need of the whole kernel matrix."""
        return self.name == "two_class" and not self.n_rescalings and self.by_rows

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters and incompatible components."""
        check_count("passes", self.passes, least=0)
        landmarks.check_landmarks(
            self.approximation, self.n_landmarks, self._allows_nystroem
        )
        if not self.tol > 0:
            raise ValueError(f"tol must be > 0, got {self.tol!r}")
        if not isinstance(self.kernel, str | None) and self.gamma != "scale":
            raise ValueError(
                f"gamma {self.gamma!r} is only for a kernel given by name; "
                f"leave it out, because {self.kernel} has its own"
            )
        if self.factor is not None:
            scheme = getattr(self, "scheme", None)
            kernel = self._kernel.name
            reason = incompatibility(self.factor, self.name, scheme, kernel)
            if reason:
                raise ValueError(reason)

    def fit_each(
        self,
        factors: Sequence[Factor | None],
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        cache: KernelCache | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> list[Self]:
        """Fit one machine per factor, all on one first pass.

        Parameters
        ----------
        factors : sequence of Factor or None
            They differ only in fields that they let vary.
        X, y, groups, sample_weight
            As for ``fit``.
        cache : KernelCache, optional
            Cache of X, shared with other fits on it.

        Returns
        -------
        list of fitted machines
        """
        # With inner folds each factor gets a number of passes of its own.
        together = [factors]
        if getattr(self, "stop", "fixed") != "fixed":
            together = [[factor] for factor in factors]
        machines = []
        for part in together:
            first = copy(self)
            first.factor = part[0]
            expansions = first._fit_expansions(part, X, y, sample_weight, groups, cache)
            for factor, expansion in zip(part, expansions, strict=True):
                machine = copy(first)
                machine.factor = factor
                machine._set_fitted(expansion)
                machines.append(machine)
        return machines

    def _fit_expansions(
        self,
        factors: Sequence[Factor | None],
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        cache: KernelCache | None = None,
    ) -> list[KernelExpansion]:
        """Fit one expansion per factor; set `n_features_in_` and `classes_`."""
        whole = self._training_rows(X, y, sample_weight, groups)
        kernel = self._kernel.resolved(whole.x, whole.sample_weight)
        memory = None if cache is None else cache.memory
        n_rescalings = self._choose_n_rescalings(whole, memory)
        rows = whole
        if self.approximation == "landmarks" and self.n_landmarks < len(whole.x):
            near_boundary = partial(self._near_boundary, kernel, whole)
            chosen = landmarks.choose_landmarks(
                whole.x, whole.codes, int(self.n_landmarks), near_boundary, self._seed
            )
            rows = whole.at(chosen)
        # Rows of weight 0 are left out and others may be repeated; then the cache is
        # not of these rows.
        if cache is None or not _are_all_rows(rows, cache.rows):
            cache = KernelCache(rows.x, memory)
        return self._train(factors, FitInputs(kernel, whole, rows, n_rescalings, cache))

    def _training_rows(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> TrainingRows:
        """Check rows and parameters; set `n_features_in_` and `classes_`."""
        raise NotImplementedError

    def _choose_n_rescalings(self, rows: TrainingRows, memory: int | None) -> int:
        """Choose the number of rescalings to train."""
        return self.n_rescalings

    def _near_boundary(
        self, kernel: Kernel, whole: TrainingRows, first: Landmarks
    ) -> np.ndarray:
        """Return the mask of rows near the boundary of a pilot on first landmarks."""
        raise NotImplementedError

    def _train(
        self, factors: Sequence[Factor | None], inputs: FitInputs
    ) -> list[KernelExpansion]:
        """Fit one expansion per factor."""
        raise NotImplementedError

    def codes_after(self, X: np.ndarray, passes: int) -> np.ndarray:
        """Return class numbers predicted by an earlier pass, shape (n_rows,)."""
        x = np.ascontiguousarray(X, float)
        return self._codes(self._expansion.decisions(x, upto=passes))

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return (decisions[:, 0] > 0).astype(int)

    def scaled_to(self, x: np.ndarray) -> Self:
        """Set gamma to its number for these rows, so fits on parts of them agree."""
        return self.set_params(kernel=self._kernel.resolved(x), gamma="scale")

    def factor_at(self, X: ArrayLike) -> np.ndarray:
        """Return c of the last pass at X, (n_rows, 1) or (n_rows, n_outputs)."""
        return self.passes_kept.scorer.factors(self._rows(X))[0]

    @property
    def passes_kept(self) -> KernelExpansion:
        """All passes of the fitted machine."""
        check_is_fitted(self)
        return self._expansion

    @property
    def passes_(self) -> list[dict[str, Any]]:
        """One dict per pass: support vectors, gap, iterations, factor parameters."""
        return self.passes_kept.report()

    def _decisions(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self._expansion.decisions(np.ascontiguousarray(self._rows(X)))

    @property
    def has_log_scores(self) -> bool:
        """True if folds are scored by log((f + rho) / rho) instead of f."""
        return False

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        """Return scores, one per class if there are several, from decisions."""
        return decisions

    def decide(self, x: np.ndarray) -> np.ndarray:
        """Return decisions (n_rows, 1), or scores (n_rows, n_classes)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        return self.scores_from(self._expansion.scorer.decisions(x)[0])

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return f(x), shape (n_rows,).

        f > 0 for the positive class, or for a normal row if one class was learned.
        """
        return self._decisions(X)[:, 0]

    @property
    def support_vectors_(self) -> np.ndarray:
        """Rows of `support_`, shape (n_support, n_features); a copy."""
        check_is_fitted(self)
        rows: np.ndarray = self._expansion.rows[self._used]
        return rows

    def _set_fitted(self, expansion: KernelExpansion) -> None:
        """Set the fitted attributes, from an expansion alone as ``restore`` does."""
        dual = expansion.last.dual
        used = np.flatnonzero(np.any(dual.weights != 0, axis=1))
        duals = [trained_pass.dual for trained_pass in expansion.chain]
        self._expansion = expansion
        self.kernel_ = expansion.kernel
        self.support_ = expansion.support[used]
        self._used = used
        self.dual_coef_ = dual.weights[used].T
        self.intercept_ = dual.intercept
        self.n_iter_ = max(1, sum(dual.n_iter for dual in duals))
        self.kkt_gap_ = max(dual.gap for dual in duals)

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, for ``restore``."""
        state = self.passes_kept.state()
        if hasattr(self, "classes_"):
            state["classes"] = as_array(self.classes_)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        expansion = KernelExpansion.from_state(self._kernel, self.factor, state)
        if "classes" in state:
            self.classes_ = state["classes"]
        self._set_fitted(expansion)
        self.n_features_in_ = expansion.rows.shape[1]
        return self


def _are_all_rows(rows: TrainingRows, table: np.ndarray) -> bool:
    """Return True if the rows are those of a table, each once and in its order."""
    return np.array_equal(rows.numbers, np.arange(len(table)))


def _take(values: np.ndarray | None, index: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[index]


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from, without those of weight 0.

    Parameters
    ----------
    numbers : int ndarray of shape (n,)
        Row numbers in the table that was passed to ``fit``.
    x : ndarray of shape (n, n_features)
    codes : int ndarray of shape (n,)
        Class numbers.
    weights : ndarray of shape (n,)
        Sample weight times class weight.
    sample_weight : ndarray of shape (n,), optional
        None if every row counts once.
    class_weight : dict of int to float, optional
        By class number.
    groups : ndarray of shape (n,), optional
        Groups that inner folds and remedies must not split.
    """

    numbers: np.ndarray
    x: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    sample_weight: np.ndarray | None = None
    class_weight: dict[int, float] | None = None
    groups: np.ndarray | None = None

    @property
    def per_class(self) -> np.ndarray:
        """Rows of each class, counted by sample weight, (n_classes,)."""
        return np.bincount(self.codes, self.sample_weight)

    def at(self, chosen: Landmarks) -> TrainingRows:
        """Return the landmarks as rows, weighted by the rows that they represent."""
        index = chosen.rows
        return TrainingRows(
            numbers=self.numbers[index],
            x=np.ascontiguousarray(self.x[index]),
            codes=self.codes[index],
            weights=self.weights[index] * chosen.weights,
            class_weight=self.class_weight,
            groups=_take(self.groups, index),
        )


@dataclass(frozen=True)
class FitInputs:
    """Inputs of one fit.

    Parameters
    ----------
    kernel : Kernel
        gamma a number.
    whole : TrainingRows
        All rows.
    rows : TrainingRows
        All rows, or the landmarks that represent them.
    n_rescalings : int
        Number of rescalings.
    cache : KernelCache
        Cache of ``rows``.
    """

    kernel: Kernel
    whole: TrainingRows
    rows: TrainingRows
    n_rescalings: int
    cache: KernelCache

    def with_row_numbers(
        self, expansions: Sequence[KernelExpansion]
    ) -> list[KernelExpansion]:
        """Return expansions whose support are row numbers of the table."""
        return [
            replace(expansion, support=self.rows.numbers[expansion.support])
            for expansion in expansions
        ]


def weighted_rows(
    x: np.ndarray,
    codes: np.ndarray,
    sample_weight: ArrayLike | None,
    repeat: bool,
    groups: ArrayLike | None = None,
) -> TrainingRows:
    """Return the rows of x with a weight > 0.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
    codes : int ndarray of shape (n_rows,)
    sample_weight : array-like of shape (n_rows,), optional
    repeat : bool
        Repeat rows whose weights are whole numbers, so that what counts neighbors
        (factors and remedies) sees as many as were meant. Other weights change costs
        only.
    groups : array-like of shape (n_rows,), optional

    Raises
    ------
    ValueError
        If weights are negative or not finite, or leave a class without rows.
    """
    group_of_row = None if groups is None else np.asarray(groups)
    if sample_weight is None:
        x = np.ascontiguousarray(x)
        numbers = np.arange(len(x))
        return TrainingRows(numbers, x, codes, np.ones(len(x)), groups=group_of_row)
    weights = check_weights(x, codes, sample_weight)
    rows = np.flatnonzero(weights > 0)
    weights = weights[rows]
    weight_of_row: np.ndarray | None = weights
    is_whole = (weights == np.rint(weights)).all()
    if repeat and is_whole and weights.sum() <= _MAX_REPEATED_ROWS:
        rows = np.repeat(rows, weights.astype(int))
        weights = np.ones(len(rows))
        weight_of_row = None
    return TrainingRows(
        numbers=rows,
        x=np.ascontiguousarray(x[rows]),
        codes=codes[rows],
        weights=weights,
        sample_weight=weight_of_row,
        groups=_take(group_of_row, rows),
    )


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Base of the kernel machines of two and more classes.

    Its parameters are documented in the subclasses.
    """

    C: float = 1.0
    normalise: bool = False
    stop: str = "fixed"
    class_weight: ClassWeight = None

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters and incompatible components."""
        super().check_parameters()
        is_number = isinstance(self.C, numbers.Real)
        if not is_number or not 0 < self.C < np.inf:
            raise ValueError(f"C must be > 0, got {self.C!r}")
        if self.stop not in _STOP_RULES:
            raise ValueError(
                f"stop must be one of {', '.join(_STOP_RULES)}, got {self.stop!r}"
            )

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels: two distinct ones, or more for several classes.
        sample_weight : array-like of shape (n_rows,), optional
            Multiplies C for each row, as if the row occurred that many times. Inner
            folds count rows once.
        groups : array-like of shape (n_rows,), optional
            Groups that inner folds must not split.

        Returns
        -------
        self
        """
        (expansion,) = self._fit_expansions([self.factor], X, y, sample_weight, groups)
        self._set_fitted(expansion)
        return self

    def _training_rows(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> TrainingRows:
        x, labels = validate_data(self, X, y, dtype=self.input_dtype)
        check_classification_targets(labels)
        self.check_parameters()
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self._check_classes(len(self.classes_))
        counts_rows = bool(self.n_rescalings or self._remedies)
        rows = weighted_rows(x, codes, sample_weight, counts_rows, groups)
        if self.class_weight is None:
            return rows
        per_class = compute_class_weight(
            self.class_weight,
            classes=self.classes_,
            y=self.classes_[rows.codes],
            sample_weight=rows.sample_weight,
        )
        if not (np.isfinite(per_class) & (per_class > 0)).all():
            raise ValueError(
                f"class_weight must be > 0 for every class, got {self.class_weight!r}"
            )
        return replace(
            rows,
            weights=rows.weights * per_class[rows.codes],
            class_weight=dict(enumerate(per_class.tolist())),
        )

    def _check_classes(self, n_classes: int) -> None:
        """Raise ValueError for too few classes or too many."""
        raise NotImplementedError

    def _choose_n_rescalings(self, rows: TrainingRows, memory: int | None) -> int:
        max_passes = self.n_rescalings
        if self.stop == "fixed" or not max_passes:
            return max_passes
        inner = clone(self).scaled_to(rows.x)
        inner.set_params(stop="fixed", class_weight=rows.class_weight)
        fit = fit_on_subset(inner, rows, memory)
        n_rows = len(rows.codes)
        predicted = np.full((max_passes + 1, n_rows), -1)
        folds = inner_folds(rows.codes, rows.groups, _STOP_FOLDS, self._seed)
        for train, test in folds:
            machine = fit(train)
            for passes in range(max_passes + 1):
                predicted[passes, test] = machine.codes_after(rows.x[test], passes)
        tested = predicted[0] >= 0
        if not tested.any():
            return 0
        target = rows.codes[tested]
        recalls = [mean_recall(target, codes[tested]) for codes in predicted]
        return n_rescalings_by_cv(np.array(recalls))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return labels out of ``classes_``, shape (n_rows,)."""
        check_is_fitted(self)
        return self.classes_[self._codes(self._decisions(X))]


def fit_on_subset(
    machine: KernelClassifier, rows: TrainingRows, memory: int | None
) -> Callable[[np.ndarray], KernelClassifier]:
    """Return fit(index), which fits a copy of the machine on a subset of the rows.

    Labels are class numbers.
    """

    def fit(index: np.ndarray) -> KernelClassifier:
        x = np.ascontiguousarray(rows.x[index])
        groups = _take(rows.groups, index)
        cache = KernelCache(x, memory)
        codes = rows.codes[index]
        (fitted,) = machine.fit_each([machine.factor], x, codes, groups, cache)
        return fitted

    return fit


def _kernel_by_name(name: str, gamma: float | str) -> Kernel:
    """Return the kernel of this name; ValueError for an unknown one.

    "rbf" is scikit-learn's name of the Gaussian kernel.
    """
    kernels = KERNELS | {"rbf": Gaussian}
    if name not in kernels:
        raise ValueError(
            f"kernel must be one of {', '.join(kernels)}, or an instance of one, got "
            f"{name!r}"
        )
    return kernels[name](gamma=gamma)
