"""A memory between the nights: runs, cases, verdicts, threshold changes, and a chained trail over all."""

from screening.ledger.beside import compare_nights
from screening.ledger.book import Ledger, open_ledger
from screening.ledger.champions import promote, record_approval, record_threshold, scored_as
from screening.ledger.history import history
from screening.ledger.night import NightCases
from screening.ledger.nights import Recorded, publish_night, record_night
from screening.ledger.published import Published, published
from screening.ledger.recognising import Known
from screening.ledger.retiring import retire
from screening.ledger.retraining import judged, record_retraining
from screening.ledger.since import since_last
from screening.ledger.status import Due, Pulse, pulses
from screening.ledger.tables import VERDICTS, Unchained
from screening.ledger.verdicts import Verdict, record_verdicts, reviewable

__all__ = [
    "VERDICTS",
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
    "history",
    "judged",
    "open_ledger",
    "promote",
    "publish_night",
    "published",
    "pulses",
    "record_approval",
    "record_night",
    "record_retraining",
    "record_threshold",
    "record_verdicts",
    "retire",
    "reviewable",
    "scored_as",
    "since_last",
]
