"""Streaming: the rows of a whole read, memory that does not grow, normalisation within
groups.
"""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal

from screening.contract.contract import Contract
from screening.data.cohort import concatenate
from screening.data.observers import Observer
from screening.data.reading import read_cohort
from screening.data.stream import ReadOptions, open_cohort
from screening.errors import CohortError

FEATURES = {
    "flux": {"type": "number", "normalise": "within_group"},
    "age": {"type": "number"},
    "ward": {"type": "category"},
}
ROLES = {"id": "id", "group": "patient", "on_violation": "refuse_rows"}
CONTRACT = Contract.from_dict({"cohort": ROLES, "features": FEATURES})


def table(n_rows, seed=0):
    rng = default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": [f"{i:05d}" for i in range(n_rows)],
            "patient": rng.choice(["p1", "p2", "p3"], n_rows),
            "flux": np.where(
                rng.random(n_rows) < 0.1, np.nan, rng.normal(1e4, 3, n_rows)
            ),
            "age": rng.integers(18, 99, n_rows).astype(str),
            "ward": rng.choice(["A", "B", ""], n_rows),
        }
    )
    frame.loc[rng.random(n_rows) < 0.05, "age"] = "old"
    frame.loc[[n_rows // 2, n_rows - 1], "id"] = "00000"
    return frame


def same(one, other):
    assert_frame_equal(one.features, other.features, check_exact=True)
    raw = pd.DataFrame(one.raw)
    other_raw = pd.DataFrame(other.raw)
    assert_frame_equal(raw, other_raw, check_exact=True)
    assert one.id.tolist() == other.id.tolist()
    assert one.group.tolist() == other.group.tolist()
    assert one.rows.tolist() == other.rows.tolist()


WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=17),
}


@pytest.mark.parametrize(("kind", "write"), WRITERS.items())
@settings(max_examples=8)
@given(batch_rows=st.integers(3, 120))
def test_any_batch_size_gives_the_rows_of_a_whole_read_bit_for_bit(
    tmp_path_factory, kind, write, batch_rows
):
    folder = tmp_path_factory.mktemp("night")
    frame = table(101)
    for part, rows in enumerate((frame[:40], frame[40:])):
        path = folder / f"{part}.{kind}"
        write(rows, path)

    whole = read_cohort(folder, CONTRACT)
    stream = open_cohort(folder, CONTRACT, batch_rows=batch_rows)
    batches = list(stream)

    same(concatenate(batches), whole)
    assert max(batch.n_rows for batch in batches) <= batch_rows
    assert stream.refused == whole.refused
    n_refused = sum(whole.refused.values())
    assert whole.n_rows + n_refused == stream.n_rows == 101


class EveryRow(Observer):
    """Count all rows."""

    def __init__(self, fault=None):
        self.n_rows = 0
        self.fault = fault

    counter = staticmethod(lambda block: block.rows.n_rows)

    def add(self, counts):
        self.n_rows += counts

    def faults(self):
        return [self.fault] if self.fault else []

    def notes(self):
        return [f"{self.n_rows} rows were seen"]


def test_observer(tmp_path):
    """It counts every row once, also those left out, and says what it found."""
    table(101).to_csv(tmp_path / "a.csv", index=False)
    every_row = EveryRow()
    reading = ReadOptions(observers=[every_row])
    stream = open_cohort(tmp_path / "a.csv", CONTRACT, batch_rows=10, options=reading)

    n_valid = sum(batch.n_rows for batch in stream)
    stream.check()

    assert n_valid < every_row.n_rows == stream.n_rows == 101
    assert stream.notes.count("101 rows were seen") == 1


def test_observer_refuses_a_table(tmp_path):
    """What it finds wrong with the whole table stops the run."""
    table(30).to_csv(tmp_path / "a.csv", index=False)
    reading = ReadOptions(observers=[EveryRow("of another ward")])

    with pytest.raises(CohortError, match="of another ward"):
        open_cohort(tmp_path / "a.csv", CONTRACT, options=reading).check()


def test_stream_violations_at_end(tmp_path):
    """Violations come together at the end and no rows after the first."""
    ids = [str(i) for i in range(50)]
    frame = table(50).assign(age="50", id=ids)
    frame.loc[[14, 49], "age"] = "inf"
    frame.loc[30, "id"] = "3"
    frame.to_csv(tmp_path / "a.csv", index=False)
    batches = iter(
        open_cohort(
            tmp_path / "a.csv", CONTRACT.with_roles(on_violation="stop"), batch_rows=10
        )
    )
    assert next(batches).n_rows == 10
    with pytest.raises(CohortError) as caught:
        next(batches)
    first, second = caught.value.violations
    assert "rows 15, 50" in first
    assert "rows 4, 31" in second


