"""`run.json` of a night, put together of all that was counted, and what the ledger adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from screening.cohort.ids import said_of_ids
from screening.cohort.stream import CohortStream
from screening.documents.attention import of_run, review_due
from screening.documents.case import Case, GroupFacts, State, Verdict, Word
from screening.documents.drift import reason
from screening.documents.history import Estimate, SensitivityAndPpv
from screening.documents.model import FORMAT_VERSION, ModelDocument
from screening.documents.reason import Reason
from screening.documents.run import (
    InputFacts,
    LedgerFacts,
    RunDocument,
    Share,
    Times,
    Unflagged,
)
from screening.documents.series import shown_series
from screening.documents.shape import plain
from screening.documents.stored import run_model_in, source_in
from screening.gates.drift import Gates
from screening.ledger import Known, NightCases, Recorded, series_by
from screening.scoring.night_summary import Blocks, Night
from screening.scoring.reference_distribution import is_discovery, of_groups
from screening.statistics.performance import prevalence_tonight
from screening.storage.model import Model
from screening.storage.serialization import versions


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
    quiet, drift = night.not_flagged(), blocks.drift.counts(stream.n_rows)
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
        cases=cases
        if groups
        else [replace(case, discovery=is_discovery(case.p_value, said)) for case in cases],
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
        # The batches of a voxel run are read once more for them.
        voxels=blocks.voxels.pictured(stream, scores) if blocks.voxels else None,
        geometries=tuple(stream.source.geometries),
        times=Times(started=started, seconds=0.0),
        sha256="",
    )


def _prevalence(model: Model, flagged: int, scored: int) -> Share | None:
    points = model.facts.operating_points
    return prevalence_tonight(flagged, scored, points[0]) if len(points) == 1 else None


def with_id(model: Model) -> dict[str, object]:
    """The model as a run states it: as it was sealed."""
    return {"id": model.id, "digest": model.digest} | model.sealed


Named = TypeVar("Named", Case, GroupFacts)

JUDGED = ("reviewed", "known")
"""States of a case that somebody has judged: no work of tonight."""


def night_of(
    model: Model,
    run: RunDocument,
    key: str,
    flagged: tuple[str, ...],
    series: str | None,
    shadow: bool,
) -> NightCases:
    """What the run brings to the ledger."""
    contract = model.contract
    counts = run.counts
    return NightCases(
        key=key,
        question=_question(model),
        night=run.date,
        flagged=flagged,
        sampled=tuple(run.sample),
        facts={
            "run_id": run.run_id,
            "model": model.digest,
            "recipe": model.facts.recipe.name,
            "thresholds": dict(zip(model.watched, model.thresholds.tolist(), strict=True)),
            "title": contract.title,
            "minutes_per_review": contract.minutes_per_review,
            "capacity": contract.capacity,
            "rows": {name: getattr(counts, name) for name in ("read", "scored", "refused", "flagged")},
            "unflagged": {"cases": run.unflagged.cases},
            "missing": _missing(run),
            "drift": run.drift and run.drift.to_dict(),
            "table": ",".join(file.sha256[:16] for file in run.input.files),
            "promised": _promised(run.model),
            "review_by": due.isoformat() if (due := review_due(run.model, model.trained)) else None,
        },
        known_days=contract.known_days,
        draw=contract.review_sample,
        named=series,
        shadow=shadow,
    )


def attention_of(model: Model, run: RunDocument, states: Mapping[str, Any], quiet: int) -> list[Reason]:
    """Why a night wants attention, once the ledger has counted its cases by state.

    `quiet`: nights in an unbroken row without a case.
    """
    recognisable = bool(model.contract.id or model.contract.group)
    known = replace(run, counts=replace(run.counts, **states))
    return of_run(known, quiet=quiet, recognisable=recognisable, trained=model.trained)


def _missing(run: RunDocument) -> dict[str, int]:
    """How many values of the features were missing, of how many: quality of the table, whoever is in it."""
    scored, shares = run.counts.scored, [each.missing for each in run.data]
    return {"missing": round(scored * sum(shares)), "values": scored * len(shares)}


def _promised(model: ModelDocument) -> dict[str, Any] | None:
    """What the model's page says of a night, where its rows are the patients that the ledger counts."""
    if len(model.operating_points) != 1 or model.stated.group is not None:
        return None
    (point,) = model.operating_points
    sensitivity, ppv = (
        Estimate(value=value, low=low, high=high)
        for value, low, high in (point.sensitivity_ends, point.ppv_ends)
    )
    return plain(SensitivityAndPpv(sensitivity=sensitivity, ppv=ppv))


def _question(model: Model) -> dict[str, Any]:
    task, contract = model.facts.task, model.contract
    return {
        "label": task.label,
        "positive": sorted(task.positive),
        "id": contract.id,
        "group": contract.group,
    }


def series_of(model: Model, named: str | None = None) -> str:
    """The series that the model's nights belong to: by name, by its contract, or by what it asks."""
    return series_by(named or model.contract.series, _question(model))


def remembered(run: RunDocument, night: NightCases, found: Recorded) -> RunDocument:
    """The run with what the ledger knows, and why it wants attention."""
    marked = set(found.drawn)
    counted: dict[str, Any] = found.counts | {"drawn": len(found.drawn)}

    def known(case: Case) -> Case:
        name = str(case.id if run.groups is None else case.group)
        return _with_history(case, found.cases.get(name), name in marked)

    def known_group(group: GroupFacts) -> GroupFacts:
        return _with_history(group, found.cases.get(group.group), group.group in marked)

    return replace(
        run,
        counts=replace(run.counts, **counted),
        cases=[known(case) for case in run.cases],
        groups=None if run.groups is None else [known_group(group) for group in run.groups],
        attention=found.attention,
        since=found.since,
        ledger=LedgerFacts(
            key=night.key,
            revision=found.revision,
            entry=found.head.number,
            head=found.head.digest,
            series=shown_series(night.series),
            shadow=night.shadow,
            chain=found.chain,
        ),
    )


def _with_history(one: Named, fact: Known | None, drawn: bool) -> Named:
    """The case or group with what the ledger knows of it."""
    if fact is None:
        return one
    night, word = fact.verdict or (None, None)
    last = None if night is None else Verdict(night=night, verdict=cast(Word, word))
    return replace(one, state=cast(State, fact.state), nights=fact.nights, last_verdict=last, drawn=drawn)


def waiting(run: RunDocument) -> list[float]:
    """Scores of those who wait for a review, the highest first: flagged, and not judged on a night before."""
    if run.groups is None:
        return [case.score for case in run.cases if case.state not in JUDGED]
    return [group.top_score for group in run.groups if group.flagged and group.state not in JUDGED]
