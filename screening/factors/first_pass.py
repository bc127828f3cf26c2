"""A kernel machine after one of its passes, as factors see it: decisions, support vectors and distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from screening.kernels import Scale, pairwise, rescaled_distances
from screening.kernels.base import Kernel
from screening.kernels.expansions import KernelBlock, Key, expansion_at
from screening.kernels.kernel_cache import KernelCache
from screening.kernels.neighbors import Neighbors, neighbors, neighbors_in

# Sums of bumps are told apart down to this share of the highest bump; c ends a long way above.
TINY_SUM = 1e-25


Remembered = dict[str, np.ndarray]


BumpTerms = tuple[np.ndarray, np.ndarray, int]
"""Rates, heights and norm of bumps on the support vectors, in the input space."""
KERNEL_MACHINES = frozenset({"one_class", "two_class", "multi_class"})


class Factor:
    """A positive function c(x) built from the pass before; base of the frozen values that say which.

    ``scope`` "output" makes one c for each decision function from its own f and support vectors and is given
    a ``FirstPass``; "joint" makes them from all outputs at once, given the ``KernelMachineState``.
    ``machines`` and ``kernels`` are those it makes sense for. A kind may name fields in ``varies``, of which
    several values are tried on one first pass: their second passes are then trained together. Where it also
    has ``log_each(first_pass, remembered)``, that gives log c of all of them, from what each remembers.
    """

    name: ClassVar[str]
    scope: ClassVar[str] = "output"
    machines: ClassVar[frozenset[str]] = KERNEL_MACHINES - {"one_class"}
    kernels: ClassVar[frozenset[str]] = frozenset({"gaussian", "laplacian"})
    varies: ClassVar[frozenset[str]] = frozenset()

    def parameters(self, first_pass: Any) -> Remembered:
        """What is kept of a pass, asked once on its training rows: numbers, or arrays over support vectors.

        It is stored with the model, and handed back to ``log_at``.
        """
        return {}

    def bumps(self, first_pass: FirstPass, remembered: Remembered) -> BumpTerms | None:
        """Where c is a sum of bumps in the input space, these; a machine sums them with its decision."""
        return None

    def log_at(self, first_pass: Any, remembered: Remembered) -> np.ndarray:
        """log c at the rows of ``first_pass.x``, (n,); a joint factor may return (n, n_outputs).

        c has no unit of its own: the machine subtracts the maximum over the training rows, and exponentiates.
        """
        bumps = self.bumps(first_pass, remembered)
        if bumps is None:
            raise NotImplementedError
        return np.asarray(first_pass.log_bump_sum(*bumps))


@dataclass(frozen=True)
class DualSolution:
    """What solving one pass gives: f_m(x) = sum_i weights_im c_i c(x) K(x_i, x) + intercept_m."""

    weights: (
        np.ndarray
    )  # (n_rows, n_outputs): alpha_i with its sign; exactly 0 off the support
    intercept: np.ndarray  # (n_outputs,)
    margin: np.ndarray  # bool, as weights: 0 < alpha_i < bound
    gap: float  # largest over the outputs
    n_iter: int  # summed over the outputs
    noted: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # what a remedy wants kept, by name


@dataclass(frozen=True)
class Pass:
    """One trained pass over the basis rows (the training rows, later the support vectors of any pass)."""

    dual: DualSolution
    labels: (
        np.ndarray
    )  # (n_basis, n_outputs): +1, -1, or 0 for a row outside the output's problem
    c: np.ndarray  # (n_basis, 1) or (n_basis, n_outputs): product of the factors of all passes before
    scale: Scale | None = (
        None  # how log c of the next pass is scaled and bounded; None in the last
    )
    # The factor's parameters, one dict an output (one in all for a joint factor); none in the last pass.
    remembered: tuple[Remembered, ...] = ()

    @property
    def coefficients(self) -> np.ndarray:
        """weights * c, (n_basis, n_outputs)."""
        return self.dual.weights * self.c

    def take(self, kept: np.ndarray) -> Pass:
        dual = replace(
            self.dual, weights=self.dual.weights[kept], margin=self.dual.margin[kept]
        )
        return replace(self, dual=dual, labels=self.labels[kept], c=self.c[kept])


@dataclass(frozen=True, eq=False)
class KernelMachineState:
    """A kernel machine after one of its passes, at a block of rows x: what a joint factor is given.

    Everything is under the kernel as the passes before rescaled it. What is made for the block is kept here
    and goes with it; another block has a state of its own.
    """

    one: Pass
    block: KernelBlock
    before: Rescaling | None  # what c of this pass comes from; None for the first
    rows: np.ndarray  # that the machine stands on
    places: np.ndarray  # theirs in the block's basis
    class_counts: np.ndarray  # training rows of each class, in class order
    number: int = 0  # among the passes of all machines on this basis
    cache: KernelCache | None = (
        None  # of the training rows, in training; a weak reference
    )

    @property
    def x(self) -> np.ndarray:
        """The rows asked about, (n, n_features); in training those that are learned from."""
        return self.block.x

    @property
    def key(self) -> Key:
        """Of its decisions, among foreseen sums."""
        return self.number, -1

    @property
    def outputs(self) -> list[FirstPass]:
        """One a decision function, made when asked for: kept, they would hold the state, and it the rows."""
        return [FirstPass(self, m) for m in range(self.one.dual.weights.shape[1])]

    @cached_property
    def c(self) -> np.ndarray:
        """Product of the factors of all passes before, (n, 1) or (n, n_outputs)."""
        if self.block.symmetric:
            return self.one.c
        return (
            np.ones((len(self.x), 1))
            if self.before is None
            else c_after([self.before])[0]
        )

    @cached_property
    def decisions(self) -> np.ndarray:
        """f at the rows of x, (n, n_outputs)."""
        sums = self.block.foreseen.get(self.key)
        if sums is None:
            sums = self.block.times(self.one.coefficients)
        return sums * self.c + self.one.dual.intercept

    @property
    def predicted(self) -> np.ndarray:
        """Class number with the largest decision, (n,); of one decision, its sign."""
        decisions = self.decisions
        return (
            (decisions[:, 0] > 0).astype(int)
            if decisions.shape[1] == 1
            else decisions.argmax(axis=1)
        )

    @property
    def kernel(self) -> Kernel:
        """The base kernel, gamma a number."""
        return self.block.kernel

    @property
    def largest_distance(self) -> float:
        """Largest Euclidean distance between training rows; only in training."""
        assert self.cache is not None
        return self.cache.largest_distance

    def learn(self, factor: Factor) -> Pass:
        """The pass with what a factor remembers of it, in training."""
        seen_by: list[KernelMachineState] | list[FirstPass]
        seen_by = [self] if factor.scope == "joint" else self.outputs
        remembered = [factor.parameters(first_pass) for first_pass in seen_by]
        arrays = (
            {key: np.asarray(value) for key, value in values.items()}
            for values in remembered
        )
        return replace(self.one, remembered=tuple(arrays))


@dataclass(frozen=True, eq=False)
class FirstPass:
    """One decision function of a pass at rows x: what a factor is given.

    Everything is under the kernel as the passes before rescaled it. In training x are the training rows, and
    the answers come from the Gram.
    """

    state: KernelMachineState
    m: int

    @property
    def x(self) -> np.ndarray:
        """The rows asked about, (n, n_features); the training rows inside ``Factor.parameters``."""
        return self.state.x

    @property
    def labels(self) -> np.ndarray:
        """+1 or -1 a training row (0: not in this machine's problem); only inside ``parameters``."""
        return self.state.one.labels[:, self.m]

    @property
    def class_counts(self) -> np.ndarray:
        """Training rows of each class, negatives first; only inside ``parameters``."""
        return np.array([(self.labels < 0).sum(), (self.labels > 0).sum()])

    @cached_property
    def _support(self) -> np.ndarray:
        return np.flatnonzero(self.state.one.dual.weights[:, self.m])

    @property
    def places(self) -> np.ndarray:
        """Of the support vectors in the basis."""
        return self.state.places[self._support]

    @property
    def support_vectors(self) -> np.ndarray:
        """(n_sv, n_features), in row order."""
        return self.state.rows[self._support]

    @property
    def support_labels(self) -> np.ndarray:
        """+1 or -1, (n_sv,)."""
        return self.labels[self._support]

    @property
    def support_decision(self) -> np.ndarray:
        """f at the support vectors, (n_sv,); only inside ``parameters``."""
        return self.decision[self._support]

    @property
    def alphas(self) -> np.ndarray:
        """(n_sv,), > 0."""
        return np.abs(self.state.one.dual.weights[self._support, self.m])

    @property
    def margin(self) -> np.ndarray:
        """Mask of the support vectors with alpha strictly below its bound, (n_sv,)."""
        return self.state.one.dual.margin[self._support, self.m]

    @property
    def max_decision(self) -> float:
        """Largest |f| over the training rows; only inside ``parameters``."""
        return float(np.abs(self.decision[self.labels != 0]).max())

    @property
    def kernel(self) -> Kernel:
        """The base kernel, gamma a number."""
        return self.state.kernel

    @property
    def decision(self) -> np.ndarray:
        """f at the rows of x, (n,)."""
        return self.state.decisions[:, self.m]

    def _c(self, c: np.ndarray) -> np.ndarray:
        return c[:, self.m if c.shape[1] > 1 else 0]

    @property
    def _own_c(self) -> np.ndarray:
        return self._c(self.state.one.c)[self._support]

    def feature_distances(self) -> np.ndarray:
        """Squared feature-space distances of x to the support vectors, (n, n_sv)."""
        return self._distances(
            self.state.block.columns(self.places), self._c(self.state.c), self.x
        )

    def support_distances(self) -> np.ndarray:
        """Squared feature-space distances among the support vectors; only inside ``parameters``."""
        return self._distances(
            self.state.block.among(self.places), self._own_c, self.support_vectors
        )

    def _distances(self, gram: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
        diagonal = self.kernel.diagonal
        return rescaled_distances(
            gram, c, self._own_c, diagonal(x), diagonal(self.support_vectors)
        )

    def near(
        self, rows: np.ndarray, sides: np.ndarray, reaches: Sequence[float] | None
    ) -> Neighbors:
        """Of rows x[mine]: squared feature-space distances to support vectors of a label within each reach.

        ``sides`` holds each row's label, +1 or -1, ``reaches`` how far (squared): None for one, the mean of
        the row's nearest and farthest support vector.
        """
        labels, matrix = self.support_labels, self.state.block.matrix
        looked = np.ones(len(labels), bool)
        if reaches is not None:  # then a side at which no row looks says nothing
            looked = np.isin(labels, sides)
        rest = (
            self._c(self.state.c)[rows],
            self._own_c[looked],
            labels[looked],
            sides,
            reaches,
        )
        if matrix is not None and matrix.dtype == np.float64:
            return neighbors_in(matrix, self.places[looked], rows, *rest)
        return neighbors(self.kernel, self.x[rows], self.support_vectors[looked], *rest)

    def mean_distance(self, rows: np.ndarray) -> np.ndarray:
        """Of rows x[mine]: mean squared feature-space distance to the support vectors, one at least."""
        c_x, c, x = self._c(self.state.c)[rows], self._own_c, self.x[rows]
        weights = np.zeros((len(self.state.block.basis), 1))
        weights[self.places, 0] = c / len(c)
        across = (
            c_x * expansion_at(self.kernel, x, self.state.block.basis, weights)[:, 0]
        )
        of_rows = np.square(c_x) * self.kernel.diagonal(x)
        of_vectors = np.mean(np.square(c) * self.kernel.diagonal(self.support_vectors))
        return np.maximum(of_rows + of_vectors - 2.0 * across, 0.0)

    def log_bump_sum(
        self, rates: np.ndarray, heights: np.ndarray, norm: int = 2
    ) -> np.ndarray:
        """log sum_k heights_k exp(-rates_k d(x, x_k)) over the support vectors, d of that norm, (n,).

        Right also where every bump is far below the smallest number there is.
        """
        heights = np.asarray(heights, float)
        foreseen = self.state.block.foreseen.get((self.state.number, self.m))
        total = (
            self._bump_sum(rates, heights, norm) if foreseen is None else foreseen[:, 0]
        )
        # What lies further below the highest bump is below the floor of c, whatever it is exactly.
        return np.log(
            np.maximum(
                total, max(TINY_SUM * heights.max(initial=0.0), np.finfo(float).tiny)
            )
        )

    def _bump_sum(
        self, rates: np.ndarray, heights: np.ndarray, norm: int
    ) -> np.ndarray:
        used = np.flatnonzero(heights)
        centres, rates = (
            self.support_vectors[used],
            np.broadcast_to(rates, heights.shape)[used],
        )
        dtype = pairwise.precise_bumps(norm, centres, rates)
        terms = [(rates, heights[used, None])]
        return pairwise.weighted_sums(norm, self.x, centres, terms, dtype=dtype)[0][
            :, 0
        ]


@dataclass(frozen=True, eq=False)
class Rescaling:
    """What c of the next pass is made of: a pass, the factor on it, and the pass as the factor left it."""

    state: KernelMachineState
    factor: Factor
    one: Pass  # with the factor's parameters and the scale of c

    def log_factor(self) -> np.ndarray:
        """log of the factor at the state's rows, as the factor has it, (n, 1) or (n, n_outputs)."""
        factor, remembered = self.factor, self.one.remembered
        if factor.scope == "joint":
            return _columns(factor.log_at(self.state, remembered[0]))
        pairs = zip(self.state.outputs, remembered, strict=True)
        return np.column_stack([factor.log_at(output, own) for output, own in pairs])

    def bumps(self) -> Iterator[tuple[int, np.ndarray, BumpTerms]]:
        """Of every output whose factor is a sum of bumps: its number, places in the basis, and the bumps."""
        if self.factor.scope == "joint":
            return
        for m, (output, own) in enumerate(
            zip(self.state.outputs, self.one.remembered, strict=True)
        ):
            bumps = self.factor.bumps(output, own)
            if bumps is not None:
                rates, heights, norm = bumps
                yield (
                    m,
                    output.places,
                    (np.broadcast_to(rates, heights.shape), heights, norm),
                )


def log_factors(rescalings: Sequence[Rescaling]) -> list[np.ndarray]:
    """Each one's ``log_factor``, at once where they are of one state and their factors know how."""
    first = rescalings[0]
    at_once = getattr(first.factor, "log_each", None)
    if at_once is None or len({step.state for step in rescalings}) > 1:
        return [step.log_factor() for step in rescalings]
    remembered = [step.one.remembered[0] for step in rescalings]
    return [_columns(log_c) for log_c in at_once(first.state, remembered)]


def c_after(rescalings: Sequence[Rescaling]) -> list[np.ndarray]:
    """c of the pass that follows each of them, at the states' rows."""
    c = []
    for step, now in zip(rescalings, log_factors(rescalings), strict=True):
        assert step.one.scale is not None
        c.append(np.exp(step.one.scale.added(np.log(step.state.c), now)))
    return c


def _columns(log_c: np.ndarray) -> np.ndarray:
    log_c = np.asarray(log_c)
    return log_c[:, None] if log_c.ndim == 1 else log_c
