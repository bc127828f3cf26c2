"""Reading a model directory: digests are checked, and its scores are tested."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from screening.contract.contract import Contract
from screening.data.encoding import Bundles
from screening.errors import CohortError, ModelError, RecipeError
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble
from screening.estimators.passes import under
from screening.io.arrow_files import read_small_table
from screening.recipes.building import build, read_recipe
from screening.recipes.encoders import restored_encoder
from screening.recipes.plugins import refuse_missing_plugins
from screening.recipes.recipe import Recipe
from screening.store.arrays import unpack
from screening.store.model import Model
from screening.store.model_files import RESTORE, ModelFiles, read_model_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Largest difference of a self-test score, as a share of the largest score. Another
# processor or BLAS may change the last digits, another version which sums are float32
# (right to 3e-5 of the largest, `kernels.pairwise.in_double`); damage changes more.
_SELF_TEST_TOLERANCE = 1e-4
# Errors of rebuilding a model from damaged arrays or documents.
_DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def load_model(
    directory: str | Path, signed_by: Ed25519PublicKey | None = None
) -> Model:
    """Read a model directory and check that it scores as it did when it was trained.

    A directory that is replaced meanwhile is read as it was before, or as it is after.

    Parameters
    ----------
    directory : str or Path
        Written by `save_model` or ``screen train``.
    signed_by : Ed25519PublicKey, optional
        Public key that must have signed the model
        (`screening.store.signing.public_key`).

    Returns
    -------
    Model
        It scores as it did when it was written.

    Raises
    ------
    ModelError
        If a file is missing, damaged or of a newer format, the required signature or a
        plug-in is missing, or the self-test rows score differently.

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
    return restored(read_model_files(folder, signed_by), folder)


def restored(files: ModelFiles, folder: Path) -> Model:
    """Return the model of a directory's files; ModelError as for `load_model`."""
    refuse_missing_plugins(files.document, folder / "model.json")
    arrays = unpack(files.arrays)
    try:
        model = _build_model(folder, files, arrays)
        _check_arrays(model.arrays(), arrays)
        scores = model.scores(arrays["selftest/x"])
        stored = arrays["selftest/score"]
    except (CohortError, RecipeError) as error:
        raise ModelError(
            f"{folder / 'model.json'}: the model cannot be rebuilt ({error}); {RESTORE}"
        ) from error
    except _DAMAGE as error:
        # Without the error's own message, which might contain a patient's value.
        raise ModelError(
            f"{folder / 'arrays.npz'} does not fit model.json "
            f"({type(error).__name__}): the model is damaged; {RESTORE}"
        ) from error
    scale = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
    tolerance = _SELF_TEST_TOLERANCE * scale
    same_shape = scores.shape == stored.shape
    if not same_shape or not np.all(np.abs(scores - stored) <= tolerance):
        raise ModelError(
            f"{folder}: its self-test rows now get different scores; use the host and "
            f"the versions that it was trained with, or {RESTORE}"
        )
    return model


def _build_model(
    folder: Path, files: ModelFiles, arrays: Mapping[str, np.ndarray]
) -> Model:
    """Build the model that files and arrays describe."""
    document = files.document
    recipe = read_recipe(document["recipe"]["text"])
    contract = Contract.from_dict(document["contract"])
    encoder = restored_encoder(recipe, contract, under(arrays, "encoder/"))
    ensemble = _restore_ensemble(
        recipe, document, under(arrays, "estimator/"), encoder.bundles()
    )
    return Model(
        document=document,
        recipe=recipe,
        contract=contract,
        encoder=encoder,
        ensemble=ensemble,
        calibration=arrays["calibration"],
        held_out=read_small_table(files.table),
        selftest=arrays["selftest/x"],
        directory=folder,
        trained=files.trained,
    )


def _check_arrays(
    restored: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]
) -> None:
    """Raise an error if a restored array is not stored in this shape and kind."""
    for name, values in restored.items():
        array = stored[name]
        if array.shape != values.shape or array.dtype.kind != values.dtype.kind:
            raise ValueError(f"array {name} has another shape or type")


def _restore_ensemble(
    recipe: Recipe,
    document: dict[str, Any],
    state: Mapping[str, np.ndarray],
    bundles: Bundles,
) -> FoldEnsemble | BlendedEnsemble:
    """Restore the machines with their stored state."""
    method = document["recipe"]
    task = document["task"]
    n_outputs = 1 if task["kind"] == "binary" else len(task["classes"])
    if not method.get("members"):
        builder = partial(build, recipe, **method["parameters"])
        return FoldEnsemble.from_state(
            builder, recipe.machine, n_outputs, state, bundles
        )
    builders = []
    for stored in method["members"]:
        member = read_recipe(stored["text"])
        builder = partial(build, member, **stored["parameters"])
        builders.append((builder, member.machine))
    return BlendedEnsemble.from_state(builders, n_outputs, state, bundles)
