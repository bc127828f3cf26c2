"""The commands: exit codes, one answer on stdout, the same bytes for a seed, what they
say of themselves.
"""

import datetime
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from commands import LOGISTIC, WHO, as_json, screen
from flow_cohorts import patients, written
from ledger_nights import enter, night
from written_files import contents_of, page_in, read_json

from screening import MaxFlagRate, save_model
from screening.cli import COMMANDS, demo, options
from screening.contract.contract import Contract
from screening.ledger.database import open_ledger
from screening.schemas.model import ModelDocument
from screening.settings import bytes_from, names_from_all, params_from
from screening.spelling import joined
from screening.store.publishing import hold

ROOT = Path(__file__).parents[1]
SAMPLES = Path(str(files("screening.sample_cohorts")))
QUICK = [
    "--recipe",
    "svm",
    "--search",
    "1",
    "--folds",
    "2",
    "--jobs",
    "1",
    "--beside",
    "none",
]


def head(source: Path, target: Path, rows: int) -> None:
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(lines[: rows + 1])
    target.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    head(SAMPLES / "nosocomial_past.csv", folder / "past.csv", 250)
    head(SAMPLES / "nosocomial_night.csv", folder / "tonight.csv", 60)
    (folder / "cohort.toml").write_bytes((SAMPLES / "nosocomial.toml").read_bytes())
    return folder


def trained(desk, out, *more, code=0):
    words = [
        "train",
        desk / "past.csv",
        "--contract",
        desk / "cohort.toml",
        *QUICK,
        *more,
    ]
    return screen(*words, "--out", out, code=code)


@pytest.fixture(scope="module")
def model(desk):
    """Its training ends with its figures, the verdict and the place of the page."""
    answer = trained(desk, desk / "model").stdout
    lines = [line for line in answer.splitlines() if line[0] != " "]
    names = [line.split("  ")[0] for line in lines]
    assert names[-11:] == [
        "threshold",
        "sensitivity",
        "specificity",
        "PPV",
        "NPV",
        "LR+",
        "LR−",
        "net benefit",
        "AUROC",
        "fit for use?",
        "report",
    ]
    assert len(re.findall(r"\(95% CI [0-9.]+–[0-9.]+%?\)", answer)) == 8
    return desk / "model"


@pytest.fixture(scope="module")
def run(desk, model):
    screen(
        "score",
        model,
        desk / "tonight.csv",
        "--out",
        desk / "run",
        "--date",
        "2026-03-01",
    )
    return desk / "run"


