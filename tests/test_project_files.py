"""What publishing needs is there: workflows, forms, the citation, the paper, the conda
recipe, and a command that refuses while a field of the owner's is empty.
"""

import gzip
import io
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    path
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")
    if path.name != "config.yml"
)
RECIPE = ROOT / "deploy" / "conda" / "recipe.yaml"
CITATION = ROOT / "CITATION.cff"
PAPER = ROOT / "docs" / "paper"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CI_RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
LINTERS = ROOT / "build" / "linters" / "bin"
ADDRESS = "https://example.org/ward/screening"
# Parses a recipe as rattler-build does, and evaluates its expressions.
RENDER = (
    "import sys, rattler_build as build;"
    "print(len(build.Stage0Recipe.from_file(sys.argv[1]).render()))"
)
SCHEMA = ("check-jsonschema", "--builtin-schema")
LINTS = {
    "actionlint": ("actionlint", *WORKFLOWS),
    "rights": ("zizmor", "--offline", "--quiet", GITHUB / "workflows"),
    "workflows": (*SCHEMA, "vendor.github-workflows", *WORKFLOWS),
    "forms": (*SCHEMA, "vendor.github-issue-forms", *FORMS),
    "citation": (*SCHEMA, "vendor.citation-file-format", CITATION),
    "recipe": ("python", "-c", RENDER, RECIPE),
}


def workflow_named(path: Path) -> dict:
    """Return a workflow; `on` stays a word instead of YAML 1.1's True."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps_of(path: Path) -> list[dict]:
    """Return the steps of all jobs of a workflow."""
    jobs = workflow_named(path)["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def by_name(path: Path) -> str:
    return path.name


@pytest.mark.skipif(
    not (LINTERS / "actionlint").exists(),
    reason="actionlint and other linters are not installed: make linters",
)
@pytest.mark.parametrize("name", LINTS)
def test_linter_accepts(name):
    """Workflows, forms, citation and recipe are what the tools that read them expect.

    The tools are those of `make linters`.
    """
    program, *words = LINTS[name]
    command = [LINTERS / program, *words]

    linted = subprocess.run(command, capture_output=True, text=True, check=False)

    assert linted.returncode == 0, linted.stdout + linted.stderr


STEPS = "demo test linters speed published newest oldest docs image release"


def ci_steps() -> dict[str, str]:
    """Return the steps of `.ci/run`, each with its commands."""
    _, _, cases = CI_RUN.partition("case $1 in\n")
    found = re.findall(r"^    (\w+)\)(.*?);;$", cases, flags=re.DOTALL | re.MULTILINE)
    return dict(found)


def hosted_steps(path: Path) -> set[str]:
    """Return the steps of `.ci/run` that a workflow runs, in all its matrices."""
    steps = set()
    for job in workflow_named(path)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {"steps": []})
        listed = [
            *matrix["steps"],
            *(entry["steps"] for entry in matrix.get("include", [])),
        ]
        runs = [step["run"] for step in job["steps"] if "run" in step]
        words = " ".join(runs).replace("${{ matrix.steps }}", " ".join(listed))
        steps |= set(words.replace(".ci/run", "").split())
    return steps


@pytest.mark.parametrize("path", WORKFLOWS, ids=by_name)
def test_workflow_runs_only_ci_run(path):
    """A workflow has no commands of its own: what fails there can be run anywhere."""
    runs = [step["run"] for step in steps_of(path) if "run" in step]

    assert len(runs) == 1
    assert re.fullmatch(r"\.ci/run [a-z ]+|\.ci/run \$\{\{ matrix\.steps \}\}", runs[0])
    assert hosted_steps(path) <= ci_steps().keys()


def test_ci_steps_run_what_exists():
    """Each step starts scripts that are there, and targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    started = set(re.findall(r"\bmake ([a-z]+)", CI_RUN))
    scripts = set(re.findall(r"(?<!\.venv/bin/)\.ci/(\w+)", CI_RUN)) - {"run"}
    (tests,) = re.findall(r"published_tests=\((.*)\)", CI_RUN)

    assert ci_steps().keys() == set(STEPS.split())
    assert started <= targets
    assert started >= {"demo", "test", "docs", "release", "filled"}
    assert [name for name in scripts if not (ROOT / ".ci" / name).exists()] == []
    assert [name for name in tests.split() if not (ROOT / name).exists()] == []
    assert (ROOT / "benchmarks/speed/floors.py").exists()


@pytest.mark.parametrize(
    "target", "demo test docs linters filled image promises coverage release".split()
)
def test_ci_target_has_a_recipe(target):
    """`make` knows how each target of a step is made, down to its last file."""
    command = ["make", "--dry-run", target]
    planned = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert planned.returncode == 0, planned.stderr


