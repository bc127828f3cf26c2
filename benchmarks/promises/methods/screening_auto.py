"""This tool: `auto`, threshold by `MinSensitivity(0.9)`."""

from __future__ import annotations

from functools import partial

from promises.recipes import by_recipe

TITLE = "screening, `auto`"
flag = partial(by_recipe, "auto")
