"""Imports point down, from the commands to the cohort; nothing below knows what stands
above it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "screening"

# From top to bottom, one room a layer.
ROOMS = (
    "__main__",
    "cli",
    "",
    "screen",
    "plots",
    "serve",
    "site",
    "imaging",
    "scoring",
    "model_selection",
    "ledger",
    "store",
    "recipes",
    "estimators",
    "solvers",
    "factors",
    "parallel",
    "task_queue",
    "fork_server",
    "server_start",
    "shared_arrays",
    "cluster",
    "kernels",
    "report",
    "metrics",
    "monitoring",
    "features",
    "data",
    "settings",
    "option_groups",
    "contract",
    "clock",
    "io",
    "identity",
    "schemas",
    "registry",
    "threads",
    "garbage",
    "files",
    "errors",
    "spelling",
)
HEIGHT = {room: -depth for depth, room in enumerate(ROOMS)}
# Features know these three rooms, and what these are made of.
NEIGHBOURS = {"io", "contract", "schemas", "clock", "files", "errors", "spelling"}
MOST_PARAMETERS = 8
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports_of(tree: ast.AST, package: str) -> Iterator[str]:
    """Every module of the package that is imported anywhere at run time, relative names
    resolved.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            parts = filter(None, (base, node.module))
            stem = ".".join(parts)
            yield from (f"{stem}.{alias.name}" for alias in node.names)
        else:
            yield from imports_of(node, package)


def own_imports(path: Path) -> list[str]:
    """Return the modules of known rooms that a file imports."""
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    package = ".".join(("screening", *inside[:-1]))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = imports_of(tree, package)
    return [
        name
        for name in names
        if name.split(".")[0] == "screening" and part_of(name) in HEIGHT
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_its_own_room_and_those_below(path):
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    here = inside[0]
    if len(inside) == 1:
        here = here.replace("__init__", "")
    assert here in HEIGHT, "a part of the package without a room"
    above = [name for name in own_imports(path) if HEIGHT[part_of(name)] > HEIGHT[here]]
    assert above == []


def test_at_most_eight_parameters():
    """A function takes at most eight, a command too.

    Loops that numba compiles take each array by itself: it knows no dataclass.
    """
    longer = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = [arg.arg for arg in listed if arg.arg not in ("self", "cls")]
            is_compiled = any(
                "njit" in ast.unparse(mark) for mark in node.decorator_list
            )
            if len(names) > MOST_PARAMETERS and not is_compiled:
                longer.append(f"{path.name}: {node.name} {len(names)}")

    assert longer == []


def test_features_know_few_rooms():
    files = sorted((PACKAGE / "features").rglob("*.py"))

    known = {part_of(name) for path in files for name in own_imports(path)}

    assert known - {"features"} <= NEIGHBOURS
