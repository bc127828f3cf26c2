"""`screen explain`: why a patient is flagged, or not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from screening.cli import options
from screening.cli.console import print_answer
from screening.cli.register import enter_in_register
from screening.cli.users import act_as_owner
from screening.option_groups import Option
from screening.settings import DatabaseOptions, Templates

if TYPE_CHECKING:
    from screening.report.values import Value


@dataclass(frozen=True, kw_only=True)
class TableOfRunOptions:
    """The model and table of a run, to explain a row that was not flagged."""

    model: Annotated[
        Path | None,
        Option(
            "With --cohort: the run's model, to explain any row by all its values.",
            metavar="MODEL",
        ),
    ] = None
    cohort: Annotated[
        str | None, Option("With --model: the run's table.", metavar="COHORT")
    ] = None
    database: DatabaseOptions


def explain_command(
    run: options.RunFolder,
    case: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Id of a row, or of a group (its row with the highest score).",
        ),
    ],
    table: TableOfRunOptions,
    out: options.PageFile = None,
    ledger: options.LedgerMaybe = None,
    templates: Templates = None,
    as_json: options.AsJson = False,
) -> None:
    """Show why one case of RUN was flagged."""
    from screening.report.page import render_case
    from screening.scoring.explaining import explain
    from screening.store.loading import load_model
    from screening.store.publishing import write_whole

    if ledger:
        act_as_owner(ledger)
    loaded = load_model(table.model) if table.model else None
    explained = explain(
        run,
        options.id_from(os.fsencode(case)),
        loaded,
        table.cohort and options.source_of(table.cohort, table.database),
    )
    night = explained["run"]
    row = explained["case"]
    if out is not None:
        page = render_case(night, row, templates).encode()
        patient = row["id"] if row.get("group") is None else row["group"]
        enter_in_register(
            ledger, night.get("ledger"), "case", out, content=page, patient=patient
        )
        write_whole(out, page)
    answer = {"run_id": night["run_id"], "date": night["date"]}
    answer |= row if as_json else _case_in_words(night, row)
    if out:
        answer["report"] = str(out)
    print_answer(answer, as_json)


def _case_in_words(
    night: Mapping[str, object], row: Mapping[str, object]
) -> dict[str, object]:
    """Return a case for a terminal, its values as the page writes them."""
    from screening.report.format import name
    from screening.report.worklist import line_of_one
    from screening.schemas.run import ExplainedCase, RunDocument

    run = RunDocument.from_dict(night)
    case = ExplainedCase.from_dict(row)
    line = line_of_one(run, case)
    facts: dict[str, object] = {name.lower(): fact for name, fact in line.facts}
    return {
        "id": line.id,
        "flagged": line.remarks[0],
        **facts,
        "why": list(map(_value_in_words, line.values)),
        "missing": [name(run.model.title_of(feature)) for feature in case.missing],
    }


def _value_in_words(value: Value) -> str:
    """Return a contributing value, its range and its effect on the score."""
    parts = [value.feature, value.value, value.unit, value.outside]
    if value.range:
        parts.append(f"({value.range_is} {value.range})")
    value_and_range = " ".join(filter(None, parts))
    if not value.change:
        return value_and_range
    effect = "raises" if value.raises else "lowers"
    return f"{value_and_range}: {effect} the score, {value.change}"


# A model's card goes to others as a night does.
