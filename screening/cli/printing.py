"""Text for a terminal: what would steer it, or turn the order of letters round, is shown by its number."""

from __future__ import annotations

import re

# C0 and C1 controls, marks of direction and of nothing, line and paragraph separators, tags, lone surrogates.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str, *, lines: bool = False) -> str:
    r"""Text in which every steering character is written as `\uXXXX`, which JSON reads back.

    Parameters
    ----------
    text : str
    lines : bool
        Leave line ends, as in a message of several lines.
    """
    return _STEERING.sub(lambda found: _number(found[0], lines), text)


def _number(character: str, lines: bool) -> str:
    if lines and character == "\n":
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON writes what lies beyond by two halves.
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
