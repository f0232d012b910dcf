"""How ranks reach each other: an interface, and threads of one process as ranks. Processes are in :mod:`rnnopt.time_parallel.mpi`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue

from rnnopt.provenance import core_count


class Transport:
    """What a rank sends and receives by.

    Attributes
    ----------
    rank, size : int
        Its number, and how many there are.
    cores : int
        How many this rank may use: those of its machine are shared.
    """

    rank: int
    size: int
    cores: int

    def send(self, array, rank: int):
        """Begin to send a C-contiguous array, which must not change before :meth:`finish`; what is sent first arrives first."""
        raise NotImplementedError

    def receive(self, out, rank: int) -> Callable[[], None]:
        """Begin to receive into a C-contiguous array of the sender's shape and type; return what waits for it."""
        raise NotImplementedError

    def add(self, array):
        """Add up the arrays of all ranks, in place: the same bits on each."""
        raise NotImplementedError

    def share(self, array, rank: int):
        """Give all ranks, in place, what the array of one holds."""
        raise NotImplementedError

    def finish(self):
        """Wait until all that was sent has arrived."""


class RankLost(RuntimeError):
    """A rank that was waited for has failed; its own error says why."""


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


class Threads(Transport):
    """A transport within a process: one queue for each pair of ranks."""

    def __init__(self, rank, size, queues):
        self.rank, self.size, self._queues = rank, size, queues
        self.cores = max(1, core_count() // size)

    def send(self, array, rank):
        self._queues[self.rank, rank].put(array.copy())

    def receive(self, out, rank):
        def wait():
            out[...] = self._next(rank)
        return wait

    def add(self, array):
        for rank in range(self.size):
            self.send(array, rank)
        array[...] = sum(self._next(rank) for rank in range(self.size))

    def share(self, array, rank):
        if self.rank == rank:
            for other in range(self.size):
                self.send(array, other)
        array[...] = self._next(rank)

    def _next(self, rank):
        array = self._queues[rank, self.rank].get()
        if array is None:
            raise RankLost(f"rank {self.rank} waited for rank {rank}, which has failed")
        return array
