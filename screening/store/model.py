"""Trained models as directories of plain data, and what they make of rows; nothing is ever unpickled.

`model.json` is canonical text (no clock in it) with its own digest and those of the two tables beside it, so
one flipped byte anywhere is refused, and the same training gives the same bytes.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from screening.contract.contract import AXES, Contract
from screening.data.cohort import Cohort
from screening.data.encoding import Encoder
from screening.data.stream import BATCH_ROWS, CohortStream, open_cohort
from screening.errors import ModelError
from screening.estimators.ensembles import BlendedEnsemble, FoldEnsemble
from screening.io.arrow_files import small_table
from screening.io.columns import Columns, frame_of
from screening.metrics.calibration import likeliest, p_values, probability_intervals
from screening.metrics.operating_point import FLAG_EVERYTHING, excess, overall
from screening.monitoring.drift import Gates
from screening.recipes.recipe import Recipe
from screening.registry import optional
from screening.schemas.base import Brief, InBrief
from screening.schemas.model import ModelDocument
from screening.schemas.validation import LesionFacts
from screening.store.publishing import publish
from screening.store.serialization import canonical, pack, sign, written

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from screening.io.opening import Readable

CHANCES = ("chance", "chance_low", "chance_high")
DISPLAY = "display_"
"""Before the name of a column that the contract wants shown: it may be called as one of ours."""
TISSUE = "tissue"
"""What a voxel run's pictures are drawn over."""


