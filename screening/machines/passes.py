"""First pass, factor, second pass: the loop machines train by, what it leaves, and what that decides."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.factors.base import Factor
from screening.kernels import Scale, kernel_cache
from screening.kernels.base import Kernel
from screening.machines.first_pass import Stage, c_after, log_factors_at
from screening.machines.kernel_sums import Basis, Bumps, Key, Sums
from screening.machines.training import Dual, Pass
from screening.solvers.kernel_rows import Gram


@dataclass(frozen=True)
class Passes:
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
        return decisions_of([self], x)[0]

    def factors(self, x: np.ndarray) -> np.ndarray:
        """The product of all factors at the rows of x: c of the last pass, (n, 1) or (n, n_outputs)."""
        return self.scorer.factors(x)[0]

    @cached_property
    def scorer(self) -> Scorer:
        """This machine alone, ready to score."""
        return Scorer([self], self.rows, [np.arange(len(self.rows))])

    def moved(self, threshold: float) -> Passes:
        """The same machine with ``threshold`` subtracted from its decision."""
        dual = replace(self.last.dual, intercept=self.last.dual.intercept - threshold)
        return self._ending(dual)

    def divided(self, scale: float) -> Passes:
        """The same machine with its decision divided by ``scale``, a positive number."""
        dual = self.last.dual
        return self._ending(replace(dual, weights=dual.weights / scale, intercept=dual.intercept / scale))

    def _ending(self, dual: Dual) -> Passes:
        return replace(self, chain=(*self.chain[:-1], replace(self.last, dual=dual)))

    def report(self) -> list[dict[str, Any]]:
        """Per pass, in plain values: support vectors, gap, iterations, the factor made from it."""
        return [
            {
                "n_support": int(np.any(one.dual.weights != 0, axis=1).sum()),
                "kkt_gap": one.dual.gap,
                "n_iter": one.dual.n_iter,
                "factor": [{key: _told(value) for key, value in each.items()} for each in one.remembered],
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
                state |= {f"pass{t}/{key}": value for key, value in one.scale.state().items()}
            state |= {f"pass{t}/noted/{key}": value for key, value in one.dual.noted.items()}
            for m, each in enumerate(one.remembered):
                state |= {f"pass{t}/factor{m}/{key}": np.asarray(value) for key, value in each.items()}
        return state

    @classmethod
    def from_state(cls, kernel: Kernel, factor: Factor | None, state: Mapping[str, np.ndarray]) -> Passes:
        """Inverse of ``state``; kernel and factor are the recipe's. ModelError where arrays do not fit."""
        try:
            chain = tuple(_pass_from(state, t) for t in range(int(state["n_passes"])))
            passes = cls(
                kernel=replace(kernel, gamma=float(state["gamma"])),
                rows=state["rows"],
                support=state["support"],
                chain=chain,
                factor=factor,
                class_counts=state["class_counts"],
            )
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        n_basis, n_outputs = len(passes.rows), len(chain[0].dual.intercept) if chain else 0
        wrong = [t for t, one in enumerate(chain) if not _fits(one, n_basis, n_outputs)]
        if not chain or wrong or passes.rows.ndim != 2 or passes.support.shape != (n_basis,):
            raise ModelError("the model's arrays do not fit each other")
        return passes


def decisions_of(machines: Sequence[Passes], x: np.ndarray) -> list[np.ndarray]:
    """f of the last pass of several machines at the rows of x, (n, n_outputs) each.

    By one product where they were trained together on shared rows, and x is what all are asked about.
    """
    here = kernel_cache.current()
    known = [None if here is None else here.trained_on(each.rows, x) for each in machines]
    found = [one for one in known if one is not None]
    if len(found) < len(machines):
        return [each.scorer.decisions(x)[0] for each in machines]
    before, held = [stage for stage, _ in found if stage is not None], found[0][1]
    n_outputs = len(machines[0].last.dual.intercept)
    weights = np.zeros((len(machines), n_outputs, len(held)))
    for own, each in zip(weights, machines, strict=True):
        own[:, each.support] = each.last.coefficients.T
    used = np.flatnonzero(weights.any(axis=(0, 1)))
    sums = weights[:, :, used].reshape(-1, len(used)) @ held[used]
    sums = sums.reshape(len(machines), n_outputs, len(x))
    c = [np.ones((len(x), 1))] * len(machines)
    if before:
        before[0].basis.across = (x, held)
        c = c_after(before, x)
    return [
        own.T * factor + each.last.dual.intercept for own, factor, each in zip(sums, c, machines, strict=True)
    ]


