"""Reasons for attention: being in the registry is enough to be documented and
tested.
"""

import ast
import json
import re
import runpy
import string

import pytest
from docs_pages import ROOT

from screening.report.verdict import UNCERTAIN, UNUSABLE
from screening.schemas import reasons
from screening.schemas.base import Reason
from screening.schemas.reasons import REASONS, ReasonKind

KINDS = list(REASONS.values())


def facts_of(kind: ReasonKind) -> dict[str, object]:
    """Return a number for every fact that a kind's sentences name."""
    parsed = [*string.Formatter().parse(kind.words)]
    parsed += string.Formatter().parse(kind.remedy)
    names = {name for _, name, _, _ in parsed if name}
    return {name: 1 for name in names - {"column"}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_reason_made(kind):
    """It has the kind's code, a sentence without braces and the figures it was
    given.
    """
    facts = facts_of(kind)
    reason = kind(column="crp", figure=0.5, threshold=0.3, **facts)

    assert reason.code == kind.code
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", reason.code)
    sentences = reason.words + (reason.remedy or "")
    assert not re.search(r"[{}]", sentences)
    assert reason.column == "crp"
    assert reason.figure == 0.5
    assert reason.threshold == 0.3
    written = json.dumps(vars(reason))
    assert json.loads(written)["code"] == kind.code


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_reason_complete(kind):
    """It says when and where it is given, and its sentences end as sentences do."""
    assert kind.when
    assert kind.arises_in
    assert kind.words.endswith((".", "}"))
    assert kind.remedy == "" or kind.remedy.endswith((".", "}"))


def test_reason_needs_facts():
    """A sentence with a gap is an error of whoever finds the reason."""
    with pytest.raises(KeyError):
        reasons.TOO_FEW_CASES(figure=3)


def test_code_once():
    """No two kinds have one code."""
    codes = [code for code, _ in reasons._shipped()]

    assert codes == list(dict.fromkeys(codes))


def test_codes_of_verdict():
    assert REASONS.keys() >= (UNUSABLE | UNCERTAIN)


def test_documentation_complete():
    """docs/reasons.md is what `python docs/reasons.py` writes, a line for each
    reason.
    """
    script = runpy.run_path(str(ROOT / "docs" / "reasons.py"))
    page = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")

    assert page == script["reference"]()
    named = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert sorted(named) == sorted(REASONS)


def calls_of_reason(tree: ast.AST) -> list[int]:
    """Return the lines that make a `Reason` from a code of their own."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == Reason.__name__
        and node.args
    ]


def test_reasons_from_registry():
    """No module makes a reason but by its kind, so none is undocumented."""
    registry = ROOT / "screening" / "schemas" / "reasons.py"
    found = {}
    for path in sorted((ROOT / "screening").rglob("*.py")):
        lines = calls_of_reason(ast.parse(path.read_bytes()))
        if lines and path != registry:
            found[str(path.relative_to(ROOT))] = lines

    assert found == {}
