"""What a ledger of three years costs: four simulated nights of a network, repeated by
SQL.

    python benchmarks/network_size.py [--wards 40] [--nights 1096] [postgresql+psycopg://...]

Told are the seconds of this process and, of a PostgreSQL server on this machine, those
of its processes: they hardly depend on what else runs here, as seconds on the clock do.
The repeated part of the trail is no chain; nothing here follows it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from network import Ward, date_of, due, model

from screening.ledger.database import Ledger, open_ledger
from screening.ledger.history import compare_nights, history
from screening.ledger.nights import open_night
from screening.ledger.status import series_statuses

SIMULATED = 4
STEPS = sa.table("steps", sa.column("k"))


def repeated(engine: sa.Engine, times: int) -> None:
    """Copy every entry so many times, each copy four nights after the one before."""
    on_server = engine.dialect.name == "postgresql"
    night = (
        "CAST(CAST(night AS date) + 4 * k AS text)"
        if on_server
        else "date(night, '+' || (4 * k) || ' days')"
    )
    changed = {
        "entry": "entry + k * {last}",
        "number": "number + k * {last}",
        "night": night,
        "key": "substr(key, 1, 58) || (100000 + k)",
        "digest": "substr(digest, 1, 58) || (100000 + k)",
    }
    with engine.begin() as connection:
        last = connection.scalar(sa.text("SELECT max(number) FROM trail"))
        connection.execute(sa.text("CREATE TABLE steps (k integer)"))
        connection.execute(sa.insert(STEPS), [{"k": k} for k in range(1, times)])
        for table in ("runs", "cases", "verdicts", "parts", "trail"):
            names = [
                column["name"] for column in sa.inspect(connection).get_columns(table)
            ]
            new = [changed.get(name, name) for name in names]
            said = f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(new)} FROM {table}, steps"
            connection.execute(sa.text(said.format(last=last)))
        connection.execute(sa.text("DROP TABLE steps"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))


def processor(server: str) -> float:
    """Processor seconds so far of this process, and of the PostgreSQL server with its
    ended children.
    """
    used = sum(os.times()[:2])
    for place in Path("/proc").glob("[0-9]*") if server else ():
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            if place.name == server or fields[1] == server:
                used += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    return used


def told(name: str, server: str, times: int, work: Callable[[int], object]) -> None:
    """One line of the table: medians."""
    seconds = []
    clock = []
    for number in range(times):
        before = processor(server)
        began = time.perf_counter()
        work(number)
        seconds.append(processor(server) - before)
        clock.append(time.perf_counter() - began)
    print(f"| {name} | {np.median(seconds):.2f} | {np.median(clock):.2f} |", flush=True)


def measured(ledger: Ledger, engine: sa.Engine, wards: list[Ward], nights: int) -> None:
    """The table."""
    server = ""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            place = connection.scalar(
                sa.text("SELECT current_setting('data_directory')")
            )
            server = Path(place, "postmaster.pid").read_text().split()[0]
            assert server.isdigit()
    ward = wards[0]
    before = next(
        one
        for one in reversed(ward.entered)
        if one.night is not None and not one.night.shadow
    )

    def write(number: int) -> None:
        ledger.clock = lambda: f"{date_of(nights + number)}T04:00:00+00:00"
        night = before.night.replace(
            key=f"{number:064d}", night=date_of(nights + number)
        )
        with open_night(ledger, night, before.flagged) as tonight:
            tonight.enter(sampled=before.sampled)

    print("| | processor s | clock s |\n|---|---|---|")
    told("`history` of one series", server, 3, lambda _: history(ledger, ward.name))
    told(
        "`status` of all", server, 3, lambda _: series_statuses(ledger, due(nights - 1))
    )
    shadow = next(name for name in ward.shadows if name != ward.champion)
    told(
        "a series beside a shadow",
        server,
        3,
        lambda _: compare_nights(ledger, ward.name, model(shadow)),
    )
    told("a night's write", server, 9, write)


def main() -> None:
    """Fill, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "url", nargs="?", help="An empty database; a SQLite file where absent."
    )
    parser.add_argument("--wards", type=int, default=40)
    parser.add_argument("--nights", type=int, default=1096)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/network.db"
        wards = [
            Ward(f"w{place:02d}", np.random.default_rng([0, place]))
            for place in range(given.wards)
        ]
        with open_ledger(url, make=True) as ledger:
            for number in range(SIMULATED):
                for ward in wards:
                    ward.today = number
                    for one in list(ward.nights(number, False)):
                        one.into(ledger)
        engine = sa.create_engine(url)
        repeated(engine, given.nights // SIMULATED)
        with engine.connect() as connection:
            runs, cases = (
                connection.scalar(sa.text(f"SELECT count(*) FROM {t}"))
                for t in ("runs", "cases")
            )
        print(f"{runs} runs, {cases} cases")
        with open_ledger(url) as ledger:
            measured(ledger, engine, wards, given.nights)


if __name__ == "__main__":
    main()
