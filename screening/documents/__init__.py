"""What crosses a room's door: frozen types of what the tool writes and reads back."""

from screening.documents.drift import ScoreCounts
from screening.documents.reason import Reason, reasons_in

__all__ = ["Reason", "ScoreCounts", "reasons_in"]
