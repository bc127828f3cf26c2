"""Scoring a night's table piece by piece, in this process or by others.

One process reads, checks, scores and counts a piece (`BlockScorer.score_piece`). Pieces
are those of the table in order, and `in_parallel` returns results in the order of its
tasks, so that the rows come in the order of the table.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from screening.cluster import Cluster
from screening.data.block_reader import Piece
from screening.data.cohort import Cohort
from screening.data.stream import CohortStream, ReadingTotals
from screening.fork_server import seconds_to_start
from screening.io.readers import rows_of_range
from screening.parallel import calls_at_a_time, in_parallel, shares_files
from screening.scoring.night_totals import BlockScorer, NightTotals, ScoredPiece
from screening.scoring.reference_distribution import ALL_HASHES
from screening.store.checkpoints import checkpoints_beside, keep_piece, read_piece
from screening.store.model import pad_rows, score_batch, score_decisions
from screening.store.serialization import canonical, versions

ScoredRows = Iterator[tuple[pa.Table, NightTotals]]
"""Rows of `scores.parquet` in order, each with their totals."""

PieceTask = tuple[Piece, bool, int]
"""Arguments of `BlockScorer.score_piece`."""

WORTH_STARTS = 3
"""Processes are started if the work left takes as long as so many starts.

Two processes that took 2.5 s to start scored a table sooner than one if more than 6 s
of work were left (measured at three million rows).
"""
FASTEST_ROW = 1e-6
"""Seconds that a row takes by the quickest model, with reading and writing."""


def score_pieces(
    scorer: BlockScorer,
    stream: CohortStream,
    out: str | Path,
    folder: Path,
    jobs: int,
    cluster: Cluster | None,
) -> ScoredRows:
    """Score a table, the same whatever does the work.

    Workers of a cluster read the table themselves if they see its files, and get the
    ranges of its files; else they get encoded rows and return decisions.

    Parameters
    ----------
    scorer : BlockScorer
    stream : CohortStream
    out : str or Path
        Beside which decisions of a cluster are kept until the table has been read.
    folder : Path
        Private folder in which processes leave rows until they are taken.
    jobs : int
        Processes, which are started where they are worth it.
    cluster : Cluster or None

    Raises
    ------
    CohortError
        At the end, with all that is wrong with the table.
    """
    if cluster is None and stream.by_group:
        return _score_groups(scorer, stream)
    if cluster is not None:
        cluster.check(secret=True)
        paths = stream.paths_read_by_range()
        if not paths or not cluster.sees(paths):
            return _decide_by_cluster(cluster, scorer, stream, out)
    return _score_in_order(scorer, stream, folder, jobs, cluster)


def _score_groups(scorer: BlockScorer, stream: CohortStream) -> ScoredRows:
    """Score a table by whole groups, such as the voxels of an image."""
    for batch in stream:
        scored = score_batch(scorer.model, batch)
        yield scored.rows, scorer.totals_of(batch, scored)


def _score_in_order(
    scorer: BlockScorer,
    stream: CohortStream,
    folder: Path,
    jobs: int,
    cluster: Cluster | None,
) -> ScoredRows:
    """Score the pieces of a table; raise CohortError at the end.

    What earlier pieces showed spares later ones work and changes no result.
    """
    n_processes = calls_at_a_time(jobs) if cluster is None else cluster.n_workers
    range_rows = None
    if n_processes > 1 or cluster is not None:
        range_rows = rows_of_range(stream.source.n_rows, n_processes)
    pieces = stream.pieces(range_rows=range_rows)
    reading = ReadingTotals(stream)
    drift_limit = ALL_HASHES

    def tasks() -> Iterator[PieceTask]:
        # Each task is made when it begins, with what the results so far have shown. An
        # older value costs work and changes no result.
        for piece in pieces:
            yield piece, reading.is_refused, drift_limit

    for scored in _results(scorer, tasks(), reading, folder, n_processes, cluster):
        reading.add(scored.counts)
        if scored.rows is None or scored.totals is None or reading.is_refused:
            continue
        drift_limit = min(drift_limit, scored.totals.drift.limit)
        yield scored.rows, scored.totals
    reading.conclude()


def _results(
    scorer: BlockScorer,
    tasks: Iterator[PieceTask],
    reading: ReadingTotals,
    folder: Path,
    n_processes: int,
    cluster: Cluster | None,
) -> Iterator[ScoredPiece]:
    """Score the first pieces here, and the others by processes if it is worth it.

    A cluster scores them all, and so do processes if a table is so long that they are
    worth it whatever the model.
    """
    n_rows = reading.stream.source.n_rows
    least = WORTH_STARTS * seconds_to_start()
    is_surely_worth = n_processes > 1 and (n_rows or 0) * FASTEST_ROW > least
    if cluster is None and not is_surely_worth:
        start = time.perf_counter()
        for task in tasks:
            yield scorer.score_piece(*task)
            seconds = time.perf_counter() - start
            seconds_left = _seconds_left(seconds, reading.n_rows, n_rows)
            if n_processes > 1 and seconds_left > least:
                break
    # The tasks that are left; none if all pieces were scored here.
    yield from _results_of_processes(scorer, tasks, folder, n_processes, cluster)


def _seconds_left(seconds: float, n_done: int, n_rows: int | None) -> float:
    """Estimate the seconds left; for a table of unknown length as many again."""
    if n_rows is None or not n_done:
        return seconds
    return seconds * (n_rows - n_done) / n_done


def _results_of_processes(
    scorer: BlockScorer,
    tasks: Iterator[PieceTask],
    folder: Path,
    n_processes: int,
    cluster: Cluster | None,
) -> Iterator[ScoredPiece]:
    """Score pieces by the processes of `in_parallel`, if there are any left."""
    first = next(tasks, None)
    if first is None:
        return
    packed = np.frombuffer(pickle.dumps(scorer, protocol=5), np.uint8)
    key = uuid4().hex
    with TemporaryDirectory(dir=folder) as shared_folder:
        # Another machine could not leave what it scored in a file here.
        is_shared = cluster is None and shares_files()
        target = Path(shared_folder) if is_shared else None
        packed_tasks = ((packed, key, target, *task) for task in chain([first], tasks))
        results = in_parallel(
            _score_packed, packed_tasks, jobs=n_processes, cluster=cluster
        )
        for result in results:
            yield _load_once(result) if isinstance(result, Path) else result


_unpacked: dict[str, BlockScorer] = {}
"""The scorer that this process works for, by its key."""


def _score_packed(
    packed: np.ndarray, key: str, folder: Path | None, *task: Any
) -> ScoredPiece | Path:
    """Score a piece in a process, which unpacks the scorer for its first one.

    It is left in a file of `folder`, if there is one: a pipe would copy it four times.
    """
    if key not in _unpacked:
        _unpacked.clear()
        _unpacked[key] = pickle.loads(packed.data)
    scored = _unpacked[key].score_piece(*task)
    if folder is None:
        return scored
    path = folder / uuid4().hex
    with path.open("wb") as file:
        pickle.dump(scored, file, protocol=5)
    return path


def _load_once(path: Path) -> ScoredPiece:
    """Load the piece that a process left in a file, and remove the file."""
    with path.open("rb") as file:
        scored: ScoredPiece = pickle.load(file)
    path.unlink()
    return scored


def _decide_by_cluster(
    cluster: Cluster, scorer: BlockScorer, stream: CohortStream, out: str | Path
) -> ScoredRows:
    """Score a table with the decisions of workers.

    What they decided is kept beside `out` for as long as the table is read: if the
    command is killed, the same command goes on from there.
    """
    model = scorer.model
    decisions_of = type(model.ensemble).decisions
    n_ahead = 2 * max(1, cluster.n_workers)
    salt = canonical({"model": model.digest, "versions": versions()})
    pending: deque[tuple[Cohort, np.ndarray, Path, Iterator[np.ndarray]]] = deque()

    def finish() -> tuple[pa.Table, NightTotals]:
        batch, encoded, path, results = pending.popleft()
        (decisions,) = results
        keep_piece(path, {"decisions": decisions})
        scored = score_decisions(model, batch, encoded, decisions[: len(encoded)])
        return scored.rows, scorer.totals_of(batch, scored)

    with checkpoints_beside(out, "fragments") as folder:
        for batch in stream:
            encoded = model.encoder.transform(batch.values)
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
