"""Documents as a reader sees them: their blocks, with the line on which each begins."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Marks a block that cannot be pasted here: it needs root, a network or a daemon.
NOT_PASTED = "not-pasted"
FENCE = re.compile(r"^```(\w+)?(.*)$")
# A command goes on in the next line.
BREAK = " \\"


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Parameters
    ----------
    place : str
        Document and line of the first line, such as ``README.md:25``.
    language : str
        First word after the fence.
    marks : list of str
        The words after it.
    lines : list of str
        What stands in the block.
    """

    place: str
    language: str
    marks: list[str]
    lines: list[str]

    @property
    def text(self) -> str:
        """Return the lines as a file would have them."""
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def is_pasted(self) -> bool:
        """Return False for a block that is marked as one for another machine."""
        return NOT_PASTED not in self.marks

    @property
    def title(self) -> str:
        """Return the comment on the first line, which names a file."""
        first = self.lines[0]
        return first.removeprefix("# ") if first.startswith("# ") else ""


def read_blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document in their order."""
    blocks: list[Block] = []
    fence = None
    lines: list[str] = []
    name = path.relative_to(ROOT).as_posix()
    lines_of_page = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines_of_page, 1):
        match = FENCE.match(line)
        if fence is None and match:
            fence = match
            lines = []
            start = number + 1
        elif fence is not None and line == "```":
            marks = fence[2].split()
            block = Block(f"{name}:{start}", fence[1] or "", marks, lines)
            blocks.append(block)
            fence = None
            lines = []
        else:
            lines.append(line)
    return blocks


def commands_in(block: Block) -> list[tuple[str, str]]:
    """Return the (place, command) pairs of a console block.

    A command that goes on behind a backslash is returned as one line.
    """
    name, first = block.place.rsplit(":", 1)
    commands: list[tuple[str, str]] = []
    goes_on = False
    for number, line in enumerate(block.lines, int(first)):
        if goes_on:
            place, begun = commands.pop()
            commands.append((place, f"{begun} {line.strip().removesuffix(BREAK)}"))
        elif line.startswith("$ "):
            command = line.removeprefix("$ ").removesuffix(BREAK)
            commands.append((f"{name}:{number}", command))
        goes_on = line.endswith(BREAK)
    return commands
