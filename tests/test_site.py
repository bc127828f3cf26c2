"""The documents hold together: links lead somewhere, commands run, and what is generated says everything."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from commands import commands_of, typed
from docutils.utils.math.latex2mathml import tex2mathml

import screening
from screening.recipes.building import list_recipes
from screening.schemas.schemas import DOCUMENTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
METHODS = runpy.run_path(str(DOCS / "methods.py"))
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
MADE = {"methods": METHODS["pages"](), "reference": REFERENCE["pages"]()}
SHOWN = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "sample_cohorts/README.md",
)
WRITTEN = [path for path in DOCS.rglob("*.md") if path.parent.name not in MADE]
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in [*WRITTEN, *(ROOT / name for name in SHOWN)]
} | {
    DOCS / folder / name: text
    for folder, pages in MADE.items()
    for name, text in pages.items()
}
"""Every document by its place, with those that `make docs` writes."""

PICTURES = {DOCS / "methods" / f"{recipe.name}.png" for recipe in list_recipes()}
WORDS = tomllib.loads((DOCS / "methods.toml").read_text(encoding="utf-8"))
TUTORIAL = TEXTS[DOCS / "tutorial.md"]


def prose(text: str) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """What a link may point to inside a document: its headings, as GitHub and MyST spell them, and marks."""
    included = re.findall(r"^```\{include\} (.*)$", TEXTS[path], flags=re.MULTILINE)
    text = "".join(
        [TEXTS[path], *(TEXTS[(path.parent / one).resolve()] for one in included)]
    )
    titles = re.findall(r"^#+ (.*)$", prose(text), flags=re.MULTILINE)
    marks = re.findall(r"^\((.*)\)=$", text, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    } | {*marks}


def links() -> list[tuple[Path, str]]:
    found = {
        path: re.findall(r"\]\(([^)\s]+)\)", prose(text))
        for path, text in TEXTS.items()
    }
    return [
        (path, link)
        for path, links in found.items()
        for link in links
        if "://" not in link
    ]


def leads_somewhere(path: Path, link: str) -> bool:
    place, _, mark = link.partition("#")
    target = (path.parent / place).resolve() if place else path
    there = (
        target in TEXTS
        or target in PICTURES
        or (target.exists() and target.suffix != ".md")
    )
    return there and (not mark or mark in anchors(target))


def test_every_link_between_documents_leads_to_a_page_and_a_heading_that_are_there():
    assert len(links()) > 150
    assert [link for link in links() if not leads_somewhere(*link)] == []


def test_every_page_is_in_the_sites_table_of_contents():
    listed = set()
    for path in (DOCS / "index.md", DOCS / "methods" / "index.md"):
        for tree in re.findall(
            r"^```\{toctree\}\n(.*?)^```$", TEXTS[path], flags=re.DOTALL | re.MULTILINE
        ):
            listed |= {
                path.parent / f"{line}.md"
                for line in tree.splitlines()
                if line and line[0] != ":"
            }
    assert listed == {path for path in TEXTS if path.is_relative_to(DOCS)} - {
        DOCS / "index.md"
    }


def test_files_named_exist():
    """A file that a document names is there, and defines what the document says it defines."""
    text = "\n".join(TEXTS.values())
    named = set(
        re.findall(r"`((?:screening/|tests/|docs/|templates/)?[\w]+/[\w/]+\.py)`", text)
    )
    defined = re.findall(
        r"`(\w+)`(?: \(|, )`([\w/]+\.py)`", TEXTS[DOCS / "architecture.md"]
    )
    roots = ROOT, ROOT / "screening"
    places = {
        name: [root / name for root in roots if (root / name).exists()]
        for name in named
    }

    assert len(named) > 60 and len(defined) > 15
    assert {name for name, paths in places.items() if not paths} == set()
    for what, name in defined:
        definition = rf"^(class|def) {what}\b|^{what} ="
        assert re.search(
            definition, places[name][0].read_text(encoding="utf-8"), flags=re.MULTILINE
        )


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_every_method_has_a_page_with_its_parts_its_recipe_and_a_paragraph(recipe):
    page, parts = (
        MADE["methods"][f"{recipe.name}.md"],
        METHODS["parts_of"](recipe, WORDS),
    )
    named = [recipe.kernel, recipe.factor, recipe.machine != "baseline"]
    assert WORDS["recipe"][recipe.name].strip() in page
    assert recipe.text.strip() in page
    assert len(parts) == sum(map(bool, named)) + len(recipe.remedy)
    assert all(part["formula"] in page for part in parts)


@pytest.mark.parametrize("page", MADE["methods"])
def test_every_formula_becomes_mathml(page):
    text = prose(MADE["methods"][page])
    formulas = re.findall(r"\$\$(.*?)\$\$", text, flags=re.DOTALL)
    formulas += re.findall(
        r"\$([^$\n]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    )
    assert all("<math" in tex2mathml(formula) for formula in formulas)


def test_the_reference_has_every_document_every_public_name_and_no_method_that_is_gone():
    assert set(WORDS["recipe"]) == {recipe.name for recipe in list_recipes()}
    documents, names = MADE["reference"]["documents.md"], MADE["reference"]["python.md"]
    assert {name for name in DOCUMENTS if f"\n## {name}\n" not in documents} == set()
    assert {
        name for name in screening.__all__ if f" screening.{name}\n" not in names
    } == {"__version__"}


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", TUTORIAL, flags=re.DOTALL | re.MULTILINE
    )


def set_keys(contract: Path, lines: str) -> None:
    """Write keys into a starter contract, as its reader would."""
    text = contract.read_text(encoding="utf-8")
    for line in lines.splitlines()[1:]:
        text, n = re.subn(
            rf"^(# )?{line.split()[0]} = .*$", line, text, count=1, flags=re.MULTILINE
        )
        assert n == 1, line
    contract.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def desk(tmp_path_factory, browser):
    """A folder in which the tutorial was followed from top to bottom, to the letter, in a browser too."""
    folder = tmp_path_factory.mktemp("desk")
    tables, later = blocks("python")
    contract, night = blocks("toml")
    init, *morning, review, history, run, status = commands_of(TUTORIAL)
    names: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(tables, names)
        Path("init.txt").write_text(typed(init).stdout)
        set_keys(Path("cohort.toml"), contract)
        Path("NIGHT.toml").write_text(night)
        for line in morning:
            typed(line)
        page = browser.new_page()
        page.goto((folder / "runs/2026-01-14/report.html").as_uri())
        page.locator(".t input[value=confirmed]").first.check()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save verdicts").click()
        saved.value.save_as(saved.value.suggested_filename)
        page.close()
        for line in (review, history):
            typed(line)
        exec(later, names)
        for line in (run, status):
            typed(line)
    return folder


def test_the_tutorial_ends_with_a_second_night_that_knows_the_first(desk):
    night = json.loads(
        (desk / "nights/ward-7.infection/2026-01-15/run.json").read_text()
    )
    (shown,) = blocks("text")
    assert night["counts"]["read"] == 220
    assert night["counts"]["pending"] + night["counts"]["known"] > 0
    assert shown in (desk / "init.txt").read_text()


def test_every_how_to_works_from_where_the_tutorial_ends(desk, monkeypatch):
    monkeypatch.chdir(desk)
    lines = commands_of(TEXTS[DOCS / "howto.md"])
    for line in lines:
        typed(line)
    assert len(lines) >= 11
    for name in ("list.csv", "list.xlsx", "compared/report.html"):
        assert Path(name).exists()


def shown(page: str) -> dict[str, str]:
    """The pictures of a document, with what it says of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {
        name: words
        for words, name in re.findall(r"!\[(.*?)\]\([a-z/]*images/(.*?)\)", text)
    }


def test_the_gallery_shows_every_picture_that_the_script_makes_and_says_what_is_on_it():
    made = runpy.run_path(str(ROOT / "docs" / "images.py"))
    assert sorted(shown("docs/gallery.md")) == sorted(made["SHOTS"])
    assert {path.name for path in made["FOLDER"].iterdir()} == set(made["SHOTS"])
    assert set(shown("README.md")) < set(made["SHOTS"])
    assert all(
        len(words) > 30
        for page in ("README.md", "docs/gallery.md")
        for words in shown(page).values()
    )
    assert (
        max(path.stat().st_size for path in made["FOLDER"].iterdir()) < made["LARGEST"]
    )