def _pass_from(state: Mapping[str, np.ndarray], t: int) -> Pass:
    get = {key.split("/", 1)[1]: value for key, value in state.items() if key.startswith(f"pass{t}/")}
    scale = Scale.from_state(get) if t + 1 < int(state["n_passes"]) else None
    gap, n_iter = get["solved"]
    noted = {key.split("/", 1)[1]: value for key, value in get.items() if key.startswith("noted/")}
    dual = Dual(get["weights"], get["intercept"], get["margin"], float(gap), int(n_iter), noted)
    remembered: list[dict[str, np.ndarray]] = []
    while found := {key: value for key, value in get.items() if key.startswith(f"factor{len(remembered)}/")}:
        remembered.append({key.split("/", 1)[1]: value for key, value in found.items()})
    return Pass(dual, get["labels"], get["c"], scale, tuple(remembered))


def _fits(one: Pass, n_basis: int, n_outputs: int) -> bool:
    full = (n_basis, n_outputs)
    dual = one.dual
    return (
        dual.weights.shape == dual.margin.shape == one.labels.shape == full
        and dual.intercept.shape == (n_outputs,)
        and one.c.shape in ((n_basis, 1), full)
        and (one.scale is None or one.scale.fits(n_outputs))
    )


def _told(value: Any) -> Any:
    array = np.asarray(value)
    if array.size <= 16:
        return array.tolist()
    return {"min": float(array.min()), "median": float(np.median(array)), "max": float(array.max())}


_BLOCK_BYTES = 32_000_000


class Scorer:
    """Machines of one kernel over one basis, `rows`, in which each machine's own rows are at its `places`."""

    def __init__(self, machines: Sequence[Passes], rows: np.ndarray, places: Sequence[np.ndarray]) -> None:
        self.machines = machines
        self.rows = rows
        self.places = places
        plain = Basis(machines[0].kernel, rows)
        expansions: dict[Key, np.ndarray] = {}
        c: dict[Key, np.ndarray] = {}
        bumps: dict[Key, Bumps] = {}
        for stages in self._chains(plain):
            for stage in stages:
                own = {
                    (stage.key[0], m): Bumps(norm, *(self._on_basis(each, at) for each in (rates, heights)))
                    for m, at, (rates, heights, norm) in (stage.bumps() if stage.one.remembered else ())
                }
                bumps |= own
                # Who makes c of bumps alone never asks what the pass decides.
                if stage is stages[-1] or len(own) < len(stage.outputs):
                    expansions[stage.key] = self._on_basis(stage.one.coefficients, stage.places)
                    c[stage.key] = self._on_basis(stage.one.c, stage.places)
        self.sums = Sums(machines[0].kernel, rows, expansions, bumps, c)

    def _on_basis(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        whole = np.zeros((len(self.rows), *values.shape[1:]))
        whole[places] = values
        return whole

    def _chains(self, basis: Basis) -> list[list[Stage]]:
        """Every machine's passes as factors see them, numbered through."""
        chains, number = [], 0
        for machine, places in zip(self.machines, self.places, strict=True):
            stages: list[Stage] = []
            for one in machine.chain:
                before = stages[-1] if stages else None
                stages.append(
                    Stage(
                        basis, one, before, machine.factor, machine.class_counts, machine.rows, places, number
                    )
                )
                number += 1
            chains.append(stages)
        return chains

    def _last_stages(self, x: np.ndarray) -> Iterator[tuple[np.ndarray, list[Stage]]]:
        size = max(64, _BLOCK_BYTES // (8 * max(len(self.rows), 1)))
        for start in range(0, len(x), size):
            block = x[start : start + size]
            basis = Basis(self.machines[0].kernel, self.rows, sums=self.sums)
            yield block, [stages[-1] for stages in self._chains(basis)]

    def decisions(self, x: np.ndarray) -> list[np.ndarray]:
        """f of the last pass at the rows of x, (n, n_outputs) a machine."""
        blocks = [[stage.decisions(block) for stage in stages] for block, stages in self._last_stages(x)]
        if not blocks:
            return [np.empty((0, len(each.last.dual.intercept))) for each in self.machines]
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]

    def factors(self, x: np.ndarray) -> list[np.ndarray]:
        """c of the last pass at the rows of x, (n, 1) or (n, n_outputs) a machine."""
        blocks = [[stage.c(block) for stage in stages] for block, stages in self._last_stages(x)]
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]


