"""A cohort as a stream of typed batches, read and checked in one pass."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.contract.parsing import Typed, filled_down, read_coordinate, read_feature, read_text, read_time
from screening.contract.violations import UNSEEN, Fault, Violations, refuse_absent
from screening.data.cohort import Cohort, joined
from screening.data.ids import stems_of
from screening.data.normalising import GroupScales, Medians, Moments
from screening.errors import CohortError, UsageError
from screening.io.columns import Columns, stretches
from screening.io.opening import Readable, source_at
from screening.io.readers import Block, Part, Source
from screening.monitoring.drift import Gates
from screening.registry import optional

BATCH_ROWS = 65536
# Rows whose hashed ids are held at a time.
HELD_ROWS = 1 << 19


@dataclass(frozen=True)
class TypedBlock:
    """Rows of a table as they were typed, sound or not.

    `faults`: column, kind and mask of each; `unlisted`: by column the rows whose text the contract has not.
    """

    file: str
    first_row: int
    rows: Cohort
    faults: list[Fault]
    unlisted: Mapping[str, np.ndarray]


class CohortStream:
    """A cohort read in batches by a complete contract; made by `open_cohort`.

    Iterating reads the table once and gives its sound rows as `Cohort` batches in row order. Violations are
    raised together at the end; from the first that the contract does not leave out, no more rows are given:
    what is made of the rows stands only once the iteration has ended well. A reading goes before only where a
    row cannot be judged without those behind it: of the ids, where rows with a repeated one are left out; of
    all columns, where features are normalised within groups.

    `gates` compare the table with training, and may stop the run too. `to_score`: the contract's `on_unseen`
    decides on an unseen category, which elsewhere is a violation, and the columns to display are read.
    `by_group`: batches are one group each, and memory is bounded by the largest of them. `refused`: rows left
    out by reason; it, `n_rows` and what `notes` say of the rows are known once the table was read.
    """

    def __init__(
        self, source: Source, contract: Contract, batch_rows: int = BATCH_ROWS, label: str | None = None,
        need_label: bool = False, notes: Sequence[str] = (), gates: Gates | None = None,
        to_score: bool = False, by_group: bool = False,
    ):  # fmt: skip
        if batch_rows < 1:
            raise UsageError(f"batch_rows must be at least 1, got {batch_rows}")
        self.source, self.contract, self.batch_rows = source, contract, batch_rows
        self.label, self.need_label = label, need_label
        self.notes = [*source.notes, *notes]
        self.gates, self.to_score, self.by_group = gates, to_score, by_group
        self.refused: dict[str, int] = {}
        self.n_rows = 0
        self._checked = False
        # Hashes of ids that repeat, and the places of their rows, where such rows are left out.
        self._repeats: tuple[np.ndarray, np.ndarray] | None = None
        self._scales: list[GroupScales] | None = None  # Known once the whole table was read.
        self._normalised = [name for name, feature in contract.features.items() if feature.normalise]
        self._display = contract.display if to_score else []
        self._columns = list(dict.fromkeys(filter(None, [*contract.columns(), *self._display, label])))
        refuse_absent(source, self._columns)
        meant = {"", contract.label, *self._columns, *contract.drop, *contract.display}
        extra = dict.fromkeys(name for file in source.files for name in file.header if name not in meant)
        if extra:
            self.notes.append(f"columns not in the contract were ignored: {', '.join(extra)}")

    def check(self) -> None:
        """Read the whole table; CohortError with all violations, by column and row number."""
        for _ in self._sound():
            pass

    def __iter__(self) -> Iterator[Cohort]:
        return whole_groups(self._batches()) if self.by_group else self._batches()

    def _batches(self) -> Iterator[Cohort]:
        for typed, sound in self._sound():
            rows = typed.rows if sound.all() else typed.rows.take(sound)
            values = rows.values
            for scales in self._scales or ():
                values = scales.applied(np.asarray(rows.group), values)
            raw = {name: rows.values[name] for name in self._normalised} or None
            yield replace(rows, values=values, raw=raw)

    def _sound(self) -> Iterator[tuple[TypedBlock, np.ndarray]]:
        """The table in blocks, each with a mask of its sound rows."""
        self._read_before()
        violations, ids = Violations(self.contract), DuplicateIds()
        # A table that is read again was counted before.
        gates = None if self._checked else self.gates
        for typed in self._blocks(violations):
            rows = typed.rows
            if self.contract.id and self._repeats is None:
                ids.add(rows.id)
            if gates:
                # Values that break the contract count too: a column in other units breaks it in every row.
                gates.add(rows.values, rows.group, typed.unlisted)
            sound = violations.add_block(typed.file, typed.first_row, typed.faults, self._repeated(rows))
            if sound.any() and not violations.stopped:
                yield typed, sound
        if self.contract.id:
            _, rows_repeated = self._repeats or ids.repeats()
            violations.add_repeats(self.source.files, rows_repeated)
        if gates:
            violations.whole += [f"column {stop.words} {stop.remedy}" for stop in gates.stops()]
        lines = violations.concluded(len(self.source.files) > 1)
        if not self._checked:
            self.notes += [f"rows left out: {line}" for line in lines]
            self.notes += gates.notes() if gates else []
            self.refused.update(violations.refused)
            self.n_rows, self._checked = violations.n_rows, True

    def _read_before(self) -> None:
        """Read what must be known of the whole table before the first row can be judged; mostly nothing."""
        if self.contract.id and self.contract.on_violation != "stop" and self._repeats is None:
            ids = DuplicateIds()
            for _, block, _ in self._cells([self.contract.id], Violations(self.contract)):
                ids.add(read_text(block.columns[self.contract.id], "no_id").values)
            self._repeats = ids.repeats()
        if self._scales is None:
            features = self.contract.features
            kinds = {"within_group": Moments, "within_group_robust": Medians}
            self._scales = [
                kind(names)
                for normalise, kind in kinds.items()
                if (names := [name for name in features if features[name].normalise == normalise])
            ]
            for typed in self._blocks(Violations(self.contract)) if self._scales else ():
                faulty = np.any([self._repeated(typed.rows), *(mask for _, _, mask in typed.faults)], axis=0)
                rows = typed.rows.take(~faulty)
                for scales in self._scales:
                    scales.add(np.asarray(rows.group), rows.values)

    def _repeated(self, rows: Cohort) -> np.ndarray:
        """Rows to leave out because their id stands elsewhere in the table too."""
        if self._repeats is None or not self._repeats[0].size:
            return np.zeros(rows.n_rows, dtype=bool)
        return np.isin(hashed(rows.id), self._repeats[0])

    def _cells(
        self, columns: Sequence[str], violations: Violations
    ) -> Iterator[tuple[Part, Block, np.ndarray]]:
        """The table in blocks as they are written, with the numbers of their rows."""
        before = 0
        for file in self.source.files:
            above = dict.fromkeys(name for name in self.contract.fill_down if name in columns)
            try:
                for block in file.blocks(columns, self.batch_rows):
                    filled = {name: filled_down(block.columns[name], above[name]) for name in above}
                    above = {name: cells[-1].as_py() for name, cells in filled.items() if len(cells)}
                    block = replace(block, columns={**block.columns, **filled})
                    yield file, block, before + block.first_row + np.arange(block.n_rows)
            except CohortError as error:
                # The other files are still read, so that all faults come together.
                violations.whole += error.violations
            before += file.rows or 0

    def _blocks(self, violations: Violations) -> Iterator[TypedBlock]:
        for file, block, rows in self._cells(self._columns, violations):
            yield self._typed(file, block, rows)

    def _typed(self, file: Part, block: Block, rows: np.ndarray) -> TypedBlock:
        contract, cells = self.contract, block.columns
        broken = block.ragged | block.repeated_header
        faults: list[Fault] = [("", "ragged", block.ragged), ("", "repeated_header", block.repeated_header)]
        unlisted: dict[str, np.ndarray] = {}

        def kept(column: str, typed: Typed) -> np.ndarray:
            for kind, mask in typed.faults:
                # A broken row has no cells to blame.
                if self.to_score and kind == "unknown_category":
                    unlisted[column] = mask & ~broken
                else:
                    faults.append((column, kind, mask & ~broken))
            return typed.values

        def texts(columns: Sequence[str]) -> Columns | None:
            arrays = {name: kept(name, read_text(cells[name], None, trim=True)) for name in columns}
            return arrays or None

        def role(column: str | None, absent: str | None, trim: bool = False) -> np.ndarray | None:
            return kept(column, read_text(cells[column], absent, trim)) if column else None

        ids, group = role(contract.id, "no_id"), role(contract.group, "no_group")
        label = role(self.label, "no_label" if self.need_label else None, trim=True)
        axes = [(name, read_coordinate(cells[name], file.decimal(name))) for name in contract.coordinates]
        day = contract.time
        typed = Cohort(
            id=rows.astype(str).astype(object) if ids is None else ids,
            group=stems_of(group) if group is not None and contract.group_stem else group,
            label=None if label is None else np.where(label == None, "", label),  # noqa: E711
            time=kept(day, read_time(cells[day], contract.date_order)) if day else None,
            coordinates=np.column_stack([kept(*axis) for axis in axes]) if axes else None,
            subgroups=texts(contract.subgroup),
            display=texts(self._display),
            values={
                name: kept(name, read_feature(cells[name], feature, file.decimal(name)))
                for name, feature in contract.features.items()
            },
            raw=None,
            rows=rows,
            contract=contract,
            source=self.source,
            notes=self.notes,
            refused=self.refused,
        )
        # Unseen categories that the contract does not want scored as unknown.
        unseen = self.gates.unseen_rows(typed.values) if self.gates else {}
        for name in dict.fromkeys([*unseen, *unlisted]):
            if contract.unseen_policy(name) != "unknown":
                masks = [rows[name] for rows in (unseen, unlisted) if name in rows]
                faults.append((name, UNSEEN, np.any(masks, axis=0)))
        faults = [fault for fault in faults if fault[2].any()]
        return TypedBlock(file.name, block.first_row, typed, faults, unlisted)


def open_cohort(
    source: Readable,
    contract: Contract | str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    label: str | None = None,
    gates: Gates | None = None,
    whole_groups: bool = False,
) -> CohortStream:
    """Open a cohort for scoring, in batches of at most `batch_rows` rows, or of one group each.

    `contract` must name its features. A label is read only if `label` names its column. `gates` see every row
    in the first pass.
    """
    complete = contract_of(contract)
    if not complete.features:
        raise CohortError(
            "the contract names no features; add [features.NAME] tables, as `screen init` writes them"
        )
    files, complete = opened(source, complete)
    return CohortStream(files, complete, batch_rows, label, gates=gates, to_score=True, by_group=whole_groups)


def opened(source: Readable, given: Contract) -> tuple[Source, Contract]:
    """The source of a cohort, and the contract with what such a source brings: patients, neighbourhoods."""
    files = source_at(source)
    if not given.features and not given.group:
        given = given.with_roles(group=files.group)
    if given.neighbourhood is None:
        return files, given
    return optional("neighbourhood").with_neighbourhood(files, given)  # type: ignore[no-any-return]


def contract_of(
    contract: Contract | str | Path | None,
    neighbourhood: int | None = None,
    **roles: str | Sequence[str] | None,
) -> Contract:
    """The contract given (or an empty one), with roles from flags put in."""
    base = contract if isinstance(contract, Contract) else Contract.load(contract) if contract else Contract()
    drop, positive = roles.get("drop") or [], roles.get("positive") or []
    if isinstance(drop, str):
        drop = [name.strip() for name in drop.split(",") if name.strip()]
    roles["drop"] = list(dict.fromkeys([*base.drop, *drop])) if drop else None
    roles["positive"] = [positive] if isinstance(positive, str) else [str(text) for text in positive]
    return base.with_roles(neighbourhood=neighbourhood, **roles)


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """The same rows, one group a batch; CohortError where rows of a group come after those of another."""
    batches, seen = iter(batches), set[str]()
    parts = (
        (name, batch.take(np.arange(rows.start, rows.stop)))
        for batch in batches
        for name, rows in stretches(np.asarray(batch.group))
    )
    for name, of_group in groupby(parts, key=itemgetter(0)):
        if name in seen:
            for _ in batches:
                pass  # what else is wrong with the table is said first
            raise CohortError(
                "rows of a group do not stand together, as lesions need it; sort the table by its group"
            )
        seen.add(name)
        yield joined([part for _, part in of_group])


class DuplicateIds:
    """Takes in the ids of a table in row order, as 64 bits each, many of them in a file without a name."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._file = tempfile.SpooledTemporaryFile(8 * HELD_ROWS)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def add(self, ids: np.ndarray) -> None:
        """Take in the ids of further rows, None where there is none."""
        self._file.write(hashed(ids).tobytes())
        self.n_rows += len(ids)

    def repeats(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of repeated ids, sorted ascending, and the rows that have one, from 0."""
        n_parts = 1 + self.n_rows // HELD_ROWS
        parts = (self._part(remainder, n_parts) for remainder in range(n_parts))
        # 0 stands for no id.
        repeated = pd.concat([part[part.duplicated(keep=False) & (part != 0)] for part in parts])
        self._file.seek(0, os.SEEK_END)
        return np.unique(repeated.to_numpy()), np.sort(repeated.index.to_numpy())

    def _part(self, remainder: int, n_parts: int) -> pd.Series:
        """Hashes that leave a remainder, by their rows: equal ones are in one part."""
        parts = [pd.Series(dtype=np.uint64)]
        self._file.seek(0)
        for start in range(0, self.n_rows, HELD_ROWS):
            held = np.frombuffer(self._file.read(8 * HELD_ROWS), np.uint64)
            members = np.flatnonzero(held % np.uint64(n_parts) == remainder)
            parts.append(pd.Series(held[members], index=start + members))
        return pd.concat(parts[1:] or parts)


def hashed(ids: np.ndarray) -> np.ndarray:
    """64 bits per id, in this process alone; 0 where there is none."""
    texts = (0 if text is None else hash(text) for text in ids.tolist())
    return np.fromiter(texts, dtype=np.int64, count=len(ids)).view(np.uint64)
