"""A score made elsewhere, from the past to a year of nights with late outcomes, as
markdown.

    python benchmarks/given_scores.py wards --wards 100
    python benchmarks/given_scores.py nights --ledgers sqlite postgresql
    python benchmarks/given_scores.py compared
    python benchmarks/given_scores.py recalibrated --times 20

Wards of the sample's patients, who stay; signs of an infection rise three days before
it is found. `ews` is a vendor-like score of temperature, heart rate and CRP. `wards`:
live figures against the truth, and how often a ward that keeps its promise is said to
be below it. `nights`: the same through files, ledger and `outcomes`, entered late, in
part and corrected, on SQLite and PostgreSQL. `compared`: the score, points and models
that learn on the same rows. `recalibrated`: chances in another place before and after.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from screening import MaxFlagRate, MinSensitivity, compare, open_ledger, score, train
from screening import validate as validate_model
from screening.clock.windows import Known, Window, with_truth
from screening.contract.contract import Contract
from screening.ledger.outcomes import enter_outcomes
from screening.metrics.chances import chances_at
from screening.metrics.outcomes import outcome_figures
from screening.model_selection.recalibrating import recalibrate
from screening.schemas.history import SensitivityAndPpv

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "sample_cohorts"), str(ROOT / "tests")]

import nosocomial  # noqa: E402
from nosocomial_signs import leave_unmeasured, signs  # noqa: E402

FIRST = pd.Timestamp("2026-01-01")
DAY = pd.Timedelta(days=1)
WINDOW = Window(within=72)
RULE = MaxFlagRate(0.15)
QUICK = {"rule": RULE, "beside": (), "jobs": 1}
N_NIGHTS = 365
# Days until an event is in the table of outcomes, at most.
MAX_DELAY = 21


def ward(seed: int, beds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a year's rows of a ward, and its events; patients have rows while they
    lie.

    A row after the event is left out, since the patient is treated.
    """
    rng = np.random.default_rng(seed)
    n = int(beds * N_NIGHTS / 6)
    patients = nosocomial._who(rng, n)
    patients |= nosocomial._what_was_done(rng, patients)
    gets_it = rng.random(n) < expit(nosocomial._logit(patients))
    sides = []
    for is_ill in (False, True):
        of_side = patients | signs(rng, patients, np.full(n, is_ill))
        table = pd.DataFrame({name: of_side[name] for name in nosocomial.VARIABLES})
        leave_unmeasured(rng, table, np.full(n, is_ill))
        sides.append(table)
    begin = rng.integers(0, N_NIGHTS, n)
    stay = rng.geometric(1 / 6, n)
    event = np.where(gets_it, begin + rng.random(n) * (stay + 1), np.inf)
    patient = np.repeat(np.arange(n), stay)
    night = begin[patient] + np.arange(len(patient))
    night -= np.repeat(np.cumsum(stay) - stay, stay)
    ahead = event[patient] - night
    is_ill = (ahead > 0) & (ahead <= 3)
    both = pd.concat(sides, ignore_index=True)
    rows = both.iloc[patient + n * is_ill].reset_index(drop=True)
    rows["temperature_max"] += rng.normal(scale=0.2, size=len(rows)).round(1)
    rows["ews"] = vendor_score(rows)
    rows["patient"] = np.char.add("p", patient.astype(str))
    rows["row"] = np.char.add(
        np.char.add(rows["patient"].astype(str), "n"), night.astype(str)
    )
    rows["night"] = FIRST + pd.to_timedelta(night, unit="D")
    rows["infected"] = np.where(is_ill, "yes", "no")
    is_kept = (ahead > 0) & (night < N_NIGHTS)
    events = pd.DataFrame(
        {
            "patient": np.char.add("p", np.flatnonzero(gets_it).astype(str)),
            "time": FIRST + pd.to_timedelta(event[gets_it], unit="D").round("min"),
        }
    )
    return rows[is_kept].reset_index(drop=True), events


