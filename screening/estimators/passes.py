"""First pass, factor, second pass: how kernel machines are trained and scored."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import Any

import numpy as np

from screening.factors.first_pass import (
    DualSolution,
    Factor,
    FactorState,
    KernelMachineState,
    Pass,
    Rescaling,
    c_after,
    log_factors,
)
from screening.kernels import LogScale, pairwise
from screening.kernels.base import Kernel, log_sum_exp
from screening.kernels.expansions import BumpSum, ExpansionSums, KernelBlock, Key
from screening.kernels.kernel_cache import KernelCache
from screening.solvers.kernel_rows import Gram

Solve = Callable[[Sequence[np.ndarray]], list[DualSolution]]
"""Returns the solution of K~ for each c, (n_rows, 1) or (n_rows, n_outputs)."""

# Arrays of the report with more values than this are summarized.
_MAX_REPORTED_VALUES = 16
# Kernel sum, as a share of the sum of the weights, below which single kernel values
# may have been raised to the smallest number of their type.
_LEAST_SUM = 1e-30
# Bytes of the kernel between the basis and a block of rows to score.
_BLOCK_BYTES = 32_000_000


@dataclass(frozen=True)
class KernelExpansion:
    """All passes of a fitted machine, on the union of their support vectors.

    Parameters
    ----------
    kernel : Kernel
        gamma a number.
    rows : ndarray of shape (n_basis, n_features)
        Rows that are a support vector of some pass.
    support : int ndarray of shape (n_basis,)
        Numbers of ``rows`` among those of the fit's cache; of the training table after
        ``FitInputs.with_row_numbers``.
    chain : tuple of Pass
        From the first to the last.
    factor : Factor or None
    class_counts : ndarray of shape (n_classes,)
        Training rows of each class.
    """

    kernel: Kernel
    rows: np.ndarray
    support: np.ndarray
    chain: tuple[Pass, ...]
    factor: Factor | None
    class_counts: np.ndarray

    @property
    def last(self) -> Pass:
        """The pass that decides."""
        return self.chain[-1]

    @property
    def n_outputs(self) -> int:
        """Number of decision functions."""
        return len(self.last.dual.intercept)

    def decisions(self, x: np.ndarray, upto: int | None = None) -> np.ndarray:
        """Return f (n, n_outputs) of the last pass, or of pass ``upto`` from 0."""
        if upto is not None:
            first_passes = self.chain[: upto + 1]
            return replace(self, chain=first_passes).decisions(x)
        return self.scorer.decisions(x)[0]

    def log_ratio_of(
        self, sums: np.ndarray, c: np.ndarray, x: np.ndarray
    ) -> np.ndarray:
        """Return log((f + rho) / rho) of a one-class machine, rho = -intercept, (n, 1).

        Sums that vanish in floating point, because a row is far from all support
        vectors, are computed from their exponents, so that such rows do not tie.

        Parameters
        ----------
        sums : ndarray of shape (n, 1)
            Kernel sums of the last pass at x, not yet multiplied by c.
        c : ndarray of shape (n, 1)
            Factor of the last pass at x.
        x : ndarray of shape (n, n_features)
        """
        coefficients = self.last.coefficients[:, 0]
        tiny = np.finfo(float).tiny
        log_sums = np.log(np.maximum(sums, tiny))
        far = sums[:, 0] < _LEAST_SUM * coefficients.sum()
        if far.any():
            distances = pairwise.distances(
                self.kernel.norm, x[far], self.rows, dtype=np.float64
            )
            exponents = -self.kernel.number * distances
            log_sums[far, 0] = log_sum_exp(exponents, coefficients)
        rho = -self.last.dual.intercept
        return log_sums + np.log(c) - np.log(rho)

    @cached_property
    def scorer(self) -> Scorer:
        """Scorer of this machine alone."""
        # The scorer gets a copy: with this object the two would refer to each other and
        # stay in memory until the next garbage collection.
        every_row = np.arange(len(self.rows))
        return Scorer([replace(self)], self.rows, [every_row])

    def moved(self, threshold: float) -> KernelExpansion:
        """Return the machine with ``threshold`` subtracted from its decision."""
        dual = self.last.dual
        moved = replace(dual, intercept=dual.intercept - threshold)
        return self._with_last_dual(moved)

    def divided(self, scale: float) -> KernelExpansion:
        """Return the machine with its decision divided by ``scale``, > 0."""
        dual = self.last.dual
        divided = replace(
            dual, weights=dual.weights / scale, intercept=dual.intercept / scale
        )
        return self._with_last_dual(divided)

    def _with_last_dual(self, dual: DualSolution) -> KernelExpansion:
        *earlier, last = self.chain
        return replace(self, chain=(*earlier, replace(last, dual=dual)))

    def report(self) -> list[dict[str, Any]]:
        """Return a dict of plain values per pass.

        Its keys are n_support, kkt_gap, n_iter, factor (the fitted parameters of the
        factor), and whatever a remedy noted.
        """
        return list(map(_report_of_pass, self.chain))

    def state(self) -> dict[str, np.ndarray]:
        """Return arrays from which ``from_state`` makes the same machine."""
        state = {
            "gamma": np.asarray(self.kernel.gamma, float),
            "n_passes": np.asarray(len(self.chain)),
            "rows": self.rows,
            "support": self.support,
            "class_counts": self.class_counts,
        }
        for t, trained_pass in enumerate(self.chain):
            for name, array in _state_of_pass(trained_pass).items():
                state[f"pass{t}/{name}"] = array
        return state

    @classmethod
    def from_state(
        cls, kernel: Kernel, factor: Factor | None, state: Mapping[str, np.ndarray]
    ) -> KernelExpansion:
        """Return the machine that ``state`` described, with its kernel and factor."""
        n_passes = int(state["n_passes"])
        chain = []
        for t in range(n_passes):
            is_last = t + 1 == n_passes
            chain.append(
                _pass_from_state(under(state, f"pass{t}/"), factor, is_last=is_last)
            )
        return cls(
            kernel=replace(kernel, gamma=float(state["gamma"])),
            rows=state["rows"],
            support=state["support"],
            chain=tuple(chain),
            factor=factor,
            class_counts=state["class_counts"],
        )


def _report_of_pass(trained_pass: Pass) -> dict[str, Any]:
    """Return the plain values of one pass."""
    dual = trained_pass.dual
    is_support = np.any(dual.weights != 0, axis=1)
    report: dict[str, Any] = {
        "n_support": int(is_support.sum()),
        "kkt_gap": dual.gap,
        "n_iter": dual.n_iter,
        "factor": list(map(_summarize_state, trained_pass.factor_states)),
    }
    for name, array in dual.noted.items():
        report[name] = array.tolist()
    return report


def _summarize_state(state: FactorState) -> dict[str, Any]:
    """Return small arrays as lists, larger ones as minimum, median and maximum."""
    summary: dict[str, Any] = {}
    for name, value in state.items():
        array = np.asarray(value)
        if array.size <= _MAX_REPORTED_VALUES:
            summary[name] = array.tolist()
        else:
            summary[name] = {
                "min": float(array.min()),
                "median": float(np.median(array)),
                "max": float(array.max()),
            }
    return summary


def _state_of_pass(trained_pass: Pass) -> dict[str, np.ndarray]:
    """Return the arrays of one pass, by name."""
    dual = trained_pass.dual
    state = {
        "weights": dual.weights,
        "intercept": dual.intercept,
        "margin": dual.margin,
        "solved": np.asarray([dual.gap, dual.n_iter]),
        "labels": trained_pass.labels,
        "c": trained_pass.c,
    }
    if trained_pass.scale is not None:
        state |= trained_pass.scale.state()
    for name, array in dual.noted.items():
        state[f"noted/{name}"] = array
    for m, factor_state in enumerate(trained_pass.factor_states):
        for name, value in factor_state.items():
            state[f"factor{m}/{name}"] = np.asarray(value)
    return state


def _pass_from_state(
    state: Mapping[str, np.ndarray], factor: Factor | None, *, is_last: bool
) -> Pass:
    """Return the pass that ``_state_of_pass`` described."""
    gap, n_iter = state["solved"]
    dual = DualSolution(
        weights=state["weights"],
        intercept=state["intercept"],
        margin=state["margin"],
        gap=float(gap),
        n_iter=int(n_iter),
        noted=under(state, "noted/"),
    )
    scale = None if is_last else LogScale.from_state(state)
    n_states = 0
    if scale is not None and factor is not None:
        n_states = 1 if factor.scope == "joint" else len(dual.intercept)
    factor_states = [under(state, f"factor{m}/") for m in range(n_states)]
    return Pass(dual, state["labels"], state["c"], scale, tuple(factor_states))


def decisions_at(
    cache: KernelCache,
    machines: Sequence[KernelExpansion],
    x: np.ndarray,
    log_ratio: bool,
) -> list[np.ndarray]:
    """Return f of the last pass at the rows for which the cache was made.

    One matrix product serves all machines if they were trained together on all rows of
    the cache.

    Parameters
    ----------
    cache : KernelCache
    machines : sequence of KernelExpansion
        Those that the last ``fit_passes`` with this cache returned, in their order.
    x : ndarray of shape (n, n_features)
        The cache's rows ``asked``.
    log_ratio : bool
        Return ``KernelExpansion.log_ratio_of`` instead of f.

    Returns
    -------
    list of ndarray of shape (n, n_outputs), one per machine
    """
    across = None
    if len(cache.trained) == len(machines):
        across = cache.across(machines[0].kernel)
    if across is None:
        value_of = Scorer.log_ratios if log_ratio else Scorer.decisions
        return [value_of(machine.scorer, x)[0] for machine in machines]
    sums = _sums_across(machines, across)
    c = [np.ones((len(x), 1))] * len(machines)
    if cache.trained[0] is not None:
        block = KernelBlock(machines[0].kernel, cache.rows, x, across)
        c = c_after([_at_block(block, step, cache) for step in cache.trained])
    decided = []
    for machine, machine_sums, machine_c in zip(machines, sums, c, strict=True):
        value = machine_sums * machine_c + machine.last.dual.intercept
        if log_ratio:
            value = machine.log_ratio_of(machine_sums, machine_c, x)
        decided.append(value)
    return decided


def _sums_across(
    machines: Sequence[KernelExpansion], across: np.ndarray
) -> list[np.ndarray]:
    """Return the kernel sums of machines from the kernel to all training rows.

    Parameters
    ----------
    machines : sequence of KernelExpansion
    across : ndarray of shape (n_training_rows, n)

    Returns
    -------
    list of ndarray of shape (n, n_outputs), one per machine
    """
    n_outputs = machines[0].n_outputs
    weights = np.zeros((len(machines), n_outputs, len(across)))
    for machine_weights, machine in zip(weights, machines, strict=True):
        machine_weights[:, machine.support] = machine.last.coefficients.T
    used = np.flatnonzero(weights.any(axis=(0, 1)))
    used_weights = weights[:, :, used].reshape(-1, len(used))
    sums = used_weights @ across[used]
    sums = sums.reshape(len(machines), n_outputs, across.shape[1])
    return [machine_sums.T for machine_sums in sums]


def _at_block(block: KernelBlock, step: Rescaling, cache: KernelCache) -> Rescaling:
    """Return a rescaling at another block of rows; states are shared by the cache."""
    key = "at", step.state
    if key not in cache.solutions:
        previous = step.state.previous
        if previous is not None:
            previous = _at_block(block, previous, cache)
        cache.solutions[key] = replace(step.state, block=block, previous=previous)
    return replace(step, state=cache.solutions[key])


def under(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in state.items()
        if name.startswith(prefix)
    }


class Scorer:
    """Decisions of several machines of one kernel over one basis.

    Parameters
    ----------
    machines : sequence of KernelExpansion
    rows : ndarray of shape (n_basis, n_features)
        The basis: all rows of the machines.
    basis_index : sequence of int ndarray
        For each machine the indices of its rows in the basis.
    """

    def __init__(
        self,
        machines: Sequence[KernelExpansion],
        rows: np.ndarray,
        basis_index: Sequence[np.ndarray],
    ) -> None:
        self.machines = machines
        self.rows = rows
        self.basis_index = basis_index
        expansions: dict[Key, np.ndarray] = {}
        c: dict[Key, np.ndarray] = {}
        bumps: dict[Key, BumpSum] = {}
        no_rows = KernelBlock(machines[0].kernel, rows, rows[:0])
        for last in self._last_states(no_rows):
            deciding = [last]
            for step in _steps_before(last):
                bumps_of_step = self._bumps_on_basis(step)
                bumps |= bumps_of_step
                # A pass whose c is made of bumps alone needs no decisions.
                if len(bumps_of_step) < len(step.state.outputs):
                    deciding.append(step.state)
            for state in sorted(deciding, key=lambda state: state.pass_number):
                index = state.basis_index
                current = state.current_pass
                expansions[state.key] = self._on_basis(current.coefficients, index)
                c[state.key] = self._on_basis(current.c, index)
        self.sums = ExpansionSums(machines[0].kernel, rows, expansions, bumps, c)

    def _bumps_on_basis(self, step: Rescaling) -> dict[Key, BumpSum]:
        """Return the bumps of a rescaling's factor as sums over the basis."""
        bumps: dict[Key, BumpSum] = {}
        for m, index, (rates, heights, norm) in step.bumps():
            bumps[step.state.pass_number, m] = BumpSum(
                norm, self._on_basis(rates, index), self._on_basis(heights, index)
            )
        return bumps

    def _on_basis(self, values: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return values of some rows of the basis, with zeros for the others."""
        whole = np.zeros((len(self.rows), *values.shape[1:]))
        whole[index] = values
        return whole

    def _last_states(self, block: KernelBlock) -> list[KernelMachineState]:
        """Return every machine after its last pass, at a block of rows.

        The passes of all machines are numbered consecutively.
        """
        last_states = []
        n_passes = 0
        for machine, index in zip(self.machines, self.basis_index, strict=True):
            previous = None
            for trained_pass in machine.chain:
                state = KernelMachineState(
                    current_pass=trained_pass,
                    block=block,
                    previous=previous,
                    rows=machine.rows,
                    basis_index=index,
                    class_counts=machine.class_counts,
                    pass_number=n_passes,
                )
                n_passes += 1
                if trained_pass.scale is not None:
                    assert machine.factor is not None
                    previous = Rescaling(state, machine.factor, trained_pass)
            last_states.append(state)
        return last_states

    def decisions(self, x: np.ndarray) -> list[np.ndarray]:
        """Return f of the last pass at x, (n, n_outputs) for each machine."""
        blocks = []
        for states in self._by_block(x):
            blocks.append([state.decisions for state in states])
        return _joined(blocks)

    def log_ratios(self, x: np.ndarray) -> list[np.ndarray]:
        """Return log((f + rho) / rho) at x, (n, 1) for each one-class machine."""
        blocks = []
        for states in self._by_block(x):
            ratios = []
            for machine, state in zip(self.machines, states, strict=True):
                ratio = machine.log_ratio_of(state.kernel_sums, state.c, state.x)
                ratios.append(ratio)
            blocks.append(ratios)
        return _joined(blocks)

    def factors(self, x: np.ndarray) -> list[np.ndarray]:
        """Return c of the last pass at x, (n, 1) or (n, n_outputs) for each machine."""
        blocks = []
        for states in self._by_block(x):
            blocks.append([state.c for state in states])
        return _joined(blocks)

    def _by_block(self, x: np.ndarray) -> Iterator[list[KernelMachineState]]:
        """Yield the machines' states at a block of rows at a time."""
        bytes_of_row = 8 * max(len(self.rows), 1)
        size = max(64, _BLOCK_BYTES // bytes_of_row)
        kernel = self.machines[0].kernel
        # Without rows there is one block, which is empty.
        for start in range(0, max(len(x), 1), size):
            rows = x[start : start + size]
            block = KernelBlock(kernel, self.rows, rows, sums=self.sums.at(rows))
            yield self._last_states(block)


def _joined(blocks: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the values of each machine at all rows, from those at each block."""
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


@dataclass(frozen=True)
class PassProblem:
    """Training data of the passes of one kernel machine.

    Parameters
    ----------
    cache : KernelCache
        Of the training rows.
    kernel : Kernel
        gamma a number.
    gram : ndarray or KernelRows
        K over the rows of the cache; never changed.
    labels : ndarray of shape (n_rows, n_outputs)
        +1, -1, or 0 for a row outside the output's problem.
    class_counts : ndarray of shape (n_classes,)
    solve : callable
        Returns the solutions of K~ for several c.
    solve_key : hashable, optional
        Identifies what ``solve`` does: fits with one key on one Gram matrix share their
        first pass.
    """

    cache: KernelCache
    kernel: Kernel
    gram: Gram
    labels: np.ndarray
    class_counts: np.ndarray
    solve: Solve
    solve_key: Hashable = None


def fit_passes(
    problem: PassProblem,
    factors: Sequence[Factor | None],
    n_rescalings: int,
    normalise: bool,
) -> list[KernelExpansion]:
    """Fit the first pass; then rescale the kernel by c and fit again, so many times.

    Parameters
    ----------
    problem : PassProblem
    factors : sequence of Factor or None
        They share one first pass and differ only in fields that they let vary.
    n_rescalings : int
        Number of passes after the first one; without a factor there are none.
    normalise : bool
        Divide each factor by its root mean square over the training rows.

    Returns
    -------
    list of KernelExpansion, one per factor
    """
    states = [_first_pass(problem)] * len(factors)
    if factors[0] is None:
        n_rescalings = 0
    for _ in range(n_rescalings):
        states = _next_pass(states, factors, problem.solve, normalise)
    problem.cache.trained = [state.previous for state in states]
    return list(starmap(_join_passes, zip(states, factors, strict=True)))


def _first_pass(problem: PassProblem) -> KernelMachineState:
    """Return the machine after its first pass, from the cache if possible."""
    cache = problem.cache
    key = "first", problem.solve_key
    if problem.solve_key is not None and key in cache.solutions:
        return cache.solutions[key]
    ones = np.ones((len(cache.rows), 1))
    (dual,) = problem.solve([ones])
    first_pass = Pass(dual, problem.labels, ones)
    # A matrix that is computed by rows is for the solver alone.
    matrix = problem.gram if isinstance(problem.gram, np.ndarray) else None
    state = KernelMachineState(
        current_pass=first_pass,
        block=KernelBlock(
            problem.kernel, cache.rows, cache.rows, matrix, symmetric=True
        ),
        previous=None,
        rows=cache.rows,
        basis_index=np.arange(len(cache.rows)),
        class_counts=problem.class_counts,
        # A weak reference: the cache refers to the state, and its Gram matrices would
        # otherwise stay in memory until the next garbage collection.
        cache=weakref.proxy(cache),
    )
    if problem.solve_key is not None:
        cache.solutions[key] = state
    return state


def _next_pass(
    states: list[KernelMachineState],
    factors: Sequence[Factor | None],
    solve: Solve,
    normalise: bool,
) -> list[KernelMachineState]:
    """Return the machines after one more pass, each rescaled by its factor."""
    steps = [
        Rescaling(state, factor, state.fit_factor(factor))
        for state, factor in zip(states, factors, strict=True)
        if factor is not None
    ]
    scaled_steps = []
    c = []
    for step, log_factor in zip(steps, log_factors(steps), strict=True):
        log_c = np.log(step.state.c)
        scale = LogScale.fit(log_c, log_factor, normalise)
        fitted_pass = replace(step.fitted_pass, scale=scale)
        scaled_steps.append(replace(step, fitted_pass=fitted_pass))
        c.append(np.exp(scale.add(log_c, log_factor)))
    next_states = []
    for step, dual, c_of_step in zip(scaled_steps, solve(c), c, strict=True):
        next_pass = Pass(dual, step.fitted_pass.labels, c_of_step)
        next_states.append(replace(step.state, current_pass=next_pass, previous=step))
    return next_states


def _steps_before(last: KernelMachineState) -> list[Rescaling]:
    """Return the rescalings that led to a pass, from the first on."""
    if last.previous is None:
        return []
    return [*_steps_before(last.previous.state), last.previous]


def _join_passes(last: KernelMachineState, factor: Factor | None) -> KernelExpansion:
    """Join all passes up to the last one, on the union of their support vectors."""
    chain = [step.fitted_pass for step in _steps_before(last)]
    chain.append(last.current_pass)
    weights = np.hstack([each_pass.dual.weights for each_pass in chain])
    support = np.flatnonzero(np.any(weights != 0, axis=1))
    return KernelExpansion(
        kernel=last.kernel,
        rows=last.rows[support],
        support=support,
        chain=tuple([each_pass.take(support) for each_pass in chain]),
        factor=factor,
        class_counts=last.class_counts,
    )
