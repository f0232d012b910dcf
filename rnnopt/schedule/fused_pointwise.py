"""Fused pointwise: everything after the GEMMs is one kernel, its intermediate values in registers."""


def pointwise(emit, cell, operands):
    cell.fused(emit, operands)


def pointwise_backward(emit, cell, operands):
    cell.fused_backward(emit, operands)
