"""`screen run`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import logs
from screening.cli.console import in_a_row, tell
from screening.cli.options import AsJson, Cluster
from screening.errors import UsageError
from screening.spelling import did_you_mean


def run(
    site: Annotated[Path, typer.Argument(metavar="NIGHT.toml", help="The site's series (docs/nightly.md).")],
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Night of the run; today if absent.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this series; may be repeated.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="SCREEN_LEDGER", help="Ledger, where NIGHT.toml names none."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where a series' page says ATTENTION.")
    ] = False,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Score every series of a site, missed nights too, and write one overview.

    The exit code is the worst of the series: 1, 4, 3, 2, 75, 5, 0.
    """
    from screening.documents.shape import plain
    from screening.network.hooks import tell_hooks
    from screening.network.night import run_night
    from screening.network.site import read_network
    from screening.scoring.score import night_of_date

    network = read_network(site, ledger)
    for name in only or ():
        if name not in network.series:
            raise UsageError(
                f"--only {name}: no such series in {site.name}{did_you_mean(name, network.series)}"
            )
    night = night_of_date(date)
    logs.about(night=night)
    found = run_night(network, night, only=only or (), strict=strict, told=logs.relay, cluster=cluster)
    document = plain(found.document)
    text = json.dumps(document | {"overview": str(found.page)}, ensure_ascii=False).encode()
    lines = [*found.document.series, *found.document.caught_up, *found.document.shadows]
    failed = sum(one.status == "failed" for one in lines)
    if failed:
        logs.note(f"{failed} of {len(lines)} nights failed")
    logs.done("the overview is written")
    hooks = tell_hooks(network.site.hooks, text, network.site.hook_seconds)
    for hook in hooks:
        if not hook.fine:
            logs.note(f"the night stands, but the hook {hook.command} {hook.said}")
    if as_json:
        tell(document | {"overview": str(found.page), "hooks": [plain(hook) for hook in hooks]}, True)
    else:
        answer = {
            "night": night,
            "series": [
                f"{one.series} {one.night}{' in shadow' * one.shadow}: {one.status}"
                + ("" if one.flagged is None else f", {one.flagged} of {one.scored} flagged")
                + ("" if one.said is None else f": {one.said}")
                + in_a_row(one.attention)
                for one in lines
            ],
            "overview": str(found.page),
            "hooks": [f"{hook.command} {hook.said}" for hook in hooks],
        }
        tell(answer, False)
    if found.document.exit_code:
        raise typer.Exit(found.document.exit_code)
