"""Batched weight gradients: one GEMM over all steps instead of one per step.

A weight's gradient is a sum over steps, and nothing waits for it. So it can
wait for the whole layer: a single product, whose inner length is steps × batch,
reads and writes the gradient once (the paper's weight update).
"""


def weight_group(steps):
    return steps
