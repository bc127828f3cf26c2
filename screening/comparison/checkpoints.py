"""Finished folds of a comparison that is still running, so that a killed one goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from screening.errors import ModelError, UsageError
from screening.storage import finished
from screening.storage.publishing import write_whole
from screening.validation.outcome import Outcome

_SETTINGS = "settings.json"


class Checkpoints:
    """A private folder (0700) with one file a finished fold.

    Parameters
    ----------
    folder : Path
        Made if absent.
    settings : dict
        All that the kept numbers depend on but the methods themselves; plain JSON values.

    Raises
    ------
    UsageError
        The folder keeps folds of a comparison with other settings.
    """

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, wanted = folder / _SETTINGS, json.loads(json.dumps(settings, sort_keys=True))
        if place.exists():
            try:
                kept = json.loads(place.read_bytes())
            except ValueError:
                kept = {}
            differing = sorted(key for key in {*kept, *wanted} if kept.get(key) != wanted.get(key))
            if differing:
                raise UsageError(
                    f"an unfinished comparison in {folder} has another {', '.join(differing)}; "
                    "ask for the same to go on with it, or delete that folder to start anew"
                )
        write_whole(place, json.dumps(wanted, sort_keys=True).encode())

    def place(self, key: str) -> Path:
        """The file of an outcome."""
        return self.folder / f"{key}.npz"

    def take(self, key: str) -> Outcome | None:
        """The outcome kept under `key`, or None where there is none that can be read."""
        arrays = finished.take(self.place(key))
        try:
            return None if arrays is None else Outcome.from_arrays(arrays)
        except ModelError:
            return None

    def keep(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome; the file appears whole or not at all."""
        finished.keep(self.place(key), outcome.arrays())
