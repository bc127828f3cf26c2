"""Base of the kernel machines: parameters, rows that count, fitted attributes and state."""

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
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from screening.estimators import landmarks
from screening.estimators.base import Estimator, as_array
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion
from screening.estimators.training import inner_folds, mean_recall, n_passes_by_cv
from screening.factors import Factor, incompatibility
from screening.kernels import KERNELS, Gaussian, Kernel
from screening.kernels.kernel_cache import KernelCache

# There is no stopping by test rows: a score that the machine was chosen by is no test.
STOPS = ("fixed", "inner")
STOP_FOLDS = 5
FEW_ROWS, EXACT_TOL = 40, 1e-10
MOST_REPEATED = 20_000
ClassWeight = Mapping[Any, float] | str | None

OF_ALL = """kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" is another word for it. A value has its own gamma.
    gamma : float > 0, "scale" or "scale*F"
        Of a kernel given by name.
    factor : Factor, optional
        What c is, such as ``screening.factors.MarginDecay(kappa=0.5)``; the plain machine if None.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of the margin or, where that is less or there
        is none, of the change that one row at its bound makes (``solvers.Problem.unit``).
    approximation : {"none", "landmarks", "nystroem"}
        "landmarks" trains on ``n_landmarks`` rows that stand for all, each with the cost of those it stands
        for (see ``estimators.landmarks``); "nystroem", of two classes without a factor, on all rows in the span
        of so many of them (see ``estimators.landmarks``); exact where there are no more rows than that.
    n_landmarks : int, >= 2
        Rows that stand for all, or span.
    random_state : int, RandomState or None
        Draws the landmarks, and the inner folds of ``stop``."""

