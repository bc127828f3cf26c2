"""Small tables with the quirks that a hospital's own export has, each as the files of a first day."""

from __future__ import annotations

import datetime
import gzip
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


def csv(sep: str = ",", encoding: str = "utf-8", head: str = "", quoting: int = 0) -> Writer:
    """Write every cell as the text it is."""

    def write(table: Table, path: Path) -> None:
        text = table.to_csv(index=False, sep=sep, quoting=quoting)
        path.write_bytes((head + text).encode(encoding))

    return write


def zipped(table: Table, path: Path) -> None:
    path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))


def raw(change: Callable[[str], str]) -> Writer:
    """Write a CSV whose text was tampered with."""

    def write(table: Table, path: Path) -> None:
        path.write_text(change(table.to_csv(index=False)), encoding="utf-8")

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


def dated(pattern: str, first: str = "2024-01-01", step: int = 3) -> Callable[[Table], Table]:
    days = pd.date_range(first, periods=N_ROWS, freq=f"{step}D")
    return with_column("admission", lambda table: days.strftime(pattern))


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
    "semicolons and decimal commas": Quirk(formatted(".,", "fever", "crp"), csv(";")),
    "quoted decimal commas": Quirk(formatted(".,", "fever", "crp")),
    "decimal commas in one column": Quirk(formatted(".,", "crp")),
    "tabs": Quirk(write=csv("\t")),
    "bars": Quirk(write=csv("|")),
    "umlauts in cp1252": Quirk(renamed(fever="Körpertemperatur"), csv(";", "cp1252")),
    "UTF-16 as Excel saves it": Quirk(write=csv("\t", "utf-16")),
    "sep= line and byte-order mark": Quirk(write=csv(";", "utf-8-sig", "sep=;\n")),
    "thousands with commas": Quirk(lambda t: formatted(",.", "platelets")(big(t))),
    "thousands with points": Quirk(lambda t: formatted(".,", "platelets", "crp")(big(t)), csv(";")),
    "thousands with apostrophes": Quirk(lambda t: formatted("'.", "platelets")(big(t))),
    "dates with the day first": Quirk(dated("%d.%m.%Y")),
    "dates with the month first": Quirk(dated("%m/%d/%Y")),
    "dates that leave the order open": Quirk(dated("%d/%m/%Y", step=31)),
    "dates of two orders": Quirk(with_column("seen", lambda t: ["31/01/2024", "01/31/2024"] * (N_ROWS // 2))),
    "German yes and no": Quirk(relabelled("ja", "nein")),
    "French and German truths": Quirk(with_column("fumeur", lambda t: ["oui", "non"] * (N_ROWS // 2))),
    "a tick or nothing": Quirk(with_column("catheter", lambda t: ["x", "", ""] * (N_ROWS // 3))),
    "Excel's apostrophes": Quirk(cells("fever", "'37.1", "'38.2", "'36.9")),
    "codes for missing": Quirk(cells("crp", "NA", "n/a", "-", "k.A.")),
    "censored values": Quirk(cells("crp", "<5", "<5", ">90")),
    "a remark among numbers": Quirk(cells("crp", "haemolysed", "see note")),
    "an infinite number": Quirk(cells("crp", "inf")),
    "empty, constant and nameless columns": Quirk(
        lambda t: t.assign(**{"empty": "", "site": "A", "": "left over"})
    ),
    "free text": Quirk(with_column("remarks", lambda t: [f"note of {i} words" for i in range(N_ROWS)])),
    "no id": Quirk(lambda t: t.drop(columns="patient")),
    "row numbers for ids": Quirk(lambda t: t.assign(patient=range(N_ROWS)).rename(columns={"patient": "id"})),
    "several rows a patient": Quirk(lambda t: t.assign(patient=[f"P{i // 2}" for i in range(N_ROWS)])),
    "label of zero and one": Quirk(
        lambda t: relabelled(1, 0)(t).rename(columns={"ill": "outcome"}), label="outcome"
    ),
    "names with spaces, quotes and brackets": Quirk(renamed(fever='temp. "max" [°C]', crp="CRP, mg/l = x")),
    "quotes around everything": Quirk(write=csv(quoting=1)),
    "zipped": Quirk(write=zipped, ending=".csv.gz"),
    "Parquet": Quirk(write=lambda t, path: t.to_parquet(path), ending=".parquet"),
    "times of day and durations": Quirk(
        lambda t: t.assign(
            time=[datetime.time(i % 24) for i in range(N_ROWS)], stay=pd.to_timedelta(t["crp"], "h")
        ),
        write=lambda t, path: t.to_parquet(path),
        ending=".parquet",
    ),
    "Excel workbook": Quirk(write=excel, ending=".xlsx"),
    "Feather": Quirk(write=lambda t, path: t.to_feather(path), ending=".feather"),
}  # fmt: skip


# Each names the column (or the file, where no column can be told) and what to do about it.
MESSAGES = {
    "a slip in the label": Quirk(
        cells("ill", "yess"), answer=r"column 'ill', row \d+: a value that stands in 1 row only.*--positive"
    ),
    "a label in two spellings": Quirk(
        lambda t: t.assign(ill=[x.upper() if i % 9 == 0 else x for i, x in enumerate(t["ill"])]),
        answer=r"column 'ill'.*differ by a slip of the pen; correct the cells",
    ),
    "a label of one class": Quirk(
        relabelled("no", "no"), answer="without a label; name its column with --label"
    ),
    "a label that is ticked": Quirk(relabelled("x", ""), answer=r"column 'ill', rows .*no label; fill"),
    "no column called like a label": Quirk(renamed(ill="zz"), label="zz", answer="--label"),
    "both decimal marks in a column": Quirk(
        cells("crp", "3,5", "12,25"), answer=r"column 'crp', rows 1, 2: a decimal comma.*decimal point"
    ),
    "a name twice": Quirk(
        write=raw(lambda text: text.replace("crp", "fever", 1)), answer="'fever' occurs 2 times.*rename"
    ),
    "rows of other lengths": Quirk(
        write=raw(lambda text: text.replace(",icu,", ",icu,1,2,", 1)), answer="more or fewer cells.*quote"
    ),
    "the header once more": Quirk(
        write=raw(lambda text: text + text.partition("\n")[0] + "\n"), answer="header once more; remove"
    ),
    "no header": Quirk(
        lambda t: t.drop(columns="ward"),
        write=raw(lambda text: text.partition("\n")[2]),
        answer="add a header row",
    ),
    "a web page called csv": Quirk(write=raw(lambda text: f"<html>{text}"), answer="web page.*export"),
    "no rows": Quirk(lambda t: t.head(0), answer="no data rows"),
}  # fmt: skip
