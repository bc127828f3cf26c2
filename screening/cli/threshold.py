"""`screen threshold`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import attention_of, points_of, tell
from screening.cli.options import AsJson, LedgerMaybe, Templates


def threshold(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory; it is written anew.")],
    reason: Annotated[str, typer.Option(help="Why, in words; every page will show it.")],
    min_sensitivity: options.MinSensitivity = None,
    max_flag_rate: options.MaxFlagRate = None,
    miss_cost: options.MissCost = None,
    g_mean: options.GMean = False,
    threshold: options.Threshold = None,
    confidence: options.Confidence = None,
    prevalence: options.Prevalence = None,
    watched: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="Only this watched class.")
    ] = None,
    ledger: LedgerMaybe = None,
    series: options.Series = None,
    sign: options.Sign = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Choose another operating point for MODEL by RULE.

    It is chosen from the held-out scores the model was validated with; the machines stay as they are.
    """
    rule = options.rule_from(context.params)
    signer = options.signer_from(sign)

    from functools import partial

    from screening.ledger import open_ledger, record_threshold
    from screening.page import render_model
    from screening.storage.loading import load_model
    from screening.storage.model import write_model
    from screening.storage.publishing import publish
    from screening.storage.sealing import as_stored
    from screening.training import rechoosing

    with publish(model, "model") as folder:
        before = load_model(model)
        with as_stored(model / "model.json"):
            after = rechoosing.rechoose(before, rule, reason, watched)
            options.say_unsigned(model, signer)
            write_model(after, folder, partial(render_model, templates=templates), signer)
        if ledger:
            # Recorded before it is in force: a change that failed to appear is known, never the reverse.
            whose = options.series_from(series) or before.contract.series
            with open_ledger(ledger, make=True) as book:
                record_threshold(book, rechoosing.change_of(before, after), whose)
    told = {"model": str(model), "id": after.id} | points_of(after)
    tell(told | attention_of(after, as_json), as_json)