OF_CLASSIFIERS = """C : float, > 0
        Cost of a row on the wrong side.
    normalise : bool
        Divide each factor by its root mean square over the training rows, so that it does not act on C.
    stop : {"fixed", "inner"}
        "inner" trains another pass only while it gains on inner folds (geometric mean of recalls),
        ``passes`` at most.
    class_weight : dict or "balanced", optional
        Times C for the rows of a class; "balanced" is n_rows / (n_classes * rows of the class)."""


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(Estimator):
    """Base of the machines; ``kernel``, ``factor`` and remedies are frozen values.

    Their fields can be reached as ``kernel__gamma``, ``factor__Q`` or ``unequal_costs__cost_ratio`` in
    ``set_params`` and ``GridSearchCV``; a new value is made, the old one is left as it was.
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
    composed = ("kernel", "gamma", "factor", "scheme", "remedies", "class_weight")

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.__doc__ = (
            str(cls.__doc__)
            .replace("{of_all}", OF_ALL)
            .replace("{of_classifiers}", OF_CLASSIFIERS)
        )

    @property
    def by_rows(self) -> bool:
        """Whether a fit reads rows of the kernel matrix as it needs them, and never wants the whole of it."""
        return True

    def _composed(self) -> dict[str, Any]:
        parts = {"kernel": self.kernel, "factor": self.factor}
        remedies = getattr(self, "remedies", ())
        if isinstance(remedies, (tuple, list)):
            parts |= {getattr(remedy, "name", ""): remedy for remedy in remedies}
        return {
            name: part for name, part in parts.items() if is_dataclass(part) and name
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also those of the kernel, the factor and the remedies."""
        params = super().get_params(deep=False)
        if deep:
            for name, part in self._composed().items():
                params |= {
                    f"{name}__{own.name}": getattr(part, own.name)
                    for own in fields(part)
                }
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``kernel__gamma`` and the like included."""
        for key in [key for key in params if "__" in key]:
            name, _, of_part = key.partition("__")
            part = self._composed().get(name)
            if part is None or of_part not in {field.name for field in fields(part)}:
                raise ValueError(
                    f"Invalid parameter {key!r}; valid are {sorted(self.get_params())}"
                )
            changed = replace(part, **{of_part: params.pop(key)})
            value: Any = changed
            if name not in ("kernel", "factor"):
                remedies = getattr(self, "remedies", ())
                name, value = (
                    "remedies",
                    tuple(changed if own is part else own for own in remedies),
                )
            setattr(self, name, value)
        super().set_params(**params)
        return self

    @property
    def _kernel(self) -> Kernel:
        """The kernel as a value: named, with the machine's own gamma, or given whole."""
        if self.kernel is None or isinstance(self.kernel, str):
            return named_kernel(self.kernel or "gaussian", self.gamma)
        return self.kernel

    @property
    def _seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _tol(self, n_rows: int) -> float:
        """Few rows are solved exactly, which costs nothing: a row of weight 2 is then the row twice."""
        return min(self.tol, EXACT_TOL) if n_rows <= FEW_ROWS else float(self.tol)

    @property
    def _n_passes(self) -> int:
        return self.passes if self.factor is not None else 0

    def check_parameters(self) -> None:
        """Refuse parameters out of range and compositions that make no sense, naming both sides."""
        if (
            isinstance(self.passes, bool)
            or self.passes != int(self.passes)
            or self.passes < 0
        ):
            raise ValueError(f"passes must be a whole number >= 0, got {self.passes!r}")
        spans = self.name == "two_class" and not self._n_passes and self.by_rows
        landmarks.check(self.approximation, self.n_landmarks, spans)
        if not self.tol > 0:
            raise ValueError(f"tol must be > 0, got {self.tol!r}")
        if not isinstance(self.kernel, str | None) and self.gamma != "scale":
            raise ValueError(
                f"gamma {self.gamma!r} belongs to a kernel given by name; {self.kernel} has its own"
            )
        if self.factor is not None:
            reason = incompatibility(
                self.factor, self.name, getattr(self, "scheme", None), self._kernel.name
            )
            if reason:
                raise ValueError(reason)

    def fit_each(
        self,
        factors: Sequence[Factor | None],
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        cache: KernelCache | None = None,
    ) -> list[Self]:
        """The machine fitted with each of several factors, equal but for fields that they let vary.

        All on one first pass, and each second pass from the one before; where inner folds tell the number of
        passes, each factor has as many as it gains by. `cache` is of X, shared with other fits on it.
        """
        together = (
            [factors]
            if getattr(self, "stop", "fixed") == "fixed"
            else [[factor] for factor in factors]
        )
        machines = []
        for part in together:
            first = copy(self)
            first.factor = part[0]
            for factor, passes in zip(
                part, first._fitted(part, X, y, groups=groups, cache=cache), strict=True
            ):
                machine = copy(first)
                machine.factor = factor
                machine._keep(passes)
                machines.append(machine)
        return machines

    def _fitted(
        self,
        factors: Sequence[Factor | None],
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        cache: KernelCache | None = None,
    ) -> list[KernelExpansion]:
        """The passes with each of several factors; `n_features_in_` and `classes_` are set."""
        whole = self._rows_to_learn(X, y, sample_weight, groups)
        kernel = self._kernel.resolved(whole.x, whole.sample_weight)
        memory = None if cache is None else cache.memory
        n_passes = self._passes_wanted(whole, memory)
        rows = whole
        if self.approximation == "landmarks" and self.n_landmarks < len(whole.x):
            near = partial(self._near_boundary, kernel, whole)
            rows = whole.at(
                landmarks.choose(
                    whole.x, whole.codes, int(self.n_landmarks), near, self._seed
                )
            )
        if cache is None or rows is not whole:
            cache = KernelCache(rows.x, memory)
        return self._trained(factors, Fit(kernel, whole, rows, n_passes, cache))

    def _rows_to_learn(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> Rows:
        """Rows and parameters checked; `n_features_in_` and `classes_` are set."""
        raise NotImplementedError

    def _passes_wanted(self, rows: Rows, memory: int | None) -> int:
        """How many passes to train."""
        return self._n_passes

    def _near_boundary(
        self, kernel: Kernel, whole: Rows, first: Landmarks
    ) -> np.ndarray:
        """Mask of the rows near the boundary of a pilot that is trained on first landmarks."""
        raise NotImplementedError

    def _trained(
        self, factors: Sequence[Factor | None], fit: Fit
    ) -> list[KernelExpansion]:
        """KernelExpansion with each of several factors."""
        raise NotImplementedError

    def codes_after(self, X: np.ndarray, passes: int) -> np.ndarray:
        """Class numbers predicted by the machine as it was after so many passes, (n_rows,)."""
        return self._codes(
            self._passes.decisions(np.ascontiguousarray(X, float), upto=passes)
        )

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return (decisions[:, 0] > 0).astype(int)

    def scaled_to(self, x: np.ndarray) -> Self:
        """The same machine with the gamma, a number, that these rows give: fits on parts of them agree."""
        return self.set_params(kernel=self._kernel.resolved(x), gamma="scale")

    def factor_at(self, X: ArrayLike) -> np.ndarray:
        """c of the last pass at the rows of X, (n_rows, 1), or (n_rows, n_outputs) where each has its own."""
        return self.passes_kept.factors(self._rows(X))

    @property
    def passes_kept(self) -> KernelExpansion:
        """All passes of the fitted machine."""
        check_is_fitted(self)
        return self._passes

    @property
    def passes_(self) -> list[dict[str, Any]]:
        """Per pass: support vectors, gap, iterations, the factor made from it."""
        return self.passes_kept.report()

    def _decisions(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self._passes.decisions(np.ascontiguousarray(self._rows(X)))

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        """Scores, one a class where there are several, from the decisions of the last pass."""
        return decisions

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """f(x), (n_rows,); > 0 is the positive class, or a normal row where one class was learned."""
        return self._decisions(X)[:, 0]

    def _keep(self, passes: KernelExpansion) -> None:
        """Fitted attributes, from the passes alone, so that ``restore`` gives the same."""
        dual = passes.last.dual
        used = np.flatnonzero(np.any(dual.weights != 0, axis=1))
        self._passes, self.kernel_ = passes, passes.kernel
        self.support_, self.support_vectors_ = passes.support[used], passes.rows[used]
        self.dual_coef_, self.intercept_ = dual.weights[used].T, dual.intercept
        self.n_iter_ = max(1, sum(one.dual.n_iter for one in passes.chain))
        self.kkt_gap_ = max(one.dual.gap for one in passes.chain)

    def state(self) -> dict[str, np.ndarray]:
        state = self.passes_kept.state()
        if hasattr(self, "classes_"):
            state["classes"] = as_array(self.classes_)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        passes = KernelExpansion.from_state(self._kernel, self.factor, state)
        if "classes" in state:
            self.classes_ = state["classes"]
        self._keep(passes)
        self.n_features_in_ = passes.rows.shape[1]
        return self


@dataclass(frozen=True)
class Rows:
    """Rows to learn from: those that count at all, and how much."""

    numbers: np.ndarray  # in the table given
    x: np.ndarray
    codes: np.ndarray  # numbers of classes
    weights: np.ndarray  # sample weight times class weight
    sample_weight: np.ndarray | None = None  # None where every row counts once
    class_weight: dict[int, float] | None = None  # by class number
    groups: np.ndarray | None = None  # what inner folds and remedies must not split

    @property
    def per_class(self) -> np.ndarray:
        """How many rows of each class there are, by their sample weights, (n_classes,)."""
        return np.bincount(self.codes, self.sample_weight)

    def at(self, chosen: Landmarks) -> Rows:
        """Some of them, which stand for all."""
        at = chosen.rows
        return Rows(
            numbers=self.numbers[at],
            x=np.ascontiguousarray(self.x[at]),
            codes=self.codes[at],
            weights=self.weights[at] * chosen.weights,
            class_weight=self.class_weight,
            groups=None if self.groups is None else self.groups[at],
        )


@dataclass(frozen=True)
class Fit:
    """What a machine is fitted to: rows, the kernel among them, and how many rescalings."""

    kernel: Kernel
    whole: Rows
    rows: Rows  # all of the whole, or those that stand for it
    n_passes: int
    cache: KernelCache  # of `rows`

    def numbered(self, machines: Sequence[KernelExpansion]) -> list[KernelExpansion]:
        """KernelExpansion whose support has the numbers of the table in place of those of `rows`."""
        return [
            replace(passes, support=self.rows.numbers[passes.support])
            for passes in machines
        ]


def rows_that_count(
    x: np.ndarray,
    codes: np.ndarray,
    sample_weight: ArrayLike | None = None,
    repeat: bool = False,
    groups: ArrayLike | None = None,
) -> Rows:
    """The rows of x that count, a row of weight 0 being none.

    With `repeat`, rows whose weights are whole numbers stand there so many times: what counts neighbours, as
    factors and remedies do, then sees as many as were meant. Other weights change costs only. ValueError
    where weights are negative or not finite or leave a class without rows.
    """
    units = None if groups is None else np.asarray(groups)
    if sample_weight is None:
        x = np.ascontiguousarray(x)
        return Rows(np.arange(len(x)), x, codes, np.ones(len(x)), groups=units)
    given = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    check_consistent_length(x, given)
    if given.ndim != 1 or (given < 0).any():
        raise ValueError("sample_weight must have one number >= 0 for each row")
    rows = np.flatnonzero(given > 0)
    given = given[rows]
    if not len(rows):
        raise ValueError("the sample weight of every row is zero")
    if len(np.unique(codes[rows])) < len(np.unique(codes)):
        raise ValueError("sample_weight leaves a class without rows")
    units = None if units is None else units[rows]
    if repeat and (given == np.rint(given)).all() and given.sum() <= MOST_REPEATED:
        often = given.astype(int)
        rows, units = (
            np.repeat(rows, often),
            None if units is None else np.repeat(units, often),
        )
        return Rows(
            rows,
            np.ascontiguousarray(x[rows]),
            codes[rows],
            np.ones(len(rows)),
            groups=units,
        )
    return Rows(
        rows, np.ascontiguousarray(x[rows]), codes[rows], given, given, groups=units
    )


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Base of the machines of two classes and of more."""

    C: float = 1.0
    normalise: bool = False
    stop: str = "fixed"
    class_weight: ClassWeight = None

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.C, numbers.Real) or not 0 < self.C < np.inf:
            raise ValueError(f"C must be > 0, got {self.C!r}")
        if self.stop not in STOPS:
            raise ValueError(
                f"stop must be one of {', '.join(STOPS)}, got {self.stop!r}"
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
            Distinct labels, two or, for several classes, more.
        sample_weight : array-like of shape (n_rows,), optional
            Times C for each row: as if it stood there so many times. Inner folds count rows once.
        groups : array-like of shape (n_rows,), optional
            What inner folds must not split.
        """
        (passes,) = self._fitted([self.factor], X, y, sample_weight, groups)
        self._keep(passes)
        return self

    def _rows_to_learn(
        self,
        X: ArrayLike,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> Rows:
        x, answers = validate_data(self, X, y, dtype=self.reads)
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        self._check_classes(len(self.classes_))
        counts_rows = bool(self._n_passes or getattr(self, "remedies", ()))
        rows = rows_that_count(x, codes, sample_weight, counts_rows, groups)
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
        """Refuse too few classes, or too many (ValueError)."""
        raise NotImplementedError

    def _passes_wanted(self, rows: Rows, memory: int | None) -> int:
        """How many passes to train: as given, or as many as gain on inner folds (``stop="inner"``)."""
        most = self._n_passes
        if self.stop == "fixed" or not most:
            return most
        inner = (
            clone(self)
            .scaled_to(rows.x)
            .set_params(stop="fixed", class_weight=rows.class_weight)
        )
        fit, predicted = (
            fit_on_some(inner, rows, memory),
            np.full((most + 1, len(rows.codes)), -1),
        )
        for train, test in inner_folds(rows.codes, rows.groups, STOP_FOLDS, self._seed):
            machine = fit(train)
            for passes in range(most + 1):
                predicted[passes, test] = machine.codes_after(rows.x[test], passes)
        judged = predicted[0] >= 0
        if not judged.any():
            return 0
        recalls = [
            mean_recall(rows.codes[judged], codes[judged]) for codes in predicted
        ]
        return n_passes_by_cv(np.array(recalls))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        check_is_fitted(self)
        return self.classes_[self._codes(self._decisions(X))]


def fit_on_some(
    machine: KernelClassifier, rows: Rows, memory: int | None
) -> Callable[[np.ndarray], KernelClassifier]:
    """What makes of row numbers the machine fitted on these rows alone, by their class numbers."""

    def fit(at: np.ndarray) -> KernelClassifier:
        groups = None if rows.groups is None else rows.groups[at]
        x = np.ascontiguousarray(rows.x[at])
        return machine.fit_each(
            [machine.factor], x, rows.codes[at], groups, KernelCache(x, memory)
        )[0]

    return fit


def named_kernel(name: str, gamma: float | str) -> Kernel:
    """A kernel by its name, "rbf" being scikit-learn's word for the Gaussian (ValueError for another)."""
    kernels = KERNELS | {"rbf": Gaussian}
    if name not in kernels:
        raise ValueError(
            f"kernel must be one of {', '.join(kernels)}, or such a value, got {name!r}"
        )
    return kernels[name](gamma=gamma)
