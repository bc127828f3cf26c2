"""A kernel machine after one of its passes, as the factors built from it see it.

Decisions, support vectors and feature-space distances, under the kernel as the passes
before rescaled it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap
from typing import Any, ClassVar

import numpy as np

from screening.kernels import LogScale, pairwise, rescaled_distances
from screening.kernels.base import Kernel
from screening.kernels.expansions import KernelBlock, Key, expansion_at
from screening.kernels.kernel_cache import KernelCache
from screening.kernels.neighbors import Neighbors, neighbors, neighbors_in

# Smallest sum of bumps, as a share of the highest bump; the floor of c is far above.
_MIN_BUMP_SUM = 1e-25

FactorState = dict[str, np.ndarray]
"""Fitted parameters of a factor, by name: numbers, or arrays over support vectors."""

BumpTerms = tuple[np.ndarray, np.ndarray, int]
"""Rates, heights and norm of bumps on the support vectors, in the input space."""

KERNEL_MACHINES = frozenset({"one_class", "two_class", "multi_class"})


class Factor:
    """Base of conformal factors: positive functions c(x) built from the pass before.

    ``scope`` "output" makes one c for each decision function from its own f and support
    vectors, and gets a ``FirstPass``; "joint" makes them from all outputs at once, and
    gets the ``KernelMachineState``. ``machines`` and ``kernels`` are those the factor
    can be used with. ``varies`` names fields that may take several values on one first
    pass: the second passes are then trained together. A joint factor with such fields
    may define ``log_each(first_pass, states)``, which gets the ``KernelMachineState``
    and one state per factor, and returns log c of all at once.
    """

    name: ClassVar[str]
    scope: ClassVar[str] = "output"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES - {"one_class"}
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian", "laplacian"})
    varies: ClassVar[frozenset[str]] = frozenset()

    def parameters(self, first_pass: Any) -> FactorState:
        """Return what ``log_at`` needs of a pass, called once on its training rows.

        It is stored with the model and passed to ``log_at``.
        """
        return {}

    def bumps(self, first_pass: FirstPass, state: FactorState) -> BumpTerms | None:
        """Return the bumps of the input space that sum to c; None if c is not a sum.

        A machine computes such sums together with its decision.
        """
        return None

    def log_at(self, first_pass: Any, state: FactorState) -> np.ndarray:
        """Return log c at the rows of ``first_pass.x``, shape (n,).

        A joint factor may return (n, n_outputs). The scale of c is free: the machine
        subtracts the maximum of log c over the training rows before exponentiation.
        """
        bumps = self.bumps(first_pass, state)
        if bumps is None:
            raise NotImplementedError
        return np.asarray(first_pass.log_bump_sum(*bumps))


@dataclass(frozen=True)
class DualSolution:
    """Solution of one pass.

    It decides f_m(x) = sum_i weights_im c_i c(x) K(x_i, x) + intercept_m.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, n_outputs)
        alpha_i with the sign of its label; exactly 0 off the support.
    intercept : ndarray of shape (n_outputs,)
    margin : bool ndarray of shape (n_rows, n_outputs)
        True where 0 < alpha_i < bound.
    gap : float
        Largest KKT gap over the outputs.
    n_iter : int
        Iterations, summed over the outputs.
    noted : dict of str to ndarray
        Arrays that a remedy for imbalance stores with the model, by name.
    """

    weights: np.ndarray
    intercept: np.ndarray
    margin: np.ndarray
    gap: float
    n_iter: int
    noted: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """One trained pass over the basis rows.

    The basis is the training rows, later the support vectors of any pass.

    Parameters
    ----------
    dual : DualSolution
    labels : ndarray of shape (n_basis, n_outputs)
        +1, -1, or 0 for a row outside the output's problem.
    c : ndarray of shape (n_basis, 1) or (n_basis, n_outputs)
        Product of the factors of all passes before.
    scale : LogScale, optional
        Scale and bounds of log c of the next pass; None in the last pass.
    factor_states : tuple of FactorState
        Fitted parameters of the factor: one an output, one in all for a joint factor,
        none in the last pass.
    """

    dual: DualSolution
    labels: np.ndarray
    c: np.ndarray
    scale: LogScale | None = None
    factor_states: tuple[FactorState, ...] = ()

    @property
    def coefficients(self) -> np.ndarray:
        """Weights times c, (n_basis, n_outputs)."""
        return self.dual.weights * self.c

    def take(self, rows: np.ndarray) -> Pass:
        """Restrict the pass to a subset of the basis rows."""
        whole = self.dual
        dual = replace(whole, weights=whole.weights[rows], margin=whole.margin[rows])
        return replace(self, dual=dual, labels=self.labels[rows], c=self.c[rows])


@dataclass(frozen=True, eq=False)
class KernelMachineState:
    """A kernel machine after one of its passes, at a block of rows x.

    A joint factor gets this. Results that are computed for the block are cached here
    and freed with it; another block has a state of its own.

    Parameters
    ----------
    current_pass : Pass
    block : KernelBlock
        K between the basis and the rows x.
    previous : Rescaling or None
        The pass before and its factor, from which c of this pass is computed; None for
        the first pass.
    rows : ndarray of shape (n_rows, n_features)
        Rows of the machine's expansion.
    basis_index : ndarray of shape (n_rows,)
        Indices of ``rows`` in the block's basis.
    class_counts : ndarray of shape (n_classes,)
        Training rows of each class, in class order.
    pass_number : int
        Index among the passes of all machines on this basis.
    cache : KernelCache, optional
        Cache of the training rows, a weak reference; only in training.
    """

    current_pass: Pass
    block: KernelBlock
    previous: Rescaling | None
    rows: np.ndarray
    basis_index: np.ndarray
    class_counts: np.ndarray
    pass_number: int = 0
    cache: KernelCache | None = None

    @property
    def x(self) -> np.ndarray:
        """Rows of the block, (n, n_features); in training the training rows."""
        return self.block.x

    @property
    def key(self) -> Key:
        """Key of this pass's decisions in the sums of the block."""
        return self.pass_number, -1

    @property
    def outputs(self) -> list[FirstPass]:
        """One view per decision function; not cached, as each refers to this state."""
        n_outputs = self.current_pass.dual.weights.shape[1]
        return [FirstPass(self, m) for m in range(n_outputs)]

    @cached_property
    def c(self) -> np.ndarray:
        """Product of the factors of all passes before, (n, 1) or (n, n_outputs)."""
        if self.block.symmetric:
            return self.current_pass.c
        if self.previous is None:
            return np.ones((len(self.x), 1))
        return c_after([self.previous])[0]

    @property
    def kernel_sums(self) -> np.ndarray:
        """Values of sum_i weights_i c_i K(x_i, x) at the rows of x, (n, n_outputs)."""
        sums = self.block.sums.get(self.key)
        if sums is None:
            sums = self.block.times(self.current_pass.coefficients)
        return sums

    @cached_property
    def decisions(self) -> np.ndarray:
        """Values of f at the rows of x, (n, n_outputs)."""
        return self.kernel_sums * self.c + self.current_pass.dual.intercept

    @property
    def predicted(self) -> np.ndarray:
        """Index of the class with the largest decision, (n,).

        With a single decision function 1 where it is positive, else 0.
        """
        decisions = self.decisions
        if decisions.shape[1] == 1:
            return (decisions[:, 0] > 0).astype(int)
        return decisions.argmax(axis=1)

    @property
    def kernel(self) -> Kernel:
        """The base kernel, gamma a number."""
        return self.block.kernel

    @property
    def largest_distance(self) -> float:
        """Largest Euclidean distance between training rows; only in training."""
        assert self.cache is not None
        return self.cache.largest_distance

    def fit_factor(self, factor: Factor) -> Pass:
        """Fit the parameters of a factor to the current pass."""
        views: list[KernelMachineState] | list[FirstPass]
        views = [self] if factor.scope == "joint" else self.outputs
        states = []
        for view in views:
            parameters = factor.parameters(view)
            states.append({key: np.asarray(value) for key, value in parameters.items()})
        return replace(self.current_pass, factor_states=tuple(states))


