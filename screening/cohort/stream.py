"""A cohort as a stream of typed batches, checked as a whole before the first one is given out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from screening.cohort.cohort import Cohort, joined
from screening.cohort.ids import DuplicateIds, hashed, stems_of
from screening.cohort.normalising import Scales, scales_of
from screening.contract.contract import Contract
from screening.contract.parsing import (
    Parts,
    Typed,
    TypedBlock,
    read_coordinate,
    read_feature,
    read_text,
    read_time,
)
from screening.contract.violations import Violations, described, refuse_absent
from screening.documents.tables import made
from screening.errors import CohortError, UsageError
from screening.gates.drift import Gates
from screening.sources.columns import Columns, stretches
from screening.sources.readers import Block, Part, Source

BATCH_ROWS = 65536
UNSEEN = "unseen_category"


class CohortStream:
    """A cohort read in batches by a complete contract; made by `open_cohort`.

    Iterating yields `Cohort` batches in row order. The first pass (`check`, done at the latest then) sees the
    whole table and raises every violation together. Memory is bounded by the batch and the number of groups.
    `gates` compare the table with training, and may stop the run too. `to_score`: the
    contract's `on_unseen` decides on an unseen category, which elsewhere is a violation, and the columns to
    display are read. `scales` are those of groups, where somebody else saw all their rows.

    `refused`: rows left out by reason (`on_violation = "refuse_rows"`), known after `check` as `n_rows` is;
    `n_rows`: rows of the table, refused ones included.
    """

    def __init__(
        self, source: Source, contract: Contract, batch_rows: int = BATCH_ROWS, label: str | None = None,
        need_label: bool = False, notes: Sequence[str] = (), gates: Gates | None = None,
        to_score: bool = False, scales: Sequence[Scales] | None = None,
    ):  # fmt: skip
        if batch_rows < 1:
            raise UsageError(f"batch_rows must be at least 1, got {batch_rows}")
        self.source, self.contract, self.batch_rows = source, contract, batch_rows
        self.label, self.need_label = label, need_label
        self.notes = [*source.notes, *notes]
        self.gates, self.to_score = gates, to_score
        self.refused: dict[str, int] = {}
        self.n_rows = 0
        self._checked = False
        self._several = len(source.files) > 1
        self._repeated = np.zeros(0, dtype=np.uint64)
        self.scales = scales_of(contract.features) if scales is None else scales
        self._normalised = [name for name, feature in contract.features.items() if feature.normalise]
        self._display = list(contract.display) if to_score else []
        self._columns = list(
            dict.fromkeys([*contract.columns(), *self._display, *([label] if label else [])])
        )
        refuse_absent(source, self._columns)
        extra = dict.fromkeys(n for f in source.files for n in f.header if n and n not in self._columns)
        for name in (contract.label, *contract.drop, *contract.display):
            extra.pop(name or "", None)
        if extra:
            self.notes.append(f"columns not in the contract were ignored: {', '.join(extra)}")

    def check(self) -> None:
        """Read the whole table once.

        Raises CohortError: all violations, by column and row number.
        """
        if self._checked:
            return
        violations, refused = Violations(), dict[str, int]()
        # Rows the contract wants left out for an unseen category alone: no reason to stop.
        left_out = Violations()
        repeats = DuplicateIds()
        kept = total = 0
        for file, block in self._blocks(violations):
            typed = self._typed(block, file)
            for column, kind, mask in typed.faults:
                alone = kind == UNSEEN and self.contract.unseen_policy(column) == "refuse_row"
                found = left_out if alone else violations
                found.add(file.name, column, kind, block.first_row + np.flatnonzero(mask))
            counted = np.zeros(block.n_rows, dtype=bool)
            for column, kind, mask in typed.faults:
                _count(refused, column, kind, int(np.count_nonzero(mask & ~counted)))
                counted |= mask
            parts = typed.parts
            if parts.id is not None:
                repeats.add(parts.id)
            if self.gates:
                # Values that break the contract count too: a column in other units breaks it in every row.
                self.gates.add(parts.features, parts.group, typed.unlisted)
            self._scale(parts, ~counted)
            total += block.n_rows
            kept += int(np.count_nonzero(~counted))
        if self.contract.id:
            kept -= self._find_repeats(repeats, violations, refused)
        if self.gates:
            violations.whole += [f"column {stop.words} {stop.remedy}" for stop in self.gates.stops()]
        self._conclude(violations, left_out, refused, total, kept)

    def _conclude(
        self, violations: Violations, left_out: Violations, refused: dict[str, int], total: int, kept: int
    ) -> None:
        if not total and not violations:
            violations.whole.append("the cohort has no data rows, only column names; was the export empty?")
        elif (violations or left_out) and not kept and not violations.whole:
            violations.whole.append("every row breaks the contract; was it written for another table?")
        lines = violations.lines(self._several) + left_out.lines(self._several)
        if violations.whole or (violations and self.contract.on_violation == "stop"):
            raise CohortError(lines)
        self.notes += [f"rows left out: {line}" for line in lines]
        self.notes += self.gates.notes() if self.gates else []
        self.refused, self.n_rows, self._checked = refused, total, True

    def _find_repeats(self, repeats: DuplicateIds, violations: Violations, refused: dict[str, int]) -> int:
        """Note rows whose id occurs again; return how many of them were sound otherwise."""
        self._repeated, places = repeats.found()
        if not self._repeated.size:
            return 0
        start, lost = 0, 0
        for file in self.source.files:
            mine = places[(places >= start) & (places < start + (file.rows or 0))] - start
            violations.add(file.name, self.contract.id or "", "repeated_id", 1 + mine)
            start += file.rows or 0
        if self.contract.on_violation == "stop":
            return 0
        # Rows that are left out belong to no group: centre and spread are taken anew, without them.
        self.scales = scales_of(self.contract.features)
        for file, block in self._blocks(Violations()):
            typed = self._typed(block, file)
            again, sound = self._again(typed.parts), ~typed.faulty()
            lost += int(np.count_nonzero(again & sound))
            self._scale(typed.parts, sound & ~again)
        _count(refused, self.contract.id or "", "repeated_id", lost)
        return lost

    def _scale(self, parts: Parts, good: np.ndarray) -> None:
        """Take rows in, by which features are normalised within their groups."""
        if parts.group is not None:
            for scales in self.scales:
                scales.add(parts.group[good], parts.features.take(good))

    def __iter__(self) -> Iterator[Cohort]:
        self.check()
        yield from self.unchecked()

    def unchecked(self) -> Iterator[Cohort]:
        """The rows that are sound as they stand, of a table that is checked as a whole elsewhere."""
        before = {}
        start = 0
        for file in self.source.files:
            before[id(file)] = start
            start += file.rows or 0
        for file, block in self._blocks(None):
            typed = self._typed(block, file)
            good = ~typed.faulty()
            if self._repeated.size:
                good &= ~self._again(typed.parts)
            if good.any():
                yield self._batch(typed, good, before[id(file)] + block.first_row + np.arange(block.n_rows))

    def _again(self, parts: Parts) -> np.ndarray:
        """Rows whose id stands elsewhere in the table too."""
        assert parts.id is not None, "ids repeat, so there are some"
        return np.isin(hashed(parts.id), self._repeated)

    def _blocks(self, violations: Violations | None) -> Iterator[tuple[Part, Block]]:
        for file in self.source.files:
            try:
                for block in file.blocks(self._columns, self.batch_rows):
                    yield file, block
            except CohortError as error:
                if violations is None:
                    raise
                # The other files are still read, so that all faults come together.
                violations.whole += error.violations

    def _typed(self, block: Block, file: Part) -> TypedBlock:
        contract, cells = self.contract, block.columns
        faults: list[tuple[str, str, np.ndarray]] = []
        unlisted: dict[str, np.ndarray] = {}
        broken = block.ragged | block.repeated_header
        for kind, mask in (("ragged", block.ragged), ("repeated_header", block.repeated_header)):
            if mask.any():
                faults.append(("", kind, mask))

        def kept(column: str, typed: Typed) -> np.ndarray:
            for kind, mask in typed.faults:
                # A broken row has no cells to blame.
                mask = mask & ~broken
                if self.to_score and kind == "unknown_category":
                    unlisted[column] = mask
                elif mask.any():
                    faults.append((column, kind, mask))
            return typed.values

        parts: dict[str, np.ndarray | Columns] = {}
        if contract.id:
            parts["id"] = kept(contract.id, read_text(cells[contract.id], "no_id"))
        if contract.group:
            group = kept(contract.group, read_text(cells[contract.group], "no_group"))
            parts["group"] = stems_of(group) if contract.group_stem else group
        if self.label:
            absent = "no_label" if self.need_label else None
            label = kept(self.label, read_text(cells[self.label], absent, trim=True))
            parts["label"] = np.where(label == None, "", label)  # noqa: E711
        if contract.time:
            parts["time"] = kept(contract.time, read_time(cells[contract.time], contract.date_order))
        if contract.coordinates:
            axes = [
                kept(name, read_coordinate(cells[name], file.decimal(name))) for name in contract.coordinates
            ]
            parts["coordinates"] = np.column_stack(axes)
        for part, names in (("subgroups", contract.subgroup), ("display", self._display)):
            if names:
                words = {name: kept(name, read_text(cells[name], None, trim=True)) for name in names}
                parts[part] = Columns(words, block.n_rows)
        columns = {
            name: kept(name, read_feature(cells[name], feature, file.decimal(name)))
            for name, feature in contract.features.items()
        }
        features = Columns(columns, block.n_rows)
        faults += self._refused_unseen(features, unlisted)
        return TypedBlock(made(Parts, parts | {"features": features}), faults, block.n_rows, unlisted)

    def _refused_unseen(
        self, features: Columns, unlisted: dict[str, np.ndarray]
    ) -> Iterator[tuple[str, str, np.ndarray]]:
        """Unseen categories that the contract does not want scored as unknown, as faults."""
        unseen = self.gates.unseen_rows(features) if self.gates else {}
        for name in dict.fromkeys([*unseen, *unlisted]):
            nowhere = np.zeros(features.n_rows, dtype=bool)
            mask = unseen.get(name, nowhere) | unlisted.get(name, nowhere)
            if mask.any() and self.contract.unseen_policy(name) != "unknown":
                yield name, UNSEEN, mask

    def _batch(self, typed: TypedBlock, good: np.ndarray, rows: np.ndarray) -> Cohort:
        parts = typed.parts.where(good)
        features = parts.features
        if parts.group is not None:
            for scales in self.scales:
                features = scales.applied(parts.group, features)
        return Cohort(
            values=features,
            id=rows[good].astype(str).astype(object) if parts.id is None else parts.id,
            group=parts.group,
            label=parts.label,
            time=parts.time,
            coordinates=parts.coordinates,
            subgroups=parts.subgroups,
            display=parts.display,
            raw=parts.features.only(self._normalised) if self._normalised else None,
            rows=rows[good],
            contract=self.contract,
            source=self.source,
            notes=self.notes,
            refused=self.refused,
        )


class GroupStream(CohortStream):
    """A cohort read group by group; memory is bounded by the largest of them."""

    def __iter__(self) -> Iterator[Cohort]:
        return whole_groups(super().__iter__())


def whole_groups(batches: Iterable[Cohort]) -> Iterator[Cohort]:
    """The same rows, one group a batch; CohortError where rows of a group come after those of another."""
    seen: set[str] = set()
    parts = (
        (name, batch.take(np.arange(rows.start, rows.stop)))
        for batch in batches
        for name, rows in stretches(np.asarray(batch.group))
    )
    for name, of_group in groupby(parts, key=itemgetter(0)):
        if name in seen:
            raise CohortError(
                "rows of a group do not stand together, as lesions need it; sort the table by its group"
            )
        seen.add(name)
        yield joined([part for _, part in of_group])


def _count(refused: dict[str, int], column: str, kind: str, rows: int) -> None:
    if rows:
        reason = f"{column}: {described(kind)}" if column else described(kind)
        refused[reason] = refused.get(reason, 0) + rows