def with_observations(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return rows with the observations of NEWS2 and qSOFA, moved by an infection."""
    rng = np.random.default_rng(seed)
    is_ill = (rows["infected"] == "yes").to_numpy()
    n_rows = len(rows)
    is_confused = rng.random(n_rows) < 0.02 + 0.05 * is_ill
    has_oxygen = rng.random(n_rows) < 0.08 + 0.12 * is_ill
    saturation = rng.normal(96.5 - 1.5 * is_ill, 1.7).round()
    return rows.assign(
        respiratory_rate=rng.normal(16 + 3 * is_ill, 3).round(),
        oxygen_saturation=np.minimum(saturation, 100),
        supplemental_oxygen=np.where(has_oxygen, "yes", "no"),
        systolic_blood_pressure=rng.normal(128 - 10 * is_ill, 18).round(),
        consciousness=np.where(is_confused, "C", "A"),
        altered_mentation=np.where(is_confused, "yes", "no"),
        heart_rate=rows["heart_rate_max"],
        temperature=rows["temperature_max"],
    )


def vendor_score(rows: pd.DataFrame) -> np.ndarray:
    """Return whole numbers of fever, pulse and CRP, as an early warning score has."""
    fever = (rows["temperature_max"].fillna(37.2) - 37.2) / 0.5
    pulse = (rows["heart_rate_max"].fillna(85) - 85) / 20
    crp = np.log(rows["crp"].fillna(20).clip(1) / 20)
    return np.clip(np.round(4 + 1.5 * fever + pulse + 1.5 * crp), 0, 20)


def given_model(past: pd.DataFrame, recipe: str = "given"):
    """Return the score judged on a year's rows, by patient."""
    table = past.drop(columns="night")
    contract = Contract(label="infected", id="row", group="patient", score="ews")
    return train(table, recipe, contract=contract, **QUICK)


def figures_of(rows, events, model, until, promised=None):
    """Return what is known of a ward on a day, by the model's threshold and chances."""
    as_of = FIRST + until * DAY
    (point,) = model.facts.operating_points
    platt = model.facts.validation.calibration["yes"].platt
    ews = rows["ews"].to_numpy(float)
    # With too few cases in the past no chance is stated.
    chances = np.full(len(ews), np.nan)
    if platt is not None:
        chances = chances_at(ews, platt)[0]
    scored = rows[["night", "patient"]].assign(
        at=rows["night"],
        unit=rows["patient"],
        score=ews,
        flagged=ews >= point.threshold,
        chance=chances,
        model="m",
    )
    happened = events[events["time"] < as_of].rename(columns={"patient": "unit"})
    known = with_truth(scored[scored["night"] < as_of], Known(happened), WINDOW, as_of)
    return outcome_figures(known, WINDOW, str(as_of), promised, {})


def wards(options) -> None:
    """Print how often intervals hold the truth, and ever a false "below"."""
    names = ("sensitivity", "specificity", "ppv", "auroc")
    whole = ward(999_999, 60 * options.beds)
    truth = {}
    held = dict.fromkeys(names, 0)
    off = []
    n_below = 0
    for seed in range(options.wards):
        past, _ = ward(2 * seed, options.beds)
        model = given_model(past)
        (point,) = model.facts.operating_points
        if point.threshold not in truth:
            truth[point.threshold] = figures_of(*whole, model, 500)
        true = truth[point.threshold]
        promised = SensitivityAndPpv(sensitivity=point["sensitivity"], ppv=point["ppv"])
        rows, events = ward(2 * seed + 1, options.beds)
        figures = figures_of(rows, events, model, 500)
        for name in names:
            low, high = figures[name].value_and_interval[1:]
            held[name] += low <= true[name].value <= high
        off.append(figures.lead.median_hours - true.lead.median_hours)
        months = range(60, 400, 30)
        n_below += any(
            figures_of(rows, events, model, day, promised).below for day in months
        )
    cells = [f"{100 * held[name] / options.wards:.0f} %" for name in names]
    print(
        "| beds | wards | sensitivity | specificity | PPV | AUROC | ever below | "
        "median lead off by, hours |\n|---|---|---|---|---|---|---|---|"
    )
    print(
        f"| {options.beds} | {options.wards} | {' | '.join(cells)} | "
        f"{100 * n_below / options.wards:.1f} % | {np.median(np.abs(off)):.0f} "
        f"(mean {np.mean(off):+.1f}) |"
    )


def nights(options) -> None:
    """Print the figures of a year through the ledger, beside those of the
    simulation.
    """
    past, _ = ward(0, options.beds)
    model = given_model(past)
    rows, events = ward(1, options.beds)
    rng = np.random.default_rng(0)
    delay = rng.integers(1, MAX_DELAY + 1, len(events))
    known_at = events["time"] + pd.to_timedelta(delay, unit="D")
    print(
        "| ledger | up to | events entered, corrected | rows | cases | flagged of them | lead, hours |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind, place in ledgers(Path(folder), options.ledgers):
            with open_ledger(place, make=True) as ledger:
                runs = Path(folder) / kind
                run_year(
                    ledger, model, rows, runs, events, known_at, options.nights, kind
                )
    until = options.nights + MAX_DELAY
    true = figures_of(
        rows[rows["night"] < FIRST + options.nights * DAY], events, model, until
    )
    print(
        f"| the simulation | {true.as_of[:10]} | | {true.rows} | {true.cases} | "
        f"{true.true_positive} | {true.lead.median_hours:.1f} |"
    )


def ledgers(folder: Path, kinds):
    """Yield ledgers by kind; a server ends with the iteration."""
    import ledger_places

    for kind in kinds:
        if kind == "sqlite":
            yield kind, str(folder / "ledger.db")
            continue
        server = ledger_places.server()
        yield kind, ledger_places.schema(next(server), "given")
        next(server, None)


def run_year(ledger, model, rows, runs, events, known_at, n_nights, kind) -> None:
    """Score every night, and enter outcomes every quarter, the first ones in part
    wrong.
    """
    quarter = max(n_nights // 4, 1)
    table = rows.drop(columns=["night", "infected"])
    for number in range(n_nights):
        night = FIRST + number * DAY
        tonight = table[rows["night"] == night]
        score(
            model,
            tonight,
            runs / f"{number:03d}",
            date=f"{night:%Y-%m-%d}",
            ledger=ledger,
            series="ward",
            jobs=1,
            allow_future=True,
            hour="00:00",
            time_zone="UTC",
        )
        is_last = number == n_nights - 1
        if (number + 1) % quarter and not is_last:
            continue
        now = night + DAY
        if is_last:
            now += 2 * MAX_DELAY * DAY
        came = events[known_at <= now].copy()
        if not is_last:
            # Every twentieth is stated a week too early, and corrected by the last.
            came.loc[came.index % 20 == 0, "time"] -= 7 * DAY
        entered = enter_outcomes(
            ledger,
            "ward",
            came,
            id="patient",
            time="time",
            within=72.0,
            as_of=f"{now:%Y-%m-%d}",
            time_zone="UTC",
            reach=f"{now - MAX_DELAY * DAY:%Y-%m-%d}",
        )
        figures = entered.figures
        lead = figures.lead.median_hours or float("nan")
        print(
            f"| {kind} | {str(figures.complete)[:10]} | {entered.new}, {entered.corrected} | "
            f"{figures.rows} | {figures.cases} | {figures.true_positive} | {lead:.1f} |",
            flush=True,
        )


def compared(options) -> None:
    """Print the score, points and models that learn, on the same rows."""
    rows, _ = ward(0, options.beds)
    rows = with_observations(rows, 1)
    contract = Contract(label="infected", id="row", group="patient", score="ews")
    result = compare(
        {"ward": rows.drop(columns="night")},
        ["given", "news2", "qsofa", "ward_points", "logistic", "boosting"],
        contract=contract,
        control="given",
        rule=RULE,
        search=1,
        jobs=-1,
    )
    names = ("auroc", "average_precision", "sensitivity", "specificity")
    print(
        "| method | AUROC | average precision | sensitivity | specificity | AUROC minus the score's |"
    )
    print("|---|---|---|---|---|---|")
    cohort = result.document["cohorts"][0]
    for method in cohort["methods"]:
        cells = [interval_of(method["figures"][name]) for name in names]
        gap = method["differences"]
        cells.append(interval_of(gap["auroc"]) if gap else "")
        print(f"| `{method['recipe']}` | {' | '.join(cells)} |")
    print(
        f"{cohort['n_rows']} rows of {cohort['n_groups']} patients, {cohort['n_positive']} cases"
    )


def interval_of(figure) -> str:
    """Return a figure with its interval."""
    return f"{figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})"


SHIFTS = {
    "none": {},
    "intercept -0.8": {"intercept": -0.8},
    "slope 0.7": {"slope": 0.7},
    "prevalence": {"intercept": -3.5},
}


def place(n_rows, seed, intercept=-2.0, slope=1.5, name="a"):
    """Return patients whose log odds are a line in x."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    ill = rng.random(n_rows) < expit(intercept + slope * x)
    names = [f"{name}{number:06d}" for number in range(n_rows)]
    label = np.where(ill, "yes", "no")
    return pd.DataFrame({"id": names, "x": x, "ill": label})


def recalibrated(options) -> None:
    """Print slope and observed over expected before and after, in the median."""
    quick = {"search": 1, "beside": (), "jobs": 1, "rule": MinSensitivity(0.8)}
    model = train(place(2000, 0), "logistic", label="ill", id="id", **quick)
    print(
        "| shift | rows there, cases | observed / expected before | after | slope before "
        "| after | intercept before | after |\n|---|---|---|---|---|---|---|---|"
    )
    for shift, change in SHIFTS.items():
        new = place(20_000, 1, name="c", **change)
        before = validate_model(model, new).figures.calibration["yes"]
        for n_rows in (150, 600, 3000):
            after = []
            n_cases = []
            for seed in range(options.times):
                rows = place(n_rows, 100 + seed, name="b", **change)
                n_cases.append((rows.ill == "yes").sum())
                if n_cases[-1] < 6:
                    continue
                there = recalibrate(model, rows)
                calibration = validate_model(there, new).figures.calibration["yes"]
                if calibration.platt is not None:
                    after.append(calibration)
            figures = []
            for name in ("observed_expected", "slope", "intercept"):
                values = [getattr(one, name).value for one in after]
                low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
                figures.append(f"{getattr(before, name).value:.2f}")
                figures.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
            print(
                f"| {shift} | {n_rows}, {np.median(n_cases):.0f} | "
                f"{' | '.join(figures)} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("part", choices=["wards", "nights", "compared", "recalibrated"])
    parser.add_argument("--wards", type=int, default=100)
    parser.add_argument("--beds", type=int, default=20)
    parser.add_argument("--nights", type=int, default=N_NIGHTS)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--ledgers", nargs="+", default=["sqlite"])
    options = parser.parse_args()
    globals()[options.part](options)


if __name__ == "__main__":
    main()
