"""`screen validate`: a model on the labelled rows of another place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from screening.cli import options
from screening.cli.console import facts_of, points_of, print_answer
from screening.cli.model_output import write_with_page
from screening.cli.options import AsJson
from screening.option_groups import Option
from screening.settings import Label, Templates, out_option
from screening.store.publishing import publish


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
        out_option(
            "Directory to write the validation in.",
            metavar="DIR",
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
            command=options.command_of(context),
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
