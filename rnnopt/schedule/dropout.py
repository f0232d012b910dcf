"""Dropout between layers: what is dropped is a function of position, so it is the same for every schedule and device."""

from __future__ import annotations

import numpy as np

from rnnopt.operations import Buffer
from rnnopt.random_numbers import dropout_threshold
from rnnopt.schedule.builder import Builder, Sequence
from rnnopt.spec import NetworkSpec

#: Pieces of 16 bits, low first, each exact in a float, that hold the seed, the number of the call, and that of its first row.
PIECES = (4, 2, 2)


def key(seed: int, call: int, first_row: int = 0) -> np.ndarray:
    """Return the buffer ``dropout_key`` of a run; it begins with row `first_row` of a longer sequence."""
    return np.array([number >> 16 * k & 0xffff for number, count in zip((seed, call, first_row), PIECES, strict=True)
                     for k in range(count)], np.float32)


def numbers(key: np.ndarray) -> tuple[int, int, int]:
    """What :func:`key` was made from: seed, call, first row."""
    pieces = iter(map(int, key))
    return tuple(sum(next(pieces) << 16 * k for k in range(count)) for count in PIECES)


def drop(emit: Builder, spec: NetworkSpec, source: Buffer, out: Sequence, layer: int, start: int, stop: int, stream):
    """Emit out = dropout(source), the outputs of `layer` from step `start` to before `stop`.

    The backward pass is the same on gradients, in place.
    """
    x, y = Sequence(spec, source).steps(start, stop), out.steps(start, stop)
    first = sum(spec.batch_sizes[:start]) * spec.output_size
    threshold = dropout_threshold(spec.dropout)
    emit.launch("dropout", y, (x, emit.buffer("dropout_key", (sum(PIECES),), "input")[:], y), stream,
                (first, layer, threshold - 2**32 if threshold >= 2**31 else threshold, 1 / (1 - spec.dropout)))
