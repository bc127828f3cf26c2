"""`screen score`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import bar, exits, tell
from .options import AsJson, Source


def score(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model directory written by `screen train`.")
    ],
    cohort: Source,
    out: Annotated[Path, typer.Option(help="Run directory to write.")],
    label: Annotated[
        str | None, typer.Option(help="Column of true labels, to evaluate; never written.")
    ] = None,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Night of the run; today if absent.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score every row of COHORT at MODEL's operating point."""
    from .. import scoring
    from ..store import load_model

    with exits():
        run = scoring.score(load_model(model), cohort, out, label=label, date=date, progress=bar("Scoring"))
    tell(run.summary(), as_json)
