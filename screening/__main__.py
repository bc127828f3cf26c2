"""`python -m screening` is `screen`."""

from __future__ import annotations

import atexit
import os
from multiprocessing import parent_process

from screening.cli import main


def run() -> None:
    """Run the command, and end the process with its exit code.

    Once everything has cleaned up, the interpreter is not taken apart: a thread of
    Arrow that still gives back a file would ask for it, and abort the process with
    another exit code.
    """
    codes: list[int] = []
    if parent_process() is None:
        # Registered first, it is called last.
        atexit.register(_end, codes)
    try:
        main()
    except SystemExit as ended:
        code = ended.code
        codes.append(code if isinstance(code, int) else int(code is not None))
        raise


def _end(codes: list[int]) -> None:
    """End this process with the exit code of its command, if that has ended."""
    if codes:
        os._exit(codes[0])


if __name__ == "__main__":
    run()
