"""Every reason for attention, how it is provoked, and what its commands promise.

A site has a ward for each reason and each command that its night prints. One run
scores them all, the printed commands are typed, and one more run says whether the night
is what the command promised.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from flow_cohorts import patients, voxels, written

from screening import (
    MaxFlagRate,
    Threshold,
    load_model,
    read_cohort,
    save_model,
    score,
    train,
)
from screening.contract.contract import Contract, Feature, ScorePerUnit
from screening.ledger.database import open_ledger
from screening.report import render_model
from screening.schemas.reasons import ACCEPT_DELIVERY, REASONS
from screening.store.model import Model

FIRST = "2026-01-0{}"
NIGHT = "2026-01-07"
SITE = """
[site]
ledger = "l.db"
runs = "runs"
jobs = 2
catch_up = 0
"""
SECTION = """
[series."{name}"]
model = "{model}"
cohort = "in/{name}/{{date}}*.csv"
minutes = 5
"""

REPLACE = "replace"
ACCEPT = "accept-delivery"
ACKNOWLEDGE = "acknowledge"
GIVE_UP = "give-up"
AGAIN = "again"


@dataclass(frozen=True)
class Provoked:
    """How a night comes to have a reason.

    Parameters
    ----------
    tonight : callable
        Makes tonight's table of one that is as expected and of the nights before.
    model : str
        Folder of the model.
    n_past : int
        Nights of the ward before tonight.
    ends_cut : bool
        The last line of the file has no line end.
    is_quiet : bool
        Nobody was flagged on the nights before.
    has_twin : bool
        Another series has tonight's table too, and had another one last night.
    rows : callable, optional
        Makes the table that is expected of the number of a night; by default it is of
        `patients` of the ward.
    """

    tonight: Callable[[pd.DataFrame, list[pd.DataFrame]], pd.DataFrame]
    model: str = "plain"
    n_past: int = 0
    ends_cut: bool = False
    is_quiet: bool = False
    has_twin: bool = False
    rows: Callable[[int], pd.DataFrame] | None = None


def column(name: str, values: Callable[[pd.Series], object]) -> Callable:
    """Return what changes a column of tonight's table."""
    return lambda table, past: table.assign(**{name: values(table[name])})


def first_rows(n_rows: int, values: pd.Series, value: object) -> pd.Series:
    """Return values of which the first are another one."""
    changed = values.astype(object)
    changed.iloc[:n_rows] = value
    return changed


def healthy(table: pd.DataFrame, *_: object) -> pd.DataFrame:
    """Return a table of patients of whom nobody is flagged."""
    return table.assign(fever=36.0, crp=1.0)


def odd_hour(table: pd.DataFrame, *_: object) -> pd.DataFrame:
    """Return hourly rows of which one has a score that nobody can have."""
    return table.assign(ews=first_rows(1, table["ews"], 9999.0))


def flat_channel(table: pd.DataFrame, *_: object) -> pd.DataFrame:
    """Return voxels of which one patient has the same value everywhere."""
    is_first = table["patient"] == table["patient"].iloc[0]
    return table.assign(t2=table["t2"].mask(is_first, 0.0))


