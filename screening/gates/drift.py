"""Gates before scoring: is tonight's table of the kind the model was trained on, column by column.

Training stores a small profile; the first pass over a night's table counts on its bins, so memory does not
grow with the table. Every alarm is a test against chance at the night's own size, all together at `ALARMS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from screening.contract.contract import Contract
from screening.documents.base import Reason
from screening.documents.model import NumberProfile, Profile
from screening.documents.run import FeatureDrift
from screening.gates import tests
from screening.gates.column_profile import Column, missing_in
from screening.gates.conversions import conversions_of
from screening.gates.units import UnitShift, unit_shift
from screening.sources.columns import Columns

# Of nights from the population of training at most the sum of these raise any alarm: one in a hundred.
ALARMS = {"values": 0.004, "missing": 0.003, "unseen": 0.002, "outside": 0.0005, "units": 0.0005}
# A conversion is looked for only where values differ at least so surely.
DIFFERS = 0.001
# Beside the test, what is worth a word: a difference of shares, and a share outside the training range.
WORTH_SAYING = 0.1
MORE_MISSING = 0.05
OUTSIDE = 0.02
CHECK = "Check the source of the column; where the difference is meant, train again on rows like tonight's."


class Gates:
    """Counts a night's rows against a training profile; a `CohortStream` feeds it in its first pass.

    `past`: features it does not know are let through.
    """

    def __init__(self, past: Profile, contract: Contract):
        self.contract = contract
        self.past, self.n_units = past, past.n_units
        self.n_rows = 0
        self.groups: Counter[str] = Counter()
        self.columns = {
            name: Column(past.features[name], missing_in(past, name))
            for name in contract.features
            if name in past.features
        }
        self._units: dict[str, UnitShift | None] | None = None

    def add(
        self,
        features: Columns,
        groups: np.ndarray | None = None,
        unlisted: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Take in the rows of one batch, before normalisation; `unlisted` texts are not in the contract."""
        self._units = None
        self.n_rows += features.n_rows
        if groups is not None:
            self.groups.update(groups)
        for name, column in self.columns.items():
            column.add(features[name])
            if unlisted and name in unlisted and self.contract.features[name].type == "ordinal":
                # Such a row has no code, so its text is not among the values.
                column.add_unlisted(int(np.count_nonzero(unlisted[name])))

    def unseen_rows(self, features: Columns) -> dict[str, np.ndarray]:
        """Per category feature the rows whose text no training row had, as masks."""
        return {
            name: np.array([text not in column.known for text in features[name].tolist()], dtype=bool)
            for name, column in self.columns.items()
            if self.contract.features[name].type == "category" and not column.more
        }

    def stops(self) -> list[Reason]:
        """Reasons not to score at all: columns in other units than the model's, by contract."""
        return [
            self._of_unit(name, shift)
            for name, shift in self._shifts().items()
            if shift and shift.sure and self.contract.unit_policy(name) == "stop"
        ]

    def changed_units(self) -> list[Reason]:
        """Columns that are in other units surely, or in some of their rows."""
        return [
            self._of_unit(name, shift)
            for name, shift in self._shifts().items()
            if shift and (shift.sure or shift.share < 1)
        ]

    def notes(self) -> list[str]:
        """What is worth counting aloud and is no alarm: rows of unseen categories that are scored."""
        return [
            f"{name}: {column.n_unseen} row{'s' * (column.n_unseen != 1)} with a category never seen in "
            "training, scored as unknown"
            for name, column in self.columns.items()
            if column.n_unseen and self.contract.unseen_policy(name) == "unknown"
        ]

    def attention(self) -> list[Reason]:
        """Reasons to distrust tonight's scores; empty on 99 of 100 nights like those of training."""
        reasons, shifts = list[Reason](), self._shifts()
        for name, column in self.columns.items():
            shift = shifts.get(name)
            if shift:
                reasons.append(self._of_unit(name, shift))
            reasons += self._of_rows(name, column)
            if not shift and not self.normalised(name):
                reasons += self._of_values(name, column)
        return reasons

    def facts(self) -> dict[str, FeatureDrift]:
        """Every feature beside training."""
        return {
            name: FeatureDrift(
                psi=column.index(),
                ks=column.distance(),
                outside=column.outside / column.present if column.present else 0.0,
                unseen=column.n_unseen,
                normalised=self.normalised(name),
                alarm=not self.normalised(name)
                and any(one.code == "values_differ" for one in self._of_values(name, column)),
            )
            for name, column in self.columns.items()
        }

    def normalised(self, name: str) -> bool:
        """Whether scale and centre of this feature are taken out within each group before scoring."""
        return self.contract.features[name].normalise is not None

    def allowed(self, gate: str) -> float:
        """The chance one column may have of a false alarm, so that all together keep to `ALARMS`."""
        if gate == "missing":
            concerned = len(self.columns)
        elif gate == "unseen":
            concerned = sum(not column.numeric for column in self.columns.values())
        elif gate == "values":
            concerned = sum(not self.normalised(name) for name in self.columns)
        else:
            concerned = len(list(self._numbers()))
        return ALARMS[gate] / max(concerned, 1)

    def _numbers(self) -> Iterator[tuple[str, Column]]:
        return (
            (name, column)
            for name, column in self.columns.items()
            if column.numeric and not self.normalised(name)
        )

    def per_row(self) -> float:
        """What a row of tonight is worth in independent ones."""
        return tests.effective_units(self.groups.values()) / self.n_rows if self.groups else 1.0

    def _per_past_row(self, column: Column) -> float:
        """What a training row is worth in independent ones."""
        return min(1.0, self.n_units / max(column.n_past + column.missing_past, 1))

    def _shifts(self) -> dict[str, UnitShift | None]:
        """Per number the conversion that explains its values better than an honest difference would."""
        if self._units is None:
            self._units = {name: self._shift(name, column) for name, column in self._numbers()}
        return self._units

    def _shift(self, name: str, column: Column) -> UnitShift | None:
        now, past = self.per_row(), self._per_past_row(column)
        rows, distance = column.present * now, column.distance()
        if distance is None or not isinstance(column.past, NumberProfile):
            return None
        differs = tests.other_distribution(distance, rows, column.n_past * past) < DIFFERS
        return unit_shift(
            column.sample.values, column.past, conversions_of(name, self.contract.features[name].unit),
            n_units=column.n_past * past, night_units=rows, differs=differs, chance=self.allowed("units"),
        )  # fmt: skip

    def _of_unit(self, name: str, shift: UnitShift) -> Reason:
        found = shift.conversion
        units = f"in {found.after} instead of {found.before}" if found.after else "in another unit"
        if shift.share < 1:
            words = f"{name}: in {shift.share:.0%} of the rows the values look {units} ({found.words})."
        elif shift.sure:
            words = f"{name}: the values look {units} than in training ({found.words})."
            words = words if not found.after else words.replace(" than in training", "")
        else:
            words = f"{name}: the values may be {units} ({found.words}), or those of quite other patients."
        remedy = (
            "Convert the column, or have the source send the old unit again."
            if shift.sure
            else "Ask the source of the column for its unit."
        )
        # A conversion that is never sure has no bound, and JSON no infinity.
        bound = shift.bound if np.isfinite(shift.bound) else None
        return Reason("unit_changed", words, name, shift.ratio, bound, remedy)

    def _sure(self, gate: str, code: str, words: str, name: str, p: float) -> Iterator[Reason]:
        """What a gate says, where chance does not explain it."""
        allowed = self.allowed(gate)
        if p < allowed:
            yield Reason(code, f"{name}: {words}", name, p, allowed, CHECK)

    def _of_rows(self, name: str, column: Column) -> Iterator[Reason]:
        """Whether values are missing, or of categories that training never had."""
        now, past = self.per_row(), self._per_past_row(column)
        gone, before = self.n_rows - column.present, column.missing_past
        rows, rows_past = self.n_rows, before + column.n_past
        share, share_past = gone / max(rows, 1), before / max(rows_past, 1)
        if rows and share - share_past >= MORE_MISSING:
            p = tests.more_often(gone * now, rows * now, before * past, rows_past * past)
            words = f"missing in {share:.0%} of the rows, in training in {share_past:.0%}."
            yield from self._sure("missing", "missing_more", words, name, p)
        if column.n_unseen:
            new = [n * now for n in column.unseen.values()]
            p = tests.never_seen(new, column.expected * past, column.present * now)
            words = f"{column.n_unseen} of {column.present} rows with a category never seen in training."
            yield from self._sure("unseen", "unseen_category", words, name, p)

    def _of_values(self, name: str, column: Column) -> Iterator[Reason]:
        """Whether values are distributed otherwise, or lie outside the range of training."""
        now, past = self.per_row(), self._per_past_row(column)
        rows, rows_past, distance = column.present * now, column.n_past * past, column.distance() or 0.0
        if distance >= WORTH_SAYING:
            if column.numeric:
                p = tests.other_distribution(distance, rows, rows_past)
            else:
                p = tests.other_shares(column.counts * now, column.expected * past)
            figures = f"PSI {column.index():.2f}, distance {distance:.2f}"
            words = f"distributed differently from training ({figures})."
            yield from self._sure("values", "values_differ", words, name, p)
        if column.outside and column.outside >= OUTSIDE * column.present:
            p = tests.outside(column.outside * now, rows, rows_past)
            words = f"{column.outside} of {column.present} values lie outside the training range."
            yield from self._sure("outside", "outside_range", words, name, p)
