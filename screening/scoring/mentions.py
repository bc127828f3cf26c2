"""Find an id in a file, in every form in which writers may have put it there."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from urllib.parse import unquote

from screening.identity.writing import word_pattern

# Styles of a page name no patient, but may contain an id such as 100%.
_STYLES = re.compile(r"<style\b.*?</style>", re.DOTALL | re.IGNORECASE)
# Characters as JSON and JavaScript write them; two escapes may be one character.
_JSON_ESCAPES = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')


def mentions(content: bytes, name: str) -> bool:
    """Return True if a text file contains an id, outside the styles of a page.

    It is searched as plain text and as HTML, XML, JSON, CSV, SQL and URLs spell it, in
    either Unicode form, and not within a longer id.

    Parameters
    ----------
    content : bytes
        The file, in UTF-8; other bytes are kept as Python keeps undecodable names.
    name : str
        The id; nothing mentions an empty one.
    """
    if not name:
        return False
    text = _STYLES.sub("", content.decode("utf-8", "surrogateescape"))
    pattern = word_pattern(name)
    return any(pattern.search(spelling) for spelling in _spellings(text))


def _spellings(text: str) -> Iterator[str]:
    """Yield a text with the escapes of each kind of writer undone."""
    yield text
    unescaped = html.unescape(text)
    yield unescaped
    # Pages contain JSON within attributes and scripts.
    yield _without_json_escapes(unescaped)
    yield unquote(text, errors="surrogateescape")
    yield text.replace('""', '"').replace("''", "'")


def _without_json_escapes(text: str) -> str:
    """Return a text with the escapes of JSON undone."""
    return _JSON_ESCAPES.sub(lambda run: str(json.loads(f'"{run[0]}"')), text)
