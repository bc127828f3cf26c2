"""Train and score with the installed plug-ins, in a process of its own; print what was
seen as JSON.
"""

import json
import sys
from pathlib import Path

from commands import LOGISTIC, WHO, as_json, screen
from flow_cohorts import night_of_patients, patients
from written_files import read_json

from screening.factors import FACTORS

SITE = """
[site]
ledger = "ledger.db"
publish = "pages"
jobs = 1
[series.ward]
model = "model"
cohort = "night.ndjson"
"""
NIGHT = "2026-03-01"
QUICK = [word for word in LOGISTIC if word not in ("--recipe", "logistic")]
METHOD = ("--recipe", "slab", *QUICK)


def main(folder: Path) -> None:
    """Use every kind of member once."""
    past, night = folder / "past.ndjson", folder / "night.ndjson"
    patients(160).to_json(past, orient="records", lines=True)
    night_of_patients(160, seed=3).to_json(night, orient="records", lines=True)
    contract, model, run = folder / "cohort.toml", folder / "model", folder / "run"
    in_wards = ("--set", "subgroup=ward")
    seen = [
        screen("recipes"),
        screen("export", "--help"),
        screen("init", past, *WHO, *in_wards, "--out", contract),
        screen("train", past, "--contract", contract, *METHOD, "--out", model),
        screen("score", model, night, "--out", run),
        screen("export", run, "--to", "list", "--out", folder / "list.txt"),
    ]
    (folder / "NIGHT.toml").write_text(SITE)
    (of_site,) = as_json("run", folder / "NIGHT.toml", "--date", NIGHT)["series"]
    print(
        json.dumps(
            {
                "stdout": [result.stdout for result in seen],
                "stderr": "".join(result.stderr for result in seen),
                "check": as_json("check", night, "--model", model)["notes"],
                "factors": list(FACTORS),
                "model": read_json(model / "model.json"),
                "run": read_json(run / "run.json"),
                "of_site": of_site,
                "run_of_site": read_json(folder / "runs" / "ward" / NIGHT / "run.json"),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
