"""A plan as a program for the native executor."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from rnnopt import kernels
from rnnopt.devices.host import blas, compiler
from rnnopt.devices.host.lowering import Pack, lowered
from rnnopt.devices.host.memory import LINE, aligned_empty
from rnnopt.operations import FLOAT_BYTES, Copy, Gemm, Launch

FOLDER = Path(__file__).parent

#: Kinds of operations, as executor.cpp numbers them.
BLAS_GEMM, LAUNCH, COPY, PACK, PACKED_GEMM, OWN_GEMM = range(6)


class ProgramStruct(ctypes.Structure):
    _fields_ = [("operations", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("waits", ctypes.c_void_p),
                ("relocations", ctypes.c_void_p), ("relocation_count", ctypes.c_int64),
                ("list", ctypes.c_void_p), ("list_start", ctypes.c_void_p), ("streams", ctypes.c_int64),
                ("workers", ctypes.c_int64), ("done", ctypes.c_void_p), ("sgemm", ctypes.c_void_p), ("sgemv", ctypes.c_void_p)]


class Program:
    """The arrays that executor.cpp reads (its structs say what is in them).

    Parameters
    ----------
    plan : Plan
    names : list of str
        Of the buffers, in the order in which `run` gets their addresses.
    order : sequence of int
    workers : int
    own : bool
        Whether products that this package makes faster than BLAS are its own
        (gemm.h, :mod:`rnnopt.devices.host.lowering`); each of them uses one thread.
    room : ndarray of float32, optional
        For packed weights, if it is large enough: that of a program which never runs at the same time.

    Attributes
    ----------
    room : ndarray of float32
    """

    def __init__(self, plan, names, order, workers, own, room=None):
        number_of = {name: n for n, name in enumerate(names)}
        operations, slots, waits, relocations = [], [], [], []
        steps, depends, order = lowered(plan, order, own)
        lists = {operation.stream: [] for operation in plan.operations}
        packed, packed_at, total = {}, [], 0  # number of a packing -> its place; slots that hold such a place

        def pointer(view):
            relocations.append((len(slots), number_of[view.buffer.name], FLOAT_BYTES * view.offset))
            slots.append(0)

        for number, (operation, needed) in enumerate(zip(steps, depends, strict=True)):
            first = len(slots)
            entry = 0
            if isinstance(operation, Gemm):
                kind = OWN_GEMM if own and operation.transpose_a else BLAS_GEMM
                for view in (operation.out, operation.a, operation.b):
                    pointer(view)
                slots += [*operation.shape, operation.out.ld, operation.a.ld, operation.b.ld,
                          operation.transpose_a, operation.transpose_b, operation.accumulate]
            elif isinstance(operation, Launch):
                kind, entry = LAUNCH, entry_point(operation.kernel)
                slots += [operation.rows, operation.cols]
                for view in operation.operands:
                    pointer(view)
                    slots.append(view.ld)
                slots += map(kernels.bits, operation.scalars)
            elif isinstance(operation, Copy):
                kind = COPY
                pointer(operation.out)
                pointer(operation.source)
                slots += [operation.out.rows, operation.out.cols, operation.out.ld, operation.source.ld]
            elif isinstance(operation, Pack):
                kind = PACK
                packed[number] = total
                total += -(-_executor().rnnopt_packed_size(*operation.shape) // LINE) * LINE
                packed_at.append(len(slots))
                slots.append(packed[number])
                pointer(operation.source)
                slots += [*operation.shape[::-1], operation.source.ld, operation.transposed]
            else:
                kind, gemm = PACKED_GEMM, operation.gemm
                pointer(gemm.out)
                pointer(gemm.a)
                packed_at.append(len(slots))
                slots += [packed[operation.pack], *gemm.shape, gemm.out.ld, gemm.a.ld, gemm.transpose_a, gemm.accumulate]
            foreign = [n for n in needed if steps[n].stream != operation.stream]
            operations.append((kind, entry, first, len(slots) - first, len(waits), len(foreign)))
            waits += foreign
        for number in order:
            lists[steps[number].stream].append(number)

        self.room = room if room is not None and room.size >= total else aligned_empty((total,))
        for slot in packed_at:
            slots[slot] = self.room.ctypes.data + FLOAT_BYTES * slots[slot]
        starts = np.cumsum([0] + [len(part) for part in lists.values()])
        self._kept = [np.array(rows, dtype=np.int64) for rows in
                      (operations, slots, waits or [0], relocations, [n for part in lists.values() for n in part], starts)]
        done = np.zeros(len(operations), dtype=np.uint32)
        self._kept.append(done)
        at = [array.ctypes.data for array in self._kept]
        self._struct = ProgramStruct(at[0], at[1], at[2], at[3], len(relocations), at[4], at[5], len(lists),
                                     workers, at[6], blas.address("sgemm"), blas.address("sgemv"))
        self._replays = 0

    def run(self, bases):
        # The mark of the last replay; 0 means never, so it is left out when the count wraps.
        self._replays = self._replays % (2**32 - 1) + 1
        failed = _executor().rnnopt_replay(ctypes.byref(self._struct), bases.ctypes.data, self._replays)
        if failed:
            raise RuntimeError("the system gave no thread for a worker; open the host device with workers=1")


@cache
def _executor():
    source, header = ((FOLDER / name).read_text(encoding="utf-8") for name in ("executor.cpp", "gemm.h"))
    library = ctypes.CDLL(str(compiler.build("executor", source, {"gemm.h": header})))
    library.rnnopt_packed_size.argtypes = [ctypes.c_int64, ctypes.c_int64]
    library.rnnopt_packed_size.restype = ctypes.c_int64
    library.rnnopt_replay.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    library.rnnopt_replay.restype = ctypes.c_int
    return library


def entry_point(kernel: str) -> int:
    """Address of the entry point of `kernel`, its file built on first use."""
    library = _library(kernels.get(kernel).file)
    return ctypes.cast(getattr(library, f"{kernel}__entry"), ctypes.c_void_p).value


@cache
def _library(file):
    entries = "\n".join(f"ENTRY({kernel.name})" for kernel in kernels.catalogue().values() if kernel.file == file)
    headers = kernels.sources(file) | {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("host.h", "host_math.h")}
    source = f'#include "host.h"\n#include "{file}"\n{entries}\n'
    return ctypes.CDLL(str(compiler.build(Path(file).stem, source, headers)))
