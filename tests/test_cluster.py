"""Work by other processes: the same bytes as alone, rows over TLS only, nobody else let
in."""

import os
import socket
import ssl
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pandas as pd
import pytest
from flow_cohorts import patients, written
from workers import InThisProcess, Stopped, die, die_once, listeners
from written_files import names_in

from screening import cluster as clusters
from screening import load_model, save_model, score, train
from screening.cluster import Cluster, open_cluster
from screening.errors import ClusterError, CohortError, ModelError, UsageError
from screening.io import readers
from screening.model_selection import compare as comparison
from screening.parallel import in_parallel
from screening.scoring import score as scoring
from screening.site.processes import Processes

pytest.importorskip("distributed")

NIGHT = "2026-01-31"
WRITTEN_AT = 1_769_900_000


@pytest.fixture(scope="module")
def model(cohort, trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "svm"
    model = trained(cohort, "svm_weighted", search=1)
    return load_model(save_model(model, folder))


@pytest.fixture
def night(tmp_path):
    return night_in(tmp_path)


def night_in(folder):
    """Write the night's table, always of one hour: the page states the minute."""
    path = written(patients(90, seed=7), folder / "night.csv")
    os.utime(path, (WRITTEN_AT, WRITTEN_AT))
    return path


def by(workers, monkeypatch, model, night, out, **more):
    monkeypatch.setattr(scoring, "open_cluster", workers.opened)
    return alone(model, night, out, cluster="local:2", **more)


def alone(model, night, out, **more):
    return score(
        model,
        night,
        out,
        date=NIGHT,
        batch_rows=16,
        **more,
    )


@pytest.fixture(scope="module")
def expected(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return content(alone(model, night_in(folder), folder / "run"))


def content(run):
    return {
        path.name: path.read_bytes()
        for path in run.directory.iterdir()
        if path.name != "run.json"
    } | {"counts": run.document["counts"]}


def test_a_run_by_workers_has_the_bytes_of_a_run_alone(
    model, night, expected, cohort, trained, monkeypatch, tmp_path
):
    """A table and a model in memory too; a table that breaks the contract leaves
    nothing.
    """
    workers = InThisProcess()
    frame = patients(90, seed=7)
    in_memory = trained(cohort, "svm_weighted", search=1)
    run = by(workers, monkeypatch, model, night, tmp_path / "by")
    other = by(InThisProcess(), monkeypatch, in_memory, frame, tmp_path / "memory")
    with pytest.raises(CohortError):
        by(
            InThisProcess(),
            monkeypatch,
            model,
            frame.assign(fever="warm"),
            tmp_path / "broken",
        )

    assert content(run) == expected
    of_frame = alone(in_memory, frame, tmp_path / "alone")
    assert content(other) == content(of_frame)
    assert len(workers.pieces) == 6
    assert sorted(names_in(tmp_path)) == [
        "alone",
        "by",
        "memory",
        "night.csv",
    ]


def test_workers_that_see_the_file_get_no_row(model, expected, monkeypatch, tmp_path):
    """What travels to them is the place of a piece; they return its rows and counts."""
    rows = patients(90, seed=7)
    night = tmp_path / "night.parquet"
    rows.to_parquet(night, index=False, row_group_size=25)
    monkeypatch.setattr(readers, "RANGE_ROWS", 40)
    workers = InThisProcess()

    run = by(workers, monkeypatch, model, night, tmp_path / "by")

    travelled = b"".join(workers.pieces)
    by_itself = alone(model, night, tmp_path / "alone")
    assert content(run) == content(by_itself)
    assert run.document["counts"] == expected["counts"]
    assert len(workers.pieces) == 4
    for name in rows["patient"]:
        assert name.encode() not in travelled


def test_a_killed_run_goes_on_from_its_finished_batches(
    model, night, expected, monkeypatch, tmp_path
):
    again = InThisProcess()
    with pytest.raises(Stopped):
        by(InThisProcess(lives=4), monkeypatch, model, night, tmp_path / "run")
    assert [path.name for path in tmp_path.glob(".*")] == [".run.fragments"]
    run = by(again, monkeypatch, model, night, tmp_path / "run")

    assert len(again.pieces) == 2
    assert content(run) == expected
    assert [*tmp_path.glob(".*")] == []


@pytest.mark.parametrize("damaged", [True, False])
def test_decisions_of_another_table_or_damaged_ones_are_made_again(
    model, night, damaged, monkeypatch, tmp_path
):
    other = written(patients(90, seed=9), tmp_path / "b.csv")
    more = InThisProcess()
    with pytest.raises(Stopped):
        by(InThisProcess(lives=4), monkeypatch, model, night, tmp_path / "run")
    for path in (tmp_path / ".run.fragments").iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[:-40] if damaged else whole)
    by(more, monkeypatch, model, night if damaged else other, tmp_path / "run")
    assert len(more.pieces) == 6


def compared(cohort, **more):
    return comparison.compare(
        {"ward": cohort},
        ["logistic", "one_class"],
        control="logistic",
        search=2,
        folds=3,
        repeats=1,
        **more,
    )


def figures(comparison_run):
    methods = comparison_run.summary()["cohorts"]["ward"]
    seconds = ("fit_seconds", "score_seconds")
    said = {
        name: {key: row[key] for key in row if key not in seconds}
        for name, row in methods.items()
    }
    return said, comparison_run.scores.to_csv()


def test_cluster_model_same_bytes(cohort, tmp_path):
    """A model whose folds were fitted by workers has the bytes of one trained here.

    Also after a stop, and of a blend; no id travels.
    """
    quick = {"folds": 3, "repeats": 1, "beside": ()}
    killed = InThisProcess(lives=4)
    workers = InThisProcess()
    progress = []
    places = {"cluster": killed, "kept": tmp_path}
    with pytest.raises(Stopped):
        train(cohort, "svm_weighted", search=3, **quick, **places)

    model = train(
        cohort,
        "svm_weighted",
        search=3,
        **quick,
        cluster=workers,
        kept=tmp_path,
    )
    blend = train(
        cohort,
        search=2,
        **quick,
        cluster=InThisProcess(),
        progress=lambda *step: progress.append(step),
    )

    travelled = b"".join(workers.pieces)
    shares = [done / total for done, total in progress]
    of_one_machine = train(cohort, "svm_weighted", search=3, **quick)
    assert model.digest == of_one_machine.digest
    assert blend.digest == train(cohort, search=2, **quick).digest
    # Two of the three settings share a kernel and are fitted together, in each fold.
    assert len(killed.pieces) + len(workers.pieces) == 6
    for name in cohort.id:
        assert name.encode() not in travelled
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("local:0", "`cluster` local:0: give local:N"),
        ("somewhere", "`cluster` somewhere: give local:N"),
        ("tcp://127.0.0.1:9", "no dask scheduler answers there"),
        ("local:2", r'pip install "screening\[cluster\]"'),
    ],
)
def test_what_is_no_cluster_is_refused_before_anything_is_written(
    model, night, where, words, monkeypatch, tmp_path
):
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 0.3)
    hidden = {"local:2": {"distributed": None}}.get(where, {})
    with patch.dict("sys.modules", hidden), pytest.raises(UsageError, match=words):
        score(model, night, tmp_path / "run", cluster=where)
    assert names_in(tmp_path) == {"night.csv"}