@dataclass(repr=False)
class Model(InBrief):
    """The machines of the folds with everything needed to score a new cohort.

    Parameters
    ----------
    document : dict
        Content of `model.json`; the digests are added by `seal`.
    recipe, contract, encoder, ensemble
        The method, what it reads, how rows become numbers, and the machines of the folds.
    calibration : ndarray, shape (n,)
        Held-out scores of negative rows, sorted: what p-values are ranks in.
    held_out : Columns
        `id, group, fold, label, score` of held-out rows, and `score@0`, `score@1`, ... of several repeats;
        `alike` where many rows have the same values.
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
    held_out: Columns
    selftest: np.ndarray | None = None
    directory: Path | None = field(default=None, compare=False)
    trained: datetime.datetime | None = field(default=None, compare=False)

    @cached_property
    def facts(self) -> ModelDocument:
        """The document as its type."""
        return ModelDocument.from_dict(self.document)

    @property
    def validation(self) -> pd.DataFrame:
        """`held_out` as a frame, which is `validation.parquet`."""
        return frame_of(self.held_out)

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
        return np.array(
            [point["threshold"] for point in self.operating_points], dtype=float
        )

    @property
    def watched_columns(self) -> list[int]:
        """Columns of `decisions` that belong to the watched classes."""
        task = self.document["task"]
        return (
            [0]
            if task["kind"] == "binary"
            else [task["classes"].index(name) for name in self.watched]
        )

    @property
    def lesions(self) -> LesionFacts | None:
        """How maps of scores become clusters, where the operating point is one by lesions."""
        return self.facts.operating_points[0].lesions

    def refuse_overdue(self) -> None:
        """ModelError where it holds rows of somebody who was erased, and was to be trained again by now."""
        due = self.facts.retrain_by
        if due is not None and datetime.date.today().isoformat() > due:
            raise ModelError(
                f"the model holds rows of a patient who was erased, and was to be trained again by {due}; "
                "train it again on the cohort as it is now"
            )

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

    def predicted(self, decisions: np.ndarray) -> np.ndarray:
        """Number of the class with the highest chance, shape (n_rows,); of a model of several classes."""
        chances = self.facts.validation.class_chances or {}
        return likeliest([chances[name] for name in self.facts.task.classes], decisions)

    def opened(
        self,
        source: Readable,
        *,
        batch_rows: int | None = None,
        label: str | None = None,
        gated: bool = True,
    ) -> CohortStream:
        """Rows to score, a patient's together where lesions are sought; `gated` holds them to training's."""
        past = self.facts.training.profile if gated else None
        return open_cohort(
            source,
            self.contract,
            batch_rows=BATCH_ROWS if batch_rows is None else batch_rows,
            label=label,
            gates=Gates(past, self.contract) if past else None,
            whole_groups=self.lesions is not None,
        )

    def score_frame(self, frame: Readable) -> pd.DataFrame:
        """Score a pandas, polars or Arrow table, or a file.

        Returns
        -------
        DataFrame
            As `scores.parquet` has it: `id`, `score` (higher is more suspicious), `p_value`, `flagged`, ...

        Raises
        ------
        CohortError
            The table breaks the model's contract, or a column is in other units.
        ModelError
            It was to be trained again by now.
        """
        self.refuse_overdue()
        rows = pa.concat_tables(
            score_batch(self, batch).rows for batch in self.opened(frame)
        )
        return rows.select(
            rows.column_names[: rows.column_names.index("row")]
        ).to_pandas()

    def predict_proba(self, frame: Readable) -> np.ndarray:
        """Calibrated chances of a pandas, polars or Arrow table, or a file.

        Returns
        -------
        ndarray, shape (n_rows, 2)
            Without the condition and with it, in the order of `score_frame`; NaN where every row is flagged.

        Raises
        ------
        ModelError
            The scores have earned no calibration, with the reason, or several classes are watched.
        """
        self.refuse_unearned()
        chance = self.score_frame(frame)["chance"].to_numpy(float)
        return np.column_stack([1 - chance, chance])

    def refuse_unearned(self) -> None:
        """ModelError where there is not one chance a row: several watched classes, calibration not earned."""
        if len(self.watched) > 1:
            raise ModelError(
                "several classes are watched; score_frame has the chance of the one that is flagged"
            )
        calibration = self.facts.validation.calibration.get(self.watched[0])
        if calibration is None or not calibration.earned:
            reason = calibration.reason if calibration else None
            raise ModelError(
                f"its scores are no probabilities: {reason or 'not calibrated'}"
            )

    def brief(self) -> Brief:
        return self.facts.brief()

    @cached_property
    def sealed(self) -> dict[str, object]:
        """The document with its format number and digests: exactly what `model.json` holds."""
        if self.directory is not None:
            return self.document
        digests = {
            "arrays_sha256": self.array_bytes,
            "validation_sha256": self.table_bytes,
        }
        sealed = {
            key: hashlib.sha256(content).hexdigest() for key, content in digests.items()
        }
        return written(self.document | sealed)[0]

    @cached_property
    def array_bytes(self) -> bytes:
        """Content of `arrays.npz`."""
        probe = self.selftest
        if probe is None:
            probe = np.random.default_rng(0).normal(
                scale=0.5, size=(16, len(self.encoder.names))
            )
        arrays = {
            f"encoder/{name}": value for name, value in self.encoder.state().items()
        }
        arrays |= {
            f"estimator/{name}": value for name, value in self.ensemble.state().items()
        }
        arrays |= {
            "calibration": self.calibration,
            "selftest/x": probe,
            "selftest/score": self.scores(probe),
        }
        return pack(arrays)

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
        The directory holds something else or cannot be written.
    Locked
        Another process is writing there.

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
        write_model(model, folder, draw)
    return Path(directory)


def write_model(
    model: Model,
    folder: Path,
    draw: Callable[[dict[str, object]], str] | None = None,
    signer: Ed25519PrivateKey | None = None,
) -> None:
    """Write a model's files into a directory that is being published, signed where there is a key."""
    (folder / "arrays.npz").write_bytes(model.array_bytes)
    (folder / "validation.parquet").write_bytes(model.table_bytes)
    (folder / "model.json").write_bytes(canonical(model.sealed))
    if model.trained is not None:
        # Another threshold makes no model younger.
        os.utime(folder / "arrays.npz", (model.trained.timestamp(),) * 2)
    if draw is not None:
        (folder / "report.html").write_text(
            draw(model.sealed), encoding="utf-8", newline="\n"
        )
    if signer is not None:
        sign(folder, model.digest, signer)


