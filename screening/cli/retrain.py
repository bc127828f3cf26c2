"""`screen retrain`: a model trained again with what its nights have shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import bar, facts_of, print_answer
from screening.cli.groups import Without
from screening.cli.model_output import ModelOutput, write_with_page
from screening.cli.options import LedgerHere
from screening.cli.processes import prepare_for_training
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import Resources
from screening.store.publishing import publish


@dataclass(frozen=True, kw_only=True)
class RetrainingOptions:
    """The judged nights that a challenger learns from, and its first review."""

    nights: Annotated[
        str,
        Option(
            "Tables of the nights, such as in/{series}/{date}.csv.", metavar="PATTERN"
        ),
    ]
    ledger: LedgerHere = "screening.db"
    accept_delivery: Annotated[
        str | None,
        Option(
            "Accept a cohort with ids unlike those of the nights, for this reason.",
            metavar="REASON",
        ),
    ] = None
    review_by: Annotated[
        str | None,
        Option(
            "Day on which to review the model; by default in two years.",
            metavar="YYYY-MM-DD",
        ),
    ] = None


def retrain_command(
    context: typer.Context,
    series: Annotated[
        str,
        typer.Argument(
            metavar="SERIES",
            help="Series of the outcomes and verdicts; `screen status` lists all.",
        ),
    ],
    model: options.ModelFolder,
    source: options.CohortOptions,
    learning: RetrainingOptions,
    resources: Annotated[Resources, Without("cluster")],
    output: Annotated[ModelOutput, Without("force", "ledger")],
) -> None:
    """Retrain the champion's method with outcomes and verdicts.

    The new model is trained on the champion's past COHORT and on the outcomes of the
    patients of SERIES, or on their verdicts if outcomes are unknown. Recipe, rule and
    contract are the champion's. The new model is not used before it is promoted: score
    it with --shadow, check `screen history --beside`, then use `screen promote`.
    """
    signer = options.signer_from(output.sign)
    day = options.day_from("--review-by", learning.review_by)
    reason = options.reason_from("--accept-delivery", learning.accept_delivery)
    # Before processes are started, which could not be ended by another user.
    act_as_owner(learning.ledger)
    prepare_for_training(source.cohort, resources)

    from screening.data.reading import read_cohort
    from screening.ledger.database import open_ledger
    from screening.ledger.labels import judged_by_outcomes
    from screening.ledger.model_registry import find_retraining, record_retraining
    from screening.model_selection import retraining
    from screening.report.page import check_templates
    from screening.store.loading import load_model

    check_templates(output.templates, "model")
    out = output.out
    is_there = (out / "model.json").exists()
    champion = load_model(model)
    with open_ledger(learning.ledger) as book, bar("Training") as progress:
        progress(0, 0)
        verdicts = judged_by_outcomes(book, series, champion.digest)
        past = read_cohort(
            source.readable,
            champion.contract,
            need_label=True,
            label_optional=champion.contract.label is None,
        )
        learned = retraining.judged_cohort(
            champion, past, verdicts, learning.nights, accept_delivery=reason
        )
        change = (verdicts.series, champion.digest)
        if is_there:
            # The same command again, such as after it was killed at its end.
            trained = load_model(out)
            entry = find_retraining(book, *change, trained.digest, learned.facts)
            if entry is None:
                raise UsageError(
                    f"{out} already contains a model, which is not replaced; give "
                    "another --out"
                )
        else:
            with publish(out, "model") as folder:
                trained = retraining.retrained(
                    champion,
                    learned,
                    review_by=day,
                    resources=replace(resources, progress=progress),
                    command=options.command_of(context),
                )
                write_with_page(trained.files, folder, output.templates, signer)
                # If publishing the model fails, the ledger has an entry without a
                # model, and never a model without an entry.
                entry = record_retraining(
                    book, *change, trained.digest, learned.facts, reason
                )
    answer = {
        "model": str(out),
        "id": trained.id,
        "report": str(out / "report.html"),
        "entry": entry.number,
        "champion": champion.id,
        **facts_of(trained, output.as_json),
    }
    if output.as_json:
        answer["verdicts"] = trained.document["training"]["verdicts"]
    else:
        answer["verdicts"] = retraining.summary_sentences(learned.facts)
    print_answer(answer, output.as_json)
