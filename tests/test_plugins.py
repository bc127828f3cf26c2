"""Plug-ins: what an installed distribution adds, and what happens if it is broken or
missing.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from inspect import signature
from pathlib import Path

import pytest
from commands import screen
from docs_pages import read_blocks
from flow_cohorts import night_of_patients
from report_fixture import Outline, nosocomial_run

from screening import registry
from screening.errors import CohortError, ModelError, UsageError
from screening.estimators.scores import GivenScore
from screening.estimators.two_class import TwoClassSVM
from screening.factors import FACTORS
from screening.factors.base import Factor
from screening.factors.bumps import Bumps
from screening.io.opening import _accepted_reader
from screening.io.readers import TableFile
from screening.metrics.evaluated_rows import EvaluatedRows
from screening.metrics.figures import FIGURES
from screening.metrics.figures.base import _accepted as _accepted_figure
from screening.recipes.building import RECIPES, _accepted_text
from screening.recipes.recipe import _accepted_estimator
from screening.registry import KINDS, Registry, accepted_class, without_plugins
from screening.report import render_run
from screening.report.columns import COLUMNS, Column
from screening.report.columns import _accepted as _accepted_column
from screening.report.model_attention import with_attention
from screening.report.values import Value
from screening.report.worklist import Line
from screening.schemas.model import ModelDocument
from screening.schemas.reasons import NIGHT, ReasonKind
from screening.schemas.reasons import _accepted as _accepted_reason
from screening.scoring import exports
from screening.scoring.exporting import FlaggedRows, _written
from screening.scoring.exports import _accepted as _accepted_export
from screening.store.loading import load_model

TESTS = Path(__file__).parent
# Each fails in another place; `screening_ward` beside it works all the same.
BROKEN = {
    "reader.exits": "broken_exit:Reader",
    "reader.knows": "broken_night:Knows",
    "export.csv": "broken_night:find",
    "factor.gone": "no_such_module:Gone",
    "recipe.text": "broken_night:RECIPE",
    "figure.fails": "broken_night:fails",
    "reason.finds": "broken_night:FINDS",
    "column.empty": "broken_night:EMPTY",
    "colum.typed": "broken_night:EMPTY",
}
BROKEN_NIGHT = """
from screening.io.readers import TableFile
from screening.metrics.figures import SHARE, figure
from screening.report import render_run
from screening.report.columns import COLUMNS, Column
from screening.report.model_attention import with_attention
from screening.report.values import Value
from screening.report.worklist import Line
from screening.schemas.model import ModelDocument
from screening.schemas.reasons import NIGHT, ReasonKind

RECIPE = "name = 'text'"

class Knows(TableFile):
    kind = "Knows"
    suffixes = (".knows",)

    @classmethod
    def knows(cls, path, head):
        return head.startswith(cls.absent)

def fail(*arguments):
    raise KeyError("the value of a patient")

def find(flagged):
    pass

@figure(title="Fails", help="Nothing.", form=SHARE, order=99, tables=["subgroups"])
def fails(rows):
    return "no estimate"

FINDS = ReasonKind("finds", "It is.", "", "never", NIGHT, found_in=fail)
EMPTY = Column("empty", "1rem", "1mm", "nothing", head=fail, text=fail)
"""


def made_distribution(site: Path, name: str, entries: dict[str, str]) -> None:
    """Write what an installer writes beside a package."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    lines = [f"{key} = {value}\n" for key, value in entries.items()]
    (folder / "entry_points.txt").write_text("[screening]\n" + "".join(lines))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with `tests/plugin` installed, and a broken plug-in."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(TESTS / "plugin", folder / "source")
    where = ["--target", str(folder / "site"), str(folder / "source")]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", *offline, *where]
    subprocess.run(install, check=True)
    made_distribution(folder / "site", "broken", BROKEN)
    (folder / "site" / "broken_exit.py").write_text("raise SystemExit(3)\n")
    (folder / "site" / "broken_night.py").write_text(BROKEN_NIGHT)
    return folder / "site"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("night")


