"""First pass, factor, second pass: the loop machines train by, what it leaves, and what that decides."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.factors.first_pass import (
    DualSolution,
    Factor,
    KernelMachineState,
    Pass,
    Rescaling,
    c_after,
    log_factors,
)
from screening.kernels import Scale
from screening.kernels.base import Kernel
from screening.kernels.expansions import Bumps, ExpansionSums, KernelBlock, Key
from screening.kernels.kernel_cache import KernelCache
from screening.solvers.kernel_rows import Gram


@dataclass(frozen=True)
class KernelExpansion:
    """All passes of a fitted machine, on the union of their support vectors."""

    kernel: Kernel
    rows: np.ndarray  # (n_basis, n_features)
    support: np.ndarray  # row numbers of ``rows`` in the training table
    chain: tuple[Pass, ...]
    factor: Factor | None
    class_counts: np.ndarray

    @property
    def last(self) -> Pass:
        return self.chain[-1]

    def decisions(self, x: np.ndarray, upto: int | None = None) -> np.ndarray:
        """f of the last pass (or of pass ``upto``) at the rows of x, (n, n_outputs)."""
        if upto is not None:
            return replace(self, chain=self.chain[: upto + 1]).decisions(x)
        return self.scorer.decisions(x)[0]

    def factors(self, x: np.ndarray) -> np.ndarray:
        """The product of all factors at the rows of x: c of the last pass, (n, 1) or (n, n_outputs)."""
        return self.scorer.factors(x)[0]

    @cached_property
    def scorer(self) -> Scorer:
        """This machine alone, ready to score."""
        # Of another than this one: each would hold the other until the garbage collector comes by.
        return Scorer([replace(self)], self.rows, [np.arange(len(self.rows))])

    def moved(self, threshold: float) -> KernelExpansion:
        """The same machine with ``threshold`` subtracted from its decision."""
        dual = replace(self.last.dual, intercept=self.last.dual.intercept - threshold)
        return self._ending(dual)

    def divided(self, scale: float) -> KernelExpansion:
        """The same machine with its decision divided by ``scale``, a positive number."""
        dual = self.last.dual
        return self._ending(
            replace(
                dual, weights=dual.weights / scale, intercept=dual.intercept / scale
            )
        )

    def _ending(self, dual: DualSolution) -> KernelExpansion:
        return replace(self, chain=(*self.chain[:-1], replace(self.last, dual=dual)))

    def report(self) -> list[dict[str, Any]]:
        """Per pass, in plain values: support vectors, gap, iterations, the factor made from it."""
        return [
            {
                "n_support": int(np.any(one.dual.weights != 0, axis=1).sum()),
                "kkt_gap": one.dual.gap,
                "n_iter": one.dual.n_iter,
                "factor": [
                    {key: _summarised(value) for key, value in parameters.items()}
                    for parameters in one.remembered
                ],
                **{key: value.tolist() for key, value in one.dual.noted.items()},
            }
            for one in self.chain
        ]

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which ``from_state`` makes the same machine, bit for bit."""
        state = {
            "gamma": np.asarray(self.kernel.gamma, float),
            "n_passes": np.asarray(len(self.chain)),
            "rows": self.rows,
            "support": self.support,
            "class_counts": self.class_counts,
        }
        for t, one in enumerate(self.chain):
            state |= {
                f"pass{t}/weights": one.dual.weights,
                f"pass{t}/intercept": one.dual.intercept,
                f"pass{t}/margin": one.dual.margin,
                f"pass{t}/solved": np.asarray([one.dual.gap, one.dual.n_iter]),
                f"pass{t}/labels": one.labels,
                f"pass{t}/c": one.c,
            }
            if one.scale is not None:
                state |= {
                    f"pass{t}/{key}": value for key, value in one.scale.state().items()
                }
            state |= {
                f"pass{t}/noted/{key}": value for key, value in one.dual.noted.items()
            }
            for m, parameters in enumerate(one.remembered):
                state |= {
                    f"pass{t}/factor{m}/{key}": np.asarray(value)
                    for key, value in parameters.items()
                }
        return state

    @classmethod
    def from_state(
        cls, kernel: Kernel, factor: Factor | None, state: Mapping[str, np.ndarray]
    ) -> KernelExpansion:
        """Inverse of ``state``; kernel and factor are the recipe's."""
        chain = []
        n_passes = int(state["n_passes"])
        for t in range(n_passes):
            get = under(state, f"pass{t}/")
            gap, n_iter = get["solved"]
            dual = DualSolution(
                get["weights"],
                get["intercept"],
                get["margin"],
                float(gap),
                int(n_iter),
                under(get, "noted/"),
            )
            scale = Scale.from_state(get) if t + 1 < n_passes else None
            n_factors = 0
            if scale is not None and factor is not None:
                n_factors = 1 if factor.scope == "joint" else len(dual.intercept)
            remembered = (under(get, f"factor{m}/") for m in range(n_factors))
            chain.append(Pass(dual, get["labels"], get["c"], scale, tuple(remembered)))
        return cls(
            kernel=replace(kernel, gamma=float(state["gamma"])),
            rows=state["rows"],
            support=state["support"],
            chain=tuple(chain),
            factor=factor,
            class_counts=state["class_counts"],
        )


