"""Name the fields that only the owner of a project can fill and that are still empty.

    python .ci/unfilled.py

PROJECT_URL is read from the environment. Exits with 1 if a field is empty.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
# Stands in each field that is to be filled.
MARK = "FILL-IN"


def is_empty(value: object) -> bool:
    """Return True for a field without a value of the owner's."""
    return not isinstance(value, str) or not value.strip() or MARK in value


def authors_are_empty(citation: str) -> bool:
    """Return True if a citation has no author, or one without a name."""
    authors = yaml.safe_load(citation).get("authors") or [{}]
    for author in authors:
        names = [author.get("family-names"), author.get("given-names")]
        if is_empty(author.get("name")) and any(map(is_empty, names)):
            return True
    return False


def owners_are_empty(code_owners: str) -> bool:
    """Return True if no account is asked about every file."""
    owners = re.search(r"^\*\s+(@.+)$", code_owners, flags=re.MULTILINE)
    return owners is None or is_empty(owners[1])


def unfilled(root: Path, url: str) -> list[str]:
    """Return a line for each empty field, with the place where it is filled."""
    lines = []
    if not re.fullmatch(r"https://[^/\s]+/\S+", url):
        lines.append(
            "PROJECT_URL: the metadata have no address until you give one. "
            "Type: make publish PROJECT_URL=https://HOST/OWNER/screening"
        )
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if authors_are_empty(citation):
        lines.append(
            "CITATION.cff: an author has no name. Fill in family-names and given-names."
        )
    folder = root / ".github"
    code_owners = (folder / "CODEOWNERS").read_text(encoding="utf-8")
    if owners_are_empty(code_owners):
        lines.append(
            ".github/CODEOWNERS: no owner. Replace FILL-IN by an account or a team."
        )
    conduct = (folder / "CODE_OF_CONDUCT.md").read_text(encoding="utf-8")
    if MARK in conduct:
        lines.append(
            ".github/CODE_OF_CONDUCT.md: no contact. Under Enforcement, replace "
            "[FILL-IN: ...] by an address that is read."
        )
    return lines


def main() -> int:
    """Print what is empty; return the exit status."""
    lines = unfilled(ROOT, os.environ.get("PROJECT_URL", ""))
    if lines:
        print("Not ready to be published. These fields are empty:", file=sys.stderr)
    for line in lines:
        print(f"  {line}", file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
