"""Rows as `run.json` names them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from screening.documents.case import Case
from screening.scoring.contributions import Reasons
from screening.scoring.standing import rarity_range
from screening.storage.chances import Chances

if TYPE_CHECKING:
    import pandas as pd

    from screening.storage.model import Model


def cases_of(
    model: Model,
    *,
    ids: np.ndarray,
    group: np.ndarray | None,
    row: np.ndarray,
    score: np.ndarray,
    p_value: np.ndarray,
    column: np.ndarray,
    display: pd.DataFrame | None,
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


def displayed(table: pd.DataFrame | None, row: int) -> dict[str, str | None] | None:
    """What the contract wants shown beside a row."""
    return None if table is None else dict(table.iloc[row])
