"""What every test runs under, the places a ledger may lie in, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import ledger_places
import pytest
from browser_pages import browser, opened  # noqa: F401  (fixtures)
from hypothesis import settings

# Derandomised: the same tests everywhere; no deadline: a shared machine is slow now and then.
settings.register_profile("shared", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("shared")

_numbers = count()


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
