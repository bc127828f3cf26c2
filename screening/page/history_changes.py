"""What was changed between the nights: thresholds, models, and series that were closed."""

from __future__ import annotations

from screening.documents.history import HistoryDocument, Promotion, Retirement, Retraining, ThresholdChange
from screening.page import format as shown

Row = tuple[Promotion | Retraining | Retirement, str, str, str]


def model_rows(found: HistoryDocument) -> list[dict[str, str]]:
    """What became of models and series, in order: promoted, trained again, closed."""
    rows: list[Row] = [
        *(
            (one, "promoted", _models_of(one.model_before, one.model_after), one.reason)
            for one in found.promotions
        ),
        *(
            (one, "trained again", _models_of(one.champion, one.model), _learned(one))
            for one in found.retrainings
        ),
        *((one, "retired", "", one.reason) for one in found.retirements),
    ]
    return [
        {
            "recorded": _when(one.recorded),
            "entry": shown.count(one.entry),
            "series": shown.name(one.series),
            "what": what,
            "models": models,
            "reason": shown.text(reason, 300),
        }
        for one, what, models, reason in sorted(rows, key=lambda row: row[0].entry)
    ]


def _models_of(before: str | None, after: str) -> str:
    return f"{(before or 'none')[:12]} → {after[:12]}"


def _learned(one: Retraining) -> str:
    return f"on {shown.count(one.trained_on.taken)} judged rows too; in force once promoted"


def _when(recorded: str) -> str:
    return shown.name(recorded).replace("T", " ").replace("+00:00", " UTC")


def threshold_row(change: ThresholdChange) -> dict[str, object]:
    """A change of threshold."""
    return {
        "recorded": _when(change.recorded),
        "entry": shown.count(change.entry),
        "reason": shown.text(change.reason, 300),
        "models": _models_of(change.model_before, change.model_after),
        "classes": [
            f"{shown.name(one.label)}: {shown.number(one.threshold_before)} → "
            f"{shown.number(one.threshold_after)} ({shown.rule(one.rule_after)})"
            for one in change.classes
        ],
    }
