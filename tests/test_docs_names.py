"""What documents and docstrings refer to exists: links, headings, modules, files,
options, figures.
"""

import ast
import io
import pkgutil
import re
import shlex
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from docs_pages import BREAK, DOCS, ROOT

from screening.cli import app

# Written by `make docs`; git ignores them.
GENERATED = (DOCS / "methods", DOCS / "reference")
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", ".github/**/*.md", "sample_cohorts/*.md")
    for path in ROOT.glob(pattern)
    if path.parent not in GENERATED
)
SOURCES = sorted(
    path
    for folder in ("screening", "benchmarks", "docs", "tests", "sample_cohorts")
    for path in (ROOT / folder).rglob("*.py")
)
DOTTED = re.compile(r"`((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)(?:\(.*?\))?`")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+(?:\.[\w-]+)*\.(?:py|md|j2|css|js|sh|sql))`")
IS_FILE = re.compile(
    r"\.(?:py|md|html|json|jsonl|csv|toml|parquet|css|js|sql|db|duckdb|key|pem|lock|sig"
    r"|npz|txt|dcm|gz|cff|prom|service|timer|xlsx|j2|back|ya?ml)$"
)


def without_blocks(text: str) -> str:
    """Return a document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def headings(path: Path) -> set[str]:
    """Return the anchors of a document as GitHub and MyST make them of its headings."""
    text = without_blocks(path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
    return {title.replace(" ", "-") for title in words}


def relative_links(path: Path) -> list[str]:
    """Return the links of a document that lead to a file or a heading."""
    text = without_blocks(path.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in links if "://" not in link]


def leads_somewhere(document: Path, link: str) -> bool:
    """Return True if the file of a link exists, and its heading."""
    name, _, anchor = link.partition("#")
    target = (document.parent / name).resolve() if name else document
    if not target.exists():
        return False
    return not anchor or anchor in headings(target)


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_somewhere(document):
    """In the repository as it is, without the pages that `make docs` writes."""
    links = relative_links(document)

    broken = [link for link in links if not leads_somewhere(document, link)]
    assert broken == []


def test_readme_links_can_be_rewritten():
    """A release replaces ](PATH) by ](URL/PATH): README has no other form of a link."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(relative_links(ROOT / "README.md")) > 20
    assert re.findall(r"\]\[|^\[[^\]]+\]: |<(?:a|img) ", text, flags=re.MULTILINE) == []
    assert len(text.splitlines()) < 130


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a module or a statement; not what is in expressions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            yield from statements(child)


def docstrings_and_comments(source: str) -> str:
    """Return the docstrings of a module, and its comments if one has a backtick."""
    texts = [
        node.value.value
        for node in statements(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    if re.search("#.*`", source):
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        comments = [token for token in tokens if token.type == tokenize.COMMENT]
        texts += [comment.string for comment in comments]
    return "\n".join(texts).replace("``", "`")


@cache
def class_members() -> dict[str, set[str]]:
    """Return the names that the classes of the repository define, by class."""
    members: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                names = members.setdefault(node.name, set())
                bases[node.name] = [ast.unparse(base) for base in node.bases]
                for inner in ast.walk(node):
                    if isinstance(inner, ast.FunctionDef):
                        names.add(inner.name)
                    elif isinstance(inner, ast.Name):
                        names.add(inner.id)
                    elif isinstance(inner, ast.Attribute):
                        names.add(inner.attr)
    for name, own in members.items():
        for base in bases[name]:
            base_name, *_ = base.split("[")
            own |= members.get(base_name, set())
    return members


@cache
def modules() -> dict[str, list[str]]:
    """Return the full names of the package's modules, by their last part."""
    names: dict[str, list[str]] = {}
    for path in (ROOT / "screening").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        full = ".".join(parts)
        names.setdefault(parts[-1], []).append(full)
    return names


def is_importable(name: str) -> bool:
    """Return True for the full name of a module or of something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def exists(name: str, known: set[str]) -> bool:
    """Return True for what can be imported, a member of a class, or a known
    expression.
    """
    first, *rest = name.split(".")
    places = [f"{full}.{'.'.join(rest)}" for full in modules().get(first, [])]
    if name in known or is_importable(name):
        return True
    if any(map(is_importable, places)):
        return True
    # An instance is often called as its class is: `first_pass` a FirstPass.
    class_name = first
    if not first[0].isupper():
        class_name = first.title().replace("_", "")
    return rest[0] in class_members().get(class_name, ())


def expressions(tree: ast.Module) -> set[str]:
    """Return the attributes that a module reads, and what its imports make of them."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    read = {ast.unparse(node) for node in attributes}
    imported = {
        f"{alias.name}.{attribute}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for attribute in public_names(f"{node.module}.{alias.name}")
    }
    return read | imported


@cache
def public_names(name: str) -> tuple[str, ...]:
    """Return the attributes of something of another package."""
    if name.startswith("screening") or not is_importable(name):
        return ()
    return tuple(dir(pkgutil.resolve_name(name)))


def missing_in(path: Path) -> list[str]:
    """Return what the docstrings and comments of a module name and nobody has."""
    source = path.read_text(encoding="utf-8")
    text = docstrings_and_comments(source)
    known = expressions(ast.parse(source)) if DOTTED.search(text) else set()
    return missing_names(text, known) + missing_files(text, path.parent)


def test_names_in_docstrings_exist():
    """Every dotted name and every file that a docstring or a comment mentions.

    In one test: each worker would read the classes of all modules for itself.
    """
    missing = {str(path.relative_to(ROOT)): missing_in(path) for path in SOURCES}

    assert {path: names for path, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_names_in_documents_exist(document):
    """Every dotted name and every source file that a document mentions."""
    text = document.read_text(encoding="utf-8")

    assert missing_names(text, set()) == []
    assert missing_files(text, document.parent) == []


@cache
def document_keys() -> set[str]:
    """Return the keys of the documents that the package writes, from their schemas."""
    return {
        key
        for path in (DOCS / "schemas").glob("*.json")
        for key in re.findall(r'"(\w+)"', path.read_text(encoding="utf-8"))
    }


def missing_names(text: str, known: set[str]) -> list[str]:
    """Return the dotted names in backticks that do not exist."""
    names = set()
    for name in DOTTED.findall(text):
        is_key = document_keys().issuperset(name.split("."))
        if not IS_FILE.search(name) and not is_key:
            names.add(name)
    return sorted(name for name in names if not exists(name, known))


def missing_files(text: str, folder: Path) -> list[str]:
    """Return the files in backticks that are not there."""
    roots = [ROOT, ROOT / "screening", ROOT / "tests", folder, ROOT / "tests/faults"]
    return sorted(
        name
        for name in set(FILE.findall(text))
        if not any((root / name).exists() for root in roots)
    )


def test_architecture_names_its_definitions():
    """A name beside a file, as in "`score` in `scoring/score.py`", is defined there."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`(\w+)`(?: \(|, | in )`([\w/]+\.py)`", text)

    assert len(pairs) > 15
    for name, file in pairs:
        source = (ROOT / "screening" / file).read_text(encoding="utf-8")
        definition = rf"^(class|def) {name}\b|^{name} = "
        assert re.search(definition, source, flags=re.MULTILINE), (name, file)


COMMAND = re.compile(r"^(?:\$ |    )?(?:\S*/)?(?:screen|screening) ([a-z].*)$")


