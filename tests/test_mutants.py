"""The list of mistakes that tests should see does not rot."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def mistakes():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import mutants

    sys.path.remove(str(ROOT / "benchmarks"))
    return mutants.mistakes()


def test_every_mistake_changes_one_place_of_its_file_and_leaves_it_python(mistakes):
    texts = {each.file: (ROOT / each.file).read_text("utf-8") for each in mistakes}

    assert [each for each in mistakes if texts[each.file].count(each.old) != 1 or each.old == each.new] == []
    for each in mistakes:
        ast.parse(texts[each.file].replace(each.old, each.new))


def test_every_mistake_stands_once_and_names_test_files(mistakes):
    named = {name for each in mistakes for name in each.tests}

    assert len(mistakes) == len({(each.file, each.old) for each in mistakes}) >= 60
    assert [name for name in sorted(named) if not (ROOT / f"tests/test_{name}.py").exists()] == []
