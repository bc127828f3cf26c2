"""The letterbox: pages to their readers, words into the inbox, nothing else."""

import json

import pytest
from letterbox import (
    IDS,
    NIGHT,
    RUN_ID,
    lay_site,
    served,
    words_of,
)


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """A letterbox behind a login, over a Unix socket; words of one test stay."""
    folder = tmp_path_factory.mktemp("s")
    with served(lay_site(folder)) as answering:
        yield answering


@pytest.fixture
def empty(box):
    """The same letterbox without a word."""
    for file in box.inbox.glob("*.json"):
        file.unlink()
    box.audit.clear()
    return box


def test_page_of_ward(empty):
    """A reader gets the page of a ward, and never another ward's."""
    own = empty.ask(f"/ward-a/{NIGHT}.html")
    other = empty.ask(f"/ward-b/{NIGHT}.html")
    unknown = empty.ask(f"/ward-c/{NIGHT}.html")

    assert own.status == 200
    assert other.status == unknown.status == 404
    assert other.body == unknown.body


def test_word_saved(empty):
    answer = empty.save(words_of(IDS[:2], note="seen at 7"))
    assert answer.status == 200, answer.body
    (file,) = empty.inbox.glob("*.json")
    content = json.loads(file.read_text())
    assert content["run_id"] == RUN_ID
    assert content["initials"] == "anna.weber"
    assert [one["id"] for one in content["verdicts"]] == IDS[:2]
    assert empty.words("b.klein")[0]["by"] == "anna.weber"
