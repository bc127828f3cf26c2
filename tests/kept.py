"""A folder that is made once for the tests of a file, and put back for each of them.

A ledger knows the place of its site, so that each test has the folder at one place.
"""

import shutil
from pathlib import Path


def keep(folder: Path) -> Path:
    """Copy a folder aside, as it is to be put back; return it."""
    shutil.copytree(folder, _aside(folder), symlinks=True)
    return folder


def put_back(folder: Path) -> Path:
    """Put a folder in its place as it was kept, whatever a test made of it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_aside(folder), folder, symlinks=True)
    return folder


def _aside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-aside")