def test_the_same_training_and_the_same_night_give_the_same_bytes(
    desk, model, run, tmp_path
):
    """Wherever they lie, as long as model and run lie alike: the page links from the
    one to the other.
    """
    again = tmp_path / "model"
    night = tmp_path / "run"
    trained(desk, again)
    screen("score", again, desk / "tonight.csv", "--out", night, "--date", "2026-03-01")
    first = contents_of(run)
    second = contents_of(night)

    assert contents_of(again) == contents_of(model)
    assert {**first, "run.json": b""} == {**second, "run.json": b""}
    # Drawn again they are the same; what a model says of its making names no folder.
    for folder in (model, run):
        page = (folder / "report.html").read_bytes()
        screen("report", folder)
        assert (folder / "report.html").read_bytes() == page
    command = read_json(model / "model.json")["training"]["command"]
    assert " train past.csv --recipe svm" in command
    assert "'" not in command.partition("past.csv")[0]
    assert str(desk) not in command
    assert "--out" not in command
    assert "--jobs" not in command


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--recipe", "nope"], "svm_weighted"),
        (["--g-mean", "--miss-cost", "20"], "--miss-cost, --g-mean"),
        (
            ["--min-sensitivity", "90"],
            "must be above 0 and at most 1, got 90; did you mean 0.9?",
        ),
        (["--param", "C"], "name=value"),
        (["--param", "kappa=1"], "'kappa'"),
        (["--positive", "perhaps"], "perhaps"),
    ],
)
def test_a_command_that_makes_no_sense_exits_2_and_says_what_would(
    desk, tmp_path, words, told
):
    result = trained(desk, tmp_path / "m", *words, code=2)
    assert told in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_broken_contract_exits_3_with_all_violations_and_no_value(
    desk, model, tmp_path
):
    lines = (desk / "tonight.csv").read_text(encoding="utf-8").splitlines()
    names = lines[0].split(",")
    # One odd text in a column would be missing, and listed.
    odd_cells = (
        (3, "age"),
        (4, "age"),
        (5, "crp"),
        (6, "crp"),
    )
    for row, column in odd_cells:
        cells = lines[row].split(",")
        cells[names.index(column)] = "SECRET77"
        lines[row] = ",".join(cells)
    text = "\n".join(lines)
    (tmp_path / "tonight.csv").write_text(text, encoding="utf-8")
    scored = screen(
        "score", model, tmp_path / "tonight.csv", "--out", tmp_path / "r", code=3
    )
    checked = screen(
        "check", tmp_path / "tonight.csv", "--model", model, "--json", code=3
    )

    assert not (tmp_path / "r").exists()
    assert len(json.loads(checked.stdout)["violations"]) == 2
    for text in (scored.stderr, checked.stderr, checked.stdout):
        assert "age" in text
        assert "crp" in text
        assert "SECRET77" not in text


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (
            '[cohort]\ntitle = "Ward 7"\n',
            "table [cohort] is given twice (lines 4 and ",
        ),
        ('type = "number"\n', "key type is given twice in [features.albumin] (line "),
        ('subgroup = ["ward"]\n', "`subgroup`, which belong under [cohort]"),
    ],
)
def test_block_pasted_at_end(desk, tmp_path, block, words):
    """A block of the tutorial at the end of a contract is explained by one message."""
    contract = (desk / "cohort.toml").read_text(encoding="utf-8")
    pasted = tmp_path / "pasted.toml"
    pasted.write_text(contract + block, encoding="utf-8")

    result = screen("check", desk / "past.csv", "--contract", pasted, code=3)

    assert words in result.stderr
    assert result.stderr.count("pasted.toml: ") == 1


def test_key_given_twice_named(desk, tmp_path):
    """A contract with a key given twice is TOML all the same: what is said is the
    key.
    """
    twice = tmp_path / "twice.toml"
    contract = (desk / "cohort.toml").read_text(encoding="utf-8")
    twice.write_text(contract + "[features.age]\n", encoding="utf-8")
    result = screen("check", desk / "past.csv", "--contract", twice, code=3)
    screen("init", desk / "past.csv", "--out", desk / "cohort.toml", code=2)
    assert "table [features.age] is given twice (lines " in result.stderr
    # A contract that exists is not written over.
    assert (desk / "cohort.toml").read_text(encoding="utf-8") == contract


def test_a_model_that_cannot_be_used_is_refused(desk, model, tmp_path, monkeypatch):
    """Damaged: 4; none there: 2, and the one probably meant; a place another run writes
    to: 75.
    """
    monkeypatch.chdir(model.parent)
    for path in model.iterdir():
        damaged = path.read_bytes()[:-1]
        (tmp_path / path.name).write_bytes(damaged)
    night = (desk / "tonight.csv", "--out", tmp_path / "r")
    for words in (["score", tmp_path, *night], ["report", tmp_path]):
        assert "damaged" in screen(*words, code=4).stderr

    refused = screen("score", f"{model}s", *night, code=2)
    assert refused.stderr.endswith("did you mean 'model'?\n")
    with hold(tmp_path / "r"):
        screen("score", model, *night, code=75)
    # The shell completes recipes, models and series.
    assert options.recipes_like("one_class_c") == ["one_class_conformal"]
    assert options.models_like("mod") == ["model"]
    assert options.series_like("") == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt, 130),
        (ZeroDivisionError, 1),
    ],
)
def test_train_interrupted_exit_code(desk, tmp_path, monkeypatch, error, code):
    """An interrupted training exits 130, and a bug 1 with its traceback.

    Neither leaves anything.
    """
    monkeypatch.setattr(
        "screening.model_selection.train.train", Mock(side_effect=error)
    )
    result = trained(desk, tmp_path / "deep" / "m", code=code)
    assert list(tmp_path.iterdir()) == []
    assert isinstance(result.exception, (SystemExit, ZeroDivisionError))


