"""Inference of a table's columns where no contract describes them.

The table is read once; roles are guessed by `role_rules`, and types by `feature_rules`.
Everything that was guessed is stated in a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Contract, Draft, Feature
from screening.contract.violations import NO_ROWS, refuse_absent
from screening.data.column_names import is_called
from screening.data.dependence import (
    MOST_ROWS,
    Sign,
    dependence,
    head_columns,
    head_values,
)
from screening.data.feature_rules import (
    INDICATOR_SHARE,
    REVIEW_RULES,
    Candidate,
    ReviewRule,
    drop_rule,
    infer_feature,
    number_feature,
)
from screening.data.outcome_rules import (
    MAX_SHOWN,
    OutcomeColumn,
    as_likely,
    follow_up_strengths,
    infer_positive,
)
from screening.data.role_rules import (
    MAX_NAMES,
    TableSummary,
    coordinates_of_groups,
    guessed_columns,
    infer_coordinates,
    infer_date_order,
    infer_group,
    infer_roles,
    infer_stems,
    likely_outcomes,
    outcome_candidates,
    role_doubts,
    role_notes,
    taken_columns,
)
from screening.data.summary import ColumnSummary
from screening.errors import CohortError
from screening.io.arrow_types import to_texts
from screening.io.readers import Block, Source, SourceFile
from screening.schemas.base import Reason
from screening.schemas.reasons import GUESSED
from screening.spelling import first_of

BATCH_ROWS = 65536
# Columns in one note on what is to be reviewed.
MAX_REVIEWED = 100
REVIEW_CONTRACT = (
    "Write a contract with screen init, review it and train with --contract."
)
EXTRA_COLUMN = f"extra column for missing values (over {INDICATOR_SHARE:.0%})"
# Roles for which every row must have a value, or its own.
KEY_ROLES = ("id", "group", "time")
Ask = Callable[[str, str | None, Sequence[str], Sequence[str] | None], str | None]
"""Asks a person for a role, and returns the answer.

