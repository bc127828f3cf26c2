"""What the page of a night says first: the work, three sentences, few words."""

import re

import pytest
from ledger_nights import enter, of_ward, simulate, verdicts_of
from report_fixture import changed, estimate, nosocomial_run

from screening import history, open_ledger
from screening.ledger.review_counts import ReviewCounts, review_counts
from screening.ledger.verdicts import record_verdicts
from screening.report import render_run
from screening.report.history import render_history
from screening.report.page import render_overview
from screening.report.tonight import sentences_of_night, tasks_of
from screening.schemas.base import Reason
from screening.schemas.history import OverviewDocument, SeriesNight
from screening.schemas.run import RunDocument

# Words in sight outside of the patients' lines, with every fold closed.
WORDS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let words = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hides = element.closest('.c, option, script, .unseen, .skip');
    if (hides || !element.checkVisibility()) continue;
    words += (walker.currentNode.data.match(/[A-Za-z]{2,}/g) || []).length;
  }
  return words;
}"""
MAX_WORDS = 200
MAX_WORDS_OF_HISTORY = 500


def with_chances(n_flagged, n_missed, ppv, **changes):
    """Return the document of a night whose chances expect so many cases."""
    expected = {
        "rows": 240,
        "cases": estimate(n_flagged + n_missed, 1, 90),
        "flagged": estimate(n_flagged, 1, 80),
        "missed": estimate(n_missed, 0, 20),
        "ppv": estimate(ppv, 0.1, 0.9),
    }
    return RunDocument.from_dict(
        changed(nosocomial_run(), expected=expected, **changes)
    )


def audited(*ids):
    return [{"id": name, "display": None} for name in ids]


def odd_value(name, **more):
    cell = {"row": 1, "column": "age", "value": 400.0, "low": 0.0, "high": 120.0}
    return cell | {"id": name, "group": None, "flagged": False} | more


@pytest.mark.parametrize(
    ("expected", "sentences"),
    [
        (
            (24.3, 3.2, 0.3),
            [
                "About 24 of these 81 have the condition.",
                "About 3 patients who have it are not on this list.",
            ],
        ),
        (
            (0.81, 0.2, 0.01),
            [
                "About 1 of these 81 has the condition.",
                "Fewer than 1 patient who has it is not on this list.",
            ],
        ),
        (
            (0.405, 1.2, 0.005),
            [
                "Fewer than 1 of these 81 has the condition.",
                "About 1 patient who has it is not on this list.",
            ],
        ),
        (
            (24.0, 3.2, 0.3),
            [
                "About 24 of the 80 with a chance have the condition.",
                "About 3 patients who have it are not on this list.",
            ],
        ),
        (
            (0.0, 3.2, None),
            ["About 3 patients who have the condition are not on this list."],
        ),
    ],
)
def test_sentences_of_chances(expected, sentences):
    """With chances the sentences count tonight's patients, and never promise none."""
    assert sentences_of_night(with_chances(*expected)) == sentences


@pytest.mark.parametrize(
    ("delivery", "sentence"),
    [
        ({}, "The table arrived as usual, written 2026-03-02, 05:12."),
        (
            {"found": ["rows_too_few"]},
            "The table did not arrive as usual, written 2026-03-02, 05:12.",
        ),
        (
            {"found": ["rows_too_few"], "accepted": "half of the ward is closed"},
            "The table was accepted by hand, written 2026-03-02, 05:12: half of the "
            "ward is closed.",
        ),
        ({"before": None}, "The table was written 2026-03-02, 05:12."),
    ],
)
def test_sentence_on_the_table(delivery, sentence):
    """The last sentence says if the table arrived as usual, and when it was written."""
    came = {"rows": 243, "units": 243, "before": 200, "still": 190}
    run = changed(nosocomial_run(), delivery=came | delivery)
    run["times"] |= {"table_written": "2026-03-02, 05:12"}

    assert sentences_of_night(RunDocument.from_dict(run))[-1] == sentence


def test_work_of_a_night_is_counted_once():
    """The number counts the list, the audit and values to check, each patient once."""
    run = nosocomial_run()
    flagged = run["cases"][0]["id"]
    run["sample"] = audited("audited", "both")
    values = [odd_value(name) for name in ("odd", "both", "odd")]
    values.append(odd_value(flagged, flagged=True))
    run["check_values"] = {
        "rows": 4,
        "by_column": {"age": 4},
        "values": values,
        "patients": 0,
        "channels": [],
    }
    tasks = tasks_of(RunDocument.from_dict(run))

    assert tasks.total == 84
    assert tasks.parts == [
        "81 on the list",
        "2 from the random audit",
        "1 with a value to check",
    ]


def test_page_without_flags_counts_what_is_to_be_checked(opened):
    """Where nobody waits for a review, those of the audit are the work."""
    run = changed(
        nosocomial_run(), counts__new=0, counts__ruled_out=0, counts__known=81
    )
    run["sample"] = audited("a", "b", "c", "d", "e")
    view, _ = opened(render_run(run))

    assert view.locator(".big").inner_text().startswith("5")
    assert view.locator(".plain a").inner_text() == "Please also check these 5"


