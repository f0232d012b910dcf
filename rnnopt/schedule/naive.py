"""The starting point: every operation on its own, one after the other.

Per cell eight GEMMs (one per gate and operand) and one kernel per elementary
operation, all on one stream, layer after layer. Each optimisation replaces one
of the functions below.
"""

from __future__ import annotations

from rnnopt.schedule.builder import Weight


def products(emit, x, weight, out, hidden, stream):
    """The gates' products with one operand: a GEMM for each gate.

    Each has only `hidden` outputs, too few to fill a large processor, and
    reads `x` anew.
    """
    for start in range(0, out.cols, hidden):
        part, transpose = weight.outputs(start, start + hidden)
        emit.gemm(out.buffer[(*_rows(out), slice(start, start + hidden))], x, part, transpose, stream)


def _rows(view):
    return [slice(*extent) for extent in view.box[:-1]]


def pointwise(emit, cell, operands):
    """The rest of the cell: a kernel for each elementary operation."""
    cell.unfused(emit, operands)


def prepare(emit, buffer, stream):
    """How a GEMM finds a weight: as torch stores it, so that it must transpose it."""
    return Weight(buffer)


def input_group(steps):
    """Steps whose inputs share a GEMM: one."""
    return 1


def part_stream(part):
    """Stream of the ``"input"`` or the ``"recurrent"`` part of a layer: the same."""
    return 0


def layer_stream(layer):
    """Streams of a layer: those of every other layer."""
    return 0


def order(layers, groups):
    """Order of the (layer, group of steps) tasks: a layer is finished before the next begins."""
    for layer in range(layers):
        for group in range(groups):
            yield layer, group