def test_train_without_contract(desk, tmp_path):
    """A table without a contract is trained on as init reads it and says the same."""
    init = screen(
        "init", desk / "past.csv", "--yes", "--json", "--out", tmp_path / "c.toml"
    )
    trained = screen(
        "train", desk / "past.csv", *QUICK, "--json", "--out", tmp_path / "model"
    )
    said = json.loads(init.stdout)
    notes = json.loads(trained.stdout)["notes"]
    dropped = [f"dropped, {words}" for words in said["dropped"]]
    assert {*said["notes"], *dropped} <= {*notes}
    contract = read_json(tmp_path / "model" / "model.json")["contract"]
    assert contract == Contract.load(tmp_path / "c.toml").to_dict()


def said_on_terminal(typed, *words):
    """What a command shows on a terminal where somebody types."""
    mine, theirs = os.openpty()
    command = [sys.executable, "-m", "screening", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        os.write(mine, typed)
        said = bytearray()
        with suppress(OSError):
            while part := os.read(mine, 4096):
                said += part
    os.close(mine)
    return said.decode()


def test_init_asks_on_a_terminal_with_its_guesses_as_defaults(desk, tmp_path):
    """Outcome, case, patient, row id, date and reviews a night; a wrong answer is asked
    again.
    """
    typed = b"\nno\nnone\npatient\npatient_id\n\n40\n"
    out = tmp_path / "c.toml"
    asked = said_on_terminal(typed, "init", desk / "past.csv", "--out", out)

    for question in (
        "Outcome",
        "case (no, yes) [yes]",
        "Patient",
        "Row id",
        "[admission_date]",
        "Possible reviews",
    ):
        assert question in asked
    assert "'patient' is not one of these answers" in asked
    contract = Contract.load(tmp_path / "c.toml")
    assert contract.label == "infected"
    assert contract.positive == ["no"]
    assert contract.group is None
    assert contract.id == "patient_id"
    assert contract.time == "admission_date"
    assert contract.capacity == 40


def test_init_sets_keys_of_the_contract(desk, tmp_path):
    """`--set` writes any key of [cohort], a list by its items with commas between."""
    out = tmp_path / "c.toml"
    words = {
        "title": "Infection, ward 7",
        "capacity": "12",
        "review_sample": "0",
        "display": "ward,bed",
        "review_by": "2027-01-01",
        "id_is_person": "true",
    }
    settings = [word for key in words for word in ("--set", f"{key}={words[key]}")]
    screen("init", desk / "past.csv", "--yes", "--out", out, *settings)

    contract = Contract.load(out)
    assert contract.title == "Infection, ward 7"
    assert contract.capacity == 12
    assert contract.review_sample == 0
    assert contract.display == ["ward", "bed"]
    assert contract.review_by == datetime.date(2027, 1, 1)
    assert contract.id_is_person
    assert not {"ward", "bed"} & set(contract.features)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("capacity", "write KEY=VALUE"),
        ("titel=x", "did you mean 'title'?"),
        ("features=x", "[cohort] has no key 'features'"),
        ("capacity=many", "capacity: Input should be a valid integer"),
        ("capacity=0", "capacity: Input should be greater than 0"),
        ("time_zone=Nowhere", "time_zone: 'Nowhere' is not a time zone"),
        ("verdicts_need=site,sign", "verdicts_need: Input should be"),
    ],
)
def test_init_refuses_settings_by_key(desk, tmp_path, setting, words):
    """A setting that the contract cannot have is named; nothing is written."""
    out = tmp_path / "c.toml"
    answer = screen("init", desk / "past.csv", "--out", out, "--set", setting, code=2)
    assert words in answer.stderr
    assert not out.exists()


