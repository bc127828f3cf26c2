"""`run.json` of a night, put together of all that was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from screening.cohort.identity import said_of_ids
from screening.cohort.stream import CohortStream
from screening.documents.case import Case
from screening.documents.drift_words import reason
from screening.documents.model import FORMAT_VERSION
from screening.documents.run import (
    Discoveries,
    InputFacts,
    RunDocument,
    Share,
    Times,
    Unflagged,
)
from screening.documents.stored import run_model_in, source_in
from screening.documents.voxels import Voxels
from screening.gates.drift import Gates
from screening.scoring.night_summary import Blocks, Night
from screening.scoring.reference_distribution import is_discovery, of_groups
from screening.statistics.prevalence import prevalence_tonight
from screening.storage.model import Model
from screening.training.card import versions


def run_document(
    model: Model,
    night: Night,
    blocks: Blocks,
    stream: CohortStream,
    gates: Gates | None,
    *,
    key: str,
    date: str,
    started: str,
    scores: Path,
) -> RunDocument:
    """What the rows tell, with what the gates found in them under `attention`.

    `scores`: `scores.parquet` as just written, one row group a batch.
    """
    counts, groups = night.counted(stream.refused), night.groups
    cases, near_misses, scale = night.listed(), night.near_misses.listed(model), night.scale()
    quiet, drift = night.not_flagged(), blocks.drift.counts()
    said = (
        of_groups(blocks.discoveries, groups.values())
        if groups
        else blocks.discoveries.facts("row", counts.flagged)
    )
    # What the gates found, and what was said of the ids at training, which are of the same column.
    found = [*(gates.attention() if gates else []), *said_of_ids(model.facts), reason(drift)]
    source = source_in(stream.source.to_dict())
    return RunDocument(
        format_version=FORMAT_VERSION,
        run_id=key[:12],
        date=date,
        model=run_model_in(with_id(model)),
        input=InputFacts(
            files=source.files,
            delimiter=source.delimiter,
            encoding=source.encoding,
            rows=source.rows,
            notes=list(stream.notes),
        ),
        versions=versions(),
        counts=counts,
        refused=dict(stream.refused),
        evaluation=night.evaluation(),
        data=night.features(gates),
        groups=night.listed_groups(said),
        score_counts=night.reaching(),
        cases=cases if groups else _marked(cases, said),
        cases_total=counts.flagged,
        cases_shown=len(cases),
        cases_explained=sum(case.contributions is not None for case in cases),
        near_misses=near_misses,
        scale=scale,
        attention=[each for each in found if each],
        sample=quiet.sample,
        unflagged=Unflagged(cases=quiet.n),
        discoveries=said,
        groups_total=said.n_screened if groups else None,
        groups_flagged=said.flagged if groups else None,
        drift=drift,
        subgroups=blocks.subgroups.facts(),
        prevalence_estimate=None if groups else _prevalence(model, counts.flagged, counts.scored),
        voxels=_voxels(blocks, stream, scores),
        geometries=tuple(stream.source.geometries),
        times=Times(started=started, seconds=0.0),
        sha256="",
    )


def _marked(cases: Sequence[Case], said: Discoveries) -> list[Case]:
    return [replace(case, discovery=is_discovery(case.p_value, said)) for case in cases]


def _prevalence(model: Model, flagged: int, scored: int) -> Share | None:
    points = model.facts.operating_points
    return prevalence_tonight(flagged, scored, points[0]) if len(points) == 1 else None


def _voxels(blocks: Blocks, stream: CohortStream, scores: Path) -> Voxels | None:
    """The batches of a voxel run are read once more for it."""
    return None if blocks.voxels is None else blocks.voxels.pictured(stream, scores)


def with_id(model: Model) -> dict[str, object]:
    """The model as a run states it: as it was sealed."""
    return {"id": model.id, "digest": model.digest} | model.sealed
