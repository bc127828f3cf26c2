"""`python -m screening` is `screen`."""

from __future__ import annotations

import atexit
import os
from multiprocessing import parent_process

from screening.cli import main


def run() -> None:
    """Run the command, and end the process with its exit code.

    The interpreter is not taken apart: a thread of Arrow that still gives back a file
    would ask for it, and abort the process with another exit code.
    """
    try:
        main()
    except SystemExit as ended:
        if parent_process() is not None:
            # It ends its children in the same way, once their callers have cleaned up.
            raise
        code = ended.code
    atexit._run_exitfuncs()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    run()