def test_init_lists_names_of_the_columns_that_carry_the_ranking(model):
    """Lines for the contract: the name and unit that the model's pages show."""
    answer = screen("init", "--names", model)
    facts = ModelDocument.from_dict(read_json(model / "model.json"))
    named = tomllib.loads(answer.stdout)["features"]
    assert list(named) == facts.columns_of_ranking
    assert named
    assert {name: named[name]["title"] for name in named} == {
        name: facts.title_of(name) for name in named
    }
    as_json = json.loads(screen("init", "--names", model, "--json").stdout)
    assert tomllib.loads("\n".join(as_json["names"]))["features"] == named


def test_init_asks_for_names_on_a_terminal(model):
    """Lines have the answers; by default the model's title and unit."""
    facts = ModelDocument.from_dict(read_json(model / "model.json"))
    first, second = facts.columns_of_ranking[:2]
    typed = b"Readable name\nmg/L\n" + 20 * b"\n"

    said = said_on_terminal(typed, "init", "--names", model).replace("\r\n", "\n")

    lines = "[features." + said.partition("[features.")[2]
    named = tomllib.loads(lines)["features"]
    assert list(named) == facts.columns_of_ranking
    assert named[first] == {"title": "Readable name", "unit": "mg/L"}
    unit = facts.declared(second).unit or ""
    assert named[second] == {"title": facts.title_of(second), "unit": unit}


def test_init_needs_a_table_or_a_model():
    answer = screen("init", code=2)
    assert "give COHORT and --out, or --names MODEL" in answer.stderr


def test_init_says_which_of_several_classes_would_be_watched(tmp_path):
    """And training says so again, or that it needs a choice."""
    table = tmp_path / "past.csv"
    classes = (["none"] * 8 + ["sepsis", "stroke"]) * 10
    pd.DataFrame(
        {"age": np.arange(100) % 37 + 40, "lactate": np.arange(100) % 11, "dx": classes}
    ).to_csv(table, index=False)
    init = screen("init", table, "--label", "dx", "--out", tmp_path / "c.toml")
    said = " ".join(init.stdout.split())
    assert "Training would watch sepsis, stroke, each as a class of its own." in said
    assert "It would not watch none. To name others: --positive sepsis,stroke" in said
    words = (
        "train",
        table,
        "--label",
        "dx",
        "--recipe",
        "svm",
        "--out",
        tmp_path / "m",
    )
    refused = screen(*words, code=2)
    assert "the label has 3 classes" in refused.stderr
    assert "--positive" in refused.stderr


def test_a_nights_page_links_to_its_models_and_a_readers_copy_does_not(
    desk, model, run, tmp_path
):
    """Features, recipe and TRIPOD+AI record are there, at their anchors, as seen from
    the run directory.
    """
    links = re.findall(r'<a href="([^"#]+)#(\w+)"', page_in(run))

    assert {anchor for _, anchor in links} == {"features", "recipe", "tripod"}
    for place, anchor in links:
        assert f'id="{anchor}"' in (run / place).read_text(encoding="utf-8")
    where = ["--out", tmp_path / "run", "--publish", tmp_path / "pages"]
    screen("score", model, desk / "tonight.csv", *where, "--date", "2026-03-01")
    copy = (tmp_path / "pages" / "latest.html").read_text(encoding="utf-8")
    assert "TRIPOD+AI record" in copy and "report.html#" not in copy


HEAVY = ("pandas", "pyarrow", "sklearn", "scipy", "numba", "dask", "distributed")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_one_example_that_the_command_understands(command):
    """Usage has no braces, and the list of commands fits a terminal of 80 columns."""
    shown = screen(command, "--help").stdout
    example = COMMANDS[command].example
    words = example.split()
    listed = screen(code=2).stderr.partition("Commands:")[2]

    usage = next(line for line in shown.splitlines() if "Usage:" in line)
    assert "{" not in usage and "}" not in usage
    assert f"Example: {example}" in " ".join(shown.split())
    assert words[:2] == ["screen", command]
    options = {word for word in words if word.startswith("--")}
    names = re.findall(r"^  [a-z]+  ", listed, re.MULTILINE)
    assert options <= set(shown.split())
    assert len(names) == len(COMMANDS)
    assert "..." not in listed


