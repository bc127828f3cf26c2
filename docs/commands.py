"""Write the page of all commands. Run `python docs/commands.py` after changing an
option; a test compares.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from screening.cli import COMMANDS, EXAMPLES, app

DOCS = Path(__file__).parent
HEAD = """# Commands

What `--help` prints; what several commands take is explained [at the end](#options-of-several-commands).
`screen --log json COMMAND` writes log lines as JSON, `screen --install-completion` lets your shell complete
commands, recipes, models and series. Written by `python docs/commands.py`.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, with a traceback |
| 2 | the command makes no sense: an option, a recipe, a place that cannot be written |
| 3 | the data broke the contract; nothing was written |
| 4 | a model, run or ledger was refused: damaged, of a newer format, older than its runs |
| 5 | `status`: the last night is missing; `forget`, `purge`: something still names patients; |
| | with `--strict`: done, but a page says ATTENTION |
| 75 | another run is writing there |
| 129, 130, 143 | stopped by SIGHUP, Ctrl-C or SIGTERM; what was begun is removed |

Answers go to stdout; logs, warnings and progress to stderr. The same input, `--seed` and paths
give the same bytes.
"""


def taken() -> dict[str, dict[str, str]]:
    """What each command takes: a line by its long name, such as `--out` or `COHORT`."""
    group = typer.main.get_command(app)
    lines: dict[str, dict[str, str]] = {}
    for name in COMMANDS:
        context = group.commands[name].make_context(name, [], resilient_parsing=True)
        records = [
            parameter.get_help_record(context)
            for parameter in context.command.get_params(context)
        ]
        lines[name] = {
            form.split(", ")[-1].split(" ")[0]: f"- `{form}`: {' '.join(words.split())}"
            for form, words in records
            if "--help" not in form
        }
    return lines


def commands() -> str:
    """The page of all commands; the commonest line of a name that several commands have
    stands at the end.
    """
    lines = taken()
    uses = Counter(line for own in lines.values() for line in own.items())
    shared: dict[str, str] = {}
    for (name, line), count in uses.most_common():
        shared |= {name: line} if count > 1 and name not in shared else {}
    parts = [HEAD]
    for title, command in COMMANDS.items():
        own = lines[title].items()
        also = ", ".join(f"`{name}`" for name, line in own if shared.get(name) == line)
        parts += [
            f"## screen {title}",
            "",
            " ".join(str(command.__doc__).split()),
            "",
        ]
        parts += [
            f"    {EXAMPLES[title]}",
            "",
            *(line for name, line in own if shared.get(name) != line),
        ]
        parts += [f"- also: {also}", ""] if also else [""]
    return "\n".join(
        [
            *parts,
            "## Options of several commands",
            "",
            *(shared[name] for name in sorted(shared)),
            "",
        ]
    )


def main() -> None:
    """Write the document."""
    (DOCS / "commands.md").write_text(commands(), encoding="utf-8")


if __name__ == "__main__":
    main()
