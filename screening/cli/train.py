"""`screen train`: a method validated, with its threshold, as a model."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from screening.cli import logs, options
from screening.cli.console import bar, facts_of, print_answer
from screening.cli.model_output import ModelOutput, write_with_page
from screening.cli.processes import prepare_for_training
from screening.settings import Resources, Search, TableOptions, Validation
from screening.store.publishing import publish


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """A recipe and the search of its settings."""

    recipe: options.RecipeName = "auto"
    search: Search


def train_command(
    context: typer.Context,
    source: options.CohortOptions,
    method: MethodOptions,
    table: TableOptions,
    rule: options.RuleOptions,
    validation: Validation,
    resources: Resources,
    output: ModelOutput,
) -> None:
    """Validate a method on COHORT, set a threshold and write a model.

    Each row is scored by cross-validation machines that did not learn from it. These
    scores determine the setting and the operating point (RULE). The machines of the
    folds are the model: a new row's score is the mean of their decisions. The model
    directory contains rows of patients: keep it private.

    If no case or only one is known, use --recipe one_class --max-flag-rate 0.05. This
    recipe needs no labels. It limits the share flagged among rows like those of
    COHORT.
    """
    chosen_by = rule.rule()
    signer = options.signer_from(output.sign)
    prepare_for_training(source.cohort, resources)

    from screening.cluster import open_cluster
    from screening.data.reading import read_cohort
    from screening.model_selection.preparing import refuse_other_model
    from screening.model_selection.train import train
    from screening.recipes.building import load_recipe
    from screening.recipes.encoders import columns_of_points
    from screening.report.page import check_templates
    from screening.store.checkpoints import checkpoints_beside

    out = output.out
    check_templates(output.templates, "model")
    _refuse_model_in_use(out, output.ledger)
    with (
        open_cluster(resources.cluster) as workers,
        publish(out, "model") as folder,
        bar("Training") as progress,
    ):
        # The time left is estimated from here on.
        progress(0, 0)
        recipe = load_recipe(method.recipe)
        others = map(load_recipe, validation.beside or ())
        past = read_cohort(
            source.readable,
            table=replace(table, keep=columns_of_points(recipe, *others)),
            need_label=True,
            label_optional=recipe.machine == "one_class",
            propose=True,
            independent=validation.independent,
        )
        if not output.force:
            refuse_other_model(out, recipe, past)
        if workers is not None:
            workers.check(secret=True)
        waiting = nullcontext() if workers is None else checkpoints_beside(out, "fits")
        with waiting as kept:
            model = train(
                past,
                recipe,
                rule=chosen_by,
                validation=validation,
                search=method.search,
                resources=replace(
                    resources, progress=progress, cluster=workers, kept=kept
                ),
                command=options.command_of(context),
            )
        options.say_unsigned(out, signer)
        write_with_page(model.files, folder, output.templates, signer)
    notes = model.facts.training.notes
    # Log what was dropped, inferred or guessed, so that it is seen without the page.
    for note in notes:
        logs.note(note)
    answer = {"model": str(out), "id": model.id, **facts_of(model, output.as_json)}
    answer["report"] = str(out / "report.html")
    if output.as_json:
        answer["notes"] = notes
    print_answer(answer, output.as_json)


def _refuse_model_in_use(out: Path, ledger: str | None) -> None:
    """Raise UsageError if a model that would be replaced is in use, by its ledger."""
    from screening.ledger.database import NoLedger, open_ledger
    from screening.model_selection.preparing import refuse_model_in_use

    if ledger is None:
        refuse_model_in_use(out)
        return
    try:
        with open_ledger(ledger, read_only=True) as book:
            refuse_model_in_use(out, book)
    except NoLedger:
        # Of a site without a ledger yet nothing is in use.
        refuse_model_in_use(out)
