"""`screen explain`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson, Query, Table, Templates, source_of


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory written by `screen score`.")],
    case: Annotated[str, typer.Argument(metavar="ID", help="Id of a row, or of a group: its highest row.")],
    model: Annotated[
        Path | None,
        typer.Option(help="With --cohort: the run's model, to explain any row by all its values."),
    ] = None,
    cohort: Annotated[str | None, typer.Option(help="With --model: the table of the run.")] = None,
    table: Table = None,
    query: Query = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Page to write (HTML).")] = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Say why one case of RUN was flagged."""
    from screening.page.one_case import render_case
    from screening.scoring import explaining
    from screening.storage.loading import load_model
    from screening.storage.publishing import write_whole

    loaded = load_model(model) if model else None
    found = explaining.explain(run, case, loaded, cohort and source_of(cohort, table, query))
    if out is not None:
        write_whole(out, render_case(found["run"], found["case"], templates).encode())
    facts = {"run_id": found["run"]["run_id"], "date": found["run"]["date"]}
    written = {"report": str(out)} if out else {}
    tell((facts | found["case"] if as_json else _lines(found, facts)) | written, as_json)


def _lines(found: dict[str, dict[str, object]], facts: dict[str, object]) -> dict[str, object]:
    from screening.documents.stored import case_in, run_in
    from screening.page.one_case import told

    case = told(run_in(found["run"]), case_in(found["case"]))
    why = [
        " ".join(filter(None, [c.feature, c.value, c.unit, c.outside, _usual(c.usual)]))
        + f": {'raises' if c.raises else 'lowers'} the score, {c.change}"
        for c in case.why
    ]
    named = {term.lower(): fact for term, fact in case.facts}
    return facts | {"id": case.id, "flagged": case.said} | named | {"why": why, "missing": case.missing}


def _usual(bounds: str) -> str:
    return f"(usual {bounds})" if bounds else ""
