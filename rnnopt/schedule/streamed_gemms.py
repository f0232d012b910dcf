"""GEMM streaming: the two products of a cell don't depend on each other.

On streams of their own, the input product runs beside the recurrent one; it
needs no hidden state, so it may run ahead of it too.
"""


def part_stream(part):
    return ("input", "recurrent").index(part)
