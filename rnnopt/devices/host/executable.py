"""A plan as a program for the native executor."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np

from rnnopt import kernels
from rnnopt.devices.host import blas, compiler, cores
from rnnopt.operations import FLOAT_BYTES, Copy, Gemm, Launch
from rnnopt.plan import Plan

FOLDER = Path(__file__).parent
ALIGNMENT = 64


class HostExecutable:
    """A plan ready to be replayed on CPU threads.

    Parameters
    ----------
    plan : Plan
    workers : int, optional
        Threads that share the streams among them; at most one per stream. As
        many as there are cores if not given. BLAS gets one thread in each of
        several workers, all cores in a single one: never more than there are.
    order : sequence of int, optional
        Order in which operations are issued, each after what it depends on;
        the plan's own if not given. Makes no difference to a result.
    """

    def __init__(self, plan: Plan, workers: int | None = None, order=None):
        self.plan = plan
        self.workers = min(workers or cores(), plan.streams)
        self.blas_threads = 1 if self.workers > 1 else cores()
        self._names = list(plan.buffers)
        self._arrays = {name: aligned_empty(buffer.shape)
                        for name, buffer in plan.buffers.items() if buffer.role == "scratch"}
        self._program = _Program(plan, self._names, _share(plan, self.workers), order)

    def load(self, arrays):
        """Give inputs and weights, by buffer name: float32, C-contiguous, not copied."""
        for name, array in arrays.items():
            if name in self.plan.buffers:
                self._arrays[name] = array

    def replay(self) -> float:
        """Run the plan once; return the seconds it took."""
        for name, buffer in self.plan.buffers.items():
            if buffer.role == "output" and name not in self._arrays:
                self._arrays[name] = aligned_empty(buffer.shape)
        bases = np.array([self._arrays[name].ctypes.data for name in self._names], dtype=np.int64)
        with blas.threads(self.blas_threads):
            start = perf_counter()
            self._program.run(bases)
            return perf_counter() - start

    def result(self, name) -> np.ndarray:
        """Return an output of the last replay; the next one makes a new array."""
        return self._arrays.pop(name)


def aligned_empty(shape) -> np.ndarray:
    """Return an uninitialised float32 array that starts on a cache line."""
    count = int(np.prod(shape))
    raw = np.empty(count + ALIGNMENT // FLOAT_BYTES, dtype=np.float32)
    start = -raw.ctypes.data % ALIGNMENT // FLOAT_BYTES
    return raw[start:start + count].reshape(shape)


def _share(plan, workers):
    """Assign each stream to a worker, the costliest first, each to the least loaded."""
    cost = {}
    for operation in plan.operations:
        moved = sum(view.nbytes for view in (*operation.reads, *operation.writes))
        cost[operation.stream] = cost.get(operation.stream, 0) + operation.flops + moved
    load, worker_of = [0] * workers, {}
    for stream in sorted(cost, key=lambda s: (-cost[s], s)):
        worker = load.index(min(load))
        worker_of[stream] = worker
        load[worker] += cost[stream]
    return worker_of


class _ProgramStruct(ctypes.Structure):
    _fields_ = [("operations", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("waits", ctypes.c_void_p),
                ("relocations", ctypes.c_void_p), ("relocation_count", ctypes.c_int64),
                ("list", ctypes.c_void_p), ("list_start", ctypes.c_void_p), ("workers", ctypes.c_int64),
                ("done", ctypes.c_void_p), ("sgemm", ctypes.c_void_p), ("sgemv", ctypes.c_void_p)]


class _Program:
    """The arrays that executor.cpp reads (its structs say what is in them)."""

    def __init__(self, plan, names, worker_of, order):
        number_of = {name: n for n, name in enumerate(names)}
        operations, slots, waits, relocations = [], [], [], []
        workers = max(worker_of.values()) + 1
        lists = [[] for _ in range(workers)]

        def pointer(view):
            relocations.append((len(slots), number_of[view.buffer.name], FLOAT_BYTES * view.offset))
            slots.append(0)

        for operation, depends in zip(plan.operations, plan.dependencies, strict=True):
            first = len(slots)
            entry = 0
            if isinstance(operation, Gemm):
                kind = 0
                for view in (operation.out, operation.a, operation.b):
                    pointer(view)
                slots += [*operation.shape, operation.out.ld, operation.a.ld, operation.b.ld, operation.transpose_b]
            elif isinstance(operation, Launch):
                kind, entry = 1, _entry(operation.kernel)
                slots += [operation.rows, operation.cols]
                for view in operation.operands:
                    pointer(view)
                    slots.append(view.ld)
            elif isinstance(operation, Copy):
                kind = 2
                pointer(operation.out)
                pointer(operation.source)
                slots += [operation.out.rows, operation.out.cols, operation.out.ld, operation.source.ld]
            mine = worker_of[operation.stream]
            foreign = [n for n in depends if worker_of[plan.operations[n].stream] != mine]
            operations.append((kind, entry, first, len(slots) - first, len(waits), len(foreign)))
            waits += foreign
        for number in range(len(operations)) if order is None else order:
            lists[worker_of[plan.operations[number].stream]].append(number)

        starts = np.cumsum([0] + [len(part) for part in lists])
        self._kept = [np.array(rows, dtype=np.int64) for rows in
                      (operations, slots, waits or [0], relocations, [n for part in lists for n in part], starts)]
        done = np.zeros(len(operations), dtype=np.uint32)
        self._kept.append(done)
        at = [array.ctypes.data for array in self._kept]
        self._struct = _ProgramStruct(at[0], at[1], at[2], at[3], len(relocations), at[4], at[5], workers,
                                      at[6], blas.address("sgemm"), blas.address("sgemv"))
        self._replays = 0

    def run(self, bases):
        # The mark of the last replay; 0 means never, so it is left out when the count wraps.
        self._replays = self._replays % (2**32 - 1) + 1
        failed = _executor().rnnopt_replay(ctypes.byref(self._struct), bases.ctypes.data, self._replays)
        if failed:
            raise RuntimeError("the system gave no thread for a worker; open the host device with workers=1")


@cache
def _executor():
    library = ctypes.CDLL(str(compiler.build("executor", (FOLDER / "executor.cpp").read_text(), {})))
    library.rnnopt_replay.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    library.rnnopt_replay.restype = ctypes.c_int
    return library


def _entry(kernel):
    """Address of the entry point of `kernel`, its file built on first use."""
    library = _library(kernels.get(kernel).file)
    return ctypes.cast(getattr(library, f"{kernel}__entry"), ctypes.c_void_p).value


@cache
def _library(file):
    entries = "\n".join(f"ENTRY({kernel.name})" for kernel in kernels.catalogue().values() if kernel.file == file)
    headers = kernels.sources(file) | {name: (FOLDER / name).read_text() for name in ("host.h", "host_math.h")}
    source = f'#include "host.h"\n#include "{file}"\n{entries}\n'
    return ctypes.CDLL(str(compiler.build(Path(file).stem, source, headers)))
