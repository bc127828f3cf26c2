"""A memory between the nights: runs, cases, verdicts, threshold changes, and a chained trail over all."""

from .book import Ledger, open_ledger
from .history import history
from .nights import Known, NightCases, Recorded, publish_night, record_night
from .status import Pulse, pulse
from .tables import VERDICTS, Unchained
from .verdicts import Verdict, record_threshold, record_verdicts, reviewable

__all__ = [
    "VERDICTS",
    "Known",
    "Ledger",
    "NightCases",
    "Pulse",
    "Recorded",
    "Unchained",
    "Verdict",
    "history",
    "open_ledger",
    "publish_night",
    "pulse",
    "record_night",
    "record_threshold",
    "record_verdicts",
    "reviewable",
]
