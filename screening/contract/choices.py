"""Words that keys of a contract choose between; options share them, without NumPy."""

from __future__ import annotations

from typing import Literal

OnUnseen = Literal["unknown", "refuse_row", "stop"]
OnUnitChange = Literal["stop", "attention"]
Unlabelled = Literal["refuse", "no", "leave_out"]
