"""`screen export`"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson
from screening.errors import UsageError


class Form(StrEnum):
    """What a run can be exported as."""

    xlsx = "xlsx"
    csv = "csv"
    fhir = "fhir"
    omop = "omop"
    table = "table"
    nifti = "nifti"
    dicom_seg = "dicom-seg"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory written by `screen score`.")],
    to: Annotated[Form, typer.Option(help="What to write.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write; of omop, nifti and dicom-seg a directory."),
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Of table: the database.")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Of table: its name.")] = None,
    id_system: Annotated[
        str | None, typer.Option(metavar="URI", help="Of fhir: the system whose identifiers the ids are.")
    ] = None,
    definition: Annotated[
        int, typer.Option(metavar="N", help="Of omop: cohort_definition_id of the first class.")
    ] = 1,
    reference: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Of dicom-seg: DIR/PATIENT has the DICOM series.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the flagged rows of RUN for another system; of images, flags and scores as volumes."""
    from screening.scoring.exports.flagged import read_flagged

    if (to is Form.table) != bool(url and table) or (to is Form.table) == bool(out):
        raise UsageError("--to table needs --url and --table; every other form needs --out")
    if (to is Form.dicom_seg) != (reference is not None):
        raise UsageError("--to dicom-seg needs --reference, and no other form has one")
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists already; give another --out, or --force to replace it")
    flagged = read_flagged(run)
    place = str(out)
    if to is Form.table:
        from screening.scoring.exports.database import write_table

        place = f"{write_table(flagged, str(url), str(table), force=force)} table {table}"
    elif to is Form.omop:
        from screening.scoring.exports.omop import omop_of
        from screening.storage.publishing import publish

        with publish(place, "omop") as folder:
            for name, content in omop_of(flagged, definition).items():
                (folder / name).write_bytes(content)
    elif to in (Form.nifti, Form.dicom_seg):
        from screening.scoring.exports.dicom_seg import dicom_seg_of
        from screening.scoring.exports.volumes import nifti_of, write_volumes
        from screening.storage.publishing import publish

        known = flagged.run
        volumes = dicom_seg_of(run, known, reference) if reference else nifti_of(run, known)
        with publish(place, "volumes") as folder:
            write_volumes(folder, known, volumes)
    else:
        from screening.scoring.exports import fhir, sheets
        from screening.storage.publishing import write_whole

        forms = {
            Form.csv: lambda: sheets.csv_of(flagged),
            Form.xlsx: lambda: sheets.xlsx_of(flagged),
            Form.fhir: lambda: fhir.fhir_of(flagged, id_system),
        }
        write_whole(Path(place), forms[to]())
    told = {
        "run_id": flagged.run.run_id,
        "rows": len(flagged.rows),
        "erased": flagged.run.erased,
        "out": place,
    }
    tell(told, as_json)
