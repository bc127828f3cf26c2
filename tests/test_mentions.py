"""An id is found in files of every kind of writer, and is no part of another id."""

import csv
import html
import io
import json
import unicodedata
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from screening.scoring.mentions import mentions


def in_csv(name: str) -> str:
    file = io.StringIO()
    csv.writer(file).writerow(["1", name, "0.5"])
    return file.getvalue()


WRITERS = {
    "text": lambda name: f"beside {name}, at the window",
    "page": lambda name: f"<p><bdi>{escape(name)}</bdi></p>",
    "page, standard library": lambda name: f"<p>{html.escape(name)}</p>",
    "JSON": lambda name: json.dumps({"id": name}),
    "JSON, text as it is": lambda name: json.dumps({"id": name}, ensure_ascii=False),
    "JSON in an attribute": lambda name: f'<p data-of="{escape(json.dumps([name]))}">',
    "CSV": in_csv,
    "XML": lambda name: f"<id value={quoteattr(name)}/>",
    "SQL": lambda name: "INSERT INTO t VALUES ('{}')".format(name.replace("'", "''")),
    "URL": lambda name: f"https://host/patient?id={quote(name, safe='')}&x=1",
}
CANARIES = [
    "00123",
    "O'Neil-7",
    'the "7"',
    "a&b",
    "a<b>c",
    "back\\slash",
    "100%",
    "a;b",
    "a,b",
    "Žofie-7",
    "x" * 200,
]
every_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@every_writer
@pytest.mark.parametrize("name", CANARIES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_mentions_every_writer(form, name, write):
    """What a writer wrote is found, in either Unicode form."""
    content = write(unicodedata.normalize(form, name)).encode()

    assert mentions(content, unicodedata.normalize("NFC", name))
    assert not mentions(content, "another")


@every_writer
@given(name=st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_mentions_any_id(write, name):
    """Every id of visible characters is found."""
    assert mentions(write(name).encode(), name)


@pytest.mark.parametrize(
    "other", ["Zx9-00123", "00123-4", "100123", "00123b", "A/00123"]
)
def test_mentions_longer_id(other):
    """An id that is a part of another one is not found in it."""
    assert not mentions(f"<bdi>{other}</bdi>".encode(), "00123")


def test_mentions_styles():
    """A word of a page's styles is nobody's id; the same text in the page is."""
    styles = b"<style nonce='a'>\ntable {width:100%}</style>"

    assert not mentions(styles + b"<p>Zx9</p>", "100%")
    assert mentions(styles + b"<p>100%</p>", "100%")
    assert mentions(styles + b"<p>100%</p>" + styles, "100%")


def test_mentions_undecodable():
    """An id in no known encoding is found by its bytes."""
    name = b"caf\xe9".decode("utf-8", "surrogateescape")

    assert mentions(b"<bdi>caf\xe9</bdi>", name)
