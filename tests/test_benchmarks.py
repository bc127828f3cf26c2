"""What the benchmarks measure by: the list of mistakes, the scripts of the papers, a network that adds up."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.rglob("*.py"))


@pytest.fixture(scope="module")
def imported():
    with pytest.MonkeyPatch.context() as patch:
        for folder in (BENCHMARKS, BENCHMARKS / "papers", BENCHMARKS / "speed"):
            patch.syspath_prepend(str(folder))
        yield importlib.import_module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_imports(script):
    """What a script takes from the package, the tests and other scripts at its top is there."""
    own = {path.stem: path.read_text("utf-8") for path in [*SCRIPTS, *(ROOT / "tests").glob("*.py")]}
    body = ast.parse(script.read_text("utf-8")).body
    for node in (node for node in body if isinstance(node, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        if node.module in own:
            assert [name for name in names if name not in own[node.module]] == []
        else:
            assert [name for name in names if not hasattr(importlib.import_module(node.module), name)] == []


def test_benchmark_commands(imported):
    """Every script stands with a command on a page, and takes the options that stand there."""
    commands = imported("run").commands()
    named = {command.split()[0] for command in commands}
    runnable = {path for path in SCRIPTS if "__main__" in path.read_text("utf-8")} - {BENCHMARKS / "run.py"}

    assert named == {str(path.relative_to(ROOT)) for path in runnable}
    for command in commands:
        text = (ROOT / command.split()[0]).read_text("utf-8")
        assert [word for word in command.split() if word.startswith("--") and f'"{word}"' not in text] == []


def test_mistakes_apply(imported):
    """Each mistake stands once, changes one place of its file, leaves it Python, and names tests."""
    mistakes = imported("mutants").mistakes()
    texts = {each.file: (ROOT / each.file).read_text("utf-8") for each in mistakes}

    assert [each for each in mistakes if texts[each.file].count(each.old) != 1 or each.old == each.new] == []
    for each in mistakes:
        ast.parse(texts[each.file].replace(each.old, each.new))
    assert len(mistakes) == len({(each.file, each.old) for each in mistakes}) >= 60
    named = {name for each in mistakes for name in each.tests}
    assert [name for name in sorted(named) if not (ROOT / f"tests/test_{name}.py").exists()] == []
