"""`screen report`"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import sentences, tell
from screening.cli.options import AsJson, Templates
from screening.errors import UsageError


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model, run or comparison directory.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Page to write; DIR/report.html if absent.")
    ] = None,
    de_identify: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="With --out: a run's page for teaching, in which nobody stands out; names by this secret.",
        ),
    ] = None,
    templates: Templates = None,
    as_json: AsJson = False,
) -> None:
    """Draw the report of a model, run or comparison directory again."""
    from screening.documents.stored import model_in, run_in
    from screening.page import render_model, render_run
    from screening.page.comparison import render_comparison
    from screening.storage.publishing import write_whole
    from screening.storage.sealing import as_stored, read_document

    draws = {"run": render_run, "comparison": render_comparison, "model": render_model}
    kind = next((each for each in draws if (directory / f"{each}.json").exists()), "model")
    target = out or directory / "report.html"
    document = read_document(directory, kind)
    risk: dict[str, object] = {}
    known = document.get("ledger")
    if kind == "run" and isinstance(known, dict) and known.get("shadow"):
        raise UsageError(
            f"{directory} was scored in shadow: it has no page; `screen history --beside` compares"
        )
    if de_identify is not None:
        if kind != "run":
            raise UsageError(f"--de-identify is for the page of a run; that of a {kind} names no patient")
        if target.resolve() == (directory / "report.html").resolve():
            raise UsageError("--de-identify makes a copy; give --out, another file than the run's own page")
        document, risk = _copy(directory, document, de_identify)
    with as_stored(directory / f"{kind}.json"):
        page = draws[kind](document, templates).encode()
        told: dict[str, object] = {"report": str(target)}
        if kind != "comparison":
            found = run_in(document) if kind == "run" else model_in(document)
            reasons = [each.to_dict() for each in found.attention]
            told["attention"] = reasons if as_json else sentences(reasons)
    write_whole(target, page)
    tell(told | risk, as_json)


def _copy(
    directory: Path, document: Mapping[str, object], keyfile: Path
) -> tuple[dict[str, object], dict[str, object]]:
    """The document of a copy, and what is told of how well it hides."""
    from screening.deidentify import deidentified, site_key
    from screening.documents.shape import plain
    from screening.documents.stored import run_in
    from screening.storage.sealing import as_stored

    key = site_key(keyfile)
    with as_stored(directory / "run.json"):
        copy = deidentified(run_in(document), key)
    told = {name: value for name, value in vars(copy).items() if name != "run"}
    return plain(copy.run), told