@pytest.mark.parametrize(
    ("policy", "flux", "readings"),
    [
        ("stop", {}, 1),
        ("refuse_rows", {}, 2),
        ("stop", {"normalise": "within_group"}, 2),
    ],
)
def test_table_is_read_once_but_for_what_needs_all_of_it(
    monkeypatch, tmp_path, policy, flux, readings
):
    ids = [str(i) for i in range(50)]
    frame = table(50).assign(age="50", id=ids)
    frame.to_csv(tmp_path / "a.csv", index=False)
    features = FEATURES | {"flux": {"type": "number"} | flux}
    contract = Contract.from_dict(
        {"cohort": ROLES | {"on_violation": policy}, "features": features}
    )
    stream = open_cohort(tmp_path / "a.csv", contract, batch_rows=10)
    (file,) = stream.source.files
    blocks = type(file).blocks
    read = []
    monkeypatch.setattr(
        type(file), "blocks", lambda *given: read.append(given[1]) or blocks(*given)
    )
    assert sum(batch.n_rows for batch in stream) == 50
    assert len(read) == readings


@pytest.mark.parametrize("begun", [False, True])
def test_a_file_that_changes_between_or_while_it_is_read_is_refused(tmp_path, begun):
    table(5000).to_csv(tmp_path / "a.csv", index=False)
    stream = open_cohort(tmp_path / "a.csv", CONTRACT, batch_rows=250)
    stream.check()
    batches = iter(stream)
    list(itertools.islice(batches, begun))
    backwards = table(5000).iloc[::-1]
    backwards.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(CohortError, match="changed while"):
        list(batches)


def test_memory_of_streaming_does_not_grow_with_the_rows(tmp_path):
    features = {"a": FEATURES["flux"], "b": {"type": "number"}}
    contract = Contract.from_dict({"cohort": {"group": "g"}, "features": features})
    peaks = []
    for n_rows in (30_000, 180_000):
        rng = default_rng(0)
        path = tmp_path / f"{n_rows}.parquet"
        groups = np.where(np.arange(n_rows) % 2, "p1", "p2")
        rows = pa.table(
            {
                "g": groups,
                "a": rng.normal(size=n_rows),
                "b": rng.random(n_rows),
            }
        )
        pq.write_table(
            rows,
            path,
            row_group_size=n_rows,
            data_page_size=1 << 14,
            use_dictionary=False,
        )
        del rows
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        read = highest = 0
        for batch in open_cohort(path, contract, batch_rows=4096):
            read += batch.n_rows
            highest = max(highest, pa.total_allocated_bytes() - before)
        peaks.append(tracemalloc.get_traced_memory()[1] + highest)
        tracemalloc.stop()
        assert read == n_rows
    assert peaks[1] < 1.5 * peaks[0]


def test_stream_normalise_within_group(tmp_path):
    """Features are standardised within their group and raw values kept."""
    x = [1.0, 1e6, 3.0, 1e6 + 2, 7.0, 5.5, 5.5]
    frame = pd.DataFrame({"g": [*"ababcdd"], "x": x, "other": "-"})
    frame.to_csv(tmp_path / "a.csv", index=False)
    features = {
        "x": {"type": "number", "normalise": "within_group", "plausible": [0, 2e6]}
    }
    contract = Contract.from_dict({"cohort": {"group": "g"}, "features": features})
    cohort = read_cohort(tmp_path / "a.csv", contract)
    # A group of one row, or of equal values, has no spread: zero says "as usual for
    # this group".
    standardised = [-1, -1, 1, 1, 0, 0, 0]
    assert_allclose(cohort.features["x"], standardised, atol=1e-9)
    assert cohort.raw["x"].tolist() == x


@settings(max_examples=25)
@given(scale=st.floats(0.01, 1000), shift=st.floats(-1000, 1000))
def test_normalised_values_do_not_depend_on_a_groups_unit(
    tmp_path_factory, scale, shift
):
    folder = tmp_path_factory.getbasetemp()
    x = default_rng(1).normal(size=30)
    features = {"flux": FEATURES["flux"]}
    contract = Contract.from_dict({"cohort": {"group": "g"}, "features": features})
    seen = []
    for values in (x, x * scale + shift):
        path = folder / "units.parquet"
        pd.DataFrame({"g": "a", "flux": values}).to_parquet(path)
        features = read_cohort(path, contract).features
        seen.append(features["flux"].to_numpy())
    assert_allclose(seen[0], seen[1], atol=1e-6)


def test_rows_that_are_left_out_move_nobodys_normalised_values(tmp_path):
    frame = table(60).assign(age="40")
    frame.loc[[30, 59], "flux"] = 5e4
    frame.to_csv(tmp_path / "all.csv", index=False)
    without_first = frame[frame["id"] != "00000"]
    without_first.to_csv(tmp_path / "sound.csv", index=False)
    every = read_cohort(tmp_path / f"{'all'}.csv", CONTRACT)
    sound = read_cohort(tmp_path / f"{'sound'}.csv", CONTRACT)
    assert every.refused
    assert not sound.refused
    flux = sound.features["flux"]
    assert_allclose(every.features["flux"], flux)
