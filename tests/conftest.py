"""What every test runs under, past cohorts, the places a ledger may lie in, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import ledger_places
import pytest
from browser_pages import browser, opened  # noqa: F401  (fixtures)
from faults.amounts import LONG
from flow_cohorts import patients, voxels, written
from hypothesis import settings

from screening import read_cohort
from screening.cohort.cohort import Cohort

# Derandomised: the same tests everywhere; no deadline: a shared machine is slow now and then.
# A third of the usual examples keeps the suite within a quarter of an hour; `make faults` tries all.
EXAMPLES = 100 if LONG else 30
settings.register_profile("shared", deadline=None, derandomize=True, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("shared")

_numbers = count()


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of past patients."""
    return written(patients(), tmp_path_factory.mktemp("past") / "past.csv")


@pytest.fixture(scope="session")
def cohort(table: Path) -> Cohort:
    """Past patients, of whom some were ill."""
    return read_cohort(table, label="ill", id="patient", need_label=True)


@pytest.fixture(scope="session")
def tissue(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """Voxels of past patients, in three classes."""
    path = written(voxels(), tmp_path_factory.mktemp("past") / "past.parquet")
    return read_cohort(path, label="tissue", group="patient", need_label=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Directory of the socket of a PostgreSQL server that lives as long as the tests."""
    if not ledger_places.BINARIES:
        pytest.skip(ledger_places.ABSENT)
    yield from ledger_places.server()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path) -> str:
    """Path or URL of a ledger that is not there yet, once of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "screening.db")
    return ledger_places.schema(request.getfixturevalue("postgres"), f"ledger{next(_numbers)}")
