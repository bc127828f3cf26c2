"""A model that is replaced while it is loaded is read as it was or as it is, never called damaged."""

from __future__ import annotations

import threading

from commands import screen

from faults.amounts import attempts
from faults.desk import train
from screening.store.loading import load_model
from screening.store.publishing import publish


def test_loads_during_exchange_never_say_damaged(desk):
    screen(*train(desk, "--seed", "1", "--out", desk / "other"))
    kinds = [
        {path.name: path.read_bytes() for path in (desk / name).iterdir()} for name in ("model", "other")
    ]
    ids = {load_model(desk / name).id for name in ("model", "other")}
    ended, exchanges = threading.Event(), []

    def replacing() -> None:
        while not ended.is_set():
            with publish(desk / "model", "model") as folder:
                for name, written in kinds[len(exchanges) % 2].items():
                    (folder / name).write_bytes(written)
            exchanges.append(1)

    writer = threading.Thread(target=replacing)
    writer.start()
    numbers = attempts("loads while a model is replaced", 60, 10_000)
    try:
        seen = {load_model(desk / "model").id for _ in numbers}
    finally:
        ended.set()
        writer.join()

    assert seen <= ids
    assert len(exchanges) > 1 or not seen
