"""The words that the keys of a contract choose between."""

from __future__ import annotations

from typing import Literal

OnUnseen = Literal["unknown", "refuse_row", "stop"]
OnUnitChange = Literal["stop", "attention"]
Unlabelled = Literal["refuse", "no", "leave_out"]
