"""`screen run`: every series of a site in one night."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from screening.cli import logs, options
from screening.cli.console import join_reasons, print_answer
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import AcceptDelivery, ClusterAddress, Date, Replace
from screening.spelling import did_you_mean

if TYPE_CHECKING:
    from screening.schemas.history import HookFacts, OverviewDocument, SeriesNight
    from screening.site.site import Network


@dataclass(frozen=True)
class OnlyOptions:
    """Options of a run of some series only, such as with a corrected table."""

    only: Annotated[
        list[str] | None, Option("Only this series; repeatable.", metavar="NAME")
    ] = None
    accept_delivery: AcceptDelivery = None
    replace: Replace = None

    def check(self, network: Network, site: Path) -> None:
        """Raise UsageError for an unknown series, or a reason without words or series.

        A reason is for tables that a person has checked.
        """
        for name in self.only or ():
            if name not in network.series:
                hint = did_you_mean(name, network.series)
                raise UsageError(f"--only {name}: {site.name} has no such series{hint}")
        for option, reason in (
            ("--accept-delivery", self.accept_delivery),
            ("--replace", self.replace),
        ):
            if reason is not None and not reason.strip():
                raise UsageError(
                    f"{option}: give the reason in a few words, which are recorded"
                )
        if (self.accept_delivery or self.replace) and not self.only:
            raise UsageError(
                "--accept-delivery and --replace need a table that somebody has "
                "checked; give --only NAME too"
            )


def run_command(
    site: Annotated[
        Path,
        typer.Argument(metavar="NIGHT.toml", help="Site file (docs/nightly.md)."),
    ],
    date: Date = None,
    *,
    series: OnlyOptions,
    ledger: Annotated[
        str | None,
        Option(
            "Ledger, if NIGHT.toml does not name one.",
            metavar="URL",
            envvar="SCREEN_LEDGER",
        ),
    ] = None,
    strict: Annotated[
        bool, Option("Exit 5 if the page of a series shows ATTENTION.")
    ] = False,
    cluster: ClusterAddress = None,
    as_json: options.AsJson = False,
) -> None:
    """Score every series of a site, and write one overview.

    Missed nights are scored too. The exit code is the worst of the series, in the order
    1, 4, 3, 2, 75, 5, 0.
    """
    from screening.clock.night import night_of_date
    from screening.site.night import run_night
    from screening.site.processes import run_hooks
    from screening.site.site import read_network

    network = read_network(site, ledger)
    series.check(network, site)
    night = night_of_date(date, clock=network.clock)
    logs.about(night=night)
    act_as_owner(network.ledger, network.site.runs)
    overview, page = run_night(
        network,
        night,
        only=series.only or [],
        accept_delivery=series.accept_delivery,
        replace_reason=series.replace,
        strict=strict,
        relay=logs.relay,
        cluster=cluster,
    )
    answer = overview.to_dict() | {"overview": str(page)}
    _log_failures(overview)
    _log_attention(overview)
    logs.done("the overview is written")
    content = json.dumps(answer, ensure_ascii=False).encode()
    hooks = run_hooks(network.site.hooks, content, network.site.hook_seconds, site)
    for hook in hooks:
        if not hook.fine:
            logs.note(
                f"the night is published, but the hook {hook.command} {hook.said}"
            )
    if as_json:
        answer["hooks"] = [hook.to_dict() for hook in hooks]
    else:
        answer = _overview_in_words(overview, page, hooks)
    print_answer(answer, as_json)
    if overview.exit_code:
        raise typer.Exit(overview.exit_code)


def _log_failures(overview: OverviewDocument) -> None:
    """Log how many nights failed, and which files could not be used."""
    n_failed = sum(line.status == "failed" for line in overview.nights)
    if n_failed:
        logs.note(f"{n_failed} of {len(overview.nights)} nights failed")
    for file in overview.verdicts:
        if file.refused:
            logs.note(f"verdicts, {file.file}: refused: {file.refused}")
    for table in overview.outcomes:
        if table.refused:
            text = f"outcomes of {table.series}: refused: {table.refused}"
            logs.note(f"{text}; next: {'; or '.join(table.remedies)}")


def _log_attention(overview: OverviewDocument) -> None:
    """Log each new reason for attention of the night."""
    from screening.schemas.base import new_reasons

    for line in [*overview.series, *overview.caught_up]:
        for reason in new_reasons(line.attention):
            logs.attention(line.series, line.night, reason.code, reason.words)
    for reason in new_reasons(overview.attention):
        logs.attention(None, overview.night, reason.code, reason.words)


def _overview_in_words(
    overview: OverviewDocument, page: Path, hooks: Sequence[HookFacts]
) -> dict[str, Any]:
    """Return the overview of a night for a terminal."""
    return {
        "night": overview.night,
        "series": list(map(_night_in_words, overview.nights)),
        "together": [reason.sentence for reason in overview.attention],
        "overview": str(page),
        "hooks": [f"{hook.command} {hook.said}" for hook in hooks],
    }


def _night_in_words(line: SeriesNight) -> str:
    """Return the outcome of a night of a series, on one line."""
    shadow = " in shadow" if line.shadow else ""
    text = f"{line.series} {line.night}{shadow}: {line.status}"
    if line.flagged is not None:
        text += f", {line.flagged} of {line.scored} flagged"
    if line.said is not None:
        text += f": {' '.join(line.said.split())}"
    text += join_reasons(line.attention)
    if line.remedies:
        text += f"; next: {'; or '.join(line.remedies)}"
    return text