def test_help_is_quick_for_it_waits_for_no_numerical_package():
    """And is what the documents show."""
    code = "import sys\nfrom screening.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    command = [sys.executable, "-c", code, "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    script = runpy.run_path(str(ROOT / "docs" / "commands.py"))
    docs = script["commands"]()
    imported = set(answer.stdout.split())
    assert imported & {*HEAVY, "numpy", "joblib", "sqlalchemy"} == set()
    assert docs == (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


ESTIMATORS = ("dask", "distributed", "numba", "scipy.stats", "sklearn")
FRAMES = ("pandas", "pyarrow")
OF_TABLES = (*ESTIMATORS, *FRAMES, "scipy", "joblib", "screening.contract.contract")
# By command a module that it needs, and packages that it does not wait for.
IMPORTS = {
    "status": ("screening.ledger.status", OF_TABLES),
    "review": ("screening.ledger.verdicts", OF_TABLES),
    "history": ("screening.ledger.history", (*ESTIMATORS, *FRAMES)),
    "check": (
        "screening.data.reading",
        (*ESTIMATORS, "joblib", "scipy.special", "sqlalchemy"),
    ),
    "approve": (
        "screening.store.model_files",
        (*ESTIMATORS, *FRAMES, "sqlalchemy"),
    ),
}


@pytest.mark.parametrize("command", IMPORTS)
def test_quick_commands_import_only_what_they_use(command, tmp_path):
    """Who reads the ledger or a table does not wait for what trains or scores."""
    ledger = tmp_path / "screening.db"
    with open_ledger(str(ledger), make=True) as book:
        enter(book, night(1, "a"))
    (tmp_path / "verdicts.json").write_text("{}", encoding="utf-8")
    table = tmp_path / "past.csv"
    table.write_text("id,age,ill\n1,40,no\n2,50,yes\n", encoding="utf-8")
    contract = tmp_path / "cohort.toml"
    contract.write_text('id = "id"\nlabel = "ill"\npositive = "yes"\n[features.age]\n')
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.json").write_text("{}", encoding="utf-8")
    of_ledger = ["--ledger", ledger]
    words = {
        "status": ["--night", "2026-03-01", *of_ledger],
        "review": [tmp_path / "run", tmp_path / "verdicts.json", *of_ledger],
        "history": ["--out", tmp_path / "history.html", *of_ledger],
        "check": [table, "--contract", contract],
        "approve": [model, "--by", "A. Weber"],
    }
    code = "import sys\nfrom screening.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    line = [sys.executable, "-c", code, command, *words[command]]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    imported = set(ended.stdout.split())
    needed, others = IMPORTS[command]
    assert needed in imported, ended.stderr
    assert imported & set(others) == set()


def test_check_by_model_builds_no_machine(table, cohort, trained, tmp_path):
    """A night is checked by what training saw; only a score of points is computed."""
    model = trained(cohort, "logistic", search=1, rule=MaxFlagRate(0.1))
    save_model(model, tmp_path / "model")
    code = "import sys\nfrom screening.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    line = [sys.executable, "-c", code, "check", table, "--model", tmp_path / "model"]

    ended = subprocess.run(line, capture_output=True, text=True, check=False)

    imported = set(ended.stdout.split())
    assert "screening.monitoring.drift" in imported, ended.stderr
    assert imported & {"sklearn", "numba", "screening.estimators.base"} == set()


def test_the_demo_writes_every_report_and_says_where(tmp_path, monkeypatch):
    job = demo.JOBS[0]._replace(recipe="logistic", max_rows=150)
    monkeypatch.setattr(demo, "JOBS", (job,))
    places = as_json("demo", "--out", tmp_path / "demo")["reports"]
    assert len(places) == 2
    pages = []
    for place in places:
        pages.append(Path(place).read_text(encoding="utf-8").lower())
    assert [page[:15] for page in pages] == ["<!doctype html>"] * 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("C=10", 10),
        ("C=1e-3", 0.001),
        ("class_weight=balanced", "balanced"),
        ("normalise=true", True),
        ("g=a=b", "a=b"),
    ],
)
def test_a_parameter_is_a_number_or_a_truth_where_it_looks_like_one(text, value):
    """And a size is read with its unit."""
    (read,) = params_from([text]).values()
    texts = ("512M", "2G", "1.5 GB", "2097152")
    sizes = [bytes_from(text) for text in texts]
    assert read == value
    assert type(read) is type(value)
    assert sizes == [512 << 20, 2 << 30, 3 << 29, 1 << 21]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tarin", "past.csv"], "'tarin'. Did you mean 'train'?"),
        (["train"], "missing argument 'COHORT'"),
        (
            ["train", "past.csv", "--recpie", "svm"],
            "option --recpie does not exist; did you mean '--recipe'?",
        ),
        (["train", "past.csv", "--out", "m", "--folds", "x"], "'--folds'"),
        (["recipes", "svm_weigthed"], "did you mean 'svm_weighted'?"),
    ],
)
def test_a_mistyped_command_gets_one_line_and_json_where_asked_for(words, told):
    plain = screen(*words, code=2)
    asked = screen(*words, "--json", code=2)

    (line,) = plain.stderr.splitlines()
    assert line.startswith("screen: ")
    assert told in line
    assert plain.stdout == ""
    answer = json.loads(asked.stdout)["error"]
    assert answer["kind"] == "usage"
    assert answer["exit_code"] == 2
    assert told in answer["message"]


