"""Trained models as directories of plain data; nothing is ever unpickled.

`model.json` is canonical text (no clock in it) with its own digest and those of the two tables beside it, so
one flipped byte anywhere is refused, and the same training gives the same bytes.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from screening.errors import CohortError, ModelError, RecipeError
from screening.storage.arrays import pack, unpack
from screening.storage.publishing import publish, write_whole

if TYPE_CHECKING:
    import pandas

    from screening.cohort.contract import Contract
    from screening.cohort.encoding import Encoder
    from screening.machines.blended import BlendedEnsemble
    from screening.machines.fold_ensemble import FoldEnsemble
    from screening.recipes.recipe import Recipe

__all__ = [
    "FORMAT", "Model", "canonical", "load_model", "publish", "read_document", "save_model", "write_whole",
]  # fmt: skip

FORMAT = 3
MAX_DOCUMENT_BYTES = 64 << 20
# Another processor or BLAS may differ in the last digits; a damaged machine differs in the first.
SELF_TEST_TOLERANCE = 1e-5


@dataclass
class Model:
    """The machines of the folds with everything needed to score a new cohort.

    Parameters
    ----------
    document : dict
        Content of `model.json`; the digests are added by `seal`.
    recipe, contract, encoder, ensemble
        The method, what it reads, how rows become numbers, and the machines of the folds.
    calibration : ndarray, shape (n,)
        Held-out scores of negative rows, sorted: what p-values are ranks in.
    validation : DataFrame
        Held-out `id, group, fold, label, score`, and `score@0`, `score@1`, ... of several repeats.
    selftest : ndarray, shape (n, n_encoded), optional
        Encoded rows whose scores are stored and compared at each loading; seeded noise if not given.
    directory : Path, optional
        Where the model was loaded from.
    trained : datetime, optional
        Kept as the time of a file and in none: the same training gives the same bytes.
    """

    document: dict[str, Any]
    recipe: Recipe
    contract: Contract
    encoder: Encoder
    ensemble: FoldEnsemble | BlendedEnsemble
    calibration: np.ndarray
    validation: pandas.DataFrame
    selftest: np.ndarray | None = None
    directory: Path | None = field(default=None, compare=False)
    trained: datetime.datetime | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the whole directory, by way of the digests that `model.json` lists."""
        return str(self.sealed["sha256"])

    @property
    def id(self) -> str:
        """The first 12 digits of the digest."""
        return self.digest[:12]

    @property
    def operating_points(self) -> list[dict[str, Any]]:
        """One operating point a watched class, as `model.json` has them."""
        return self.document["operating_points"]

    @property
    def watched(self) -> list[str]:
        """The classes that are flagged, in the order of the columns of `scores`."""
        return list(self.document["task"]["watched"])

    @property
    def thresholds(self) -> np.ndarray:
        """The operating points' thresholds, shape (n_watched,)."""
        return np.array([point["threshold"] for point in self.operating_points], dtype=float)

    @property
    def watched_columns(self) -> list[int]:
        """Columns of `decisions` that belong to the watched classes."""
        if self.document["task"]["kind"] == "binary":
            return [0]
        classes = list(self.document["task"]["classes"])
        return [classes.index(name) for name in self.watched]

    def decisions(self, encoded: np.ndarray) -> np.ndarray:
        """Decision values of encoded rows, higher for more suspicious, or for more like the class.

        Returns
        -------
        ndarray, shape (n_rows, 1), or (n_rows, n_classes) for a multi-class model
        """
        return self.ensemble.decisions(encoded)

    def scores(self, encoded: np.ndarray) -> np.ndarray:
        """Scores of encoded rows for the watched classes, shape (n_rows, n_watched); higher is worse."""
        return self.decisions(encoded)[:, self.watched_columns]

    @cached_property
    def sealed(self) -> dict[str, Any]:
        """The document with its format number and digests: exactly what `model.json` holds."""
        if self.directory is not None:
            return self.document
        return _seal(self.document, self.array_bytes, self.table_bytes)

    @cached_property
    def array_bytes(self) -> bytes:
        """Content of `arrays.npz`."""
        probe = self.selftest
        if probe is None:
            probe = np.random.default_rng(0).normal(scale=0.5, size=(16, len(self.encoder.names)))
        arrays = {f"encoder/{name}": value for name, value in self.encoder.state().items()}
        arrays |= {f"estimator/{name}": value for name, value in self.ensemble.state().items()}
        arrays |= {
            "calibration": self.calibration,
            "selftest/x": probe,
            "selftest/score": self.scores(probe),
        }
        return pack(arrays)

    @cached_property
    def table_bytes(self) -> bytes:
        """Content of `validation.parquet`."""
        buffer = io.BytesIO()
        self.validation.to_parquet(buffer, index=False)
        return buffer.getvalue()