@pytest.fixture(scope="module")
def seen(site, folder):
    """Return what a night shows where the plug-ins are installed."""
    path = os.pathsep.join([str(site), str(TESTS)])
    answer = subprocess.run(
        [sys.executable, TESTS / "plugin_night.py", folder],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_plugin_listed(seen):
    """`recipes`, `export --help` and the registries have what is installed."""
    recipes, usage = seen["stdout"][:2]

    assert "slab" in recipes
    assert "|list|" in usage
    assert "slab" in seen["factors"]


def test_plugin_used(seen, folder):
    """A table of the plug-in's format is trained on, scored and exported by it."""
    run = seen["run"]
    ids = (folder / "list.txt").read_text().splitlines()
    page = (folder / "run" / "report.html").read_text()

    assert seen["model"]["recipe"]["name"] == "slab"
    assert run["input"]["files"][0]["name"] == "night.ndjson"
    assert run["counts"]["scored"] == 160
    assert len(ids) == run["counts"]["flagged"]
    assert "long_list" in [reason["code"] for reason in run["attention"]]
    assert "<span>Points</span>" in page
    assert '<span class="k points"><bdi>' in page


def test_plugins_in_nightly_run(seen, folder):
    """`screen run` reads, scores and shows the same with plug-ins as `screen score`,
    and no broken one ends the night.
    """
    run, alone = seen["run_of_site"], seen["run"]
    page = (folder / "pages" / "ward" / "2026-03-01.html").read_text()

    assert seen["of_site"]["status"] == "published"
    assert run["input"]["files"] == alone["input"]["files"]
    assert run["counts"]["flagged"] == alone["counts"]["flagged"]
    of_plugins = {"long_list", "plugin_left_out"}
    assert of_plugins <= {reason["code"] for reason in run["attention"]}
    assert "<span>Points</span>" in page
    assert "The column empty of plug-in broken 1.0" in page


def test_plugin_figure(seen, folder):
    """A figure of a plug-in is computed in subgroups, with its interval, and shown."""
    (subgroups,) = seen["model"]["validation"]["subgroups"].values()
    figures = [row["figures"]["error_rate"] for row in subgroups[0]["rows"]]
    page = (folder / "model" / "report.html").read_text()

    assert all(0 <= each["low"] <= each["value"] <= each["high"] for each in figures)
    assert "Errors" in page


def test_model_names_plugins(seen):
    """Model and run state which distribution and version the machines are made of."""
    needed = [{"name": "screening-ward", "version": "0.1", "members": ["factor.slab"]}]

    assert seen["model"]["plugins"] == needed
    assert seen["run"]["model"]["plugins"] == needed


def test_model_refused_without_plugins(seen, folder):
    """Where a plug-in is missing, its model is refused by its name, and nothing of it
    is imported.
    """
    table = folder / "night.csv"
    night_of_patients(20).to_csv(table, index=False)
    with pytest.raises(ModelError, match=r"plug-ins .* screening-ward 0\.1 \(factor"):
        load_model(folder / "model")
    scored = screen("score", folder / "model", table, "--out", folder / "no", code=4)
    checked = screen("check", table, "--model", folder / "model", code=4)

    assert "screening-ward 0.1" in scored.stderr
    assert "screening-ward 0.1" in checked.stderr
    assert not (folder / "no").exists()
    assert "screening_ward" not in sys.modules


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        ("reader exits", "SystemExit: 3"),
        ("reader knows", "AttributeError"),
        ("export csv", "ValueError: two members"),
        ("factor gone", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("recipe text", "RecipeError"),
        ("figure fails", "TypeError"),
        ("reason finds", "KeyError"),
        ("column empty", "KeyError"),
    ],
)
def test_broken_named_once(seen, member, fault):
    """A member that cannot be loaded, or fails, is named on one line and left out."""
    lines = [line for line in seen["stderr"].splitlines() if f" {member} " in line]

    (line,) = lines
    assert line.startswith(f"screen: plug-in broken 1.0: its {member} is left out: ")
    assert fault in line
    assert "patient" not in line
    assert line.removeprefix("screen: ") in seen["check"]


