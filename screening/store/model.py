"""Trained models as directories of plain data; nothing is ever unpickled.

`model.json` is canonical text (without a time) with its own digest and those of the two
tables beside it: one changed byte anywhere is detected, and the same training gives the
same bytes.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from screening.contract.contract import AXES, Contract
from screening.data.cohort import Cohort
from screening.data.observed_ids import id_reader
from screening.data.observers import Observer
from screening.data.out_of_bounds import Bounds, bounds_of_columns
from screening.data.stream import (
    BATCH_ROWS,
    CohortStream,
    ReadOptions,
    open_cohort,
)
from screening.errors import ModelError, RecipeError
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble
from screening.identity.hashes import HASH_KEY, Patients
from screening.identity.table import IdReader
from screening.io.arrow_files import small_table
from screening.io.columns import Columns, frame_of
from screening.metrics.calibration import likeliest, p_values, probability_intervals
from screening.metrics.operating_point import FLAG_EVERYTHING, excess, overall
from screening.monitoring.drift import Gates
from screening.recipes.encoders import RowEncoder, score_of_rows
from screening.recipes.recipe import Recipe
from screening.registry import optional
from screening.schemas.base import Brief, InBrief
from screening.schemas.model import ModelDocument
from screening.schemas.validation import LesionFacts
from screening.store.arrays import pack
from screening.store.model_files import ModelFiles, write_model_files
from screening.store.publishing import publish
from screening.store.serialization import written

if TYPE_CHECKING:
    from screening.io.opening import Readable

CHANCES = ("chance", "chance_low", "chance_high")
"""Columns of a calibrated probability and its interval."""
DISPLAY = "display_"
SUBGROUP = "subgroup_"
"""Prefix of columns that the contract wants shown, which may be named as ours."""
OUT_OF_BOUNDS = "out_of_bounds"
"""Column with the names of a row's columns out of bounds, null without any."""
TISSUE = "tissue"
"""Column that the pictures of a voxel run are drawn over."""
# Rows that BLAS may sum together.
_TILE_ROWS = 64
# Encoded rows whose scores are tested when a model is loaded.
_N_SELF_TEST_ROWS = 16


