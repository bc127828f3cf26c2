"""Scoring a night's table piece by piece, in this process or by others."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from uuid import uuid4

import numpy as np
import pyarrow as pa
from joblib import effective_n_jobs

from screening.cluster import Cluster
from screening.data.cohort import Cohort
from screening.data.stream import CohortStream, Piece, Reading
from screening.parallel import in_parallel, seconds_to_start, shares_files
from screening.scoring.part import BlockScorer, NightPart, ScoredPiece
from screening.scoring.reference_distribution import ALL_HASHES
from screening.store.checkpoints import keep_piece, read_piece, waiting_beside
from screening.store.model import pad_rows, score_batch, score_decisions
from screening.store.serialization import canonical, versions

ScoredTables = Iterator[tuple[pa.Table, NightPart]]
"""Rows of `scores.parquet` in order, each table with its part of the night."""

WORTH_STARTS = 3
"""Starts of processes that the work left must take, for processes to be started.

Two processes that take 2.5 s to start score a table no sooner than one if less than 6 s
of work are left (measured at three million rows).
"""


def score_pieces(
    scorer: BlockScorer,
    stream: CohortStream,
    out: str | Path,
    folder: Path,
    jobs: int,
    cluster: Cluster | None,
) -> ScoredTables:
    """Score a table, the same whatever does the work.

    Parameters
    ----------
    scorer : BlockScorer
    stream : CohortStream
    out : str or Path
        Beside which the work of a cluster is kept until the table has been read.
    folder : Path
        Private folder in which processes leave rows until they are taken.
    jobs : int
        Processes, which are started where they are worth it.
    cluster : Cluster or None
        Workers that make the decisions.

    Raises
    ------
    CohortError
        At the end, with all that is wrong with the table.
    """
    if cluster is not None:
        yield from _score_by_cluster(cluster, scorer, stream, out)
    elif stream.by_group:
        for batch in stream:
            scored = score_batch(scorer.model, batch)
            yield scored.rows, scorer.count(batch, scored)
    else:
        yield from _Pass(scorer, stream, folder, jobs).scored()


class _Pass:
    """Scores the pieces of a stream in order."""

    def __init__(
        self, scorer: BlockScorer, stream: CohortStream, folder: Path, jobs: int
    ):
        self.scorer = scorer
        self.stream = stream
        self.folder = folder
        self.jobs = jobs
        self.reading = Reading(stream)
        self.drift_limit = ALL_HASHES

    def scored(self) -> ScoredTables:
        """Yield the rows of each piece with its part; raise CohortError at the end."""
        by_processes = effective_n_jobs(self.jobs) > 1
        pieces = self.stream.pieces(by_place=by_processes)
        for scored in self._results(pieces, by_processes):
            self.reading.add(scored.counts, scored.id_hashes, scored.refused)
            if scored.part is not None and self.reading.is_sound:
                self.drift_limit = min(self.drift_limit, scored.part.drift.limit)
                yield pa.concat_tables(scored.rows), scored.part
        self.reading.conclude()

    def _results(
        self, pieces: Iterator[Piece], by_processes: bool
    ) -> Iterator[ScoredPiece]:
        """Score the first pieces here, and the others by processes if it is worth it."""
        start = time.perf_counter()
        for piece in pieces:
            yield self.scorer.score_piece(
                piece, self.reading.is_sound, self.drift_limit
            )
            seconds = time.perf_counter() - start
            least = WORTH_STARTS * seconds_to_start()
            if by_processes and self._seconds_left(seconds) > least:
                yield from self._results_of_processes(pieces)

    def _seconds_left(self, seconds: float) -> float:
        """Estimate the seconds of what is left: of a table of unknown length as many again."""
        n_rows, n_done = self.stream.source.n_rows, self.reading.n_rows
        if n_rows is None or not n_done:
            return seconds
        return seconds * (n_rows - n_done) / n_done

    def _results_of_processes(self, pieces: Iterator[Piece]) -> Iterator[ScoredPiece]:
        """Score pieces by processes, if there are any left."""
        first = next(pieces, None)
        if first is None:
            return
        reader = self.scorer.reader.without_source()
        scorer = replace(self.scorer, reader=reader)
        packed = np.frombuffer(pickle.dumps(scorer, protocol=5), np.uint8)
        key = uuid4().hex
        with TemporaryDirectory(dir=self.folder) as folder:
            # Another machine could not leave its rows in a file here.
            place = folder if shares_files() else None
            tasks = (
                (packed, key, piece, self.reading.is_sound, self.drift_limit, place)
                for piece in chain([first], pieces)
            )
            for scored, file in in_parallel(_score_packed, tasks, jobs=self.jobs):
                yield scored if file is None else replace(scored, rows=_take_rows(file))


@dataclass(frozen=True)
class _Packed:
    """A pickled scorer, known by its key."""

    key: str
    content: np.ndarray = field(compare=False)


@lru_cache(maxsize=1)
def _unpack(packed: _Packed) -> BlockScorer:
    scorer: BlockScorer = pickle.loads(packed.content.data)
    return scorer


def _score_packed(
    content: np.ndarray,
    key: str,
    piece: Piece,
    is_sound: bool,
    drift_limit: int,
    folder: str | None,
) -> tuple[ScoredPiece, str | None]:
    """Score a piece in a process, which unpacks the scorer for its first one.

    Returns
    -------
    scored : ScoredPiece
    file : str or None
        File in `folder` that has its rows: the caller maps it, where a pipe would copy
        them four times.
    """
    scorer = _unpack(_Packed(key, content))
    scored = scorer.score_piece(piece, is_sound, drift_limit)
    if folder is None or not scored.rows:
        return scored, None
    handle, file = mkstemp(dir=folder)
    with (
        os.fdopen(handle, "wb") as stream,
        pa.ipc.new_file(stream, scored.rows[0].schema) as writer,
    ):
        for table in scored.rows:
            writer.write_table(table)
    return replace(scored, rows=[]), file


def _take_rows(file: str) -> list[pa.Table]:
    """Map the rows that a process left in a file, which needs no name any longer."""
    with pa.memory_map(file) as source:
        table = pa.ipc.open_file(source).read_all()
    Path(file).unlink()
    return [table]


def _score_by_cluster(
    cluster: Cluster, scorer: BlockScorer, stream: CohortStream, out: str | Path
) -> ScoredTables:
    """Score a table with the decisions of workers.

    What they decided is kept beside `out` for as long as the table is read: if the
    command is killed, the same command goes on from there.
    """
    cluster.check(secret=True)
    model = scorer.model
    decisions_of = type(model.ensemble).decisions
    n_ahead = 2 * max(1, len(cluster.client.nthreads()))
    salt = canonical({"model": model.digest, "versions": versions()})
    pending: deque[tuple[Cohort, np.ndarray, Path, Iterator[np.ndarray]]] = deque()

    def finish() -> tuple[pa.Table, NightPart]:
        batch, encoded, path, results = pending.popleft()
        (decisions,) = results
        keep_piece(path, {"decisions": decisions})
        scored = score_decisions(model, batch, encoded, decisions[: len(encoded)])
        return scored.rows, scorer.count(batch, scored)

    with waiting_beside(out, "fragments") as folder:
        for batch in stream:
            encoded = model.encoder.transform(batch)
            key = hashlib.sha256(salt + encoded.tobytes()).hexdigest()[:24]
            path = folder / f"{key}.npz"
            if piece := read_piece(path):
                results = iter([piece["decisions"]])
            else:
                tasks = [(model.ensemble, pad_rows(encoded))]
                results = in_parallel(decisions_of, tasks, cluster=cluster)
            pending.append((batch, encoded, path, results))
            if len(pending) == n_ahead:
                yield finish()
        while pending:
            yield finish()
