"""Documents are pasted into a fresh shell, and what they name exists."""

import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_pages import ROOT, Block, commands_in, read_blocks
from forked import forked_screen
from hung import HUNG_SECONDS
from written_files import read_json

README = ROOT / "README.md"
PASTED = {
    name: read_blocks(ROOT / name)
    for name in ("README.md", "docs/tutorial.md", "docs/howto.md", "docs/nightly.md")
}
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT = Path(sys.prefix)
FIRST_NIGHT = "nights/ward-7.infection/2026-01-14"


def environment_of(home: Path, path: str) -> dict[str, str]:
    """Return what a shell knows that has this home and these programs."""
    return {
        "PATH": path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        # The tree that is tested, whatever the environment has installed.
        "PYTHONPATH": str(ROOT),
        # As in every other test: workers share the cores.
        "OMP_NUM_THREADS": "1",
    }


class Shell:
    """A bash that knows nothing of who started it, into which lines are pasted.

    Parameters
    ----------
    folder : Path
        Where it starts.
    home : Path
        An empty folder.
    path : str
        The directories of its programs.
    """

    def __init__(self, folder: Path, home: Path, path: str) -> None:
        environment = environment_of(home, path)
        self.folder = folder
        self.home = home
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def paste(self, place: str, command: str) -> str:
        """Run a command; return what it prints, and fail at `place` if it fails."""
        end = f"end of command {secrets.token_hex(8)}"
        # The command reads nothing of what is pasted after it.
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; code=$?\n")
        self.process.stdin.write(f"echo; echo {end} $code\n")
        self.process.stdin.flush()
        printed: list[str] = []
        for line in self.process.stdout:
            if line.startswith(end):
                code = int(line.removeprefix(end))
                break
            printed.append(line)
        answer = "".join(printed)
        assert code == 0, f"{place}: {command}\nexits {code}:\n{answer}"
        return answer

    def paste_block(self, block: Block, last_answer: str) -> str:
        """Do with a block what a reader does; return the answer of its last command."""
        if block.language == "console":
            for place, command in commands_in(block):
                last_answer = self.paste(place, command)
        elif block.language == "text":
            assert block.text in last_answer, f"{block.place} differs:\n{last_answer}"
        elif block.title:
            save(block, self.folder)
        else:
            assert block.language == "python", f"{block.place}: what is done with it?"
            program = self.home / "pasted.py"
            program.write_text(block.text, encoding="utf-8")
            last_answer = self.paste(block.place, f"python {program}")
        return last_answer

    def close(self) -> None:
        """End the shell."""
        self.process.stdin.close()
        self.process.wait(HUNG_SECONDS)
        self.process.stdout.close()


