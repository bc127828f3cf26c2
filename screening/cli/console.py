"""What every command shares: text for a terminal, one answer on stdout, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from screening.documents.reason import Reason
    from screening.documents.shadow import NightsBeside
    from screening.storage.model import Model


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
    return _STEERING.sub(lambda found: _number(found[0], lines), text)


def _number(character: str, lines: bool) -> str:
    if lines and character == "\n":
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON writes what lies beyond by two halves.
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


# The command did its work, and what it found should not wait for somebody to open the page.
ATTENTION = 5
OF_POINT = ("class", "threshold", "sensitivity", "specificity", "ppv", "flag_rate")


def tell(answer: Mapping[str, object], as_json: bool) -> None:
    """Print the answer of a command: one JSON object, or a line a key."""
    if as_json:
        _say(json.dumps(answer, ensure_ascii=False, allow_nan=False))
        return
    width = max(map(len, answer), default=0)
    for key, value in answer.items():
        lines = [_inline(one) for one in value] if isinstance(value, list) else [_inline(value)]
        for head, line in zip([key, *[""] * len(lines)], lines or ["-"], strict=False):
            _say(f"{head:{width}}  {line}")


def _say(line: str) -> None:
    try:
        typer.echo(printable(line))
    except OSError as error:
        error.filename = "standard output"
        raise


def points_of(model: Model) -> dict[str, object]:
    """What is told of a model's operating points."""
    return {
        "operating_points": [{key: point.get(key) for key in OF_POINT} for point in model.operating_points]
    }


def attention_of(model: Model, as_json: bool) -> dict[str, object]:
    """Why a model wants attention, as `model.json` has it or in sentences."""
    reasons = model.document["attention"]
    return {"attention": reasons if as_json else sentences(reasons)}


def sentences(reasons: Iterable[Mapping[str, object]]) -> list[str]:
    """Why something wants attention, a line each: what was found, and what to do."""
    return [" ".join(str(each[key]) for key in ("words", "remedy") if each[key]) for each in reasons]


def in_a_row(reasons: Iterable[Reason]) -> str:
    """What was found, as the rest of a line that says something already."""
    return "".join(f"; {each.words.removesuffix('.')}" for each in reasons)


def agreement(found: NightsBeside) -> list[str]:
    """Two models beside each other, in lines: how far they agree, and what each found."""
    nights = "1 night" if found.nights == 1 else f"{found.nights} nights"
    lines = [f"{nights} scored by both" + (f", {found.first} to {found.last}" if found.nights else "")]
    if found.agreement is not None:
        kappa = "" if found.kappa is None else f", kappa {found.kappa:.2f}"
        lines.append(f"{100 * found.agreement:.1f} % said alike{kappa}: {found.both} flagged by both")
    if found.other_tables:
        lines.append(f"{found.other_tables} nights of other tables are not in that share")
    for each in (found.one, found.other):
        name = f"{each.series}{' in shadow' if each.shadow else ''} ({each.model})"
        night = "" if each.cases_per_night is None else f"{each.cases_per_night:.1f} a night, "
        shares = [("", each.ppv), (" of these", each.only_ppv)]
        said = [f"{one.found} of {one.judged} judged{of} had the condition" for of, one in shares]
        lines.append(f"{name}: {night}{said[0]}; {each.only} flagged by it alone, {said[1]}")
    return lines


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_inline(one)}" for key, one in value.items()) or "-"
    if isinstance(value, list):
        return " | ".join(map(_inline, value)) or "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def bar(title: str) -> Callable[[int, int], None]:
    """Make a progress bar on stderr; it shows after a second, and never where stderr is no terminal.

    Returns
    -------
    callable
        `progress(done, total)`.
    """
    began = time.monotonic()
    shown = False
    start: int | None = None

    def progress(done: int, total: int) -> None:
        nonlocal shown, start
        # What was done before the first call (an earlier attempt) says nothing of how fast this one is.
        start = done if start is None else start
        spent = time.monotonic() - began
        if not sys.stderr.isatty() or spent < 1:
            return
        share = min(done / max(total, 1), 1.0)
        ended = done >= total
        if ended and not shown:
            return
        marks = "#" * round(30 * share)
        left = f", {_duration(spent * (total - done) / (done - start))} left" if start < done < total else ""
        line = f"\r{title} [{marks:<30}] {share:4.0%}{left:<18}"
        # A terminal that has gone is no reason to lose the work.
        with suppress(OSError):
            print(line, end="\n" if ended else "", file=sys.stderr, flush=True)
        shown = not ended

    return progress


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest:02} s"
