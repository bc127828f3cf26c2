"""Write an sdist again, so that two builds of the same files have the same bytes.

    python .ci/repack.py dist/screening-0.1.0.tar.gz

Each member gets the time SOURCE_DATE_EPOCH, no owner and one of two modes; members are
sorted. setuptools keeps times of files and of the build. A wheel needs nothing: it is
built with this time already.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def repack(archive: Path, epoch: int) -> None:
    """Replace an archive by one whose bytes depend on names and contents only."""
    tar = io.BytesIO()
    with (
        tarfile.open(archive) as built,
        tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as sorted_tar,
    ):
        for member in sorted(built.getmembers(), key=lambda member: member.name):
            is_program = member.isdir() or member.mode & 0o100
            member.mode = 0o755 if is_program else 0o644
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            # Holds the time again, in fractions of a second.
            member.pax_headers = {}
            sorted_tar.addfile(member, built.extractfile(member))
    archive.write_bytes(gzip.compress(tar.getvalue(), mtime=epoch))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        repack(Path(name), int(os.environ["SOURCE_DATE_EPOCH"]))