def test_not_recorded_is_no_first_reason(opened):
    """What is recorded comes first; what is not recorded stands apart."""
    run = nosocomial_run()
    first, *others = run["cases"][0]["contributions"]
    absent = first | {"value": "missing", "direction": "raises", "change": 9.0}
    recorded = others[0] | {"value": "40.1", "direction": "raises", "change": 0.1}
    run["cases"][0]["contributions"] = [absent, recorded]
    view, _ = opened(render_run(run))
    reasons = view.locator("#list .c .y").first.locator("> span")

    assert reasons.count() == 2
    assert "40.1" in reasons.first.inner_text()
    assert reasons.last.inner_text().startswith("not recorded: ")
    view.locator("#list .c summary").first.click()
    assert (
        "Not recorded; that alone raises" in view.locator("#list .m").first.inner_text()
    )


def test_button_and_initials_before_the_first_tick(opened):
    """Who reviewed, and the button, are in sight before a verdict is given."""
    view, _ = opened(render_run(nosocomial_run()), 390, 844)

    assert view.locator("#review-initials").is_visible()
    box = view.locator("#review-save button").bounding_box()
    assert box["y"] + box["height"] <= 844


def test_paper_keeps_what_the_screen_folds(opened):
    """In print the known, the no longer flagged and the intervals are there."""
    verdict = {"night": "2025-03-09", "verdict": "confirmed"}
    run = changed(
        nosocomial_run(),
        cases__0__state="known",
        cases__0__last_verdict=verdict,
        since={"night": "2025-03-10", "gone": ["gone-1"], "left": []},
    )
    view, _ = opened(render_run(run))
    known = view.locator("#list .c", has_text=run["cases"][0]["id"])
    assert not known.is_visible()
    view.emulate_media(media="print")

    assert known.is_visible()
    assert "gone-1" in view.locator(".paper").first.inner_text()
    assert "95% CI" in view.locator(".paper").last.inner_text()
    assert view.locator(".behind").is_hidden()


def test_words_of_a_night(opened):
    """The page of a night has at most 200 words in sight, its patients' lines apart."""
    view, _ = opened(render_run(nosocomial_run()), 1440, 900)
    assert 50 < view.evaluate(WORDS) <= MAX_WORDS


def test_words_of_history(opened, tmp_path):
    """A month of a series has at most 500 words in sight; the trail's hash is last."""
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        simulate(ledger)
        told = history(ledger)
    view, _ = opened(render_history(told), 1440, 900)
    text = view.locator("main").inner_text()

    assert 50 < view.evaluate(WORDS) <= MAX_WORDS_OF_HISTORY
    assert text.index("Flagged per night") < text.index("PPV of all flagged")
    assert "had no verdict when their night was scored" in text
    assert "PPV of those judged" not in text
    assert text.index("Control charts") < text.index(told["audit"]["head"])
    view.emulate_media(media="print")
    assert "PPV of those judged" in view.locator("main").inner_text()


def test_review_counts_of_a_month(tmp_path):
    """Late are those without a verdict since the night before; found, the cases."""
    with open_ledger(tmp_path / "screening.db", make=True) as ledger:
        for day, flagged in ((1, "z"), (40, "abc"), (41, "abcd")):
            one = of_ward("ward", day, flagged)
            enter(ledger, one)
        words = verdicts_of({"a": "confirmed", "b": "ruled out"})
        record_verdicts(ledger, "ward m 40", words)
        enter(ledger, of_ward("ward", 42, "e"))
        old = verdicts_of({"z": "confirmed"})
        record_verdicts(ledger, "ward m 1", old)
        counts = review_counts(ledger, "2026-02-11")

    # On the 41st night c and d waited; z was found more than 30 days before.
    assert counts == {"ward": ReviewCounts(late=2, found=1)}


def test_overview_in_words():
    """The overview says done, how many, late, found and look; no hash and no p."""
    drift = Reason("scores_differ", "Scores differ.")
    line = SeriesNight(
        series="ward",
        night="2026-03-01",
        status="published",
        shadow=False,
        model="0123456789abcdef",
        run_id="r",
        scored=60,
        refused=0,
        flagged=9,
        to_review=7,
        capacity=10,
        drift_p=0.0123,
        verdicts_late=3,
        found_recently=5,
        acknowledged=[drift],
    )
    page = render_overview(
        OverviewDocument(
            title="Site",
            night="2026-03-01",
            exit_code=0,
            series=[line],
            shadows=[],
            caught_up=[],
        )
    )
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page, re.DOTALL)
    texts = [" ".join(re.sub(r"<[^>]+>", "", cell).split()) for cell in cells]

    assert texts[1].startswith("done")
    assert texts[2:6] == ["7 of 10 possible", "3", "5", "look"]
    assert "0123456789abcdef" not in page
    assert "0.012" not in page
    assert "Missed nights caught up" not in page
