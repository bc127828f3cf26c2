"""Output of every command: an answer on stdout, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import typer

from screening.cli.waiting import drawing, stop_waiting
from screening.schemas.figures import NO_CASE_SEEN

if TYPE_CHECKING:
    from screening.schemas.base import Reason
    from screening.schemas.history import Flagging, NightsBeside
    from screening.schemas.model import ModelDocument
    from screening.schemas.validation import OperatingPointFacts
    from screening.store.model import Model
    from screening.store.model_files import ModelFiles


# Characters that steer a terminal or hide: C0 and C1 controls, marks of direction and
# of no width, separators of lines and paragraphs, tags, lone surrogates.
STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
ATTENTION = 5
"""Exit code of a command that did its work, and whose result needs attention."""
POINT_KEYS = ("class", "threshold", "figures")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with every control character as `\uXXXX`, as in JSON.

    Parameters
    ----------
    text : str
    lines : bool
        Leave line ends, as in a message of several lines.
    """

    def replace(match: re.Match[str]) -> str:
        if lines and match[0] == "\n":
            return "\n"
        return _escape(match[0])

    return STEERING.sub(replace, text)


def _escape(character: str) -> str:
    """Return a character in units of UTF-16, as JSON escapes it."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def print_answer(answer: Mapping[str, object], as_json: bool) -> None:
    """Print an answer: one JSON object, or a line for each key and item of a list."""
    stop_waiting()
    if as_json:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        with _to_stdout():
            typer.echo(printable(text))
        return
    lines: list[tuple[str, str]] = []
    for key, value in answer.items():
        items = (value or [None]) if isinstance(value, list) else [value]
        lines.append((key, _inline(items[0])))
        lines += [("", _inline(item)) for item in items[1:]]
    if sys.stdout.isatty():
        _print_table(lines)
        return
    width = max(map(len, answer), default=0)
    with _to_stdout():
        for head, line in lines:
            typer.echo(printable(f"{head:{width}}  {line}"))


def _print_table(lines: Iterable[tuple[str, str]]) -> None:
    """Print keys and values as a table that folds values within their own column."""
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
    """Name standard output in the error where it cannot be written."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def facts_of(model: Model | ModelFiles, as_json: bool) -> dict[str, object]:
    """Return attention and operating points of a model, for a terminal in words."""
    facts: dict[str, object] = {"attention": model.document["attention"]}
    if not as_json:
        return facts | _figures_in_words(model.facts)
    return facts | {"operating_points": points_of(model.document)}


