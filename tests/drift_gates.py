"""A ward's contract, and its gates fed with a table."""

import pandas as pd
from flow_cohorts import patients

from screening.contract.contract import Contract
from screening.gates.column_profile import profile
from screening.gates.drift import Gates
from screening.sources.columns import Columns

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


def stored(table: pd.DataFrame, contract: Contract = CONTRACT) -> dict:
    return profile(Columns.of(table[list(contract.features)]), contract)


def gated(table: pd.DataFrame, past: pd.DataFrame | None = None, contract: Contract = CONTRACT) -> Gates:
    gates = Gates(stored(patients(600) if past is None else past, contract), contract)
    gates.add(Columns.of(table[list(contract.features)]))
    return gates


def said(gates: Gates) -> str:
    return " ".join(reason.words for reason in gates.attention())
