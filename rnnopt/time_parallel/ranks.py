"""A system whose units are shared by ranks: each has some of the coarsest level's points, and of every other level what lies between them.

Layouts are those of :mod:`rnnopt.time_parallel.hierarchy`, with fewer units. What goes from rank to rank is the state where one's
last interval ends and the next one's first begins: after C-relaxation, before and after the coarsest solve, and for a norm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue

import numpy as np

from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.systems import Adjoint, Recurrence, System


def shares(hierarchy: Hierarchy, ranks: int) -> list[tuple[int, int]]:
    """First and end unit of each rank that has one: there are no more ranks at work than units."""
    ranks = min(ranks, hierarchy.units)
    return [(hierarchy.units * rank // ranks, hierarchy.units * (rank + 1) // ranks) for rank in range(ranks)]


class Ranked(System):
    """What a system does beside its own work when it is one of several.

    Attributes
    ----------
    transport
        Has ``rank``, ``size``, ``send(array, rank)``, ``receive(rank)`` and ``sum(array)``.
    """

    transport = None

    def _neighbour(self, ahead: bool):
        rank = self.transport.rank + (1 if ahead != self.way.reverse else -1)
        return rank if 0 <= rank < self.transport.size else None

    def _ends(self, level):
        """Indices of the first interval's C-point and of the last interval's candidate."""
        places, *rest = self.hierarchy.shape(level)
        first, last = zip(*map(self.way.edges, rest), strict=True) if rest else ((), ())
        return (self.way.c_point(places), *first), (self.way.candidate(places), *last)

    def _send(self, level):
        if (rank := self._neighbour(ahead=True)) is not None:
            self.transport.send(np.stack([part[self._ends(level)[1]] for part in self.u[level]]), rank)

    def _receive(self):
        """What the rank behind has sent, or None on the first."""
        rank = self._neighbour(ahead=False)
        return None if rank is None else self.transport.receive(rank)

    def _take_over(self, level):
        if (received := self._receive()) is not None:
            for part, value in zip(self.u[level], received, strict=True):
                part[self._ends(level)[0]] = value

    def step(self, level, number, corrected=True):
        coarsest = level == self.hierarchy.coarsest
        if coarsest and number == 0:
            self._take_over(level)
        super().step(level, number, corrected)
        if coarsest and number == self.hierarchy.units - 1:
            self._send(level)

    def exchange(self, level):
        super().exchange(level)
        self._send(level)
        self._take_over(level)

    def norm(self):
        super().norm()
        sums = np.square(self.norms.pop())
        self._send(0)
        if (received := self._receive()) is not None:
            c_points = np.stack([part[self._ends(0)[0]] for part in self.u[0]])
            sums += np.sum((received - c_points) ** 2), np.sum(c_points ** 2)
        self.norms.append(tuple(np.sqrt(self.transport.sum(sums))))


class RankedRecurrence(Ranked, Recurrence):
    """A rank's part of a recurrence; its inputs are those of its steps, and only the first rank's `initial` counts."""


class RankedAdjoint(Ranked, Adjoint):
    """A rank's part of an adjoint."""


def in_threads(work: Callable, ranks: int) -> list:
    """Run ``work(transport)`` for each rank in a thread of its own; return the results by rank, or raise what a rank raised first."""
    queues = {(a, b): Queue() for a in range(ranks) for b in range(ranks)}
    results, errors = [None] * ranks, []

    def run(rank):
        try:
            results[rank] = work(Threads(rank, ranks, queues))
        except BaseException as error:
            errors.append(error)
            for queue in queues.values():  # nobody waits for a rank that is gone
                queue.put(None)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class RankLost(RuntimeError):
    """A rank that was waited for has failed; its own error says why."""


class Threads:
    """A transport within a process: one queue for each pair of ranks."""

    def __init__(self, rank, size, queues):
        self.rank, self.size, self._queues = rank, size, queues

    def send(self, array, rank):
        self._queues[self.rank, rank].put(array.copy())

    def receive(self, rank):
        array = self._queues[rank, self.rank].get()
        if array is None:
            raise RankLost(f"rank {self.rank} waited for rank {rank}, which has failed")
        return array

    def sum(self, array):
        """Sum over all ranks, in the order of the ranks: the same bits on each."""
        array = np.asarray(array, np.float64)
        for rank in range(self.size):
            self._queues[self.rank, rank].put(array.copy())
        return sum(self.receive(rank) for rank in range(self.size))
