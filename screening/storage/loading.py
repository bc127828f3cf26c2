"""A model directory read back, proven to score as it did when it was trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from screening.documents.tables import elements, table, word
from screening.errors import CohortError, ModelError, RecipeError
from screening.storage.arrays import unpack
from screening.storage.model import Model
from screening.storage.sealing import as_stored, steady
from screening.storage.verified import ModelFiles, read_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Another processor or BLAS may differ in the last digits, another version in which sums are float32 (right to
# 3e-5 of the largest, `kernels.pairwise.in_double`); a damaged machine differs in the first.
SELF_TEST_TOLERANCE = 1e-4
MOST_SELF_TEST_ROWS = 1000


def load_model(directory: str | Path, signed_by: Ed25519PublicKey | None = None) -> Model:
    """Read a model directory and prove that it still scores as it did when it was trained.

    One that is replaced meanwhile is read as it was before or as it is after.

    Parameters
    ----------
    directory : str or Path
        Written by `save_model` or ``screen train``.
    signed_by : Ed25519PublicKey, optional
        Whose signature it must bear (`screening.storage.signing.public_key`).

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
    files = steady(folder, lambda: read_files(folder, signed_by))
    return _rebuilt(folder, files, unpack(files.arrays))


def _rebuilt(folder: Path, files: ModelFiles, arrays: dict[str, np.ndarray]) -> Model:
    from screening.cohort.encoding import Encoder
    from screening.contract.contract import Contract
    from screening.machines.fold_ensemble import under
    from screening.recipes.loading import read_recipe
    from screening.sources.parquet_rows import read_small_table
    from screening.storage.restoring import restored

    document = files.document
    with as_stored(folder / "model.json"):
        try:
            method = table(document, "recipe")
            recipe = read_recipe(word(method, "text"))
            contract = Contract.from_dict(table(document, "contract"))
            classes = elements(table(document, "task"), "classes")
            model = Model(
                document=document,
                recipe=recipe,
                contract=contract,
                encoder=Encoder.from_state(contract, under(arrays, "encoder/")),
                ensemble=restored(recipe, method, len(classes), under(arrays, "estimator/")),
                calibration=arrays["calibration"],
                held_out=read_small_table(files.table),
                selftest=arrays["selftest/x"],
                directory=folder,
                trained=files.trained,
            )
            if not model.watched:
                raise ModelError(f"{folder}: it watches no class")
            if len(arrays["selftest/x"]) > MOST_SELF_TEST_ROWS:
                raise ModelError(f"{folder}: it has more self-test rows than any model")
            again, stored = model.scores(arrays["selftest/x"]), arrays["selftest/score"]
        except (CohortError, RecipeError, MemoryError) as error:
            raise ModelError(f"{folder}: the model cannot be rebuilt ({error}); train it again") from error
    scale = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
    if again.shape != stored.shape or not (np.abs(again - stored) <= SELF_TEST_TOLERANCE * scale).all():
        raise ModelError(f"{folder}: its self-test rows no longer score as they did; train it again")
    return model
