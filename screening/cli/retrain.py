"""`screen retrain`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import attention_of, bar, points_of, tell
from screening.cli.options import AsJson, LedgerHere, Source, Templates
from screening.errors import UsageError

# What has no bearing on the model; leaving it out keeps the same training the same bytes.
WHERE_AND_HOW = frozenset({"out", "templates", "jobs", "as_json", "sign", "ledger", "nights"})


def retrain(
    context: typer.Context,
    series: Annotated[
        str, typer.Argument(metavar="SERIES", help="Whose verdicts; `screen status` lists all.")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory of its champion.")],
    cohort: Source,
    nights: Annotated[
        str, typer.Option(metavar="PATTERN", help="Tables of the nights: in/{series}/{date}.csv.")
    ],
    out: Annotated[Path, typer.Option(help="Model directory to write.")],
    table: options.Table = None,
    query: options.Query = None,
    ledger: LedgerHere = "screening.db",
    review_by: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Day on which to review it; else in two years.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for one a core.")] = -1,
    memory: options.Memory = None,
    sign: options.Sign = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Train the champion's method again on its past COHORT and the verdicts of SERIES.

    Recipe, rule and contract are the champion's. The new model is in force nowhere: score it --shadow, look
    at `screen history --beside`, then `screen promote` it.
    """
    n_bytes, signer = options.bytes_from(memory), options.signer_from(sign)
    day = options.day_from("--review-by", review_by)

    from functools import partial

    from screening.cohort.reading import read_cohort
    from screening.ledger import judged, open_ledger, record_retraining
    from screening.page import render_model
    from screening.page.site_templates import check_templates
    from screening.storage.loading import load_model
    from screening.storage.model import write_model
    from screening.storage.publishing import publish
    from screening.training import retraining

    check_templates(templates, "model")
    if (out / "model.json").exists():
        raise UsageError(f"{out} holds a model, which stays; give another --out")
    champion = load_model(model)
    with open_ledger(ledger) as book, publish(out, "model") as folder:
        said = judged(book, series, champion.digest)
        past = read_cohort(options.source_of(cohort, table, query), champion.contract, need_label=True)
        learned = retraining.judged_cohort(champion, past, said, nights)
        trained = retraining.retrained(
            champion, learned, review_by=day, jobs=jobs, memory=n_bytes, progress=bar("Training"),
            command=options.command_of(context, WHERE_AND_HOW),
        )  # fmt: skip
        write_model(trained, folder, partial(render_model, templates=templates), signer)
        # Recorded before it is there: a model that failed to appear is known, never the reverse.
        facts = trained.document["training"]["verdicts"]
        entry = record_retraining(book, said.series, champion.digest, trained.digest, facts)
    told = {"model": str(out), "id": trained.id, "report": str(out / "report.html"), "entry": entry.number}
    told |= {"champion": champion.id} | points_of(trained)
    told |= {"verdicts": facts if as_json else retraining.sentences(learned.facts)}
    tell(told | attention_of(trained, as_json), as_json)
