"""A table that is sound row by row and wrong as a whole: half of it, yesterday's,
another ward's.
"""

import datetime
import json

import pandas as pd
import pytest
from commands import as_json, screen
from flow_cohorts import patients, written
from kept import keep, put_back
from numpy.random import default_rng
from written_files import page_in, read_json

from screening import score
from screening.errors import CohortError
from screening.ledger.database import open_ledger
from screening.monitoring.delivery import Elsewhere, examine, still_there
from screening.monitoring.drift import MIN_REFERENCE_NIGHTS
from screening.schemas.reasons import IDS_OF_ANOTHER_SHAPE
from screening.schemas.run import Delivery
from screening.store.model import save_model

FIRST = datetime.date(2026, 1, 5)
ROWS = (40, 41, 39, 40, 42, 38, 40, 41, 40, 39)


def night(number: int) -> str:
    return str(FIRST + datetime.timedelta(days=number))


def came(
    rows: int,
    number: int,
    still: int | None = 33,
    before: int | None = 40,
    **told: object,
) -> Delivery:
    return Delivery(
        rows=rows,
        units=rows,
        earlier=night(number - 1),
        before=before,
        still=still,
        **told,
    )


def ward(n: int = len(ROWS), **told: object) -> dict[str, Delivery]:
    """Nights of a ward of about forty, of whom seven leave every day."""
    return {
        night(number): came(rows, number, **told)
        for number, rows in enumerate(ROWS[:n])
    }


def codes(
    tonight: Delivery,
    past: dict[str, Delivery],
    number: int = len(ROWS),
    **asked: object,
) -> list[str]:
    _, findings = examine(night(number), tonight, past, **asked)
    words = []
    for one in findings:
        prefix = "stops: " if one.sure else ""
        words.append(prefix + one.reason.code)
    return words


WEEKDAYS = []
for n in range(28):
    day = FIRST + datetime.timedelta(days=n)
    WEEKDAYS.append(20 if day.weekday() > 4 else 60)
GROWING = {night(n): came(40 + 2 * n, n, 34 + 2 * n, 38 + 2 * n) for n in range(30)}
CLINIC = {}
for n, count in enumerate(WEEKDAYS):
    CLINIC[night(n)] = came(count, n, 0, WEEKDAYS[n - 1])
VOXELS = {}
for n, units in enumerate(ROWS[:6]):
    VOXELS[night(n)] = came(500 * units, n).replace(units=units)
HELD = [
    (came(40, 10, 33), ward(), []),
    (came(36, 10, 30), ward(), []),
    (came(44, 10, 34), ward(), []),
    (came(20, 10, 17), ward(), ["not_whole"]),
    (came(40, 10, 16), ward(), ["not_whole"]),
    (came(40, 10, 0), ward(), ["stops: patients_gone"]),
    (came(80, 10, 33), ward(), ["rows_too_many"]),
    # The last night's table written again is known by its patients.
    (came(40, 10, 40, 40), ward(), ["patients_unchanged"]),
    # Before its own spread is known, a series is held to how many left and came.
    (came(12, 4, 10), ward(4), ["not_whole"]),
    (came(20, 1, 17), ward(1), ["not_whole"]),
    (came(36, 1, 30), ward(1), []),
    # Another ward's table has a patient who moved; after few nights, too.
    (came(56, 7, 1), ward(7), ["not_whole"]),
    (came(40, 10, 4), ward(), ["not_whole"]),
    (came(12, 4, 0), ward(4), ["not_whole"]),
    (came(56, 4, 1), ward(4), ["not_whole"]),
    # Three of five go home before a holiday.
    (came(36, 4, 16), ward(4), []),
    # Nobody stays here, or nobody is recognised.
    (came(12, 4, 0), ward(4, still=0), []),
    (came(12, 4, None, None), ward(4), []),
    # Of a large night, a sample of the patients is recognised.
    (came(1000, 1, 210, 500), {night(0): came(1000, 0)}, []),
    (came(500, 1, 210, 500), {night(0): came(1000, 0)}, ["not_whole"]),
    (came(12, 5, 10), ward(5), ["not_whole"]),
    # A table of a day's admissions has other patients every night: nobody is missed.
    (came(40, 10, 0), ward(still=0), []),
    (came(10, 10, 0), ward(still=0), ["not_whole"]),
    (came(100, 30, 92, 98), GROWING, []),
    (came(40, 30, 36, 98), GROWING, ["not_whole"]),
    # Weekends of a clinic are known after some weeks.
    (came(20, 33, 0), CLINIC, []),
    (came(20, 29, 0), CLINIC, ["not_whole"]),
    # Two patients of 500 voxels less are not a thousand patients less.
    (came(18_000, 6).replace(units=36), VOXELS, []),
    (came(9_000, 6, 15).replace(units=18), VOXELS, ["not_whole"]),
]


