"""Nights scored by the workers of a cluster, each still in a process of its own there."""

from __future__ import annotations

import multiprocessing

from screening.cluster import Cluster
from screening.errors import ClusterError
from screening.network.processes import Ended, Order, Processes


def score_there(order: Order) -> Ended:
    """Run the command in a process of its own there."""
    # Workers of dask are daemons, which may have no children; this one ends when its parent does.
    multiprocessing.current_process().daemon = False
    return Processes().run(order)


class Workers:
    """Runs nights like `Processes` does, elsewhere.

    Parameters
    ----------
    cluster : Cluster
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def run(self, order: Order) -> Ended:
        """Run a command on a worker; what goes wrong there concerns this night alone."""
        try:
            (ended,) = self._cluster.map(score_there, [order])
        except ClusterError as error:
            return Ended(2, [{"event": str(error), "exit_code": 2}])
        return ended

    def stop(self) -> None:
        """Call off what waits or works."""
        self._cluster.call_off()