def decisions_at(
    cache: KernelCache, machines: Sequence[KernelExpansion], x: np.ndarray
) -> list[np.ndarray]:
    """f of the last pass of the machines fitted last, at the rows the cache was told of, (n, n_outputs) each.

    By one product where the machines were trained together on all the cache's rows.
    """
    across = None
    if len(cache.trained) == len(machines):
        across = cache.across(machines[0].kernel)
    if across is None:
        return [machine.scorer.decisions(x)[0] for machine in machines]
    n_outputs = len(machines[0].last.dual.intercept)
    weights = np.zeros((len(machines), n_outputs, len(across)))
    for own, machine in zip(weights, machines, strict=True):
        own[:, machine.support] = machine.last.coefficients.T
    used = np.flatnonzero(weights.any(axis=(0, 1)))
    sums = weights[:, :, used].reshape(-1, len(used)) @ across[used]
    sums = sums.reshape(len(machines), n_outputs, len(x))
    c = [np.ones((len(x), 1))] * len(machines)
    if cache.trained[0] is not None:
        block = KernelBlock(machines[0].kernel, cache.rows, x, across)
        c = c_after([_at(block, step, cache) for step in cache.trained])
    return [
        own.T * factor + machine.last.dual.intercept
        for own, factor, machine in zip(sums, c, machines, strict=True)
    ]


def _at(block: KernelBlock, step: Rescaling, cache: KernelCache) -> Rescaling:
    """The same at another block of rows; what passes of several factors share is made once."""
    name = "at", step.state
    if name not in cache.solutions:
        before = (
            None if step.state.before is None else _at(block, step.state.before, cache)
        )
        cache.solutions[name] = replace(step.state, block=block, before=before)
    return replace(step, state=cache.solutions[name])


def under(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in state.items()
        if name.startswith(prefix)
    }


def _summarised(value: Any) -> Any:
    array = np.asarray(value)
    if array.size <= 16:
        return array.tolist()
    return {
        "min": float(array.min()),
        "median": float(np.median(array)),
        "max": float(array.max()),
    }


_BLOCK_BYTES = 32_000_000