def points_of(document: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the figures of a document's operating points that commands print."""
    points = []
    for point in document["operating_points"]:
        points.append({key: point.get(key) for key in POINT_KEYS})
    return points


def _figures_in_words(model: ModelDocument) -> dict[str, object]:
    """Return each figure with its interval, one line per class, and the verdict."""
    from screening.report.verdict import usefulness_of

    lines: dict[str, list[str]] = {}
    for point in model.operating_points:
        of_class = f"{point.label}: " if model.multi else ""
        for name, figure in _figures_of_point(model, point).items():
            lines.setdefault(name, []).append(of_class + figure)
    verdict = usefulness_of(model).words
    return {**lines, "fit for use?": verdict}


def _figures_of_point(
    model: ModelDocument, point: OperatingPointFacts
) -> dict[str, str]:
    """Return the figures of an operating point, each with its interval."""
    from screening.metrics.figures import figures_in
    from screening.report.format import in_sentence, percent, share_words, with_interval
    from screening.schemas.base import UNDEFINED

    figures = {"threshold": f"{point.threshold:.4g}"}
    if model.validation.without_cases is not None:
        rate = share_words(point["flag_rate"])
        figures["flagged"] = f"{rate} of rows like those of training"
    known = {**model.validation.summary[point.label].figures, **point.figures}
    for figure in figures_in("promise"):
        title = in_sentence(figure)
        figures[title] = with_interval(known.get(figure.name, UNDEFINED), figure)
        if point.n_positive == 0 and known.get(figure.name, UNDEFINED).value is None:
            figures[title] = NO_CASE_SEEN
        elif figure.name == "ppv":
            figures[title] += f" at {percent(point.prevalence)} prevalence"
    return figures


def join_reasons(reasons: Iterable[Reason]) -> str:
    """Join reasons for attention, for the end of a line."""
    return "".join(f"; {reason.sentence.removesuffix('.')}" for reason in reasons)


def agreement(compared: NightsBeside) -> list[str]:
    """Return in lines how far two models agree, and what each flagged."""
    if compared.nights == 0:
        heading = "0 nights scored by both"
    elif compared.nights == 1:
        heading = f"1 night scored by both, {compared.first} to {compared.last}"
    else:
        heading = (
            f"{compared.nights} nights scored by both, {compared.first} to "
            f"{compared.last}"
        )
    lines = [heading]
    if compared.agreement is not None:
        kappa = "" if compared.kappa is None else f", kappa {compared.kappa:.2f}"
        lines.append(
            f"{100 * compared.agreement:.1f} % agreement{kappa}: {compared.both} "
            "flagged by both"
        )
    if compared.other_tables:
        lines.append(
            f"the agreement leaves out {compared.other_tables} nights on which the two "
            "scored different tables"
        )
    lines += map(_flagged_by, (compared.one, compared.other))
    return lines


def _flagged_by(model: Flagging) -> str:
    """Return in a line what one of two models flagged, and what it flagged alone."""
    shadow = " in shadow" if model.shadow else ""
    # A series without a night in common may have no model yet.
    named = f" ({model.model})" if model.model else ""
    line = f"{model.series}{shadow}{named}: "
    if model.cases_per_night is not None:
        line += f"{model.cases_per_night:.1f} a night, "
    return (
        f"{line}{model.ppv.found} of {model.ppv.judged} judged had the condition; "
        f"{model.only} flagged by this model alone: {model.only_ppv.found} of "
        f"{model.only_ppv.judged} judged had the condition"
    )


def _inline(value: object) -> str:
    """Return a value of an answer on one line; "-" for nothing."""
    match value:
        case None | []:
            return "-"
        case {"words": words, "remedy": remedy}:  # A reason for attention.
            return " ".join(filter(None, [words, remedy]))
        case Mapping():
            pairs = [
                f"{key} {_inline(item)}"
                for key, item in value.items()
                if item is not None
            ]
            return ", ".join(pairs) or "-"
        case list():
            return " | ".join(map(_inline, value))
        case float():
            return f"{value:.4g}"
    return str(value)


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Draw a progress bar on stderr, with the time left.

    It appears after a second, and only on a terminal, where a timer draws it too.

    Yields
    ------
    callable
        `progress(done, total)`; 0 for an unknown total. The time left is estimated from
        the first call on.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    began = time.monotonic()
    first: tuple[float, int] | None = None
    left = "-:--:--"
    # No thread draws it, and the work goes on if the terminal has gone.
    drawn = Progress(
        TextColumn(title, markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}", style="cyan"),
        console=Console(stderr=True),
        auto_refresh=False,
    )
    task = drawn.add_task(title, total=None, left=left)
    is_drawing = False

    def draw() -> None:
        nonlocal is_drawing
        # The timer may come while it is drawn.
        if is_drawing or time.monotonic() - began < 1:
            return
        is_drawing = True
        with suppress(OSError):
            drawn.start()
            drawn.refresh()
        is_drawing = False

    def progress(done: int, total: int) -> None:
        nonlocal first, left
        now = time.monotonic()
        if first is None:
            # Work done by an earlier attempt does not count for the speed of this one.
            first = now, done
        if total and done > first[1]:
            seconds = (now - first[0]) * (total - done) / (done - first[1])
            left = str(timedelta(seconds=round(seconds)))
        drawn.update(task, completed=done, total=total or None, left=left)
        draw()

    try:
        with drawing(draw):
            yield progress
    finally:
        with suppress(OSError):
            if drawn.live.is_started:
                drawn.stop()
