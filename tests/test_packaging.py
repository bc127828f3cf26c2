"""What is shipped is whole: a wheel works away from the checkout, and a factor is added by two files."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DATA = ("models", "templates", "sample_cohorts")
SHIPPED = ("screening", *DATA, "pyproject.toml", "README.md", "LICENSE")
TRAIN = ("-m", "screening", "train", "--search", "1", "--folds", "2", "--max-rows", "150", "--beside", "none")
PAST, CONTRACT = "nosocomial_past.csv", "nosocomial.toml"


def copy_of(names: tuple[str, ...], folder: Path) -> None:
    """Copy files and folders of the checkout, with what is compiled already."""
    for name in names:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, folder / name)


def python(site: Path, *words: object) -> str:
    """Run Python in another directory with `site` before everything else; return what it prints."""
    away = site.parent / "away"
    away.mkdir(exist_ok=True)
    answer = subprocess.run(
        [sys.executable, *map(str, words)], cwd=away,
        env=os.environ | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the wheel installed into it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    copy_of(SHIPPED, source)
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, source]
    python(folder / "none", "-m", "pip", "--quiet", *build)
    (wheel,) = folder.glob("screening-*.whl")
    python(
        folder / "none", "-m", "pip", "--quiet", "install", "--no-deps", "--no-index", "--target",
        folder / "site", wheel,
    )  # fmt: skip
    return folder / "site"


needs_setuptools = pytest.mark.skipif(
    int(version("setuptools").split(".")[0]) < 77, reason="building a wheel needs setuptools 77 or newer"
)


@needs_setuptools
def test_a_wheel_trains_on_its_own_sample_and_draws_the_report_again(site):
    samples = site / "screening" / "sample_cohorts"
    python(
        site, *TRAIN, "--recipe", "logistic", samples / PAST, "--contract", samples / CONTRACT, "--out",
        "model",
    )  # fmt: skip
    page = site.parent / "away" / "model" / "report.html"
    first = page.read_bytes()
    page.unlink()
    python(site, "-m", "screening", "report", "model")

    assert page.read_bytes() == first


@needs_setuptools
def test_a_wheel_holds_every_file_of_the_data_folders(site):
    endings = {".toml", ".j2", ".css", ".js", ".csv", ".parquet", ".md"}
    for name in DATA:
        ours = {path.name for path in (ROOT / name).iterdir() if path.suffix in endings}
        theirs = {path.name for path in (site / "screening" / name).iterdir()}
        assert ours <= theirs


def test_every_folder_of_the_package_is_listed_for_the_wheel():
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "screening").rglob("__init__.py")}
    packages = {".".join(folder.parts) for folder in folders} | {f"screening.{name}" for name in DATA}

    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages


def test_every_package_that_is_imported_is_a_dependency_or_an_extra_of_its_own():
    names = {
        "sklearn": "scikit-learn", "imblearn": "imbalanced-learn", "llvmlite": "numba",
        "markupsafe": "jinja2", "pydantic_core": "pydantic", "python_calamine": "python-calamine",
    }  # fmt: skip
    imported = set()
    for path in (ROOT / "screening").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            absolute = isinstance(node, ast.ImportFrom) and not node.level
            imported |= {str(node.module)} if absolute else set()
    # What only the type checker reads comes with it.
    ours = {"screening", "_typeshed"}
    outside = {name.split(".")[0] for name in imported} - set(sys.stdlib_module_names) - ours
    extras = PROJECT["project"]["optional-dependencies"]
    used = (extras[name] for name in extras.keys() - {"test", "supply", "docs"})
    asked = [*PROJECT["project"]["dependencies"], *chain.from_iterable(used)]
    declared = {re.match(r"[\w-]+", line)[0].lower() for line in asked}

    assert {names.get(name, name) for name in outside} <= declared


def test_the_locked_installation_holds_no_tool_of_developers():
    """Tests and documents need much that no hospital's host should carry."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    installed = set(re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE))
    extras = PROJECT["project"]["optional-dependencies"]
    needed = chain(
        PROJECT["project"]["dependencies"], *(extras[name] for name in ("postgres", "signing", "xlsx"))
    )
    names, tools = (
        {re.match(r"[\w.-]+", line)[0].lower() for line in lines}
        for lines in (needed, chain(*(extras[name] for name in ("test", "docs", "supply", "plots"))))
    )

    assert names <= installed
    assert installed & (tools - names) == set()


def test_the_factor_in_contributing_is_found_trained_and_stored_by_its_two_files(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (factor,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (recipe,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    site = tmp_path / "site"
    site.mkdir()
    copy_of(("screening",), site)
    for name in DATA:
        (site / "screening" / name).symlink_to(ROOT / name)
    (site / "screening" / "models").unlink()
    shutil.copytree(ROOT / "models", site / "screening" / "models")
    (site / "screening" / "factors" / "slab.py").write_text(factor, encoding="utf-8")
    (site / "screening" / "models" / "slab.toml").write_text(recipe, encoding="utf-8")
    samples = site / "screening" / "sample_cohorts"

    listed = json.loads(python(site, "-m", "screening", "recipes", "slab", "--json"))["recipes"]
    python(
        site, *TRAIN, "--recipe", "slab", samples / PAST, "--contract", samples / CONTRACT, "--out", "model"
    )
    python(site, "-m", "screening", "score", "model", samples / "nosocomial_night.csv", "--out", "run")

    assert [entry["name"] for entry in listed] == ["slab"]
    assert (tmp_path / "away" / "run" / "report.html").exists()
