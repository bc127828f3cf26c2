"""What is shipped is whole: a wheel works away from the checkout, a factor is two
files, benchmarks run.
"""

import ast
import importlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import MagicMock

import conftest
import extras
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from written_files import names_in

from screening.kernels.simd import NUMBA_VERSIONS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DATA = ("models", "templates", "sample_cohorts")
SHIPPED = (
    "screening",
    *DATA,
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
TRAIN = (
    "train",
    "--search",
    "1",
    "--folds",
    "2",
    "--max-rows",
    "150",
    "--beside",
    "none",
)
SAMPLES = ROOT / "sample_cohorts"
PAST = "nosocomial_past.csv"
NIGHT = "nosocomial_night.csv"
CONTRACT = "nosocomial.toml"


# Commands in one process, which imports once; their exit codes and what they print.
IN_ONE_PROCESS = """
import json, sys
from typer.testing import CliRunner
from screening.cli import app
results = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(result.exit_code, result.output) for result in results]))
"""


def copy_of(names: tuple[str, ...], folder: Path) -> None:
    for name in names:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, folder / name)


def python(site: Path, *words: object) -> str:
    """Run Python in another directory with `site` before everything else; return what
    it prints.
    """
    away = site.parent / "away"
    away.mkdir(exist_ok=True)
    answer = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=away,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def screen(site: Path, *commands: tuple[object, ...]) -> tuple[list[int], list[str]]:
    """Run commands of the package in `site`; return their exit codes, and what each
    prints.
    """
    words = json.dumps([[str(word) for word in command] for command in commands])
    results = json.loads(python(site, "-c", IN_ONE_PROCESS, words))
    codes, printed = zip(*results, strict=True)
    return [*codes], [*printed]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    copy_of(SHIPPED, source)
    build = [
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        folder,
        source,
    ]
    python(folder / "none", "-m", "pip", "--quiet", *build)
    (wheel,) = folder.glob("screening-*.whl")
    where = ["--no-deps", "--no-index", "--target", folder / "site", wheel]
    python(folder / "none", "-m", "pip", "--quiet", "install", *where)
    return folder / "site"


needs_setuptools = pytest.mark.skipif(
    int(version("setuptools").split(".")[0]) < 77,
    reason="building a wheel needs setuptools 77 or newer",
)


@needs_setuptools
def test_a_wheel_trains_on_its_own_sample_and_draws_the_report_again(site):
    samples = site / "screening" / "sample_cohorts"
    own = (
        "--recipe",
        "logistic",
        samples / PAST,
        "--contract",
        samples / CONTRACT,
        "--out",
        "model",
    )
    trained, _ = screen(site, (*TRAIN, *own))
    page = site.parent / "away" / "model" / "report.html"
    first = page.read_bytes()
    page.unlink()
    drawn, _ = screen(site, ("report", "model"))

    assert trained == drawn == [0]
    assert page.read_bytes() == first


