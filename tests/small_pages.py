"""Train on a few rows, validate and compare, and write the pages and documents into the
working directory.

Run in a process of its own by tests that alter the package.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import default_rng

from screening import compare, read_cohort, train, validate
from screening.contract.contract import Contract
from screening.metrics.figures import FIGURES
from screening.report.comparison import render_comparison
from screening.report.page import render_model, render_validation

KINDS = ("model", "validation", "comparison")
QUICK = {"folds": 3, "search": 1, "jobs": 1}


def rows() -> pd.DataFrame:
    rng = default_rng(0)
    ill = np.arange(160) % 4 == 0
    return pd.DataFrame(
        {
            "id": [f"p{number}" for number in range(160)],
            "fever": rng.normal(size=160) + 2 * ill,
            "ward": rng.choice(["icu", "surgery"], size=160),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def main() -> None:
    table = rows()
    contract = Contract(label="ill", id="id", subgroup=["ward"])
    past = read_cohort(table[:100], contract)
    model = train(past, "logistic", beside=(), **QUICK)
    documents = (
        model.document,
        validate(model, table[100:]).to_dict(),
        compare({"wards": past}, ["logistic"], **QUICK).document,
    )
    pages = (render_model, render_validation, render_comparison)
    for kind, page, document in zip(KINDS, pages, documents, strict=True):
        Path(f"{kind}.html").write_text(page(document), encoding="utf-8")
        Path(f"{kind}.json").write_text(json.dumps(document), encoding="utf-8")
    Path("figures.json").write_text(json.dumps(list(FIGURES)), encoding="utf-8")


if __name__ == "__main__":
    main()
