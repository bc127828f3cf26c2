"""Files elsewhere are read as files here are, and nothing of them stays behind."""

import datetime
import gc
import os
import ssl
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from flow_cohorts import patients, written
from pandas.testing import assert_frame_equal

from screening import read_cohort
from screening.errors import CohortError, UsageError
from screening.files import digest_of
from screening.io.opening import exists, source_at

fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
ROLES = {"label": "ill", "positive": "yes", "id": "patient"}


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A place elsewhere with a CSV and a Parquet file of halves of one table, and this
    process's own /tmp.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    system = fsspec.filesystem("memory")
    table = patients()
    parts = {"a.csv": table[:100], "b.parquet": table[100:]}
    for name, part in parts.items():
        content = written(part, tmp_path / name).read_bytes()
        system.pipe(f"/ward/past/{name}", content)
    system.pipe("/ward/past/readme.md", b"# none of the tables")
    yield "memory://ward/past"
    system.store.clear()


@pytest.mark.parametrize("end", ["", "/", "/*.[cp]*"])
def test_a_folder_or_glob_elsewhere_reads_as_the_table(end, bucket, tmp_path):
    cohort = read_cohort(bucket + end, **ROLES)
    assert_frame_equal(cohort.features, read_cohort(patients(), **ROLES).features)
    files = [(name, digest_of(tmp_path / name)) for name in ("a.csv", "b.parquet")]
    read = [(file.name, file.sha256) for file in cohort.source.files]
    assert read == files


def test_a_path_with_a_colon_is_still_a_path(tmp_path):
    path = written(patients(), tmp_path / "a:b.csv")
    assert read_cohort(str(path), **ROLES).n_rows == 240


def test_what_was_fetched_is_private_and_gone_with_the_cohort(bucket, tmp_path):
    cohort = read_cohort(bucket, **ROLES)
    (folder,) = (tmp_path / "tmp").iterdir()
    mode = folder.stat().st_mode & 0o777
    del cohort
    gc.collect()
    assert mode == 0o700
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere.csv", UsageError),
        ("*.xlsx", UsageError),
        ("bad.csv", CohortError),
    ],
)
def test_what_cannot_be_read_is_refused_and_leaves_nothing(
    name, error, bucket, tmp_path
):
    fsspec.filesystem("memory").pipe("/ward/past/bad.csv", b"")
    with pytest.raises(error):
        read_cohort(f"{bucket}/{name}", **ROLES)
    gc.collect()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"gs:// cannot be read: .*gcsfs"):
        read_cohort("gs://ward/past.csv")


@pytest.fixture(scope="module")
def s3():
    """A bucket of a server that speaks as S3 does, on this host."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    server = pytest.importorskip("moto.server", reason="needs moto")
    thread = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    thread.start()
    yield f"http://127.0.0.1:{thread.get_host_and_port()[1]}"
    thread.stop()


def test_an_s3_bucket_is_read(s3, monkeypatch, tmp_path):
    for name, value in {
        "ACCESS_KEY_ID": "key",
        "SECRET_ACCESS_KEY": "s3cr3t",
        "ENDPOINT_URL": s3,
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    system = fsspec.filesystem("s3")
    system.mkdir("ward")
    system.pipe(
        "ward/past.parquet", written(patients(), tmp_path / "past.parquet").read_bytes()
    )

    cohort = read_cohort("s3://ward/past.parquet", **ROLES)

    assert_frame_equal(cohort.features, read_cohort(patients(), **ROLES).features)
    with pytest.raises(UsageError, match="does not exist"):
        read_cohort("s3://ward/nowhere.parquet")
    with pytest.raises(UsageError) as refused:
        read_cohort("s3://nobodys-bucket-at-all/past.parquet")
    assert "s3cr3t" not in str(refused.value)


def test_files_of_one_name_in_two_folders_are_both_read(bucket):
    system = fsspec.filesystem("memory")
    for ward in ("north", "south"):
        system.pipe(f"/ward/{ward}/a.csv", system.cat("/ward/past/a.csv"))
    cohort = read_cohort("memory://ward/*th/a.csv", label="ill", positive="yes")
    names = [file.name for file in cohort.source.files]
    assert names == ["a.csv", "a.csv"]
    assert cohort.n_rows == 200


def test_written_at_of_files_here(bucket, tmp_path):
    """Copies of remote files are written when they are fetched, which says nothing."""
    path = written(patients(), tmp_path / "past.csv")
    moment = datetime.datetime(2026, 3, 2, 5, 12, tzinfo=datetime.UTC)
    os.utime(path, (0, moment.timestamp()))

    assert source_at(path).written_at == moment
    assert source_at(bucket).written_at is None


def test_file_url_is_a_path(tmp_path):
    """A URL of a file here is read in place; one of another host is refused."""
    path = written(patients(), tmp_path / "past table.csv")

    cohort = read_cohort(path.as_uri(), **ROLES)

    assert cohort.n_rows == len(patients())
    assert not any("fetched" in note for note in cohort.notes)
    with pytest.raises(UsageError, match="remote file:// URLs are not supported"):
        read_cohort("file://server/past.csv", **ROLES)


@pytest.mark.parametrize("name", ["past.csv", "past.parquet"])
def test_web_server(name, tmp_path):
    """A file behind http:// reads as the file here."""
    pytest.importorskip("aiohttp", reason="needs aiohttp")
    here = written(patients(), tmp_path / name)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{name}"
        cohort = read_cohort(url, **ROLES)
        is_there = [exists(url), exists(f"{url}.gone")]
        server.shutdown()

    (file,) = cohort.source.files
    assert file.name == name
    assert file.sha256 == digest_of(here)
    assert is_there == [True, False]


