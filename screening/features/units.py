"""Values in the unit that a feature wants, by the table of the gates."""

from __future__ import annotations

from screening.contract.quantities import (
    KINDS,
    Quantity,
    name_words,
    offset,
    quantity_named,
    spelled,
    standard_unit,
)
from screening.features.spec import Coded

# Words of a feature's name that do not say what is measured.
NOT_MEASURED = frozenset({"change", "count"})


def conversion(
    feature: Coded, name: str, met: str | None
) -> tuple[float, float] | None:
    """Return factor and shift to the unit that a feature wants: factor * value + shift.

    Parameters
    ----------
    feature : Coded
        With a unit.
    name : str
        Name of the feature, which may say what is measured.
    met : str or None
        Unit of the value.

    Returns
    -------
    (float, float) or None
        None where the value has no unit, or the table has no conversion, or several.
    """
    wanted = standard_unit(feature.unit)
    found = standard_unit(met)
    if not found:
        return None
    if found == wanted:
        return 1.0, 0.0
    words = feature.quantity or " ".join(name_words(name) - NOT_MEASURED)
    quantity = quantity_named(words)
    candidates = [*([quantity] if quantity else ()), *KINDS]
    for candidate in candidates:
        before = _amounts(candidate, found)
        after = _amounts(candidate, wanted)
        if len(before) == 1 and len(after) == 1:
            return after[0] / before[0], offset(found, wanted)
    return None


def _amounts(quantity: Quantity, unit: str) -> list[float]:
    """Return the number that one amount has in a unit: none, one, or several."""
    # "mg/dL of urea" is mg/dL, as "mg/dL of urea nitrogen" is.
    return [amount for name, amount in quantity.units if spelled(name) == unit]