@pytest.mark.parametrize(
    "member",
    ["column empty", "reason finds", "reader knows", "entry point colum.typed"],
)
def test_broken_named_on_page(seen, folder, member):
    """What a plug-in does not add to a night is a reason for attention."""
    reasons = [
        reason["words"]
        for reason in seen["run"]["attention"]
        if reason["code"] == "plugin_left_out"
    ]
    page = (folder / "run" / "report.html").read_text()

    (words,) = [words for words in reasons if f"The {member} of" in words]
    assert words.startswith(f"The {member} of plug-in broken 1.0 is missing here: ")
    assert "a patient" not in words
    assert f"The {member} of plug-in broken 1.0" in page
    assert 'class="k empty"' not in page


def test_broken_figure_named_by_model(seen):
    """The model says which figure its tables do not have, also once it is approved."""
    model = ModelDocument.from_dict(seen["model"])
    words = [reason.words for reason in with_attention(model).attention]

    assert "The figure fails of plug-in broken 1.0 is missing here: TypeError." in words


@pytest.mark.parametrize("fault", ["KeyError", "TypeError"])
def test_column_fails_on_one_line(plugged, monkeypatch, fault):
    """It is left out whole, with its head, and the page says so; others are shown."""
    plugged(
        {"column.some": "added_members:SOME", "column.whole": "added_members:WHOLE"},
        f"""
from screening.report import render_run
from screening.report.columns import COLUMNS, Column

def some(line):
    return {{1: "x"}}.get(line.rank, {{"TypeError": None}}["{fault}"])

SOME = Column("some", "1rem", "1mm", "one", head=lambda run: "Some", text=some)
WHOLE = Column("whole", "1rem", "1mm", "all", lambda run: "All", text=lambda line: "y")
""",
    )
    columns = Registry("column", COLUMNS._shipped, COLUMNS._accepted)
    monkeypatch.setattr("screening.report.columns.COLUMNS", columns)
    monkeypatch.setattr("screening.report.page.COLUMNS", columns)
    page = Outline(render_run(nosocomial_run()))

    assert f"The column some of plug-in added 1.0 is missing here: {fault}" in page.text
    assert "k some" not in {facts.get("class") for facts in page.all("span")}
    assert "Some" not in page.words
    assert "k whole" in {facts.get("class") for facts in page.all("span")}


def test_traceback_for_authors(plugged, monkeypatch, caplog):
    """A failure has its line where SCREEN_PLUGIN_DEBUG is set, and nowhere else."""

    def fail():
        raise ValueError("the value of a patient")

    plugged({"factor.two": "added_members:TWO"}, "TWO = 2")
    quiet, loud = numbers(), numbers()
    assert [len(quiet), len(loud)] == [2, 2]
    quiet.call("two", fail, default=0)
    assert "in fail" not in caplog.text
    monkeypatch.setenv("SCREEN_PLUGIN_DEBUG", "1")
    loud.call("two", fail, default=0)

    assert "in fail" in caplog.text


class Failing(TableFile):
    """A reader of a plug-in with a mistake."""

    kind = "failing"
    suffixes = (".failing",)

    def read_header(self):
        raise KeyError("the value of a patient")


def test_reader_recognises_its_files():
    """A reader needs the first bytes of its files, or a `knows` of its own."""
    with pytest.raises(TypeError, match="no attribute magic"):
        _accepted_reader("failing", Failing)


def test_traceback_of_reader(tmp_path, monkeypatch, caplog):
    """A reader that cannot read its table has its line too, and its error no value."""
    file = tmp_path / "a.failing"
    file.write_text("1")
    monkeypatch.setenv("SCREEN_PLUGIN_DEBUG", "1")
    with pytest.raises(CohortError, match=r"failed \(KeyError\); report") as caught:
        Failing(file, "a.failing")

    assert "patient" not in str(caught.value)
    assert "in read_header" in caplog.text