@dataclass(frozen=True, eq=False)
class FirstPass:
    """One decision function of any pass, not of the first alone: a factor's input.

    In training x are the training rows and kernel values are read from the Gram matrix.
    Properties marked "only inside ``parameters``" need the training rows.

    Parameters
    ----------
    state : KernelMachineState
    m : int
        Index of the decision function among the machine's outputs.
    """

    state: KernelMachineState
    m: int

    @property
    def x(self) -> np.ndarray:
        """Rows of the block, (n, n_features); the training rows in ``parameters``."""
        return self.state.x

    @property
    def labels(self) -> np.ndarray:
        """+1, -1, or 0 outside this output's problem, by row of ``state.rows``."""
        return self.state.current_pass.labels[:, self.m]

    @property
    def class_counts(self) -> np.ndarray:
        """Training rows of each label, negatives first; only inside ``parameters``."""
        n_negative = (self.labels < 0).sum()
        n_positive = (self.labels > 0).sum()
        return np.array([n_negative, n_positive])

    @property
    def _weights(self) -> np.ndarray:
        return self.state.current_pass.dual.weights[:, self.m]

    @cached_property
    def _support(self) -> np.ndarray:
        return np.flatnonzero(self._weights)

    @property
    def basis_index(self) -> np.ndarray:
        """Indices of the support vectors in the basis, (n_sv,)."""
        return self.state.basis_index[self._support]

    @property
    def support_vectors(self) -> np.ndarray:
        """Support vectors in row order, (n_sv, n_features)."""
        return self.state.rows[self._support]

    @property
    def support_labels(self) -> np.ndarray:
        """+1 or -1 for each support vector, (n_sv,)."""
        return self.labels[self._support]

    @property
    def support_decision(self) -> np.ndarray:
        """Values of f at the support vectors, (n_sv,); only inside ``parameters``."""
        return self.decision[self._support]

    @property
    def alphas(self) -> np.ndarray:
        """Dual coefficients of the support vectors, (n_sv,), > 0."""
        return np.abs(self._weights[self._support])

    @property
    def margin(self) -> np.ndarray:
        """Mask of the support vectors with alpha strictly below its bound, (n_sv,)."""
        return self.state.current_pass.dual.margin[self._support, self.m]

    @property
    def max_decision(self) -> float:
        """Largest |f| over the training rows; only inside ``parameters``."""
        decision = self.decision[self.labels != 0]
        return float(np.abs(decision).max())

    @property
    def kernel(self) -> Kernel:
        """The base kernel, gamma a number."""
        return self.state.kernel

    @property
    def decision(self) -> np.ndarray:
        """Values of f at the rows of x, (n,)."""
        return self.state.decisions[:, self.m]

    def _c_of_output(self, c: np.ndarray) -> np.ndarray:
        column = self.m if c.shape[1] > 1 else 0
        return c[:, column]

    @property
    def _c_at_x(self) -> np.ndarray:
        return self._c_of_output(self.state.c)

    @property
    def _c_at_support(self) -> np.ndarray:
        return self._c_of_output(self.state.current_pass.c)[self._support]

    def feature_distances(self) -> np.ndarray:
        """Return squared feature-space distances of x to the support vectors.

        Shape (n, n_sv).
        """
        gram = self.state.block.columns(self.basis_index)
        return self._distances(gram, self._c_at_x, self.x)

    def support_distances(self) -> np.ndarray:
        """Return squared feature-space distances among the support vectors.

        Shape (n_sv, n_sv); only inside ``parameters``.
        """
        gram = self.state.block.among(self.basis_index)
        return self._distances(gram, self._c_at_support, self.support_vectors)

    def _distances(self, gram: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
        diagonal = self.kernel.diagonal
        support_diagonal = diagonal(self.support_vectors)
        return rescaled_distances(
            gram, c, self._c_at_support, diagonal(x), support_diagonal
        )

    def neighbors_within(
        self, rows: np.ndarray, labels: np.ndarray, radii: Sequence[float] | None
    ) -> Neighbors:
        """Summarize the support vectors of a label that are near each row.

        Parameters
        ----------
        rows : int ndarray of shape (n,)
            Indices of rows of x.
        labels : ndarray of shape (n,)
            Label, +1 or -1, of the support vectors that count for each row.
        radii : sequence of float or None
            Squared feature-space distances. None for a single radius per row, the mean
            of the distances of its nearest and farthest support vector of any label.
        """
        support_labels = self.support_labels
        matrix = self.state.block.matrix
        candidates = np.ones(len(support_labels), bool)
        if radii is not None:  # then a label that no row looks for adds nothing
            candidates = np.isin(support_labels, labels)
        arguments = (
            self._c_at_x[rows],
            self._c_at_support[candidates],
            support_labels[candidates],
            labels,
            radii,
        )
        if matrix is not None and matrix.dtype == np.float64:
            centres = self.basis_index[candidates]
            return neighbors_in(matrix, centres, rows, *arguments)
        centres = self.support_vectors[candidates]
        return neighbors(self.kernel, self.x[rows], centres, *arguments)

    def mean_distance(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean squared feature-space distance to the support vectors.

        Parameters
        ----------
        rows : int ndarray of shape (n,)
            Indices of rows of x. There must be a support vector.

        Returns
        -------
        ndarray of shape (n,)
        """
        block = self.state.block
        c_rows = self._c_at_x[rows]
        c_support = self._c_at_support
        x = self.x[rows]
        weights = np.zeros((len(block.basis), 1))
        weights[self.basis_index, 0] = c_support / len(c_support)
        mean_kernel = expansion_at(self.kernel, x, block.basis, weights)[:, 0]
        cross_term = c_rows * mean_kernel
        row_term = np.square(c_rows) * self.kernel.diagonal(x)
        support_diagonal = self.kernel.diagonal(self.support_vectors)
        support_term = np.mean(np.square(c_support) * support_diagonal)
        return np.maximum(row_term + support_term - 2.0 * cross_term, 0.0)

    def log_bump_sum(
        self, rates: np.ndarray, heights: np.ndarray, norm: int = 2
    ) -> np.ndarray:
        """Return log sum_k heights_k exp(-rates_k d(x, x_k)), shape (n,).

        The sum is over the support vectors, d the distance of that norm. A sum below
        ``_MIN_BUMP_SUM`` times the largest height counts as that, so the log is finite.
        """
        heights = np.asarray(heights, float)
        key = (self.state.pass_number, self.m)
        precomputed = self.state.block.sums.get(key)
        if precomputed is None:
            total = self._bump_sum(rates, heights, norm)
        else:
            total = precomputed[:, 0]
        # The exact value of so small a sum does not matter: the floor of c is above it.
        tiny = np.finfo(float).tiny
        smallest = max(_MIN_BUMP_SUM * heights.max(initial=0.0), tiny)
        return np.log(np.maximum(total, smallest))

    def _bump_sum(
        self, rates: np.ndarray, heights: np.ndarray, norm: int
    ) -> np.ndarray:
        """Return a weighted sum of bumps at the rows, (n_rows,)."""
        used = np.flatnonzero(heights)
        centres = self.support_vectors[used]
        rates = np.broadcast_to(rates, heights.shape)[used]
        dtype = pairwise.bump_precision(norm, centres, rates)
        terms = [(rates, heights[used, None])]
        sums = pairwise.weighted_sums(norm, self.x, centres, terms, dtype=dtype)
        return sums[0][:, 0]


@dataclass(frozen=True, eq=False)
class Rescaling:
    """The step from a pass to the next: its state, the factor, and the fitted pass.

    Parameters
    ----------
    state : KernelMachineState
        The pass from which c of the next pass is computed.
    factor : Factor
    fitted_pass : Pass
        The state's pass with the factor's parameters and the scale of c.
    """

    state: KernelMachineState
    factor: Factor
    fitted_pass: Pass

    def log_factor(self) -> np.ndarray:
        """Return log c of the factor alone, (n, 1) or (n, n_outputs), not scaled."""
        states = self.fitted_pass.factor_states
        if self.factor.scope == "joint":
            return _as_columns(self.factor.log_at(self.state, states[0]))
        outputs = zip(self.state.outputs, states, strict=True)
        return np.column_stack(list(starmap(self.factor.log_at, outputs)))

    def bumps(self) -> Iterator[tuple[int, np.ndarray, BumpTerms]]:
        """Yield (m, basis_index, bumps) per output m whose factor is a sum of bumps."""
        if self.factor.scope == "joint":
            return
        outputs = zip(self.state.outputs, self.fitted_pass.factor_states, strict=True)
        for m, (output, state) in enumerate(outputs):
            bumps = self.factor.bumps(output, state)
            if bumps is not None:
                rates, heights, norm = bumps
                rates = np.broadcast_to(rates, heights.shape)
                yield m, output.basis_index, (rates, heights, norm)


def log_factors(rescalings: Sequence[Rescaling]) -> list[np.ndarray]:
    """Return the ``log_factor`` of each rescaling.

    They are computed together if they share one state and their factor can do so.
    """
    first = rescalings[0]
    log_each = getattr(first.factor, "log_each", None)
    states = {rescaling.state for rescaling in rescalings}
    if log_each is None or len(states) > 1:
        return [rescaling.log_factor() for rescaling in rescalings]
    factor_states = [rescaling.fitted_pass.factor_states[0] for rescaling in rescalings]
    return [_as_columns(log_c) for log_c in log_each(first.state, factor_states)]


def c_after(rescalings: Sequence[Rescaling]) -> list[np.ndarray]:
    """Return c of the pass after each rescaling, at the rows of its state.

    Shape (n, 1) or (n, n_outputs) each.
    """
    c = []
    for rescaling, log_c in zip(rescalings, log_factors(rescalings), strict=True):
        scale = rescaling.fitted_pass.scale
        assert scale is not None
        log_c_before = np.log(rescaling.state.c)
        c.append(np.exp(scale.add(log_c_before, log_c)))
    return c


def _as_columns(log_c: np.ndarray) -> np.ndarray:
    log_c = np.asarray(log_c)
    return log_c[:, None] if log_c.ndim == 1 else log_c
