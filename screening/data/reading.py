"""Read or check a whole cohort, by a contract or by inference from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from screening.contract.contract import Contract, Draft
from screening.data.cohort import NO_LABEL, Cohort, concatenate
from screening.data.column_names import may_be_later
from screening.data.completing import (
    add_plausible,
    draft_contract,
    draft_of_table,
    open_source,
    ranges_of_numbers,
)
from screening.data.inference import (
    Ask,
    drop_guessed_keys,
    infer_contract,
    infer_features,
)
from screening.data.labels import BLANK_IS, label_of_blank, same_label
from screening.data.stream import (
    BATCH_ROWS,
    CohortStream,
    ReadOptions,
)
from screening.errors import CohortError, UsageError
from screening.io.opening import Readable
from screening.option_groups import groups_from
from screening.settings import TableOptions


def read_cohort(
    source: Readable,
    contract: Contract | str | Path | None = None,
    *,
    table: TableOptions | None = None,
    need_label: bool = False,
    label_optional: bool = False,
    batch_rows: int = BATCH_ROWS,
    propose: bool = False,
    independent: bool = False,
    **roles: Any,
) -> Cohort:
    """Read a whole cohort, every row checked.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
        A CSV, Parquet or Excel file, a directory of them, or a glob, here or at
        `s3://`, `gs://`, `abfs://`; a folder of NIfTI images, a folder a patient, or a
        BIDS dataset; or a table or query of a database.
    contract : Contract or path, optional
        By default the one beside the file that `screen features` wrote with it. Without
        one, or with one that names no features, types are inferred and stated in
        `notes`.
    table : TableOptions, optional
        Roles of columns, which go before the contract's, and the like.
    need_label : bool
        A row without label is then a violation.
    label_optional : bool
        With `need_label`: a table without a label column is read without a label, and
        with `propose` only a column of a sure name is guessed to be the label.
    batch_rows : int
        Rows read at a time; the cohort does not depend on it.
    propose : bool
        Without a contract guess the roles that are not given, as `screen init` does.
    independent : bool
        Every row is a patient of its own: no column is guessed to be the patient.
    **roles
        Fields of `TableOptions` by their names, such as ``label="infected"``.

    Returns
    -------
    Cohort
        Rows with id, group, label and features, and the notes on how they were read.

    Raises
    ------
    CohortError
        The table breaks the contract; every violation is named.
    UsageError
        The file or table does not exist.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from screening import read_cohort
    >>> samples = files("screening.sample_cohorts")
    >>> past = samples / "nosocomial_past.csv"
    >>> cohort = read_cohort(past, samples / "nosocomial.toml")
    >>> cohort.n_rows, int(sum(cohort.label == "yes"))
    (683, 75)
    """
    if contract is not None:
        roles["contract"] = contract
    (table,) = groups_from(roles, (TableOptions, table))
    draft, draft_notes = draft_of_table(table, source)
    files = open_source(source, draft)
    is_proposed = propose and not draft.features
    if is_proposed:
        inferred = infer_contract(
            files,
            draft,
            independent=independent,
            label_optional=label_optional,
            keep=table.keep,
        )
    else:
        inferred = infer_features(files, draft, table.keep)
    if not draft.label and label_optional:
        need_label = False
    if not draft.label and need_label and propose:
        raise UsageError(NO_LABEL + inferred.likely, parameters=["label"])
    stream = CohortStream(
        files, draft, batch_rows, draft.label, need_label, inferred.notes
    )
    cohort = replace(
        concatenate(list(stream)), guesses=inferred.guesses, doubts=inferred.doubts
    )
    cohort = _with_labels_of_blanks(cohort)
    if need_label:
        cohort = _without_classes(cohort)
    notes = []
    if is_proposed:
        notes += add_plausible(draft, ranges_of_numbers([cohort]))
    contract = draft.completed()
    notes = [*cohort.notes, *notes, *draft_notes]
    return replace(cohort, contract=contract, notes=notes)


def _with_labels_of_blanks(cohort: Cohort) -> Cohort:
    """Return rows in which a blank label is that of the other rows without the case.

    A class of their own would be one to find, or to separate from the others. Only if
    `unlabelled` says so.
    """
    if cohort.label is None or cohort.contract.unlabelled != "no":
        return cohort
    label = label_of_blank(cohort.classes, cohort.contract)
    is_blank = cohort.labels == BLANK_IS
    n_blank = int(np.count_nonzero(is_blank))
    if label == BLANK_IS or not n_blank:
        return cohort
    note = (
        f"column '{cohort.contract.label}': {n_blank} rows without a label, or with "
        f"{BLANK_IS}, count as {label} (`unlabelled`)"
    )
    labels = np.where(is_blank, label, cohort.labels)
    return replace(cohort, label=labels, notes=[*cohort.notes, note])


def _without_classes(cohort: Cohort) -> Cohort:
    """Return the rows with labels that the contract does not leave out, with a note.

    UsageError if no row has such a label.
    """
    if not cohort.contract.leave_out:
        return cohort
    labels = cohort.labels
    classes = cohort.classes
    left_out = set()
    for text in cohort.contract.leave_out:
        label = same_label(text, classes)
        if label is None:
            # The column may be the wrong one, full of names: its cells are not shown.
            raise UsageError(
                f"`leave_out` {text}: no row has this label", parameters=["leave_out"]
            )
        left_out.add(label)
    is_kept = ~np.isin(labels, list(left_out))
    n_left_out = int(np.count_nonzero(~is_kept))
    note = (
        f"{n_left_out} rows with the label {', '.join(sorted(left_out))} are left out "
        "(`leave_out`)"
    )
    return replace(cohort.take(is_kept), notes=[*cohort.notes, note])


def labelled_cohort(
    cohort: Cohort | Readable, table: TableOptions, *, label_optional: bool = False
) -> Cohort:
    """Return a cohort as it is, or read a table in which every row has a label.

    Parameters
    ----------
    cohort : Cohort or Readable
    table : TableOptions
    label_optional : bool
        The table may have no label column.

    Raises
    ------
    UsageError
        `table` says how to read a cohort that was already read.
    """
    if not isinstance(cohort, Cohort):
        return read_cohort(
            cohort, table=table, need_label=True, label_optional=label_optional
        )
    stated = table.stated()
    if stated:
        raise UsageError(
            f"the cohort has already been read; give {', '.join(stated)} to read_cohort"
        )
    return cohort


def check_cohort(
    source: Readable,
    contract: Contract | str | Path | None = None,
    *,
    label: str | None = None,
    options: ReadOptions | None = None,
) -> tuple[list[str], list[str]]:
    """Check a table: return its violations, and notes on what was detected.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
        As in `read_cohort`.
    contract : Contract or path, optional
        Inferred by default.
    label : str, optional
        Column of the outcome; every row must then have one.
    options : ReadOptions, optional
        Check the table as one to score, not as one to train on.
    """
    draft = draft_contract(contract, label=label)
    try:
        files = open_source(source, draft)
        notes = infer_features(files, draft).notes
        if options is None and not draft.label:
            notes.append("no column is named as the outcome: to train, set `label`")
        stream = CohortStream(
            files, draft.completed(), BATCH_ROWS, label, bool(label), notes, options
        )
        stream.check()
    except CohortError as error:
        return error.violations, []
    if options is None:
        return [], stream.notes
    return [], [*stream.notes, *stream.ids.notes_on_collisions()]


def starter_contract(
    source: Readable,
    ask: Ask | None = None,
    *,
    capacity: int | None = None,
    settings: Mapping[str, Any] | None = None,
    **roles: str | Sequence[str] | None,
) -> tuple[Contract, list[str]]:
    """Propose a contract for a table, to be reviewed by a person.

    Parameters
    ----------
    source : path, URL, Database, or a pandas, polars or Arrow table
        As in `read_cohort`.
    ask : callable, optional
        Asks a person to confirm or correct a proposal.
    capacity : int, optional
        Reviews possible in a night.
    settings : mapping of str, optional
        Other keys of `[cohort]`.
    **roles
        Columns by role, which are then not guessed.

    Returns
    -------
    contract : Contract
    notes : list of str
        What was guessed.
    """
    draft = draft_contract(None, **{**roles, "capacity": capacity, **(settings or {})})
    files = open_source(source, draft)
    stated = draft.model_copy()
    notes = infer_contract(files, draft, ask).notes
    # A table that cannot be read is refused now, not by the next command.
    try:
        ranges = ranges_of_numbers(CohortStream(files, draft))
    except CohortError:
        # A guess of a column refuses no table.
        notes += drop_guessed_keys(draft, stated)
        ranges = ranges_of_numbers(CohortStream(files, draft))
    notes += add_plausible(draft, ranges)
    if ask is not None:
        _ask_for_availability(draft, ask)
    return draft.completed(), [*files.notes, *notes]


def _ask_for_availability(draft: Draft, ask: Ask) -> None:
    """Set what a person says of columns that may come later."""
    features = dict(draft.features)
    for name, feature in draft.features.items():
        if may_be_later(name):
            answer = ask("available", None, [name], ["before", "after"])
            features[name] = feature.model_copy(update={"available": answer})
    draft.features = features