def save(block: Block, folder: Path) -> None:
    """Save a block under the name on its first line, or in place of a table."""
    name, _, table = block.title.partition(": in place of ")
    file = folder / name
    if table:
        old = rf"^{re.escape(table)}\n.*?(?=^\[)"
        text, n_replaced = re.subn(
            old,
            lambda match: block.text + "\n",
            file.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        assert n_replaced == 1, f"{block.place}: {name} has no {table}"
    else:
        text = block.text
    file.write_text(text, encoding="utf-8")


def paste_document(shell: Shell, name: str) -> None:
    """Paste every block of a document that is not marked as one for another machine."""
    answer = ""
    for block in PASTED[name]:
        if block.is_pasted:
            answer = shell.paste_block(block, answer)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home with nothing in it but a folder of downloads, also empty."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "Downloads").mkdir()
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A clone of the repository in which `make demo` has created `.venv`."""
    folder = tmp_path_factory.mktemp("clone")
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(ENVIRONMENT)
    return folder


@pytest.fixture
def readme_shell(clone, home) -> Iterator[Shell]:
    shell = Shell(clone, home, SYSTEM_PATH)
    yield shell
    shell.close()


@pytest.mark.first
def test_readme_pasted(readme_shell, clone, home):
    """Its first night needs no attention, its page and model are there, and nothing was
    written to the clone.
    """
    before = {path.name for path in clone.iterdir()}
    paste_document(readme_shell, "README.md")
    folder = home / "infection"

    night = read_json(folder / "runs/2026-01-14/run.json")
    assert night["attention"] == []
    assert night["counts"]["scored"] == 240
    for page in ("trained/infection", "trained/quick", "runs/2026-01-14", "runs/again"):
        assert (folder / page / "report.html").exists()
    assert read_json(folder / "trained/infection/model.json")["approval"] is not None
    assert {path.name for path in clone.iterdir()} == before


def save_verdicts(browser, page_file: Path, downloads: Path) -> None:
    """Confirm the first case on a page and save the verdicts, as a clinician does."""
    page = browser.new_page()
    page.set_default_timeout(1000 * HUNG_SECONDS)
    page.goto(page_file.as_uri())
    page.locator(".t input[value=confirmed]").first.check()
    page.fill("#review-initials", "ab")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save verdicts").click()
    download.value.save_as(downloads / download.value.suggested_filename)
    page.close()


def paste_tutorial(shell: Shell, browser) -> None:
    """Paste the tutorial; its verdicts are saved on the page, in a browser."""
    answer = ""
    for block in PASTED["docs/tutorial.md"]:
        if not block.is_pasted:
            continue
        if block.lines[0].startswith("$ screen review"):
            night = shell.folder / FIRST_NIGHT / "report.html"
            save_verdicts(browser, night, shell.home / "Downloads")
        answer = shell.paste_block(block, answer)


@pytest.fixture
def programs(home, tmp_path_factory) -> Iterator[str]:
    """The programs of a reader, whose `screen` begins at once."""
    folder = tmp_path_factory.mktemp("bin")
    path = f"{folder}:{ENVIRONMENT / 'bin'}:{SYSTEM_PATH}"
    with forked_screen(folder, environment_of(home, path)):
        yield path


@pytest.mark.first
def test_tutorial_and_howto_pasted(tmp_path, home, programs, browser):
    """The second night knows the patients of the first; each how-to works after it, and
    so do the first lines of the page on nights.

    One test, since every worker that had a part of it would train the tutorial's model.
    """
    shell = Shell(tmp_path, home, programs)
    paste_tutorial(shell, browser)
    shell.close()
    nights = [
        read_json(tmp_path / folder / "run.json")
        for folder in (FIRST_NIGHT, FIRST_NIGHT.replace("14", "15"))
    ]
    overview = (tmp_path / "nights/overview/2026-01-15.html").read_text("utf-8")
    counts = nights[1]["counts"]
    another = Shell(tmp_path, home, programs)
    paste_document(another, "docs/howto.md")
    paste_document(another, "docs/nightly.md")
    another.close()

    for night in nights:
        assert night["attention"] == []
        assert night["model"]["approval"] is not None
        assert night["counts"]["flagged"] + night["counts"]["drawn"] <= 40
    assert "Missed nights" not in overview
    assert counts["read"] == 220
    assert counts["pending"] > 0
    assert counts["known"] > 0
    pages = ("latest.html", "ward-7.infection/latest.html")
    written = ("list.csv", "list.xlsx", "compared/report.html")
    for name in (*written, *(f"site/pages/{page}" for page in pages)):
        assert (tmp_path / name).exists()


def test_blocks_not_pasted_are_tried():
    """tests/test_nightly.py tries each file of deploy/, and names the beginning of each
    other block of docs/nightly.md.
    """
    deploy = ROOT / "deploy"
    deployed = [path.read_text("utf-8") for path in deploy.iterdir() if path.is_file()]
    tests = (ROOT / "tests" / "test_nightly.py").read_text(encoding="utf-8")
    named = re.findall(r'(?:block\(|    )"([^"]+)"', tests)
    untried = [
        block.place
        for block in PASTED["docs/nightly.md"]
        if not block.is_pasted
        and block.text not in deployed
        and not any(block.text.startswith(beginning) for beginning in named)
    ]

    assert untried == []