@pytest.fixture(scope="module")
def workers():
    with open_cluster("local:2") as cluster:
        yield cluster


def test_processes_give_the_bytes_of_a_run_alone_and_no_id_travels(
    workers, model, night, expected, monkeypatch, tmp_path
):
    from distributed.comm import tcp

    frames: list[bytes] = []
    to_frames = tcp.to_frames

    async def sent(*given, **more):
        message = await to_frames(*given, **more)
        frames.extend(bytes(frame) for frame in message)
        return message

    monkeypatch.setattr(tcp, "to_frames", sent)
    monkeypatch.setattr(
        scoring, "open_cluster", lambda _: InThisProcess.opened(workers, "local:2")
    )

    run = score(
        model,
        night,
        tmp_path / "by",
        date=NIGHT,
        batch_rows=16,
        cluster="local:2",
    )

    travelled = b"".join(frames)
    assert content(run) == expected
    assert b"FoldEnsemble.decisions" in travelled
    names = pd.read_csv(night, dtype=str)["patient"]
    for name in names:
        assert name.encode() not in travelled


def test_a_comparison_by_workers_has_the_figures_of_one_alone(
    workers, cohort, monkeypatch, tmp_path
):
    monkeypatch.setattr(comparison, "open_cluster", lambda _: nullcontext(workers))
    (tmp_path / "kept").mkdir()
    by_workers = compared(cohort, kept=tmp_path / "kept", cluster="local:2")
    assert figures(by_workers) == figures(compared(cohort))
    kept = list((tmp_path / "kept").glob("*.npz"))
    assert len(kept) == 12


