"""Report the state of nights to monitors: Nagios, a dead man's switch."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from screening.cli import logs
from screening.cli.console import join_reasons
from screening.errors import UsageError
from screening.schemas.base import new_reasons
from screening.schemas.history import SeriesStatus

# Exit codes of a Nagios plugin.
OK = 0
WARNING = 1
CRITICAL = 2
UNKNOWN = 3
HEADINGS = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
PING_SECONDS = 20


def nagios_answer(statuses: Sequence[SeriesStatus]) -> tuple[str, int]:
    """Return what a Nagios plugin prints of the series, and its exit code.

    A missing night is critical, a new reason for attention a warning. The first line
    has the counts, each other line a series that is not fine.
    """
    n_missing = sum(not status.fine for status in statuses)
    n_wanting = sum(bool(new_reasons(status.attention)) for status in statuses)
    code = max(map(_severity, statuses), default=OK)
    lines = [
        f"SCREENING {HEADINGS[code]} - {len(statuses)} series, {n_missing} without "
        f"the night, {n_wanting} with attention | missing={n_missing} "
        f"attention={n_wanting}"
    ]
    lines += map(line_of, filter(_severity, statuses))
    return "\n".join(lines), code


def _severity(status: SeriesStatus) -> int:
    """Return the exit code for one series."""
    if not status.fine:
        return UNKNOWN if status.series is None else CRITICAL
    return WARNING if new_reasons(status.attention) else OK


def line_of(status: SeriesStatus) -> str:
    """Return a series' night on one line, without a bar, which begins the figures."""
    name = "" if status.series is None else f"{status.series}: "
    line = f"{name}{status.said}{join_reasons(new_reasons(status.attention))}"
    return " ".join(line.replace("|", "/").split())


def fetch(url: str) -> None:
    """Fetch an address; a failure is a warning, without the address, which is a secret.

    UsageError if it is not an http or https address.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError("--ping needs an address that begins with http:// or https://")
    try:
        with urllib.request.urlopen(url, timeout=PING_SECONDS):
            pass
    except (OSError, urllib.error.URLError, ValueError) as error:
        logs.note(f"--ping: the address did not answer ({type(error).__name__})")
