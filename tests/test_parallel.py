"""Calls side by side: by processes, by threads, by what a caller's joblib says."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hung import HUNG_SECONDS
from joblib import parallel_config
from workers import die, die_once, facts_of, process_of, square, wait

from screening import load_recipe
from screening.errors import UsageError
from screening.kernels import kernel_cache
from screening.model_selection.fold_fits import EncodedRows
from screening.model_selection.plans import fold_tasks
from screening.parallel import in_parallel
from screening.shared_arrays import SharedArrays
from screening.threads import available_cores

NUMBERS = [(number,) for number in range(20)]


def test_in_parallel_keeps_order():
    squares = list(in_parallel(square, iter(NUMBERS), jobs=2))

    assert squares == [number**2 for (number,) in NUMBERS]


@pytest.mark.parametrize(
    ("n_tasks", "jobs"),
    [
        (1, 2),
        (5, 1),
    ],
)
def test_in_parallel_starts_no_process_for_one(n_tasks, jobs):
    """With one task, or one job, the calls are made here."""
    processes = in_parallel(process_of, [()] * n_tasks, jobs=jobs)
    assert set(processes) == {os.getpid()}


def test_in_parallel_no_task():
    assert list(in_parallel(square, [], jobs=2)) == []


def test_in_parallel_maps_large_arrays():
    """Processes map an array, may write to their own copy, and share the cores."""
    array = np.zeros(1_000_000)
    results = in_parallel(facts_of, [(array,), (array,)], jobs=2)
    facts = set(results)

    assert facts == {(np.memmap, True, 1)}


def test_in_parallel_one_task_gets_all_cores():
    task = (np.zeros(3),)
    (facts,) = in_parallel(facts_of, [task], jobs=-1)

    assert facts[2] == available_cores()


def test_in_parallel_repeats_task_of_killed_process(tmp_path):
    marks = [(str(tmp_path / str(number)),) for number in range(4)]
    # Only the first task kills its process: two that die before any result are refused.
    for (mark,) in marks[1:]:
        Path(mark).touch()

    assert list(in_parallel(die_once, marks, jobs=2)) == [
        f"done: {mark}" for (mark,) in marks
    ]


def test_in_parallel_refuses_task_that_kills():
    with pytest.raises(UsageError, match="killed twice at the same task"):
        list(in_parallel(die, [("any",), ("other",)], jobs=2))


def test_in_parallel_raises_error_of_task():
    with pytest.raises(ValueError, match="no square"):
        list(in_parallel(square, [(1,), (-1,), (2,)], jobs=2))


def test_in_parallel_raises_error_of_source():
    def tasks():
        yield from NUMBERS
        raise MemoryError

    with pytest.raises(MemoryError):
        list(in_parallel(square, tasks(), jobs=2))


def test_in_parallel_can_be_abandoned():
    tasks = [
        (0.01,),
        (HUNG_SECONDS,),
        (HUNG_SECONDS,),
        (HUNG_SECONDS,),
    ]
    results = in_parallel(wait, tasks, jobs=2)
    start = time.monotonic()

    assert next(results) is None
    results.close()

    assert time.monotonic() - start < HUNG_SECONDS / 2


def test_in_parallel_obeys_parallel_config():
    """Backend and number of jobs are the caller's."""
    with parallel_config("threading", n_jobs=2):
        assert set(in_parallel(process_of, NUMBERS)) == {os.getpid()}
    with parallel_config(n_jobs=1):
        assert set(in_parallel(process_of, NUMBERS)) == {os.getpid()}


def test_in_parallel_obeys_dask():
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}

    with (
        distributed.Client(**settings, host="127.0.0.1") as client,
        parallel_config("dask", client=client),
    ):
        processes = set(in_parallel(process_of, NUMBERS))

    assert len(processes) == 1
    assert os.getpid() not in processes


CALLER = """
import signal
from workers import wait
from screening.fork_server import prepare_processes
from screening.parallel import in_parallel
from screening.shared_arrays import SharedArrays
if {is_prepared}:
    prepare_processes("screening.parallel")
# A suite that runs in the background of a shell ignores the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _ in in_parallel(wait, [(0.01,)] + [(600,)] * 3, jobs=2):
    print("begun", flush=True)
"""


PREPARED = """
import sys
import numpy as np
import pandas as pd
from workers import die_once, facts_of, modules_of
from screening.fork_server import prepare_processes
from screening.parallel import in_parallel
from screening.shared_arrays import SharedArrays
prepare_processes("screening.scoring.scoring_pass")
print(list(in_parallel(modules_of, [()] * 2, jobs=2)))
array = np.zeros(1_000_000)
print(set(in_parallel(facts_of, [(array,), (array,)], jobs=2)) == {(np.memmap, True, 1)})
print(list(in_parallel(die_once, [(mark,) for mark in sys.argv[1:]], jobs=2)))
"""


@pytest.mark.skipif(available_cores() < 2, reason="no process is started")
def test_prepare_processes_imports_once(tmp_path):
    """Processes have what the server imported, map arrays, and are replaced if
    killed.
    """
    marks = [str(tmp_path / str(number)) for number in range(3)]
    Path(marks[1]).touch()
    Path(marks[2]).touch()
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    result = subprocess.run(
        [sys.executable, "-c", PREPARED, *marks],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )

    modules, is_mapped, done = result.stdout.splitlines()
    assert modules == "[True, True]"
    assert is_mapped == "True"
    assert result.stderr == ""
    assert done == str([f"done: {mark}" for mark in marks])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
