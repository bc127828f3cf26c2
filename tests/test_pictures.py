"""The pictures in README and the gallery are those that the script makes, small, and told in words too."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shown(page: str) -> dict[str, str]:
    """The pictures of a document, with what it says of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {name: words for words, name in re.findall(r"!\[(.*?)\]\([a-z/]*images/(.*?)\)", text)}


def test_the_gallery_shows_every_picture_that_the_script_makes_and_says_what_is_on_it() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "images.py"))

    assert sorted(shown("docs/gallery.md")) == sorted(made["SHOTS"])
    assert {path.name for path in made["FOLDER"].iterdir()} == set(made["SHOTS"])
    assert set(shown("README.md")) < set(made["SHOTS"])
    assert all(len(words) > 30 for page in ("README.md", "docs/gallery.md") for words in shown(page).values())


def test_pictures_are_small_and_are_pictures() -> None:
    pictures = [path.read_bytes() for path in (ROOT / "docs" / "images").iterdir()]

    assert all(one.startswith(b"\x89PNG\r\n") for one in pictures)
    assert max(map(len, pictures)) < 150_000
