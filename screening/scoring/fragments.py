"""Decisions on a table made elsewhere, a fragment of rows at a time, and read back in row order."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from screening.cohort.cohort import Cohort
from screening.cohort.normalising import Scales
from screening.cohort.stream import CohortStream
from screening.errors import ClusterError, ModelError, UsageError
from screening.parallel import Cluster, in_parallel
from screening.sources.csv_files import CsvForm, line_places
from screening.sources.readers import Batches, DerivedPart, Part, Source
from screening.sources.source_files import SourceFile
from screening.storage import finished
from screening.storage.loading import load_model
from screening.storage.model import Model
from screening.storage.serialization import canonical, pack, versions

FRAGMENT_ROWS = 1 << 18
"""Rows of a fragment, or the next lower multiple of a batch, however many workers there are."""

Decided = Callable[[Cohort], np.ndarray | None]
"""The decisions on a batch that were made elsewhere, None where they are still to be made."""


class Piece(DerivedPart):
    """Some rows of a part, read without those before; the whole part where `n_rows` is not said.

    `first`: rows of the part before these; `span`: where these rows lie in a plain text file, in bytes.
    """

    def __init__(
        self, part: Part, first: int = 0, n_rows: int | None = None, span: tuple[int, int] | None = None
    ):
        super().__init__(part)
        self.first, self.n_rows, self.span = first, n_rows, span

    def batches(self, wanted: list[str], batch_rows: int) -> Batches:
        """Yield the rows in order; where `first` is whole batches, in the blocks that the whole part has."""
        part = self.part
        if self.n_rows is None:
            yield from part.batches(wanted, batch_rows)
            return
        assert isinstance(part, SourceFile), "only files are cut"
        some = {"span": self.span} if self.span else {"rows": (self.first, self.n_rows)}
        yield from part.batches(wanted, batch_rows, **some)


def pieces_of(part: Part, rows: int) -> list[Piece]:
    """A part in pieces of so many rows; whole where others could not find their rows without reading all.

    Raises UsageError: no other process can read it.
    """
    if not part.paths:
        raise UsageError(
            f"--cluster: {part.name} is no file that a worker could read; "
            "write it to Parquet first, or leave --cluster away"
        )
    if isinstance(part, SourceFile) and part.kind == "Parquet":
        with pq.ParquetFile(part.path) as file:
            total = file.metadata.num_rows
        return [Piece(part, at, min(rows, total - at)) for at in range(0, total, rows)]
    if isinstance(part, SourceFile) and isinstance(part.form, CsvForm) and part.form.plain:
        starts, total = line_places(part.path, part.form, rows) or ([], 0)
        return [
            Piece(part, number * rows, min(rows, total - number * rows), span)
            for number, span in enumerate(itertools.pairwise(starts))
        ] or [Piece(part)]
    return [Piece(part)]


@dataclass(frozen=True)
class Fragment:
    """What a worker is told: places, digests and a range of rows."""

    piece: Piece  # Rows of one file.
    # model, model_digest: the model's directory, and what must be found there.
    model: str
    model_digest: str
    # File of the groups' centres and spreads, named by its content; empty where the model asks for none.
    scales: str
    batch_rows: int
    out: str  # File to write.


def decide(fragment: Fragment) -> None:
    """Read the rows of a fragment, and write the model's decisions on them; 0 for rows that are refused."""
    model = _model(fragment.model, fragment.model_digest)
    source, scales = Source([fragment.piece]), _scales(fragment.scales)
    stream = CohortStream(source, model.contract, fragment.batch_rows, to_score=True, scales=scales)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for batch in stream.unchecked():
        decisions = model.decisions(model.encoder.transform(batch))
        parts.append((batch.rows - 1 - fragment.piece.first, decisions))
    whole = np.zeros((fragment.piece.rows or 0, parts[0][1].shape[1] if parts else 1))
    for rows, decisions in parts:
        whole[rows] = decisions
    finished.keep(Path(fragment.out), {"decisions": whole})


@lru_cache(1)
def _model(directory: str, digest: str) -> Model:
    model = load_model(directory)
    if model.digest != digest:
        raise ModelError(f"{directory} is another model than the one this run was begun with")
    return model