def test_pieces_of_workers_that_die_fail_or_see_no_file(workers, tmp_path):
    """One whose worker is killed is given to another; an error is the caller's."""
    marks = [(str(tmp_path / str(number)),) for number in range(3)]

    assert list(in_parallel(die_once, marks, cluster=workers)) == [
        f"done: {mark}" for (mark,) in marks
    ]
    nothing = [(tmp_path / "nothing",)]
    with pytest.raises(ModelError, match="cannot read"):
        list(in_parallel(load_model, nothing, cluster=workers))
    with pytest.raises(UsageError, match="cannot read /nowhere/model"):
        workers.check([tmp_path, Path("/nowhere/model")])
    # Workers of dask may have no children, unless they are told: a night there ends as
    # one run here.
    (tmp_path / "m").mkdir()
    words = ["score", str(tmp_path / "m"), "--out", str(tmp_path / "run")]
    secrets = {
        "SCREEN_LEDGER": str(tmp_path / "l.db"),
        "SCREEN_COHORT": str(tmp_path / "night.csv"),
    }
    processes = Processes(cluster=workers)
    ended = processes.run(words, secrets, 1, 60)
    assert ended.code == 4
    assert ended.message is not None


def test_rows_go_to_no_worker_in_the_clear(workers):
    """Whose scheduler has no TLS is refused before a row is sent; whoever has no
    certificate is cut off.
    """
    scheduler = SimpleNamespace(address="tcp://host:8786")
    plain = Cluster(SimpleNamespace(scheduler=scheduler), "tcp://host:8786", 1)
    address = workers.client.scheduler.address
    host, port = address.removeprefix("tls://").split(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    workers.check(secret=True)
    with pytest.raises(ClusterError, match="would travel unencrypted"):
        plain.check(secret=True)
    with (
        pytest.raises((OSError, IndexError)),
        socket.create_connection((host, int(port))) as connection,
        context.wrap_socket(connection) as secret,
    ):
        secret.sendall(b"x" * 64)
        # Nothing more comes from who has closed.
        secret.recv(1)[0]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
def test_every_listener_is_on_loopback_and_lets_no_stranger_in(workers):
    of_workers = workers.client.run(os.getpid)
    pids = [os.getpid(), *of_workers.values()]
    sockets = listeners(pids)
    assert len(sockets) >= 3
    assert {address for address, _ in sockets} == {"0100007F"}


def test_cluster_no_worker_left(monkeypatch, caplog):
    """Where no worker is left that is said and after a while refused.

    A scheduler without workers would keep a piece for ever; one that kills them all is
    given up.
    """
    monkeypatch.setattr(clusters, "POLL_SECONDS", 0.1)

    with (
        open_cluster("local:1") as cluster,
        pytest.raises(UsageError, match="several workers ended, one after the other"),
    ):
        list(in_parallel(die, [("any",)], cluster=cluster))
    monkeypatch.setattr(clusters, "DESERTED_SECONDS", 1.0)
    caplog.clear()
    with open_cluster("local:1") as cluster:
        cluster.client.cluster.scale(0)
        while cluster.client.nthreads():
            pass
        with pytest.raises(ClusterError, match="no worker was left for 1 s"):
            list(in_parallel(os.getpid, [()], cluster=cluster))
    messages = [
        record.message for record in caplog.records if record.name == "screening"
    ]
    assert messages == ["cluster local:1: no worker is left; waiting for one"]
