"""`screen report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exits, tell
from .options import AsJson


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Model, run or comparison directory.")],
    as_json: AsJson = False,
) -> None:
    """Draw the report of a model, run or comparison directory again."""
    from ..publishing import write_whole
    from ..report import render_comparison, render_model, render_run
    from ..store import read_document

    with exits():
        draws = {"run": render_run, "comparison": render_comparison, "model": render_model}
        kind = next((each for each in draws if (directory / f"{each}.json").exists()), "model")
        draw = draws[kind]
        write_whole(directory / "report.html", draw(read_document(directory, kind)).encode())
    tell({"report": str(directory / "report.html")}, as_json)
