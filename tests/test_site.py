"""The site of documents: every page is listed, every method and document has its own,
pictures are described.
"""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from docutils.utils.math.latex2mathml import tex2mathml
from written_files import names_in

import screening
from screening.recipes.building import list_recipes
from screening.schemas.schemas import DOCUMENTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
METHODS = runpy.run_path(str(DOCS / "methods.py"))
REFERENCE = runpy.run_path(str(DOCS / "reference.py"))
COMMANDS = runpy.run_path(str(DOCS / "commands.py"))
TEMPLATES = runpy.run_path(str(DOCS / "templates.py"))
FROM_CODE = {
    "commands.md": COMMANDS["reference"](),
    "templates.md": TEMPLATES["reference"](),
}
MADE = {
    "methods": METHODS["pages"](),
    "reference": REFERENCE["pages"]() | FROM_CODE,
}
SHOWN = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "sample_cohorts/README.md",
)
# The paper is for a journal, not a page of the site.
WRITTEN = [
    path for path in DOCS.rglob("*.md") if path.parent.name not in {*MADE, "paper"}
]
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in [*WRITTEN, *(ROOT / name for name in SHOWN)]
} | {
    DOCS / folder / name: text
    for folder, pages in MADE.items()
    for name, text in pages.items()
}
"""Every document by its place, with those that `make docs` writes."""

WORDS = tomllib.loads((DOCS / "methods.toml").read_text(encoding="utf-8"))


PICTURES = {DOCS / "methods" / f"{recipe.name}.png" for recipe in list_recipes()}


def prose(text: str) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


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
    # sphinx-gallery writes this one while the site is built.
    listed -= {DOCS / "auto_examples" / "index.md"}
    assert listed == {path for path in TEXTS if path.is_relative_to(DOCS)} - {
        DOCS / "index.md"
    }


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_method_page(recipe):
    """It has the recipe, its own paragraph and the formulas of its components."""
    page = MADE["methods"][f"{recipe.name}.md"]

    assert recipe.about in page
    assert recipe.text.strip() in page
    words = WORDS["recipe"].get(recipe.name, "")
    assert words.strip() in page
    for part in METHODS["parts_of"](recipe, WORDS):
        assert part["formula"] in page


def test_described_methods_complete():
    """A method with a paragraph in docs/methods.toml is there, and so are its
    formulas.
    """
    recipes = {recipe.name: recipe for recipe in list_recipes()}

    assert WORDS["recipe"].keys() <= recipes.keys()
    for name in WORDS["recipe"]:
        recipe = recipes[name]
        components = [recipe.kernel, recipe.factor, recipe.machine != "baseline"]
        n_components = sum(map(bool, components)) + len(recipe.remedy)
        assert len(METHODS["parts_of"](recipe, WORDS)) == n_components


@pytest.mark.parametrize("folder", MADE)
def test_links_of_generated_pages_lead_somewhere(folder):
    """tests/test_docs_names.py has the links of the pages that are written by hand."""
    links = {
        (DOCS / folder / link.partition("#")[0]).resolve()
        for text in MADE[folder].values()
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(text))
        if "://" not in link and not link.startswith("#")
    }

    assert links
    assert links <= {*TEXTS, *PICTURES}


@pytest.mark.parametrize("page", MADE["methods"])
def test_every_formula_becomes_mathml(page):
    text = prose(MADE["methods"][page])
    formulas = re.findall(r"\$\$(.*?)\$\$", text, flags=re.DOTALL)
    formulas += re.findall(
        r"\$([^$\n]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    )
    assert all("<math" in tex2mathml(formula) for formula in formulas)


def test_reference_has_every_document_and_public_name():
    documents = MADE["reference"]["documents.md"]
    names = MADE["reference"]["python.md"]
    assert {name for name in DOCUMENTS if f"\n## {name}\n" not in documents} == set()
    assert {
        name for name in screening.__all__ if f" screening.{name}\n" not in names
    } == {"__version__"}


def shown(page: str) -> dict[str, str]:
    """The pictures of a document, with what it says of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {
        name: words
        for words, name in re.findall(r"!\[(.*?)\]\([a-z/]*images/(.*?)\)", text)
    }


def test_gallery_of_pictures():
    """The gallery shows every picture that the script makes and says what is on it."""
    made = runpy.run_path(str(ROOT / "docs" / "images.py"))
    assert sorted(shown("docs/gallery.md")) == sorted(made["SHOTS"])
    assert names_in(made["FOLDER"]) == set(made["SHOTS"])
    assert set(shown("README.md")) < set(made["SHOTS"])
    assert all(
        len(words) > 30
        for page in ("README.md", "docs/gallery.md")
        for words in shown(page).values()
    )
    files = made["FOLDER"].iterdir()
    sizes = [path.stat().st_size for path in files]
    assert max(sizes) < made["LARGEST"]
