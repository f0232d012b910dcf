"""What a schedule writes with: buffers, operations, and the operands of a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rnnopt.operations import Buffer, Copy, Gemm, Launch, View
from rnnopt.plan import Plan


class Builder:
    """Collects buffers and operations; streams are any hashable, numbered as they come."""

    def __init__(self):
        self._buffers: dict[str, Buffer] = {}
        self._operations = []
        self._streams = {}

    def buffer(self, name, shape, role) -> Buffer:
        """Return the buffer called `name`, declared on first use."""
        return self._buffers.setdefault(name, Buffer(name, tuple(shape), role))

    def gemm(self, out: View, a: View, b: View, transpose_b: bool, stream):
        self._operations.append(Gemm(out, a, b, transpose_b, self._stream(stream)))

    def launch(self, kernel: str, grid: View, operands, stream):
        """Launch `kernel` over as many rows and columns as `grid` has."""
        self._operations.append(Launch(kernel, grid.rows, grid.cols, tuple(operands), self._stream(stream)))

    def copy(self, out: View, source: View, stream):
        self._operations.append(Copy(out, source, self._stream(stream)))

    def plan(self, cells: int) -> Plan:
        return Plan(dict(self._buffers), tuple(self._operations), cells)

    def _stream(self, key):
        return self._streams.setdefault(key, len(self._streams))


@dataclass(frozen=True)
class Weight:
    """A weight matrix as a GEMM reads it.

    Attributes
    ----------
    buffer : Buffer
        (outputs, features) as torch stores it, or its transpose.
    transposed : bool
    """

    buffer: Buffer
    transposed: bool = False

    def outputs(self, start: int, stop: int) -> tuple[View, bool]:
        """The part that makes outputs `start` to `stop`, and whether a GEMM must transpose it."""
        if self.transposed:
            return self.buffer[:, start:stop], False
        return self.buffer[start:stop, :], True


@dataclass(frozen=True)
class CellOperands:
    """What the pointwise part of one (layer, step) cell works on.

    Attributes
    ----------
    input, recurrent : View
        The two products, (batch, gates × hidden).
    bias_ih, bias_hh : View
        (gates × hidden,), repeated for every row.
    previous, new : tuple of View
        (batch, hidden), one per state of the cell.
    scratch : callable
        Name -> View (batch, hidden) of a temporary of this layer.
    stream
    """

    input: View
    recurrent: View
    bias_ih: View
    bias_hh: View
    previous: tuple[View, ...]
    new: tuple[View, ...]
    scratch: Callable[[str], View]
    stream: object

    def gate(self, stacked: View, number: int) -> View:
        """The part of `stacked` that belongs to gate `number`."""
        hidden = self.new[0].cols
        start = stacked.box[-1][0] + number * hidden
        return View(stacked.buffer, (*stacked.box[:-1], (start, start + hidden)))
