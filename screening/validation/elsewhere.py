"""Folds times settings fitted by other processes: rows and machines go by files, which alone are named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np

from screening.cluster import Cluster
from screening.errors import ClusterError
from screening.files import digest_of_json
from screening.kernels import shared
from screening.kernels.threads import limit_threads
from screening.machines.fold_ensemble import under
from screening.recipes.building import build
from screening.recipes.recipe import Recipe
from screening.storage import finished
from screening.storage.arrays import pack
from screening.validation.candidates import Parameters, by_shared_work, kernel_of
from screening.validation.encoded import EncodedRows
from screening.validation.fold_fits import FoldFit, fit_fold


@dataclass(frozen=True)
class Fit:
    """What a worker is told: where the rows lie, which are held out, what is fitted, and where it is written.

    Parameters
    ----------
    rows, digest : str
        File of the encoded rows, and what must be found there.
    recipe : Recipe
    n_classes : int
    deal, fold : int
        Which dealing of the folds, and which fold of it is held out.
    settings : sequence of dict
        With one kernel: they share their work.
    n_settings : int
        Of the whole search.
    memory : int, optional
    threads : int
    out : str
    """

    rows: str
    digest: str
    recipe: Recipe
    n_classes: int
    deal: int
    fold: int
    settings: Sequence[Parameters]
    n_settings: int
    memory: int | None
    threads: int
    out: str


def fit(asked: Fit) -> None:
    """Fit a fold at some settings, and write machines and decisions."""
    from threadpoolctl import threadpool_limits

    x, target, groups, fold, distances = _rows(asked.rows, asked.digest, asked.memory)
    rows = EncodedRows(asked.recipe, asked.n_classes, x, target, groups, distances)
    with limit_threads(asked.threads), threadpool_limits(1, user_api="blas"):
        found = fit_fold(rows, fold[asked.deal] == asked.fold, asked.settings, asked.n_settings)
    arrays = {"seconds": np.array(found.seconds)}
    for at, (machine, decisions) in enumerate(zip(found.machines, found.decisions, strict=True)):
        arrays[f"{at}/decisions"] = decisions
        arrays |= {f"{at}/machine/{name}": value for name, value in machine.state().items()}
    finished.keep(Path(asked.out), arrays)


@lru_cache(1)
def _rows(
    path: str, digest: str, memory: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray, shared.Distances]:
    arrays = finished.take_known(path, digest)
    x = np.ascontiguousarray(arrays["x"])
    return x, arrays["target"], arrays.get("groups"), arrays["fold"], shared.Distances(x, memory)


@dataclass(frozen=True)
class Elsewhere:
    """Workers, and the private folder that they read rows from and write machines to.

    Parameters
    ----------
    cluster : Cluster
    place : Path
    """

    cluster: Cluster
    place: Path

    def takes(self, recipe: Recipe) -> bool:
        """Whether machines of this recipe can be told by arrays."""
        return recipe.persistable

    def folds(
        self, encoded: EncodedRows, dealt: np.ndarray, deal: int,
        settings: Sequence[Parameters], memory: int | None,
    ) -> Iterator[FoldFit]:  # fmt: skip
        """Every fold of a dealing at every setting, in the order of the folds.

        Parameters
        ----------
        dealt : ndarray of int, shape (n_repeats, n_rows)
        """
        rows, digest = self._written(encoded, dealt)
        lots = _lots(encoded.recipe, settings)
        asked = [
            self._asked(
                encoded, rows, digest, deal, fold, [settings[at] for at in lot], len(settings), memory
            )
            for fold in range(int(dealt[deal].max()) + 1)
            for lot in lots
        ]
        waiting = [each for each in asked if finished.take(Path(each.out)) is None]
        results = self.cluster.map(fit, waiting)
        left = {each.out for each in waiting}
        for first in range(0, len(asked), len(lots)):
            mine = asked[first : first + len(lots)]
            for each in mine:
                if each.out in left:
                    next(results)
            yield _joined(mine, lots, np.flatnonzero(dealt[deal] == mine[0].fold))

    def _written(self, encoded: EncodedRows, dealt: np.ndarray) -> tuple[Path, str]:
        """The rows as a file, once for all that learn from them."""
        arrays = {"x": encoded.x, "target": encoded.target, "fold": dealt}
        if encoded.groups is not None:
            # Names are nobody's business here: what stands together is told by numbers, in their order.
            arrays["groups"] = np.unique(encoded.groups, return_inverse=True)[1]
        content = pack(arrays, as_they_are=True)
        digest = hashlib.sha256(content).hexdigest()
        path = self.place / f"rows-{digest[:24]}.npz"
        if not path.exists():
            finished.put(path, content)
        return path.resolve(), digest

    def _asked(
        self, encoded: EncodedRows, rows: Path, digest: str, deal: int, fold: int,
        settings: Sequence[Parameters], n_settings: int, memory: int | None,
    ) -> Fit:  # fmt: skip
        recipe = encoded.recipe
        told = [recipe.text, recipe.parameters, encoded.n_classes, digest, deal, fold, settings, memory]
        name = digest_of_json(told)[:24]
        return Fit(
            str(rows), digest, recipe, encoded.n_classes, deal, fold, settings, n_settings, memory,
            self.cluster.threads, str(self.place.resolve() / f"{name}.npz"),
        )  # fmt: skip


@contextmanager
def fitted_by(cluster: Cluster | None, out: str | Path) -> Iterator[Elsewhere | None]:
    """Workers that fit what is trained into `out`; none without a cluster.

    Encoded rows and machines lie in a private folder beside `out` while the block lasts, and behind it where
    the command is killed: it goes on from there.
    """
    if cluster is None:
        yield None
        return
    with finished.waiting_beside(out, "fits") as place:
        cluster.check([place])
        yield Elsewhere(cluster, place)


def _lots(recipe: Recipe, settings: Sequence[Parameters]) -> list[list[int]]:
    """Numbers of settings to be fitted together: those of one kernel go on from each other's solutions."""
    if recipe.machine == "baseline":
        return [[at] for at in range(len(settings))]
    order = by_shared_work(settings)
    return [list(lot) for _, lot in groupby(order, key=lambda at: kernel_of(settings[at]))]


def _joined(asked: Sequence[Fit], lots: Sequence[Sequence[int]], rows: np.ndarray) -> FoldFit:
    """A fold's machines at all settings, read back from what its lots wrote."""
    machines, decisions, seconds = {}, {}, []
    for each, lot in zip(asked, lots, strict=True):
        arrays = finished.take(Path(each.out))
        if arrays is None:
            raise ClusterError(f"{each.out} went away while it was needed; start the training again")
        seconds += [arrays["seconds"]] * len(lot)
        for place, at in enumerate(lot):
            machine = build(each.recipe, **each.settings[place])
            machines[at] = machine.restore(under(arrays, f"{place}/machine/"))
            decisions[at] = arrays[f"{place}/decisions"]
    mean = np.mean(seconds, axis=0)
    numbers = range(len(machines))
    return FoldFit(
        rows, [machines[at] for at in numbers], [decisions[at] for at in numbers], (mean[0], mean[1])
    )
