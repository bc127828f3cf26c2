"""A `screen` that begins at once, for shells into which documents are pasted.

Half of what a command costs is its imports. A server imports them once; each command is
a process forked from it, with the words, the folder, the environment, the input and the
outputs of the program that was typed. `screen` itself begins in the tests of README.md.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

# What commands import when they are called; no thread may run in the server.
IMPORTED = (
    "screening.cli",
    "screening.site.night_server",
    "screening.model_selection.compare",
    "screening.model_selection.train",
)
# What is typed: it hands everything over, and ends as its command ended.
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
told = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
text = json.dumps(told).encode()
socket.send_fds(server, [len(text).to_bytes(4)], [0, 1, 2])
server.sendall(text)
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.exit(int(server.makefile().readline()))
"""


@contextmanager
def forked_screen(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Write a program `screen` into a folder; its server lives as long as this.

    Parameters
    ----------
    folder : Path
    environment : dict
        What libraries read of it when they are imported.
    """
    place = folder / "server"
    program = folder / "screen"
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)))
    program.chmod(0o755)
    words = [sys.executable, __file__, str(place)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            yield
        finally:
            server.terminate()


def serve(place: str) -> None:
    """Fork a process for each command that is typed."""
    for module in IMPORTED:
        import_module(module)
    # Nobody waits for the processes.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    print("ready", flush=True)
    while True:
        typed, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(typed)
        typed.close()


def _answer(typed: socket.socket) -> None:
    """Run a command in a process forked from this one, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, outputs, *_ = socket.recv_fds(typed, 4, 3)
    told = json.loads(typed.makefile("rb").read(int.from_bytes(size)))
    process = os.fork()
    if process == 0:
        typed.close()
        _run(told, outputs)
    _, status = os.waitpid(process, 0)
    typed.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(told: dict, outputs: list[int]) -> None:
    """Run a command as this process, which ends with it."""
    for number, output in enumerate(outputs):
        os.dup2(output, number)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    time.tzset()
    sys.argv = ["screen", *told["words"]]
    runpy.run_module("screening", run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    serve(sys.argv[1])
