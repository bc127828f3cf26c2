"""From stored JSON of any version to the types of this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from screening.documents import reasons_in
from screening.documents.attention import attention_of
from screening.documents.case import ExplainedCase
from screening.documents.comparison import ComparisonDocument
from screening.documents.history import HistoryDocument
from screening.documents.model import ModelDocument
from screening.documents.run import RunDocument
from screening.documents.shape import read
from screening.documents.upgrading import CHANCES, model_of_any_version, run_of_any_version
from screening.errors import ModelError

# What sealing and the clock add once the page is drawn.
UNSEALED = {"format": 0, "arrays_sha256": "", "validation_sha256": "", "sha256": ""}


def model_in(stored: Mapping[str, Any]) -> ModelDocument:
    """The model of a `model.json` of any version, or of one that is not sealed yet."""
    decided = {"attention": attention_of(stored)}
    with _missing_parts_named("model.json"):
        upgraded = model_of_any_version(UNSEALED | dict(stored) | decided)
    return read(ModelDocument, upgraded, "model.json")


def run_in(stored: Mapping[str, Any]) -> RunDocument:
    """The run of a `run.json` of any version, or of one that is being made."""
    decided = {"attention": attention_of(stored)}
    with _missing_parts_named("run.json"):
        upgraded = run_of_any_version(dict(stored) | decided)
    return read(RunDocument, upgraded, "run.json")


def comparison_in(stored: Mapping[str, Any]) -> ComparisonDocument:
    """The comparison of a `comparison.json`, or of one that is being made."""
    return read(ComparisonDocument, {"format": 0} | dict(stored), "comparison.json")


def history_in(told: Mapping[str, Any]) -> HistoryDocument:
    """What `screening.ledger.history` tells; reasons of early nights are bare words."""
    runs = [run | {"attention": reasons_in(run["attention"])} for run in told["runs"]]
    return read(HistoryDocument, dict(told) | {"runs": runs}, "the history")


def case_in(stored: Mapping[str, Any]) -> ExplainedCase:
    """One row as `screen explain` tells it."""
    return read(ExplainedCase, dict.fromkeys(CHANCES) | dict(stored), "run.json")


@contextmanager
def _missing_parts_named(name: str) -> Iterator[None]:
    try:
        yield
    except KeyError as key:
        raise ModelError(f"{name} is not as this version writes it: {key.args[0]}: Field required") from None
