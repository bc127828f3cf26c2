"""What is fitted on all folds but one, and what it decides on the rows held out."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from screening.files import digest_of_json
from screening.machines.base import Estimator
from screening.machines.fold_ensemble import under
from screening.parallel import Cluster, in_parallel
from screening.recipes.building import build
from screening.recipes.recipe import Recipe
from screening.storage import finished
from screening.validation.candidates import Parameters, by_shared_work, kernel_of
from screening.validation.encoded import EncodedRows

# Decisions kept beyond this number are float32: they are ranked, and compared to seven digits.
MOST_IN_FULL = 20_000_000


@dataclass(frozen=True)
class FoldFit:
    """The machines of one fold, one a setting, and their decisions on the rows held out."""

    rows: np.ndarray
    machines: list[Estimator]
    # to choose by, as `EncodedRows.tried` has them; of one setting, what its machine says by itself
    decisions: list[np.ndarray]
    seconds: tuple[float, float]  # of fitting one machine, and of scoring a thousand rows by it

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays without objects."""
        arrays = {"rows": self.rows, "seconds": np.array(self.seconds)}
        for at, (machine, decisions) in enumerate(zip(self.machines, self.decisions, strict=True)):
            arrays[f"{at}/decisions"] = decisions
            arrays |= {f"{at}/machine/{name}": value for name, value in machine.state().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, np.ndarray], recipe: Recipe, settings: Sequence[Parameters]
    ) -> FoldFit:
        """Inverse of ``arrays``."""
        machines = [
            build(recipe, **setting).restore(under(arrays, f"{at}/machine/"))
            for at, setting in enumerate(settings)
        ]
        decisions = [arrays[f"{at}/decisions"] for at in range(len(settings))]
        return cls(arrays["rows"], machines, decisions, (arrays["seconds"][0], arrays["seconds"][1]))


def fit_folds(
    encoded: EncodedRows,
    dealt: np.ndarray,
    settings: Sequence[Parameters],
    jobs: int,
    cluster: Cluster | None = None,
    kept: Path | None = None,
) -> Iterator[FoldFit]:
    """Fit every fold at each setting, and give them in the order of the folds.

    `dealt` (n_rows,) is the fold that each row is held out in. `jobs` folds are fitted side by side here;
    workers of a cluster take those settings of a fold that share their kernel, and what they fitted waits in
    the private folder `kept`, for a command that is killed.
    """
    folds = range(int(dealt.max()) + 1)
    if cluster is None:
        yield from in_parallel(fit_fold, [(encoded, dealt, fold, settings) for fold in folds], jobs=jobs)
        return
    rows, lots = encoded.to_travel(), _lots(encoded.recipe, settings)
    pieces = [(fold, [settings[at] for at in lot]) for fold in folds for lot in lots]
    places = None if kept is None else _places(kept, rows, dealt, pieces, len(settings))
    known = [
        None if places is None else _known(place, encoded.recipe, own)
        for place, (_, own) in zip(places or [Path()] * len(pieces), pieces, strict=True)
    ]
    waiting = [
        (rows, dealt, *piece, len(settings)) for piece, fit in zip(pieces, known, strict=True) if fit is None
    ]
    results = in_parallel(fit_fold, waiting, cluster=cluster, shared=[rows, dealt])
    for fold in folds:
        parts = []
        for number in range(fold * len(lots), (fold + 1) * len(lots)):
            fit = known[number]
            if fit is None:
                fit = next(results)
                if places is not None:
                    finished.keep(places[number], fit.arrays())
            parts.append(fit)
        yield _joined(parts, lots)


def fit_fold(
    encoded: EncodedRows,
    dealt: np.ndarray,
    fold: int,
    settings: Sequence[Parameters],
    n_settings: int | None = None,
) -> FoldFit:
    """Fit a fold at each setting; `n_settings` are all that are tried, where these are a part of them."""
    held_out = dealt == fold
    rows = np.flatnonzero(held_out)
    x = np.ascontiguousarray(encoded.x[rows])
    competing = n_settings or len(settings)
    began = time.perf_counter()
    machines, decisions = encoded.tried(np.flatnonzero(~held_out), settings, x if competing > 1 else None)
    fitted = time.perf_counter()
    own = encoded.decisions(machines[0], x)
    scored = time.perf_counter() - fitted
    if competing == 1:
        decisions = [own]
    if encoded.x.shape[0] * own.shape[1] * competing > MOST_IN_FULL:
        decisions = [each.astype(np.float32) for each in decisions]
    return FoldFit(
        rows, machines, decisions, ((fitted - began) / len(settings), 1000 * scored / max(len(rows), 1))
    )


def _lots(recipe: Recipe, settings: Sequence[Parameters]) -> list[list[int]]:
    """Numbers of settings to be fitted together: those of one kernel go on from each other's solutions."""
    if recipe.machine == "baseline":
        return [[at] for at in range(len(settings))]
    order = by_shared_work(settings)
    return [list(lot) for _, lot in groupby(order, key=lambda at: kernel_of(settings[at]))]


def _places(
    kept: Path, rows: EncodedRows, dealt: np.ndarray, pieces: Sequence[tuple[int, list[Parameters]]], n: int
) -> list[Path]:
    """The file of each piece of a fold, by everything that it depends on."""
    content = hashlib.sha256(rows.x.tobytes() + rows.target.tobytes() + dealt.tobytes())
    content.update(b"" if rows.groups is None else rows.groups.tobytes())
    told = [rows.recipe.text, rows.recipe.parameters, rows.n_classes, rows.distances.memory, n]
    names = [digest_of_json([content.hexdigest(), *told, *piece])[:24] for piece in pieces]
    return [kept / f"{name}.npz" for name in names]


def _known(place: Path, recipe: Recipe, settings: Sequence[Parameters]) -> FoldFit | None:
    arrays = finished.take(place)
    return None if arrays is None else FoldFit.from_arrays(arrays, recipe, settings)


def _joined(parts: Sequence[FoldFit], lots: Sequence[Sequence[int]]) -> FoldFit:
    """The parts of a fold, each with a lot of its settings, as one."""
    at = [number for lot in lots for number in lot]
    order = np.argsort(at)
    machines = [machine for part in parts for machine in part.machines]
    decisions = [each for part in parts for each in part.decisions]
    weights = [len(lot) for lot in lots]
    seconds = np.average([part.seconds for part in parts], axis=0, weights=weights)
    return FoldFit(
        parts[0].rows,
        [machines[i] for i in order],
        [decisions[i] for i in order],
        (float(seconds[0]), float(seconds[1])),
    )
