"""Programs that watch the nights: Nagios, Prometheus, a dead man's switch, the log."""

import http.server
import json
import threading

import pytest
from hung import HUNG_SECONDS

from screening.cli import logs
from screening.cli.monitors import fetch, nagios_answer
from screening.errors import UsageError
from screening.ledger.entries import SiteNight
from screening.ledger.status import exposition
from screening.schemas.base import Reason
from screening.schemas.history import SeriesStatus

DRIFT = Reason("column_drifts", "crp: values are about 1.3 times as high.", "crp")
STANDING = Reason("too_few_cases", "Only 20.", since="2026-01-01")


def status(fine: bool = True, *reasons: Reason, series: str | None = "ward-1"):
    return SeriesStatus(fine, "night 2026-02-01 | 3 flagged", series, attention=reasons)


@pytest.mark.parametrize(
    ("statuses", "code", "heading"),
    [
        ([status()], 0, "OK"),
        ([status(True, STANDING)], 0, "OK"),
        ([status(), status(True, DRIFT)], 1, "WARNING"),
        ([status(False), status(True, DRIFT)], 2, "CRITICAL"),
        ([status(False, series=None)], 3, "UNKNOWN"),
    ],
)
def test_nagios_answer_codes(statuses, code, heading):
    words, exit_code = nagios_answer(statuses)
    assert exit_code == code
    assert words.startswith(f"SCREENING {heading} - {len(statuses)} series")


def test_nagios_answer_has_one_bar_for_its_figures():
    words, _ = nagios_answer([status(False, DRIFT)])
    assert words.count("|") == 1
    assert "ward-1: night 2026-02-01 / 3 flagged; crp: values are about" in words


def test_exposition_counts_reasons_by_code_and_state():
    text = exposition([status(True, DRIFT, STANDING)])
    line = 'screening_attention{series="ward-1",code="%s",state="%s"} 1'
    assert line % ("column_drifts", "new") in text
    assert line % ("too_few_cases", "standing") in text


def test_exposition_of_the_last_run():
    run = SiteNight(
        night="2026-02-01",
        exit_code=3,
        seconds=12.5,
        failed=["ward-9"],
        attention=[DRIFT],
        by_series={},
    )
    lines = exposition([status()], run).splitlines()
    assert "screening_run_seconds 12.5" in lines
    assert "screening_run_exit_code 3" in lines
    assert 'screening_run_failed{series="ward-9"} 1' in lines
    assert 'screening_site_attention{code="column_drifts"} 1' in lines


def test_fetch_reaches_the_address():
    fetched = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        fetch(f"http://127.0.0.1:{server.server_port}/alive")
        thread.join(HUNG_SECONDS)
    assert fetched == ["/alive"]


def test_fetch_without_an_answer_warns_without_the_address(caplog):
    fetch("http://127.0.0.1:9/secret")
    assert "did not answer" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "host"])
def test_fetch_of_no_web_address_is_refused(url):
    with pytest.raises(UsageError, match="http"):
        fetch(url)


def test_attention_is_a_line_with_code_and_series(capsys):
    logs.begin(["--log", "json"])
    try:
        logs.attention("ward-1", "2026-02-01", DRIFT.code, DRIFT.words)
    finally:
        logs.begin([])
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "warning"
    assert line["code"] == "column_drifts"
    assert line["series"] == "ward-1"
    assert line["night"] == "2026-02-01"
