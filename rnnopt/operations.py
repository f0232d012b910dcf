"""What a plan consists of: buffers, views of them, and operations on views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from rnnopt import kernels
from rnnopt.spec import MAX_ELEMENTS

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Buffer:
    """A named float32 array, C-contiguous.

    Attributes
    ----------
    name : str
    shape : tuple of int
    role : {"input", "weight", "state", "saved", "output", "scratch"}
        Inputs and weights are given to a run and never written by it; states
        are given to it and updated in place; outputs are taken from it; scratch
        lives inside a device. What is saved belongs to another plan, whose
        executable shares it (``device.prepare(spec, plan, share)``).
    """

    name: str
    shape: tuple[int, ...]
    role: str

    def __post_init__(self):
        if prod(self.shape) > MAX_ELEMENTS:
            raise ValueError(f"buffer {self.name} of shape {self.shape} has {prod(self.shape):,} elements; kernels index "
                             f"with 32-bit integers, so at most {MAX_ELEMENTS:,} are possible: reduce one of these sizes")

    @property
    def nbytes(self) -> int:
        return FLOAT_BYTES * prod(self.shape)

    def __getitem__(self, key) -> View:
        """Select a region by one index or slice (step 1) per axis, as NumPy does."""
        key = key if isinstance(key, tuple) else (key,)
        if len(key) > len(self.shape):
            raise IndexError(f"{self.name}{list(self.shape)} has no region {key}")
        key += (slice(None),) * (len(self.shape) - len(key))
        box = []
        for part, extent in zip(key, self.shape, strict=True):
            start, stop, step = part.indices(extent) if isinstance(part, slice) else (part, part + 1, 1)
            if not 0 <= start < stop <= extent or step != 1:
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
    """out = a · b, all row-major.

    Attributes
    ----------
    out, a, b : View
    transpose_a, transpose_b : bool
        Whether aᵀ stands for a, and bᵀ for b.
    accumulate : bool
        Whether the product is added to what `out` holds.
    stream : int
    """

    out: View
    a: View
    b: View
    transpose_a: bool = False
    transpose_b: bool = False
    accumulate: bool = False
    stream: int = 0

    def __post_init__(self):
        rows, inner = (self.a.cols, self.a.rows) if self.transpose_a else (self.a.rows, self.a.cols)
        same, cols = (self.b.cols, self.b.rows) if self.transpose_b else (self.b.rows, self.b.cols)
        if (rows, inner, cols) != (self.out.rows, same, self.out.cols):
            raise ValueError(f"shapes of {self} don't fit")

    @property
    def reads(self):
        return (self.a, self.b, self.out) if self.accumulate else (self.a, self.b)

    @property
    def writes(self):
        return (self.out,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and inner length of the product."""
        return self.out.rows, self.out.cols, self.a.rows if self.transpose_a else self.a.cols

    @property
    def flops(self) -> int:
        return 2 * prod(self.shape)

    def __str__(self):
        a, b = (f"{view}{'ᵀ' * turned}" for view, turned in ((self.a, self.transpose_a), (self.b, self.transpose_b)))
        return f"{self.out} {'+' * self.accumulate}= {a} · {b}"


@dataclass(frozen=True)
class Launch:
    """One kernel over a grid of rows × cols elements.

    `operands` follow the kernel's matrix parameters; which of them it reads
    and which it writes, its signature says. `scalars` are the parameters after them.
    """

    kernel: str
    rows: int
    cols: int
    operands: tuple[View, ...]
    stream: int = 0
    scalars: tuple[int | float, ...] = ()

    def __post_init__(self):
        kernel = kernels.get(self.kernel)
        for what, given, expected in (("matrices", self.operands, kernel.matrices), ("scalars", self.scalars, kernel.scalars)):
            if len(given) != len(expected):
                raise ValueError(f"kernel {self.kernel} takes {len(expected)} {what} "
                                 f"({', '.join(name for name, _ in expected)}), got {len(given)}")

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
        return f"{', '.join(map(str, self.writes))} = {self.kernel}({', '.join(map(str, (*self.reads, *self.scalars)))})"


@dataclass(frozen=True)
class Copy:
    """out = source."""

    out: View
    source: View
    stream: int = 0

    flops = 0

    def __post_init__(self):
        if (self.out.rows, self.out.cols) != (self.source.rows, self.source.cols):
            raise ValueError(f"shapes of {self} don't fit")

    @property
    def reads(self):
        return (self.source,)

    @property
    def writes(self):
        return (self.out,)

    def __str__(self):
        return f"{self.out} = {self.source}"


Operation = Gemm | Launch | Copy
