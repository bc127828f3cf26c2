"""Commands that make and judge models.

`recipes`, `train`, `compare`, `validate` and `retrain`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli import logs, options
from screening.cli.console import bar, facts_of, points_of, print_answer
from screening.cli.groups import Without
from screening.cli.options import AsJson, LedgerHere
from screening.cli.processes import prepare_for_training
from screening.cli.users import act_as_owner
from screening.errors import UsageError
from screening.option_groups import Option
from screening.settings import (
    DatabaseOptions,
    Label,
    Resources,
    Search,
    TableOptions,
    Templates,
    Validation,
)
from screening.spelling import (
    names_from,
)
from screening.store.publishing import publish

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from screening.recipes.recipe import Recipe
    from screening.store.model_files import ModelFiles


# Parameters that the recorded command leaves out, so that the same training gives the
# same bytes: they have no effect on the model or, as the nights that a retraining
# learns from, are recorded by their digests.
NOT_RECORDED = frozenset(
    (
        "out",
        "templates",
        "jobs",
        "as_json",
        "force",
        "sign",
        "cluster",
        "ledger",
        "nights",
        "accept_delivery",
    )
)


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """A recipe and the search of its settings."""

    recipe: options.RecipeName = "auto"
    search: Search


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """The model directory to write."""

    out: Annotated[
        Path,
        Option(
            "Model directory to write.",
            metavar="DIR",
            flags=("--out", "-o"),
            panel="Output",
        ),
    ]
    force: Annotated[
        bool,
        Option(
            "Replace an existing model even if its recipe, cohort or label differs.",
            panel="Output",
        ),
    ] = False
    ledger: options.LedgerMaybe = None
    sign: options.Sign = None
    templates: Templates = None
    as_json: AsJson = False


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
                command=options.command_of(context, NOT_RECORDED),
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


def write_with_page(
    files: ModelFiles,
    folder: Path,
    templates: Path | None,
    signer: Ed25519PrivateKey | None,
) -> None:
    """Write a model's files with its page."""
    from screening.report import render_model
    from screening.store.model_files import write_model_files

    write_model_files(files, folder, partial(render_model, templates=templates), signer)


def recipes_command(
    name: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Show this recipe in full.")
    ] = None,
    toml: Annotated[bool, Option("Print the recipe's file, for copying.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the methods, or show one: paper, parameters, search."""
    from screening.recipes.building import list_recipes, load_recipe

    shipped = [recipe for recipe in list_recipes() if name in (None, recipe.name)]
    listed = shipped or [load_recipe(str(name))]
    if toml:
        if name is None:
            raise UsageError("--toml prints one recipe; give its name")
        print(listed[0].text.strip())
        return
    if as_json:
        answer: dict[str, object] = {"recipes": list(map(_recipe_in_full, listed))}
    elif name:
        answer = _recipe_in_full(listed[0])
    else:
        answer = {recipe.name: f"{recipe.title} ({recipe.paper})" for recipe in listed}
    print_answer(answer, as_json)


def _recipe_in_full(recipe: Recipe) -> dict[str, object]:
    """Return a recipe's paper, parameters with defaults, and search."""
    entry = recipe.model_dump(
        include={"name", "title", "paper", "machine", "about", "parameters"}
    )
    return entry | {"search": recipe.search.grid, "criterion": recipe.search.criterion}


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
        Option(
            "Directory to write the comparison in.",
            metavar="DIR",
            flags=("--out", "-o"),
            panel="Output",
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
            command=options.command_of(context, NOT_RECORDED),
        )
        write_comparison(compared, folder, output.templates)
    results = compared.summary() if output.as_json else compared.table()
    best = best_methods(compared.facts)
    print_answer(
        {"comparison": str(output.out), **results, "best": best}, output.as_json
    )


@dataclass(frozen=True)
class TruthOptions:
    """Options for the true labels in another place, and the share of cases there."""

    label: Label = None
    positive: Annotated[
        str | None,
        Option(
            "Label value of cases (or A+B), if it differs in COHORT.", metavar="A+B"
        ),
    ] = None
    prevalence: Annotated[
        float | None,
        Option(
            "Share of cases in the other place, if not as in COHORT.",
            metavar="SHARE",
            min=0,
            max=1,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ValidationOutput:
    """The validation to write, or the model of another place."""

    out: Annotated[
        Path,
        Option(
            "Directory to write the validation in.",
            metavar="DIR",
            flags=("--out", "-o"),
            panel="Output",
        ),
    ]
    recalibrate: Annotated[
        bool,
        Option(
            "Write a model for the other place: the same ranking, with "
            "threshold and chances fitted there."
        ),
    ] = False
    templates: Templates = None
    as_json: AsJson = False


def validate_command(
    context: typer.Context,
    model: options.ModelFolder,
    source: options.CohortOptions,
    truth: TruthOptions,
    output: ValidationOutput,
) -> None:
    """Validate MODEL on labelled patients from another place or time.

    Thresholds and chances are unchanged. The page compares observed figures with the
    validation estimates, and shows the threshold that MODEL's rule would choose here.
    Rows that MODEL was trained on are refused.

    With --recalibrate, OUT is a draft model for the new place. It ranks as MODEL does.
    Its chances are fitted to COHORT as far as the cases allow, and MODEL's rule chooses
    its threshold there.
    """
    from screening.model_selection.external import validate, write_validation
    from screening.report.page import check_templates
    from screening.store.loading import load_model

    if output.recalibrate:
        _recalibrate(model, source, truth, output)
        return
    check_templates(output.templates, "validation")
    with publish(output.out, "validation") as folder:
        validation = validate(
            load_model(model),
            source.readable,
            **vars(truth),
            command=options.command_of(context, NOT_RECORDED),
        )
        write_validation(validation, folder, output.templates)
    document = validation.to_dict()
    answer = {
        "validation": str(output.out),
        "report": str(output.out / "report.html"),
        "model": validation.model.id,
        "classes": document["classes"] if output.as_json else validation.lines(),
    }
    if output.as_json:
        answer["operating_points"] = points_of(document)
    answer["rows"] = validation.figures.n_rows
    answer["attention"] = document["attention"]
    print_answer(answer, output.as_json)


def _recalibrate(
    model: Path,
    source: options.CohortOptions,
    truth: TruthOptions,
    output: ValidationOutput,
) -> None:
    """Write the model of another place, and print its operating point."""
    from screening.model_selection.recalibrating import recalibrate
    from screening.report.page import check_templates
    from screening.store.loading import load_model

    check_templates(output.templates, "model")
    with publish(output.out, "model") as folder:
        after = recalibrate(load_model(model), source.readable, **vars(truth))
        write_with_page(after.files, folder, output.templates, None)
    answer = {
        "model": str(output.out),
        "id": after.id,
        **facts_of(after, output.as_json),
    }
    answer["report"] = str(output.out / "report.html")
    print_answer(answer, output.as_json)


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
                    command=options.command_of(context, NOT_RECORDED),
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
