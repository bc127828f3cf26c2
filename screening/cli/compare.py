"""`screen compare`"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import bar, tell
from screening.cli.options import AsJson, ContractFile, Templates
from screening.cli.train import WHERE_AND_HOW


def compare(
    context: typer.Context,
    cohorts: Annotated[
        list[str],
        typer.Argument(metavar="COHORT...", help="One cohort or several: files, directories, globs."),
    ],
    recipes: Annotated[
        str,
        typer.Option(
            metavar="A,B|all", help="Methods; the control is always among them. `auto` is not in `all`."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to write the comparison in.")],
    table: options.Table = None,
    query: options.Query = None,
    label: options.Label = None,
    positive: options.Positive = None,
    id: options.Id = None,
    group: options.Group = None,
    drop: options.Drop = None,
    contract: ContractFile = None,
    control: Annotated[
        str | None, typer.Option(help="Method the others are compared with; the plain SVM if absent.")
    ] = None,
    min_sensitivity: options.MinSensitivity = None,
    max_flag_rate: options.MaxFlagRate = None,
    miss_cost: options.MissCost = None,
    g_mean: options.GMean = False,
    threshold: options.Threshold = None,
    confidence: options.Confidence = None,
    prevalence: options.Prevalence = None,
    search: options.Search = None,
    folds: options.Folds = 5,
    repeats: options.Repeats = None,
    max_rows: Annotated[int | None, typer.Option(help="Use a stated sub-sample.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same figures.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for one a core.")] = -1,
    cluster: options.Cluster = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Judge methods on the same folds, thresholds included.

    Parameters and threshold (by RULE) are chosen on training rows alone. A comparison that was
    stopped goes on from its finished folds when it is asked for again.
    """
    rule = options.rule_from(context.params)

    from screening.cohort.reading import read_cohort
    from screening.comparison import compare as comparison
    from screening.comparison.result import write_comparison
    from screening.page.site_templates import check_templates
    from screening.storage.publishing import publish

    check_templates(templates, "comparison")
    with publish(out, "comparison") as folder:
        read = {
            name: read_cohort(
                source,
                contract,
                label=label,
                positive=positive,
                id=id,
                group=group,
                drop=options.names_from(drop),
                need_label=True,
            )
            for name, source in comparison.named(
                [options.source_of(cohort, table, query) for cohort in cohorts]
            ).items()
        }
        found = comparison.compare(
            read,
            comparison.comparable(options.names_from(recipes), read),
            rule=rule,
            folds=folds,
            repeats=repeats,
            search=search,
            seed=seed,
            jobs=jobs,
            max_rows=max_rows,
            control=control,
            kept=comparison.place_of_folds(out),
            cluster=cluster,
            progress=bar("Comparing"),
            command=options.command_of(context, WHERE_AND_HOW),
        )
        write_comparison(found, folder, templates)
    shutil.rmtree(comparison.place_of_folds(out), ignore_errors=True)
    tell({"comparison": str(out), **(found.summary() if as_json else found.table())}, as_json)
