"""Pre-transposed weights: turn each matrix once, not in every GEMM of every step.

All steps of a layer multiply by the same matrix, so they share the cost of
turning it. It is part of the plan, hence of the time, as in the paper.
"""

from rnnopt.schedule.builder import Weight


def prepare(emit, buffer, stream):
    turned = emit.buffer(f"{buffer.name}_transposed", buffer.shape[::-1], "scratch")
    emit.launch("transpose", buffer[:, :], (buffer[:, :], turned[:, :]), stream)
    return Weight(turned, transposed=True)
