"""Write the pages of commands. Run `python docs/commands.py` after changing an option;
a test compares `docs/commands.md`.

The page with all words of `--help` is for the site, and kept in no repository.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_type_hints

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from screening.cli import COMMANDS, app
from screening.cli.options import RuleOptions
from screening.option_groups import option_of, options_of
from screening.registry import refuse_plugins
from screening.settings import Resources, Search, TableOptions, Validation
from screening.site.site import Letterbox, SeriesPlan, Site

DOCS = Path(__file__).parent
HEAD = """# Commands

`screen COMMAND --help` explains every option, and so does the site that `make docs`
builds. `screen --log json COMMAND` writes log lines as JSON.
`screen --install-completion` lets your shell complete commands, recipes, models and
series.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, with a traceback |
| 2 | wrong use: an invalid option or recipe, or a place that cannot be written to |
| 3 | the data violate the contract; nothing was written |
| 4 | a model, run or ledger was refused because it is damaged, has a newer format, or is older than its runs |
| 5 | `status`: the last night is missing; `forget`, `purge`: something still names patients; `--strict`: done, but a page shows ATTENTION |
| 75 | another run is writing to the same place |
| 129, 130, 143 | stopped by SIGHUP, Ctrl-C or SIGTERM; incomplete output is removed |

Results go to stdout (with `--json`, as one JSON object), logs, warnings and progress to
stderr. The same input, `--seed` and paths give the same bytes.
"""
REFERENCE_HEAD = """# Every option

The text of `--help`. Options of several commands follow [at the
end](#options-of-several-commands).
"""
# Options of shared groups that the page lists with their commands.
WITH_COMMANDS = {
    "beside",
    "cluster",
    "contamination",
    "contract",
    "independent",
    "lesions",
    "memory",
    "neighbourhood",
    "params",
}


def _names(*groups: type) -> tuple[str, ...]:
    """Return the options that every command with these groups has."""
    return tuple(
        option_of(name)
        for group in groups
        for name in options_of(group)
        if name not in WITH_COMMANDS
    )


# Options that commands share together, by the heading that they have on the page.
GROUPS = {
    "Columns": _names(TableOptions),
    "Rule": tuple(map(option_of, get_type_hints(RuleOptions))),
    "Validation": _names(Search, Validation, Resources),
}
SITE_HEAD = """## Keys of a site file

`NIGHT.toml` ([how to use it](nightly.md)). Paths are relative to its folder.
"""
TABLES = {"site": Site, "series.NAME": SeriesPlan, "serve": Letterbox}
# The name of an option in a form such as `-o, --out DIR`, or of an argument.
NAME = re.compile(r"^- `(?:-\w, )?([^ `]+)[^`]*`.*")
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
    """Return the page of all commands, with their options by name."""
    lines = taken()
    parts = [HEAD]
    for title, entry in COMMANDS.items():
        summary, *_ = str(entry.function.__doc__).split("\n\n")
        listed = f"Options: {', '.join(_forms(lines[title]))}"
        parts += _section(title, summary, [listed])
    groups = [
        line
        for title, names in GROUPS.items()
        for line in (f"### {title}", "", ", ".join(f"`{name}`" for name in names), "")
    ]
    parts += ["## Options of several commands", "", *groups, SITE_HEAD]
    for title, table in TABLES.items():
        parts += [f"### `[{title}]`", "", "| key | meaning |", "|---|---|"]
        parts += [*_keys(table), ""]
    return "\n".join(parts)


def _keys(table: type[BaseModel]) -> Iterator[str]:
    """Yield a line for each key of a table of NIGHT.toml."""
    options = options_of(table)
    for name, field in table.model_fields.items():
        meaning = field.description
        if name in options:
            meaning = options[name].help_of_parameter
            if options[name].envvar is not None:
                meaning += f" [env var: {options[name].envvar}]"
        default = field.default
        if default not in (None, [], {}, PydanticUndefined):
            meaning += f" [default: {default}]"
        words = " ".join(meaning.split()).replace("|", "\\|")
        yield f"| `{name}` | {words} |"


def _forms(lines: Mapping[str, str]) -> list[str]:
    """Return the options of a command, a group that it has whole by its name."""
    groups = {title: names for title, names in GROUPS.items() if set(names) <= {*lines}}
    left_out = {"--json", *(name for names in groups.values() for name in names)}
    forms = [
        NAME.sub(r"`\1`", line) for name, line in lines.items() if name not in left_out
    ]
    return [*forms, *(f"[{title}](#{title.lower()})" for title in groups)]


def reference() -> str:
    """Return the page with all words of `--help`."""
    lines = taken()
    shared = _shared(lines)
    parts = [REFERENCE_HEAD]
    for title, entry in COMMANDS.items():
        own, also = _own_and_also(lines[title], shared)
        listed = [*own, f"- also: {', '.join(also)}"] if also else own
        parts += _section(title, str(entry.function.__doc__), listed)
    groups = _explained(shared)
    grouped = {name for names in GROUPS.values() for name in names}
    others = [shared[name] for name in sorted(shared) if name not in grouped]
    title = "## Options of several commands"
    return "\n".join([*parts, title, "", *groups, "### Others", "", *others, ""])


def _shared(lines: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the commonest line of each name that several commands have."""
    uses = Counter(line for own in lines.values() for line in own.items())
    shared: dict[str, str] = {}
    for (name, line), count in uses.most_common():
        shared |= {name: line} if count > 1 and name not in shared else {}
    return shared


def _own_and_also(
    lines: Mapping[str, str], shared: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the lines of a command's own options, and the names of the others."""
    own = [line for name, line in lines.items() if not _is_shared(name, line, shared)]
    also = _also(
        {
            name: _own_default(line, shared[name])
            for name, line in lines.items()
            if _is_shared(name, line, shared)
        }
    )
    return own, also


def _section(title: str, words: str, listed: Sequence[str]) -> list[str]:
    """Return the lines of a command: its words, its example, its options."""
    example = f"    {COMMANDS[title].example}"
    return [
        f"## screen {title}",
        "",
        " ".join(words.split()),
        "",
        example,
        "",
        *listed,
        "",
    ]


def _explained(shared: Mapping[str, str]) -> list[str]:
    """Return the lines of the options that commands share together."""
    return [
        line
        for title, names in GROUPS.items()
        for line in (f"### {title}", "", *(shared[name] for name in names), "")
    ]


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
    """Write both pages."""
    refuse_plugins()
    (DOCS / "commands.md").write_text(commands(), encoding="utf-8")
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    (folder / "commands.md").write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
