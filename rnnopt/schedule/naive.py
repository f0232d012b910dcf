"""The starting point: every operation on its own, one after the other.

Per cell eight GEMMs (one per gate and operand) and one kernel per elementary
operation, all on one stream, layer after layer. Each optimisation replaces one
of the functions below.
"""

from __future__ import annotations

from rnnopt.schedule.builder import Weight, part


def products(emit, x, weight, out, hidden, stream):
    """The gates' products with one operand: a GEMM for each gate.

    Each has only `hidden` outputs, too few to fill a large processor, and
    reads `x` anew.
    """
    for start in range(0, out.cols, hidden):
        view, transpose = weight.outputs(start, start + hidden)
        emit.gemm(part(out, start, start + hidden), x, view, stream, transpose_b=transpose)


def pointwise(emit, cell, operands):
    """The rest of the cell: a kernel for each elementary operation."""
    cell.unfused(emit, operands)


def gradient_products(emit, gradients, weight, out, accumulate, hidden, stream):
    """The gradient of what was multiplied by `weight`: a GEMM for each gate, added up.

    `gradients` are (view, first gate, gate after the last): the gradient of the product, in parts.
    """
    for view, first, end in gradients:
        for gate in range(first, end):
            emit.gemm(out, part(view, (gate - first) * hidden, (gate - first + 1) * hidden),
                      weight[gate * hidden:(gate + 1) * hidden, :], stream, accumulate=accumulate or gate > 0)


def pointwise_backward(emit, cell, operands):
    """The rest of the cell, backwards: a kernel for each elementary operation."""
    cell.unfused_backward(emit, operands)


def weight_gradient(emit, gradients, x, out, accumulate, hidden, stream):
    """The gradient of a weight from that of its product with `x`: a GEMM for each gate."""
    for view, first, end in gradients:
        for gate in range(first, end):
            emit.gemm(out[gate * hidden:(gate + 1) * hidden, :], part(view, (gate - first) * hidden, (gate - first + 1) * hidden),
                      x, stream, transpose_a=True, accumulate=accumulate)


def weight_group(steps):
    """Steps that share a GEMM of a weight's gradient: one."""
    return 1


def prepare(emit, buffer, stream):
    """How a GEMM finds a weight: as torch stores it, so that it must transpose it."""
    return Weight(buffer)


def input_group(steps):
    """Steps whose inputs share a GEMM: one."""
    return 1


def part_stream(part):
    """Stream of a part of a layer, ``"input"``, ``"recurrent"``, or the gradient of its weight: the same."""
    return 0


def layer_stream(layer):
    """Streams of a layer: those of every other layer."""
    return 0


def order(layers, groups):
    """Order of the (layer, group of steps) tasks: a layer is finished before the next begins."""
    for layer in range(layers):
        for group in range(groups):
            yield layer, group
