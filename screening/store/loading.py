"""A model directory read back: held to its digests, and proven to score as when it was trained."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from screening.contract.contract import Contract
from screening.data.encoding import Bundles, Encoder
from screening.errors import CohortError, ModelError, RecipeError
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble
from screening.estimators.passes import under
from screening.files import read_bounded
from screening.io.arrow_files import read_small_table
from screening.recipes.building import build, read_recipe
from screening.recipes.recipe import Recipe
from screening.store.model import Model
from screening.store.serialization import read_document, steady, unpack, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Another processor or BLAS may differ in the last digits, another version in which sums are float32 (right to
# 3e-5 of the largest, `kernels.pairwise.in_double`); a damaged machine differs in the first.
SELF_TEST_TOLERANCE = 1e-4
# Bytes of a file on disk; no model comes near.
LARGEST = {"arrays.npz": 1 << 30, "validation.parquet": 256 << 20}


def load_model(
    directory: str | Path, signed_by: Ed25519PublicKey | None = None
) -> Model:
    """Read a model directory and prove that it still scores as it did when it was trained.

    One that is replaced meanwhile is read as it was before or as it is after.

    Parameters
    ----------
    directory : str or Path
        Written by `save_model` or ``screen train``.
    signed_by : Ed25519PublicKey, optional
        Whose signature it must bear (`screening.store.serialization.public_key`).

    Returns
    -------
    Model
        It scores as it did when it was written.

    Raises
    ------
    ModelError
        A file is missing, damaged or of a newer format, the signature asked for is not there, or the
        self-test rows score differently.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from tempfile import mkdtemp
    >>> from screening import load_model, read_cohort, save_model, train
    >>> samples = files("screening.sample_cohorts")
    >>> past = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> model = train(past, "logistic", search=1)
    >>> load_model(save_model(model, mkdtemp())).id == model.id
    True
    """
    folder = Path(directory)
    document, content, held_out, trained = steady(
        folder, lambda: _read_files(folder, signed_by)
    )
    arrays = unpack(content)
    try:
        recipe = read_recipe(document["recipe"]["text"])
        contract = Contract.from_dict(document["contract"])
        encoder = Encoder.from_state(contract, under(arrays, "encoder/"))
        model = Model(
            document=document,
            recipe=recipe,
            contract=contract,
            encoder=encoder,
            ensemble=_restored(
                recipe, document, under(arrays, "estimator/"), encoder.bundles()
            ),
            calibration=arrays["calibration"],
            held_out=read_small_table(held_out),
            selftest=arrays["selftest/x"],
            directory=folder,
            trained=trained,
        )
        rescored, stored = model.scores(arrays["selftest/x"]), arrays["selftest/score"]
    except (CohortError, RecipeError) as error:
        raise ModelError(
            f"{folder}: the model cannot be rebuilt ({error}); train it again"
        ) from error
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        # Not in its own words: they might be a patient's.
        raise ModelError(
            f"{folder}: the model is damaged ({type(error).__name__}); train it again"
        ) from error
    scale = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
    if (
        rescored.shape != stored.shape
        or not (np.abs(rescored - stored) <= SELF_TEST_TOLERANCE * scale).all()
    ):
        raise ModelError(
            f"{folder}: its self-test rows no longer score as they did; train it again"
        )
    return model


def _read_files(
    folder: Path, signed_by: Ed25519PublicKey | None
) -> tuple[dict[str, Any], bytes, bytes, datetime.datetime]:
    """`model.json`, `arrays.npz`, `validation.parquet`, and since when the model is there.

    Raises ModelError: one is missing or damaged, or the signature that was asked for is not there.
    """
    document = read_document(folder, "model")
    if signed_by is not None:
        verify(folder, str(document["sha256"]), signed_by)
    try:
        trained = datetime.datetime.fromtimestamp(
            (folder / "arrays.npz").stat().st_mtime
        )
    except OSError as error:
        raise ModelError(
            f"cannot read {folder / 'arrays.npz'}: {error.strerror}"
        ) from None
    arrays = _verified(folder, "arrays.npz", document.get("arrays_sha256"))
    table = _verified(folder, "validation.parquet", document.get("validation_sha256"))
    return document, arrays, table, trained


def _verified(folder: Path, name: str, digest: object) -> bytes:
    content = read_bounded(folder / name, LARGEST[name], ModelError)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelError(
            f"{folder / name} is damaged: its digest does not match model.json"
        )
    return content


def _restored(
    recipe: Recipe,
    document: dict[str, Any],
    state: Mapping[str, np.ndarray],
    bundles: Bundles,
) -> FoldEnsemble | BlendedEnsemble:
    """The machines that `state` holds.

    `state`: as the ensemble's ``state`` made it.
    Raises ModelError: arrays are missing or do not fit each other.
    """
    method, task = document["recipe"], document["task"]
    n_outputs = 1 if task["kind"] == "binary" else len(task["classes"])
    if not method.get("members"):
        builder = partial(build, recipe, **method["parameters"])
        return FoldEnsemble.from_state(
            builder, recipe.machine, n_outputs, state, bundles
        )
    members = [
        (read_recipe(member["text"]), member["parameters"])
        for member in method["members"]
    ]
    builders = [
        (partial(build, member, **parameters), member.machine)
        for member, parameters in members
    ]
    return BlendedEnsemble.from_state(builders, n_outputs, state, bundles)
