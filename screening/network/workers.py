"""Nights scored by the workers of a cluster, each still in a process of its own there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from screening.cluster import Cluster
from screening.errors import UsageError
from screening.network.children import Children, Ended


@dataclass(frozen=True)
class Order:
    """A command for a worker: its words, the ledger that it writes to, and what it may take."""

    words: Sequence[str]
    ledger: str
    jobs: int
    seconds: float


def score_there(order: Order) -> Ended:
    """Run the command; it does not outlive its worker, or a second one would find its lock held."""
    return Children(tied=True).run(order.words, order.ledger, order.jobs, order.seconds)


class Workers:
    """Runs nights like `Children` does, elsewhere.

    Parameters
    ----------
    cluster : Cluster
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def run(self, words: Sequence[str], ledger: str, jobs: int, seconds: float) -> Ended:
        """Run `screen WORDS` on a worker; what goes wrong there concerns this night alone."""
        try:
            (ended,) = self._cluster.map(score_there, [Order(words, ledger, jobs, seconds)])
        except UsageError as error:
            return Ended(2, [{"event": str(error), "exit_code": 2}])
        return ended

    def stop(self) -> None:
        """Call off what waits or works."""
        self._cluster.call_off()
