"""What became of the patients: the truth of every row, figures, entries,
corrections.
"""

import shutil

import numpy as np
import pandas as pd
import pytest
from commands import as_json, screen, verdict_file
from faults.amounts import repeats
from flow_cohorts import night_of_patients, patients
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.metrics import roc_auc_score
from written_files import scores_in

from screening import MaxFlagRate, load_model, train
from screening.clock.windows import Known, Window, with_truth
from screening.clock.zone import Clock
from screening.contract.contract import Contract, OutcomeDefinition
from screening.data.outcome_table import OutcomeColumns, read_outcomes
from screening.errors import CohortError, UsageError
from screening.ledger.outcome_entries import reasons_of_outcomes
from screening.ledger.outcomes import _is_other_event
from screening.ledger.scored_nights import ScoredNights
from screening.metrics.chances import chance_at_threshold
from screening.metrics.outcomes import (
    below_promise,
    detected_events,
    lead_time,
    missed_cases,
    outcome_figures,
    rates_of,
    with_known_truth,
)
from screening.schemas.base import Estimate
from screening.schemas.history import SensitivityAndPpv
from screening.schemas.model import CohortDeclaration, OutcomeDeclaration
from screening.store.model import save_model

DAY = pd.Timedelta(days=1)
UTC = Clock("UTC")
WHO_AND_WHEN = OutcomeColumns("who", "when")
FIRST = pd.Timestamp("2026-03-01")


def events_of(**times):
    """Return events by patient, in days from the first night."""
    lines = []
    for name, days in times.items():
        lines += [(name, FIRST + time * DAY) for time in days]
    frame = pd.DataFrame(lines, columns=["unit", "time"])
    return frame.astype({"time": "datetime64[us]"}).assign(name="")


def rows_of(*lines):
    """Return rows: night in days, patient, flagged."""
    frame = pd.DataFrame(lines, columns=["night", "patient", "flagged"])
    times = FIRST + frame["night"] * DAY
    frame["night"] = times.astype("datetime64[us]")
    frame["at"] = frame["night"]
    frame["unit"] = frame["patient"]
    frame["score"] = frame["flagged"].astype(float)
    frame["chance"] = 0.5
    frame["model"] = "m"
    return frame


def brute_truth(night, times, window, as_of):
    start = night + pd.Timedelta(hours=window.after)
    end = night + pd.Timedelta(hours=window.within)
    if any(time < start for time in times):
        return "past"
    if any(start <= time <= end for time in times):
        return "case"
    return "open" if end > as_of else "none"


event_days = st.lists(st.floats(-2, 12), max_size=3)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from("abc")), min_size=1),
    st.dictionaries(st.sampled_from("abc"), event_days),
    st.integers(1, 5),
    st.integers(0, 1),
    st.floats(0, 15),
)
def test_truth_is_that_of_the_definition(nights, times, within, after, until):
    window = Window(24.0 * within, 12.0 * after)
    as_of = FIRST + until * DAY
    events = events_of(**times)
    rows = rows_of(*((night, name, False) for night, name in nights))

    found = with_truth(rows, Known(events), window, as_of)

    for night, name, truth in zip(
        found["night"], found["patient"], found["truth"], strict=True
    ):
        of_patient = events.loc[events["unit"] == name, "time"]
        assert truth == brute_truth(night, of_patient, window, as_of)


def test_lead_time_is_of_unbroken_flags():
    of_a = [(night, "a", night != 1) for night in range(4)]
    of_b = [(night, "b", night < 2) for night in range(4)]
    rows = rows_of(*of_a, *of_b)
    events = events_of(a=[3.5], b=[3.5])
    known = with_truth(rows, Known(events), Window(24 * 9), FIRST + 30 * DAY)

    lead = lead_time(detected_events(known))

    # Of a flags of nights 2 and 3 reach the event; b was not flagged the night before.
    assert lead.events == 2
    assert lead.detected == 1
    assert lead.median_hours == 36
    assert missed_cases(known)["patient"].tolist() == ["b"]


