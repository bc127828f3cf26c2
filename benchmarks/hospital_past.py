"""A hospital's whole past: stays of patients, codes, a rare outcome. How do cost and
ranking grow?

    python benchmarks/hospital_past.py --make past.csv --rows 100000
    python benchmarks/hospital_past.py --rows 1000 10000 100000 --out growth.csv
    python benchmarks/hospital_past.py --rows 0 --out growth.csv  # adult.csv.gz
    python benchmarks/hospital_past.py --promise 20 --rows 30000 --out promise.csv

The made table has what registries of stays have: a patient's number that repeats, codes
that look like numbers (three to five digits, some with a letter), columns of codes
whose names end in `_id`, age in bands, drugs in four words, an order in time, and an
outcome (readmitted within 30 days, one stay in nine) that depends on the chapter of the
diagnoses, on a few codes, on the stays before and on the patient. What can be known of
it at best is stated: the AUROC of the chance that it was drawn from. `--promise` trains
on a third of the patients of so many tables, and validates the model on the others: z =
(there - printed) / standard error, by patient, whose standard deviation is 1 where
nothing but chance is at work.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from resumed import run_missing
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from screening import MinSensitivity, read_cohort, train, validate
from screening.data.reading import starter_contract
from screening.data.stream import open_cohort
from screening.store.model import Model

LABEL, PATIENT, STAY = "readmitted_30d", "patient_nbr", "encounter_id"
DRUGS = [f"drug_{number:02}" for number in range(1, 21)]
WORDS = np.array(["No", "Steady", "Up", "Down"], dtype=object)
# Chapters of the codes, as the ninth revision has them: first and last number.
CHAPTERS = (
    (1, 139),
    (140, 239),
    (240, 279),
    (280, 289),
    (290, 319),
    (320, 389),
    (390, 459),
    (460, 519),
    (520, 579),
    (580, 629),
    (680, 709),
    (710, 739),
    (780, 799),
    (800, 999),
)


def made_stays(rows: int, seed: int = 0) -> pd.DataFrame:
    """Stays in the order they ended, about 1.4 a patient, with their `chance` as last
    column.
    """
    rng = np.random.default_rng(seed)
    visits = rng.geometric(0.7, rows)
    patient = np.repeat(np.arange(rows), visits)[:rows]
    rng.shuffle(patient)
    n_patients = int(patient.max()) + 1
    frailty = rng.normal(0, 0.45, n_patients)[patient]
    age = np.clip(rng.normal(66, 15, n_patients), 1, 99)[patient]
    codes, chapter_of, code_effect = _codes(rng)
    chapter_effect = rng.normal(0, 0.35, len(CHAPTERS) + 2)
    share = 1 / np.arange(1, len(codes) + 1) ** 0.9
    share = rng.permutation(share) / share.sum()
    diagnoses = [rng.choice(len(codes), rows, p=share) for _ in range(3)]
    inpatient = rng.poisson(np.exp(-0.9 + 0.8 * frailty))
    emergency = rng.poisson(np.exp(-1.8 + 0.6 * frailty))
    days = 1 + rng.poisson(np.exp(1.1 + 0.3 * frailty))
    disposition = rng.choice(
        np.array([1, 2, 3, 5, 6, 11, 18, 22, 25, 28]), rows, p=_falling(10)
    )
    goes = dict(
        zip((1, 2, 3, 5, 6, 11, 18, 22, 25, 28), rng.normal(0, 0.4, 10), strict=True)
    )
    drugs = rng.choice(4, (rows, len(DRUGS)), p=[0.8, 0.12, 0.05, 0.03])
    logit = (
        frailty
        + 0.35 * np.log1p(inpatient)
        + 0.2 * np.log1p(emergency)
        + 0.01 * (age - 66)
        + 0.04 * (days - 4)
        + chapter_effect[chapter_of[diagnoses[0]]]
        + 0.5 * chapter_effect[chapter_of[diagnoses[1]]]
        + code_effect[diagnoses[0]]
        + pd.Series(disposition).map(goes).to_numpy()
        + 0.15 * (drugs[:, 0] == 2)
    )
    chance = expit(logit - _shift(logit, 0.11))
    band = (age // 10).astype(int) * 10
    numbers = rng.permutation(np.arange(10_000_000, 10_000_000 + 40 * n_patients, 40))
    columns: dict[str, object] = {
        STAY: np.sort(
            rng.choice(
                np.arange(2_000_000, 2_000_000 + 300 * rows), rows, replace=False
            )
        ),
        PATIENT: numbers[patient],
        "race": rng.choice(
            ["Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other", "?"],
            rows,
            p=_falling(6),
        ),
        "gender": np.where(rng.random(n_patients) < 0.54, "Female", "Male")[patient],
        "age": [f"[{low}-{low + 10})" for low in band],
        "admission_type_id": rng.choice(np.arange(1, 9), rows, p=_falling(8)),
        "discharge_disposition_id": disposition,
        "admission_source_id": rng.choice(np.arange(1, 26), rows, p=_falling(25)),
        "time_in_hospital": days,
        "payer_code": rng.choice(
            ["?", "MC", "HM", "SP", "BC", "MD", "CP", "UN"], rows, p=_falling(8)
        ),
        "medical_specialty": rng.choice(
            [f"Specialty{number:02}" for number in range(70)], rows, p=_falling(70)
        ),
        "num_lab_procedures": np.clip(rng.normal(43, 20, rows), 1, 130).astype(int),
        "num_procedures": rng.poisson(1.3, rows).clip(0, 6),
        "num_medications": 1 + rng.poisson(15, rows),
        "number_outpatient": rng.poisson(0.4, rows),
        "number_emergency": emergency,
        "number_inpatient": inpatient,
        "diag_1": codes[diagnoses[0]],
        "diag_2": codes[diagnoses[1]],
        "diag_3": codes[diagnoses[2]],
        "number_diagnoses": rng.integers(1, 10, rows),
        "max_glu_serum": rng.choice(
            ["None", "Norm", ">200", ">300"], rows, p=_falling(4)
        ),
        "A1Cresult": rng.choice(["None", "Norm", ">7", ">8"], rows, p=_falling(4)),
    }
    columns |= {name: WORDS[drugs[:, place]] for place, name in enumerate(DRUGS)}
    columns |= {
        "change": np.where(drugs.max(axis=1) > 1, "Ch", "No"),
        "diabetesMed": np.where(drugs.any(axis=1), "Yes", "No"),
        LABEL: np.where(rng.random(rows) < chance, "Yes", "No"),
        "chance": chance,
    }
    return pd.DataFrame(columns)


def _codes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """717 codes as texts, the chapter of each, and what each adds by itself."""
    numbers = np.sort(rng.choice(np.arange(1, 1000), 560, replace=False))
    plain = [str(number) for number in numbers]
    finer = [f"250.{number:02}" for number in range(1, 94)]
    lettered = [f"V{number}" for number in range(42, 86)] + [
        f"E{number}" for number in range(870, 890)
    ]
    codes = np.array([*plain, *finer, *lettered], dtype=object)
    ends = np.array([last for _, last in CHAPTERS])
    chapter = np.minimum(np.searchsorted(ends, numbers), len(CHAPTERS) - 1)
    chapter = np.concatenate(
        [
            chapter,
            np.full(len(finer), 2),
            np.full(44, len(CHAPTERS)),
            np.full(20, len(CHAPTERS) + 1),
        ]
    )
    return (
        codes,
        chapter,
        np.where(rng.random(len(codes)) < 0.05, rng.normal(0, 0.8, len(codes)), 0.0),
    )


def _falling(n: int) -> np.ndarray:
    share = 1 / np.arange(1, n + 1)
    return share / share.sum()


def _shift(logit: np.ndarray, prevalence: float) -> float:
    """What has to be taken off for the mean chance to be the prevalence."""
    return float(
        brentq(lambda shift: expit(logit - shift).mean() - prevalence, -20, 20)
    )


FIGURES = ("sensitivity", "specificity", "auroc")
OUTSIDE = 1.96


def promised(seed: int, rows: int) -> Iterator[dict[str, object]]:
    """What a model printed against what the rows of other patients show."""
    table = made_stays(rows, seed).drop(columns="chance")
    later, past = next(
        GroupShuffleSplit(1, test_size=1 / 3, random_state=seed).split(
            table, groups=table[PATIENT]
        )
    )
    with TemporaryDirectory() as folder:
        table.iloc[later].to_parquet(f"{folder}/later.parquet")
        model = newcomers_model(folder, table.iloc[past], 0.8)
        (there,) = validate(model, f"{folder}/later.parquet").classes.values()
    differences = {name: there.differences[name] for name in FIGURES}
    yield {"seed": seed, "rows": len(past)} | {
        name: 2 * OUTSIDE * one.value / (one.high - one.low)
        for name, one in differences.items()
    }


def newcomers_model(folder: str, past: pd.DataFrame, sensitivity: float) -> Model:
    """The contract that `init` proposes, then `train`."""
    past.to_parquet(f"{folder}/past.parquet")
    contract, _ = starter_contract(f"{folder}/past.parquet", label=LABEL)
    cohort = read_cohort(f"{folder}/past.parquet", contract, need_label=True)
    return train(
        cohort, "auto", rule=MinSensitivity(sensitivity), forward=False, beside=()
    )


METHODS = ("auto", "histogram boosting", "forest of 500")
COLUMNS = (
    "rows",
    "seed",
    "method",
    "seconds",
    "processor",
    "gigabytes",
    "auroc",
    "average_precision",
    "best_auroc",
)
ADULT = (
    Path(__file__).resolve().parents[2] / "shared" / "data" / "large" / "adult.csv.gz"
)


def measured(rows: int, seed: int, method: str) -> Iterator[dict[str, object]]:
    """Train on two thirds of the patients, look at the others; in a process of its own,
    for its memory.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool.submit(_measured, rows, seed, method).result()


