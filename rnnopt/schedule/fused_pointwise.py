"""Fused pointwise: everything after the GEMMs is one kernel, its intermediate values in registers."""


def pointwise(emit, cell, operands):
    cell.fused(emit, operands)