Called with the role's name, the guess, other likely answers, and all that are
possible, None where any number is.
"""


@dataclass(frozen=True)
class Inference:
    """What was guessed of a table's contract.

    Parameters
    ----------
    notes : list of str
        Everything that was guessed, a sentence each.
    guesses : list of str
        Notes on the columns that were guessed to have a role.
    doubts : list of Reason
        Unconfirmed guesses that change what a model finds.
    likely : str
        End of a sentence that names the likely outcomes, where none was recognised.
    """

    notes: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    doubts: list[Reason] = field(default_factory=list)
    likely: str = ""


def summarise(source: Source, contract: Contract) -> TableSummary:
    """Read a table once, and summarise its columns.

    Raises
    ------
    CohortError
        The files have other columns than each other, a column with a role is not
        there, or the table has no row.
    """
    names = _columns_to_read(source, contract)
    columns = {name: ColumnSummary() for name in names}
    keys: dict[str, list[pa.Array]] = {
        name: [] for name in names if _may_be_key(name, contract)
    }
    head: list[tuple[SourceFile, Block]] = []
    n_rows = 0
    for file, block in _blocks(source, names):
        if n_rows < MOST_ROWS:
            head.append((file, block))
        n_rows += block.n_rows
        for name, summary in columns.items():
            summary.add(block.columns[name], file.format.decimal(name))
        for name, texts in keys.items():
            texts.append(_key_texts(block.columns[name]))
    if columns and not n_rows:
        raise CohortError(NO_ROWS)
    for summary in columns.values():
        summary.settle()
    whole_keys = {name: pa.concat_arrays(texts) for name, texts in keys.items()}
    follow_up = follow_up_strengths(columns, lambda name: head_values(name, head))
    return TableSummary(columns, whole_keys, follow_up, head)


def _may_be_key(name: str, contract: Contract) -> bool:
    """Return True for the group, and for columns called as rows or patients are."""
    return name == contract.group or is_called(name, "row", "patient")


def _columns_to_read(source: Source, contract: Contract) -> list[str]:
    """Return the columns of a table that are not dropped, once it has all it must."""
    stated = [*contract.columns(), *contract.drop, contract.label]
    refuse_absent(source, [name for name in stated if name])
    _refuse_unlike_files(source)
    header = source.files[0].header
    return [name for name in header if name and name not in contract.drop]


def _blocks(source: Source, columns: list[str]) -> Iterator[tuple[SourceFile, Block]]:
    """Yield the blocks of all files with their file."""
    # An index without a name may be a patient's number, which `dependence` looks at.
    wanted = list(dict.fromkeys([*head_columns(source), *columns]))
    for file in source.files:
        for block in file.blocks(wanted, BATCH_ROWS):
            yield file, block


def _key_texts(cells: pa.Array) -> pa.Array:
    """Return the cells of a key as texts, "" for missing ones."""
    texts = to_texts(cells)
    if texts is None:
        return pa.array([], pa.string())
    return pc.fill_null(texts, "")


def _refuse_unlike_files(source: Source) -> None:
    """Raise CohortError if the files have other columns than each other."""
    first, *others = source.files
    faults = [
        f"{file.name}: its columns differ from those of {first.name}; read tables of "
        "one kind, or name the features"
        for file in others
        if {*file.header} != {*first.header}
    ]
    if faults:
        raise CohortError(faults)


def infer_contract(
    source: Source,
    draft: Draft,
    ask: Ask | None = None,
    independent: bool = False,
    label_optional: bool = False,
    keep: Collection[str] = (),
) -> Inference:
    """Guess the roles and features that a draft does not state, and set them.

    Parameters
    ----------
    source : Source
    draft : Draft
    ask : callable, optional
        Lets a person correct every guess.
    independent : bool
        Every row is a patient of its own, whatever the table looks like.
    label_optional : bool
        The table may have no label: only a column of a sure name is guessed.
    keep : collection of str
        Columns that are features whatever they contain, such as those of a points
        table, where a constant matters too.
    """
    table = summarise(source, draft)
    stated = draft.model_copy()
    draft.coordinates = infer_coordinates(table, draft)
    infer_roles(table, draft, independent, label_optional)
    notes = infer_stems(table, draft)
    signs: list[Sign] = []
    if not independent:
        signs = dependence(source, draft, table.head)
    infer_group(draft, signs)
    if ask:
        _ask_for_roles(table, stated, draft, ask)
    infer_date_order(table, draft)
    candidates = outcome_candidates(table, draft)
    rivals: list[OutcomeColumn] = []
    if draft.label and not stated.label:
        rivals = as_likely(draft.label, candidates)
    notes += role_notes(table, stated, draft, candidates, rivals)
    doubts = [] if ask else [*role_doubts(table, stated, draft, rivals)]
    inferred = _infer_columns(table, draft, keep)
    for sign in signs:
        note = sign.seen if sign.column else f"{sign.seen} {sign.remedy}"
        notes.append(note)
    return replace(
        inferred,
        notes=[*notes, *inferred.notes],
        guesses=guessed_columns(table, stated, draft),
        doubts=[*doubts, *inferred.doubts],
        likely=likely_outcomes(outcome_candidates(table, draft)),
    )


def drop_guessed_keys(draft: Draft, stated: Contract) -> list[str]:
    """Drop the columns that were guessed to name rows, patients or times.

    Parameters
    ----------
    draft : Draft
        Of a contract that its table breaks.
    stated : Contract
        Roles that were named; they stay.

    Returns
    -------
    list of str
        A note, where such a column was guessed.
    """
    guessed = [
        role for role in KEY_ROLES if getattr(draft, role) != getattr(stated, role)
    ]
    columns = list(dict.fromkeys(getattr(draft, role) for role in guessed))
    if not columns:
        return []
    for role in guessed:
        setattr(draft, role, None)
    draft.drop = [*draft.drop, *columns]
    if "group" in guessed:
        draft.group_stem = False
        draft.fill_down = []
    names = first_of([f"'{name}'" for name in columns], MAX_NAMES)
    note = (
        f"dropped: probably {' or '.join(guessed)}, but some cells are blank or "
        f"repeated; to use one, fill its cells and name it: {names}"
    )
    return [note]


def _ask_for_roles(
    table: TableSummary, stated: Contract, draft: Draft, ask: Ask
) -> None:
    """Set the roles that a person chooses after seeing the guesses.

    `stated`: the roles that were named, and are not asked for.
    """
    columns = list(table.columns)
    guessed = draft.model_copy()
    if not stated.label:
        candidates = outcome_candidates(table, stated)[:MAX_SHOWN]
        draft.label = ask("label", guessed.label, [*map(str, candidates)], columns)
    draft.positive = stated.positive
    counts = table.columns[draft.label].counts if draft.label else None
    if counts and not stated.positive:
        values = list(dict(counts.most_common()))
        case = ask("positive", infer_positive(str(draft.label), counts), values, values)
        draft.positive = [case] if case else []
    for role in ("group", "id", "time"):
        named = getattr(stated, role)
        answer = named or ask(role, getattr(guessed, role), [], columns)
        setattr(draft, role, answer)
    if draft.group != guessed.group:
        draft.group_stem = stated.group_stem
        draft.fill_down = stated.fill_down
    capacity = stated.capacity or ask("capacity", None, [], None)
    draft.capacity = int(capacity) if capacity else None


def infer_features(
    source: Source, draft: Draft, keep: Collection[str] = ()
) -> Inference:
    """Set the features of a draft that has none; `keep` as for `infer_contract`."""
    if draft.features:
        return Inference()
    return _infer_columns(summarise(source, draft), draft, keep)


def _infer_columns(
    table: TableSummary, draft: Draft, keep: Collection[str]
) -> Inference:
    """Make every column without a role a feature, or drop it.

    Raises
    ------
    CohortError
        No column is left as a feature.
    """
    notes = infer_stems(table, draft)
    notes += coordinates_of_groups(table, draft)
    features: dict[str, Feature] = {}
    # Names of columns, by what a note says of them.
    inferred = defaultdict[str, list[str]](list)
    dropped = defaultdict[str, list[str]](list)
    reviews: list[_Review] = []
    taken = taken_columns(draft)
    never_dropped = {*keep, draft.score}
    for name, summary in table.columns.items():
        if name in taken:
            continue
        candidate = Candidate(name, summary)
        rule = None if name in never_dropped else drop_rule(candidate)
        if rule is not None:
            dropped[f"dropped, {rule.reason}"].append(name)
            continue
        feature = infer_feature(candidate)
        if name == draft.score:
            feature = number_feature(candidate) | {"missing": "impute"}
        features[name] = Feature(**feature)
        inferred[f"inferred {feature['type']}"].append(name)
        if feature["missing"] in ("indicator", "category"):
            inferred[EXTRA_COLUMN].append(name)
        reviews += _reviews(candidate, feature)
    notes += _review_notes(reviews)
    for note, names in [*inferred.items(), *dropped.items()]:
        notes.append(f"{note}: {first_of(names, MAX_NAMES)}")
    if not features:
        raise CohortError("; ".join(["no column is left as a feature", *notes[-5:]]))
    draft.features = features
    draft.drop = [*draft.drop, *chain.from_iterable(dropped.values())]
    doubts = [review.doubt for review in reviews if review.rule.changes_values]
    return Inference(notes, doubts=doubts)


@dataclass(frozen=True)
class _Review:
    """Request of a rule that a person reviews one column."""

    column: str
    rule: ReviewRule
    remark: str

    @property
    def doubt(self) -> Reason:
        """Reason for attention, where the values of cells are a guess."""
        guess = f"column '{self.column}': {self.remark}"
        return GUESSED(column=self.column, guess=guess, remedy=REVIEW_CONTRACT)


def _reviews(candidate: Candidate, feature: Mapping[str, Any]) -> Iterator[_Review]:
    """Yield what is to be reviewed in the feature of a column."""
    for rule in REVIEW_RULES:
        if rule.applies(candidate, feature):
            yield _Review(candidate.name, rule, rule.remark(candidate))


def _review_notes(reviews: Sequence[_Review]) -> Iterator[str]:
    """Yield a note for each remark, with the columns that it is about."""
    columns_of = defaultdict[str, list[str]](list)
    for review in reviews:
        columns_of[review.remark].append(f"'{review.column}'")
    for remark, columns in columns_of.items():
        noun = "column" if len(columns) == 1 else "columns"
        yield f"{noun} {first_of(columns, MAX_REVIEWED)}: {remark}"
