"""What leaves is opened in LibreOffice, as somebody in a German or an English office
does.
"""

import codecs
import csv
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import screen
from flow_cohorts import night_of_patients, written

from screening.scoring.exporting import read_flagged
from screening.scoring.flagged_list import without_marks

OFFICE = shutil.which("soffice")
pytestmark = pytest.mark.skipif(
    OFFICE is None, reason="needs LibreOffice (Debian: libreoffice-calc)"
)
# Ids that spreadsheets like to read as numbers, dates, truths and formulas.
IDS = (
    *("00123", "0815/2", "1E5", "1-2", "3/4", "MAR1", "12.03.", "1:30", "TRUE", "WAHR"),
    *("12345678901234567890", "1,5", "1.5", "Žofie-7", "Müller", "=1+1", "+49", "-7"),
)
SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry"
 xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooSetupSystemLocale"
 oor:op="fuse"><value>{locale}</value></prop></item>
</oor:items>
"""


@pytest.fixture(scope="module")
def run(logistic_model, tmp_path_factory) -> Path:
    """A night of these patients, all of them very ill."""
    folder = tmp_path_factory.mktemp("night")
    night = night_of_patients(60, seed=4).assign(ward="icu")
    night.loc[: len(IDS) - 1, "patient"] = IDS
    night.loc[: len(IDS) - 1, ["fever", "crp"]] = (39.4, 60.0)
    written(night, folder / "night.csv")
    out = folder / "run"
    # "1,5" and "1.5" are ids that may be of one patient.
    accepted = ("--accept-delivery", "two patients")
    screen("score", logistic_model, folder / "night.csv", "--out", out, *accepted)
    assert set(IDS) <= set(read_flagged(out).rows["id"].to_pylist())
    return out


def opened(file: Path, locale: str, folder: Path, *more: str) -> list[list[str]]:
    """Return the cells of a file as LibreOffice shows them in a country."""
    user = folder / "user" / "user"
    user.mkdir(parents=True)
    settings = SETTINGS.format(locale=locale)
    (user / "registrymodifications.xcu").write_text(settings)
    # Columns apart by tabs, texts in quotes, UTF-8, cells as they are shown.
    form = "csv:Text - txt - csv (StarCalc):9,34,76,1,,0,false,true"
    profile = f"-env:UserInstallation=file://{user.parent}"
    command = [OFFICE, profile, "--headless", *more, "--convert-to", form]
    subprocess.run(
        [*command, "--outdir", folder / "out", file],
        check=True,
        capture_output=True,
    )
    (shown,) = (folder / "out").iterdir()
    with shown.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines, delimiter="\t"))


@pytest.mark.parametrize("locale", ["de-DE", "en-US"])
def test_workbook_in_office(run, tmp_path, locale):
    """Every id of a workbook is shown as it is, in the order of ranks."""
    book = tmp_path / "night.xlsx"
    screen("export", run, "--to", "xlsx", "--out", book)

    header, *rows = opened(book, locale, tmp_path)

    place = header.index("id")
    assert [row[place] for row in rows] == read_flagged(run).rows["id"].to_pylist()


@pytest.mark.parametrize("locale", ["de-DE", "en-US"])
def test_list_in_office(run, tmp_path, locale):
    """Ids of flagged.csv are shown as they are where quoted fields are read as text.

    The byte-order mark, by which Excel knows UTF-8, is no part of the first name.
    """
    flagged = run / "flagged.csv"

    # Commas, quotes, UTF-8, from the first line on, quoted fields as text.
    as_texts = "--infilter=CSV:44,34,76,1,,0,true"
    header, *rows = opened(flagged, locale, tmp_path, as_texts)

    place = header.index("id")
    assert flagged.read_bytes().startswith(codecs.BOM_UTF8)
    assert header[0] == "rank"
    shown = [without_marks(row[place]) for row in rows]
    assert shown == read_flagged(run).rows["id"].to_pylist()
