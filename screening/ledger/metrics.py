"""The state of the series as Prometheus reads it from a text file; no patient in it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from screening.ledger.status import Pulse

Figure = Callable[[Pulse], float | None]


def _count(name: str) -> Figure:
    return lambda pulse: None if pulse.counts is None else pulse.counts.get(name)


def _seconds(text: str | None) -> float | None:
    return None if text is None else datetime.datetime.fromisoformat(text).timestamp()


def _midnight(day: str | None) -> float | None:
    return None if day is None else _seconds(f"{day}T00:00:00+00:00")


FIGURES: tuple[tuple[str, str, Figure], ...] = (
    ("screening_fine", "1 where the night that is due came.", lambda pulse: float(pulse.fine)),
    ("screening_attention_reasons", "Reasons why that night wants a look.", lambda p: len(p.attention)),
    (
        "screening_night_timestamp_seconds",
        "Midnight (UTC) of the last night in force.",
        lambda p: _midnight(p.night),
    ),
    ("screening_came_timestamp_seconds", "When that night came.", lambda pulse: _seconds(pulse.came)),
    (
        "screening_review_timestamp_seconds",
        "Midnight (UTC) of the day of its model's review.",
        lambda p: _midnight(p.review_by),
    ),
    ("screening_rows_scored", "Rows scored in that night.", _count("scored")),
    ("screening_rows_flagged", "Rows flagged in that night.", _count("flagged")),
    ("screening_cases", "Flagged cases of that night.", _count("cases")),
    ("screening_cases_new", "Cases that were not flagged on the night before.", _count("new")),
)


def exposition(pulses: Sequence[Pulse]) -> str:
    """The text format of Prometheus: a figure a series, and whether the ledger could be read at all."""
    known = [pulse for pulse in pulses if pulse.series is not None]
    lines = _head("screening_ledger_readable", "1 where the ledger was read and holds a series.")
    lines.append(f"screening_ledger_readable {float(bool(known) or any(each.fine for each in pulses)):g}")
    for name, words, figure in FIGURES:
        values = [(pulse.series, value) for pulse in known if (value := figure(pulse)) is not None]
        lines += _head(name, words) if values else []
        lines += [f'{name}{{series="{_escaped(series)}"}} {value:.17g}' for series, value in values]
    return "\n".join(lines) + "\n"


def _escaped(name: str | None) -> str:
    """As a label: who asks for a series may have typed anything."""
    return str(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, words: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
