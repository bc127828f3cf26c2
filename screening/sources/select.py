"""Which queries are asked of a database: a single SELECT, told by its words before anything is sent."""

from __future__ import annotations

import re

from screening.errors import UsageError

# What holds no statement: comments, texts, quoted names. Where databases quote in different ways, less is
# left out, and a query that is harmless in one of them may be refused.
_QUOTED = re.compile(
    r"""--[^\n]* | /\*(?!!).*?\*/ | \b[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*`
    | \$(\w*)\$.*?\$\1\$""",
    re.DOTALL | re.VERBOSE,
)
_WRITES = re.compile(r"\b(insert|update|delete|merge|into)\b", re.IGNORECASE)
_READS = re.compile(r"[\s(]*(select|with)\b", re.IGNORECASE)


def single_select(query: str, name: str) -> str:
    """The query without the semicolon at its end.

    The database is asked read-only as well: this rule is there to say so in time, and in words.

    Parameters
    ----------
    query : str
    name : str
        What errors call it.

    Raises
    ------
    UsageError
        It is not one statement, or does not only read.
    """
    bare = _QUOTED.sub(_blank, query).rstrip()
    if ";" in bare.removesuffix(";"):
        raise UsageError(f"{name}: more than one statement; a query is a single SELECT")
    if not _READS.match(bare):
        raise UsageError(f"{name}: a query begins with SELECT or WITH")
    writes = _WRITES.search(bare)
    if writes:
        raise UsageError(
            f"{name}: {writes[0].upper()} is no part of a query that only reads; "
            "put a column of this name in double quotes"
        )
    return query[: bare.index(";")] if ";" in bare else query


def _blank(quoted: re.Match[str]) -> str:
    """As long as what it stands for, so that places stay what they are."""
    return (" " if quoted[0].startswith(("--", "/*")) else "'") * len(quoted[0])