def save_model(
    model: Model, directory: str | Path, draw: Callable[[dict[str, Any]], str] | None = None
) -> Path:
    """Write a model directory, whole or not at all.

    Parameters
    ----------
    model : Model
    directory : path
        Absent, empty, or an earlier model directory, which is replaced.
    draw : callable, optional
        Makes `report.html` from the document.

    Raises
    ------
    UsageError
        The directory holds something else or cannot be written.
    Locked
        Another process is writing there.
    """
    with publish(directory, "model") as folder:
        write_model(model, folder, draw)
    return Path(directory)


def write_model(model: Model, folder: Path, draw: Callable[[dict[str, Any]], str] | None = None) -> None:
    """Write the files of a model into a directory that is being published."""
    (folder / "arrays.npz").write_bytes(model.array_bytes)
    (folder / "validation.parquet").write_bytes(model.table_bytes)
    (folder / "model.json").write_bytes(canonical(model.sealed))
    if model.trained is not None:
        # Another threshold makes no model younger.
        os.utime(folder / "arrays.npz", (model.trained.timestamp(),) * 2)
    if draw is not None:
        (folder / "report.html").write_text(draw(model.sealed), encoding="utf-8", newline="\n")


def load_model(directory: str | Path) -> Model:
    """Read a model directory and prove that it still scores as it did when it was trained.

    Raises
    ------
    ModelError
        A file is missing, damaged or of a newer format, or the self-test rows score differently.
    """
    import pandas

    from screening.cohort.contract import Contract
    from screening.cohort.encoding import Encoder
    from screening.recipes.loading import read_recipe
    from screening.storage.restoring import restored

    folder = Path(directory)
    document = read_document(folder, "model")
    arrays = unpack(_verified(folder, "arrays.npz", document.get("arrays_sha256")))
    table = _verified(folder, "validation.parquet", document.get("validation_sha256"))
    try:
        recipe = read_recipe(document["recipe"]["text"])
        contract = Contract.from_dict(document["contract"])
        model = Model(
            document=document,
            recipe=recipe,
            contract=contract,
            encoder=Encoder.from_state(contract, _under(arrays, "encoder/")),
            ensemble=restored(
                recipe, document["recipe"], len(document["task"]["classes"]), _under(arrays, "estimator/")
            ),
            calibration=arrays["calibration"],
            validation=pandas.read_parquet(io.BytesIO(table)),
            selftest=arrays["selftest/x"],
            directory=folder,
            trained=datetime.datetime.fromtimestamp((folder / "arrays.npz").stat().st_mtime),
        )
        again, stored = model.scores(arrays["selftest/x"]), arrays["selftest/score"]
    except (KeyError, TypeError, ValueError, IndexError, CohortError, RecipeError) as error:
        raise ModelError(
            f"{folder}: the model cannot be rebuilt ({type(error).__name__}: {error}); train it again"
        ) from error
    scale = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
    if again.shape != stored.shape or not (np.abs(again - stored) <= SELF_TEST_TOLERANCE * scale).all():
        raise ModelError(f"{folder}: its self-test rows no longer score as they did; train it again")
    return model


def read_document(directory: str | Path, kind: str) -> dict[str, Any]:
    """Read `model.json` or `run.json` ("model" or "run"); the former with its digest checked."""
    path = Path(directory) / f"{kind}.json"
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise ModelError(f"{path} is too large to be a {kind}")
        content = path.read_bytes()
        document = json.loads(content)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; is this a {kind} directory?") from None
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is damaged; restore it from a copy or make it again") from None
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise ModelError(f"{path} is damaged: it has no format number")
    if document["format"] > FORMAT:
        raise ModelError(f"{path} has format {document['format']}, newer than {FORMAT}; update screening")
    if kind == "model" and not _is_sealed(document, content):
        raise ModelError(f"{path} is damaged: its digest does not match; restore a copy or train again")
    return document


def canonical(document: dict[str, Any]) -> bytes:
    """Write a document as JSON text that is the same for the same content.

    Keys keep their order, because the order of a contract's features is that of the encoded columns.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode() + b"\n"


def _seal(document: dict[str, Any], arrays: bytes, table: bytes) -> dict[str, Any]:
    sealed = document | {
        "format": FORMAT,
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
        "validation_sha256": hashlib.sha256(table).hexdigest(),
    }
    sealed.pop("sha256", None)
    return sealed | {"sha256": hashlib.sha256(canonical(sealed)).hexdigest()}


def _is_sealed(document: dict[str, Any], content: bytes) -> bool:
    rest = {name: value for name, value in document.items() if name != "sha256"}
    try:
        # The bytes themselves too: a flip in white space or a repeated key leaves the content as it was.
        same = canonical(document) == content
        return same and hashlib.sha256(canonical(rest)).hexdigest() == document.get("sha256")
    except ValueError:
        return False


def _verified(folder: Path, name: str, digest: object) -> bytes:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {folder / name}: {error.strerror}; restore it from a copy") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelError(f"{folder / name} is damaged: its digest does not match model.json")
    return content


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
