"""Copies of a run for teaching: ids and groups replaced by pseudonyms that only a site's key can make."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from screening.errors import UsageError

LEAST_KEY = 16
DIGITS = 12


def site_key(path: Path) -> bytes:
    """Read the secret that makes the pseudonyms.

    Parameters
    ----------
    path : Path
        File of at least 16 bytes, white space at its ends apart, that only its owner may read.

    Raises
    ------
    UsageError
        It cannot be read, is too short, or is open to others.
    """
    try:
        key = path.read_bytes().strip()
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror}") from None
    if len(key) < LEAST_KEY:
        raise UsageError(
            f"the key {path} has {len(key)} bytes and can be guessed; make one: "
            "openssl rand -hex 32 > site.key"
        )
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"others can read the key {path}; make it private: chmod 600 {path}")
    return key


def pseudonym(key: bytes, name: str) -> str:
    """Return the first 12 hexadecimal digits of HMAC-SHA256 of a name: the same name, the same pseudonym."""
    return hmac.new(key, name.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:DIGITS]


def pseudonymised(run: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """Return a run's document in which no row and no group goes by its own name.

    Row numbers go too, since with the table at hand they name a row as well; and the page of the copy has no
    form, because verdicts on pseudonyms could not be read back.

    Parameters
    ----------
    run : mapping
        The parsed ``run.json``.
    key : bytes
        The site's secret: whoever has it can try names until a pseudonym fits.
    """

    def renamed(name: Any) -> Any:
        return None if name is None else pseudonym(key, str(name))

    def row(case: Mapping[str, Any]) -> dict[str, Any]:
        names = {"id": renamed(case.get("id")), "group": renamed(case.get("group"))}
        return {**case, **names, "row": None, "display": None}

    def volume(one: Mapping[str, Any]) -> dict[str, Any]:
        return {**one, "group": renamed(one.get("group"))}

    def group(one: Mapping[str, Any]) -> dict[str, Any]:
        return {**volume(one), "display": None}

    def each(change: Callable[[Mapping[str, Any]], dict[str, Any]], found: Any) -> Any:
        return [change(one) for one in found] if isinstance(found, (list, tuple)) else found

    voxels = run.get("voxels")
    return {
        **run,
        "pseudonymised": True,
        "cases": each(row, run.get("cases")),
        "near_misses": each(row, run.get("near_misses")),
        "groups": each(group, run.get("groups")),
        "sample": [],
        "since": None,
        "voxels": {**voxels, "patients": each(volume, voxels.get("patients"))}
        if isinstance(voxels, Mapping)
        else voxels,
    }
