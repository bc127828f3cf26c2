"""Rows as `run.json` names them, and why they scored so: what each value changes against the median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from screening.cohort.cohort import Cohort, joined
from screening.documents.base import Estimate
from screening.documents.model import FeatureFacts
from screening.documents.run import Case, Contribution
from screening.scoring.reference_distribution import Past, rarity_range
from screening.scoring.rows import DISPLAY, RowColumns
from screening.sources.columns import absent
from screening.storage.model import CHANCES, Model, Scored


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
        self.kept: tuple[Cohort, Scored] | None = None

    def add(self, batch: Cohort, scored: Scored, chosen: np.ndarray) -> None:
        """Take in the chosen rows of a batch."""
        rows = chosen[np.argsort(-scored.score[chosen], kind="stable")[: self.size]]
        if len(rows) == 0:
            return
        cohort, figures = batch.take(rows), scored.take(rows)
        if self.kept is not None:
            cohort = joined([self.kept[0], cohort])
            figures = self.kept[1].followed_by(figures)
        best = np.argsort(-figures.score, kind="stable")[: self.size]
        self.kept = cohort.take(best), figures.take(best)

    def explained(self, model: Model) -> list[Case]:
        """As cases with their reasons, the highest score first."""
        return [] if self.kept is None else explained(model, *self.kept)


SHOWN = 5
# Changed rows are scored so many at a time, all features together: a sweep has its price, and so has memory.
BLOCK = 2048


@dataclass(frozen=True)
class Reasons:
    """What makes a row's score, with what a reader needs to judge it."""

    contributions: Sequence[Contribution]  # The largest change first.
    explained: float | None  # Their share in the changes of all values.
    missing: Sequence[str]  # Features without a value in this row.
    votes: Mapping[str, bool] | None  # Of a blend, which members would flag the row alone.


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


def explained(model: Model, cohort: Cohort, scored: Scored, most: int | None = SHOWN) -> list[Case]:
    """Rows as cases with their reasons; `most` as in `contributions`."""
    cases = cases_of(model, RowColumns(model).table(cohort, scored))
    reasons = contributions(model, cohort, scored.column, most)
    return [case.replace(**vars(why)) for case, why in zip(cases, reasons, strict=True)]


def contributions(
    model: Model, cohort: Cohort, columns: np.ndarray, most: int | None = SHOWN
) -> list[Reasons]:
    """For every row the features that change its score most, with what a reader needs to judge them.

    `most`: at most so many a row; None: all that change the score.
    """
    names = list(cohort.contract.features)
    past = Past(model.facts.training.profile)
    facts = {feature.name: feature for feature in model.facts.training.features}
    change = changes(model, cohort, columns)
    voted = votes(model, cohort, columns)
    explained = []
    shown = [cohort.measured[name] for name in names]
    missing = np.column_stack([absent(values) for values in shown])
    for i, values in enumerate(zip(*(values.tolist() for values in shown), strict=True)):
        largest = [j for j in np.argsort(-np.abs(change[i]), kind="stable")[:most] if change[i, j] != 0]
        explained.append(
            Reasons(
                contributions=[
                    _contribution(cohort, facts[names[j]], values[j], change[i, j], past) for j in largest
                ],
                explained=_share(np.abs(change[i]), largest),
                missing=[names[j] for j in np.flatnonzero(missing[i])],
                votes=None if voted is None else voted[i],
            )
        )
    return explained


def _contribution(
    cohort: Cohort, facts: FeatureFacts, value: float | str | None, change: float, past: Past
) -> Contribution:
    among = past.of(facts.name, value)
    return Contribution(
        feature=facts.name,
        value=cohort.contract.features[facts.name].shown(value),
        unit=facts.unit,
        direction="raises" if change > 0 else "lowers",
        change=float(change),
        reference=facts.reference,
        seen=facts.seen,
        lower=among["lower"],
        alike=among["alike"],
    )


def _share(sizes: np.ndarray, chosen: list[int]) -> float | None:
    whole = float(sizes.sum())
    return float(sizes[chosen].sum()) / whole if whole > 0 else None
