"""Rows as `run.json` names them, and why they scored so: what each value changes against the median."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from screening.data.cohort import Cohort, joined
from screening.io.columns import absent
from screening.schemas.base import Estimate
from screening.schemas.run import Case, Contribution
from screening.scoring.reference_distribution import among_past, rarity_range
from screening.store.model import CHANCES, DISPLAY, Model


def cases_of(model: Model, rows: pa.Table) -> list[Case]:
    """One case a row of the night's table, in their order, each with the range of its rarity."""
    ranges = rarity_range(rows["p_value"].to_numpy(), len(model.calibration))
    return [
        Case(
            id=row["id"],
            group=row.get("group"),
            row=row["row"],
            score=row["score"],
            p_value=Estimate(row["p_value"], low, high),
            label=row["class"],
            display=displayed(row),
            chance=None if row.get("chance") is None else Estimate(*(row[name] for name in CHANCES)),
        )
        for row, low, high in zip(rows.to_pylist(), *ranges, strict=True)
    ]


def displayed(row: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """What the contract wants shown beside a row; None where it wants nothing."""
    shown = {name: text for name, text in row.items() if name.startswith(DISPLAY)}
    return {name.removeprefix(DISPLAY): text for name, text in shown.items()} or None


class Top:
    """The rows with the highest scores seen so far, at most `size` of them, with all their values."""

    def __init__(self, size: int):
        self.size = size
        self.kept: list[tuple[Cohort, pa.Table]] = []

    def add(self, batch: Cohort, rows: pa.Table, among: np.ndarray) -> None:
        """Take in some rows of a batch."""
        best = among[np.argsort(-rows["score"].to_numpy()[among], kind="stable")[: self.size]]
        if len(best):
            self.kept.append((batch.take(best), rows.take(best)))
            cohorts, tables = zip(*self.kept, strict=True)
            cohort, table = joined(cohorts), pa.concat_tables(tables)
            best = np.argsort(-table["score"].to_numpy(), kind="stable")[: self.size]
            self.kept = [(cohort.take(best), table.take(best))]

    def explained(self, model: Model) -> list[Case]:
        """As cases with their reasons, the highest score first."""
        return [case for cohort, rows in self.kept for case in explained(model, cohort, rows)]


SHOWN = 5
# Changed rows are scored so many at a time, all features together: a sweep has its price, and so has memory.
BLOCK = 2048


def changes(model: Model, cohort: Cohort, columns: np.ndarray) -> np.ndarray:
    """How much each feature's value raises the score over the training median in its place.

    `columns`, shape (n_rows,): which watched class each row is explained for. Returns shape (n_rows,
    n_features): score(row) - score(row with the feature at the median or most frequent category); > 0
    raises.
    """
    encoder, names = model.encoder, list(cohort.contract.features)
    encoded, typical = encoder.transform(cohort), encoder.typical_row()
    own = model.scores(encoded)[np.arange(len(encoded)), columns]
    feature_of = np.array([names.index(name) for name in encoder.columns])
    # Of most features many rows hold the median already: those need no second score.
    differ = np.zeros((len(encoded), len(names)), dtype=bool)
    row, column = np.nonzero(encoded != typical)
    differ[row, feature_of[column]] = True
    rows, features = np.nonzero(differ)
    result = np.zeros(differ.shape)
    for start in range(0, len(rows), BLOCK):
        at, j = rows[start : start + BLOCK], features[start : start + BLOCK]
        changed = np.where(feature_of == j[:, None], typical, encoded[at])
        result[at, j] = own[at] - model.scores(changed)[np.arange(len(at)), columns[at]]
    return result


def votes(model: Model, cohort: Cohort, columns: np.ndarray) -> list[dict[str, bool]] | None:
    """Which members of a blend would flag each row alone, by name; None where the model is no blend."""
    by_member = getattr(model.ensemble, "by_member", None)
    if by_member is None:
        return None
    rows = np.arange(cohort.n_rows)
    scores = by_member(model.encoder.transform(cohort))[:, :, model.watched_columns][rows, :, columns]
    members = model.facts.blend
    classes = [model.watched[column] for column in columns]
    return [
        {
            member.recipe: bool(own >= member.classes[classes[i]].threshold)
            for member, own in zip(members, scores[i], strict=True)
        }
        for i in rows
    ]


def explained(model: Model, cohort: Cohort, rows: pa.Table, most: int | None = SHOWN) -> list[Case]:
    """Rows as cases with the features that change their score most, the largest change first.

    `rows`: of the night's table. `most`: at most so many features a row; None: all that change the score.
    """
    columns = pc.index_in(rows["class"], pa.array(model.watched)).to_numpy()
    contract, training = cohort.contract, model.facts.training
    names, past = list(contract.features), training.profile.features if training.profile else {}
    facts = {feature.name: feature for feature in training.features}
    change, voted = changes(model, cohort, columns), votes(model, cohort, columns)
    values = [cohort.measured[name].tolist() for name in names]
    missing = np.column_stack([absent(cohort.measured[name]) for name in names])

    def contribution(row: int, j: int) -> Contribution:
        fact, value = facts[names[j]], values[j][row]
        lower, alike = among_past(past.get(names[j]), value)
        return Contribution(
            feature=fact.name,
            value=contract.features[fact.name].shown(value),
            unit=fact.unit,
            direction="raises" if change[row, j] > 0 else "lowers",
            change=float(change[row, j]),
            reference=fact.reference,
            seen=fact.seen,
            lower=lower,
            alike=alike,
        )

    cases = []
    for row, case in enumerate(cases_of(model, rows)):
        sizes = np.abs(change[row])
        largest = [j for j in np.argsort(-sizes, kind="stable")[:most] if sizes[j]]
        share = float(sizes[largest].sum()) / float(sizes.sum()) if largest else None
        cases.append(
            case.replace(
                contributions=[contribution(row, j) for j in largest],
                explained=share,
                missing=[names[j] for j in np.flatnonzero(missing[row])],
                votes=None if voted is None else voted[row],
            )
        )
    return cases
