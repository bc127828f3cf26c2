"""Where a ledger may lie: a file, or a PostgreSQL server of our own that ends with the
tests.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
ABSENT = "needs PostgreSQL's server programs (Debian: apt-get install postgresql)"


def _somebody() -> dict[str, int]:
    """PostgreSQL refuses to run as root: then as its own user."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid}


def server() -> Iterator[str]:
    """Start a server that listens on a socket only; yield the directory of the
    socket.
    """
    binaries = BINARIES[-1].parent
    somebody = _somebody()
    # Short, because the path of a socket may have 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if somebody:
        os.chown(folder, somebody["user"], somebody["group"])

    def run(program: str, *words: str) -> None:
        # Not through pipes: the server would keep them open, and waiting for their end
        # would never end.
        with (folder / "said").open("a") as said:
            subprocess.run(
                [binaries / program, *words],
                cwd=folder,
                stdout=said,
                stderr=said,
                check=True,
                **somebody,
            )

    try:
        run(
            "initdb",
            "-D",
            "tables",
            "-U",
            "screen",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        )
        options = (
            f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        )
        run(
            "pg_ctl",
            "-D",
            "tables",
            "-w",
            "-t",
            "60",
            "-l",
            "log",
            "-o",
            options,
            "start",
        )
        try:
            yield str(folder)
        finally:
            run("pg_ctl", "-D", "tables", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def database(socket: str, name: str) -> str:
    """Make an empty database and return its URL, which has no options."""
    import psycopg

    with psycopg.connect(
        host=socket, user="screen", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://screen@/{name}?host={socket}"


def schema(socket: str, name: str) -> str:
    """Make an empty schema and return the URL of a connection that sees no other."""
    import psycopg

    with psycopg.connect(
        host=socket, user="screen", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"postgresql+psycopg://screen@/postgres?host={socket}&options=-csearch_path%3D{name}"