@pytest.mark.skipif(available_cores() < 2, reason="no process is started")
@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_in_parallel_leaves_no_process(number, is_prepared):
    """However a command ends, its processes end, and the server that forked them."""
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests), str(tests.parent)])
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER.format(is_prepared=is_prepared)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"begun\n"
    started = processes_of_session(caller.pid)

    caller.send_signal(number)
    caller.communicate()
    end = time.monotonic() + HUNG_SECONDS
    while processes_of_session(caller.pid) and time.monotonic() < end:
        time.sleep(0.1)

    assert len(started) > 2
    assert processes_of_session(caller.pid) == []


def processes_of_session(number):
    """Return the processes of a session that are not zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = path.read_text().rpartition(")")[2]
            state, _, _, session = facts.split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(session) == number and state != "Z":
            found.append(path.parent.name)
    return found


def largest_gram(name, n_rows):
    rows = EncodedRows(
        load_recipe(name),
        1,
        kernel_cache.Distances(np.zeros((n_rows, 1))),
        np.arange(n_rows) % 2,
        None,
    )
    fold = np.arange(n_rows) % 5
    tasks = fold_tasks(rows, fold[None], [{}])
    return max(task.n_gram_rows for task in tasks)


@pytest.mark.parametrize("name", ["random_forest", "logistic", "histogram_boosting"])
def test_fits_without_kernel_hold_no_gram(name):
    """The memory for kernel matrices does not limit them to one core."""
    assert largest_gram(name, 100_000) == 0


def test_fits_of_kernel_machines_hold_gram_of_training_rows():
    assert largest_gram("svm_weighted", 10_000) == 8_000


def test_concurrent_fits_follow_memory_of_machine(monkeypatch):
    monkeypatch.setattr(kernel_cache, "machine_memory", lambda: 128 << 30)

    assert kernel_cache.n_concurrent_fits(0, None) >= 1 << 30
    # 0.5 GB each for 8,000 landmarks, in half of 128 GB.
    assert kernel_cache.n_concurrent_fits(8_000, None) == 134
    assert kernel_cache.n_concurrent_fits(8_000, 1 << 30) == 2
    assert kernel_cache.n_concurrent_fits(1_000_000, None) == 1


def test_machine_memory_is_that_of_container(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    unlimited = kernel_cache.machine_memory.__wrapped__()
    monkeypatch.setattr(kernel_cache, "CONTAINER_LIMITS", [limit])

    limit.write_text("max\n")
    assert kernel_cache.machine_memory.__wrapped__() >= unlimited
    limit.write_text("536870912\n")
    assert kernel_cache.machine_memory.__wrapped__() == 512 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="memory without a name")
def test_rows_are_not_taken_for_others_that_lay_in_their_place():
    """Shared memory of one list of tasks is given again to the next: a process that
    keeps rows of the first must not fit them in the second.
    """
    received = []
    for n_rows in (20_000, 30_000):
        rows = np.full((n_rows, 1), float(n_rows))
        with SharedArrays() as arrays:
            content = arrays.pack((kernel_cache.Distances(rows),))
            (distances,) = pickle.loads(content)
            received.append(arrays.place_of(rows))
            np.testing.assert_array_equal(distances.rows, rows)

    assert received[0] == received[1]


def test_tasks_on_the_same_rows_share_their_distances():
    distances = kernel_cache.Distances(np.zeros((3, 1)))
    content = pickle.dumps(distances)

    assert pickle.loads(content) is pickle.loads(content)


def without_times(document):
    """Return a document without seconds, and without digests of files with seconds."""
    if isinstance(document, dict):
        return {
            key: without_times(value)
            for key, value in document.items()
            if "seconds" not in key and key != "sha256"
        }
    if isinstance(document, list):
        return [without_times(value) for value in document]
    return document


def model_of_jobs(table, folder, jobs):
    """Train by the command, whose processes share memory; return the model's card."""
    options = ["--label", "ill", "--recipe", "logistic", "--jobs", str(jobs)]
    options += ["--independent", "--beside", "none", "--out", str(folder)]
    command = [sys.executable, "-m", "screening", "train", str(table), *options]
    subprocess.run(command, check=True, capture_output=True)
    document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    arrays = (folder / "arrays.npz").read_bytes()
    return without_times(document), arrays


def test_training_by_processes_states_the_same_figures(tmp_path):
    """Every figure of the card, also those of fits beside the model's: here of what the
    ranking rests on, whose rows lie where those of the model lay.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(13_000, 4)).round(4)).add_prefix("x")
    risk = table["x0"] + table["x1"] + rng.normal(size=len(table))
    table["ill"] = np.where(risk > 0.2, "yes", "no")
    table.to_csv(tmp_path / "past.csv", index=False)

    alone = model_of_jobs(tmp_path / "past.csv", tmp_path / "alone", jobs=1)
    together = model_of_jobs(tmp_path / "past.csv", tmp_path / "together", jobs=2)

    assert together == alone
    assert alone[0]["training"]["reliance"]["whole"] is not None
