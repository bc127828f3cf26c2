"""What the estimators share: scikit-learn's surface, checks of rows, and their fitted state as arrays."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Integral
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from screening.errors import ModelError
from screening.factors import Factor, why_not
from screening.kernels import KERNELS, Gaussian, Kernel, Precision
from screening.machines import landmarks
from screening.machines.passes import Passes
from screening.machines.training import Judged, inner_scores, n_passes_by_cv

# There is no stopping by test rows: a score that the machine was chosen by is no test.
STOPS = ("fixed", "inner")
STOP_FOLDS = 5
FEW_ROWS, EXACT_TOL = 40, 1e-10
ByClass = str | dict[Hashable, float]


class Estimator(BaseEstimator):
    """An estimator whose fitted state is plain arrays; rows are checked as scikit-learn asks."""

    classes_: np.ndarray
    n_features_in_: int
    reads: Precision = np.float64
    # Whether the columns of a category serve it as well as one (`cohort.encoding.Bundles`).
    bundled = False

    @property
    def most_rows(self) -> int:
        """Rows that it learns from: a stratified sample where there are more, another in every fold."""
        return sys.maxsize

    @property
    def linear(self) -> bool:
        """Whether scores are the decisions themselves, so that machines may be averaged before the rows."""
        return True

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """f(x), (n_rows,), or one score a class."""
        raise NotImplementedError

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays, none of dtype object."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over a fitted state of the same parameters; ModelError where arrays do not fit."""
        raise NotImplementedError

    def _rows(self, X: ArrayLike) -> np.ndarray:
        if plain(X, self.reads) and X.shape[1] == self.n_features_in_ and not self._named:
            return np.ascontiguousarray(X)
        return validate_data(self, X, reset=False, dtype=self.reads, order="C")

    def _learned(self, X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Rows and labels to learn from, checked as scikit-learn asks."""
        if (
            plain(X, self.reads)
            and type(y) is np.ndarray
            and y.shape == X.shape[:1]
            and y.dtype.kind in "biu"
        ):
            if self._named:
                del self.feature_names_in_
            self.n_features_in_ = X.shape[1]
            return X, y
        return validate_data(self, X, y, dtype=self.reads)

    @property
    def _named(self) -> bool:
        return hasattr(self, "feature_names_in_")


def plain(X: ArrayLike, dtype: Precision) -> TypeGuard[np.ndarray]:
    """Whether scikit-learn's checks, which take as long as a small fit, would pass these rows as they are."""
    table = type(X) is np.ndarray and X.dtype == dtype and X.ndim == 2 and X.size > 0
    return table and bool(np.isfinite(X).all())


class Classifier(ClassifierMixin, Estimator):
    """A classifier that learns from codes of two classes or more."""

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        """Learn from rows and the numbers of their classes."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,)."""
        x, answers = validate_data(self, X, y, dtype=self.reads, order="C")
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        self._learn(x, codes)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


class KernelMachine(Estimator):
    """Base of the machines; ``kernel``, ``factor`` and remedies are frozen values.

    Their fields can be reached as ``kernel__gamma``, ``factor__Q`` or ``unequal_costs__cost_ratio`` in
    ``set_params`` and ``GridSearchCV``; a new value is made, the old one is left as it was.
    """

    kind = ""
    kernel: Any
    factor: Factor | None
    gamma: float | str
    remedies: Any
    stop: str
    random_state: int | np.random.RandomState | None

    @property
    def by_rows(self) -> bool:
        """Whether a fit reads rows of the kernel matrix as it needs them, and never wants the whole of it."""
        return True

    def _composed(self) -> dict[str, Any]:
        parts = {name: getattr(self, name, None) for name in ("kernel", "factor")}
        remedies = getattr(self, "remedies", ())
        if isinstance(remedies, (tuple, list)):
            parts |= {getattr(remedy, "name", ""): remedy for remedy in remedies}
        return {name: part for name, part in parts.items() if is_dataclass(part) and name}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also those of the kernel, the factor and the remedies."""
        params = super().get_params(deep=False)
        if deep:
            for name, part in self._composed().items():
                params |= {f"{name}__{field.name}": getattr(part, field.name) for field in fields(part)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``kernel__gamma`` and the like included."""
        for key in [key for key in params if "__" in key]:
            name, _, field = key.partition("__")
            part = self._composed().get(name)
            if part is None or field not in {each.name for each in fields(part)}:
                raise ValueError(f"Invalid parameter {key!r}; valid are {sorted(self.get_params())}")
            changed = replace(part, **{field: params.pop(key)})
            if name in ("kernel", "factor"):
                setattr(self, name, changed)
            else:
                self.remedies = tuple(changed if each is part else each for each in self.remedies)
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
        if isinstance(self.passes, bool) or self.passes != int(self.passes) or self.passes < 0:
            raise ValueError(f"passes must be a whole number >= 0, got {self.passes!r}")
        if not 0 < getattr(self, "C", 1.0) < np.inf:
            raise ValueError(f"C must be > 0, got {self.C!r}")
        spans = self.kind == "two_class" and not self._n_passes and self.by_rows
        landmarks.check(self.approximation, self.n_landmarks, spans)
        if not self.tol > 0:
            raise ValueError(f"tol must be > 0, got {self.tol!r}")
        if not isinstance(self.kernel, str | None) and self.gamma != "scale":
            raise ValueError(
                f"gamma {self.gamma!r} belongs to a kernel given by name; {self.kernel} has its own"
            )
        if getattr(self, "stop", "fixed") not in STOPS:
            raise ValueError(f"stop must be one of {', '.join(STOPS)}, got {self.stop!r}")
        if self.factor is not None:
            reason = why_not(self.factor, self.kind, getattr(self, "scheme", None), self._kernel.name)
            if reason:
                raise ValueError(reason)

    def fit_each(self, factors: Sequence[Factor], X: ArrayLike, y: ArrayLike, **known: Any) -> Sequence[Self]:
        """The machine fitted with each of several factors, equal but for fields that they let vary."""
        return [clone(self).set_params(factor=factor).fit(X, y, **known) for factor in factors]

    def _passes_wanted(
        self,
        x: np.ndarray,
        codes: np.ndarray,
        groups: np.ndarray | None,
        class_weight: dict[int, float] | None,
    ) -> int:
        """How many passes to train: as given, or as many as gain on inner folds (``stop="inner"``)."""
        most = self._n_passes
        if self.stop == "fixed" or not most:
            return most

        def fit(rows: np.ndarray) -> Judged:
            part = None if groups is None else groups[rows]
            inner = clone(self).scaled_to(x).set_params(stop="fixed", class_weight=class_weight)
            return inner.fit(x[rows], codes[rows], groups=part)

        return n_passes_by_cv(inner_scores(fit, x, codes, groups, most, STOP_FOLDS, self._seed))

    def codes_after(self, X: np.ndarray, passes: int) -> np.ndarray:
        """Class numbers predicted by the machine as it was after so many passes, (n_rows,)."""
        return self._codes(self._passes.decisions(np.ascontiguousarray(X, float), upto=passes))

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return (decisions[:, 0] > 0).astype(int)

    def scaled_to(self, x: np.ndarray) -> Self:
        """The same machine with the gamma, a number, that these rows give: fits on parts of them agree."""
        return self.with_kernel(self._kernel.resolved(x))

    def with_kernel(self, kernel: Kernel) -> Self:
        """The same machine with this kernel, which has its own gamma."""
        self.kernel, self.gamma = kernel, "scale"
        return self

    def factor_at(self, X: ArrayLike) -> np.ndarray:
        """c of the last pass at the rows of X, (n_rows, 1), or (n_rows, n_outputs) where each has its own."""
        return self.passes_kept.factors(self._rows(X))

    @property
    def passes_kept(self) -> Passes:
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

    def _keep(self, passes: Passes) -> None:
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
        passes = Passes.from_state(self._kernel, self.factor, state)
        if len(passes.chain) > 1 and self.factor is None:
            raise ModelError(f"the model has {len(passes.chain)} passes and its recipe has no factor")
        if self.kind != "one_class":
            if "classes" not in state:
                raise ModelError("the model lacks the array 'classes'")
            self.classes_ = state["classes"]
        self._keep(passes)
        self.n_features_in_ = passes.rows.shape[1]
        return self


def named_kernel(name: str, gamma: float | str) -> Kernel:
    """A kernel by its name, "rbf" being scikit-learn's word for the Gaussian (ValueError for another)."""
    known = KERNELS | {"rbf": Gaussian}
    if name not in known:
        raise ValueError(f"kernel must be one of {', '.join(known)}, or such a value, got {name!r}")
    return known[name](gamma=gamma)


def classes_and_codes(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct labels, sorted, and the number of each row's among them; small whole numbers are counted."""
    if answers.dtype.kind in "iu" and answers.min() >= 0 and answers.max() < 256:
        present = np.bincount(answers) > 0
        return np.flatnonzero(present).astype(answers.dtype), (np.cumsum(present) - 1)[answers]
    classes, codes = np.unique(answers, return_inverse=True)
    return classes, codes


def check_labels(y: np.ndarray) -> None:
    """Refuse labels that name no classes, as scikit-learn does; whole numbers and text always do."""
    if y.dtype.kind not in "biuSU":  # the full check takes as long as a small fit
        check_classification_targets(y)


def as_array(classes: np.ndarray) -> np.ndarray:
    """Class names as an array that needs no pickle."""
    return classes.astype(str) if classes.dtype == object else classes


def class_log_odds(logs: np.ndarray) -> np.ndarray:
    """Log odds of each class against all others, (n_rows, n_classes), of two those of the second, (n_rows,).

    `logs`, (n_rows, n_classes): log probabilities of the classes, or what differs from them by a number a
    row. Log odds rank as probabilities do, and are spread alike near 0 and near 1.
    """
    others = [logsumexp(np.delete(logs, m, axis=1), axis=1) for m in range(logs.shape[1])]
    odds = logs - np.column_stack(others)
    return odds[:, 1] if odds.shape[1] == 2 else odds


def check_whole(machine: Estimator, *names: str) -> None:
    """Refuse parameters that are no whole numbers > 0 (ValueError naming the first)."""
    for name in names:
        value = getattr(machine, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number > 0, got {value!r}")


def check_class_weight(weight: ByClass) -> None:
    """Refuse what is neither "none" nor "balanced" nor a dict (ValueError)."""
    if not isinstance(weight, dict) and weight not in ("none", "balanced"):
        raise ValueError(f"class_weight must be 'none' or 'balanced', got {weight!r}")


def weight_by_class(weight: ByClass, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What a row of each class weighs, (n_classes,); balanced, the rows of every class weigh alike."""
    if isinstance(weight, dict):
        return compute_class_weight(weight, classes=classes, y=classes)
    counts = np.bincount(codes)
    return len(codes) / (len(counts) * counts) if weight == "balanced" else np.ones(len(counts))
