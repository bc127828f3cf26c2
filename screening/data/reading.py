"""Read a whole cohort, or check it, by a contract or by what is inferred from the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from screening.contract.contract import Contract
from screening.data.cohort import Cohort, joined
from screening.data.inference import Ask, completed, proposed
from screening.data.stream import (
    BATCH_ROWS,
    CohortStream,
    open_source,
    resolve_contract,
)
from screening.errors import CohortError, UsageError
from screening.io.opening import Readable
from screening.monitoring.drift import Gates


class Reading(TypedDict, total=False):
    """How a table is read, as `read_cohort` takes it."""

    contract: Contract | str | Path | None
    label: str | None
    positive: str | Sequence[str] | None
    id: str | None
    group: str | None
    drop: str | Sequence[str]
    neighbourhood: int | None


def read_cohort(
    source: Readable,
    contract: Contract | str | Path | None = None,
    *,
    label: str | None = None,
    positive: str | Sequence[str] | None = None,
    id: str | None = None,
    group: str | None = None,
    drop: str | Sequence[str] = (),
    neighbourhood: int | None = None,
    need_label: bool = False,
    batch_rows: int = BATCH_ROWS,
    propose: bool = False,
    independent: bool = False,
) -> Cohort:
    """Read a whole cohort, every row checked.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
        A CSV, Parquet or Excel file, a directory of them, or a glob, here or at `s3://`, `gs://`, `abfs://`;
        a folder of NIfTI images, a folder a patient, or a BIDS dataset; or a table or query of a database.
    contract : Contract or path, optional
        Without one, or with one that names no features, types are inferred and stated in `notes`.
    label : str, optional
        Column that says who was a case; like all roles it goes before the contract's.
    positive : str or sequence of str, optional
        Label values to find, each a class of its own; "A+B" joins A and B into one.
    id : str, optional
        Column that names a row.
    group : str, optional
        Column whose rows are never on both sides of a fold, such as the patient of a voxel.
    drop : str or sequence of str
        Columns to leave out.
    neighbourhood : int, optional
        Of voxels: side of the cube in which mean, spread and gradient of each channel become features.
    need_label : bool
        A row without label is then a violation.
    batch_rows : int
        Rows read at a time; the cohort does not depend on it.
    propose : bool
        Without a contract guess the roles that are not given, as `screen init` does.
    independent : bool
        Every row is a patient of its own: no column is guessed to be the patient.

    Returns
    -------
    Cohort
        Rows with id, group, label and features, and the notes on how they were read.

    Raises
    ------
    CohortError
        The table breaks the contract; every violation is named.
    UsageError
        There is no such file or table.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import read_cohort
    >>> samples = files("screening.sample_cohorts")
    >>> cohort = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> cohort.n_rows, int(sum(cohort.label == "yes"))
    (683, 75)
    """
    given = resolve_contract(
        contract,
        label=label,
        positive=positive,
        id=id,
        group=group,
        drop=drop,
        neighbourhood=neighbourhood,
    )
    files, given = open_source(source, given)
    if propose and not given.features:
        complete, notes = proposed(files, given, independent=independent)
    else:
        complete, notes = completed(files, given)
    return joined(
        list(
            CohortStream(files, complete, batch_rows, complete.label, need_label, notes)
        )
    )


def labelled_cohort(cohort: Cohort | Readable, **reading: Unpack[Reading]) -> Cohort:
    """Return a cohort as it is, or read a table in which every row has a label.

    UsageError if there is something to say about the reading of a cohort that was
    read already.
    """
    if not isinstance(cohort, Cohort):
        return read_cohort(cohort, need_label=True, **reading)
    if reading:
        raise UsageError(
            f"the cohort was read already; give {', '.join(reading)} to read_cohort"
        )
    return cohort


def check_cohort(
    source: Readable,
    contract: Contract | str | Path | None = None,
    *,
    label: str | None = None,
    gates: Gates | None = None,
    to_score: bool = False,
) -> tuple[list[str], list[str]]:
    """Violations of a table, to train on or, with `to_score`, to score, and notes on what was detected."""
    given = resolve_contract(contract, label=label)
    try:
        files, given = open_source(source, given)
        complete, notes = completed(files, given)
        if not to_score and not complete.label:
            notes = [
                *notes,
                "no column is named as the outcome: to train, set `label`, or give --label",
            ]
        stream = CohortStream(
            files, complete, BATCH_ROWS, label, bool(label), notes, gates, to_score
        )
        stream.check()
    except CohortError as error:
        return error.violations, []
    return [], stream.notes


def starter_contract(
    source: Readable,
    ask: Ask | None = None,
    *,
    capacity: int | None = None,
    **roles: str | Sequence[str] | None,
) -> tuple[Contract, list[str]]:
    """A contract for a table, for a person to review, and notes on what was guessed; `ask` may correct it."""
    files, given = open_source(
        source, resolve_contract(None, None, **roles).with_roles(capacity=capacity)
    )
    contract, notes = proposed(files, given, ask)
    # What cannot be read is said now and not by the next command.
    CohortStream(files, contract).check()
    return contract, [*files.notes, *notes]