@needs_setuptools
def test_a_wheel_holds_every_file_of_the_data_folders(site):
    """And every folder of the package is listed for it."""
    endings = {".toml", ".j2", ".css", ".js", ".csv", ".parquet", ".md"}
    for name in DATA:
        files = (ROOT / name).iterdir()
        ours = {path.name for path in files if path.suffix in endings}
        assert ours <= names_in(site / "screening" / name)
    folders = {
        path.parent.relative_to(ROOT)
        for path in (ROOT / "screening").rglob("__init__.py")
    }
    packages = {".".join(folder.parts) for folder in folders} | {
        f"screening.{name}" for name in DATA
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages


def requirements(*extras: str) -> list[Requirement]:
    """Return what these extras need, of the dependencies for "", without the
    project.
    """
    project = PROJECT["project"]
    lists = project["optional-dependencies"] | {"": project["dependencies"]}
    needed = []
    for extra in extras:
        for requirement in map(Requirement, lists[extra]):
            if requirement.name == "screening":
                needed += requirements(*requirement.extras)
            else:
                needed.append(requirement)
    return needed


def required(*extras: str) -> set[str]:
    """Return the names of the packages that these extras need."""
    return {requirement.name.lower() for requirement in requirements(*extras)}


def test_numba_range():
    """It is that of which the vector code knows numba's internals."""
    by_name = {requirement.name: requirement for requirement in requirements("")}

    assert by_name["numba"].specifier == SpecifierSet(NUMBA_VERSIONS)


def test_imports_are_dependencies():
    """Every package that is imported is a dependency or an extra of its own."""
    names = {
        "sklearn": "scikit-learn",
        "imblearn": "imbalanced-learn",
        "markupsafe": "jinja2",
        "pydantic_core": "pydantic",
        "python_calamine": "python-calamine",
    }
    imported = set()
    for path in (ROOT / "screening").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            imported |= (
                {alias.name for alias in node.names}
                if isinstance(node, ast.Import)
                else set()
            )
            absolute = isinstance(node, ast.ImportFrom) and not node.level
            imported |= {str(node.module)} if absolute else set()
    # What only the type checker reads comes with it.
    ours = {"screening", "_typeshed"}
    packages = {name.split(".")[0] for name in imported}
    outside = packages - set(sys.stdlib_module_names) - ours
    extras = PROJECT["project"]["optional-dependencies"].keys() - {
        "test",
        "docs",
    }

    distributions = {names.get(name, name) for name in outside}
    assert distributions <= required("", *extras)


def test_the_locked_installation_holds_no_tool_of_developers():
    """Tests and documents need much that no hospital's host should carry."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    installed = set(re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE))
    needed = required("", "postgres", "serve", "signing", "xlsx")
    assert needed <= installed
    of_developers = required("test", "docs", "plots") - needed
    assert installed & of_developers == set()


LOCKS = {
    "requirements.lock": ("", "postgres", "signing", "xlsx"),
    "requirements-demo.lock": ("",),
    "requirements-test.lock": ("", "test"),
}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_is_of_this_project(name):
    """Every requirement is locked, in every version that it allows, with hashes."""
    text = (ROOT / name).read_text(encoding="utf-8")
    locked: dict[str, list[str]] = {}
    pins = re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE)
    for package, pinned in pins:
        locked.setdefault(package, []).append(pinned)

    for requirement in requirements(*LOCKS[name]):
        normalised = requirement.name.lower().replace(".", "-")
        versions = locked[normalised]
        assert all(requirement.specifier.contains(pinned) for pinned in versions)
    assert text.count("--hash=sha256:") > len(locked)


@pytest.mark.parametrize("url", ["", "https://example.org/screening"])
def test_published_readme_has_no_relative_link(url):
    """Links and pictures of the README work outside the repository, or are text."""
    setup = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    published = setup["published_readme"](readme, url)

    targets = re.findall(r"\]\(([^)]+)\)", published)
    assert [
        target for target in targets if not target.startswith(("https://", "#"))
    ] == []
    assert ("![A nightly page" in published) == bool(url)


def package_in(folder: Path) -> Path:
    """A copy of the package with its data."""
    site = folder / "site"
    site.mkdir()
    copy_of(("screening",), site)
    for name in DATA:
        (site / "screening" / name).symlink_to(ROOT / name)
    return site


@pytest.fixture
def tree(tmp_path):
    """A copy of the repository, to be changed as a contributor would."""
    ignored = shutil.ignore_patterns(".*", "build", "dist", "wheelhouse", "*.egg-info")
    tree = shutil.copytree(ROOT, tmp_path / "tree", ignore=ignored, symlinks=True)
    return Path(tree)


def test_factor_of_contributing(tree):
    """With its two files as printed it is listed, trained and stored, and tests
    pass; so is the figure in its file.
    """
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    factor, figure = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (recipe,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    (tree / "screening" / "factors" / "slab.py").write_text(factor, encoding="utf-8")
    (tree / "models" / "slab.toml").write_text(recipe, encoding="utf-8")
    figures = tree / "screening" / "metrics" / "figures"
    (figures / "errors.py").write_text(figure, encoding="utf-8")
    titles = (
        "from screening.metrics.figures import figures_in;"
        "print([figure.title for figure in figures_in('outcomes_by_month')])"
    )
    own = (
        "--recipe",
        "slab",
        SAMPLES / PAST,
        "--contract",
        SAMPLES / CONTRACT,
        "--out",
        "model",
    )
    lists = [
        tree / "tests" / name
        for name in (
            "test_factors.py",
            "test_recipes.py",
            "test_site.py",
            "test_figures.py",
        )
    ]
    codes, printed = screen(
        tree,
        ("recipes", "slab", "--json"),
        (*TRAIN, *own),
        ("score", "model", SAMPLES / NIGHT, "--out", "run"),
    )
    assert codes == [0, 0, 0], printed
    listed = json.loads(printed[0])["recipes"]
    tested = python(
        tree,
        "-m",
        "pytest",
        "--assert=plain",
        "-k",
        "slab or methods or undefined",
        "-vv",
        *lists,
    )

    assert "'Errors'" in python(tree, "-c", titles)
    assert [entry["name"] for entry in listed] == ["slab"]
    assert (tree.parent / "away" / "run" / "report.html").exists()
    assert len(re.findall(r"slab.* PASSED", tested)) >= 8
    assert re.search(r"test_a_figure_is_undefined.* PASSED", tested)


def test_a_room_of_the_registry_can_be_taken_out(tmp_path):
    """Deleting `imaging/` and its lines removes images and nothing else; what needs
    them is refused.
    """
    site = package_in(tmp_path)
    shutil.rmtree(site / "screening" / "imaging")
    registry = site / "screening" / "registry.py"
    lines = registry.read_text().splitlines(keepends=True)
    registry.write_text(
        "".join(line for line in lines if "screening.imaging" not in line)
    )
    rows = (f"P{i % 6},{i},{i % 5},0,{i % 7},{i % 2}\n" for i in range(120))
    (tmp_path / "voxels.csv").write_text(
        "patient_id,x,y,z,flair,lesion\n" + "".join(sorted(rows))
    )
    own = (
        "--recipe",
        "logistic",
        SAMPLES / PAST,
        "--contract",
        SAMPLES / CONTRACT,
        "--out",
        "model",
    )
    voxels = (
        "--label",
        "lesion",
        "--group",
        "patient_id",
        "--neighbourhood",
        3,
        "--out",
        "other",
    )

    codes, printed = screen(
        site,
        (*TRAIN, *own),
        ("score", "model", SAMPLES / NIGHT, "--out", "run"),
        ("export", "run", "--to", "csv", "--out", "list.csv"),
        ("export", "run", "--to", "nifti", "--out", "volumes"),
        ("train", tmp_path / "voxels.csv", *voxels),
    )

    naming = [
        path
        for path in site.rglob("*.py")
        if "screening.imaging" in path.read_text(encoding="utf-8")
    ]
    assert naming == []
    assert codes == [0, 0, 0, 2, 2], printed
    *_, refused, neighbours = printed
    away = tmp_path / "away"
    assert (away / "list.csv").is_file()
    assert (away / "run" / "report.html").is_file()
    assert "nifti" in refused
    assert "does not contain neighbourhood" in neighbours


BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.rglob("*.py"))


@pytest.fixture(scope="module")
def imported():
    with pytest.MonkeyPatch.context() as patch:
        for folder in (BENCHMARKS, BENCHMARKS / "papers", BENCHMARKS / "speed"):
            patch.syspath_prepend(str(folder))
        yield importlib.import_module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_benchmark_imports(script, imported):
    """A script finds what it takes from the package, tests, samples and other
    scripts.
    """
    own = {}
    for folder in (BENCHMARKS, ROOT / "tests", ROOT / "sample_cohorts"):
        for path in folder.rglob("*.py"):
            own[path.stem] = path.read_text("utf-8")
    body = ast.parse(script.read_text("utf-8")).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        names = [alias.name for alias in node.names]
        if node.module in own:
            absent = [name for name in names if name not in own[node.module]]
            assert absent == []
        else:
            assert [
                name for name in names if not hasattr(imported(node.module), name)
            ] == []


def test_benchmark_commands(imported):
    """Every script stands with a command on a page, and takes the options that stand
    there.
    """
    commands = imported("run").commands()
    named = {command.split()[0] for command in commands}
    runnable = {path for path in SCRIPTS if "__main__" in path.read_text("utf-8")}
    runnable.discard(BENCHMARKS / "run.py")
    assert named == {str(path.relative_to(ROOT)) for path in runnable}
    for command in commands:
        script, *_ = command.split()
        text = (ROOT / script).read_text("utf-8")
        assert [
            word
            for word in command.split()
            if word.startswith("--") and f'"{word}"' not in text
        ] == []


def test_mistakes_apply(imported):
    """Each mistake stands once, changes one place of its file, leaves it Python, and
    names tests.
    """
    mistakes = imported("mutants").mistakes()
    texts = {each.file: (ROOT / each.file).read_text("utf-8") for each in mistakes}

    changed = {each: each.applied_to(texts[each.file]) for each in mistakes}
    assert [
        each
        for each, text in changed.items()
        if text is None or text == texts[each.file]
    ] == []
    for text in changed.values():
        ast.parse(text)
    replaced = {(each.file, each.old) for each in mistakes}
    assert len(mistakes) == len(replaced) >= 60
    named = {name for each in mistakes for name in each.tests}
    assert [
        name for name in sorted(named) if not (ROOT / f"tests/test_{name}.py").exists()
    ] == []


def test_missing_packages_named(monkeypatch):
    """The last line of a test run names the packages of extras that are missing."""

    def version(name):
        if name in ("highdicom", "polars"):
            raise PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(extras, "version", version)

    assert extras.missing_packages() == ["highdicom", "polars"]


def test_missing_packages_summary(monkeypatch):
    """The summary of a run says it, and nothing where all are there."""
    reporter = MagicMock()
    for missing in ([], ["highdicom"]):
        monkeypatch.setattr(conftest, "missing_packages", partial(list, missing))
        conftest.pytest_terminal_summary(reporter)

    reporter.write_line.assert_called_once_with(
        "not installed, so that tests were skipped: highdicom"
    )