@pytest.mark.parametrize(
    ("option", "name", "told"),
    [
        ("--label", "ll", "'ill'"),
        ("--id", "Patient", "'patient'"),
        ("--drop", "warrd", "'ward'"),
    ],
)
def test_a_column_that_is_not_there_asks_for_the_one_most_like_it(
    table, tmp_path, option, name, told
):
    words = ("train", table, option, name, *LOGISTIC)
    answer = screen(*words, "--out", tmp_path / "m", code=3)
    assert f"missing column '{name}'" in answer.stderr
    assert f"; did you mean {told}?" in answer.stderr


def trained_on(past, out, *more, code=0):
    return screen("train", past, *WHO, *LOGISTIC, *more, "--out", out, code=code)


def test_train_replace_needs_force(table, tmp_path):
    """A model of another recipe cohort or label is replaced by force alone.

    The same training may replace its own model, byte for byte; a damaged one is not
    swept away.
    """
    out = tmp_path / "model"
    other = patients(seed=1)
    is_cold = other["fever"] < 37
    other["cold"] = np.where(is_cold, "yes", "no")
    other = written(other, tmp_path / "other.csv")
    trained_on(table, out)
    before = (out / "model.json").read_bytes()

    trained_on(table, out)
    recipe = trained_on(table, out, "--recipe", "svm", code=2)
    cohort = trained_on(other, out, "--label", "cold", code=2)

    assert (
        "contains a model with another recipe; give another --out, or --force"
        in recipe.stderr
    )
    assert "another cohort and label" in cohort.stderr
    assert (out / "model.json").read_bytes() == before
    trained_on(other, out, "--force")
    assert (out / "model.json").read_bytes() != before
    (out / "model.json").write_text("{")
    assert "cannot be read; give another --out" in trained_on(table, out, code=2).stderr


def test_deleted_working_directory_is_named(tmp_path):
    """Where the working directory is gone, that is the message."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir {gone}; exec {sys.executable} -m screening recipes"

    answer = subprocess.run(
        command,
        cwd=gone,
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 2
    assert "the working directory was deleted" in answer.stderr


def test_positive_values_with_commas():
    """Values with commas between them, or of several options, are classes of cases; one
    with a comma is in double quotes.
    """
    texts = ["sepsis, wound", "uti+pneumonia", 'a, "none, but fever", "5"" tube", 5"']

    classes = names_from_all(texts)

    assert classes[:3] == ["sepsis", "wound", "uti+pneumonia"]
    assert classes[3:] == ["a", "none, but fever", '5" tube', '5"']
    assert names_from_all([joined(classes)]) == classes