@lru_cache(1)
def _scales(path: str) -> list[Scales]:
    """The centres and spreads of groups in a file; none where there is no file."""
    state = _taken(path) if path else {}
    count = len({name.partition("/")[0] for name in state})
    return [
        Scales(*(state[f"{at}/{field}"] for field in ("columns", "names", "centre", "spread")))
        for at in range(count)
    ]


def _taken(path: str) -> dict[str, np.ndarray]:
    arrays = finished.take(Path(path))
    if arrays is None:
        raise ClusterError(f"{path} went away while it was needed; start the run again")
    return arrays


@contextmanager
def decided_by(
    cluster: Cluster | None, model: Model, stream: CohortStream, out: str | Path
) -> Iterator[Decided]:
    """Have a table decided on by workers, while it is read here.

    Finished fragments wait beside `out` until the caller's work is whole, for a command that is killed.

    Gives the decisions on each batch of the stream, in row order; nothing without a cluster. Raises
    UsageError: the model or the table is not on disk, or a worker does not see the files.
    """
    if cluster is None:
        yield lambda batch: None
        return
    if model.directory is None:
        raise UsageError("--cluster: the model is not on disk; write it by save_model and load it from there")
    files = [path for part in stream.source.files for path in part.paths]
    with finished.waiting_beside(out, "fragments") as place:
        cluster.check([model.directory, *files, place])
        fragments = fragments_of(model, stream, place)
        made = {each.out for each in fragments if finished.take(Path(each.out)) is not None}
        # Started here and not when the first is asked for: workers decide while the table is read.
        results = in_parallel(
            decide, [(each,) for each in fragments if each.out not in made], cluster=cluster
        )
        yield _Reader(fragments, results, made)


def fragments_of(model: Model, stream: CohortStream, place: Path) -> list[Fragment]:
    """A table in fragments, each with the file that its decisions are written to.

    Files are called by all that their content depends on: one that is there already is not made again.
    """
    rows = stream.batch_rows * max(1, FRAGMENT_ROWS // stream.batch_rows)
    pieces = [piece for part in stream.source.files for piece in pieces_of(part, rows)]
    # A group may reach over fragments: its centre is known when every row was seen.
    stream.read_before()
    states = stream.scales or ()
    arrays = {
        f"{at}/{key}": value for at, scales in enumerate(states) for key, value in asdict(scales).items()
    }
    content = pack(arrays, as_they_are=True)
    scales = place / f"scales-{hashlib.sha256(content).hexdigest()[:24]}"
    if states:
        finished.put(scales, content)
    fragments, known = [], {"model": model.digest, "batch": stream.batch_rows, "versions": versions()}
    for piece in pieces:
        mine = {"part": piece.sha256, "first": piece.first, "rows": piece.n_rows, "scales": scales.name}
        name = hashlib.sha256(canonical(known | mine)).hexdigest()[:24]
        directory = str(Path(str(model.directory)).resolve())
        fragments.append(
            Fragment(
                piece, directory, model.digest, str(scales) if states else "", stream.batch_rows,
                str(place / f"{name}.npz"),
            )
        )  # fmt: skip
    finished.sweep_place(place, {Path(each.out).name for each in fragments} | {scales.name})
    return fragments


class _Reader:
    """Decisions by row number, read fragment by fragment as they are asked for.

    `made`: files that are there already; the others come with the `results`, in their order.
    """

    def __init__(self, fragments: Sequence[Fragment], results: Iterator[None], made: set[str]):
        self._coming = self._arrays(fragments, results, made)
        self._first, self._held = 1, np.empty((0, 1))

    def __call__(self, batch: Cohort) -> np.ndarray:
        passed = min(max(int(batch.rows[0]) - self._first, 0), len(self._held))
        self._first, self._held = self._first + passed, self._held[passed:]
        while self._first + len(self._held) <= int(batch.rows[-1]):
            more = next(self._coming)
            self._held = np.concatenate([self._held, more]) if len(self._held) else more
        return self._held[batch.rows - self._first]

    def _arrays(
        self, fragments: Sequence[Fragment], results: Iterator[None], made: set[str]
    ) -> Iterator[np.ndarray]:
        for fragment in fragments:
            if fragment.out not in made:
                next(results)
            yield _taken(fragment.out)["decisions"]
