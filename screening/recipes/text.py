"""The text of a recipe: its keys, and what is wrong with them."""

from __future__ import annotations

import tomllib

from screening.errors import RecipeError
from screening.spelling import did_you_mean

# What every recipe of the kernel machines takes, named in its [parameters] or not.
ALWAYS = ("approximation", "n_landmarks")
# What a recipe's [parameters] may name of the machine itself; everything else belongs to a part of it.
MACHINE_PARAMETERS = {
    "one_class": ("nu", "passes", "tol", "seed", *ALWAYS),
    "two_class": ("C", "passes", "normalise", "stop", "seed", "tol", *ALWAYS),
    "multi_class": ("C", "passes", "cost_ratio", "normalise", "stop", "seed", "tol", *ALWAYS),
    "baseline": (),
    "blend": (),
}
BASELINES = {
    "logistic": ("C", "class_weight", "max_iter"),
    "boosting": ("learning_rate", "n_rounds", "max_leaf_nodes", "min_samples_leaf", "class_weight", "seed"),
    "random_forest": ("n_estimators", "max_depth", "min_samples_leaf", "class_weight", "seed"),
    "balanced_forest": ("n_estimators", "max_depth", "min_samples_leaf", "seed"),
    "easy_ensemble": ("n_estimators", "n_rounds", "seed"),
}
PERSISTABLE_BASELINES = ("logistic", "random_forest", "balanced_forest", "boosting")
CRITERIA = ("auroc", "average_precision", "g_mean", "best_g_mean", "balanced_accuracy")

MOST_CANDIDATES = 10_000
MOST_BYTES = 1 << 20
_REQUIRED = ("name", "title", "paper", "machine")
_OPTIONAL = (
    "about",
    "scheme",
    "baseline",
    "kernel",
    "factor",
    "remedy",
    "members",
    "scarce",
    "parameters",
    "search",
)
_SEARCH = ("criterion", "candidates", "grid", "paper")


def fields_of(text: str, source: str) -> dict[str, object]:
    """The fields of a `Recipe`, checked as far as TOML goes; RecipeError names every problem."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise RecipeError(f"{source}: tables are nested too deeply for a recipe") from None
    problems = [f"{key!r} is missing" for key in _REQUIRED if not isinstance(table.get(key), str)]
    problems += _unknown(table, (*_REQUIRED, *_OPTIONAL), "")
    for key in ("kernel", "factor", "remedy", "parameters", "search"):
        if not isinstance(table.get(key, {}), dict):
            problems.append(f"[{key}] must be a table")
    texts = ("about", "scheme", "baseline")
    problems += [f"{key} must be text" for key in texts if not isinstance(table.get(key, ""), str)]
    for part in ("grid", "paper"):
        if isinstance(table.get("search"), dict) and not isinstance(table["search"].get(part, {}), dict):
            problems.append(f"search.{part} must be a table")
    if problems:
        raise RecipeError(f"{source}: {'; '.join(problems)}")
    search = table.get("search", {})
    parameters = table.get("parameters", {})
    problems += _unknown(search, _SEARCH, "search.")
    for part in ("grid", "paper"):
        for name, values in search.get(part, {}).items():
            if not isinstance(values, list) or not values:
                problems.append(f"search.{part}.{name} must be a list of values")
            if name not in parameters and not (name == "sigma" and "gamma" in parameters):
                problems.append(f"search.{part}.{name} is not in [parameters]")
    if table["machine"] not in MACHINE_PARAMETERS:
        problems.append(f"machine {table['machine']!r} is not one of {', '.join(MACHINE_PARAMETERS)}")
    if search.get("criterion", "auroc") not in CRITERIA:
        problems.append(f"search.criterion must be one of {', '.join(CRITERIA)}")
    candidates = search.get("candidates", 8)
    if type(candidates) is not int or not 1 <= candidates <= MOST_CANDIDATES:
        problems.append(f"search.candidates must be a whole number from 1 to {MOST_CANDIDATES}")
    for key in ("members", "scarce"):
        named = table.get(key, [])
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            problems.append(f"{key} must be a list of recipes' names")
        elif named and table["machine"] != "blend":
            problems.append(f"{key} belong to machine blend, not to {table['machine']}")
    if not all(isinstance(each, dict) for each in table.get("remedy", {}).values()):
        problems.append("every remedy is a table [remedy.NAME]")
    if problems:
        raise RecipeError(f"{source}: {'; '.join(problems)}")
    return {key: table[key] for key in _REQUIRED} | {
        "text": text,
        "about": table.get("about", ""),
        "parameters": parameters,
        "search": search.get("grid", {}),
        "paper_search": search.get("paper", {}),
        "criterion": search.get("criterion", "auroc"),
        "default_candidates": search.get("candidates", 8),
        "kernel": table.get("kernel", {}),
        "factor": table.get("factor", {}),
        "remedies": table.get("remedy", {}),
        "scheme": table.get("scheme"),
        "baseline": table.get("baseline"),
        "members": tuple(table.get("members", ())),
        "scarce": tuple(table.get("scarce", ())),
    }


def _unknown(table: dict[str, object], known: tuple[str, ...], prefix: str) -> list[str]:
    keys = ", ".join(known)
    return [
        f"{prefix}{key!r} is not a key of a recipe{did_you_mean(key, known) or f' ({keys})'}"
        for key in table
        if key not in known
    ]