@pytest.mark.parametrize(("tonight", "past", "expected"), HELD)
def test_rows_and_patients_are_held_against_the_nights_before(tonight, past, expected):
    earlier = datetime.date.fromisoformat(tonight.earlier)
    number = (earlier - FIRST).days + 1
    assert codes(tonight, past, number) == expected


def test_delivery_half_a_ward_accepted():
    """Half a ward three nights running is named three times and then accepted.

    A night that was not whole is no measure for the next one, unless somebody answers
    for it.
    """
    past = ward()
    for number in (10, 11, 12):
        tonight = came(20, number, 17)
        delivery, findings = examine(night(number), tonight, past)
        assert [one.reason.code for one in findings] == ["not_whole"]
        past[night(number)] = delivery
    past[night(12)] = delivery.replace(accepted="half of the ward is closed")
    assert codes(came(20, 13, 16, 20), past, 13) == []


@pytest.mark.parametrize(
    ("same", "expected"),
    [
        ([Elsewhere(night(9))], ["stops: table_of_another_night"]),
        ([Elsewhere(night(12), "ward-7")], ["stops: table_of_another_night"]),
        ([Elsewhere(night(10), "ward-7")], ["table_of_another_series"]),
        ([Elsewhere(night(10), "ward-9.falls", differs=False)], []),
        ([Elsewhere(night(10))], []),
    ],
)
def test_a_table_that_was_there_before(same, expected):
    """Two screens may read one ward's table every night; the same night again is no
    other night.
    """
    assert codes(came(40, 10), ward(), same_table=same) == expected


def test_what_the_contract_states_and_ids_of_another_shape():
    stated = {"files_expected": 3, "n_files": 2, "rows_expected": (60, 120)}
    as_stated = codes(came(40, 0), {}, 0, **stated)
    assert as_stated == [
        "files_unexpected",
        "rows_unexpected",
    ]
    other_ids = IDS_OF_ANOTHER_SHAPE(column="id", differences="4 characters long")
    other = {"ids": [other_ids]}
    assert codes(came(40, 0), {}, 0, **other) == ["stops: ids_of_another_shape"]
    tonight = came(40, 0, accepted="another hospital's")
    taken, _ = examine(night(0), tonight, {}, **other)
    past = {night(0): taken}
    later, findings = examine(night(1), came(40, 1), past, **other)
    assert not findings
    assert later.found == taken.found


@pytest.mark.parametrize(
    ("oldest", "newest", "past", "expected"),
    [
        (0, 0, {"oldest": 0, "newest": 0}, []),
        (1, 1, {"oldest": 0, "newest": 0}, ["rows_too_old"]),
        (20, 1, {"oldest": 20, "newest": 0}, []),
        (20, 9, {"oldest": 20, "newest": 0}, ["rows_too_old"]),
        (0, -2, {"oldest": 20, "newest": 0}, ["rows_of_days_to_come"]),
        (0, -2, {"oldest": 20, "newest": -3}, []),
        (3, 3, None, ["rows_too_old"]),
        (1, 1, None, []),
        (60, 20, None, []),
        (60, 40, None, ["rows_too_old"]),
    ],
)
def test_the_newest_row_beside_the_night(oldest, newest, past, expected):
    """In days before it; tables of one day are held to that, tables of stays to how
    often somebody comes.
    """
    nights = {
        day: one.replace(
            **{name: night(number - old) for name, old in (past or {}).items()}
        )
        for number, (day, one) in enumerate(ward().items())
    }
    oldest_day = night(10 - oldest)
    newest_day = night(10 - newest)
    tonight = came(40, 10, oldest=oldest_day, newest=newest_day)
    assert codes(tonight, nights if past else {}) == expected


