"""A plan: operations over named buffers, as data.

A schedule emits operations in an order that is right; which of them depend on
each other is *derived* from what each reads and writes. So a plan can be
printed, counted, drawn, simulated, and executed in any order that its
dependencies allow, on any number of streams, to the same bits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import prod

from rnnopt import kernels

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Buffer:
    """A named float32 array, C-contiguous.

    Attributes
    ----------
    name : str
    shape : tuple of int
    role : {"input", "weight", "output", "scratch"}
        Inputs and weights are given to a run and never written by it; outputs
        are taken from it; scratch lives inside a device.
    """

    name: str
    shape: tuple[int, ...]
    role: str

    @property
    def nbytes(self) -> int:
        return FLOAT_BYTES * prod(self.shape)

    def __getitem__(self, key) -> View:
        """Select a region by one index or slice (step 1) per axis, as NumPy does."""
        key = key if isinstance(key, tuple) else (key,)
        key += (slice(None),) * (len(self.shape) - len(key))
        box = []
        for part, extent in zip(key, self.shape, strict=True):
            start, stop = part.indices(extent)[:2] if isinstance(part, slice) else (part, part + 1)
            if not 0 <= start < stop <= extent:
                raise IndexError(f"{self.name}{list(self.shape)} has no region {key}")
            box.append((start, stop))
        return View(self, tuple(box))


@dataclass(frozen=True)
class View:
    """A box of a buffer, seen as a row-major matrix.

    A one-dimensional buffer is a row that a kernel may repeat (its leading
    dimension is 0). Elsewhere the axes before the last collapse into rows.
    """

    buffer: Buffer
    box: tuple[tuple[int, int], ...]

    @cached_property
    def layout(self) -> tuple[int, int, int, int]:
        """Offset of the first element, rows, columns, leading dimension (in elements)."""
        shape = self.buffer.shape
        strides = [prod(shape[axis + 1:]) for axis in range(len(shape))]
        offset = sum(start * stride for (start, _), stride in zip(self.box, strides, strict=True))
        extents = [stop - start for start, stop in self.box]
        rows, ld = 1, 0 if len(shape) == 1 else strides[-2]
        for extent, stride in reversed(list(zip(extents[:-1], strides[:-1], strict=True))):
            if extent > 1:
                if rows > 1 and stride != rows * ld:
                    raise ValueError(f"{self} has rows that are not evenly spaced: it is no matrix")
                ld = stride if rows == 1 else ld
                rows *= extent
        return offset, rows, extents[-1], ld

    offset = property(lambda self: self.layout[0])
    rows = property(lambda self: self.layout[1])
    cols = property(lambda self: self.layout[2])
    ld = property(lambda self: self.layout[3])

    @property
    def nbytes(self) -> int:
        return FLOAT_BYTES * self.rows * self.cols

    def overlaps(self, other: View) -> bool:
        return all(a < d and c < b for (a, b), (c, d) in zip(self.box, other.box, strict=True))

    def covers(self, other: View) -> bool:
        return all(a <= c and d <= b for (a, b), (c, d) in zip(self.box, other.box, strict=True))

    def __str__(self):
        parts = [str(a) if b == a + 1 else ":" if (a, b) == (0, n) else f"{a}:{b}"
                 for (a, b), n in zip(self.box, self.buffer.shape, strict=True)]
        return f"{self.buffer.name}[{', '.join(parts)}]"


@dataclass(frozen=True)
class Gemm:
    """out = a · b, or a · bᵀ where `transpose_b`; all row-major."""

    out: View
    a: View
    b: View
    transpose_b: bool
    stream: int = 0

    def __post_init__(self):
        inner, cols = (self.b.cols, self.b.rows) if self.transpose_b else (self.b.rows, self.b.cols)
        if (self.a.rows, self.a.cols, cols) != (self.out.rows, inner, self.out.cols):
            raise ValueError(f"shapes of {self} don't fit")

    @property
    def reads(self):
        return (self.a, self.b)

    @property
    def writes(self):
        return (self.out,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and inner length of the product."""
        return self.out.rows, self.out.cols, self.a.cols

    @property
    def flops(self) -> int:
        return 2 * prod(self.shape)

    def __str__(self):
        return f"{self.out} = {self.a} · {self.b}{'ᵀ' if self.transpose_b else ''}"


@dataclass(frozen=True)
class Launch:
    """One kernel over a grid of rows × cols elements.

    `operands` follow the kernel's matrix parameters; which of them it reads
    and which it writes, its signature says.
    """

    kernel: str
    rows: int
    cols: int
    operands: tuple[View, ...]
    stream: int = 0

    def __post_init__(self):
        expected = [name for name, _ in kernels.get(self.kernel).matrices]
        if len(self.operands) != len(expected):
            raise ValueError(f"kernel {self.kernel} takes {len(expected)} matrices "
                             f"({', '.join(expected)}), got {len(self.operands)}")

    def _operands(self, written):
        matrices = kernels.get(self.kernel).matrices
        return tuple(view for view, (_, writes) in zip(self.operands, matrices, strict=True) if writes == written)

    @cached_property
    def reads(self):
        return self._operands(written=False)

    @cached_property
    def writes(self):
        return self._operands(written=True)

    @property
    def flops(self) -> int:
        return kernels.get(self.kernel).flops_per_element * self.rows * self.cols

    def __str__(self):
        return f"{', '.join(map(str, self.writes))} = {self.kernel}({', '.join(map(str, self.reads))})"


@dataclass(frozen=True)
class Copy:
    """out = source."""

    out: View
    source: View
    stream: int = 0

    flops = 0

    @property
    def reads(self):
        return (self.source,)

    @property
    def writes(self):
        return (self.out,)

    def __str__(self):
        return f"{self.out} = {self.source}"


Operation = Gemm | Launch | Copy


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
        # are tracked by their first index, so that the cost stays linear.
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
                if view.buffer.role == "scratch" or view.buffer.role == "output":
                    for key in _tracks(view):
                        readers[key].append((number, view))
            waits.discard(number)
            result.append(tuple(sorted(waits)))
        return tuple(result)

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


def _tracks(view):
    name = view.buffer.name
    if len(view.box) < 3:
        return ((name, 0),)
    return tuple((name, index) for index in range(*view.box[0]))
