"""A directory is published whole or not at all, and never in the place of somebody
else's files.
"""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from written_files import names_in

from screening.errors import Locked, UsageError
from screening.store.pages import LATEST, PageFolder, Readers, parse_readers
from screening.store.publishing import hold, publish, write_whole


def names(folder: Path) -> set[str]:
    return names_in(folder)


@pytest.mark.parametrize("before", [True, False])
def test_a_run_stopped_on_the_way_to_its_lock_leaves_none(
    tmp_path, monkeypatch, before
):
    take = FileLock.acquire
    stopped = []

    def stop_once(lock):
        if before and not stopped:
            # As a signal between making the file and locking it leaves it.
            Path(lock.lock_file).touch()
        else:
            take(lock)
        if not stopped:
            stopped.append(lock)
            raise KeyboardInterrupt

    monkeypatch.setattr(FileLock, "acquire", stop_once)
    with pytest.raises(KeyboardInterrupt), publish(tmp_path / "out", "model"):
        pass

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [["thesis.docx"], ["model.json"], ["run.json", "notes.txt"]]
)
def test_a_directory_that_holds_somebody_elses_files_is_never_replaced(
    tmp_path, content
):
    for name in content:
        (tmp_path / name).touch()
    with pytest.raises(UsageError), publish(tmp_path, "run"):
        pytest.fail("the block must not start")
    assert names(tmp_path) == set(content)


def test_place_that_cannot_be_written_is_named_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="file"), publish(place, "run"):
            pytest.fail("the block must not start")
    with pytest.raises(UsageError, match="file"):
        PageFolder(tmp_path / "file" / "pages", Readers()).prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_closed_folder_is_named_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot"), publish(tmp_path / "run", "run"):
        pytest.fail("the block must not start")


def test_a_second_writer_is_turned_away_while_the_first_works(tmp_path):
    code = (
        "import sys; from screening.store.publishing import hold; from screening.errors import Locked\n"
        "try:\n    hold(sys.argv[1]).__enter__()\nexcept Locked:\n    sys.exit(75)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with hold(tmp_path / "run"):
        during = subprocess.run(command).returncode
        with pytest.raises(Locked), hold(tmp_path / "run"):
            pytest.fail("the block must not start")
    after = subprocess.run(command).returncode

    assert during == 75
    assert after == 0


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "group",
    [
        None,
        pytest.param(
            12345,
            marks=pytest.mark.skipif(
                os.getuid() != 0, reason="only root gives to a group"
            ),
        ),
    ],
)
def test_pages_and_their_directories_are_open_to_the_readers_alone(tmp_path, group):
    mode_of_files = parse_readers("0640", None).mode
    pages = PageFolder(tmp_path / "pages" / "ward-7", Readers(mode_of_files, group))
    pages.prepare()
    pages.show(b"night", "2026-03-01")
    files = {path.name: mode(path) for path in pages.directory.iterdir()}
    everything = (pages.directory, *pages.directory.iterdir())
    owners = {path.stat().st_gid for path in everything}
    assert mode(pages.directory) == 0o750
    assert mode(pages.directory.parent) == 0o750
    assert files == {"2026-03-01.html": 0o640, LATEST: 0o640}
    assert owners == {os.getgid() if group is None else group}


@given(st.lists(st.dates().map(str), min_size=1, max_size=5, unique=True))
def test_latest_page_any_order(tmp_path_factory, nights):
    """The latest page is that of the latest night in whatever order they came."""
    pages = PageFolder(tmp_path_factory.mktemp("pages"), Readers())
    for night in nights:
        pages.show(night.encode(), night)
    assert (pages.directory / LATEST).read_text() == max(nights)
    for night in nights:
        assert pages.path_of(night).read_text() == night


def test_publish_over_link(tmp_path):
    """A link in the place of a page is replaced and nothing is followed."""
    pages = PageFolder(tmp_path / "pages", Readers(0o644))
    database = tmp_path / "screening.db"
    pages.prepare()
    database.write_bytes(b"nights")
    database.chmod(0o600)
    for name in (LATEST, "2026-03-01.html", f".{LATEST}.partial"):
        (pages.directory / name).symlink_to(database)
    pages.show(b"night", "2026-03-01")
    links = {path.name: path.is_symlink() for path in pages.directory.iterdir()}

    assert database.read_bytes() == b"nights"
    assert mode(database) == 0o600
    assert links == {LATEST: False, "2026-03-01.html": False}
    (tmp_path / "elsewhere").symlink_to(pages.directory)
    (tmp_path / "link").symlink_to(database)
    with pytest.raises(UsageError, match="a link"):
        write_whole(tmp_path / "link", b"page")
    with pytest.raises(UsageError, match="a link"):
        PageFolder(tmp_path / "elsewhere", Readers()).prepare()


def test_pages_swept_and_mended(tmp_path):
    """What killed runs left among pages is swept and a page of other bytes is
    mended.
    """
    pages = PageFolder(tmp_path / "pages", Readers())
    pages.prepare()
    for name in (
        ".2026-03-01.html.partial",
        ".2026-03-02.html.screening-lock",
        ".theirs.partial",
    ):
        (pages.directory / name).write_bytes(b"half")
    pages.path_of("2026-03-03").write_bytes(b"altered")
    pages.show(b"night", "2026-03-03")
    assert names(pages.directory) == {".theirs.partial", "2026-03-03.html", LATEST}
    (pages.directory / f".{LATEST}.screening-lock").touch()
    pages.show(b"night", "2026-03-03")
    assert names(pages.directory) == {".theirs.partial", "2026-03-03.html", LATEST}
    assert pages.path_of("2026-03-03").read_bytes() == b"night"


@pytest.mark.parametrize("text", ["640x", "0660", "0666", "0755", "0440", "4640", "-w"])
def test_a_mode_that_lets_others_write_or_is_none_is_refused(text):
    with pytest.raises(UsageError, match="mode"):
        parse_readers(text, None)
    with pytest.raises(UsageError, match="group 'nobody-has-this' does not exist"):
        parse_readers(None, "nobody-has-this")


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_output_where_no_file_can_be_made():
    """A place that cannot be written is named as that, and not as being written."""
    with (
        pytest.raises(UsageError, match="cannot use /proc/"),
        hold("/proc/run", patience=0.1),
    ):
        pass