@dataclass(frozen=True)
class Scored:
    """What a model makes of one batch of rows."""

    encoded: np.ndarray  # Shape (n_rows, n_encoded).
    decisions: (
        np.ndarray
    )  # Shape (n_rows, n_classes), or (n_rows, 1) where there are two.
    rows: (
        pa.Table
    )  # As `scores.parquet` has them; `score_frame` shows what stands before `row`.


def score_batch(model: Model, batch: Cohort) -> Scored:
    """Score the rows of one batch at the model's operating points; by lesions, a batch is a whole patient."""
    encoded = model.encoder.transform(batch)
    return judged(model, batch, encoded, model.decisions(encoded))


def judged(
    model: Model, batch: Cohort, encoded: np.ndarray, decisions: np.ndarray
) -> Scored:
    """A batch at the model's operating points, from its decisions on the encoded rows.

    Of its rows `row` is the number in the table that was read, `class` the watched class that speaks loudest
    for it. Of a row that is not flagged nothing is kept of what the contract wants shown beside one.
    """
    if model.lesions is not None:
        places = np.asarray(batch.coordinates)
        decisions = optional("lesions").scored_as_map(model.lesions, places, decisions)
    contract, task = model.contract, model.facts.task
    watched = decisions[:, model.watched_columns]
    score, loudest = (
        overall(watched, model.thresholds),
        excess(watched, model.thresholds).argmax(axis=1),
    )
    flagged = np.any(watched >= model.thresholds, axis=1)
    columns: dict[str, object] = {"id": pa.array(batch.id, pa.string())}
    if batch.group is not None:
        columns["group"] = pa.array(batch.group, pa.string())
    if batch.coordinates is not None:
        columns |= dict(zip(AXES, batch.coordinates.T, strict=True))
    columns |= {
        "score": score,
        "p_value": p_values(model.calibration, score),
        "flagged": flagged,
    }
    columns |= {
        name: pa.array(chance, from_pandas=True)
        for name, chance in chances_of(model, score, loudest).items()
    }
    if task.kind == "multi":
        columns["predicted"] = pa.array(task.classes).take(
            pa.array(model.predicted(decisions))
        )
        columns |= {
            f"score_{name}": decisions[:, m] for m, name in enumerate(task.classes)
        }
    columns |= {
        "row": batch.rows,
        "class": pa.array(model.watched).take(pa.array(loudest)),
    }
    for name, texts in (batch.display or {}).items():
        columns[DISPLAY + name] = pa.array(texts, pa.string(), mask=~flagged)
    if tissue := tissue_of(contract):
        columns[TISSUE] = batch.measured[tissue]
    return Scored(encoded, decisions, pa.table(columns))


def tissue_of(contract: Contract) -> str | None:
    """The first numeric feature of voxels, which their flags are drawn over."""
    numbers = (
        name for name, feature in contract.features.items() if feature.type == "number"
    )
    return next(numbers, None) if contract.coordinates else None


def chances_of(
    model: Model, score: np.ndarray, column: np.ndarray
) -> dict[str, np.ndarray]:
    """Chance with its interval by the names of `CHANCES`, each shape (n_rows,); NaN where none is earned.

    `score`, shape (n_rows,): as `scores.parquet` has it. `column`, shape (n_rows,): the watched class that
    each score is of. Nothing where no class has earned a calibration.
    """
    calibrations = [
        model.facts.validation.calibration.get(name) for name in model.watched
    ]
    if not any(
        calibration is not None and calibration.earned for calibration in calibrations
    ):
        return {}
    ranges = np.full((len(CHANCES), len(score)), np.nan)
    for m, (calibration, threshold) in enumerate(
        zip(calibrations, model.thresholds, strict=True)
    ):
        # A class of which every row is flagged has no excess to go back from to its score.
        rows = (
            np.flatnonzero(column == m)
            if threshold > FLAG_EVERYTHING
            else np.empty(0, int)
        )
        # With several watched classes the score is the excess over the class's own threshold.
        own = score[rows] + (threshold if len(calibrations) > 1 else 0.0)
        ranges[:, rows] = probability_intervals(calibration, own)
    return dict(zip(CHANCES, ranges, strict=True))