def _adult() -> pd.DataFrame:
    """48,842 people, eight columns of categories: not clinical, each a patient of its
    own.
    """
    table = pd.read_csv(ADULT)
    rich = table.pop("label").str.startswith(">")
    return table.assign(
        **{
            PATIENT: range(len(table)),
            LABEL: np.where(rich, "Yes", "No"),
            "chance": 0.5,
        }
    )


def _measured(rows: int, seed: int, method: str) -> dict[str, object]:
    table = made_stays(rows, seed) if rows else _adult()
    case = (table[LABEL] == "Yes").to_numpy()
    past, later = next(
        GroupShuffleSplit(1, test_size=1 / 3, random_state=seed).split(
            table, case, table[PATIENT]
        )
    )
    rest = table.drop(columns="chance")
    began, before = time.perf_counter(), time.process_time()
    scores = (_by_auto if method == "auto" else _by_library)(
        method, rest.iloc[past], rest.iloc[later]
    )
    return {
        "rows": rows,
        "seed": seed,
        "method": method,
        "seconds": round(time.perf_counter() - began, 1),
        "processor": round(time.process_time() - before, 1),
        "gigabytes": round(
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2
        ),
        "auroc": roc_auc_score(case[later], scores),
        "average_precision": average_precision_score(case[later], scores),
        "best_auroc": roc_auc_score(case[later], table["chance"].to_numpy()[later]),
    }