def brute_lead(nights, event):
    """Return the hours from the first unbroken flag, by going back night by night."""
    first = None
    for night, flagged in sorted(nights, reverse=True):
        if not flagged:
            break
        first = night
    if first is None:
        return None
    return (event - first) / pd.Timedelta(hours=1)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.lists(st.booleans(), min_size=1, max_size=6),
        min_size=1,
    )
)
def test_lead_time_is_that_of_the_definition(flags):
    lines = []
    expected = {}
    for name, of_patient in flags.items():
        nights = list(enumerate(of_patient))
        lines += [(night, name, flagged) for night, flagged in nights]
        times = [(FIRST + night * DAY, flagged) for night, flagged in nights]
        event = FIRST + 6.5 * DAY
        expected[name] = brute_lead(times, event)
    events = events_of(**{name: [6.5] for name in flags})
    as_of = FIRST + 30 * DAY
    known = with_truth(rows_of(*lines), Known(events), Window(24 * 9), as_of)

    found = detected_events(known).set_index("patient").hours

    hours = {}
    for name, h in found.items():
        hours[name] = None if pd.isna(h) else h
    assert hours == expected


def test_lead_time_counts_from_a_run_that_began_before_the_window():
    """A run is not cut at the window; a night without a row, or flag, breaks it."""
    whole = [(night, "a", True) for night in range(6)]
    absent = [(night, "b", True) for night in (0, 1, 2, 4, 5)]
    once = [(night, "c", night == 4) for night in range(6)]
    never = [(night, "d", False) for night in range(6)]
    rows = rows_of(*whole, *absent, *once, *never)
    events = events_of(a=[5.5], b=[5.5], c=[5.5], d=[5.5])
    known = with_truth(rows, Known(events), Window(48.0), FIRST + 30 * DAY)

    lead = lead_time(detected_events(known))

    found = detected_events(known).set_index("unit")
    assert found["hours"].dropna().to_dict() == {"a": 132, "b": 36}
    assert found["first_hours"].dropna().to_dict() == {"a": 36, "b": 36, "c": 36}
    assert lead.events == 4
    assert lead.detected == 2
    assert lead.flagged_earlier == 1
    assert lead.not_flagged == 1
    assert lead.median_hours == 84
    assert lead.first_median_hours == 36


def test_lead_time_by_subgroup_hides_few_events():
    rows = rows_of(
        *((night, name, night > 0) for night in range(3) for name in "abcdef")
    )
    is_female = rows["patient"] < "e"
    rows["subgroup_sex"] = np.where(is_female, "f", "m")
    events = events_of(**{name: [2.5] for name in "abcdef"})
    window = Window(24 * 9)
    as_of = FIRST + 30 * DAY
    known = with_truth(rows, Known(events), window, as_of)

    figures = outcome_figures(
        known, window, str(as_of), None, {}, {"sex": "subgroup_sex"}, suppress=3
    )

    (lead,) = figures.lead_by_subgroup
    assert lead.column == "sex"
    assert lead.level == "f"
    assert lead.events == 4
    assert lead.detected == 4
    assert lead.median_hours == 36


WINDOW = Window(24.0 * 100)


def ward(n_patients, seed, sensitivity=0.7, specificity=0.9):
    """Return rows and events of stays, with known rates of flags.

    Rows of one patient are flagged alike with a patient's own tendency.
    """
    rng = default_rng(seed)
    lines = []
    events = {}
    for number in range(n_patients):
        begin = int(rng.integers(0, 60))
        stay = int(rng.geometric(0.2))
        name = f"p{number}"
        is_ill = rng.random() < 0.25
        rate = sensitivity if is_ill else 1 - specificity
        tendency = rng.beta(2 * rate, 2 * (1 - rate))
        if is_ill:
            events[name] = [begin + stay - 0.5]
        for night in range(begin, begin + stay):
            lines.append((night, name, rng.random() < tendency))
    return rows_of(*lines), events_of(**events)


def known_rows(n_patients, seed):
    rows, events = ward(n_patients, seed)
    return with_truth(rows, Known(events), WINDOW, FIRST + 400 * DAY)


@pytest.mark.repeated
def test_intervals_allow_for_stays():
    """Of many wards the intervals of 95 % hold the true rates in most."""
    truth = {"sensitivity": 0.7, "specificity": 0.9}
    held = {name: [] for name in truth}
    for seed in repeats(40, 100):
        figures = rates_of(with_known_truth(known_rows(150, seed)))
        for name, value in truth.items():
            estimate = figures[name]
            held[name].append(estimate.low <= value <= estimate.high)
    assert min(map(np.mean, held.values())) >= 0.9


