"""What a model makes of rows: decisions, scores, p-values and flags, and the table they are written as."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from screening.cohort.cohort import Cohort
from screening.lesions.maps import Grid, lesion_map
from screening.sources.images import AXES
from screening.statistics.operating_point import excess, overall
from screening.statistics.p_values import p_values
from screening.storage.chances import CHANCES, Chances

if TYPE_CHECKING:
    from screening.storage.model import Model


@dataclass(frozen=True)
class Scored:
    """The figures of one batch of rows.

    Parameters
    ----------
    encoded : ndarray, shape (n_rows, n_encoded)
    decisions : ndarray, shape (n_rows, 1) or (n_rows, n_classes)
    excess : ndarray, shape (n_rows, n_watched)
        Score minus threshold of every watched class; 0 or more is flagged.
    score, p_value, flagged : ndarray, shape (n_rows,)
    """

    encoded: np.ndarray
    decisions: np.ndarray
    excess: np.ndarray
    score: np.ndarray
    p_value: np.ndarray
    flagged: np.ndarray

    def take(self, rows: np.ndarray) -> Scored:
        """The figures of some rows, by their numbers or a mask."""
        return Scored(*(getattr(self, each.name)[rows] for each in fields(self)))

    @property
    def column(self) -> np.ndarray:
        """The watched class that speaks loudest for each row, shape (n_rows,)."""
        return self.excess.argmax(axis=1)


def score_batch(model: Model, batch: Cohort, decisions: np.ndarray | None = None) -> Scored:
    """Score the rows of one batch at the model's operating points; by lesions, a batch is a whole patient.

    `decisions` are the model's on these rows, where they were made elsewhere.
    """
    encoded = model.encoder.transform(batch)
    decisions = model.decisions(encoded) if decisions is None else decisions
    if model.lesions is not None:
        how, places = model.lesions, np.asarray(batch.coordinates)
        decisions = lesion_map(Grid.of(places), decisions[:, 0], how.smoothing, how.min_voxels)[:, None]
    watched = decisions[:, model.watched_columns]
    one = overall(watched, model.thresholds)
    return Scored(
        encoded=encoded,
        decisions=decisions,
        excess=excess(watched, model.thresholds),
        score=one,
        p_value=p_values(model.calibration, one),
        flagged=np.any(watched >= model.thresholds, axis=1),
    )


class ScoreColumns:
    """The columns of `scores.parquet`.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model):
        task = model.facts.task
        self.classes = np.array(task.classes) if task.kind == "multi" else None
        self.chances = Chances(model)
        fields = [("id", pa.string())]
        fields += [("group", pa.string())] if model.contract.group else []
        fields += [(axis, pa.float64()) for axis in AXES if model.contract.coordinates]
        fields += [("score", pa.float64()), ("p_value", pa.float64()), ("flagged", pa.bool_())]
        fields += [(name, pa.float64()) for name in CHANCES if self.chances.earned]
        if self.classes is not None:
            fields += [
                ("predicted", pa.string()),
                *((f"score_{name}", pa.float64()) for name in self.classes),
            ]
        self.schema = pa.schema(fields)

    def table(self, batch: Cohort, scored: Scored) -> pa.Table:
        """One batch of rows."""
        columns: dict[str, object] = {"id": batch.id, "group": batch.group}
        if batch.coordinates is not None:
            columns |= dict(zip(AXES, batch.coordinates.T, strict=True))
        columns |= {"score": scored.score, "p_value": scored.p_value, "flagged": scored.flagged}
        if self.chances.earned:
            found = self.chances.of(scored.score, scored.column)
            columns |= {name: pa.array(values, from_pandas=True) for name, values in found.items()}
        if self.classes is not None:
            columns["predicted"] = self.classes[scored.decisions.argmax(axis=1)]
            columns |= {f"score_{name}": scored.decisions[:, m] for m, name in enumerate(self.classes)}
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)