def test_delivery_hashes_of_large_nights():
    """Patients of large nights are compared on the hashes that both kept."""
    rng = default_rng(0)
    everybody = rng.permutation(100_000)[:3000].tolist()
    new = rng.integers(100_000, 2**32, 600).tolist()
    tonight = [*everybody[:2400], *new]
    lots_before = sorted(everybody)[:500]
    lots_tonight = sorted(tonight)[:500]
    before, still = still_there(lots_before, lots_tonight, 500)
    assert 400 < before <= 500
    assert 0.76 < still / before < 0.84
    assert still_there([1, 2, 3], [2, 3, 4], 500) == (3, 2)


POOL = patients(700, seed=3)


def beds(number: int, n: int = 60, leave: int = 6) -> pd.DataFrame:
    """The ward's table of a night: every night some of the patients are others."""
    rows = slice(leave * number, leave * number + n)
    return POOL.iloc[rows].drop(columns="ill")


@pytest.fixture(scope="module")
def model(cohort, trained):
    return trained(cohort, "logistic", search=1)


@pytest.fixture(scope="module")
def kept(model, tmp_path_factory):
    """A ledger with six nights of the ward, and the model as a directory."""
    folder = tmp_path_factory.mktemp("delivery") / "site"
    save_model(model, folder / "model")
    with open_ledger(folder / "ledger.db", make=True) as ledger:
        for number in range(6):
            table = written(beds(number), folder / f"{number}.csv")
            run = score(
                model,
                table,
                folder / f"run{number}",
                date=f"2026-01-0{number + 1}",
                ledger=ledger,
            )
            assert not {"not_whole", "patients_gone"} & {
                reason.code for reason in run.attention
            }
    return keep(folder)


@pytest.fixture
def site(kept):
    """The six nights, which the test may go on from."""
    return put_back(kept)


def scored(
    site,
    table,
    *words: object,
    code: int = 0,
    day: int = 7,
):
    asked = (
        "--date",
        f"2026-01-{day:02}",
        "--ledger",
        site / "ledger.db",
        "--out",
        site / f"run{day}",
    )
    return screen("score", site / "model", table, *asked, "--json", *words, code=code)


def test_delivery_half_a_table_on_the_first_nights(model, tmp_path):
    """Half a table, cut within a cell, is named on the first night by its end, and on
    the second by who stayed too.
    """
    whole = written(beds(0), tmp_path / "1.csv").read_bytes()
    (tmp_path / "1.csv").write_bytes(whole[: whole.rindex(b"\n", 0, -1) - 1])
    written(beds(1).iloc[:28], tmp_path / "2.csv")
    attention = []
    with open_ledger(tmp_path / "ledger.db", make=True) as ledger:
        for day in ("1", "2"):
            run = score(
                model,
                tmp_path / f"{day}.csv",
                tmp_path / day,
                date=f"2026-01-0{day}",
                ledger=ledger,
            )
            codes = {reason.code for reason in run.attention}
            attention.append(codes & {"not_whole", "line_end_missing"})

    assert attention == [{"line_end_missing"}, {"not_whole"}]
    assert "28 rows arrived, 59 on 2026-01-01; 28 of 59 patients" in page_in(
        tmp_path / "2"
    )


