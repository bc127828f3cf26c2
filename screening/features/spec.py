"""The spec of features in TOML: who is in, what is counted, from which sources."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
)

from screening.clock.names import check_zone
from screening.errors import UsageError

Zone = Annotated[str, AfterValidator(check_zone)]


def _from_folder(path: str, info: ValidationInfo) -> str:
    """Return a path or glob relative to the folder of the spec; a URL as it is."""
    folder: Path = info.context or Path()
    if "://" in path:
        return path
    return str(folder / Path(path).expanduser())


Place = Annotated[str, Field(min_length=1), AfterValidator(_from_folder)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Table):
    """Where events are read from: a table `[[source]]`.

    Parameters
    ----------
    format : {"long", "meds", "omop", "fhir"}
    path : str
        A file, a glob or a directory, relative to the spec; for OMOP also the URL of a
        database.
    columns : dict
        Of a long table: names of its columns by those of `EVENT_COLUMNS`.
    codes : dict
        The source's codes for `RESERVED_CODES`; `X*` is every code that begins with X.
    zone : str, optional
        Time zone of times that state none; that of the spec if absent.
    queries : dict
        Of OMOP in a database: a file of SQL by the name of the table that it gives.
    """

    format: Literal["long", "meds", "omop", "fhir"]
    path: Place
    columns: dict[str, str] = {}
    codes: dict[str, str | list[str]] = {}
    zone: Zone | None = None
    queries: dict[str, Place] = {}

    def files(self, endings: Sequence[str]) -> list[str]:
        """Return the files of the source, sorted by name.

        Parameters
        ----------
        endings : sequence of str
            Endings of the files that count in a directory, such as ".parquet".

        Raises
        ------
        UsageError
            There is no such file.
        """
        path = Path(self.path)
        if path.is_dir():
            found = [str(file) for file in path.rglob("*") if file.is_file()]
        else:
            found = glob(self.path, recursive=True)
        names = sorted(name for name in found if name.endswith(tuple(endings)))
        if not names:
            raise UsageError(
                f"source {self.path}: there is no file {' or '.join(endings)}; "
                "correct `path`"
            )
        return names