def test_ci_step_unknown():
    """A step that does not exist is refused before anything runs."""
    command = [ROOT / ".ci" / "run", "nothing"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert ended.stdout == f"no step nothing: {STEPS}\n"


@pytest.mark.parametrize("path", WORKFLOWS, ids=by_name)
def test_workflow_rights(path):
    """No rights but those a job names, no stored secret, and actions that are fixed."""
    text = path.read_text(encoding="utf-8")
    workflow = workflow_named(path)
    jobs = workflow["jobs"].values()
    uses = re.findall(r"uses: (.*)", text)
    checkouts = [
        step for step in steps_of(path) if "actions/checkout@" in step.get("uses", "")
    ]

    assert workflow["permissions"] == {}
    assert "secrets." not in text
    assert "pull_request_target" not in text
    assert all("permissions" in job and "timeout-minutes" in job for job in jobs)
    pinned = r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [action for action in uses if not re.fullmatch(pinned, action)] == []
    assert [
        step for step in checkouts if step["with"]["persist-credentials"] != "false"
    ] == []


def test_actions_have_one_version():
    """Each action is the same commit in all workflows."""
    texts = [path.read_text(encoding="utf-8") for path in WORKFLOWS]
    pins = {pin for text in texts for pin in re.findall(r"uses: (.*)", text)}

    assert len({pin.split("@")[0] for pin in pins}) == len(pins)


def test_hosted_matrix():
    """Linux on two processors and macOS, every Python, newest and oldest versions."""
    workflow = workflow_named(GITHUB / "workflows" / "tests.yml")
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]
    oldest = [entry for entry in matrix["include"] if entry["steps"] == "oldest"]

    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {system.rsplit("-", 1)[0] for system in matrix["os"]} == {
        "ubuntu",
        "ubuntu-24.04",
        "macos",
    }
    assert "newest" in matrix["steps"]
    assert [entry["os"] for entry in oldest] == matrix["os"]
    minimum = SpecifierSet(PROJECT["project"]["requires-python"])
    assert [entry for entry in oldest if entry["python"] not in minimum] == []


@pytest.mark.parametrize("path", FORMS, ids=by_name)
def test_issue_form(path):
    """A form has required fields, each with its own name."""
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]

    assert form["name"]
    assert form["description"]
    assert len(set(names)) == len(names) >= 3
    assert [
        field["id"]
        for field in fields
        if field["type"] != "checkboxes" and not field["validations"]["required"]
    ] == []


def copied(tmp_path: Path) -> Path:
    """Return a folder with the files that `make publish` reads, and an environment
    whose `build` and `twine` only say that they ran.
    """
    for name in ("Makefile", "pyproject.toml", "requirements-test.lock", CITATION.name):
        shutil.copy(ROOT / name, tmp_path)
    for folder in (".ci", ".github"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '  "-m build"*) mkdir dist; echo "built for $PROJECT_URL" >dist/built ;;\n'
        "  .ci/repack.py*) ;;\n"
        f'  *) exec "{sys.executable}" "$@" ;;\n'
        "esac\n"
    )
    (programs / "twine").write_text("#!/bin/sh\n")
    for program in ("python", "twine"):
        (programs / program).chmod(0o755)
    for mark in ("made", "installed-test"):
        (tmp_path / ".venv" / mark).touch()
    return tmp_path


def fill(folder: Path) -> None:
    """Fill the fields as an owner does."""
    for name, old, new in (
        ("CITATION.cff", '"FILL-IN"', '"Weber"'),
        (".github/CODEOWNERS", "@FILL-IN", "@ward/screening"),
        (
            ".github/CODE_OF_CONDUCT.md",
            "[FILL-IN: an address that is read]",
            "conduct@example.org",
        ),
    ):
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


