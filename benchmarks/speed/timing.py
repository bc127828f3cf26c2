"""Interleaved timings in one process: medians, and the spread of the ratios of
neighbouring runs.

Seconds of the clock; of the processor where PROCESSOR_SECONDS is set, for a machine
that others use as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

clock = time.process_time if os.environ.get("PROCESSOR_SECONDS") else time.perf_counter


@dataclass(frozen=True)
class Comparison:
    """Seconds of two ways to do one work, run in turn.

    Parameters
    ----------
    work, against : str
    ours, theirs : ndarray of shape (n_repeats,)
        Seconds.
    wanted : float
        Ratio to reach.
    agreement : str
        How far the two results are apart.
    """

    work: str
    against: str
    ours: np.ndarray
    theirs: np.ndarray
    wanted: float
    agreement: str

    def row(self) -> str:
        """One line of the table."""
        ratios = self.theirs / self.ours
        seconds = f"{np.median(self.ours):.3g} s | {np.median(self.theirs):.3g} s"
        return (
            f"| {self.work} | {self.against} | {seconds} | "
            f"{np.median(ratios):.1f} ({ratios.min():.1f} to {ratios.max():.1f}) | {self.wanted:g} | "
            f"{self.agreement} |"
        )


HEADER = "| work | against | ours | theirs | ratio (range) | wanted | agreement |\n|---|---|---|---|---|---|---|"


def compare(
    work: str,
    against: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    agreement: Callable[[Any, Any], str],
    wanted: float,
    repeats: int,
) -> Comparison:
    """Run both once to warm up and to compare results, then in turn ``repeats``
    times.
    """
    told = agreement(ours(), theirs())
    seconds = np.empty((repeats, 2))
    for repeat in range(repeats):
        for column, run in enumerate((ours, theirs)):
            start = clock()
            run()
            seconds[repeat, column] = clock() - start
    return Comparison(work, against, seconds[:, 0], seconds[:, 1], wanted, told)
