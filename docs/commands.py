"""Write the page of all commands. Run `python docs/commands.py` after changing an
option; a test compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import typer

from screening.cli import COMMANDS, EXAMPLES, app
from screening.cli.options import (
    ColumnOptions,
    RuleOptions,
    ValidationOptions,
    option_of,
)

DOCS = Path(__file__).parent
HEAD = """# Commands

This page has the text of `--help`. The options of several commands follow [at the
end](#options-of-several-commands). `screen --log json COMMAND` writes log lines as JSON.
`screen --install-completion` lets your shell complete commands, recipes, models and
series. `python docs/commands.py` writes this page.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, with a traceback |
| 2 | wrong use: an option, a recipe, a place that cannot be written |
| 3 | the data violate the contract; nothing was written |
| 4 | a model, run or ledger was refused: damaged, of a newer format, older than its runs |
| 5 | `status`: the last night is missing; `forget`, `purge`: something still names patients; `--strict`: done, but a page shows ATTENTION |
| 75 | another run is writing there |
| 129, 130, 143 | stopped by SIGHUP, Ctrl-C or SIGTERM; incomplete output is removed |

Results go to stdout; logs, warnings and progress go to stderr. The same input, `--seed`
and paths give the same bytes.
"""
# Options that commands share together, by the heading that they have on the page.
GROUPS = {
    title: tuple(map(option_of, get_type_hints(options)))
    for title, options in (
        ("Columns", ColumnOptions),
        ("Rule", RuleOptions),
        ("Validation", ValidationOptions),
    )
}
# What click adds to a help: a default, an environment variable, "required".
ADDED = re.compile(r" \[([^][]*)\]$")


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
    is at the end.
    """
    lines = taken()
    uses = Counter(line for own in lines.values() for line in own.items())
    shared: dict[str, str] = {}
    for (name, line), count in uses.most_common():
        shared |= {name: line} if count > 1 and name not in shared else {}
    parts = [HEAD]
    for title, command in COMMANDS.items():
        own = lines[title]
        also = _also(
            {
                name: _own_default(line, shared[name])
                for name, line in own.items()
                if _is_shared(name, line, shared)
            }
        )
        parts += [
            f"## screen {title}",
            "",
            " ".join(str(command.__doc__).split()),
            "",
            f"    {EXAMPLES[title]}",
            "",
            *(line for name, line in own.items() if not _is_shared(name, line, shared)),
        ]
        parts += [f"- also: {', '.join(also)}", ""] if also else [""]
    parts += ["## Options of several commands", ""]
    for title, names in GROUPS.items():
        parts += [f"### {title}", "", *(shared.pop(name) for name in names), ""]
    parts += ["### Others", "", *(shared[name] for name in sorted(shared)), ""]
    return "\n".join(parts)


def _also(defaults: Mapping[str, str]) -> list[str]:
    """Return the shared options of a command, a group that it has whole by its name.

    `defaults` has by name what the end of the page does not show.
    """
    left = dict(defaults)
    also = []
    for title, names in GROUPS.items():
        if all(left.get(name) == "" for name in names):
            also.append(f"[{title}](#{title.lower()})")
            for name in names:
                left.pop(name)
    return [*also, *(f"`{name}`{default}" for name, default in left.items())]


def _is_shared(name: str, line: str, shared: Mapping[str, str]) -> bool:
    """Return True if the end of the page has the same help of an option."""
    return ADDED.sub("", line) == ADDED.sub("", shared.get(name, ""))


def _own_default(line: str, shared: str) -> str:
    """Return what the end of the page does not show: a default, or what is needed."""
    added = ADDED.search(line)
    common = ADDED.search(shared)
    facts = added[1].split("; ") if added else []
    known = common[1].split("; ") if common else []
    own = [fact for fact in facts if fact not in known]
    if "required" in known and "required" not in facts:
        own.append("optional")
    return f" ({'; '.join(own)})" if own else ""


def main() -> None:
    """Write the document."""
    (DOCS / "commands.md").write_text(commands(), encoding="utf-8")


if __name__ == "__main__":
    main()
