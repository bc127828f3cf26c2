"""This tool: `svm_weighted`, threshold by `MinSensitivity(0.9)`."""

from __future__ import annotations

from functools import partial

from promises.recipes import by_recipe

TITLE = "screening, `svm_weighted`"
flag = partial(by_recipe, "svm_weighted")
