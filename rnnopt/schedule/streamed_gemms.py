"""GEMM streaming: products that don't depend on each other get streams of their own.

The input product of a cell runs beside the recurrent one; it needs no hidden
state, so it may run ahead of it too. Backwards only the recurrent products
form a chain: gradients of inputs and of weights follow when there is room.
"""


def part_stream(part):
    return ("recurrent", "input", "recurrent_weight", "input_weight").index(part)