def _by_auto(_: str, past: pd.DataFrame, later: pd.DataFrame) -> np.ndarray:
    """As a newcomer; scores of the later stays."""
    with TemporaryDirectory() as folder:
        later.to_parquet(f"{folder}/later.parquet")
        model = newcomers_model(folder, past, 0.9)
        new = list(open_cohort(f"{folder}/later.parquet", model.contract))
        return np.concatenate(
            [model.scores(model.encoder.transform(batch.values))[:, 0] for batch in new]
        )


def _by_library(method: str, past: pd.DataFrame, later: pd.DataFrame) -> np.ndarray:
    """scikit-learn on all columns, codes as categories."""
    words = [
        name
        for name in past
        if name not in (LABEL, STAY, PATIENT)
        and (past[name].dtype.kind == "O" or name.endswith("_id"))
    ]
    numbers = [name for name in past if name not in (LABEL, STAY, PATIENT, *words)]
    past, later = (table.astype(dict.fromkeys(words, str)) for table in (past, later))
    by_frequency = {
        name: past[name].value_counts().index[:250].tolist() for name in words
    }
    codes = OrdinalEncoder(
        categories=[by_frequency[name] for name in words],
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
    )
    columns = make_column_transformer((codes, words), ("passthrough", numbers))
    if method == "forest of 500":
        fill = SimpleImputer(strategy="constant", fill_value=-1)
        forest = RandomForestClassifier(
            500, min_samples_leaf=3, class_weight="balanced_subsample", n_jobs=-1
        )
        machine = make_pipeline(columns, fill, forest)
    else:
        coded = np.arange(len(words) + len(numbers)) < len(words)
        boosting = HistGradientBoostingClassifier(
            categorical_features=coded, class_weight="balanced"
        )
        machine = make_pipeline(columns, boosting)
    return machine.fit(past, past[LABEL] == "Yes").predict_proba(later)[:, 1]


def main() -> None:
    """Make a table, or measure growth and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("growth.csv"))
    parser.add_argument("--promise", type=int, metavar="TABLES")
    asked = parser.parse_args()
    if asked.make:
        made_stays(asked.rows[0]).drop(columns="chance").to_csv(asked.make, index=False)
        return
    if asked.promise:
        pieces = [(seed, asked.rows[0]) for seed in range(asked.promise)]
        run_missing(asked.out, ("seed", "rows", *FIGURES), ("seed",), pieces, promised)
        z = pd.read_csv(asked.out)[[*FIGURES]]
        print(
            pd.DataFrame(
                {
                    "mean z": z.mean(),
                    "sd": z.std(),
                    "beyond": (z.abs() > OUTSIDE).mean(),
                }
            ).round(2)
        )
        return
    if 0 in asked.rows and not ADULT.exists():
        print(
            "skipped: needs large/adult.csv.gz under ../shared/data beside the repository, which is not there"
        )
        return
    pieces = [
        (n, seed, method)
        for n in asked.rows
        for seed in range(asked.seeds)
        for method in asked.methods
    ]
    run_missing(asked.out, COLUMNS, ("rows", "seed", "method"), pieces, measured)
    mean = (
        pd.read_csv(asked.out)
        .groupby(["rows", "method"], as_index=False)
        .mean()
        .drop(columns="seed")
    )
    print(mean.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
