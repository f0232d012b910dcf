"""Combined GEMMs: the gates of a cell share an operand, so they share a GEMM.

Two GEMMs per LSTM cell with 4 × hidden outputs replace eight with `hidden` outputs:
the same FLOPs, a quarter of the launches, and four times the parallelism in each.

Backwards the gates are summed over: what were four GEMMs that add to one
result is one with four times the inner length, and the result is written once.
"""


def products(emit, x, weight, out, hidden, stream):
    view, transpose = weight.outputs(0, out.cols)
    emit.gemm(out, x, view, stream, transpose_b=transpose)


def gradient_products(emit, gradients, weight, out, accumulate, hidden, stream):
    for view, first, end in gradients:
        emit.gemm(out, view, weight[first * hidden:end * hidden, :], stream, accumulate=accumulate or first > 0)


def weight_gradient(emit, gradients, x, out, accumulate, hidden, stream):
    for view, first, end in gradients:
        emit.gemm(out[first * hidden:end * hidden, :], view, x, stream, transpose_a=True, accumulate=accumulate)
