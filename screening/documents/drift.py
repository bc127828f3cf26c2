"""How a night's scores lie among those of training, counted so that nights can be put together."""

from __future__ import annotations

from dataclasses import dataclass, fields

from screening.documents.tables import Table, listed, made


@dataclass(frozen=True)
class ScoreCounts:
    """Scores of a night, counted in the cells of the held-out scores of training; no id in it.

    Parameters
    ----------
    unit : {"row", "group"}
        What counts once: a row, or a group by one row (of an image the highest voxel).
    known, counted : tuple of int, shape (n_cells,)
        Of training (at its effective size) and of the night, lowest scores first.
    distance, p : float or None
        Of the night's test; None where there is nothing to compare.
    higher : bool
        Whether the night's scores lie higher on the whole.
    who, cell : tuple of int
        Keyed hashes of some of the night's units, the same for the same patient on every night, and the cell
        of each; empty where no column names them.
    """

    unit: str
    known: tuple[int, ...]
    counted: tuple[int, ...]
    distance: float | None = None
    p: float | None = None
    higher: bool = False
    who: tuple[int, ...] = ()
    cell: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """As JSON holds it."""
        # Not by `asdict`, which copies every count of every night of a history.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(cls, stored: Table | None) -> ScoreCounts | None:
        """Inverse of `to_dict`; None for a night from before scores were counted."""
        if not stored:
            return None
        whole = dict(stored)
        # The ledger keeps hashes of patients apart, where they can be erased.
        for name in ("known", "counted", "who", "cell"):
            whole[name] = tuple(listed(whole.get(name, [])))
        return made(cls, whole)


def without_unit(stored: Table, lot: int | None) -> dict[str, object]:
    """Stored counts without the hash of one patient and its cell; without all hashes where None is given."""
    pairs = zip(*(listed(stored.get(name, [])) for name in ("who", "cell")), strict=True)
    kept = [(who, cell) for who, cell in pairs if lot is not None and who != lot]
    names = {"who": [who for who, _ in kept], "cell": [cell for _, cell in kept]}
    return dict(stored) | {key: value for key, value in names.items() if key in stored}