def printed_commands() -> list[tuple[str, str]]:
    """Return the commands that documents print in blocks, with their places."""
    commands = []
    for document in DOCUMENTS:
        place = document.relative_to(ROOT).as_posix()
        text = document.read_text(encoding="utf-8").replace(f"{BREAK}\n", "")
        for number, line in enumerate(text.splitlines(), 1):
            match = COMMAND.match(line)
            if match:
                commands.append((f"{place}:{number}", match[1]))
            commands += [
                (f"{place}:{number}", command)
                for command in re.findall(r"`screen ([a-z][^`]*)`", line)
            ]
    return commands


def test_printed_options_exist():
    """Every `screen ...` of a document is a command with the options that it shows."""
    group = typer.main.get_command(app)
    shared = {option for parameter in group.params for option in parameter.opts}
    wrong = []
    for place, command in printed_commands():
        unquoted = command.replace("'", "").replace('"', "")
        name, *words = shlex.split(unquoted)
        given = [word for word in words if re.match(r"--?[a-z]", word)]
        options = {word.split("=")[0] for word in given}
        if name not in group.commands:
            wrong.append((place, name))
            continue
        parameters = group.commands[name].params
        known = {option for parameter in parameters for option in parameter.opts}
        unknown = sorted(options - known - shared)
        wrong += [(place, option) for option in unknown]

    assert len(printed_commands()) > 100
    assert wrong == []


FIGURE = re.compile(r"[+-]\d+\.\d+ ± \d+\.\d+")


@pytest.mark.parametrize(
    "name", ["README.md", "docs/methods.toml", "docs/paper/paper.md"]
)
def test_figures_are_those_of_the_tables(name):
    """A difference with its error stands in a table of the measured page too."""
    tables = "".join(
        (DOCS / page).read_text(encoding="utf-8")
        for page in ("choosing.md", "papers.md", "benchmarks.md")
    )
    text = (ROOT / name).read_text(encoding="utf-8")
    figures = set(FIGURE.findall(text))

    assert figures
    assert {figure for figure in figures if figure not in tables} == set()
