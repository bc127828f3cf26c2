"""A copy of a page for its readers: whole, theirs to read, and `latest.html` never goes back in time."""

from __future__ import annotations

import itertools
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.storage.showing import LATEST, PageFolder, Readers, readers


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_pages_and_their_directories_are_open_to_the_readers_alone(tmp_path):
    pages = PageFolder(tmp_path / "pages" / "ward-7", readers("0640", None))
    pages.prepare()
    pages.show(b"night", "2026-03-01")

    assert (mode(pages.directory), mode(pages.directory.parent)) == (0o750, 0o750)
    assert {path.name: mode(path) for path in pages.directory.iterdir()} == {
        "2026-03-01.html": 0o640,
        LATEST: 0o640,
    }


@given(st.lists(st.dates().map(str), min_size=1, max_size=5, unique=True))
def test_the_latest_page_is_that_of_the_latest_night_in_whatever_order_they_came(tmp_path_factory, nights):
    pages = PageFolder(tmp_path_factory.mktemp("pages"), Readers())
    for night in nights:
        pages.show(night.encode(), night)

    assert (pages.directory / LATEST).read_text() == max(nights)
    assert all(pages.of(night).read_text() == night for night in nights)


@pytest.mark.parametrize("text", ["640x", "0660", "0666", "0755", "0440", "4640", "-w"])
def test_a_mode_that_lets_others_write_or_is_none_is_refused(text):
    with pytest.raises(UsageError, match="mode"):
        readers(text, None)


def test_a_group_that_is_not_there_is_refused_by_name():
    with pytest.raises(UsageError, match="no group 'nobody-has-this'"):
        readers(None, "nobody-has-this")


def test_a_place_that_cannot_be_written_is_said_before_the_night(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        PageFolder(tmp_path / "file" / "pages", Readers()).prepare()


@pytest.mark.skipif(
    os.name != "posix" or os.getuid() != 0, reason="needs root, to give a page to another group"
)
def test_the_copies_get_the_group(tmp_path):
    pages = PageFolder(tmp_path / "pages", Readers(0o640, 12345))
    pages.prepare()
    pages.show(b"night", "2026-03-01")

    assert {path.stat().st_gid for path in itertools.chain([pages.directory], pages.directory.iterdir())} == {
        12345
    }
