"""A night is a sum of parts: the same outcome however its table is cut and its parts
are added."""

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from faults.amounts import examples
from flow_cohorts import patients
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from screening import read_cohort, score, train
from screening.contract.contract import Contract
from screening.data.stream import ReadingTotals
from screening.data.unused_rows import UnusedRows
from screening.errors import CohortError
from screening.io import readers
from screening.io.readers import Block
from screening.monitoring import profile
from screening.scoring import (
    flagged_list,
    night_totals,
    reference_distribution,
    scoring_pass,
)
from screening.scoring import rows as night_rows
from screening.scoring.night_totals import BlockScorer
from screening.scoring.rows import Rows
from screening.scoring.summary import Summary
from screening.store.model import Model

N_ROWS = 90
FEATURES = {
    "fever": {"type": "number", "plausible": [30, 45]},
    "crp": {"type": "number"},
    "ward": {"type": "category", "on_unseen": "unknown"},
}
ROLES = {
    "label": "ill",
    "id": "patient",
    "subgroup": ["ward"],
    "display": ["room"],
    "on_violation": "refuse_rows",
}


def table_of(n_rows: int, seed: int) -> pd.DataFrame:
    """Patients with a room and a day, of whom each three are of one family."""
    table = patients(n_rows, seed=seed)
    numbers = np.arange(n_rows)
    return table.assign(
        family=[f"f{seed}-{number // 3}" for number in numbers],
        room=[f"room {number % 11}" for number in numbers],
        day=pd.Timestamp("2026-01-31") - pd.to_timedelta(numbers % 3, "D"),
    )


def night_of(n_rows: int) -> pd.DataFrame:
    """A night with broken rows, cells out of bounds, missing labels and unseen
    wards.
    """
    table = table_of(n_rows, seed=7)
    table.loc[[3, 50], "fever"] = [99.0, -1.0]
    table.loc[[50, 51], "crp"] = -1e6
    table.loc[[6, 70], "crp"] = np.inf
    unseen = ["new", "newer", "new", "newest"]
    table.loc[[4, 5, 60, 61], "ward"] = unseen
    table.loc[20:29, "ill"] = None
    return table


@pytest.fixture(
    scope="module",
    params=[("logistic", {}), ("svm_weighted", {"group": "family"})],
    ids=["rows alone", "rows in groups"],
)
def model(request):
    recipe, in_groups = request.param
    roles = ROLES | in_groups
    contract = Contract.from_dict({"cohort": roles, "features": FEATURES})
    table = table_of(240, seed=0)
    past = read_cohort(table, contract, need_label=True)
    return train(
        past,
        recipe,
        search=1,
        folds=3,
        repeats=1,
        beside=(),
    )


@pytest.fixture(scope="module", autouse=True)
def bounds_are_reached():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference_distribution, "MOST_UNITS", 20)
        patch.setattr(profile, "MOST_SAMPLED", 16)
        patch.setattr(profile, "MOST_UNSEEN", 2)
        patch.setattr(night_totals, "CASES_EXPLAINED", 5)
        patch.setattr(night_totals, "N_ROWS_OF_IDS", 40)
        yield


def cut(block: Block, start: int, stop: int) -> Block:
    """Return some rows of a block, counted from 0."""
    columns = {}
    for name, cells in block.columns.items():
        columns[name] = cells.slice(start, stop - start)
    return Block(
        columns,
        block.first_row + start,
        block.ragged[start:stop],
        block.repeated_header[start:stop],
    )


def scored_in(scorer, stream, cuts, rng):
    """Score the pieces between the cuts as processes may, in any order."""
    (piece,) = stream.pieces()
    (block,) = piece.blocks
    bounds = [0, *cuts, block.n_rows]
    pieces = []
    for ends in pairwise(bounds):
        block_of_piece = cut(block, *ends)
        pieces.append(replace(piece, blocks=[block_of_piece]))
    results = {}
    drift_limit = reference_distribution.ALL_HASHES
    for number in rng.permutation(len(pieces)):
        travelled = pickle.loads(pickle.dumps(pieces[number]))
        result = scorer.score_piece(travelled, False, drift_limit)
        results[number] = pickle.loads(pickle.dumps(result))
        if result.totals is not None:
            drift_limit = min(drift_limit, result.totals.drift.limit)
    return [results[number] for number in range(len(pieces))]


def added(terms, rng):
    """Add neighbours until one is left."""
    while len(terms) > 1:
        first = rng.integers(len(terms) - 1)
        pair = terms[first] + terms[first + 1]
        terms[first : first + 2] = [pair]
    return terms[0]


class Ward:
    """A model and the outcome of its whole night, of which no report shows the
    content.
    """

    def __init__(self, model: Model, folder: Path):
        self.model = model
        self.whole = outcome(model, night_of(N_ROWS), folder, [])


