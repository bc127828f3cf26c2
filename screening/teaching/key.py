"""The site's secret: what names and dates become by means of it, and nobody undoes without it."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

from screening.errors import UsageError
from screening.files import read_secret

LEAST_BYTES = 32
LARGEST_KEY = 16 << 10
FEWEST_DAYS, MOST_DAYS = 200, 3000


@dataclass(frozen=True)
class SiteKey:
    """Names and dates under a secret of 32 random bytes or more: who has it can try names until one fits."""

    secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """By which a key is told from others, and nothing is undone."""
        return self._digest("fingerprint", "").hex()[:12]

    def pseudonym(self, name: str) -> str:
        """The first 12 hexadecimal digits of HMAC-SHA256 of a name: same name, same pseudonym."""
        return self._digest("name", name).hex()[:12]

    def shifted(self, day: str | None) -> str | None:
        """A date (or the date of a time) earlier by as many days as every other date; None for none."""
        try:
            date = datetime.date.fromisoformat((day or "")[:10])
        except ValueError:
            return None
        number = int.from_bytes(self._digest("days", "")[:8])
        return str(
            date - datetime.timedelta(FEWEST_DAYS + number % (MOST_DAYS - FEWEST_DAYS))
        )

    def _digest(self, purpose: str, text: str) -> bytes:
        # A purpose never holds a line feed, so no name can be taken for another purpose's.
        content = f"{purpose}\n{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.secret, content, hashlib.sha256).digest()


def site_key(path: Path) -> SiteKey:
    """The secret in a file that only its owner may read: random bytes or hexadecimal digits (UsageError)."""
    content = read_secret(path, LARGEST_KEY)
    try:
        secret = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        secret = content
    # Of 32 random bytes hardly ever fewer than 20 differ: a word or a row of zeros is none.
    if len(secret) < LEAST_BYTES or len(set(secret)) < LEAST_BYTES // 2:
        raise UsageError(
            f"the key {path} can be guessed: {LEAST_BYTES} random bytes are needed; make one: "
            "openssl rand -hex 32 > site.key"
        )
    return SiteKey(secret)