class Scorer:
    """Machines of one kernel over one basis, `rows`, in which each machine's own rows are at its `places`."""

    def __init__(
        self,
        machines: Sequence[KernelExpansion],
        rows: np.ndarray,
        places: Sequence[np.ndarray],
    ) -> None:
        self.machines = machines
        self.rows = rows
        self.places = places
        expansions: dict[Key, np.ndarray] = {}
        c: dict[Key, np.ndarray] = {}
        bumps: dict[Key, Bumps] = {}
        for last in self._states(KernelBlock(machines[0].kernel, rows, rows[:0])):
            deciding = [last]
            for step in _steps(last):
                state = step.state
                own = {
                    (state.number, m): Bumps(
                        norm, self._on_basis(rates, at), self._on_basis(heights, at)
                    )
                    for m, at, (rates, heights, norm) in step.bumps()
                }
                bumps |= own
                # Who makes c of bumps alone never asks what the pass decides.
                if len(own) < len(state.outputs):
                    deciding.append(state)
            for state in sorted(deciding, key=lambda state: state.number):
                expansions[state.key] = self._on_basis(
                    state.one.coefficients, state.places
                )
                c[state.key] = self._on_basis(state.one.c, state.places)
        self.sums = ExpansionSums(machines[0].kernel, rows, expansions, bumps, c)

    def _on_basis(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        whole = np.zeros((len(self.rows), *values.shape[1:]))
        whole[places] = values
        return whole

    def _states(self, block: KernelBlock) -> list[KernelMachineState]:
        """Every machine after its last pass, the passes of all numbered through."""
        last, number = [], 0
        for machine, places in zip(self.machines, self.places, strict=True):
            before = None
            for one in machine.chain:
                state = KernelMachineState(
                    one,
                    block,
                    before,
                    machine.rows,
                    places,
                    machine.class_counts,
                    number,
                )
                number += 1
                if one.scale is not None:
                    assert machine.factor is not None
                    before = Rescaling(state, machine.factor, one)
            last.append(state)
        return last

    def _by_blocks(self, x: np.ndarray) -> Iterator[list[KernelMachineState]]:
        size = max(64, _BLOCK_BYTES // (8 * max(len(self.rows), 1)))
        for start in range(0, len(x), size):
            block = KernelBlock(
                self.machines[0].kernel,
                self.rows,
                x[start : start + size],
                sums=self.sums,
            )
            yield self._states(block)

    def decisions(self, x: np.ndarray) -> list[np.ndarray]:
        """f of the last pass at the rows of x, (n, n_outputs) a machine."""
        blocks = [
            [state.decisions for state in states] for states in self._by_blocks(x)
        ]
        if not blocks:
            return [
                np.empty((0, len(machine.last.dual.intercept)))
                for machine in self.machines
            ]
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

    def factors(self, x: np.ndarray) -> list[np.ndarray]:
        """c of the last pass at the rows of x, (n, 1) or (n, n_outputs) a machine."""
        blocks = [[state.c for state in states] for states in self._by_blocks(x)]
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def fit_passes(
    cache: KernelCache,
    kernel: Kernel,
    gram: Gram,
    labels: np.ndarray,
    class_counts: np.ndarray,
    solve: Callable[[Sequence[np.ndarray]], list[DualSolution]],
    factors: Sequence[Factor | None],
    n_passes: int,
    normalise: bool,
    name: Hashable = None,
) -> list[KernelExpansion]:
    """Train, build c from what was learned, train again: ``n_passes`` times, for each of several factors.

    `gram` is K over the rows of the cache, and never changed; `solve` makes of several c, (n_rows, 1) or
    (n_rows, n_outputs), the Duals of K~. Several factors share one first pass, and are equal but for fields
    that they let vary. Each is divided by its root mean square over the training rows where it is to
    `normalise`. `name` is of what ``solve`` does: fits of one name on one Gram share their first pass too.
    """
    rows = cache.rows
    first = None if name is None else cache.solutions.get(("first", name))
    if first is None:
        ones = np.ones((len(rows), 1))
        one = Pass(solve([ones])[0], labels, ones)
        matrix = (
            gram if isinstance(gram, np.ndarray) else None
        )  # by rows it is for the solver alone
        block = KernelBlock(kernel, rows, rows, matrix, symmetric=True)
        # Not to hold the cache that holds it: its Grams would wait for the garbage collector.
        first = KernelMachineState(
            one,
            block,
            None,
            rows,
            np.arange(len(rows)),
            class_counts,
            cache=weakref.proxy(cache),
        )
        if name is not None:
            cache.solutions["first", name] = first
    states = [first] * len(factors)
    for _ in range(n_passes if factors[0] is not None else 0):
        states = _next(states, factors, solve, normalise)
    cache.trained = [state.before for state in states]
    return [
        _joined(state, factor) for state, factor in zip(states, factors, strict=True)
    ]


def _next(
    states: list[KernelMachineState],
    factors: Sequence[Factor | None],
    solve: Callable[[Sequence[np.ndarray]], list[DualSolution]],
    normalise: bool,
) -> list[KernelMachineState]:
    """The pass that follows each of these, by its factor."""
    steps = [
        Rescaling(state, factor, state.learn(factor))
        for state, factor in zip(states, factors, strict=True)
        if factor is not None
    ]
    scaled, c = [], []
    for step, now in zip(steps, log_factors(steps), strict=True):
        before = np.log(step.state.c)
        scale = Scale.over(before, now, normalise)
        scaled.append(replace(step, one=replace(step.one, scale=scale)))
        c.append(np.exp(scale.added(before, now)))
    return [
        replace(step.state, one=Pass(dual, step.one.labels, own), before=step)
        for step, dual, own in zip(scaled, solve(c), c, strict=True)
    ]


def _steps(last: KernelMachineState) -> list[Rescaling]:
    """What led to a pass, from the first on."""
    return [] if last.before is None else [*_steps(last.before.state), last.before]


def _joined(last: KernelMachineState, factor: Factor | None) -> KernelExpansion:
    """All passes up to the last one, on the union of their support vectors."""
    chain = [*(step.one for step in _steps(last)), last.one]
    kept = np.flatnonzero(
        np.any([np.any(one.dual.weights != 0, axis=1) for one in chain], axis=0)
    )
    taken = tuple(one.take(kept) for one in chain)
    return KernelExpansion(
        last.kernel, last.rows[kept], kept, taken, factor, last.class_counts
    )