def outcome(model, table, folder, cuts, seed=0):
    """Everything that a night tells, scored in pieces between the cuts."""
    rng = default_rng(seed)
    gates = model.gates()
    unused = UnusedRows()
    stream = model.opened(table, label="ill", gates=gates, observers=[unused])
    scorer = BlockScorer(model, "2026-01-31", stream.read_ahead())
    results = scored_in(scorer, stream, cuts, rng)
    reading = ReadingTotals(stream)
    rows = Rows(folder / "scores.parquet")
    with rows.appending() as file:
        for result in results:
            reading.add(result.counts)
            if result.rows is not None:
                file.append(result.rows)
    reading.conclude()
    parts = [result.totals for result in results if result.totals]
    summary = Summary(scorer, added(parts, rng))
    document = summary.document(
        stream, rows, gates, unused.cells, run_id="0" * 12, started="now"
    )
    samples = [
        column.counted.sample.values.tolist() for column in gates.columns.values()
    ]
    return {
        "document": document.to_dict(),
        "rows": rows.path.read_bytes(),
        "gates": gates.counts(),
        "attention": gates.attention(),
        "samples": samples,
    }


@pytest.fixture(scope="module")
def ward(model, tmp_path_factory):
    return Ward(model, tmp_path_factory.mktemp("whole"))


some_cuts = st.sets(st.integers(1, N_ROWS - 1), max_size=12).map(sorted)


@pytest.mark.repeated
@settings(max_examples=examples(10, 20))
@given(some_cuts, st.integers(0, 99))
def test_part_sum_any_cut_and_order(ward, tmp_path_factory, cuts, seed):
    folder = tmp_path_factory.mktemp("cut")

    night = night_of(N_ROWS)
    assert outcome(ward.model, night, folder, cuts, seed) == ward.whole


def test_part_sum_one_row_each(ward, tmp_path):
    cuts = range(1, N_ROWS)

    night = night_of(N_ROWS)
    assert outcome(ward.model, night, tmp_path, cuts) == ward.whole


def directory(run):
    """Every file of a run but the one that tells the time."""
    return {
        path.name: path.read_bytes()
        for path in run.directory.iterdir()
        if path.name != "run.json"
    }


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_processes_write_the_same_bytes(model, kind, monkeypatch, tmp_path):
    """Parquet and Arrow are read by the processes, in places of no whole sections."""
    monkeypatch.setattr(scoring_pass, "WORTH_STARTS", 0)
    # The first piece is scored here, with the bounds that are set here.
    monkeypatch.setattr(scoring_pass, "FASTEST_ROW", 0)
    monkeypatch.setattr(readers, "RANGE_ROWS", 25)
    # Processes write the list, too.
    monkeypatch.setattr(flagged_list, "MANY_FLAGGED", 0)
    monkeypatch.setattr(night_rows, "PIECE_ROWS", 10)
    path = tmp_path / f"night.{kind}"
    table = night_of(N_ROWS)
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "arrow":
        rows = pa.Table.from_pandas(table, preserve_index=False)
        with pa.ipc.new_file(path, rows.schema) as file:
            file.write_table(rows, max_chunksize=7)
    else:
        table.to_parquet(path, row_group_size=40, index=False)
    settings = {"label": "ill", "date": "2026-01-31"}

    alone = score(model, path, tmp_path / "alone", jobs=1, **settings)
    together = score(
        model,
        path,
        tmp_path / "together",
        jobs=2,
        batch_rows=16,
        **settings,
    )

    assert directory(together) == directory(alone)
    assert together.document["counts"] == alone.document["counts"]
    assert together.document["drift"] == alone.document["drift"]


def test_no_process_for_a_table_of_one_piece(model, monkeypatch, tmp_path):
    """How long a CSV is, is known at its end: there may be nothing left to share."""
    monkeypatch.setattr(scoring_pass, "WORTH_STARTS", 0)
    monkeypatch.setattr(scoring_pass, "FASTEST_ROW", 0)
    monkeypatch.setattr(scoring_pass, "in_parallel", None)
    contract = model.contract.with_roles(on_violation="stop")
    strict = replace(model, contract=contract)
    night = tmp_path / "night.csv"
    table_of(N_ROWS, seed=7).to_csv(night, index=False)

    run = score(strict, night, tmp_path / "run", jobs=2)

    assert run.document["counts"]["scored"] == N_ROWS


def test_processes_report_the_same_violations(model, monkeypatch, tmp_path):
    monkeypatch.setattr(scoring_pass, "WORTH_STARTS", 0)
    # The first piece is scored here, with the bounds that are set here.
    monkeypatch.setattr(scoring_pass, "FASTEST_ROW", 0)
    monkeypatch.setattr(readers, "RANGE_ROWS", 25)
    contract = model.contract.with_roles(on_violation="stop")
    strict = replace(model, contract=contract)
    night_of(N_ROWS).to_parquet(tmp_path / "night.parquet", index=False)
    violations = []

    for jobs in (1, 2):
        with pytest.raises(CohortError) as error:
            score(strict, tmp_path / "night.parquet", tmp_path / "run", jobs=jobs)
        violations.append(error.value.violations)

    assert violations[0] == violations[1]
    assert not (tmp_path / "run").exists()
