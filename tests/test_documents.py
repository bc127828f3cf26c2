"""What is written is what its type says: no key without a type, no type without its
producer.
"""

import json
from functools import reduce
from importlib.metadata import version
from operator import getitem
from pathlib import Path

import pytest
from commands import sampled, screen, verdict_file, verdicts_on
from event_tables import small_spec
from faults.desk import QUICK, ROLES
from flow_cohorts import night_of_patients, patients, voxels, written
from typer.testing import CliRunner
from written_files import read_json

from screening import load_model, open_ledger, save_model, score
from screening.cli import COMMANDS, app
from screening.errors import ModelError
from screening.schemas.comparison import ComparisonDocument
from screening.schemas.model import ModelDocument
from screening.schemas.run import RunDocument
from screening.schemas.schemas import ANSWERS, DOCUMENTS, schema_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def night(cohort, trained, tmp_path_factory):
    """A model of two classes, and a night that it scored: both documents as they lie on
    disk.
    """
    folder = tmp_path_factory.mktemp("night")
    save_model(trained(cohort, "logistic", search=1), folder / "model")
    new = written(night_of_patients(60, seed=1), folder / "new.csv")
    with open_ledger(str(folder / "screening.db"), make=True) as book:
        model = load_model(folder / "model")
        score(model, new, folder / "run", ledger=book)
    return folder


@pytest.fixture(scope="module")
def volumes(tissue_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes")
    save_model(tissue_model, folder / "model")
    new = written(voxels(3, seed=1), folder / "new.parquet")
    model = load_model(folder / "model")
    score(model, new, folder / "run", label="tissue")
    return folder


def stored(path: Path) -> dict:
    return read_json(path)


@pytest.mark.parametrize("kind", ["night", "volumes"])
def test_what_training_and_scoring_write_is_what_the_types_say(kind, request):
    """A key that no type knows is noticed."""
    folder = request.getfixturevalue(kind)
    document = stored(folder / "run" / "run.json")
    model = ModelDocument.from_dict(
        stored(folder / "model" / "model.json"), "model.json"
    )
    run = RunDocument.from_dict(document, "run.json")

    assert model.validation.n_rows == model.training.n_rows_used
    assert run.counts.read == run.counts.scored + run.counts.refused
    assert run.model.sha256 == model.sha256
    document["counts"]["guessed"] = 1
    with pytest.raises(ModelError, match=r"counts\.guessed"):
        RunDocument.from_dict(document, "run.json")


def test_what_every_command_prints_with_json_is_what_its_schema_says(
    tmp_path, monkeypatch
):
    """`screen` of the tests holds each answer to its type; here every command that has
    --json is asked.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("screening.cli.demo._whole_job", lambda *job: None)
    written(patients(), tmp_path / "past.csv")
    written(patients(90, seed=5), tmp_path / "v.csv")
    for day, seed in (("2026-03-01", 1), ("2026-03-02", 2)):
        written(night_of_patients(60, seed=seed), tmp_path / f"{day}.csv")
    (tmp_path / "NIGHT.toml").write_text(
        '[site]\nledger = "site.db"\nhooks = [["true"]]\n'
        '[series.ward]\nmodel = "m"\ncohort = "{date}.csv"\ncatch_up = 0\n',
        encoding="utf-8",
    )
    book = ("--ledger", "l.db")
    asked = set()

    def ask(line: str, *more: str, code: int = 0) -> dict:
        words = (*line.split(), *more)
        asked.add(words[0] if code != 2 else "error")
        answer = screen(*words, "--json", code=code)
        return json.loads(answer.stdout)

    ask("demo --out demo")
    ask("recipes svm")
    ask("init past.csv --out c.toml")
    ask("check past.csv --contract c.toml")
    small_spec(tmp_path, "p1,s1,2026-03-01T10:00,,ADMISSION,,,\n", 'age = "age"')
    ask("features spec.toml --night 2026-03-02 --out made.parquet")
    ask("train past.csv --max-flag-rate 0.2 --out m", *QUICK, *ROLES)
    ask("train past.csv --min-sensitivity 90 --out m", code=2)
    ask("compare past.csv --recipes logistic --search 1 --folds 2 --out c", *ROLES)
    ask("validate m v.csv --out v")
    ask("threshold m --max-flag-rate 0.25 --reason more")
    ask("approve m --by Weber --reason try --known-before fever,crp,ward")
    ask("score m 2026-03-01.csv --date 2026-03-01 --out 1 --series w", *book)
    run = stored(tmp_path / "1" / "run.json")
    one = run["cases"][0]["id"]
    ask("explain 1", one)
    ask("export 1 --to csv --out f.csv")
    ask("report 1")
    ids = (one, *sampled(run))
    words = verdicts_on(ids, "confirmed")
    verdict_file(tmp_path / "1", words)
    ask("review 1 verdicts.json", *book)
    ask("retrain w m past.csv --nights {date}.csv --out next", *book)
    ask("approve next --by Weber --reason try --known-before fever,crp,ward")
    ask(
        "score next 2026-03-02.csv --date 2026-03-02 --out 2 --series w --shadow", *book
    )
    ask("promote next --series w --reason newer", *book)
    (tmp_path / "events.csv").write_text(f"id,when\n{one},2026-03-02\n")
    ask(
        "outcomes events.csv --id id --time when --within 3d --series w",
        *book,
    )
    ask("history", *book)
    ask("status --night 2026-03-01 --artefacts", *book)
    ask("run NIGHT.toml --date 2026-03-01")
    ask("ledger rebuild l.db")
    ask("forget --runs .", one, *book)
    ask("purge --older-than 90d", *book)
    ask("retire w --reason closed", *book)

    # One prints a schema, the other goes on until it is stopped.
    commands = COMMANDS.keys() - {"schema", "serve"}
    assert asked == set(ANSWERS) == {"error", *commands}
    for name in asked:
        assert schema_of(name, printed=True)["properties"]
    comparison = ComparisonDocument.from_dict(
        stored(tmp_path / "c" / "comparison.json")
    )
    methods = comparison.cohorts[0].methods
    assert [each.recipe for each in methods] == [
        "svm",
        "logistic",
    ]


# Older ones describe fewer of the nested keys.
as_in_the_docs = pytest.mark.skipif(
    tuple(map(int, version("pydantic").split(".")[:2])) < (2, 14),
    reason="the docs are of pydantic 2.14",
)


@as_in_the_docs
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_command_prints_the_schema_that_the_docs_keep(name):
    printed = CliRunner().invoke(app, ["schema", name])
    assert printed.exit_code == 0
    assert json.loads(printed.stdout) == stored(
        ROOT / "docs" / "schemas" / f"{name}.json"
    )


@pytest.mark.parametrize(
    "place",
    [
        "model/validation/curves/yes/sensitivity/low",
        "model/validation/search/scores",
        "score_counts/yes/counts",
        "scale/past_cases",
    ],
)
def test_columns_that_are_read_side_by_side_are_of_one_length(night, place):
    document = stored(night / "run" / "run.json")
    reduce(getitem, place.split("/"), document).pop()
    with pytest.raises(ModelError, match="differ in length"):
        RunDocument.from_dict(document)