def fit_passes(
    kernel: Kernel,
    rows: np.ndarray,
    gram: Gram,
    labels: np.ndarray,
    class_counts: np.ndarray,
    solve: Callable[[Sequence[np.ndarray]], list[Dual]],
    factors: Sequence[Factor | None],
    n_passes: int,
    normalise: bool,
    name: Hashable = None,
) -> list[Passes]:
    """Train, build c from what was learned, train again: ``n_passes`` times, for each of several factors.

    `gram` is K over the rows, and never changed; `solve` makes of several c, (n_rows, 1) or (n_rows,
    n_outputs), the Duals of K~. Several factors share one first pass, and are equal but for fields that they
    let vary. Each is divided by its root mean square over the training rows where it is to `normalise`.
    `name` is of what ``solve`` does: where fits share these rows, those of one name share their first pass
    too.
    """
    with kernel_cache.over(rows) as here:
        here.keep(kernel, gram)
        plain = None if name is None else here.solutions_on(gram)
        first = None if plain is None else plain.get(("first", name))
        if first is None:
            ones = np.ones((len(rows), 1))
            one = Pass(solve([ones])[0], labels, ones)
            first = Stage(
                Basis(kernel, rows, gram), one, None, None, class_counts, rows, np.arange(len(rows))
            )
            if plain is not None:
                plain["first", name] = first
        stages = [first.under(factor) for factor in factors]
        for _ in range(n_passes if factors[0] is not None else 0):
            stages = _next(stages, solve, normalise)
        machines = [_joined(stage, factor) for stage, factor in zip(stages, factors, strict=True)]
        here.trained(
            kernel, [(each.rows, last.previous) for each, last in zip(machines, stages, strict=True)]
        )
        return machines


def _next(
    stages: list[Stage], solve: Callable[[Sequence[np.ndarray]], list[Dual]], normalise: bool
) -> list[Stage]:
    """The pass that follows each of these, which get their factors."""
    remembered = [stage.learn() for stage in stages]
    factors = []
    for stage, kept, now in zip(stages, remembered, log_factors_at(stages, stages[0].rows), strict=True):
        before = np.log(stage.one.c)
        scale = Scale.over(before, now, normalise)
        stage.one = replace(stage.one, scale=scale, remembered=kept)
        factors.append(np.exp(scale.added(before, now)))
    return [
        stage.followed_by(Pass(dual, stage.one.labels, c))
        for stage, dual, c in zip(stages, solve(factors), factors, strict=True)
    ]


def _joined(last: Stage, factor: Factor | None) -> Passes:
    """All passes up to the last one, on the union of their support vectors."""
    chain: list[Pass] = []
    stage: Stage | None = last
    while stage is not None:
        chain.insert(0, stage.one)
        stage = stage.previous
    kept = np.flatnonzero(np.any([np.any(one.dual.weights != 0, axis=1) for one in chain], axis=0))
    taken = tuple(one.take(kept) for one in chain)
    return Passes(last.kernel, last.rows[kept], kept, taken, factor, last.class_counts)
