"""What every command shares: text for a terminal, one answer on stdout, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from screening.schemas.base import Reason
    from screening.schemas.history import NightsBeside
    from screening.store.model import Model


# C0 and C1 controls, marks of direction and of nothing, line and paragraph separators, tags, lone surrogates.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str, *, lines: bool = False) -> str:
    r"""Text in which every steering character is written as `\uXXXX`, which JSON reads back.

    Parameters
    ----------
    text : str
    lines : bool
        Leave line ends, as in a message of several lines.
    """
    return _STEERING.sub(
        lambda match: "\n" if lines and match[0] == "\n" else _number(match[0]), text
    )


def _number(character: str) -> str:
    # In units of UTF-16, as JSON does: what lies beyond the first 65,536 has two.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


# The command did its work, and its result should not wait for somebody to open the page.
ATTENTION = 5
OF_POINT = ("class", "threshold", "sensitivity", "specificity", "ppv", "flag_rate")


def print_answer(answer: Mapping[str, object], as_json: bool) -> None:
    """Print the answer of a command: one JSON object, or a line a key."""
    if as_json:
        with _to_stdout():
            typer.echo(
                printable(json.dumps(answer, ensure_ascii=False, allow_nan=False))
            )
        return
    lines = [
        (key if number == 0 else "", _inline(one))
        for key, value in answer.items()
        for number, one in enumerate(
            (value or [None]) if isinstance(value, list) else [value]
        )
    ]
    if sys.stdout.isatty():
        _draw(lines)
        return
    width = max(map(len, answer), default=0)
    with _to_stdout():
        for head, line in lines:
            typer.echo(printable(f"{head:{width}}  {line}"))


def _draw(lines: Iterable[tuple[str, str]]) -> None:
    """A table whose values are folded within their own column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for head, line in lines:
        table.add_row(Text(printable(head)), Text(printable(line)))
    with _to_stdout():
        Console().print(table)


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def facts_of(model: Model, as_json: bool) -> dict[str, object]:
    """What a model promises and why it wants attention; on a terminal in the words of its page."""
    points = [
        {key: point.get(key) for key in OF_POINT} for point in model.operating_points
    ]
    promised = {"operating_points": points} if as_json else _promised(model)
    return {"attention": model.document["attention"]} | promised


def _promised(model: Model) -> dict[str, object]:
    """Each figure with its interval, a line a class, and the verdict."""
    from screening.report.format import area_ci, ci, percent
    from screening.report.verdict import usefulness_of

    lines: dict[str, list[str]] = {}
    for point in model.facts.operating_points:
        area = model.facts.validation.summary[point.label].auroc
        figures = {
            "threshold": f"{point.threshold:.4g}",
            "AUROC": ""
            if area.value is None
            else f"{area.value:.2f}{_interval(area_ci(area))}",
        }
        for name in ("sensitivity", "specificity", "ppv"):
            share = getattr(point, name)
            figures[name.replace("ppv", "PPV")] = percent(share) + _interval(ci(share))
        figures["PPV"] += f" at {percent(point.prevalence)} prevalence"
        for name, words in figures.items():
            of_class = f"{point.label}: " if model.facts.multi else ""
            lines.setdefault(name, []).extend([of_class + words] if words else [])
    shown: dict[str, object] = {name: line for name, line in lines.items() if line}
    return shown | {"fit for use?": usefulness_of(model.facts).words}


def _interval(ends: str) -> str:
    return f" (95% CI {ends})" if ends else ""


def in_a_row(reasons: Iterable[Reason]) -> str:
    """Reasons for attention, as the rest of a line that says something already."""
    return "".join(f"; {each.words.removesuffix('.')}" for each in reasons)


def agreement(compared: NightsBeside) -> list[str]:
    """How far two models agree, and what each flagged, in lines."""
    nights = "1 night" if compared.nights == 1 else f"{compared.nights} nights"
    days = f", {compared.first} to {compared.last}" if compared.nights else ""
    lines = [f"{nights} scored by both{days}"]
    if compared.agreement is not None:
        kappa = "" if compared.kappa is None else f", kappa {compared.kappa:.2f}"
        lines.append(
            f"{100 * compared.agreement:.1f} % agreement{kappa}: {compared.both} flagged by both"
        )
    if compared.other_tables:
        lines.append(
            f"{compared.other_tables} nights of other tables are not in that share"
        )
    for model in (compared.one, compared.other):
        name = f"{model.series}{' in shadow' if model.shadow else ''} ({model.model})"
        night = (
            ""
            if model.cases_per_night is None
            else f"{model.cases_per_night:.1f} a night, "
        )
        judged, judged_alone = (
            f"{share.found} of {share.judged} judged{which} had the condition"
            for which, share in (("", model.ppv), (" of these", model.only_ppv))
        )
        lines.append(
            f"{name}: {night}{judged}; {model.only} flagged by it alone, {judged_alone}"
        )
    return lines


def _inline(value: object) -> str:
    if isinstance(value, Mapping) and "remedy" in value:
        # A reason for attention, and what to do.
        return " ".join(str(value[key]) for key in ("words", "remedy") if value[key])
    if isinstance(value, Mapping):
        return (
            ", ".join(
                f"{key} {_inline(one)}" for key, one in value.items() if one is not None
            )
            or "-"
        )
    if isinstance(value, list):
        return " | ".join(map(_inline, value)) or "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on stderr, with the time left; it shows after a second, and only on a terminal.

    Yields
    ------
    callable
        `progress(done, total)`; 0 for a total that nobody knows. The time left is estimated from the
        first call on.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    began = time.monotonic()
    first: tuple[float, int] | None = None
    left = "-:--:--"
    # No thread draws it, and a terminal that has gone is no reason to lose the work.
    drawn = Progress(
        TextColumn(title, markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}", style="cyan"),
        console=Console(stderr=True),
        auto_refresh=False,
    )

    def progress(done: int, total: int) -> None:
        nonlocal first, left
        now = time.monotonic()
        if first is None:
            # What was done before the first call (an earlier attempt) says nothing of how fast this one is.
            first = now, done
            drawn.add_task(title, left=left)
        if total and done > first[1]:
            seconds = (now - first[0]) * (total - done) / (done - first[1])
            left = str(timedelta(seconds=round(seconds)))
        drawn.update(drawn.tasks[0].id, completed=done, total=total or None, left=left)
        with suppress(OSError):
            if now - began >= 1:
                drawn.start()
                drawn.refresh()

    try:
        yield progress
    finally:
        with suppress(OSError):
            if drawn.live.is_started:
                drawn.stop()
