"""`screen train`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli import logs, options
from screening.cli.console import attention_of, bar, points_of, tell
from screening.cli.options import AsJson, ContractFile, Source, Templates

# What has no bearing on the model; leaving it out keeps the same training the same bytes.
WHERE_AND_HOW = frozenset({"out", "templates", "jobs", "as_json", "force", "sign", "cluster"})


def train(
    context: typer.Context,
    cohort: Source,
    out: Annotated[Path, typer.Option(help="Model directory to write.")],
    table: options.Table = None,
    query: options.Query = None,
    recipe: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Method; `screen recipes` lists them.")
    ] = "auto",
    label: options.Label = None,
    positive: options.Positive = None,
    id: options.Id = None,
    group: options.Group = None,
    independent: Annotated[
        bool, typer.Option("--independent", help="Every row is a patient of its own, whatever it looks like.")
    ] = False,
    drop: options.Drop = None,
    neighbourhood: Annotated[
        int | None,
        typer.Option(metavar="3", help="Of voxels: features of the cube of this side around each."),
    ] = None,
    contract: ContractFile = None,
    min_sensitivity: options.MinSensitivity = None,
    max_flag_rate: options.MaxFlagRate = None,
    miss_cost: options.MissCost = None,
    g_mean: options.GMean = False,
    threshold: options.Threshold = None,
    lesions: Annotated[
        bool,
        typer.Option("--lesions", help="Of voxels: count lesions, smooth maps, leave small clusters out."),
    ] = False,
    confidence: options.Confidence = None,
    prevalence: options.Prevalence = None,
    param: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Fix a parameter.")] = None,
    search: options.Search = None,
    folds: options.Folds = 5,
    repeats: options.Repeats = None,
    max_rows: Annotated[int | None, typer.Option(help="Train on a stated sub-sample.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for one a core.")] = -1,
    cluster: options.Cluster = None,
    memory: options.Memory = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Methods to compare with on the same folds, or none."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model of another recipe, cohort or label.")
    ] = False,
    sign: options.Sign = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Validate a method on COHORT, choose a threshold, write a model.

    Every row is scored by machines that have not seen it; setting and operating point (RULE) are chosen on
    these scores, and the machines of the folds are the model: a new row's score is the mean of their
    decisions. The model directory holds patients' rows: keep it private.
    """
    rule = options.rule_from(context.params)
    parameters = options.parameters_from(param or [])
    n_bytes = options.bytes_from(memory)
    signer = options.signer_from(sign)

    from functools import partial

    from screening.cluster import opened
    from screening.cohort.reading import read_cohort
    from screening.machines.scikit_alone import leave_named_unread
    from screening.page import render_model
    from screening.page.site_templates import check_templates
    from screening.recipes.loading import load_recipe
    from screening.sources.arrow_alone import leave_pandas_unread
    from screening.storage.model import write_model
    from screening.storage.publishing import publish
    from screening.training import train as training
    from screening.training.replacing import refuse_other_model
    from screening.validation.elsewhere import fitted_by

    leave_pandas_unread()
    leave_named_unread()
    check_templates(templates, "model")
    with opened(cluster) as workers, publish(out, "model") as folder:
        past = read_cohort(
            options.source_of(cohort, table, query), contract, label=label, positive=positive,
            id=id, group=group,
            drop=options.names_from(drop), neighbourhood=neighbourhood, need_label=True,
        )  # fmt: skip
        method = load_recipe(recipe)
        if not force:
            refuse_other_model(out, method, past)
        with fitted_by(workers, out) as there:
            model = training.train(
                past,
                method,
                rule=rule,
                folds=folds,
                repeats=repeats,
                seed=seed,
                search=search,
                params=parameters,
                jobs=jobs,
                memory=n_bytes,
                max_rows=max_rows,
                progress=bar("Training"),
                command=options.command_of(context, WHERE_AND_HOW),
                beside=options.others_from(beside),
                lesions=lesions,
                independent=independent,
                elsewhere=there,
            )
        options.say_unsigned(out, signer)
        write_model(model, folder, partial(render_model, templates=templates), signer)
    notes = model.facts.training.notes
    # What was dropped, inferred and guessed is no answer, but nobody should have to open the page for it.
    for note in notes:
        logs.note(note)
    told: dict[str, object] = {"model": str(out), "id": model.id, "report": str(out / "report.html")}
    told |= points_of(model) | attention_of(model, as_json)
    tell(told | ({"notes": notes} if as_json else {}), as_json)
