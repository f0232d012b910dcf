"""What a schedule writes with: buffers and operations, and how sequences and weights are laid out in them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from rnnopt.operations import Buffer, Copy, Gemm, Launch, View
from rnnopt.plan import Plan
from rnnopt.spec import NetworkSpec


class Builder:
    """Collects buffers and operations; streams are any hashable, numbered as they come."""

    def __init__(self):
        self._buffers: dict[str, Buffer] = {}
        self._operations = []
        self._streams = {}

    def buffer(self, name, shape, role="scratch") -> Buffer:
        """Return the buffer called `name`, declared on first use."""
        return self._buffers.setdefault(name, Buffer(name, tuple(shape), role))

    def gemm(self, out: View, a: View, b: View, stream, *, transpose_a=False, transpose_b=False, accumulate=False):
        self._operations.append(Gemm(out, a, b, transpose_a, transpose_b, accumulate, self._stream(stream)))

    def launch(self, kernel: str, grid: View, operands, stream, scalars=()):
        """Launch `kernel` over as many rows and columns as `grid` has."""
        self._operations.append(Launch(kernel, grid.rows, grid.cols, tuple(operands), self._stream(stream), tuple(scalars)))

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


class Sequence:
    """A buffer with a row for every (step, sequence of the batch), or some of its columns.

    It is (steps, batch, columns), or (tokens, 1, columns) where sequences of different lengths are packed.

    Parameters
    ----------
    spec : NetworkSpec
    buffer : Buffer
    columns : (int, int), optional
        First column and the one after the last, if not all.
    """

    def __init__(self, spec: NetworkSpec, buffer: Buffer, columns: tuple[int, int] | None = None):
        self.buffer, self.columns = buffer, slice(*(columns or (0, buffer.shape[-1])))
        self._starts = None if spec.lengths is None else (0, *accumulate(spec.batch_sizes))

    @staticmethod
    def shape(spec: NetworkSpec, columns: int) -> tuple[int, int, int]:
        return *((spec.rows[0], 1) if spec.lengths else spec.rows), columns

    def step(self, step: int, rows: slice = slice(None)) -> View:
        """The rows of one step, or those of them that `rows` says."""
        if self._starts is None:
            return self.buffer[step, rows, self.columns]
        first = self._starts[step]
        start, stop, _ = rows.indices(self._starts[step + 1] - first)
        return self.buffer[first + start:first + stop, :, self.columns]

    def steps(self, start: int, stop: int) -> View:
        """The rows of the steps from `start` to before `stop`."""
        if self._starts is None:
            return self.buffer[start:stop, :, self.columns]
        return self.buffer[self._starts[start]:self._starts[stop], :, self.columns]


def part(view: View, start: int, stop: int) -> View:
    """Columns `start` to `stop` of `view`."""
    first = view.box[-1][0]
    return View(view.buffer, (*view.box[:-1], (first + start, first + stop)))
