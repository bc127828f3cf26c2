"""Decisions of trained machines at new rows: what several of them share is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from screening.machines.basis import Basis
from screening.machines.first_pass import Stage
from screening.machines.sums import Bumps, Key, Sums

if TYPE_CHECKING:
    from screening.machines.passes import Passes

_BLOCK_BYTES = 32_000_000


class Scorer:
    """Machines of one kernel over one basis.

    Parameters
    ----------
    machines : sequence of Passes
    rows : ndarray of shape (n_basis, n_features)
        Holds the rows of every machine.
    places : sequence of ndarray of int
        Where each machine's rows are among them.
    """

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
