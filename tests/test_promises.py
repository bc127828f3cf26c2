"""The harness of promises kept: what is promised and found on new rows of public
tables.
"""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from screening.schemas.base import Estimate

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
TABLE = {"package": "made", "name": "made", "case": "outcome == 1", "drop": ["outcome"]}


@pytest.fixture(scope="module")
def kept():
    """Return the script, with its folder on the path as when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("promises_kept")


@pytest.fixture(scope="module")
def public_tables(kept):
    return importlib.import_module("promises.public_tables")


@pytest.fixture(scope="module")
def answers(kept):
    return importlib.import_module("promises.answers")


def made_table():
    """Return 300 rows of which 100 are cases, the cases with the larger marker."""
    rng = np.random.default_rng(7)
    outcome = np.arange(300) % 3 == 0
    marker = rng.normal(size=300) + 2 * outcome
    return pd.DataFrame({"marker": marker, "outcome": outcome.astype(int)})


def method(answer, title="A method"):
    """Return a method that gives an answer."""
    return SimpleNamespace(flag=lambda past, new: answer(past, new), TITLE=title)


def test_figures_by_hand(kept, answers, public_tables, monkeypatch, tmp_path):
    """Promise, sensitivity found, flags and intervals of two methods are those of a
    hand computation.
    """
    table = made_table()
    monkeypatch.setitem(public_tables.READERS, "made", lambda name: table)
    methods = {
        "above_one": method(
            lambda past, new: answers.Answer(
                new["marker"].to_numpy() > 1, Estimate(0.9, 0.8, 0.96)
            )
        ),
        "nobody": method(
            lambda past, new: answers.Answer(np.zeros(len(new), bool), Estimate(0.9))
        ),
    }
    monkeypatch.setattr(kept, "load_method", methods.get)

    kept.fill(tmp_path / "runs.csv", {"made": TABLE}, list(methods), splits=1)
    runs = pd.read_csv(tmp_path / "runs.csv")
    above, nobody = kept.summarise(runs, list(methods))

    # The third of the first split, drawn as the script says.
    new_rows = np.random.default_rng(100).permutation(300)[:100]
    third = table.loc[new_rows]
    cases = third[third["outcome"] == 1]
    is_flagged = third["marker"] > 1
    n_found = int((cases["marker"] > 1).sum())
    found = n_found / len(cases)
    # Wilson's interval, and Newcombe's of the difference.
    z = 1.959964
    n = len(cases)
    middle = (found + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(found * (1 - found) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    low = found - 0.9 - np.hypot(found - (middle - half), 0.96 - 0.9)
    high = found - 0.9 + np.hypot(middle + half - found, 0.9 - 0.8)
    assert runs["new_cases"].tolist() == [n, n]
    assert runs["past_cases"].tolist() == [100 - n, 100 - n]
    assert above.found == pytest.approx(found)
    assert above.difference == pytest.approx(found - 0.9)
    assert above.flagged == pytest.approx(is_flagged.mean())
    assert above.flags_per_case == pytest.approx(is_flagged.sum() / n_found)
    assert above.covered == float(low <= 0 <= high)
    assert above.short == float(high < 0)
    assert (nobody.found, nobody.flagged, nobody.short) == (0, 0, 1)
    assert np.isnan(nobody.covered)
    assert nobody.flags_per_case == np.inf


def test_runs_not_repeated(kept, answers, public_tables, monkeypatch, tmp_path):
    """A run that is in the CSV is not run again; a method without an answer is a row
    with its reason.
    """
    calls = []

    def refuse(past, new):
        calls.append(len(new))
        raise answers.NoAnswer("too few cases")

    monkeypatch.setitem(public_tables.READERS, "made", lambda name: made_table())
    monkeypatch.setattr(kept, "load_method", {"refusing": method(refuse)}.get)
    runs = tmp_path / "runs.csv"

    for _ in range(2):
        kept.fill(runs, {"made": TABLE}, ["refusing"], splits=1)

    assert calls == [100]
    assert pd.read_csv(runs)["no_answer"].tolist() == ["too few cases"]
    assert kept.summarise(pd.read_csv(runs), ["refusing"]) == []


def test_method_by_one_file(kept, monkeypatch, tmp_path):
    """A file in the folder of methods is a method."""
    folder = tmp_path / "promises" / "methods"
    folder.mkdir(parents=True)
    (folder / "everybody.py").write_text(
        "import numpy as np\n"
        "from promises.answers import Answer\n"
        "from screening.schemas.base import Estimate\n"
        'TITLE = "flag everybody"\n'
        "def flag(past, new):\n"
        "    return Answer(np.ones(len(new), bool), Estimate(1.0, 1.0, 1.0))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tables = importlib.import_module("promises.public_tables")
    table = tables.prepare(made_table(), TABLE)

    run = kept.run_method(kept.load_method("everybody"), table, table, seed=0)

    assert (run["promised"], run["found"], run["flagged"]) == (1, 1, 300)


def test_methods_have_files(kept):
    """Every file of the folder is a name in the list, and the other way round."""
    files = {path.stem for path in BENCHMARKS.glob("promises/methods/*.py")}

    assert files == set(kept.METHODS)


def test_missing_package_named(kept, monkeypatch, tmp_path, capsys):
    """A method whose package is missing is named, and the others run."""
    folder = tmp_path / "promises" / "methods"
    folder.mkdir(parents=True)
    (folder / "absent.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = kept.load_method("absent")

    assert found is None
    assert "method absent needs no_such_package" in capsys.readouterr().out


def test_patients_stay_together(kept, answers, public_tables):
    """Thirds and folds never divide the rows of a patient."""
    frame = made_table().assign(patient=np.repeat(np.arange(60), 5))
    table = public_tables.prepare(frame, TABLE | {"group": "patient"})

    past, new = kept.split_table(table, 0)

    assert set(past.group) & set(new.group) == set()
    assert len(past.case) + len(new.case) == 300
    assert "patient" not in past.rows
    for fitting, held_out in answers.Past(past).folds():
        assert set(past.group[fitting]) & set(past.group[held_out]) == set()


def test_unknown_outcomes_left_out(public_tables):
    """Rows censored before the stated time are left out, and the outcome's columns are
    not features.
    """
    frame = pd.DataFrame(
        {
            "time": [10, 10, 400, 400],
            "died": [1, 0, 1, 0],
            "sex": ["f", "m", None, "f"],
        }
    )
    entry = {
        "case": "died == 1 and time <= 365",
        "unknown": "died == 0 and time <= 365",
        "drop": ["time", "died"],
    }

    table = public_tables.prepare(frame, entry)

    assert table.case.tolist() == [True, False, False]
    assert table.rows["sex"].tolist() == ["f", None, "f"]
    assert table.rows.columns.tolist() == ["sex"]


@pytest.mark.parametrize("name", ["screening_logistic", "youden", "tuned_sensitivity"])
def test_methods_answer(kept, public_tables, name):
    """A method promises a sensitivity and flags new rows."""
    table = public_tables.prepare(made_table(), TABLE)
    past, new = kept.split_table(table, 0)

    run = kept.run_method(kept.load_method(name), past, new, seed=0)

    assert 0.7 <= run["promised"] <= 1
    assert 0.6 <= run["found"] <= 1
    assert 0 < run["flagged"] < run["new_rows"]


def test_page_states_every_method(kept, monkeypatch, tmp_path):
    """The page names each method's figures, and why a method gave no answer."""
    run = {
        "table": "wine", "split": 0, "promised": 0.9, "promised_low": 0.8,
        "promised_high": 0.95, "found": 0.5, "found_low": 0.3, "found_high": 0.7,
        "past_rows": 119, "past_cases": 33, "new_rows": 59, "new_cases": 20,
        "flagged": 25, "found_cases": 10, "seconds": 1, "date": "2026-11-29",
    }  # fmt: skip
    rows = [
        run | {"method": "half"},
        {"table": "wine", "split": 0, "method": "youden", "date": "2026-11-29",
         "past_rows": 119, "past_cases": 33, "new_rows": 59, "new_cases": 20,
         "no_answer": "too few cases; try others"},
    ]  # fmt: skip
    (tmp_path / "plots").mkdir()
    monkeypatch.setattr(kept, "DOCS", tmp_path)
    tables = importlib.import_module("promises.public_tables").listed_tables()

    kept.write_page(pd.DataFrame(rows, columns=kept.COLUMNS), tables)

    page = (tmp_path / "promises.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if "| threshold 0.5 |" in line)
    assert row.startswith("| threshold 0.5 | 0.90 | 0.50 | -0.400 ± ")
    assert row.endswith("| 100 | 0 | 42 | 2.5 | 1; 0 | wine -0.40 |")
    assert "| Youden on the training set | too few cases | wine |" in page
    assert (tmp_path / "plots" / "promises.png").stat().st_size > 5000