class Table(SimpleHTTPRequestHandler):
    """Serves files; below /cut/ half of each, and nothing below /closed/."""

    def do_HEAD(self):
        if self.path.startswith("/closed/"):
            self.send_error(403)
        else:
            super().do_HEAD()

    def do_GET(self):
        if self.path.startswith("/closed/"):
            self.send_error(403)
        elif self.path.startswith("/cut/"):
            self.send_half()
        else:
            super().do_GET()

    def send_half(self):
        path = Path(self.directory) / self.path[1:]
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def https(tmp_path_factory):
    """A server with a certificate that nobody signed, its address and certificate."""
    pytest.importorskip("aiohttp", reason="needs aiohttp")
    folder = tmp_path_factory.mktemp("https")
    key = folder / "key.pem"
    certificate = folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=tables", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    for place in ("whole", "cut", "closed"):
        (folder / "tables" / place).mkdir(parents=True)
        for name in ("past.csv", "past.parquet"):
            written(patients(), folder / "tables" / place / name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = partial(Table, directory=folder / "tables")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}", certificate
        server.shutdown()


def run_init(
    url: str, out: Path, certificate: Path | None = None
) -> subprocess.CompletedProcess:
    """Run `screen init` on a URL: a process reads its certificates when it begins."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("SSL_CERT_FILE", None)
    if certificate is not None:
        environment["SSL_CERT_FILE"] = str(certificate)
    words = ("init", url, "--label", "ill", "--out", str(out), "--json")
    return subprocess.run(
        [sys.executable, "-m", "screening", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["past.csv", "past.parquet"])
def test_https_with_a_trusted_certificate(name, https, tmp_path):
    """A table behind https:// is read, its authority named by SSL_CERT_FILE."""
    address, certificate = https

    answer = run_init(f"{address}/whole/{name}", tmp_path / "c.toml", certificate)

    assert answer.returncode == 0, answer.stderr
    assert f"fetched from {address}/whole/" in answer.stdout


@pytest.mark.parametrize(
    ("place", "is_trusted", "words"),
    [
        ("whole/past.csv", False, "certificate is not trusted here"),
        ("whole/nowhere.csv", True, "the file does not exist"),
        ("closed/past.csv", True, "the server answers 403 (Forbidden)"),
        ("cut/past.csv", True, "the connection closed before the whole file arrived"),
        (
            "cut/past.parquet",
            True,
            "the connection closed before the whole file arrived",
        ),
    ],
)
def test_https_refusals(place, is_trusted, words, https, tmp_path):
    """What a server does not give is refused in words, and no traceback."""
    address, certificate = https

    trusted = certificate if is_trusted else None
    refused = run_init(f"{address}/{place}", tmp_path / "c.toml", trusted)

    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


def test_file_url(tmp_path):
    """A URL of a file of this host is that file, and is known to exist or not."""
    url = written(patients(), tmp_path / "past.csv").as_uri()

    assert read_cohort(url, **ROLES).n_rows == 240
    assert [exists(url), exists(f"{url}.gone")] == [True, False]


def test_partitioned_parquet(tmp_path):
    """Folders such as day=2026-03-01 are a column, together and one by one."""
    table = patients()
    days_of_past = {"2026-03-01": table[:100], "2026-03-02": table[100:]}
    for day, rows in days_of_past.items():
        folder = tmp_path / "past" / f"day={day}"
        folder.mkdir(parents=True)
        written(rows, folder / "part-0.parquet")

    source = source_at(tmp_path / "past")
    days = []
    for file in source.files:
        for block in file.blocks(["day", "patient"], 64):
            days += block.columns["day"].to_pylist()
    whole = read_cohort(str(tmp_path / "past"), drop=["day"], **ROLES)
    night = source_at(tmp_path / "past" / "day=2026-03-02")

    assert days == ["2026-03-01"] * 100 + ["2026-03-02"] * 140
    of_table = read_cohort(table, **ROLES)
    assert_frame_equal(whole.features, of_table.features)
    assert [file.name for file in night.files] == ["day=2026-03-02/part-0.parquet"]
    assert night.files[0].header == [*table.columns, "day"]
    block, *_ = night.files[0].blocks(["day"], 500)
    assert block.n_rows == 140
