"""Commands that are told of a night: its overview on their stdin. Whatever they do, the night stands."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from screening.documents.overview import HookFacts


def tell_hooks(hooks: Sequence[Sequence[str]], overview: bytes, seconds: float) -> list[HookFacts]:
    """Run each command, one after the other, with the overview as JSON on stdin.

    `hooks`: words of the commands; no shell reads them.
    `overview`: counts and reasons, no patient.
    `seconds`: one that takes longer is stopped, with all that it started.
    """
    return [_told(words, overview, seconds) for words in hooks]


def _told(words: Sequence[str], overview: bytes, seconds: float) -> HookFacts:
    name = Path(words[0]).name
    # The ledger's URL may hold a password.
    surroundings = {key: value for key, value in os.environ.items() if key != "SCREEN_LEDGER"}
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=surroundings, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return HookFacts(command=name, fine=False, said=f"could not be started: {why}")
    try:
        process.communicate(overview, timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return HookFacts(command=name, fine=False, said=f"was stopped: it took more than {seconds:g} s")
    except BaseException:
        _end(process)
        raise
    code = process.returncode
    return HookFacts(command=name, fine=code == 0, said="was told" if code == 0 else f"ended with {code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()
