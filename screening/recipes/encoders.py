"""The encoder of a recipe's rows.

Machines learn from all features, centred and scaled (`data.encoding.Encoder`). A score
from outside and a table of points are encoded as the terms of a sum; nothing is
learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd

from screening.contract.contract import Contract, Feature
from screening.data.cohort import Cohort
from screening.data.encoding import (
    ONE_CLASS_MIN_BINARY_SCALE,
    Bundles,
    Encoder,
    typical_value,
)
from screening.data.one_per_unit import ScoreOfRows, one_row_per_unit
from screening.errors import RecipeError
from screening.io.columns import Columns
from screening.recipes.building import RECIPES
from screening.recipes.points import PointsTable
from screening.recipes.recipe import Recipe
from screening.recipes.score_kind import with_score_kind
from screening.spelling import command_line

NO_SCORE = "recipe given needs a score in the table; name its column with `score`"


class RowEncoder(Protocol):
    """Encodes parsed rows as the matrix that a machine decides on.

    Attributes
    ----------
    names : list of str, length n_encoded
    columns : list of str, length n_encoded
        The feature of each encoded column.
    medians : dict of str to float, str or None
        Typical value of each feature.
    """

    names: list[str]
    columns: list[str]
    medians: dict[str, float | str | None]

    @property
    def on_log_scale(self) -> list[str]:
        """Features whose numbers are replaced by their logarithms."""

    def transform(self, values: Columns) -> np.ndarray:
        """Return the encoded rows, float64, shape (n_rows, n_encoded)."""

    def typical_row(self) -> np.ndarray:
        """Return the encoded row of typical values, shape (n_encoded,)."""

    def bundles(self) -> Bundles:
        """Return the bundles of the encoded columns."""

    def state(self) -> dict[str, np.ndarray]:
        """Return what was learned as arrays without objects."""


def is_summed(recipe: Recipe) -> bool:
    """Return True if the score is a sum for which nothing is learned."""
    return recipe.machine in ("given", "points")


def columns_of_points(*recipes: Recipe) -> list[str]:
    """Return the columns of points tables, which are features even if constant."""
    columns = []
    for recipe in recipes:
        if recipe.points is not None:
            columns += recipe.points.columns
    return columns


def is_encoded_alike(recipe: Recipe, other: Recipe) -> bool:
    """Return True if one encoding of the same rows serves both recipes."""
    if is_summed(recipe) or is_summed(other):
        return False
    is_one_class = recipe.machine == "one_class"
    return is_one_class == (other.machine == "one_class") and (
        recipe.log_skewed == other.log_skewed
    )


def columns_used(recipe: Recipe, contract: Contract) -> list[str]:
    """Return the features that a recipe uses, and those that are only shown.

    Raises
    ------
    RecipeError
        If a feature is missing in the contract.
    """
    if recipe.machine == "given":
        if not contract.score:
            raise RecipeError(NO_SCORE, parameters=["score"])
        used = [contract.score]
    elif recipe.points is not None:
        used = recipe.points.columns
        _check_points(recipe, recipe.points, contract)
    else:
        used = [name for name in contract.features if name != contract.score]
        if not used:
            raise RecipeError(
                f"recipe {recipe.name}: the table has no column to learn from, only "
                "the score; use the recipe `given`"
            )
        return used
    return list(dict.fromkeys([*used, *contract.show]))


def has_columns(recipe: Recipe, contract: Contract) -> bool:
    """Return True if a contract has the columns that a recipe uses."""
    try:
        columns_used(recipe, contract)
    except RecipeError:
        return False
    return True


def _check_points(recipe: Recipe, table: PointsTable, contract: Contract) -> None:
    """Raise RecipeError unless the contract has the columns, of fitting types."""
    absent_columns = [name for name in table.columns if name not in contract.features]
    if absent_columns:
        place = "it"
        if recipe.name in RECIPES:
            copy_it = command_line("recipes", recipe.name, "--toml")
            place = f"a copy of it (`{copy_it}`)"
        raise RecipeError(
            f"recipe {recipe.name}: the table has no feature "
            f"{', '.join(absent_columns)}; name your columns in {place}"
        )
    faults = [item.fault(contract.features[item.column]) for item in table.items]
    stated = [fault for fault in faults if fault is not None]
    if stated:
        raise RecipeError(f"recipe {recipe.name}: {'; '.join(stated)}")


def features_used(recipe: Recipe, contract: Contract) -> dict[str, Feature]:
    """Return the features that a recipe uses, in the order of the contract."""
    used = columns_used(recipe, contract)
    return {name: contract.features[name] for name in contract.features if name in used}


def model_contract(recipe: Recipe, cohort: Cohort) -> Contract:
    """Return the contract of a model: the features that it needs every night.

    A row without the value of a score is left out there.
    """
    contract = cohort.contract
    features = features_used(recipe, contract)
    for name in columns_needed(recipe, contract):
        features[name] = features[name].model_copy(update={"missing": "leave_out"})
    return contract.with_features(
        features,
        show=contract.show if is_summed(recipe) else [],
        kind=contract.kind or cohort.score_kind,
    )


def columns_needed(recipe: Recipe, contract: Contract) -> list[str]:
    """Return the features that a row needs for a score."""
    if recipe.machine == "given":
        return [contract.score] if contract.score else []
    if recipe.points is not None and recipe.points.missing == "leave_out":
        return [item.column for item in recipe.points.items if item.missing is None]
    return []


def score_of_rows(recipe: Recipe, contract: Contract) -> ScoreOfRows | None:
    """Return the scores by which one row of each unit is taken; None to take all.

    A recipe that learns its score takes the last or the first row.

    Raises
    ------
    RecipeError
        If the most suspicious row is to be taken by a score that is learned.
    """
    if contract.per_unit is None:
        return None
    if not is_summed(recipe):
        if contract.per_unit.take == "max":
            raise RecipeError(
                f'[score] take = "max" needs a score that is not learned: {recipe.name}'
                " learns its own; use the recipe `given` or a points recipe, or take "
                "the last row"
            )
        return lambda values: np.zeros(len(next(iter(values.values()))))
    encoder = ScoreEncoder(recipe, contract)
    needed = columns_needed(recipe, contract)

    def scores(values: Columns) -> np.ndarray:
        score = encoder.transform(values).sum(axis=1)
        for name in needed:
            score[pd.isna(values[name])] = np.nan
        return score

    return scores


def with_scores(cohort: Cohort, recipes: Sequence[Recipe]) -> Cohort:
    """Return the rows of a cohort that all of some recipes can score.

    Where the contract takes one row of each unit, it is taken by the first recipe that
    can. How many are left out is noted.

    Raises
    ------
    RecipeError
        If a column of a score is missing in the cohort.
    """
    for recipe in recipes:
        columns_used(recipe, cohort.contract)
    if any(recipe.machine == "given" for recipe in recipes):
        cohort = with_score_kind(cohort)
    if cohort.contract.per_unit is not None:
        needs_score = cohort.contract.per_unit.take == "max"
        choosers = [
            recipe for recipe in recipes if is_summed(recipe) or not needs_score
        ]
        chooser = [*choosers, *recipes][0]
        cohort = one_row_per_unit(cohort, score_of_rows(chooser, cohort.contract))
    for recipe in recipes:
        has_score = np.ones(cohort.n_rows, dtype=bool)
        columns = columns_needed(recipe, cohort.contract)
        for name in columns:
            has_score &= ~pd.isna(cohort.values[name])
        n_without = int(np.count_nonzero(~has_score))
        if not n_without:
            continue
        if n_without == cohort.n_rows:
            raise RecipeError(
                f"recipe {recipe.name}: no row has a number in {', '.join(columns)};"
                " name another column",
                parameters=["score"],
            )
        note = f"{n_without} rows are left out: {recipe.name} needs their score"
        cohort = replace(cohort.take(has_score), notes=[*cohort.notes, note])
    return cohort


class ScoreEncoder:
    """Encodes rows as the terms of a score: its value, or the points of each item.

    Parameters
    ----------
    recipe : Recipe
        Of machine "given" or "points".
    contract : Contract
    """

    def __init__(self, recipe: Recipe, contract: Contract) -> None:
        self._table = recipe.points
        self._features = features_used(recipe, contract)
        self._sign = -1.0 if contract.higher == "better" else 1.0
        if self._table is not None:
            self.columns = self._table.columns
        else:
            self.columns = [str(contract.score)]
        self.names = list(self.columns)
        self.medians: dict[str, float | str | None] = {}
        self._typical = np.zeros(len(self.columns))

    def fit(self, values: Columns) -> ScoreEncoder:
        """Note typical values; a given score is explained beside its median."""
        for name, feature in self._features.items():
            self.medians[name] = typical_value(feature, values[name])
        if self._table is None:
            self._typical = np.nanmedian(self.transform(values), axis=0)
        return self

    def transform(self, values: Columns) -> np.ndarray:
        """Return the terms, float64, shape (n_rows, n_terms)."""
        if self._table is None:
            score = np.asarray(values[self.columns[0]], dtype=float)
            return self._sign * score[:, None]
        terms = []
        for item in self._table.items:
            feature = self._features[item.column]
            points = item.points_of(
                values[item.column], feature, self._table.points_if_missing
            )
            terms.append(points)
        return np.column_stack(terms)

    def typical_row(self) -> np.ndarray:
        """Return the terms of a typical row: no points, or the median score."""
        return self._typical

    def bundles(self) -> Bundles:
        """Return every term as a bundle of its own."""
        n_terms = len(self.columns)
        return Bundles(np.arange(n_terms), np.ones(n_terms))

    @property
    def on_log_scale(self) -> list[str]:
        """No features: terms are summed as they are."""
        return []

    def state(self) -> dict[str, np.ndarray]:
        """Return the typical row, for `restored_encoder`."""
        return {"typical": self._typical}

    def restore(self, state: Mapping[str, np.ndarray]) -> ScoreEncoder:
        """Set the state; ValueError if it is that of other terms."""
        typical = state["typical"]
        if typical.shape != self._typical.shape or typical.dtype != np.float64:
            raise ValueError("typical: expected one number per term")
        self._typical = typical
        return self


def learned_encoding(
    recipe: Recipe, cohort: Cohort, target: np.ndarray
) -> tuple[RowEncoder, np.ndarray]:
    """Return the encoder of a recipe's rows, fitted to a cohort, and the encoded rows.

    A one-class machine learns from negatives alone, and so does its encoder: positives
    stretch the scale.

    Parameters
    ----------
    recipe : Recipe
    cohort : Cohort
    target : int ndarray of shape (n_rows,)
        Class codes.
    """
    contract = cohort.contract
    if is_summed(recipe):
        summed = ScoreEncoder(recipe, contract).fit(cohort.values)
        return summed, summed.transform(cohort.values)
    features = features_used(recipe, contract)
    if recipe.machine == "one_class":
        encoder = Encoder(
            features, ONE_CLASS_MIN_BINARY_SCALE, log_skewed=recipe.log_skewed
        )
        encoder.fit(cohort.take(target == 0).values)
        return encoder, encoder.transform(cohort.values)
    encoder = Encoder(features, log_skewed=recipe.log_skewed)
    return encoder, encoder.fit_transform(cohort.values)


def restored_encoder(
    recipe: Recipe, contract: Contract, state: Mapping[str, np.ndarray]
) -> RowEncoder:
    """Return the encoder of a stored model; ValueError if the state is of another."""
    if is_summed(recipe):
        return ScoreEncoder(recipe, contract).restore(state)
    return Encoder.from_state(contract.features, state)