def test_delivery_half_a_ward(site):
    """Half a ward is a night to look at and its page says how it came.

    The ledger keeps counts and no value of a delivery.
    """
    half = beds(6).iloc[::2]
    table = written(half, site / "half.csv")
    answer = json.loads(scored(site, table).stdout)
    attention = answer["attention"]
    page = page_in(site / "run7")
    before = read_json(site / "run5/run.json")
    whole = Delivery(**before["delivery"])

    usual = [
        reason["code"]
        for reason in attention
        if "the last nights suggest" in reason["words"]
    ]
    assert usual == ["not_whole"]
    assert "30 rows arrived" in page
    assert "27 of 60 patients of 2026-01-06 still here" in page
    assert whole.rows == 60
    assert whole.earlier == "2026-01-05"
    assert whole.before == 60
    assert whole.still == 54


def test_night_cut_in_its_last_cell_is_named(site):
    """Every row and field is there; the page notes it without earlier nights too."""
    table = written(beds(6), site / "cut.csv")
    cut = table.read_bytes().rstrip()[:-2]
    table.write_bytes(cut)
    refused = scored(site, table, "--strict", code=5)
    answer = json.loads(refused.stdout)
    document = read_json(site / "run7" / "run.json")
    alone = screen("score", site / "model", table, "--out", site / "alone", "--json")

    words = [
        reason["words"]
        for reason in answer["attention"]
        if reason["code"] == "line_end_missing"
    ]
    assert words == [
        "The last line has no line end, which it had on 6 of the last 6 nights: its "
        "last cell may be cut."
    ]
    assert document["delivery"]["ends_in_newline"] is False
    assert document["delivery"]["doubtful"] is False
    assert "line_end_missing" not in alone.stdout
    assert "no line end after the last row" in (site / "alone/report.html").read_text()


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], ["line_end_missing"]),
        ([True], ["line_end_missing"]),
        # A file that was cut twice is named twice.
        ([True, False], ["line_end_missing"]),
        # Who never wrote a line end is named once.
        ([False], []),
        ([False, False, False], []),
        # An exporter that has changed is named three times.
        ([True, True, False, False], ["line_end_missing"]),
        ([True, True, False, False, False], []),
        # A database has no lines.
        ([None, None], ["line_end_missing"]),
    ],
)
def test_delivery_line_end_missing(ends, expected):
    """A cut last line is named from the first night on."""
    past = {}
    for number, end in enumerate(ends):
        past[night(number)] = came(40, number, ends_in_newline=end)
    number = len(ends)
    tonight = came(40, number, ends_in_newline=False)

    assert codes(tonight, past, number) == expected


def test_who_has_left_is_told_from_who_is_no_longer_flagged(site, model):
    night = beds(6).assign(fever=36.0, crp=1.0)
    well = written(night, site / "well.csv")
    with open_ledger(site / "ledger.db") as ledger:
        run = score(model, well, site / "well", date="2026-01-07", ledger=ledger)
    since = run.document["since"]
    there = set(beds(6)["patient"])
    left = [name for name in since["gone"] if name not in there]
    assert since["left"] == left
    assert 0 < len(since["left"]) < len(since["gone"])


def test_a_delivery_that_is_surely_wrong_stops_and_writes_nothing(site):
    """Numbers where training had text with zeros in front: every case would be a new
    one.
    """
    with_numbers = beds(6).astype({"patient": int})
    numbers = written(with_numbers, site / "n.parquet")
    told = {
        site / "5.csv": [
            "is that of the night of 2026-01-06, byte for byte",
            "--accept-delivery REASON",
        ],
        written(beds(60), site / "other.csv"): [
            "0 of 60 patients of 2026-01-06 are still there"
        ],
        numbers: ["a different format", "without the leading zeros"],
    }
    for table, words in told.items():
        said = scored(site, table, code=3).stderr
        assert all(word in said for word in words)
    assert not (site / "run7").exists()


def test_ids_without_zeros_stop_a_night_without_ledger(site, model, tmp_path):
    """Ids that were read as numbers name nobody, whether or not there is a ledger."""
    numbers = beds(6).astype({"patient": int})
    ids = [f"K-{name}" for name in numbers["patient"]]
    other = numbers.assign(patient=ids)

    with pytest.raises(CohortError, match="without the leading zeros"):
        score(model, numbers, tmp_path / "numbers")
    accepted = score(model, numbers, tmp_path / "run", accept_delivery="so it is")
    elsewhere = score(model, other, tmp_path / "other")

    assert "ids_of_another_shape" in accepted.document["delivery"]["found"]
    assert elsewhere.document["delivery"]["found"] == []


