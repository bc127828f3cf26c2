"""All pairs of what a user may combine: recipe, table, rule, comparison, format, night
and following command.

Every pair of two of these occurs in some case. A new recipe, reader or export enters by
being listed where the tool lists it.
"""

import filecmp
from functools import cache

import pandas as pd
import pytest
from allpairspy import AllPairs

from faults.amounts import LONG, attempts
from faults.combined import (
    BESIDE,
    FORMATS,
    N_NIGHT,
    NIGHT,
    NIGHTS,
    POINTS,
    RULES,
    TABLES,
    TRAINING,
    recipes,
    roles_of,
    with_items,
    written,
)
from faults.following import (
    ACTIONS,
    FOLLOWING,
    IN_EVERY_CASE,
    SERIES,
    UNPAIRED,
    Scored,
    run,
)
from screening.cli import COMMANDS
from screening.store.serialization import read_document

# Cases of every test run, of about 0.7 s each, and of a test, so that processes can
# share them. `make faults` tries every case.
N_QUICK = 40
CHUNK = 4


@cache
def cases():
    """Every case as a tuple of names; the same in every process."""
    parameters = [
        recipes(),
        [*TABLES],
        [*RULES],
        [*BESIDE],
        FORMATS,
        [*NIGHTS],
        [*FOLLOWING],
    ]
    return [tuple(pairs) for pairs in AllPairs(parameters)]


@cache
def quick_cases():
    """The first cases, begun with as few as name every recipe and every command that
    follows a night.
    """
    chosen = []
    seen = set()
    for n_new in (2, 1):
        for case in cases():
            new = {("recipe", case[0]), ("command", case[-1])} - seen
            if len(new) == n_new:
                chosen.append(case)
                seen |= new
    others = [case for case in cases() if case not in chosen]
    return [*chosen, *others][:N_QUICK]


def check_run(directory, table):
    """Counts add up, every row has one fate, and the page is drawn."""
    document = read_document(directory, "run")
    counts = document["counts"]
    scores = pd.read_parquet(directory / "scores.parquet")
    assert counts["read"] == len(table)
    assert counts["scored"] + counts["refused"] == counts["read"]
    assert sum(document["refused"].values()) == counts["refused"]
    assert counts["scored"] == len(scores)
    assert counts["flagged"] == int(scores.flagged.sum())
    assert scores.id.is_unique
    assert scores.score.notna().all()
    assert (directory / "report.html").read_text().rstrip().endswith("</html>")


def check_case(case, folder):
    """Train, score, score again and follow, with what one case combines.

    A night that is refused is followed by the sound one, for what follows needs one.
    """
    recipe, table_name, rule, beside, suffix, night_name, following = case
    past, sound, other = (
        with_items(TABLES[table_name](seed), recipe) for seed in (1, 2, 3)
    )
    sound = sound.iloc[:N_NIGHT].drop(columns="label")
    night = NIGHTS[night_name](sound.copy())
    past_path = written(past, folder, "past", suffix)
    night_path = written(night, folder, NIGHT, suffix)
    other_path = written(other, folder, "other", suffix)
    method = recipe
    if recipe == "points":
        method = folder / "points.toml"
        method.write_text(POINTS)
    roles = roles_of(past, recipe)
    code = run(
        "train",
        past_path,
        *roles,
        "--recipe",
        method,
        *RULES[rule],
        *BESIDE[beside],
        *TRAINING,
        "--out",
        folder / "model",
    )
    if code not in (0, 5):
        assert not (folder / "model").exists()
        return
    scored = ["score", folder / "model", night_path, "--date", NIGHT, "--jobs", "1"]
    scored += ["--series", SERIES]
    ledger = ["--ledger", folder / "ledger.db"]
    code = run(*scored, "--out", folder / "run", *ledger)
    if code not in (0, 5):
        assert not (folder / "run").exists()
        night = sound
        written(night, folder, NIGHT, suffix)
        code = run(*scored, "--out", folder / "run", *ledger, allowed={0, 5})
    check_run(folder / "run", night)
    twice = folder / "second" / "run"
    twice.parent.mkdir()
    again = run(*scored, "--out", twice, "--ledger", twice.parent / "ledger.db")
    assert again == code
    for name in ("scores.parquet", "flagged.csv"):
        assert filecmp.cmp(folder / "run" / name, twice / name, False), name
    FOLLOWING[following](
        Scored(folder, roles, night, past_path, night_path, other_path)
    )
    run("history", "--verify", *ledger, allowed={0, 5})


@pytest.mark.first
@pytest.mark.parametrize("chunk", range(1 if LONG else N_QUICK // CHUNK))
def test_every_pair(chunk, tmp_path):
    """No pair of recipe, table, rule, comparison, format, night and command fails."""
    every = cases() if LONG else quick_cases()
    first = chunk * CHUNK
    n_quick = len(every[first : first + CHUNK])
    for number in attempts(f"pairs {chunk}", n_quick, len(every)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            check_case(every[first + number], folder)
        except AssertionError as error:
            raise AssertionError(f"{every[first + number]}: {error}") from error


def test_quick_cases_name_every_word():
    """Every test run tries each recipe, table, rule, format, night and command."""
    every = pd.DataFrame(cases())
    tried = pd.DataFrame(quick_cases())

    assert len(set(quick_cases())) == N_QUICK
    for place in every:
        assert set(tried[place]) == set(every[place])


def test_tables_have_the_labels_of_their_name():
    """Cases and others in each, and of three classes all three."""
    n_labels = {name: make(1)["label"].nunique() for name, make in TABLES.items()}

    assert n_labels == dict.fromkeys(TABLES, 2) | {"three_classes": 3}


def test_pairs_are_all_there():
    """Every pair of a recipe and a table is in some case."""
    found = {case[:2] for case in cases()}

    assert found == {(recipe, table) for recipe in recipes() for table in TABLES}


def test_commands_are_all_there():
    """Each command is in every case, follows a night, or needs no pair for a reason."""
    following = {name.partition(" ")[0] for name in FOLLOWING}

    assert set(COMMANDS) == following | IN_EVERY_CASE | set(UNPAIRED)
    assert following.isdisjoint(UNPAIRED)
    assert all(UNPAIRED.values())
    assert set(ACTIONS) <= set(FOLLOWING)