def publish(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return what `make publish` answers there."""
    return subprocess.run(
        ["make", "--silent", "publish", *words],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_publish_refuses(tmp_path):
    """Each empty field is named with its place, and nothing is built."""
    folder = copied(tmp_path)

    refused = publish(folder)

    assert refused.returncode != 0
    assert "the metadata have no address until you give one" in refused.stderr
    for place in ("PROJECT_URL", "CITATION.cff", "CODEOWNERS", "CODE_OF_CONDUCT.md"):
        assert place in refused.stderr
    assert not (folder / "dist").exists()


def test_publish_leaves_one_command(tmp_path):
    """With every field filled it builds with the address, and prints what to type."""
    folder = copied(tmp_path)
    fill(folder)

    published = publish(folder, f"PROJECT_URL={ADDRESS}")

    assert published.returncode == 0, published.stderr
    assert (folder / "dist/built").read_text() == f"built for {ADDRESS}\n"
    assert published.stdout.endswith(
        "One command is left: .venv/bin/twine upload dist/*\n"
    )


UNFILLED = runpy.run_path(str(ROOT / ".ci" / "unfilled.py"))


@pytest.mark.parametrize(
    "authors",
    [
        "",
        "authors: []",
        "authors: [{family-names: Weber}]",
        "authors: [{family-names: Weber, given-names: ''}]",
        "authors: [{family-names: Weber, given-names: A.}, {name: FILL-IN}]",
    ],
)
def test_authors_empty(authors):
    """A citation without a name for each author counts as empty."""
    assert UNFILLED["authors_are_empty"](f"title: screening\n{authors}\n")


@pytest.mark.parametrize("author", ["family-names: Weber, given-names: A.", "name: W"])
def test_authors_filled(author):
    """A person or an organisation is an author."""
    assert not UNFILLED["authors_are_empty"](f"authors: [{{{author}}}]\n")


def test_one_empty_field_named(tmp_path):
    """A field that is filled is not named again."""
    folder = copied(tmp_path)
    fill(folder)

    assert UNFILLED["unfilled"](folder, ADDRESS) == []
    (line,) = UNFILLED["unfilled"](folder, "example.org")
    assert line.startswith("PROJECT_URL")


def sdist(path: Path, names: list[str], time: float, owner: str) -> None:
    """Write an archive of files with a time and an owner."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            member.mtime = time
            member.uname = owner
            member.mode = 0o664
            archive.addfile(member, io.BytesIO(name.encode()))


def test_sdist_same_bytes(tmp_path):
    """Archives of the same files, built at other times by other users, are the same."""
    repack = runpy.run_path(str(ROOT / ".ci" / "repack.py"))["repack"]
    first, second = tmp_path / "first.tar.gz", tmp_path / "second.tar.gz"
    sdist(first, ["a/README.md", "a/setup.py"], 1000.25, "weber")
    sdist(second, ["a/setup.py", "a/README.md"], 2000.5, "root")

    repack(first, 1_700_000_000)
    repack(second, 1_700_000_000)

    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        assert archive.getnames() == ["a/README.md", "a/setup.py"]
        assert archive.extractfile("a/setup.py").read() == b"a/setup.py"
    assert gzip.decompress(first.read_bytes())


def specifiers(lines: list[str]) -> dict[str, SpecifierSet]:
    """Return requirements of conda or of pyproject by their names."""
    requirements = [Requirement(line.replace(" ", "", 1)) for line in lines]
    return {requirement.name: requirement.specifier for requirement in requirements}


def test_conda_recipe_is_the_project():
    """The recipe has the dependencies, version, commands and licence of pyproject."""
    project = PROJECT["project"]
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    needed = specifiers(recipe["requirements"]["run"])
    commands = dict(
        line.split(" = ") for line in recipe["build"]["python"]["entry_points"]
    )

    assert needed.pop("python") == SpecifierSet(project["requires-python"])
    assert needed == specifiers(project["dependencies"])
    assert recipe["context"]["version"] == project["version"]
    assert commands == project["scripts"]
    assert recipe["about"]["license"] == project["license"]
    assert recipe["about"]["summary"] == project["description"]
    assert PROJECT["build-system"]["requires"] == ["setuptools>=77"]
    assert "setuptools >=77" in recipe["requirements"]["host"]


def test_citation_is_the_project():
    """The citation has the version and the licence of pyproject."""
    citation = yaml.safe_load(CITATION.read_text(encoding="utf-8"))

    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]


SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "What does not reproduce",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]


def paper() -> tuple[dict, str]:
    """Return the metadata of the paper, and its text."""
    _, metadata, text = (
        (PAPER / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
    )
    return yaml.safe_load(metadata), text


def test_paper_form():
    """The paper has the metadata and sections of JOSS, in 750 to 1,000 words."""
    metadata, text = paper()

    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(
        metadata
    )
    assert re.findall(r"^# (.*)$", text, flags=re.MULTILINE) == SECTIONS
    assert 750 <= len(text.split()) <= 1000
    assert (PAPER / metadata["bibliography"]).exists()


def test_paper_references():
    """Each citation is in the bibliography, and each entry is cited, with a venue."""
    _, text = paper()
    bibliography = (PAPER / "paper.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),(.*?)^\}", bibliography, re.DOTALL | re.M)
    venue = re.compile(r"^  (journal|booktitle|publisher|url) +=", re.MULTILINE)

    assert set(re.findall(r"@(\w+)", text)) == {name for name, _ in entries}
    assert len(entries) == len(dict(entries))
    assert [name for name, fields in entries if not venue.search(fields)] == []


def test_patients_files_not_committed(tmp_path):
    """Where an unpacked sdist becomes a repository, `git add .` adds only sources."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    sources = {".gitignore", "pyproject.toml", "tests/windows.csv"}
    of_patients = (
        ".venv/pyvenv.cfg",
        "demo/run.json",
        "nights/ward/run.json",
        "past.csv",
        "PKG-INFO",
        "runs/2026-01-14/flagged.csv",
        "screening.db",
        "screening.egg-info/SOURCES.txt",
        "setup.cfg",
        "trained/infection/model.json",
    )
    for name in (*sources, *of_patients):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run([git, "init", "--quiet"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        [git, "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")

    assert set(listed.stdout.splitlines()) == sources
    assert ".gitignore" in manifest.split()
