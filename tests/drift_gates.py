"""A ward's contract, and its gates fed with a table."""

import pandas as pd
from flow_cohorts import patients

from screening.contract.contract import Contract
from screening.io.columns import columns_of
from screening.monitoring.drift import Gates, profile
from screening.schemas.model import Profile

CONTRACT = Contract.from_dict(
    {
        "cohort": {"id": "patient", "label": "ill"},
        "features": {
            "fever": {"type": "number", "unit": "degC", "plausible": [30, 45]},
            "crp": {"type": "number"},
            "ward": {"type": "category"},
        },
    }
)


def kinds(**types: str) -> Contract:
    """A contract of columns by their types, and nothing else."""
    return Contract.from_dict({"features": {name: {"type": kind} for name, kind in types.items()}})


def stored(table: pd.DataFrame, contract: Contract = CONTRACT, groups: object = None) -> Profile:
    return profile(columns_of(table[list(contract.features)]), contract, groups)


def gated(
    table: pd.DataFrame, past: pd.DataFrame | None = None, contract: Contract = CONTRACT,
    groups: object = None, past_groups: object = None,
) -> Gates:  # fmt: skip
    gates = Gates(stored(patients(600) if past is None else past, contract, past_groups), contract)
    gates.add(columns_of(table[list(contract.features)]), groups)
    return gates


def codes(gates: Gates) -> list[str]:
    return [reason.code for reason in gates.attention()]


def said(gates: Gates) -> str:
    return " ".join(reason.words for reason in gates.attention())
