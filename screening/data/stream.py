"""A cohort as a stream of typed batches, read and checked in one pass."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd

from screening.contract.contract import Contract
from screening.contract.parsing import (
    Typed,
    filled_down,
    read_coordinate,
    read_feature,
    read_text,
    read_time,
)
from screening.contract.violations import UNSEEN, Fault, Violations, refuse_absent
from screening.data.cohort import Cohort, joined
from screening.data.ids import stems_of
from screening.data.normalising import Medians, Moments
from screening.errors import CohortError
from screening.io.columns import stretches
from screening.io.opening import Readable, source_at
from screening.io.readers import Block, Part, Source
from screening.monitoring.drift import Gates
from screening.registry import optional

BATCH_ROWS = 65536
# Rows whose hashed ids are held at a time.
HELD_ROWS = 1 << 19


class CohortStream:
    """A cohort read in batches by a complete contract; made by `open_cohort`.

    Iterating reads the table once and gives its sound rows in their order. Violations are raised together at
    the end; from the first that the contract does not leave out, no more rows are given: what is made of the
    rows stands only once the iteration has ended well. `gates` may stop the run too. `to_score`: `on_unseen`
    decides on an unseen category, and the columns to display are read. `refused` (rows left out by reason),
    `n_rows` and notes on the rows are known once the table was read.
    """

    def __init__(
        self,
        source: Source,
        contract: Contract,
        batch_rows: int = BATCH_ROWS,
        label: str | None = None,
        need_label: bool = False,
        notes: Sequence[str] = (),
        gates: Gates | None = None,
        to_score: bool = False,
        by_group: bool = False,
    ):
        self.source, self.contract, self.batch_rows = source, contract, batch_rows
        self.label, self.need_label = label, need_label
        self.notes = [*source.notes, *notes]
        self.gates, self.to_score, self.by_group = gates, to_score, by_group
        self.refused: dict[str, int] = {}
        self.n_rows = 0
        # Hashes of ids that repeat, where such rows are left out.
        self._repeats: np.ndarray | None = None
        self._scales: list[Moments | Medians] | None = (
            None  # Known once the whole table was read.
        )
        self._display = contract.display if to_score else []
        self._columns = list(
            dict.fromkeys(filter(None, [*contract.columns(), *self._display, label]))
        )
        refuse_absent(source, self._columns)
        meant = {"", contract.label, *self._columns, *contract.drop, *contract.display}
        extra = dict.fromkeys(
            name for file in source.files for name in file.header if name not in meant
        )
        if extra:
            self.notes.append(
                f"columns not in the contract were ignored: {', '.join(extra)}"
            )

    def check(self) -> None:
        """Read the whole table; CohortError with all violations, by column and row number."""
        for _ in self._sound():
            pass

    def __iter__(self) -> Iterator[Cohort]:
        batches = (self._normalised(rows.take(sound)) for rows, sound in self._sound())
        return whole_groups(batches) if self.by_group else batches

    def _normalised(self, rows: Cohort) -> Cohort:
        values = rows.values
        for scales in self._scales or ():
            values = scales.applied(np.asarray(rows.group), values)
        raw = {
            name: rows.values[name]
            for scales in self._scales or ()
            for name in scales.columns
        }
        return replace(rows, values=values, raw=raw or None)

    def _sound(self) -> Iterator[tuple[Cohort, np.ndarray]]:
        """The table in blocks, each with a mask of its sound rows."""
        self._read_before()
        violations, ids = Violations(self.contract), DuplicateIds()
        # A table that is read again was counted before.
        gates = None if self.n_rows else self.gates
        for file, block, numbers in self._cells(self._columns, violations):
            rows, faults, unlisted = self._typed(file, block, numbers)
            if self.contract.id and self._repeats is None:
                ids.add(rows.id)
            if gates:
                # Values that break the contract count too: a column in other units breaks it in every row.
                gates.add(rows.values, rows.group, unlisted)
            sound = violations.add_block(file.name, block, faults)
            if sound.any() and not violations.stopped:
                yield rows, sound
        _, positions = ids.repeats()
        start = 0
        for part in self.source.files if positions.size else ():
            end = start + (part.rows or 0)
            own = positions[(positions >= start) & (positions < end)] - start
            violations.add(part.name, str(self.contract.id), "repeated_id", 1 + own)
            start = end
        if gates:
            violations.whole += [
                f"column {stop.words} {stop.remedy}" for stop in gates.stops()
            ]
        lines = violations.concluded(len(self.source.files) > 1)
        if not self.n_rows:
            self.notes += [f"rows left out: {line}" for line in lines]
            self.notes += gates.notes() if gates else []
            self.refused.update(violations.refused)
            self.n_rows = violations.n_rows

    def _read_before(self) -> None:
        """Read what must be known of the whole table before its first row can be judged."""
        aside = Violations(self.contract)
        if (
            self.contract.id
            and self.contract.on_violation != "stop"
            and self._repeats is None
        ):
            ids = DuplicateIds()
            for _, block, _ in self._cells([self.contract.id], aside):
                ids.add(read_text(block.columns[self.contract.id], "no_id").values)
            self._repeats, _ = ids.repeats()
        if self._scales is None:
            names: dict[str, list[str]] = {}
            for name, feature in self.contract.features.items():
                if feature.normalise:
                    names.setdefault(feature.normalise, []).append(name)
            kinds = {"within_group": Moments, "within_group_robust": Medians}
            self._scales = [
                kinds[normalise](columns) for normalise, columns in names.items()
            ]
            for file, block, numbers in (
                self._cells(self._columns, aside) if names else ()
            ):
                rows, faults, _ = self._typed(file, block, numbers)
                sound = rows.take(aside.add_block(file.name, block, faults))
                for scales in self._scales:
                    scales.add(np.asarray(sound.group), sound.values)

    def _cells(
        self, columns: Sequence[str], violations: Violations
    ) -> Iterator[tuple[Part, Block, np.ndarray]]:
        """The table in blocks as they are written, with the numbers of their rows."""
        before = 0
        for file in self.source.files:
            above = dict.fromkeys(
                name for name in self.contract.fill_down if name in columns
            )
            try:
                for block in file.blocks(columns, self.batch_rows):
                    filled = {
                        name: filled_down(block.columns[name], above[name])
                        for name in above
                    }
                    above = {
                        name: cells[-1].as_py()
                        for name, cells in filled.items()
                        if len(cells)
                    }
                    block = replace(block, columns={**block.columns, **filled})
                    yield (
                        file,
                        block,
                        before + block.first_row + np.arange(block.n_rows),
                    )
            except CohortError as error:
                # The other files are still read, so that all faults come together.
                violations.whole += error.violations
            before += file.rows or 0

    def _typed(
        self, file: Part, block: Block, numbers: np.ndarray
    ) -> tuple[Cohort, list[Fault], dict[str, np.ndarray]]:
        """Rows sound or not, their faults, and by column the rows whose text the contract has not."""
        contract, cells, decimal = self.contract, block.columns, file.decimal
        broken = block.ragged | block.repeated_header
        noted: list[Fault] = [
            ("", "ragged", block.ragged),
            ("", "repeated_header", block.repeated_header),
        ]

        def kept(column: str, typed: Typed) -> np.ndarray:
            # A broken row has no cells to blame.
            noted.extend((column, kind, mask & ~broken) for kind, mask in typed.faults)
            return typed.values

        def role(
            column: str | None, absent: str | None, trim: bool = False
        ) -> np.ndarray | None:
            return (
                kept(column, read_text(cells[column], absent, trim)) if column else None
            )

        ids, group = role(contract.id, "no_id"), role(contract.group, "no_group")
        label = role(self.label, "no_label" if self.need_label else None, trim=True)
        axes = [
            kept(name, read_coordinate(cells[name], decimal(name)))
            for name in contract.coordinates
        ]
        day, features = contract.time, contract.features.items()
        rows = Cohort(
            id=numbers.astype(str).astype(object) if ids is None else ids,
            group=stems_of(group)
            if group is not None and contract.group_stem
            else group,
            label=None if label is None else np.where(label == None, "", label),  # noqa: E711
            time=kept(day, read_time(cells[day], contract.date_order)) if day else None,
            coordinates=np.column_stack(axes) if axes else None,
            subgroups={
                name: np.asarray(role(name, None, True)) for name in contract.subgroup
            }
            or None,
            display={name: np.asarray(role(name, None, True)) for name in self._display}
            or None,
            values={
                name: kept(name, read_feature(cells[name], kind, decimal(name)))
                for name, kind in features
            },
            raw=None,
            rows=numbers,
            contract=contract,
            source=self.source,
            notes=self.notes,
            refused=self.refused,
        )
        of_scoring = "unknown_category" if self.to_score else ""
        unlisted = {column: mask for column, kind, mask in noted if kind == of_scoring}
        faults = [fault for fault in noted if fault[1] != of_scoring]
        # Unseen categories that the contract does not want scored as unknown.
        unseen = self.gates.unseen_rows(rows.values) if self.gates else {}
        for name in dict.fromkeys([*unseen, *unlisted]):
            if contract.policy("on_unseen", name) != "unknown":
                masks = [
                    rows_of[name] for rows_of in (unseen, unlisted) if name in rows_of
                ]
                faults.append((name, UNSEEN, np.any(masks, axis=0)))
        if self._repeats is not None and self._repeats.size:
            faults.append(
                (
                    str(contract.id),
                    "repeated_id",
                    np.isin(hashed(rows.id), self._repeats),
                )
            )
        return rows, [fault for fault in faults if fault[2].any()], unlisted


def open_cohort(
    source: Readable,
    contract: Contract | str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    label: str | None = None,
    gates: Gates | None = None,
    whole_groups: bool = False,
) -> CohortStream:
    """Open a cohort for scoring, in batches of at most `batch_rows` rows, or of one group each."""
    complete = contract_of(contract)
    if not complete.features:
        raise CohortError(
            "the contract names no features; add [features.NAME], as `screen init` writes them"
        )
    files, complete = opened(source, complete)
    return CohortStream(
        files,
        complete,
        batch_rows,
        label,
        gates=gates,
        to_score=True,
        by_group=whole_groups,
    )


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
    base = (
        contract
        if isinstance(contract, Contract)
        else Contract.load(contract)
        if contract
        else Contract()
    )
    drop = roles.pop("drop", None) or []
    names = (
        [*filter(None, map(str.strip, drop.split(",")))]
        if isinstance(drop, str)
        else drop
    )
    dropped = [*base.drop, *names] if names else None
    return base.with_roles(neighbourhood=neighbourhood, drop=dropped, **roles)


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """The same rows, one group a batch; CohortError where rows of a group come after those of another."""
    seen = set[str]()
    parts = (
        (name, batch.take(np.arange(rows.start, rows.stop)))
        for batch in batches
        for name, rows in stretches(np.asarray(batch.group))
    )
    for name, of_group in groupby(parts, key=itemgetter(0)):
        if name in seen:
            raise CohortError(
                "rows of a group do not stand together; sort the table by its group"
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
        repeated = [pd.Series(dtype=np.uint64)]
        # Equal hashes leave one remainder, and so many rows are held at a time.
        for remainder in range(n_parts):
            parts = []
            self._file.seek(0)
            for start in range(0, 1 + self.n_rows, HELD_ROWS):
                hashes = np.frombuffer(self._file.read(8 * HELD_ROWS), np.uint64)
                members = np.flatnonzero(hashes % np.uint64(n_parts) == remainder)
                parts.append(pd.Series(hashes[members], index=start + members))
            part = pd.concat(parts)
            # 0 stands for no id.
            repeated.append(part[part.duplicated(keep=False) & (part != 0)])
        rows = pd.concat(repeated)
        return np.unique(rows.to_numpy()), np.sort(rows.index.to_numpy())


def hashed(ids: np.ndarray) -> np.ndarray:
    """64 bits per id, in this process alone; 0 where there is none."""
    texts = (0 if text is None else hash(text) for text in ids.tolist())
    return np.fromiter(texts, dtype=np.int64, count=len(ids)).view(np.uint64)
