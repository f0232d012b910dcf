"""Batched inputs: the input products of several steps are one GEMM.

Inputs of a layer don't depend on its recurrence, so `steps` of them, batch
rows each, are multiplied at once: fewer and larger GEMMs, but the recurrence
(and the layer above) waits longer for the first of them. The paper found two
steps best on its GPU. Backwards it is the gradients of the inputs that are
made for several steps at once.
"""


def input_group(steps):
    return steps
