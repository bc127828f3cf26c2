"""This tool: `one_class`, threshold by `MinSensitivity(0.9)`."""

from __future__ import annotations

from functools import partial

from promises.recipes import by_recipe

TITLE = "screening, `one_class`"
flag = partial(by_recipe, "one_class")
