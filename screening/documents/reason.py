"""One reason to look twice: what page, `run.json`, `--json`, exit code, ledger and `status` all read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from screening.documents.tables import Table, made


@dataclass(frozen=True)
class Reason:
    """Why a model or a night deserves attention.

    Parameters
    ----------
    code : str
        What was found, a short word with underscores that never changes: "unit_changed", "capacity".
    words : str
        One sentence for a reader, without a patient's value or id.
    column : str, optional
        The column it is about.
    figure, threshold : float, optional
        What was measured, and the bound it crossed.
    remedy : str, optional
        What to do, one sentence.
    """

    code: str
    words: str
    column: str | None = None
    figure: float | None = None
    threshold: float | None = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, object]:
        """As JSON holds it."""
        return asdict(self)


def reasons_in(stored: Iterable[Table]) -> list[Reason]:
    """The reasons of a document."""
    return [made(Reason, each) for each in stored]
