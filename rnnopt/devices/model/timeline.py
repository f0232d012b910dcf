"""What a simulation tells: when each operation runs, what it waited for, what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rnnopt.devices.model.card import Card
from rnnopt.devices.model.costs import Work
from rnnopt.operations import Copy, Gemm
from rnnopt.plan import Plan


@dataclass(frozen=True)
class Timeline:
    """Predicted times of a plan's operations on a card; all in seconds from the first launch.

    Attributes
    ----------
    plan : Plan
    card : Card
    works : list of Work
    start, end : ndarray of float, one per operation
    causes : list of int
        The operation whose end let it start; -1 where the host's launch did.
    busy : list of (float, int)
        How many SMs have a block, from a time on.
    latency : float
    issued : ndarray of float
        When the host had launched it.
    """

    plan: Plan
    card: Card
    works: list[Work]
    start: np.ndarray
    end: np.ndarray
    causes: list[int]
    busy: list[tuple[float, int]]
    latency: float
    issued: np.ndarray

    @property
    def seconds(self) -> float:
        """From the first launch to the end of the last operation."""
        return float(self.end.max())

    @property
    def occupancy(self) -> float:
        """Share of the SMs that have a block, averaged over time."""
        times, busy = map(np.array, zip(*self.busy, strict=True))
        return float((np.diff(times) * busy[:-1]).sum() / self.seconds / self.card.sms)

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Operations that waited for each other without a pause, from the start to the last end."""
        chain, number = [], int(self.end.argmax())
        while number >= 0:
            chain.append(number)
            number = self.causes[number]
        return tuple(reversed(chain))

    def bounds(self) -> dict[str, float]:
        """Seconds of the critical path by what bounds them.

        ``latency``: a GEMM's blocks wait for operands; ``arithmetic``: its SMs' multiply-adds are used up;
        ``memory``: bytes move; ``launch``: nothing runs, since one operation has ended and the next
        has yet to start, or the host has yet to issue it.
        """
        seconds = dict.fromkeys(("arithmetic", "latency", "memory", "launch"), 0.0)
        for number in self.critical_path:
            work, took = self.works[number], self.end[number] - self.start[number]
            # What is slowed beyond its own time shares an SM, or the memory.
            shared = took > 1.01 * work.seconds
            seconds["arithmetic" if shared and work.demand else work.bound] += took
        seconds["launch"] = self.seconds - sum(seconds.values())
        return seconds

    def frame(self):
        """One row per operation: ``stream``, ``kind``, ``what``, ``start`` and ``end`` (µs), ``bound``, ``blocks``, ``critical``."""
        import pandas as pd

        path = set(self.critical_path)
        return pd.DataFrame([{
            "operation": number, "stream": operation.stream, "kind": kind_of(operation), "what": str(operation),
            "start": 1e6 * self.start[number], "end": 1e6 * self.end[number], "bound": self.works[number].bound,
            "blocks": self.works[number].blocks, "critical": number in path,
        } for number, operation in enumerate(self.plan.operations)])


def kind_of(operation) -> str:
    """``"gemm"``, ``"transpose"``, ``"pointwise"`` or ``"copy"``."""
    if isinstance(operation, Gemm):
        return "gemm"
    if isinstance(operation, Copy):
        return "copy"
    return "transpose" if operation.kernel == "transpose" else "pointwise"