def test_an_accepted_delivery_is_scored_says_why_and_is_found_again(site):
    words = ("--accept-delivery", "holiday: nobody came or left")
    accepted = scored(site, site / "5.csv", *words)
    first = json.loads(accepted.stdout)
    document = read_json(site / "run7" / "run.json")
    again = json.loads(scored(site, site / "5.csv").stdout)

    assert document["delivery"]["accepted"] == words[1]
    assert document["delivery"]["found"][0] == "table_of_another_night"
    assert words[1] in page_in(site / "run7")
    assert again["run_id"] == first["run_id"]
    assert again["attention"] == first["attention"]
    screen(
        "score",
        site / "model",
        site / "5.csv",
        "--out",
        site / "x",
        "--accept-delivery",
        " ",
        code=2,
    )


def test_one_table_for_two_wards_is_named(site, model):
    """Where both are of one model, or had tables of their own on the night before."""
    table = written(beds(6), site / "6.csv")
    codes = [
        {
            reason["code"]
            for reason in json.loads(scored(site, table, "--series", name).stdout)[
                "attention"
            ]
        }
        for name in ("ward-7", "ward-9")
    ]
    assert ["table_of_another_series" in some for some in codes] == [False, True]


def test_delivery_after_twenty_nights(model, tmp_path):
    """After twenty nights of its own a ward is not held against training.

    A ward of feverish patients differs from training every night, and from itself when
    it changes.
    """
    runs = []
    with open_ledger(tmp_path / "ledger.db", make=True) as ledger:
        for number in range(MIN_REFERENCE_NIGHTS + 2):
            table = beds(number, 50, 30)
            run = tmp_path / f"run{number}"
            table["fever"] += 0.8 if number <= MIN_REFERENCE_NIGHTS else 2.2
            runs.append(
                score(model, table, run, date=f"2026-01-{number + 1:02}", ledger=ledger)
            )

    def kinds_of(reasons):
        return {(one.code, one.column) for one in reasons}

    early = kinds_of(runs[0].attention)
    usual = kinds_of(runs[-2].attention)
    changed = kinds_of(runs[-1].attention)

    fever = ("values_differ", "fever")
    assert fever in early
    assert fever not in usual
    assert fever in changed
    assert fever in {
        (one["code"], one["column"]) for one in runs[-2].document["unlike_training"]
    }
    assert "not from this series’ own nights" in page_in(
        tmp_path / f"run{MIN_REFERENCE_NIGHTS}"
    )
    assert "on this series' last 20 nights" not in str(runs[-2].attention)


def test_a_site_scores_a_stopped_night_that_somebody_accepts(site):
    """Yesterday's table in tonight's place fails the series, until its delivery is
    accepted.
    """
    for number in (5, 6):
        written(beds(5), site / f"2026-01-{number + 1:02}.csv")
    (site / "NIGHT.toml").write_text(
        '[site]\nledger = "l.db"\nruns = "runs"\npublish = "pages"\n'
        '[series.ward]\nmodel = "model"\ncohort = "{date}.csv"\ncatch_up = 0\n'
    )
    run = ("run", site / "NIGHT.toml", "--date")
    screen(*run, "2026-01-06")

    (stopped,) = as_json(*run, "2026-01-07", code=3)["series"]
    accepted = ("--accept-delivery", "static test table")
    screen(*run, "2026-01-07", *accepted, code=2)
    answer = as_json(*run, "2026-01-07", "--only", "ward", *accepted)
    (taken,) = answer["series"]
    later = as_json(*run, "2026-01-07")["series"][0]

    assert "byte for byte" in stopped["said"]
    assert taken["status"] == "published"
    assert later["status"] == "unchanged"
