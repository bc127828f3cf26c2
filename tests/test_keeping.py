"""What is kept between processes: machine code and templates, found again whole or made anew."""

from __future__ import annotations

import numpy as np
import pytest

from screening import keeping
from screening.keeping import find, keep
from screening.kernels.machine_code import Loop

TYPES = "float32 float32 float32 int64 float32 float32 float64 float64 int64"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_is_kept_is_found_again_by_what_it_was_made_from(place):
    assert find("a", b"source") is None
    assert keep("a", b"source", b"content")

    assert find("a", b"source") == b"content"
    assert find("a", b"other source") is find("b", b"source") is None


@pytest.mark.parametrize("damage", [lambda text: text[:-1], lambda text: b"\0" + text[1:], lambda text: b""])
def test_a_damaged_file_is_as_good_as_none(place, damage):
    keep("a", b"source", b"content")
    (file,) = place.iterdir()
    file.write_bytes(damage(file.read_bytes()))

    assert find("a", b"source") is None


def test_without_any_place_nothing_is_kept_and_nothing_breaks(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))

    assert not keep("a", b"source", b"content")
    assert find("a", b"source") is None


def test_beside_the_package_comes_before_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))

    beside, own = keeping._places()

    assert beside.parent == keeping.Path(keeping.__file__).parent
    assert own == tmp_path / "screening"


def test_a_loop_refuses_arrays_of_other_types_or_orders():
    loop = Loop("screening.kernels.loops", "sweep_block", TYPES)
    right = [np.zeros((2, 2), name) for name in loop.types.split()]

    with pytest.raises(TypeError, match="sweep_block takes"):
        loop(*right[:-1], np.zeros((2, 2)))
    with pytest.raises(TypeError, match="in C order"):
        loop(np.zeros((2, 3), np.float32).T, *right[1:])
