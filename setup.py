"""Metadata that only a release knows: where the project is published.

Relative links and pictures of the README work in the repository only. With
`PROJECT_URL=https://host/owner/screening make dist` they lead to this version there,
and the project's pages are listed; without it links become their text and pictures are
left out.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "version"
]
# A picture or a link to something that is neither an address nor a place on the page.
PICTURE = re.compile(r"!\[([^]]*)\]\((?![a-z]+:|#)([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?![a-z]+:|#)([^)]+)\)")


def published_readme(readme: str, url: str) -> str:
    """Return the README as it can be read outside the repository."""
    if not url:
        return LINK.sub(r"\1", PICTURE.sub("", readme))
    readme = PICTURE.sub(rf"![\1]({url}/raw/v{VERSION}/\2)", readme)
    return LINK.sub(rf"[\1]({url}/blob/v{VERSION}/\2)", readme)


def project_urls(url: str) -> dict[str, str]:
    """Return the pages that an index lists beside the package."""
    if not url:
        return {}
    return {
        "Source": url,
        "Documentation": f"{url}/blob/v{VERSION}/docs/index.md",
        "Changelog": f"{url}/blob/v{VERSION}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


if __name__ == "__main__":
    address = os.environ.get("PROJECT_URL", "").rstrip("/")
    setup(
        long_description=published_readme(
            (ROOT / "README.md").read_text("utf-8"), address
        ),
        long_description_content_type="text/markdown",
        project_urls=project_urls(address),
    )
