"""MAPIE's risk control of recall, thresholds tested from the lowest on."""

from __future__ import annotations

from functools import partial

import promises.methods.mapie_risk_control as risk_control

TITLE = "MAPIE, risk control of recall, fixed sequence"
flag = partial(risk_control.flag, fwer_method="fixed_sequence")