def test_traceback_of_export(plugged, tmp_path, monkeypatch, caplog):
    """So has an export that cannot be written."""
    plugged(
        {"export.two": "added_members:write"},
        "def write(flagged, *, out):\n    return flagged.absent\n",
    )
    forms = Registry("export", exports.FORMS._shipped, exports._accepted)
    monkeypatch.setattr(exports, "FORMS", forms)
    monkeypatch.setenv("SCREEN_PLUGIN_DEBUG", "1")
    with pytest.raises(UsageError, match=r"export two failed \(AttributeError\)"):
        _written("two", partial(exports.FORMS["two"], None, out=tmp_path))

    assert "in write" in caplog.text


def test_broken_kind_named(seen):
    """An entry point whose name begins with no kind is named, with the kinds."""
    (note,) = [note for note in seen["check"] if "colum.typed" in note]

    assert "factor" in note
    assert "column" in note
    assert seen["stderr"].count("colum.typed") == 1


@pytest.fixture
def plugged(tmp_path, monkeypatch):
    """Return a function that installs a module with entry points in this process."""

    def install(entries: dict[str, str], code: str) -> None:
        made_distribution(tmp_path, "added", entries)
        (tmp_path / "added_members.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)

    registry._entries.cache_clear()
    yield install
    registry._entries.cache_clear()
    sys.modules.pop("added_members", None)


def numbers(shipped=(("one", 1),)) -> Registry[int]:
    return Registry("factor", lambda: iter(shipped), lambda name, value: value)


def test_registry_imports_late(plugged):
    """A plug-in is imported when its kind is first used, and by no other kind."""
    plugged({"factor.two": "added_members:TWO"}, "TWO = 2")
    kept = numbers()
    other = Registry("reader", lambda: iter([]), lambda name, value: value)

    assert dict(other) == {}
    assert "added_members" not in sys.modules
    assert dict(kept) == {"one": 1, "two": 2}
    assert str(kept.plugin_of("two")) == "added 1.0"
    assert kept.plugin_of("one") is None


def test_registry_name_taken(plugged, caplog):
    """A plug-in replaces nothing that ships."""
    plugged({"factor.one": "added_members:TWO"}, "TWO = 2")
    kept = numbers()

    assert dict(kept) == {"one": 1}
    assert "two members have the name one" in caplog.text


def test_registry_without_plugins(plugged):
    """A process that others are forked from imports no plug-in, and may do so later."""
    plugged({"factor.two": "added_members:TWO"}, "TWO = 2")
    kept = numbers()

    with without_plugins():
        assert dict(kept) == {"one": 1}
        assert "added_members" not in sys.modules
    assert dict(kept) == {"one": 1, "two": 2}


def test_registry_call_fails(plugged, caplog):
    """A mistake of a plug-in is named once, without its message that may hold a value;
    a mistake of what ships is raised.
    """

    def fail(value):
        raise ValueError("the value of a patient")

    plugged({"factor.two": "added_members:TWO"}, "TWO = 2")
    kept = numbers()
    with caplog.at_level(logging.WARNING, logger="screening"):
        answers = [kept.call("two", fail, value, default=0) for value in [*kept, 3]]

    assert answers == [0, 0, 0]
    assert [*kept] == ["one"]
    assert len(caplog.messages) == 1
    assert "patient" not in caplog.text
    with pytest.raises(ValueError, match="of a patient"):
        kept.call("one", fail, 1, default=0)


KIND = partial(ReasonKind, words="It is.", remedy="", when="never", arises_in=NIGHT)


@pytest.mark.parametrize(
    ("accepted", "name", "member"),
    [
        (partial(accepted_class, Factor), "bumps", Bumps()),
        (partial(accepted_class, Factor), "other", Bumps),
        (_accepted_estimator, "two_class", TwoClassSVM),
        (_accepted_reader, "path", Path),
        (_accepted_text, "svm", Path("svm.toml")),
        (_accepted_export, "list", lambda out: None),
        (_accepted_export, "list", lambda flagged, *, out, least=1: None),
        (_accepted_export, "list", lambda flagged, **options: None),
        (_accepted_column, "score", "score"),
        (_accepted_column, "other", Column("score", "", "", "", text=str)),
        (_accepted_column, "score", Column("score", "", "", "")),
        (_accepted_figure, "auroc", FIGURES["auroc"].compute),
        (_accepted_figure, "other", FIGURES["auroc"]),
        (_accepted_reason, "long", "long"),
        (_accepted_reason, "other", KIND("long", found_in=list)),
        (_accepted_reason, "long", KIND("long")),
        (_accepted_reason, "long", KIND("long", found_in=list, stops=True)),
    ],
)
def test_member_of_another_form_refused(accepted, name, member):
    """What an entry point must be is checked when it is loaded."""
    with pytest.raises((TypeError, ValueError)):
        accepted(name, member)


def test_recipe_of_plugin_checked():
    """A recipe is read, and its components are built, when it is loaded."""
    with pytest.raises(ValueError, match="'slab' is not one of"):
        _accepted_text(
            "williams", RECIPES["williams"].replace('"margin_decay"', '"slab"')
        )
    with pytest.raises(UsageError, match="its `name` is not 'other'"):
        _accepted_text("other", RECIPES["svm"])


def test_estimator_of_plugin_accepted():
    assert _accepted_estimator("given", GivenScore) is GivenScore


def test_export_options_of_command():
    """An export may have each option that `screen export` has for single forms."""
    for write in exports.FORMS.values():
        assert {*signature(write).parameters} <= {"flagged", *exports.OPTIONS}


def test_page_on_plugins_reader_by_name():
    """The reader of docs/plugins.md that is told by the name knows no other file."""
    blocks = read_blocks(TESTS.parent / "docs" / "plugins.md")
    (block,) = [block for block in blocks if "def knows" in block.text]
    names = {"TableFile": TableFile}
    exec(block.text, names)
    reader = _accepted_reader("laboratory", names["Laboratory"])

    assert reader.knows(Path("a.LAB"), b"") is True
    assert reader.knows(Path("a.csv"), b"") is False
    assert reader.decimal_mark == ","


def test_page_on_plugins_names_fields():
    """Fields of the objects that functions get are on docs/plugins.md."""
    page = (TESTS.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
    table = page.partition("## What functions get")[2].partition("##")[0]
    for kind in (FlaggedRows, EvaluatedRows, Line):
        (row,) = re.findall(rf"^\| `{kind.__name__}` \| (.*) \|$", table, re.MULTILINE)
        named = set(re.findall(r"`([a-z_]+)[`(]", row.replace("`run.json`", "")))
        known = {*dir(kind), *kind.__dataclass_fields__, *Value.__dataclass_fields__}
        assert len(named) >= 4
        assert named <= known


def test_scripts_refuse_plugins(plugged):
    """What is written into the repository has nothing of an installed plug-in."""
    registry.refuse_plugins()
    plugged({"column.two": "added_members:TWO"}, "TWO = 2")
    registry._entries.cache_clear()

    with pytest.raises(UsageError, match=r"plug-ins are installed \(added 1\.0\)"):
        registry.refuse_plugins()


def test_version_lists_plugins(plugged):
    """`screen --version` has a line for each plug-in, and imports none."""
    plugged({"factor.two": "added_members:TWO"}, "TWO = 2")

    version, line = screen("--version").stdout.splitlines()
    assert version.startswith("screening ")
    assert line == "plug-in added 1.0: factor two"
    assert "added_members" not in sys.modules


def test_page_on_plugins_shows_the_tested_package():
    """docs/plugins.md has each file of `tests/plugin` as it is."""
    page = (TESTS.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
    files = [*(TESTS / "plugin").rglob("*.py"), TESTS / "plugin" / "pyproject.toml"]
    shown = [path for path in files if path.name != "__init__.py"]

    assert len(shown) >= 5
    for path in shown:
        assert f"\n{path.read_text(encoding='utf-8')}```\n" in page, path.name
    for kind in KINDS:
        assert f"| `{kind}` |" in page


def test_registry_of_each_kind():
    """Every kind has a registry of that name, and what ships is in it."""
    for kind, place in KINDS.items():
        kept = registry.pkgutil.resolve_name(place)
        assert kept.kind == kind
        assert kept.faults == []
        assert len(kept) >= 4
    assert FACTORS.plugin_of("bumps") is None
