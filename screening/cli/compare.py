"""`screen compare`: methods on the same folds of one or several cohorts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import bar, print_answer
from screening.cli.groups import Without
from screening.cli.options import AsJson
from screening.cli.processes import prepare_for_training
from screening.option_groups import Option
from screening.settings import (
    DatabaseOptions,
    Resources,
    Search,
    TableOptions,
    Templates,
    Validation,
    out_option,
)
from screening.spelling import names_from
from screening.store.publishing import publish


@dataclass(frozen=True, kw_only=True)
class CohortsOptions(DatabaseOptions):
    """Several cohorts, or tables of databases."""

    cohorts: Annotated[
        list[str],
        typer.Argument(
            metavar="COHORT...",
            help="One cohort or several: files, directories, globs.",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class MethodsOptions:
    """The methods of a comparison."""

    recipes: Annotated[
        str,
        Option(
            "Methods; the control is always included. `all` does not include `auto`.",
            metavar="A,B|all",
        ),
    ]
    control: Annotated[
        str | None,
        Option(
            "Method to compare the others with; by default the plain SVM.",
            metavar="RECIPE",
        ),
    ] = None
    search: Annotated[Search, Without("params")]


@dataclass(frozen=True, kw_only=True)
class ComparisonOutput:
    """The comparison to write."""

    out: Annotated[
        Path,
        out_option(
            "Directory to write the comparison in.",
            metavar="DIR",
        ),
    ]
    templates: Templates = None
    as_json: AsJson = False


def compare_command(
    context: typer.Context,
    cohorts: CohortsOptions,
    methods: MethodsOptions,
    table: Annotated[TableOptions, Without("neighbourhood")],
    rule: options.RuleOptions,
    validation: Annotated[Validation, Without("lesions", "contamination", "beside")],
    resources: Annotated[Resources, Without("memory")],
    output: ComparisonOutput,
) -> None:
    """Compare methods on the same folds, including their thresholds.

    Parameters and threshold (by RULE) are chosen on training rows only. A stopped
    comparison resumes from its finished folds.
    """
    chosen_by = rule.rule()
    prepare_for_training(cohorts.cohorts[0], resources)

    from screening.data.reading import read_cohort
    from screening.model_selection.compare import (
        compare,
        expand_all,
        name_sources,
        write_comparison,
    )
    from screening.recipes.building import load_recipe
    from screening.recipes.encoders import columns_of_points
    from screening.report.comparison import best_methods
    from screening.report.page import check_templates
    from screening.store.checkpoints import checkpoints_beside

    check_templates(output.templates, "comparison")
    with (
        publish(output.out, "comparison") as folder,
        checkpoints_beside(output.out, "fits") as kept,
        bar("Comparing") as progress,
    ):
        places = [options.source_of(place, cohorts) for place in cohorts.cohorts]
        sources = name_sources(places)
        names = names_from(methods.recipes)
        named = [load_recipe(name) for name in names if name != "all"]
        table = replace(table, keep=columns_of_points(*named))
        past = {
            name: read_cohort(source, table=table, need_label=True)
            for name, source in sources.items()
        }
        compared = compare(
            past,
            expand_all(names, past),
            rule=chosen_by,
            validation=validation,
            search=methods.search,
            control=methods.control,
            resources=replace(resources, progress=progress, kept=kept),
            command=options.command_of(context),
        )
        write_comparison(compared, folder, output.templates)
    results = compared.summary() if output.as_json else compared.table()
    best = best_methods(compared.facts)
    print_answer(
        {"comparison": str(output.out), **results, "best": best}, output.as_json
    )
