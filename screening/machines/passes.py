"""The passes that training leaves behind: a machine's state, and what it decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from screening.errors import ModelError
from screening.factors.base import Factor
from screening.kernels import Scale, shared
from screening.kernels.base import Kernel
from screening.machines.first_pass import c_after
from screening.machines.scorer import Scorer


@dataclass(frozen=True)
class Dual:
    """What solving one pass gives: f_m(x) = sum_i weights_im c_i c(x) K(x_i, x) + intercept_m.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, n_outputs)
        alpha_i with its sign; exactly 0 off the support.
    intercept : ndarray of shape (n_outputs,)
    margin : ndarray of bool, shape (n_rows, n_outputs)
        0 < alpha_i < bound.
    gap : float
        Largest over the outputs.
    n_iter : int
        Summed over the outputs.
    noted : dict of ndarray
        What a remedy wants kept and told, by name.
    """

    weights: np.ndarray
    intercept: np.ndarray
    margin: np.ndarray
    gap: float
    n_iter: int
    noted: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """One trained pass over the basis rows (the training rows, later the support vectors of any pass).

    Parameters
    ----------
    dual : Dual
    labels : ndarray of shape (n_basis, n_outputs)
        +1, -1, or 0 for a row outside the output's problem.
    c : ndarray of shape (n_basis, 1) or (n_basis, n_outputs)
        Product of the factors of all passes before.
    scale : Scale or None
        How log c of the next pass is scaled and bounded; None in the last.
    remembered : tuple of dict
        The factor's parameters, one dict an output (one in all for a joint factor); empty in the last pass.
    """

    dual: Dual
    labels: np.ndarray
    c: np.ndarray
    scale: Scale | None = None
    remembered: tuple[dict[str, np.ndarray], ...] = ()

    @property
    def coefficients(self) -> np.ndarray:
        """weights * c, (n_basis, n_outputs)."""
        return self.dual.weights * self.c

    def take(self, kept: np.ndarray) -> Pass:
        of = self.dual
        dual = Dual(of.weights[kept], of.intercept, of.margin[kept], of.gap, of.n_iter, of.noted)
        return Pass(dual, self.labels[kept], self.c[kept], self.scale, self.remembered)


@dataclass(frozen=True)
class Passes:
    """All passes of a fitted machine, on the union of their support vectors.

    Parameters
    ----------
    kernel : Gaussian or Laplacian, gamma a number
    rows : ndarray of shape (n_basis, n_features)
    support : ndarray of int, shape (n_basis,)
        Row numbers of ``rows`` in the training table.
    chain : tuple of Pass
    factor : Factor or None
    class_counts : ndarray of shape (n_classes,)
    """

    kernel: Kernel
    rows: np.ndarray
    support: np.ndarray
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
        """Inverse of ``state``; ``kernel`` and ``factor`` are the recipe's.

        Raises
        ------
        ModelError
            If an array is missing or of a shape that does not fit the others.
        """
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
    here = shared.current()
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
