"""A memory between the nights: runs, cases, verdicts, threshold changes, and a chained trail over all."""

from screening.ledger.beside import compare_nights
from screening.ledger.database import VERDICTS, Ledger, Unchained, open_ledger
from screening.ledger.excuses import Excuses, acknowledge, excused, give_up
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
from screening.ledger.past_nights import PastNights, past_nights
from screening.ledger.register import Artefact, hand_out
from screening.ledger.retraining import judged, record_retraining
from screening.ledger.status import Due, Pulse, pulses
from screening.ledger.verdicts import Verdict, record_verdicts, reviewable
from screening.ledger.verifying import rebuild

__all__ = [
    "VERDICTS",
    "Artefact",
    "Due",
    "Excuses",
    "Known",
    "Ledger",
    "NightCases",
    "PastNights",
    "Published",
    "Pulse",
    "Recorded",
    "Unchained",
    "Verdict",
    "acknowledge",
    "compare_nights",
    "entering",
    "excused",
    "give_up",
    "hand_out",
    "history",
    "judged",
    "open_ledger",
    "past_nights",
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
