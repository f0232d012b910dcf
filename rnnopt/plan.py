"""A plan: operations over named buffers, as data.

A schedule emits operations in an order that is right; which of them depend on
each other is *derived* from what each reads and writes. So a plan can be
printed, counted, drawn, simulated, and executed in any order that its
dependencies allow, on any number of streams, to the same bits.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from rnnopt import kernels
from rnnopt.operations import Buffer, Copy, Gemm, Launch, Operation


@dataclass(frozen=True)
class Plan:
    """Buffers and operations, in an order that is right.

    Attributes
    ----------
    buffers : dict of str to Buffer
    operations : tuple of Gemm, Launch or Copy
        Each has a ``stream``: a hint of what may run beside what.
    cells : int
        Number of (layer, step) cells, to count operations by.
    """

    buffers: dict[str, Buffer]
    operations: tuple[Operation, ...]
    cells: int

    @cached_property
    def dependencies(self) -> tuple[tuple[int, ...], ...]:
        """For each operation, the earlier ones that it must wait for.

        Derived: it waits for writers of what it reads, and for writers and
        readers of what it writes. An access that a later write covers is
        forgotten, since whoever waits for that write waits for it too.
        """
        # Buffers over steps are long and touched a few steps at a time: they
        # are tracked by blocks of their first index, so that the cost stays linear.
        writers, readers = defaultdict(list), defaultdict(list)
        result = []
        for number, operation in enumerate(self.operations):
            waits = set()
            for view in operation.reads:
                for key in _tracks(view):
                    waits.update(n for n, seen in writers[key] if seen.overlaps(view))
            for view in operation.writes:
                for key in _tracks(view):
                    for table in (writers, readers):
                        waits.update(n for n, seen in table[key] if seen.overlaps(view))
            for view in operation.writes:
                for key in _tracks(view):
                    for table in (writers, readers):
                        table[key] = [(n, seen) for n, seen in table[key] if not view.covers(seen)]
                    writers[key].append((number, view))
            for view in operation.reads:
                for key in _tracks(view):
                    readers[key].append((number, view))
            waits.discard(number)
            result.append(tuple(sorted(waits)))
        return tuple(result)

    def legal(self, order=None) -> tuple[int, ...]:
        """Return `order`, or the plan's own, having made sure that a device may follow it.

        Raises
        ------
        ValueError
            If `order` does not hold every operation once, each after those that it depends on.
        """
        if order is None:
            return tuple(range(len(self.operations)))
        order = tuple(order)
        if sorted(order) != list(range(len(self.operations))):
            raise ValueError(f"order must hold each of the {len(self.operations)} operations once, got {order}")
        place = {number: at for at, number in enumerate(order)}
        for number, waits in enumerate(self.dependencies):
            for earlier in waits:
                if place[earlier] > place[number]:
                    raise ValueError(f"order runs operation {number} before {earlier}, which it depends on")
        return order

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Operations of the chain of dependencies with the most FLOPs (the longest among equals)."""
        best = []
        for operation, waits in zip(self.operations, self.dependencies, strict=True):
            flops, length, previous = max(((*best[n][:2], n) for n in waits), default=(0, 0, None))
            best.append((flops + operation.flops, length + 1, previous))
        chain, number = [], max(range(len(best)), key=lambda n: best[n][:2], default=None)
        while number is not None:
            chain.append(number)
            number = best[number][2]
        return tuple(reversed(chain))

    @property
    def gemms(self) -> int:
        return sum(isinstance(operation, Gemm) for operation in self.operations)

    @property
    def launches(self) -> int:
        return sum(isinstance(operation, Launch) for operation in self.operations)

    @property
    def copies(self) -> int:
        return sum(isinstance(operation, Copy) for operation in self.operations)

    @property
    def flops(self) -> int:
        return sum(operation.flops for operation in self.operations)

    @property
    def bytes_moved(self) -> int:
        """Bytes that the operations read and write, each operand counted once per operation."""
        return sum(view.nbytes for op in self.operations for view in (*op.reads, *op.writes))

    @property
    def streams(self) -> int:
        return len({operation.stream for operation in self.operations})

    def memory(self, *roles: str) -> int:
        """Bytes of all buffers, or of those with one of `roles`."""
        return sum(b.nbytes for b in self.buffers.values() if not roles or b.role in roles)

    @cached_property
    def kernel_files(self) -> tuple[str, ...]:
        """The ``.cu`` files that the launches of this plan come from."""
        names = {op.kernel for op in self.operations if isinstance(op, Launch)}
        return tuple(sorted({kernels.get(name).file for name in names}))

    @cached_property
    def fingerprint(self) -> str:
        """A hash that differs where plans do."""
        lines = [f"{b.name} {b.shape} {b.role}" for b in self.buffers.values()]
        lines += [f"{op.stream} {op} {(op.rows, op.cols) if isinstance(op, Launch) else ''}" for op in self.operations]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def counts(self) -> dict[str, int]:
        """What a record keeps of a plan."""
        return {
            "operations": len(self.operations), "gemms": self.gemms, "launches": self.launches, "copies": self.copies,
            "cells": self.cells, "streams": self.streams, "flops": self.flops, "bytes_moved": self.bytes_moved,
            "bytes_allocated": self.memory(), "critical_path": len(self.critical_path),
        }

    def summary(self) -> str:
        """A few lines for people: what is launched, what it costs, what limits it."""
        path = self.critical_path
        chain = sum(self.operations[n].flops for n in path)
        used = Counter(op.kernel for op in self.operations if isinstance(op, Launch))
        return "\n".join([
            f"{len(self.operations):,} operations on {self.streams} stream{'s' * (self.streams > 1)}, "
            f"{len(self.operations) / self.cells:.3g} per cell",
            f"  GEMMs     {self.gemms:>8,}   {self.gemms / self.cells:.3g} per cell",
            f"  launches  {self.launches:>8,}   {', '.join(f'{name} {n:,}' for name, n in used.most_common())}",
            f"  copies    {self.copies:>8,}",
            f"FLOPs       {self.flops:.4g}",
            f"bytes       {self.bytes_moved:.4g} moved, {self.memory():.4g} allocated "
            f"({self.memory('scratch'):.4g} scratch)",
            f"critical path: {len(path):,} operations, {chain:.4g} FLOPs; "
            f"parallelism {self.flops / chain if chain else 1:.3g}",
        ])


#: Most blocks that a buffer is tracked by: whoever touches all of it pays for each.
TRACKS = 1024


def _tracks(view):
    name, shape = view.buffer.name, view.buffer.shape
    if len(shape) < 3:
        return ((name, 0),)
    (start, stop), block = view.box[0], -(-shape[0] // TRACKS)
    return [(name, index) for index in range(start // block, (stop - 1) // block + 1)]
