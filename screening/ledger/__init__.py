"""A memory between the nights: runs, cases, verdicts, threshold changes, and a chained trail over all."""

from screening.ledger.beside import compare_nights
from screening.ledger.database import VERDICTS, Ledger, Unchained, open_ledger
from screening.ledger.history import history
from screening.ledger.model_registry import promote, record_revision, retire, scored_as
from screening.ledger.nights import (
    Known,
    NightCases,
    Published,
    Recorded,
    entering,
    published,
    record_night,
    reserve,
    series_by,
)
from screening.ledger.register import Artefact, hand_out
from screening.ledger.retraining import judged, record_retraining
from screening.ledger.status import Due, Pulse, pulses
from screening.ledger.verdicts import Verdict, record_verdicts, reviewable
from screening.ledger.verifying import rebuild

__all__ = [
    "VERDICTS",
    "Artefact",
    "Due",
    "Known",
    "Ledger",
    "NightCases",
    "Published",
    "Pulse",
    "Recorded",
    "Unchained",
    "Verdict",
    "compare_nights",
    "entering",
    "hand_out",
    "history",
    "judged",
    "open_ledger",
    "promote",
    "published",
    "pulses",
    "rebuild",
    "record_night",
    "record_retraining",
    "record_revision",
    "record_verdicts",
    "reserve",
    "retire",
    "reviewable",
    "scored_as",
    "series_by",
]