@dataclass(repr=False)
class Model(InBrief):
    """A fold ensemble with everything that is needed to score a new cohort.

    Parameters
    ----------
    document : dict
        Content of `model.json`, without digests.
    recipe : Recipe
    contract : Contract
    encoder : RowEncoder
    ensemble : FoldEnsemble or BlendedEnsemble
    calibration : ndarray of shape (n,)
        Held-out scores of negative rows, ascending, in which p-values are ranks.
    held_out : Columns
        `id, group, fold, label, score` of held-out rows, and `score@0`, `score@1`, ...
        of several repeats; `alike` if there are ties.
    selftest : ndarray of shape (n, n_encoded), optional
        Encoded rows whose scores are stored and compared when the model is loaded;
        seeded noise by default.
    directory : Path, optional
        Where the model was loaded from.
    trained : datetime, optional
        Stored as the modification time of a file, not in one: the same training gives
        the same bytes.
    """

    document: dict[str, Any]
    recipe: Recipe
    contract: Contract
    encoder: RowEncoder
    ensemble: FoldEnsemble | BlendedEnsemble
    calibration: np.ndarray
    held_out: Columns
    selftest: np.ndarray | None = None
    directory: Path | None = field(default=None, compare=False)
    trained: datetime.datetime | None = field(default=None, compare=False)

    @cached_property
    def facts(self) -> ModelDocument:
        """The document, typed."""
        return ModelDocument.from_dict(self.document)

    @property
    def validation(self) -> pd.DataFrame:
        """`held_out` as a frame, the content of `validation.parquet`."""
        return frame_of(self.held_out)

    @property
    def digest(self) -> str:
        """SHA-256 of the whole directory, through the digests in `model.json`."""
        return str(self.sealed["sha256"])

    @property
    def id(self) -> str:
        """The first 12 digits of the digest."""
        return self.digest[:12]

    @property
    def operating_points(self) -> list[dict[str, Any]]:
        """One operating point per watched class, as in `model.json`."""
        return self.document["operating_points"]

    @property
    def watched(self) -> list[str]:
        """Classes that are flagged, in the order of the columns of `scores`."""
        return list(self.document["task"]["watched"])

    @property
    def thresholds(self) -> np.ndarray:
        """Thresholds of the operating points, shape (n_watched,)."""
        thresholds = [point["threshold"] for point in self.operating_points]
        return np.array(thresholds, dtype=float)

    @property
    def watched_columns(self) -> list[int]:
        """Columns of `decisions` that belong to the watched classes."""
        task = self.document["task"]
        if task["kind"] == "binary":
            return [0]
        return [task["classes"].index(name) for name in self.watched]

    @cached_property
    def bounds(self) -> dict[str, Bounds]:
        """Bounds of the columns of numbers, by `plausible` or the training range."""
        return bounds_of_columns(self.contract, self.facts.training.profile)

    @property
    def lesions(self) -> LesionFacts | None:
        """Settings that turn maps of scores into lesions; None without lesions."""
        return self.facts.operating_points[0].lesions

    def refuse_overdue(self) -> None:
        """Raise ModelError if the model should have been trained again by now.

        It then contains rows of a patient who was erased.
        """
        due = self.facts.retrain_by
        if due is not None and datetime.date.today().isoformat() > due:
            raise ModelError(
                "the model contains rows of an erased patient, and had to be trained "
                f"again by {due}; train it again on the current cohort"
            )

    def decisions(self, encoded: np.ndarray) -> np.ndarray:
        """Return decisions at encoded rows, higher for more suspicious.

        Returns
        -------
        ndarray of shape (n_rows, 1), or (n_rows, n_classes) of a multi-class model
        """
        return self.ensemble.decisions(encoded)

    def scores(self, encoded: np.ndarray) -> np.ndarray:
        """Return scores of the watched classes at encoded rows, (n_rows, n_watched)."""
        return self.decisions(encoded)[:, self.watched_columns]

    def predicted(self, decisions: np.ndarray) -> np.ndarray:
        """Return the number of the most probable class, (n_rows,); multi-class only."""
        curves = self.facts.validation.class_chances or {}
        in_order = [curves[name] for name in self.facts.task.classes]
        return likeliest(in_order, decisions)

    def opened(
        self,
        source: Readable,
        *,
        batch_rows: int | None = None,
        label: str | None = None,
        gates: Gates | None = None,
        observers: Sequence[Observer] = (),
        contract: Contract | None = None,
        ids: IdReader | None = None,
    ) -> CohortStream:
        """Open a source of rows to score.

        The rows of a patient come together if lesions are scored.

        Parameters
        ----------
        source : path, URL, Database, or a pandas, polars or Arrow table
        batch_rows : int, optional
        label : str, optional
            Column of the label.
        gates : Gates, optional
            As `gates` returns them, to compare the rows with those of training.
        observers : sequence of Observer
            Count the rows too.
        contract : Contract, optional
            The model's with the time zone and hour of a place.
        ids : IdReader, optional
            As `id_reader` returns it.
        """
        # A lesion may be brighter than any of training: what is judged of an image is
        # a channel as a whole.
        judges_cells = not self.contract.coordinates
        if batch_rows is None:
            batch_rows = BATCH_ROWS
        bounds = self.bounds if judges_cells else None
        if gates is not None:
            observers = [gates, *observers]
        reading = ReadOptions(
            observers=observers,
            bounds=bounds,
            score_of=score_of_rows(self.recipe, self.contract),
            ids=ids or self.id_reader(),
            hash_key=self.digest,
            by_group=self.lesions is not None,
        )
        return open_cohort(
            source,
            contract or self.contract,
            batch_rows=batch_rows,
            label=label,
            options=reading,
        )

    def gates(self) -> Gates | None:
        """Return what compares a table with training, if its rows were counted."""
        profile = self.facts.training.profile
        return Gates(profile, self.contract) if profile else None

    def id_reader(self, key: str = HASH_KEY, known: Patients | None = None) -> IdReader:
        """Return a reader of a table's ids, which knows how training's are written.

        Parameters
        ----------
        key : str
            Of the hashes of ids.
        known : Patients, optional
            Of earlier nights, by hashes of the same key.
        """
        reader = replace(id_reader(self.contract), key=key, known=known or Patients())
        training = self.facts.training
        shapes = {"id": training.ids, "group": training.group_ids}
        for role, shape in shapes.items():
            column = getattr(reader, role)
            if shape is not None and shape.colliding and column is not None:
                reader = reader.with_collisions(column, self.held_out[role])
        return reader

    def score_frame(self, frame: Readable) -> pd.DataFrame:
        """Score a pandas, polars or Arrow table, or a file.

        Returns
        -------
        DataFrame
            As in `scores.parquet`: `id`, `score` (higher is more suspicious),
            `p_value`, `flagged`, ...

        Raises
        ------
        CohortError
            If the table breaks the model's contract, or a column is in other units.
        ModelError
            If the model should have been trained again by now.
        """
        scored, _ = self.score_rows(frame)
        return scored

    def score_rows(self, frame: Readable) -> tuple[pd.DataFrame, np.ndarray]:
        """Score a table or a file; return also which rows of it have a score.

        Returns
        -------
        scored : DataFrame
            As `score_frame` returns it.
        positions : ndarray of int, shape (n_scored,)
            Rows of the table, counted from 0.
        """
        self.refuse_overdue()
        stream = self.opened(frame, gates=self.gates())
        batches = [score_batch(self, batch).rows for batch in stream]
        rows = pa.concat_tables(batches)
        public = rows.column_names[: rows.column_names.index("row")]
        positions = rows["row"].to_numpy() - 1
        return rows.select(public).to_pandas(), positions

    def predict_proba(self, frame: Readable) -> np.ndarray:
        """Return calibrated probabilities of a table or a file.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Without the condition and with it, in the order of `score_frame`; NaN if
            every row is flagged.

        Raises
        ------
        ModelError
            If the scores are not calibrated, with the reason, or several classes are
            watched.
        """
        self.refuse_unearned()
        chance = self.score_frame(frame)["chance"].to_numpy(float)
        return np.column_stack([1 - chance, chance])

    def refuse_unearned(self) -> None:
        """Raise ModelError unless there is one calibrated probability per row."""
        if len(self.watched) > 1:
            raise ModelError(
                "several classes are watched; score_frame has the chance of the "
                "flagged class"
            )
        calibration = self.facts.validation.calibration.get(self.watched[0])
        if calibration is None or not calibration.earned:
            reason = calibration.reason if calibration else None
            raise ModelError(
                f"its scores are not probabilities: {reason or 'not calibrated'}"
            )

    def brief(self) -> Brief:
        """Return a summary for `repr` and notebooks."""
        return self.facts.brief()

    @cached_property
    def sealed(self) -> dict[str, object]:
        """The document with its format number and digests, as in `model.json`."""
        if self.directory is not None:
            return self.document
        digests = {
            "arrays_sha256": hashlib.sha256(self.array_bytes).hexdigest(),
            "validation_sha256": hashlib.sha256(self.table_bytes).hexdigest(),
        }
        return written(self.document | digests)[0]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the content of `arrays.npz`."""
        selftest = self.selftest
        if selftest is None:
            shape = (_N_SELF_TEST_ROWS, len(self.encoder.names))
            selftest = np.random.default_rng(0).normal(scale=0.5, size=shape)
        arrays = {
            "calibration": self.calibration,
            "selftest/x": selftest,
            "selftest/score": self.scores(selftest),
        }
        for name, value in self.encoder.state().items():
            arrays[f"encoder/{name}"] = value
        for name, value in self.ensemble.state().items():
            arrays[f"estimator/{name}"] = value
        return arrays

    @property
    def files(self) -> ModelFiles:
        """Content of the files of its directory.

        Raises
        ------
        RecipeError
            If its machines are not stored.
        """
        if not self.recipe.persistable:
            raise RecipeError(
                f"a model of {self.recipe.name} cannot be stored, because model files "
                "contain no pickles; write its scores to a column, and train the "
                "recipe `given`"
            )
        return ModelFiles(
            dict(self.sealed), self.array_bytes, self.table_bytes, self.trained
        )

    @cached_property
    def array_bytes(self) -> bytes:
        """Content of `arrays.npz`."""
        return pack(self.arrays())

    @cached_property
    def table_bytes(self) -> bytes:
        """Content of `validation.parquet`."""
        return small_table(self.held_out)


def save_model(
    model: Model,
    directory: str | Path,
    draw: Callable[[dict[str, object]], str] | None = None,
) -> Path:
    """Write a model directory, whole or not at all.

    Parameters
    ----------
    model : Model
        As `train` returns it.
    directory : str or Path
        Absent, empty, or an earlier model directory, which is replaced.
    draw : callable, optional
        Makes `report.html` from the document, such as `screening.report.render_model`.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    UsageError
        If the directory contains something else or cannot be written.
    Locked
        If another process is writing there.

    Examples
    --------
    >>> from importlib.resources import files
    >>> from tempfile import mkdtemp
    >>> from screening import read_cohort, save_model, train
    >>> samples = files("screening.sample_cohorts")
    >>> past = read_cohort(samples / "nosocomial_past.csv", samples / "nosocomial.toml")
    >>> directory = save_model(train(past, "logistic", search=1), mkdtemp())
    >>> sorted(path.name for path in directory.iterdir())
    ['arrays.npz', 'model.json', 'validation.parquet']
    """
    with publish(directory, "model") as folder:
        write_model_files(model.files, folder, draw)
    return Path(directory)


@dataclass(frozen=True)
class Scored:
    """A batch of rows that a model has scored.

    Parameters
    ----------
    encoded : ndarray of shape (n_rows, n_encoded)
    decisions : ndarray of shape (n_rows, n_classes), or (n_rows, 1) for two classes
    rows : pyarrow.Table
        As in `scores.parquet`; `score_frame` returns the columns before `row`.
    """

    encoded: np.ndarray
    decisions: np.ndarray
    rows: pa.Table


def score_batch(model: Model, batch: Cohort) -> Scored:
    """Score the rows of one batch; a whole patient if lesions are scored."""
    encoded = model.encoder.transform(batch.values)
    decisions = model.decisions(pad_rows(encoded))[: len(encoded)]
    return score_decisions(model, batch, encoded, decisions)


def pad_rows(encoded: np.ndarray) -> np.ndarray:
    """Return encoded rows, the last one repeated up to a multiple of `_TILE_ROWS`.

    BLAS rounds the last few rows of a matrix differently; so the decision on a row does
    not depend on the rows beside it.
    """
    n_missing = -len(encoded) % _TILE_ROWS
    return np.pad(encoded, [(0, n_missing), (0, 0)], mode="edge")


def score_decisions(
    model: Model, batch: Cohort, encoded: np.ndarray, decisions: np.ndarray
) -> Scored:
    """Score a batch at the model's operating points, from its decisions.

    In its rows `row` is the row number in the table that was read, `class` the watched
    class with the largest margin. Columns that the contract wants shown are kept only
    for rows that are flagged or have a cell out of bounds. The latter have no chance.
    Subgroups are kept where the contract says what an outcome is.

    Parameters
    ----------
    model : Model
    batch : Cohort
    encoded : ndarray of shape (n_rows, n_encoded)
    decisions : ndarray of shape (n_rows, n_classes), or (n_rows, 1) for two classes
    """
    if model.lesions is not None:
        coordinates = np.asarray(batch.coordinates)
        decisions = optional("lesions").scored_as_map(
            model.lesions, coordinates, decisions
        )
    watched = decisions[:, model.watched_columns]
    score = overall(watched, model.thresholds)
    watched_number = excess(watched, model.thresholds).argmax(axis=1)
    flagged = np.any(watched >= model.thresholds, axis=1)
    columns: dict[str, object] = {"id": pa.array(batch.id, pa.string())}
    if batch.group is not None:
        columns["group"] = pa.array(batch.group, pa.string())
    if batch.coordinates is not None:
        columns |= dict(zip(AXES, batch.coordinates.T, strict=True))
    columns["score"] = score
    columns["p_value"] = p_values(model.calibration, score)
    columns["flagged"] = flagged
    odd_columns = names_of_odd_cells(batch)
    is_odd = np.asarray(odd_columns.is_valid())
    for name, chance in chances_of(model, score, watched_number).items():
        chance[is_odd] = np.nan
        columns[name] = pa.array(chance, from_pandas=True)
    columns[OUT_OF_BOUNDS] = odd_columns
    task = model.facts.task
    if task.kind == "multi":
        predicted = pa.array(model.predicted(decisions))
        columns["predicted"] = pa.array(task.classes).take(predicted)
        for m, name in enumerate(task.classes):
            columns[f"score_{name}"] = decisions[:, m]
    columns["row"] = batch.rows
    watched_names = pa.array(model.watched)
    columns["class"] = watched_names.take(pa.array(watched_number))
    columns |= _texts_beside(batch, flagged | is_odd)
    tissue = tissue_of(model.contract)
    if tissue:
        columns[TISSUE] = batch.measured[tissue]
    return Scored(encoded, decisions, pa.table(columns))


def _texts_beside(batch: Cohort, is_listed: np.ndarray) -> dict[str, pa.Array]:
    """Return texts beside the scores: those displayed, of listed rows, and subgroups.

    Figures by outcomes need subgroups long after the night's table is gone.
    """
    columns = {
        DISPLAY + name: pa.array(texts, pa.string(), mask=~is_listed)
        for name, texts in (batch.display or {}).items()
    }
    if batch.contract.outcome is not None:
        for name, texts in (batch.subgroups or {}).items():
            columns[SUBGROUP + name] = pa.array(texts, pa.string())
    return columns


def names_of_odd_cells(batch: Cohort) -> pa.Array:
    """Return the columns out of bounds of each row as one text, null for none."""
    if batch.out_of_bounds is None or not batch.out_of_bounds.any():
        return pa.nulls(batch.n_rows, pa.string())
    names = [
        ", ".join(cell.column for cell in cells) if cells else None
        for cells in batch.out_of_bounds
    ]
    return pa.array(names, pa.string())


def tissue_of(contract: Contract) -> str | None:
    """Return the first numeric feature of voxels, which flags are drawn over."""
    if not contract.coordinates:
        return None
    features = contract.features.items()
    return next((name for name, each in features if each.type == "number"), None)


def chances_of(
    model: Model, score: np.ndarray, watched_number: np.ndarray
) -> dict[str, np.ndarray]:
    """Return calibrated probabilities with their intervals, by the names of `CHANCES`.

    Parameters
    ----------
    model : Model
    score : ndarray of shape (n_rows,)
        As in `scores.parquet`.
    watched_number : int ndarray of shape (n_rows,)
        Number of the watched class of each score.

    Returns
    -------
    dict of str to ndarray of shape (n_rows,)
        NaN for classes that are not calibrated; empty if none is.
    """
    calibrations = [
        model.facts.validation.calibration.get(name) for name in model.watched
    ]
    if not any(calibration and calibration.earned for calibration in calibrations):
        return {}
    ranges = np.full((len(CHANCES), len(score)), np.nan)
    thresholds = model.thresholds
    for m, calibration in enumerate(calibrations):
        # If every row of a class is flagged its excess does not determine its score.
        if thresholds[m] <= FLAG_EVERYTHING:
            continue
        rows = np.flatnonzero(watched_number == m)
        # With several watched classes the score is the excess over the class's own
        # threshold.
        offset = thresholds[m] if len(calibrations) > 1 else 0.0
        ranges[:, rows] = probability_intervals(calibration, score[rows] + offset)
    return dict(zip(CHANCES, ranges, strict=True))
