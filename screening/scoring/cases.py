"""Rows as `run.json` names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.cohort.cohort import Cohort, joined
from screening.documents.case import Case
from screening.scoring.contributions import Reasons, contributions
from screening.scoring.reference_distribution import rarity_range
from screening.sources.columns import Columns
from screening.storage.model import Chances, Model, Scored


def cases_of(
    model: Model,
    *,
    ids: np.ndarray,
    group: np.ndarray | None,
    row: np.ndarray,
    score: np.ndarray,
    p_value: np.ndarray,
    column: np.ndarray,
    display: Columns | None,
) -> list[Case]:
    """One case a row, in their order, each with its chance and the range of its rarity."""
    chances = Chances(model).listed(score, column)
    low, high = rarity_range(p_value, len(model.calibration))
    return [
        Case(
            id=str(ids[i]),
            group=None if group is None else str(group[i]),
            row=int(row[i]),
            score=float(score[i]),
            p_value=float(p_value[i]),
            label=model.watched[column[i]],
            display=displayed(display, i),
            chance=chance["chance"],
            chance_low=chance["chance_low"],
            chance_high=chance["chance_high"],
            p_low=float(low[i]),
            p_high=float(high[i]),
        )
        for i, chance in enumerate(chances)
    ]


def because(case: Case, why: Reasons) -> Case:
    """The case with what makes its score."""
    return replace(
        case,
        contributions=why.contributions,
        explained=why.explained,
        missing=why.missing,
        votes=why.votes,
    )


def displayed(table: Columns | None, row: int) -> dict[str, str | None] | None:
    """What the contract wants shown beside a row."""
    return None if table is None else {name: values[row] for name, values in table.items()}


class Top:
    """The rows with the highest scores seen so far, at most `size` of them."""

    def __init__(self, size: int):
        self.size = size
        self.cohort: Cohort | None = None
        self.score = self.p_value = np.empty(0)
        self.column = self.row = np.empty(0, dtype=np.int64)

    def add(self, batch: Cohort, scored: Scored, chosen: np.ndarray) -> None:
        """Take in the chosen rows of a batch."""
        rows = chosen[np.argsort(-scored.score[chosen], kind="stable")[: self.size]]
        if len(rows) == 0:
            return
        kept = batch.take(rows)
        self.cohort = kept if self.cohort is None else joined([self.cohort, kept])
        self.score = np.concatenate([self.score, scored.score[rows]])
        self.p_value = np.concatenate([self.p_value, scored.p_value[rows]])
        self.column = np.concatenate([self.column, scored.column[rows]])
        self.row = np.concatenate([self.row, batch.rows[rows]])
        best = np.argsort(-self.score, kind="stable")[: self.size]
        self.cohort = self.cohort.take(best)
        self.score, self.p_value = self.score[best], self.p_value[best]
        self.column, self.row = self.column[best], self.row[best]

    def listed(self, model: Model) -> list[Case]:
        """As cases with their reasons, the highest score first."""
        if self.cohort is None:
            return []
        cases = cases_of(
            model,
            ids=self.cohort.id,
            group=self.cohort.group,
            row=self.row,
            score=self.score,
            p_value=self.p_value,
            column=self.column,
            display=self.cohort.display,
        )
        reasons = contributions(model, self.cohort, self.column)
        return [because(case, why) for case, why in zip(cases, reasons, strict=True)]
