"""A ward table of a few columns, and the gates that a past of it sets."""

import numpy as np
import pandas as pd
from flow_cohorts import columns_of, patients

from screening.contract.contract import Contract
from screening.io.columns import count_rows
from screening.monitoring.drift import Gates
from screening.monitoring.profile import profile
from screening.schemas.model import Profile

CONTRACT = Contract.from_dict(
    {
        "cohort": {"id": "patient", "label": "ill"},
        "features": {
            "fever": {
                "type": "number",
                "unit": "degC",
                "plausible": [30, 45],
            },
            "crp": {"type": "number"},
            "ward": {"type": "category"},
        },
    }
)


def stored(
    table: pd.DataFrame, contract: Contract = CONTRACT, groups: object = None
) -> Profile:
    features = table[list(contract.features)]
    return profile(columns_of(features), contract, groups)


def count_in(gates: Gates, features, groups=None, start=0, **more) -> None:
    rows = start + np.arange(count_rows(features))
    gates.add(gates.count(features, rows, groups, **more))


def gated(
    table: pd.DataFrame,
    past: pd.DataFrame | None = None,
    contract: Contract = CONTRACT,
    groups: object = None,
    past_groups: object = None,
) -> Gates:
    if past is None:
        past = patients(600)
    gates = Gates(stored(past, contract, past_groups), contract)
    features = table[list(contract.features)]
    count_in(gates, columns_of(features), groups)
    return gates
