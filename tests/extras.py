"""The packages that extras bring: which of them are missing here."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# No test needs what builds the site of the documents, or measures coverage.
UNTESTED = {"docs", "coverage"}


def missing_packages() -> list[str]:
    """Return the packages of the extras that are not installed, sorted."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    packages = {
        re.match(r"[\w.-]+", requirement).group()
        for extra, requirements in project["optional-dependencies"].items()
        if extra not in UNTESTED
        for requirement in requirements
    }
    packages.discard(project["name"])
    return sorted(name for name in packages if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def recipe_params(recipes: list) -> list:
    """Return the recipes as parameters of a test; one that lacks a package skips."""
    return [
        pytest.param(
            recipe,
            id=recipe.name,
            marks=pytest.mark.skipif(
                recipe.missing_requirement is not None,
                reason=f"needs {recipe.missing_requirement}",
            ),
        )
        for recipe in recipes
    ]