def placed(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of which a place is known, and not whose they are."""
    return table.drop(columns="patient").assign(x=range(len(table)), y=0, z=0)


def as_it_is(table: pd.DataFrame, past: list[pd.DataFrame]) -> pd.DataFrame:
    """Return tonight's table: the model is what gives the reason."""
    return table


def one_id_reduced(table: pd.DataFrame, past: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the table with an id twice, once without its zeros."""
    twin = table.iloc[[0]].assign(patient=table["patient"].iloc[0].lstrip("0"))
    return pd.concat([table, twin.assign(fever=36.6)])


PROVOKED: dict[str, Provoked] = {
    "unit_changed": Provoked(
        column("fever", lambda fever: fever * 1.8 + 32), model="lenient"
    ),
    "number_for_unknown": Provoked(column("crp", lambda crp: first_rows(20, crp, 999))),
    "missing_more": Provoked(column("crp", lambda crp: first_rows(45, crp, np.nan))),
    "unseen_category": Provoked(
        column("ward", lambda ward: first_rows(30, ward, "annex"))
    ),
    "outside_range": Provoked(column("fever", lambda fever: fever + 2.2)),
    "values_differ": Provoked(column("fever", lambda fever: fever + 0.8)),
    "scores_differ": Provoked(column("fever", lambda fever: fever + 1.2)),
    "table_of_another_night": Provoked(lambda table, past: past[-1], n_past=1),
    "patients_gone": Provoked(
        lambda table, past: table.assign(
            patient=[f"9{name[1:]}" for name in table["patient"]]
        ),
        n_past=6,
    ),
    "ids_of_another_shape": Provoked(
        column("patient", lambda names: [f"K-{name}" for name in names])
    ),
    "ids_rewritten": Provoked(
        column(
            "patient", lambda names: first_rows(1, names, names.iloc[0].lstrip("0"))
        ),
        n_past=1,
    ),
    "ids_collide": Provoked(one_id_reduced),
    "not_whole": Provoked(lambda table, past: table.iloc[:30], n_past=1),
    "line_end_missing": Provoked(as_it_is, ends_cut=True),
    "rows_too_many": Provoked(
        lambda table, past: pd.concat(
            [table, table.assign(patient=[f"8{name[1:]}" for name in table["patient"]])]
        ),
        n_past=6,
    ),
    "patients_unchanged": Provoked(
        lambda table, past: past[-1].assign(fever=past[-1]["fever"] + 0.01), n_past=6
    ),
    "files_unexpected": Provoked(as_it_is, model="stated"),
    "rows_unexpected": Provoked(as_it_is, model="stated"),
    "past_review_date": Provoked(as_it_is, model="stated"),
    "rows_too_old": Provoked(
        column("admitted", lambda days: ["2025-10-01"] * len(days)), model="dated"
    ),
    "rows_of_days_to_come": Provoked(
        column("admitted", lambda days: first_rows(2, days, "2026-01-20")),
        model="dated",
    ),
    "rows_refused": Provoked(
        column("patient", lambda ids: first_rows(2, ids, "")), model="lenient"
    ),
    "trained_on_these_rows": Provoked(lambda table, past: patients(240)),
    "values_out_of_bounds": Provoked(
        column("crp", lambda crp: first_rows(1, crp, 1e7))
    ),
    "flags_unexpected": Provoked(column("fever", lambda fever: fever + 1.5)),
    "nobody_flagged": Provoked(healthy),
    "quiet_nights": Provoked(healthy, n_past=2, is_quiet=True),
    "table_of_another_series": Provoked(as_it_is, n_past=1, has_twin=True),
    "score_not_taken": Provoked(
        odd_hour, model="hourly", rows=lambda night: hourly(40, seed=night)
    ),
    "channels_unusable": Provoked(
        flat_channel,
        model="images",
        rows=lambda night: voxels(4, seed=night).drop(columns="tissue"),
    ),
    "not_recognisable": Provoked(
        as_it_is,
        model="nameless",
        rows=lambda night: placed(patients(60, seed=night)).drop(columns="ill"),
    ),
}


def promises_of(code: str) -> list[str]:
    """Return what the commands promise that a night with a reason prints."""
    kind = REASONS[code]
    if kind.stops:
        return [AGAIN, ACCEPT, GIVE_UP]
    promises = []
    if kind.is_of_table:
        promises.append(REPLACE)
    if ACCEPT_DELIVERY in kind.remedy:
        promises.append(ACCEPT)
    if kind.can_be_acknowledged:
        promises.append(ACKNOWLEDGE)
    return promises


@dataclass(frozen=True)
class Ward:
    """A series whose night has a reason, of which one printed command is typed.

    Parameters
    ----------
    code, promise : str
    number : int
        Of its patients, whom no other ward has.
    """

    code: str
    promise: str
    number: int

    @property
    def name(self) -> str:
        """Name of the series."""
        return f"{self.code}.{self.promise}"

    @property
    def twin(self) -> str:
        """Name of the series that has the same table."""
        return f"twin.{self.number}"

    def expected(self, night: int) -> pd.DataFrame:
        """Return the table of a night as it is expected: some stay, some are new."""
        rows = PROVOKED[self.code].rows
        if rows is not None:
            return rows(night)
        pool = patients(180, seed=1 + self.number).drop(columns="ill")
        table = pool.iloc[6 * night : 6 * night + 60]
        return table.assign(admitted=f"2026-01-0{max(night, 1)}")

    def lay(self, folder: Path) -> None:
        """Score the nights before, and write tonight's table."""
        how = PROVOKED[self.code]
        past = [self.expected(night) for night in range(7 - how.n_past, 7)]
        if how.is_quiet:
            past = [healthy(table) for table in past]
        with open_ledger(folder / "l.db", make=True) as ledger:
            for night, table in enumerate(past, 7 - how.n_past):
                day = FIRST.format(night)
                place = self.table(folder, day)
                run = folder / "runs" / self.name / day
                score(
                    load_model(folder / how.model),
                    written(table, place),
                    run,
                    date=day,
                    ledger=ledger,
                    series=self.name,
                )
        place = self.table(folder, NIGHT)
        written(how.tonight(self.expected(7), past), place)
        if how.ends_cut:
            place.write_bytes(place.read_bytes()[:-1])
        if how.has_twin:
            self.lay_twin(folder)

    def lay_twin(self, folder: Path) -> None:
        """Score tonight's table in another series too, which had its own last night."""
        model = load_model(folder / PROVOKED[self.code].model)
        tables = (self.expected(20), self.expected(7))
        with open_ledger(folder / "l.db", make=True) as ledger:
            for day, table in zip((FIRST.format(6), NIGHT), tables, strict=True):
                place = folder / f"in/{self.twin}/{day}.csv"
                place.parent.mkdir(parents=True, exist_ok=True)
                written(table, place)
                run = folder / "runs" / self.twin / day
                score(model, place, run, date=day, ledger=ledger, series=self.twin)

    def mend(self, folder: Path) -> None:
        """Put the table as it is expected in tonight's place."""
        # The seventh night's is the table of the twin.
        night = 8 if PROVOKED[self.code].has_twin else 7
        place = written(self.expected(night), self.table(folder, NIGHT))
        if PROVOKED[self.code].model == "stated":
            # Two files and 120 rows are expected.
            other = self.expected(18)
            written(other, place.with_name(f"{NIGHT}-b.csv"))

    def table(self, folder: Path, day: str) -> Path:
        """Return the place of a night's table, in a folder that is made."""
        place = folder / f"in/{self.name}/{day}.csv"
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def command(self, remedies: Sequence[str]) -> str:
        """Return the printed command with the promise."""
        option = f"--{self.promise}"
        if self.promise == ACKNOWLEDGE:
            option += f" {self.code} "
        if self.promise == AGAIN:
            return remedies[0]
        (command,) = [each for each in remedies if option in each]
        return command


def wards(every: bool) -> list[Ward]:
    """Return a ward for each reason and promise; of each reason one unless `every`."""
    listed: list[Ward] = []
    for number, code in enumerate(PROVOKED):
        promises = promises_of(code)
        if not every:
            promises = [promises[number % len(promises)]]
        for promise in promises:
            listed.append(Ward(code, promise, len(listed)))
    return listed


WHO = {"label": "ill", "positive": "yes", "id": "patient"}
QUICK = {"search": 1, "folds": 3, "repeats": 1, "jobs": 1, "beside": ()}
RULE = MaxFlagRate(0.3)
OTHER_THRESHOLD = ("threshold", {"SHARE": "0.03"})
# By reason that only the model settles, the printed command, and the words to type.
BY_MODEL: dict[str, tuple[str, dict[str, str]]] = {
    "over_capacity": OTHER_THRESHOLD,
    "flags_everything": OTHER_THRESHOLD,
    "own_cases_not_flagged": OTHER_THRESHOLD,
    "everybody_flagged": OTHER_THRESHOLD,
    "not_fit_for_use": ("approve", {}),
    "answer_first": ("approve", {"COLUMNS": "fever_at_discharge,crp,ward"}),
}


def restated(base: Model, table: pd.DataFrame, **keys: object) -> Model:
    """Return a model like another one, by a contract with other keys."""
    contract = base.contract.model_copy(update=keys)
    cohort = read_cohort(table, contract=contract, need_label=True)
    return train(cohort, "logistic", rule=RULE, **QUICK)


def hourly(n_stays: int, seed: int = 0) -> pd.DataFrame:
    """Return hourly rows of stays, each with a score that was made elsewhere."""
    rng = np.random.default_rng(seed)
    stay = np.repeat([f"s{seed:02d}{number:03d}" for number in range(n_stays)], 4)
    ill = np.repeat(rng.random(n_stays) < 0.25, 4)
    moments = pd.date_range("2026-01-07", periods=4, freq="h")
    return pd.DataFrame(
        {
            "stay": stay,
            "at": np.tile(moments, n_stays),
            "ews": rng.normal(4 + 2 * ill, 2).round(1),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def other_models(table: pd.DataFrame) -> dict[str, Model]:
    """Return models of hourly scores, of voxels, and of rows that nobody can name."""
    of_stays = Contract(
        id="stay",
        label="ill",
        time="at",
        score="ews",
        higher="worse",
        features={"ews": Feature(type="number", plausible=(-20, 30))},
        per_unit=ScorePerUnit(per="stay", take="max"),
    )
    of_images = Contract(
        label="tissue",
        positive="lesion",
        group="patient",
        coordinates=["x", "y", "z"],
    )
    how = {"rule": RULE, **QUICK}
    nameless = Contract(label="ill", positive="yes", coordinates=["x", "y", "z"])
    return {
        "hourly": train(hourly(100), "given", contract=of_stays, **how),
        "images": train(voxels(), "logistic", contract=of_images, **how),
        "nameless": train(placed(table), "logistic", contract=nameless, **how),
    }


def lay_site(folder: Path, listed: Sequence[Ward]) -> Path:
    """Write models, tables, earlier nights and NIGHT.toml; return that file."""
    table = patients(240)
    past = written(table, folder / "past.csv")
    plain = train(past, "logistic", rule=RULE, **WHO, **QUICK)
    with_days = table.assign(admitted="2025-06-01")
    models = {
        "plain": plain,
        "dated": train(
            with_days, "logistic", rule=RULE, time="admitted", **WHO, **QUICK
        ),
        "stated": restated(
            plain,
            table,
            files_per_night=2,
            rows_per_night=(100, 200),
            review_by=datetime.date(2025, 12, 31),
        ),
        "lenient": restated(
            plain, table, on_violation="refuse_rows", on_unit_change="attention"
        ),
    }
    models |= other_models(table)
    for name, model in models.items():
        save_model(model, folder / name, render_model)
    sections = []
    for ward in listed:
        ward.lay(folder)
        how = PROVOKED[ward.code]
        names = [ward.name, ward.twin] if how.has_twin else [ward.name]
        sections += [SECTION.format(name=name, model=how.model) for name in names]
    file = folder / "NIGHT.toml"
    file.write_text("".join([SITE, *sections]))
    return file


def lay_models(folder: Path) -> Path:
    """Write a site with a series for each reason of `BY_MODEL`, and two nights."""
    table = patients(240)
    base = train(table, "logistic", rule=RULE, **WHO, **QUICK)
    shuffled = table["ill"].sample(frac=1, random_state=4).to_numpy()
    twice = pd.concat([table, table.assign(fever=table["fever"] + 0.1)])
    who = {"label": "ill", "positive": "yes"}
    at_discharge = table.rename(columns={"fever": "fever_at_discharge"})
    all_rows = {"rule": Threshold(-50.0)}
    models = {
        "over_capacity": restated(base, table, capacity=3),
        "flags_everything": train(
            patients(600), "logistic", **all_rows, **WHO, **QUICK
        ),
        "own_cases_not_flagged": train(
            table, "logistic", rule=Threshold(50.0), **WHO, **QUICK
        ),
        "everybody_flagged": train(
            twice, "logistic", group="patient", **all_rows, **who, **QUICK
        ),
        "not_fit_for_use": train(
            table.assign(ill=shuffled), "logistic", rule=RULE, **WHO, **QUICK
        ),
        "answer_first": train(at_discharge, "logistic", rule=RULE, **WHO, **QUICK),
    }
    sections = []
    for number, (code, model) in enumerate(models.items()):
        save_model(model, folder / code, render_model)
        place = folder / "in" / code
        place.mkdir(parents=True)
        for night in (1, 2):
            rows = patients(60, seed=2 * number + night).drop(columns="ill")
            rows["fever_at_discharge"] = rows["fever"]
            written(rows, place / f"2026-01-0{night}.csv")
        sections.append(SECTION.format(name=code, model=code))
    file = folder / "NIGHT.toml"
    file.write_text("".join([SITE, *sections]))
    return file


# Wards of a site whose nights together show a change: of fever in two, of CRP in one.
SHIFTS = {"a": ("fever", 1.5), "b": ("fever", 1.5), "c": ("crp", 2.0)}
N_NIGHTS = 27
N_CHANGED = 4


def lay_drifts(folder: Path) -> Path:
    """Score nights of wards of which the last ones are changed, all but tonight's."""
    base = train(patients(240), "logistic", rule=RULE, **WHO, **QUICK)
    save_model(base, folder / "m", render_model)
    sections = []
    with open_ledger(folder / "l.db", make=True) as ledger:
        for number, (ward, (column, shift)) in enumerate(SHIFTS.items()):
            place = folder / "in" / ward
            place.mkdir(parents=True)
            for night in range(1, N_NIGHTS + 1):
                table = patients(60, seed=40 * number + night).drop(columns="ill")
                if night > N_NIGHTS - N_CHANGED:
                    table[column] += shift
                day = f"2026-01-{night:02d}"
                written(table, place / f"{day}.csv")
                if night < N_NIGHTS:
                    how = {"date": day, "ledger": ledger, "series": ward, "jobs": 1}
                    run = folder / "runs" / ward / day
                    score(base, place / f"{day}.csv", run, **how)
            sections.append(SECTION.format(name=ward, model="m"))
    file = folder / "NIGHT.toml"
    file.write_text("".join([SITE, *sections]))
    return file


MODEL_ITSELF = "it asks for another training, or for the model's page to be read"
HISTORY = "it asks somebody to look at the nights; history prints no command"
NIGHTS_TOGETHER = "tests/faults/test_remedies.py::test_drifts_acknowledged"
# Reasons of which a night is not enough: where their commands are typed.
ELSEWHERE: dict[str, str] = {
    "column_drifts": NIGHTS_TOGETHER,
    "scores_drift": NIGHTS_TOGETHER,
    "flags_drift": NIGHTS_TOGETHER,
    "outbreak": NIGHTS_TOGETHER,
    "outcomes_of_unknown": "tests/test_outcome_ids.py::"
    "test_outcomes_of_unknown_accepted",
}
# No command is printed for these, and why.
NO_COMMAND: dict[str, str] = {
    "not_better_than_chance": MODEL_ITSELF,
    "score_inverted": MODEL_ITSELF,
    "too_few_cases": MODEL_ITSELF,
    "no_case_seen": MODEL_ITSELF,
    "intervals_too_wide": MODEL_ITSELF,
    "to_be_trained_again": MODEL_ITSELF,
    "flags_like_chance": MODEL_ITSELF,
    "another_is_better": MODEL_ITSELF,
    "not_compared": MODEL_ITSELF,
    "guessed": MODEL_ITSELF,
    "rows_of_one_patient": MODEL_ITSELF,
    "ids_are_row_numbers": MODEL_ITSELF,
    "plugin_left_out": "the plug-in is to be corrected by its authors",
    "counts_do_not_add_up": "a bug: the page is reported and not used",
    "over_memory": "the key of NIGHT.toml to write is in the sentence",
    "merges_refused": "the table of merged numbers is to be corrected",
    "drift_over_nights": HISTORY,
    "workload_out_of_control": HISTORY,
    "yield_out_of_control": HISTORY,
    "refused_out_of_control": HISTORY,
    "missing_out_of_control": HISTORY,
    "outcomes_below": HISTORY,
    "promise_not_kept": "validate prints no command",
    "chance_misfit": "validate prints no command",
}
