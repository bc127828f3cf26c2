"""Shipped templates, compiled once and kept on disk: compiling them takes longer than drawing a page."""

from __future__ import annotations

import marshal
import sys
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from screening.keeping import find, keep

NAME = "template"


class Precompiled(BytecodeCache):
    """Keeps the code of templates without the pickles that Jinja's own caches have.

    Parameters
    ----------
    settings : Path
        The file that makes the environment: with another one templates compile to other code.
    """

    def __init__(self, settings: Path) -> None:
        self.settings = settings.read_bytes()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give the bucket the code of its template, where it is kept."""
        found = find(NAME, self._made_from(bucket))
        if found is not None:
            bucket.code = marshal.loads(found)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template; where there is no place for it the next process compiles it again."""
        keep(NAME, self._made_from(bucket), marshal.dumps(bucket.code))

    def _made_from(self, bucket: Bucket) -> bytes:
        words = (jinja2.__version__, sys.version, bucket.key, bucket.checksum)
        return self.settings + "\0".join(words).encode()
