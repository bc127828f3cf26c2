"""Draw the pictures of docs/python.md by running it: each `plot` makes the picture that
is shown behind it.

Run `python docs/plots.py` after changing a plot; it needs the extra `plots`.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parent / "python.md"
FOLDER = PAGE.parent / "plots"


def pictures() -> dict[str, object]:
    """The figures that the page's code draws, by the name of the file it shows."""
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    text = PAGE.read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    if doctest.DocTestRunner().run(test).failed:
        raise SystemExit("docs/python.md does not run")
    names = re.findall(r"\(plots/(.*?)\)", text)
    return dict(zip(names, map(pyplot.figure, pyplot.get_fignums()), strict=True))


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, figure in pictures().items():
        figure.savefig(FOLDER / name, dpi=70, metadata={"Software": None})


if __name__ == "__main__":
    main()
