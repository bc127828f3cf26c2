"""Run every command that docs/benchmarks.md, papers.md and scale.md name, and keep what
each one prints.

    python benchmarks/run.py [WORD]

With a word only commands that have it are run; also `make benchmarks ONLY=WORD`.

Answers and the CSV files by which a stopped script goes on lie in build/benchmarks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("benchmarks.md", "papers.md", "scale.md")


def commands() -> list[str]:
    """Every `python benchmarks/...` of the pages, in their order, once."""
    text = "\n".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES
    )
    return list(dict.fromkeys(re.findall(r"`python (benchmarks/[^`]*)`", text)))


def main() -> None:
    """Exit 1 where a script failed; one that lacks data says so in its answer and is no
    failure.
    """
    out = ROOT / "build" / "benchmarks"
    out.mkdir(parents=True, exist_ok=True)
    around = os.environ | {"OMP_NUM_THREADS": "1"}
    failed = []
    for command in commands():
        if any(word not in command for word in sys.argv[1:]):
            continue
        script, *words = shlex.split(command)
        answer = out / f"{'_'.join([Path(script).stem, *words]).replace('/', '_')}.md"
        print(f"{command}: {answer.relative_to(ROOT)}", flush=True)
        with answer.open("w", encoding="utf-8") as file:
            line = [sys.executable, str(ROOT / script), *words]
            code = subprocess.run(
                line, cwd=out, env=around, stdout=file, check=False
            ).returncode
        failed += [command] if code else []
        if answer.read_text(encoding="utf-8").startswith("skipped"):
            print(f"  {answer.read_text(encoding='utf-8').strip()}")
    sys.exit("\n".join(["failed:", *failed]) if failed else 0)


if __name__ == "__main__":
    main()
