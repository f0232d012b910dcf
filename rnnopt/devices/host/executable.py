"""A plan, ready to be replayed on the CPU."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rnnopt.devices.host import blas
from rnnopt.devices.host.memory import aligned_empty, arena
from rnnopt.devices.host.program import Program
from rnnopt.plan import Plan
from rnnopt.provenance import core_count

#: FLOPs in the time of moving a byte between caches and a core.
BYTE_COST = 4

#: Mean cost of an operation from which on several cores were faster (docs/optimisations.md).
WORTH_SHARING = 1e6


class HostExecutable:
    """A plan ready to be replayed on CPU threads.

    Parameters
    ----------
    plan : Plan
    workers : int, optional
        Threads that run the streams' operations; at most one per stream. If
        not given, as many as there are cores, or one where operations are too
        short to be worth handing over. BLAS gets one thread in each of several
        workers and all cores in a single one, again if that is worth it: never
        more than there are.
    order : sequence of int, optional
        Order in which the operations of each stream are issued, each after
        what it depends on; the plan's own if not given. Between streams the
        workers choose. Makes no difference to a result.
    blas_threads : int, optional
        Threads of BLAS in each worker, if not as many as said above. A product
        may be rounded differently with another number of them.
    share : HostExecutable, optional
        Buffers that it has too, by name, are the same memory.
    cores : int, optional
        Cores to use, if not all that this process may.

    Raises
    ------
    ValueError
        If `order` runs an operation before one that it depends on.
    """

    def __init__(self, plan: Plan, workers: int | None = None, order=None, blas_threads: int | None = None, share=None,
                 cores: int | None = None):
        self.plan = plan
        cores = (cores or core_count()) if _worth_sharing(plan) else 1
        self.workers = min(workers or cores, plan.streams)
        self.blas_threads = blas_threads or (1 if self.workers > 1 else cores)
        self._names = list(plan.buffers)
        self._arrays = {} if share is None else share._arrays
        self._taken = set() if share is None else share._taken  # outputs that are the caller's now
        self._arrays.update(arena(b for b in plan.buffers.values() if b.role == "scratch" and b.name not in self._arrays))
        self._program = Program(plan, self._names, plan.legal(order), self.workers, own=self.blas_threads == 1,
                                room=None if share is None else share._program.room)

    def load(self, arrays):
        """Give inputs, weights and states, by buffer name: float32, C-contiguous, not copied."""
        for name, array in arrays.items():
            if name in self.plan.buffers:
                self._arrays[name] = array

    def replay(self) -> float:
        """Run the plan once; return the seconds it took."""
        for name, buffer in self.plan.buffers.items():
            if buffer.role == "output" and (name in self._taken or name not in self._arrays):
                self._arrays[name] = aligned_empty(buffer.shape)
                self._taken.discard(name)
        bases = np.array([self._arrays[name].ctypes.data for name in self._names], dtype=np.int64)
        with blas.threads(self.blas_threads):
            start = perf_counter()
            self._program.run(bases)
            return perf_counter() - start

    def result(self, name) -> np.ndarray:
        """Return an output of the last replay; the next one makes a new array."""
        self._taken.add(name)
        return self._arrays[name]


def _worth_sharing(plan):
    """Whether an operation takes, on average, much longer than telling another core that it is done."""
    return plan.flops + BYTE_COST * plan.bytes_moved >= WORTH_SHARING * len(plan.operations)
