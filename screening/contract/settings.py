"""Keys of a contract that are set from a command line, as KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from screening.contract.contract import Contract
from screening.errors import UsageError
from screening.spelling import did_you_mean, names_from

# These are tables of the contract, with keys of their own.
_TABLES = ("features", "outcome", "per_unit")
KEYS = tuple(key for key in Contract.model_fields if key not in _TABLES)


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Parse keys of `[cohort]` to values of their types.

    Parameters
    ----------
    settings : iterable of str
        Each KEY=VALUE, such as ``capacity=12``. The items of a list have commas between
        them: ``display=ward,bed``.

    Raises
    ------
    UsageError
        A setting has no `=`, its key is unknown or given twice, or its value is not of
        the key's type.
    """
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, sign, text = setting.partition("=")
        key = key.strip()
        if not sign:
            raise UsageError("--set: write KEY=VALUE, such as capacity=12")
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"; known: {', '.join(KEYS)}"
            raise UsageError(f"--set: [cohort] has no key {key!r}{hint}")
        if key in parsed:
            raise UsageError(f"--set: {key} is given twice")
        parsed[key] = _value_of(key, text.strip())
    return parsed


def _value_of(key: str, text: str) -> Any:
    """Return the value of a key, of the key's type."""
    field = Contract.model_fields[key]
    is_list = isinstance(field.get_default(), list)
    kind: Any = Annotated[field.annotation, field]
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        if is_list:
            return adapter.validate_python(names_from(text))
        return adapter.validate_strings(text)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--set: {key}: {problem}") from None
