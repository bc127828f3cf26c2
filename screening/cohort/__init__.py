"""Tables of patients: what they must hold (contract), how they are read and become numbers (encoder)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from screening.contract.contract import Contract, Feature

if TYPE_CHECKING:
    from screening.cohort.cohort import Cohort
    from screening.cohort.encoding import Encoder
    from screening.cohort.reading import (
        CohortStream,
        check_cohort,
        open_cohort,
        read_cohort,
        starter_contract,
    )

__all__ = [
    "Cohort",
    "CohortStream",
    "Contract",
    "Encoder",
    "Feature",
    "check_cohort",
    "open_cohort",
    "read_cohort",
    "starter_contract",
]


def __getattr__(name: str) -> Any:
    # pandas and pyarrow are slow to import; `--help` must not wait for them.
    if name not in __all__:
        raise AttributeError(name)
    from screening.cohort import cohort, encoding, reading

    for module in (reading, cohort, encoding):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(name)
