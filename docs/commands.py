"""Write the help of every command, and the list of recipes, into the documents that show them.

Run `python docs/commands.py` after changing an option or a recipe; a test compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# As wide everywhere as on a terminal of 100 columns.
PLAIN = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}


def said(*words: str) -> str:
    """What `screen` prints, on a terminal of fixed width."""
    code = "import sys; from screening.cli import main; sys.argv[0] = 'screen'; main()"
    command = [sys.executable, "-c", code, *words]
    answer = subprocess.run(
        command, env=os.environ | PLAIN, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return "\n".join(line.rstrip() for line in answer.stdout.strip().splitlines())


def commands() -> str:
    """The page of all commands."""
    from screening.cli import EXAMPLES

    parts = ["# Commands", "", "As `--help` prints them. Written by `python docs/commands.py`.", ""]
    for name in ["", *(command.__name__ for command in EXAMPLES)]:
        parts += [f"## screen {name}".rstrip(), "", "```text", said(*name.split(), "--help"), "```", ""]
    return "\n".join(parts)


def readme(text: str) -> str:
    """README with its list of commands brought up to date."""
    listed = said("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    return _between(text, "commands", f"```text\n{listed}\n```")


def choosing(text: str) -> str:
    """The page of choice with its list of recipes brought up to date."""
    from screening.recipes.loading import list_recipes

    rows = [f"| [{recipe.name}](methods/{recipe.name}.md) | {recipe.title} |" for recipe in list_recipes()]
    return _between(text, "recipes", "\n".join(["| recipe | method |", "|---|---|", *rows]))


def _between(text: str, mark: str, content: str) -> str:
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{content}\n{end}", text, count=1, flags=re.DOTALL)


def main() -> None:
    """Write all three documents."""
    (ROOT / "docs" / "commands.md").write_text(commands(), encoding="utf-8")
    for path, written in ((ROOT / "README.md", readme), (ROOT / "docs" / "choosing.md", choosing)):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
