"""JSON Schemas of documents, and of what commands print with `--json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, create_model

from screening.errors import UsageError
from screening.schemas.base import (
    Document,
    PopulationFigures,
    Reason,
    Setting,
)
from screening.schemas.comparison import (
    ClassElsewhere,
    ComparisonDocument,
    ExternalValidation,
    Ranks,
)
from screening.schemas.figures import Observed
from screening.schemas.history import (
    AsOf,
    HistoryDocument,
    HookFacts,
    NightsBeside,
    OutcomeFigures,
    OutcomesRead,
    OverviewDocument,
    SeriesStatus,
    VerdictsRead,
)
from screening.schemas.model import Approval, ModelDocument, TrainedOn
from screening.schemas.run import Counts, ExplainedCase, RunDocument, TakenFrom
from screening.schemas.validation import Confusion, PerClass

DOCUMENTS: dict[str, type[Document]] = {
    "model": ModelDocument,
    "run": RunDocument,
    "comparison": ComparisonDocument,
    "validation": ExternalValidation,
    "history": HistoryDocument,
    "overview": OverviewDocument,
}

Lines = Sequence[str]
Reasons = Sequence[Reason]


class Point(PopulationFigures):
    """An operating point in short."""

    label: Annotated[str, Field(alias="class")]
    threshold: float


class RecipeAnswer(Document):
    """A method; `search` has the values that its search tries, by parameter."""

    name: str
    title: str
    paper: str
    machine: str
    about: str
    parameters: Setting
    search: Mapping[str, Sequence[Any]]
    criterion: str


class HandedOut(Document):
    """A file that shows a run, in its present state."""

    what: str
    series: str | None
    night: str | None
    place: str
    state: str
    mode: str


def _of(
    command: str,
    asked: Mapping[str, Any] | None = None,
    base: type[Document] = Document,
    **always: Any,
) -> type[Document]:
    """Return the type of an answer; keys of `asked` are there in some answers only."""
    keys: dict[str, Any] = {name: (kind, ...) for name, kind in always.items()}
    keys |= {name: (kind | None, None) for name, kind in (asked or {}).items()}
    return create_model(f"screen {command}", __base__=base, **keys)


REVISED: dict[str, Any] = {"model": str, "id": str, "attention": Reasons}
POINTS: dict[str, Any] = {"operating_points": Sequence[Point]}
PLACES = ("runs", "comparisons", "models", "pages", "removed", "pieces", "elsewhere")
ERASED: dict[str, Any] = dict.fromkeys((*PLACES, "left"), Lines) | {
    "ledger": Mapping[str, int],
    "retrain": Mapping[str, str],
}
HIDDEN: dict[str, Any] = {
    "smallest_group": int,
    "listed": int,
    "left_out": int,
    "values_withheld": float,
}

ANSWERS: dict[str, type[Document]] = {
    "init": _of(
        "init",
        # With --names `names` alone is there, without it the others.
        {
            "contract": str,
            "features": int,
            "outcome": str,
            "notes": Lines,
            "dropped": Lines,
            "names": Lines,
        },
    ),
    "check": _of(
        "check",
        # With --as-of `nights` alone is there, without it the others.
        {
            "violations": Lines,
            "notes": Lines,
            "attention": Reasons,
            "nights": Sequence[AsOf],
        },
    ),
    "features": _of(
        "features",
        # With --suggest `codes` and `spec` alone are there.
        {
            "table": str,
            "rows": int,
            "columns": int,
            "counts": Mapping[str, int],
            "faults": Lines,
            "undated": Lines,
            "contract": str,
            "page": str,
            "codes": Sequence[Mapping[str, Any]],
            "spec": str,
        },
    ),
    "demo": _of("demo", reports=Lines),
    "recipes": _of("recipes", recipes=Sequence[RecipeAnswer]),
    "train": _of("train", **REVISED, **POINTS, report=str, notes=Lines),
    "compare": _of(
        "compare",
        comparison=str,
        control=str,
        ranks=Ranks | None,
        cohorts=Mapping[str, Mapping[str, Mapping[str, float | None]]],
        best=Mapping[str, str],
    ),
    "validate": _of(
        "validate",
        # A recalibrated model has `id`, any other the three keys before it.
        {
            "validation": str,
            "rows": int,
            "classes": Mapping[str, ClassElsewhere],
            "id": str,
        },
        report=str,
        model=str,
        **POINTS,
        attention=Reasons,
    ),
    "outcomes": _of(
        "outcomes",
        {
            "new": int,
            "corrected": int,
            "withdrawn": int,
            "unknown": int,
            "other": int,
            "figures": OutcomeFigures,
            "tables": Sequence[OutcomesRead],
        },
    ),
    "threshold": _of("threshold", **REVISED, **POINTS),
    "approve": _of("approve", **REVISED, approval=Approval),
    "retrain": _of(
        "retrain",
        **REVISED,
        **POINTS,
        report=str,
        champion=str,
        verdicts=TrainedOn,
        entry=int,
    ),
    "score": _of(
        "score",
        {"beside": NightsBeside, "published": str},
        run_id=str,
        date=str,
        counts=Counts,
        refused=Mapping[str, int],
        attention=Reasons,
        model=str,
        out=str,
        report=str | None,
        evaluation=Mapping[str, Observed | Confusion | Sequence[PerClass]] | None,
        taken_at=str | None,
        taken_from=TakenFrom | None,
        time_zone=str | None,
        is_zone_of_host=bool,
    ),
    # What hooks read on stdin is this answer before they ran, so without `hooks`.
    "run": _of("run", {"hooks": Sequence[HookFacts]}, OverviewDocument, overview=str),
    "explain": _of("explain", {"report": str}, ExplainedCase, run_id=str, date=str),
    "export": _of(
        "export", {"run_id": str, "rows": int, "erased": int, "model": str}, out=str
    ),
    "report": _of("report", {"attention": Reasons, **HIDDEN}, report=str),
    "review": _of(
        "review",
        {
            "run_id": str,
            "night": str,
            "verdicts": int,
            "new": int,
            "changed": int,
            "unchanged": int,
            "older": int,
            "disputed": int,
            "superseded": int,
            "files": Sequence[VerdictsRead],
        },
    ),
    "history": _of("history", {"beside": NightsBeside}, HistoryDocument),
    "status": _of(
        "status",
        {"artefacts": Sequence[HandedOut]},
        fine=bool,
        series=Sequence[SeriesStatus],
    ),
    # A revision of the champion has no nights in shadow.
    "promote": _of(
        "promote",
        {"beside": NightsBeside},
        series=str,
        champion=str,
        entry=int,
        next=str,
    ),
    "retire": _of("retire", retired=str, entry=int),
    "ledger": _of(
        "ledger",
        {
            "entries": int,
            "head": str,
            "accepted": int,
            "moved": int,
            "gone": int,
            "site": str,
            "backup": str,
            "kept": str,
            "merges": Mapping[str, int],
        },
    ),
    "forget": _of("forget", **ERASED),
    "purge": _of("purge", **ERASED, before=str),
    "error": _of("error", error=_of("of usage", kind=str, message=str, exit_code=int)),
}
"""What each command prints with `--json`; "error": what any of them does that ends with
exit code 2."""


def schema_of(name: str, printed: bool = False) -> dict[str, object]:
    """Return the JSON Schema of a document, or of an answer with `--json`.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    types = ANSWERS if printed else DOCUMENTS
    if name not in types:
        kind = "command" if printed else "document"
        raise UsageError(
            f"{kind} {name!r} does not exist; choose one of {', '.join(types)}"
        )
    # Keys that an answer has only where they were asked for are not required of it.
    if printed:
        return types[name].model_json_schema(mode="validation")
    return types[name].model_json_schema(mode="serialization")
