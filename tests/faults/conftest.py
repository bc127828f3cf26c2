"""The desk that the attacks are made on: laid once, a copy for every file of tests."""

from pathlib import Path

import pytest

from faults.desk import copied, laid


@pytest.fixture(scope="session")
def laid_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The desk as it was laid, which nobody writes in."""
    return laid(tmp_path_factory.mktemp("laid"))


@pytest.fixture(scope="module")
def desk(laid_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk for the tests of one file."""
    return copied(laid_once, tmp_path_factory.mktemp("desk") / "desk")
