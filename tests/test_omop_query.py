"""The example query of docs/sources.md yields a cohort from a small made OMOP database of every kind."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from database_places import in_database, in_duckdb, in_sqlite
from ledger_places import schema

from screening import Database, read_cohort

pytest.importorskip("duckdb", reason="needs DuckDB")
QUERY = Path(__file__).parents[1] / "docs" / "omop_cohort.sql"
CONCEPTS = {"temperature": 3020891, "heart_rate": 3027018, "crp": 3020460, "leukocytes": 3000905}
DAY = pd.Timestamp("2026-03-01").date()
STAYS = 40


def omop() -> dict[str, pd.DataFrame]:
    """Persons with one stay each; every fifth gets sepsis on its third day, some had it on their first."""
    rng = np.random.default_rng(0)
    number = np.arange(STAYS)
    later = pd.Timestamp("2026-03-03").date()
    values = pd.DataFrame(
        {
            "visit_occurrence_id": np.repeat(1000 + number, 4),
            "measurement_concept_id": list(CONCEPTS.values()) * STAYS,
            "measurement_date": DAY,
            "value_as_number": rng.normal(40, 5, 4 * STAYS),
        }
    )
    # A higher value of the next day must not be seen.
    values = pd.concat([values, values.assign(measurement_date=later, value_as_number=999.0)])
    ill = pd.DataFrame({"visit_occurrence_id": 1000 + number[::5], "condition_start_date": later})
    known = pd.DataFrame({"visit_occurrence_id": 1000 + number[3::10], "condition_start_date": DAY})
    return {
        "person": pd.DataFrame(
            {
                "person_id": number,
                "year_of_birth": 1950 + number,
                "gender_concept_id": 8532 - 25 * (number % 2),
            }
        ),
        "visit_occurrence": pd.DataFrame(
            {
                "visit_occurrence_id": 1000 + np.arange(STAYS + 1), "person_id": [*number, 0],
                "visit_concept_id": [9201] * STAYS + [9202], "visit_start_date": DAY, "visit_end_date": later,
            }
        ),
        "measurement": values,
        "condition_occurrence": pd.concat([ill, known]).assign(condition_concept_id=132797),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_the_example_query_yields_a_cohort(kind, request, tmp_path):
    if kind == "postgresql":
        url = schema(request.getfixturevalue("postgres"), "omop")
        for name, table in omop().items():
            in_database(table, url, name)
    else:
        put = {"sqlite": in_sqlite, "duckdb": in_duckdb}[kind]
        (url,) = {put(table, tmp_path, name) for name, table in omop().items()}

    cohort = read_cohort(
        Database(url, query=QUERY), label="sepsis", id="visit_occurrence_id", group="person_id"
    )

    assert cohort.names == ["age", "sex", *CONCEPTS]
    assert cohort.n_rows == STAYS
    assert list(np.flatnonzero(cohort.label == "yes")) == list(range(0, STAYS, 5))
    assert cohort.features["age"].tolist() == [76 - number for number in range(STAYS)]
    assert cohort.features["temperature"].max() < 999
