"""The pictures in README are those that the script makes, small, and told in words too."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_readme_shows_every_picture_that_the_script_makes_and_says_what_is_on_it() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "images.py"))
    shown = re.findall(r"!\[(.*?)\]\(docs/images/(.*?)\)", (ROOT / "README.md").read_text(encoding="utf-8"))

    assert sorted(name for _, name in shown) == sorted(made["SHOTS"])
    assert {path.name for path in made["FOLDER"].iterdir()} == set(made["SHOTS"])
    assert all(len(words) > 30 for words, _ in shown)


def test_pictures_are_small_and_are_pictures() -> None:
    pictures = [path.read_bytes() for path in (ROOT / "docs" / "images").iterdir()]

    assert all(one.startswith(b"\x89PNG\r\n") for one in pictures)
    assert max(map(len, pictures)) < 150_000
