"""Small tables with the quirks that a hospital's own export has, each as the files of a first day."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import patients

N_ROWS = 120
CHANCE = np.random.default_rng(5)
Table = pd.DataFrame
Writer = Callable[[Table, Path], None]


def csv(sep: str = ",", encoding: str = "utf-8", head: str = "") -> Writer:
    """Write every cell as the text it is."""

    def write(table: Table, path: Path) -> None:
        text = table.to_csv(index=False, sep=sep)
        path.write_bytes((head + text).encode(encoding))

    return write


PLAIN = csv()


@dataclass(frozen=True)
class Quirk:
    """What is odd about a table, how it is written, and what `screen` answers: a page, or these words."""

    change: Callable[[Table], Table] = lambda table: table
    write: Writer = PLAIN
    ending: str = ".csv"
    answer: str = ""
    label: str = "ill"

    def files(self, folder: Path) -> tuple[Path, Path]:
        """Write the past with its labels and a night without."""
        past, night = folder / f"past{self.ending}", folder / f"tonight{self.ending}"
        whole = self.change(patients(N_ROWS, share=0.3))
        self.write(whole, past)
        self.write(whole.head(25).drop(columns=self.label, errors="ignore"), night)
        return past, night


def with_column(name: str, cells: Callable[[Table], object]) -> Callable[[Table], Table]:
    return lambda table: table.assign(**{name: cells(table)})


def formatted(form: str, *columns: str) -> Callable[[Table], Table]:
    """Numbers as texts in a country's notation: `form` is a point's or a comma's example."""

    def change(table: Table) -> Table:
        marks = str.maketrans({",": form[0], ".": form[-1]})
        texts = {
            name: [f"{x:,.2f}".translate(marks) if x == x else "" for x in table[name]] for name in columns
        }
        return table.assign(**texts)

    return change


def cells(name: str, *texts: str) -> Callable[[Table], Table]:
    """The first rows of a column hold these texts instead."""

    def change(table: Table) -> Table:
        values = [f"{x:.2f}" if isinstance(x, float) and x == x else str(x) for x in table[name]]
        return table.assign(**{name: [*texts, *values[len(texts) :]]})

    return change


def relabelled(*names: object) -> Callable[[Table], Table]:
    yes, no = names
    return lambda table: table.assign(ill=np.where(table["ill"] == "yes", yes, no))


def renamed(**names: str) -> Callable[[Table], Table]:
    return lambda table: table.rename(columns=names)


def big(table: Table) -> Table:
    return table.assign(platelets=CHANCE.normal(250_000, 60_000, len(table)).round())


def excel(table: Table, path: Path) -> None:
    pytest.importorskip("openpyxl")
    table.to_excel(path, index=False)


PAGES = {
    "plain": Quirk(),
    "sep= line and byte-order mark": Quirk(write=csv(";", "utf-8-sig", "sep=;\n")),
    "thousands with points": Quirk(lambda t: formatted(".,", "platelets", "crp")(big(t)), csv(";")),
    "a tick or nothing": Quirk(with_column("catheter", lambda t: ["x", "", ""] * (N_ROWS // 3))),
    "empty, constant and nameless columns": Quirk(
        lambda t: t.assign(**{"empty": "", "site": "A", "": "left over"})
    ),
    "no id": Quirk(lambda t: t.drop(columns="patient")),
    "several rows a patient": Quirk(lambda t: t.assign(patient=[f"P{i // 2}" for i in range(N_ROWS)])),
    "label of zero and one": Quirk(
        lambda t: relabelled(1, 0)(t).rename(columns={"ill": "outcome"}), label="outcome"
    ),
    "names with spaces, quotes and brackets": Quirk(renamed(fever='temp. "max" [°C]', crp="CRP, mg/l = x")),
    "times of day and durations": Quirk(
        lambda t: t.assign(
            time=[datetime.time(i % 24) for i in range(N_ROWS)], stay=pd.to_timedelta(t["crp"], "h")
        ),
        write=lambda t, path: t.to_parquet(path),
        ending=".parquet",
    ),
    "Excel workbook": Quirk(write=excel, ending=".xlsx"),
}  # fmt: skip


# Each names the column (or the file, where no column can be told) and what to do about it.
MESSAGES = {
    "a slip in the label": Quirk(
        cells("ill", "yess"), answer=r"column 'ill', row \d+: a value that stands in 1 row only.*--positive"
    ),
    "a label of one class": Quirk(
        relabelled("no", "no"), answer="without a label; name its column with --label"
    ),
    "a label that is ticked": Quirk(relabelled("x", ""), answer=r"column 'ill', rows .*no label; fill"),
    "no column called like a label": Quirk(renamed(ill="zz"), label="zz", answer="--label"),
}  # fmt: skip