@pytest.mark.repeated
def test_below_is_said_of_what_is_below():
    fine = SensitivityAndPpv(
        sensitivity=Estimate(0.7, 0.6, 0.8),
        ppv=Estimate(0.5, 0.2, 0.8),
    )
    too_high = fine.replace(sensitivity=Estimate(0.98, 0.96, 0.99))

    of_wards = [
        rates_of(with_known_truth(known_rows(150, seed))) for seed in repeats(15, 40)
    ]
    figures = outcome_figures(known_rows(400, 0), WINDOW, "2026-03-01", too_high, {})

    n_false = sum("sensitivity" in below_promise(rates, fine) for rates in of_wards)
    assert n_false <= 2
    assert "sensitivity" in figures.below


def test_table_is_read_and_its_faults_are_named(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("who,when\np1,2026-03-04 10:00\np2,\n")

    table = read_outcomes(path, WHO_AND_WHEN, UTC).lines

    assert table["unit"].tolist() == ["p1", "p2"]
    assert table["time"].isna().tolist() == [False, True]
    path.write_text("who,when\np1,soon\n,2026-03-04\n")
    with pytest.raises(CohortError) as refused:
        read_outcomes(path, WHO_AND_WHEN, UTC)
    assert "'when', rows 1: not a date" in str(refused.value)
    assert "'who', rows 2: no id" in str(refused.value)
    with pytest.raises(CohortError, match="missing column 'time'"):
        read_outcomes(path, OutcomeColumns("who", "time"), UTC)


def test_time_with_a_zone_is_converted_and_one_without_is_local():
    """The same instant in every notation, and in a column of both, row by row."""
    berlin = Clock("Europe/Berlin")
    instant = pd.Timestamp("2026-03-03 23:30")
    texts = [
        "2026-03-03T23:30Z",
        "2026-03-04 01:30:00.0+0200",
        "2026-03-04 00:30",
        "2026-03-03T18:30:00-05:00",
    ]
    of_zone = pd.Series([instant]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")

    for times in (texts, of_zone):
        table = pd.DataFrame({"who": "p", "when": times})
        read = read_outcomes(table, WHO_AND_WHEN, berlin).lines
        assert set(read["time"]) == {instant}


def trained(contract):
    past = patients(240, share=0.2, seed=1)
    quick = {"search": 1, "beside": (), "jobs": 1}
    rule = MaxFlagRate(0.3)
    return train(past, "logistic", contract=contract, rule=rule, **quick)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Three nights of a ledger, all patients on each."""
    folder = tmp_path_factory.mktemp("outcomes")
    contract = Contract(label="ill", id="patient", actions=["isolated", "cultures"])
    model = trained(contract)
    save_model(model, folder / "model")
    night = patients(60, share=0.2, seed=2)
    table = folder / "night.csv"
    for number in (1, 2, 3):
        of_night = night.assign(fever=night.fever + 0.001 * number)
        of_night.drop(columns="ill").to_csv(table, index=False)
        screen(
            *("score", folder / "model", table, "--out", folder / f"run{number}"),
            *("--date", f"2026-03-0{number}", "--ledger", folder / "l.db"),
            *("--series", "ward", "--jobs", "1", "--force"),
        )
    ill = night.loc[night.ill == "yes", "patient"]
    return folder, ill.tolist()


def enter(folder, text, *options):
    path = folder / "events.csv"
    path.write_text(text)
    return as_json(
        *("outcomes", path, "--series", "ward", "--ledger", folder / "l.db"),
        *("--id", "patient", "--time", "when", "--within", "3d", *options),
    )


def flags_of(folder):
    table = scores_in(folder / "run3")
    return table.set_index("id").flagged


def test_outcomes_of_a_series(site):
    folder, ill = site
    text = "patient,when\n" + "".join(f"{name},2026-03-04 08:00\n" for name in ill)

    answer = enter(folder, text + "nobody,2026-03-04\n", "--as-of", "2026-03-20")

    figures = answer["figures"]
    assert answer["new"] == len(ill)
    assert answer["unknown"] == 1
    # Within three days of the second and third night, and of the first by its last
    # hour.
    flagged = flags_of(folder)
    n_hit = int(flagged[ill].sum())
    assert figures["nights"] == 3
    assert figures["open"] == figures["past"] == 0
    assert figures["cases"] == 2 * len(ill)
    sensitivity = figures["figures"]["sensitivity"]["value"]
    assert sensitivity == pytest.approx(n_hit / len(ill))
    assert figures["lead"]["events"] == len(ill)
    assert figures["lead"]["detected"] == n_hit
    facts = load_model(folder / "model").facts
    chance = chance_at_threshold(
        facts.validation.calibration["yes"], facts.operating_points[0].threshold
    )
    n_false = 3 * int(flagged.sum()) - 2 * n_hit
    benefit = 2 * n_hit - n_false * chance / (1 - chance)
    rows = 3 * len(flagged)
    for each in (figures, *figures["by_month"]):
        value = each["figures"]["net_benefit"]["value"]
        assert value == pytest.approx(benefit / rows)

    again = enter(folder, text, "--as-of", "2026-03-20")
    assert again["new"] == 0
    assert again["corrected"] == 0
    assert again["figures"] | {"table": figures["table"]} == figures

    corrected = enter(folder, f"patient,when\n{ill[0]},\n", "--as-of", "2026-03-20")
    assert corrected["corrected"] == 1
    assert corrected["figures"]["cases"] == 2 * len(ill) - 2

    (series,) = as_json("history", "--ledger", folder / "l.db")["series"]
    shown = series["outcomes"]
    assert shown == corrected["figures"]


def test_history_page_shows_outcomes(site):
    folder, ill = site
    text = "patient,when\n" + "".join(f"{name},2026-03-04 08:00\n" for name in ill)
    enter(folder, text, "--as-of", "2026-03-20")

    screen("history", "--ledger", folder / "l.db", "--out", folder / "history.html")

    page = (folder / "history.html").read_text()
    assert "Outcomes of the patients" in page
    assert '<th scope="row" class="month">2026-03' in page
    assert not any(name in page for name in ill)
    # On a telephone, where a table has no heads, each figure says what it is.
    for head in ("Cases", "Sensitivity", "Flagged earlier, then not"):
        assert f'<td class="n" data-is="{head}">' in page


def test_status_says_that_outcomes_are_below():
    rows, events = ward(400, 0)
    window = Window(24.0 * 100)
    as_of = FIRST + 400 * DAY
    promised = SensitivityAndPpv(
        sensitivity=Estimate(0.98, 0.96, 0.99),
        ppv=Estimate(),
    )
    known = with_truth(rows, Known(events), window, as_of)

    figures = outcome_figures(known, window, str(as_of), promised, {})
    (reason,) = reasons_of_outcomes(figures)

    assert reason.code == "outcomes_below"
    assert reason.words.startswith("Sensitivity by outcomes is 7")
    assert "98%" in reason.words


def test_outcomes_by_what_was_done(site):
    """Of each action the cases and the others, by the last verdict of a patient."""
    folder, ill = site
    flags = flags_of(folder)
    flagged = flags.index[flags].tolist()
    cases = [name for name in flagged if name in ill]
    others = [name for name in flagged if name not in ill]
    action_of = {cases[0]: "isolated", cases[1]: "cultures", others[0]: "isolated"}
    verdicts = [
        {"id": name, "verdict": "unsure", "action": action}
        for name, action in action_of.items()
    ]
    verdicts.append({"id": others[1], "verdict": "unsure"})
    path = verdict_file(folder / "run3", verdicts)
    of_ledger = ("--ledger", folder / "l.db")
    screen("review", folder / "run3", path, *of_ledger)
    text = "patient,when\n" + "".join(f"{name},2026-03-04 08:00\n" for name in ill)

    figures = enter(folder, text, "--as-of", "2026-03-20")["figures"]
    screen("history", *of_ledger, "--out", folder / "actions.html")

    assert figures["actions"] == {
        "isolated": {"case": 1, "none": 1},
        "cultures": {"case": 1, "none": 0},
    }
    page = (folder / "actions.html").read_text(encoding="utf-8")
    words = " ".join(page.split())
    assert "<bdi>isolated</bdi> 1 of 2" in words

    models = (folder / "model", folder / "model")
    screen("report", *models, *of_ledger, "--out", folder / "both.html")
    table = (folder / "both.html").read_text(encoding="utf-8")
    assert table.count("held out in training") == 2
    assert "nights 2026-03-01 to 2026-03-03, by outcomes" in table


def test_action_that_the_contract_does_not_name(site):
    folder, _ = site
    name = flags_of(folder).index[0]
    path = verdict_file(
        folder / "run3", [{"id": name, "verdict": "unsure", "action": "sent home"}]
    )

    refused = screen(
        "review", folder / "run3", path, "--ledger", folder / "l.db", code=3
    )

    assert "verdict 1: its action is not one of `actions`" in refused.stderr
    assert "sent home" not in refused.stderr


def test_windows_that_are_not_over_are_open(site):
    folder, _ = site
    answer = enter(folder, "patient,when\n", "--as-of", "2026-03-05")

    figures = answer["figures"]
    assert figures["open"] > 0
    assert figures["rows"] + figures["open"] + figures["past"] == 180


def test_rates_are_of_windows_that_are_over():
    """Of a window that is not over only cases are known: PPV would be 100 %."""
    rows = rows_of((0, "a", True), (0, "b", True), (5, "a", True), (5, "b", True))
    window = Window(72.0)
    as_of = FIRST + 6 * DAY
    known = with_truth(rows, Known(events_of(a=[5.5])), window, as_of)

    figures = outcome_figures(known, window, str(as_of), None, {})

    assert figures.rows == 2
    assert figures.cases == 0
    assert figures.open == 2
    assert figures.lead.events == 1
    assert figures.lead.detected == 1


def test_promise_is_compared_with_nights_of_its_model():
    rows, events = ward(400, 0)
    before = rows.assign(
        night=rows["night"] - 200 * DAY,
        flagged=False,
        score=-rows["score"],
        model="old",
    )
    window = Window(24.0 * 100)
    as_of = FIRST + 400 * DAY
    promised = SensitivityAndPpv(
        sensitivity=Estimate(0.7, 0.65, 0.75),
        ppv=Estimate(None, None, None),
    )
    alone = with_truth(rows, Known(events), window, as_of)
    # The earlier model found nobody among other patients.
    before["at"] = before["night"]
    before["patient"] += " before"
    before["unit"] = before["patient"]
    earlier = events.assign(
        unit=events["unit"] + " before", time=events["time"] - 200 * DAY
    )
    all_rows = pd.concat([before, rows])
    all_events = pd.concat([events, earlier])
    both = with_truth(all_rows, Known(all_events), window, as_of)

    figures = outcome_figures(both, window, str(as_of), promised, {})

    assert figures["sensitivity"].value < 0.4
    assert not figures.below
    of_last = outcome_figures(alone, window, str(as_of), promised, {})
    assert figures.seen == of_last.seen
    assert figures["auroc"] == of_last["auroc"]
    assert figures.seen_nights == of_last.nights < figures.nights


def test_windows_must_end_after_they_begin():
    for window in ({"within": 0.0}, {"within": 24.0, "after": 24.0}):
        with pytest.raises(UsageError, match="make `within` longer than `after`"):
            Window(**window)


def test_as_of_may_have_a_zone(site):
    folder, _ = site
    with_zone = enter(folder, "patient,when\n", "--as-of", "2026-03-05T01:00+01:00")
    without = enter(folder, "patient,when\n", "--as-of", "2026-03-05")

    assert with_zone["figures"] == without["figures"]


def test_ids_that_lost_their_zeros_are_refused(site):
    folder, ill = site
    path = folder / "numbers.csv"
    path.write_text(f"patient,when\n00{ill[0]},2026-03-04\n")

    refused = screen(
        *("outcomes", path, "--series", "ward", "--ledger", folder / "l.db"),
        *("--id", "patient", "--time", "when", "--within", "3d"),
        code=3,
    )

    assert "row 1: 1 id is that of a patient in the nights" in refused.stderr
    assert ill[0] not in refused.stderr


def test_run_that_cannot_be_read_is_named(site):
    folder, _ = site
    scores = folder / "run2" / "scores.parquet"
    content = scores.read_bytes()
    scores.chmod(0o600)
    scores.write_bytes(content[:100])
    (folder / "events.csv").write_text("patient,when\n")

    refused = screen(
        *("outcomes", folder / "events.csv", "--series", "ward"),
        *("--ledger", folder / "l.db", "--id", "patient", "--time", "when"),
        *("--within", "3d"),
        code=4,
    )

    scores.write_bytes(content)
    assert str(scores) in refused.stderr
    assert "restore it from the backup" in refused.stderr


def test_nights_whose_directory_is_gone_are_counted(site):
    folder, _ = site
    ledger = ("--ledger", folder / "l.db", "--series", "ward")
    words = ("--id", "patient", "--time", "when", "--within", "3d")
    (folder / "run2").rename(folder / "gone2")
    answer = enter(folder, "patient,when\n", "--as-of", "2026-03-20")
    for number in (1, 3):
        (folder / f"run{number}").rename(folder / f"gone{number}")
    refused = screen("outcomes", folder / "events.csv", *ledger, *words, code=2)
    for number in (1, 2, 3):
        (folder / f"gone{number}").rename(folder / f"run{number}")

    assert answer["figures"]["unread"] == 1
    assert answer["figures"]["hours"] == {"midnight": 2}
    assert "no night of this series can be read" in refused.stderr


def test_missed_cases_are_written_for_their_owner(site):
    folder, ill = site
    out = folder / "missed.csv"
    text = "patient,when\n" + "".join(f"{name},2026-03-04 08:00\n" for name in ill)

    enter(folder, text, "--as-of", "2026-03-20", "--missed", out)

    assert out.stat().st_mode & 0o777 == 0o600
    missed = pd.read_csv(out, dtype=str)
    flagged = flags_of(folder)
    not_flagged = {name for name in ill if not flagged[name]}
    assert set(missed["patient"]) == not_flagged


def test_forget_erases_outcomes(site):
    folder, ill = site
    enter(folder, f"patient,when\n{ill[1]},2026-03-04\n", "--as-of", "2026-03-20")
    screen(
        *("forget", ill[1], "--ledger", folder / "l.db", "--reason", "asked"),
        *("--runs", folder, "--models", folder / "model"),
    )

    content = (folder / "l.db").read_bytes()
    assert ill[1].encode() not in content
    shown = as_json("history", "--verify", "--ledger", folder / "l.db")
    assert shown["series"][0]["outcomes"]["nights"] == 3


def test_contract_gives_subgroups_and_the_order_of_dates(tmp_path):
    """Outcomes are read by the contract's date_order; lead time is by its subgroups."""
    contract = Contract(
        label="ill",
        id="patient",
        subgroup=["ward"],
        date_order="dmy",
        suppress=1,
        outcome=OutcomeDefinition(within="3d", time="when"),
    )
    save_model(trained(contract), tmp_path / "model")
    night = patients(60, share=0.2, seed=2)
    unlabelled = night.drop(columns="ill")
    unlabelled.to_csv(tmp_path / "night.csv", index=False)
    place = ("--ledger", tmp_path / "l.db", "--series", "ward")
    screen(
        *("score", tmp_path / "model", tmp_path / "night.csv"),
        *("--out", tmp_path / "run", "--date", "2026-03-01", *place),
    )
    ill = night[night.ill == "yes"]
    text = "patient,when\n" + "".join(f"{name},02/03/2026\n" for name in ill.patient)
    (tmp_path / "events.csv").write_text(text)

    entered = as_json(
        *("outcomes", tmp_path / "events.csv", *place, "--as-of", "2026-04-01")
    )

    scores = scores_in(tmp_path / "run").set_index("id")
    wards = night.set_index("patient").ward
    assert scores.subgroup_ward.to_dict() == wards.to_dict()
    figures = entered["figures"]
    assert figures["cases"] == len(ill)
    by_ward = figures["lead_by_subgroup"]
    events = {lead["level"]: lead["events"] for lead in by_ward}
    assert events == ill.ward.value_counts().to_dict()
    flagged_cases = scores.flagged[ill.patient]
    flagged = flagged_cases.groupby(ill.ward.to_numpy()).sum()
    for lead in figures["lead_by_subgroup"]:
        assert lead["column"] == "ward"
        assert lead["detected"] == flagged[lead["level"]]


def three_classes(n_rows=240, seed=0):
    """Return patients of whom some get sepsis and some kidney failure."""
    table = night_of_patients(n_rows, seed=seed)
    rng = default_rng(seed)
    became = rng.choice(["none", "sepsis", "kidney"], n_rows, p=[0.6, 0.2, 0.2])
    return table.assign(
        fever=table.fever + 2 * (became == "sepsis"),
        crp=table.crp + 60 * (became == "kidney"),
        became=became,
    )


def test_events_of_several_classes(tmp_path):
    """An event is a case of the class that it names; others do not count."""
    outcome = OutcomeDefinition(within="3d", time="when", event="what")
    contract = Contract(label="became", id="patient", outcome=outcome)
    model = train(
        three_classes(),
        "one_vs_rest",
        contract=contract.with_roles(positive=["sepsis", "kidney"]),
        rule=MaxFlagRate(0.3),
        search=1,
        beside=(),
        jobs=1,
    )
    save_model(model, tmp_path / "model")
    night = three_classes(80, seed=2)
    unlabelled = night.drop(columns="became")
    unlabelled.to_csv(tmp_path / "night.csv", index=False)
    place = ("--ledger", tmp_path / "l.db", "--series", "ward")
    screen(
        *("score", tmp_path / "model", tmp_path / "night.csv"),
        *("--out", tmp_path / "run", "--date", "2026-03-01", *place),
    )
    lines = [
        f"{patient},2026-03-02 08:00,{became}\n"
        for patient, became in zip(night.patient, night.became, strict=True)
        if became != "none"
    ]
    lines.append(f"{night.patient[0]},2026-03-01 09:00,fall\n")
    (tmp_path / "events.csv").write_text("patient,when,what\n" + "".join(lines))

    entered = as_json(
        *("outcomes", tmp_path / "events.csv", *place, "--as-of", "2026-04-01")
    )
    screen("history", *place, "--out", tmp_path / "history.html")
    unnamed = screen(
        *("outcomes", tmp_path / "events.csv", *place, "--event", "nothing"), code=3
    )

    figures = entered["figures"]
    assert entered["other"] == 1
    assert figures["cases"] == len(lines) - 1
    assert figures["figures"]["auroc"]["value"] is None
    scores = scores_in(tmp_path / "run").set_index("id")
    thresholds = {
        point["class"]: point["threshold"] for point in model.operating_points
    }
    classes = [of_class["class"] for of_class in figures["by_class"]]
    assert classes == list(thresholds)
    for of_class in figures["by_class"]:
        name = of_class["class"]
        score = scores[f"score_{name}"]
        is_case = (night.became == name).to_numpy()
        of_patients = score[night.patient]
        is_flagged = (of_patients >= thresholds[name]).to_numpy()
        hit = is_flagged & is_case
        assert of_class["cases"] == is_case.sum()
        assert of_class["true_positive"] == hit.sum()
        auroc = roc_auc_score(is_case, score[night.patient])
        assert of_class["figures"]["auroc"]["value"] == pytest.approx(auroc)
    assert "By class" in (tmp_path / "history.html").read_text()
    assert "missing column 'nothing'" in unnamed.stderr


def test_events_that_count_are_named():
    """Of one class the contract may say which events are cases."""
    with pytest.raises(ValueError, match="name that column as `event`"):
        OutcomeDefinition(within="3d", cases=["sepsis"])


def test_events_that_are_no_cases_are_counted_and_change_nothing():
    outcome = OutcomeDeclaration(
        within=72.0, time="when", event="what", cases=["sepsis"]
    )
    stated = CohortDeclaration(id="who", outcome=outcome)
    nights = ScoredNights(pd.DataFrame(), stated, None, 0, [])
    lines = pd.DataFrame(
        {
            "time": [FIRST, FIRST, pd.NaT, pd.NaT],
            "name": ["sepsis", "fall", "fall", ""],
            "is_known": [False, False, True, False],
        }
    )

    is_other = _is_other_event(lines, nights, nights.asked({}, None, None))

    assert is_other.tolist() == [False, True, True, False]


def test_outcomes_need_the_columns_of_id_and_time():
    nights = ScoredNights(pd.DataFrame(), CohortDeclaration(id="p"), None, 0, [])
    with pytest.raises(UsageError, match="id and the time of an event are unknown"):
        nights.asked({"within": 72.0}, None, None)


def test_several_classes_need_the_name_of_the_event():
    declaration = CohortDeclaration(id="p")
    nights = ScoredNights(pd.DataFrame(), declaration, None, 0, ["sepsis", "kidney"])
    with pytest.raises(UsageError, match="separates sepsis, kidney"):
        nights.asked({"time": "when", "within": 72.0}, None, None)


def test_outcomes_are_the_same_in_every_ledger(place, site, tmp_path):
    """Entered, corrected, taken back and erased: SQLite and PostgreSQL agree."""
    folder, _ = site
    model = shutil.copytree(folder / "model", tmp_path / "model")
    night = patients(60, share=0.2, seed=2)
    ill = night.loc[night.ill == "yes", "patient"].tolist()
    ledger = ("--ledger", place, "--series", "ward")
    for number in (1, 2, 3):
        fever = night.fever + 0.001 * number
        table = tmp_path / f"night{number}.csv"
        changed = night.assign(fever=fever).drop(columns="ill")
        changed.to_csv(table, index=False)
        screen(
            *("score", model, table, "--out", tmp_path / f"run{number}"),
            *("--date", f"2026-03-0{number}", *ledger, "--jobs", "1"),
        )
    words = ("--id", "patient", "--time", "when", "--within", "3d")
    path = tmp_path / "events.csv"

    def entered(text, as_of="2026-03-20"):
        path.write_text("patient,when\n" + text)
        return as_json("outcomes", path, *ledger, *words, "--as-of", as_of)

    early = entered(f"{ill[0]},2026-03-02 09:00\n", "2026-03-03")
    late = entered("".join(f"{name},2026-03-04 08:00\n" for name in ill))
    taken_back = entered(f"{ill[1]},\n")
    screen("ledger", "rebuild", place)
    (before,) = as_json("history", "--verify", *ledger)["series"]
    erased_by = ("--reason", "asked", "--runs", tmp_path)
    screen("forget", ill[1], "--ledger", place, *erased_by)
    (after,) = as_json("history", "--verify", *ledger)["series"]
    shown = before["outcomes"]
    status = after["outcomes"]

    # By pandas alone: windows of three days, three nights, one event a patient.
    days = {name: [pd.Timestamp("2026-03-04 08:00")] for name in ill}
    as_of = FIRST + 60 * DAY
    rows = rows_of(*((night - 1, name, False) for night in (1, 2, 3) for name in ill))
    n_cases = sum(
        brute_truth(row.night, days[row.patient], Window(72.0), as_of) == "case"
        for row in rows.itertuples()
    )
    assert early["new"] == 1
    assert early["figures"]["open"] == (180 - 1)
    assert late["new"] == (len(ill) - 1)
    assert late["corrected"] == 1
    assert late["figures"]["cases"] == n_cases
    assert taken_back["figures"]["cases"] == n_cases - n_cases // len(ill)
    assert shown == status == taken_back["figures"]
    flagged = scores_in(tmp_path / "run3")
    flagged = set(flagged["id"][flagged["flagged"]])
    assert taken_back["figures"]["lead"]["detected"] == len(
        flagged & set(ill) - {ill[1]}
    )


SITE = """
[site]
ledger = "site.db"

[series.ward]
model = "model"
cohort = "in/{date}.csv"
outcomes = "events.csv"
"""


def test_site_reads_outcomes_every_night(site, tmp_path, monkeypatch):
    """A table that cannot be read is a line of the overview, and ends nothing."""
    _, ill = site
    outcome = OutcomeDefinition(within="3d", time="when")
    contract = Contract(label="ill", id="patient", outcome=outcome)
    save_model(trained(contract), tmp_path / "model")
    (tmp_path / "in").mkdir()
    (tmp_path / "NIGHT.toml").write_text(SITE)
    monkeypatch.chdir(tmp_path)
    for day in ("2026-03-01", "2026-03-02"):
        night = patients(60, share=0.2, seed=2)
        fever = night.fever + 0.001 * int(day[-1])
        night = night.assign(fever=fever).drop(columns="ill")
        night.to_csv(tmp_path / "in" / f"{day}.csv", index=False)

    first = as_json("run", "NIGHT.toml", "--date", "2026-03-01")
    events = "patient,when\n" + "".join(f"{name},2026-03-03\n" for name in ill)
    (tmp_path / "events.csv").write_text(events)
    second = as_json("run", "NIGHT.toml", "--date", "2026-03-02")
    again = as_json("outcomes", "--site", "NIGHT.toml")

    (tmp_path / "NIGHT.toml").write_text(SITE.replace("events", "$NOT_SET/events"))
    unset = as_json("outcomes", "--site", "NIGHT.toml", code=5)

    assert "events.csv" in first["outcomes"][0]["refused"]
    assert "NOT_SET" in unset["tables"][0]["refused"]
    assert first["series"][0]["status"] == "published"
    assert second["outcomes"][0]["new"] == len(ill)
    (table,) = again["tables"]
    assert table["new"] == 0
    assert table["corrected"] == 0
    overview = (tmp_path / "runs" / "overview" / "2026-03-02.html").read_text()
    assert "Outcomes read" in overview
