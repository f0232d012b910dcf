"""Memory for buffers, on the CPU."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from rnnopt.operations import FLOAT_BYTES

#: A cache line; arrays that start on one don't share it with others.
ALIGNMENT = 64

#: The same in floats.
LINE = ALIGNMENT // FLOAT_BYTES

#: What Linux maps at once where it can: with it a processor finds its way through large arrays faster.
HUGE_PAGE = 2**21


def aligned_empty(shape, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return an uninitialised float32 array that starts on a multiple of `alignment` bytes."""
    count = prod(shape)
    raw = np.empty(count + alignment // FLOAT_BYTES, dtype=np.float32)
    start = -raw.ctypes.data % alignment // FLOAT_BYTES
    return raw[start:start + count].reshape(shape)


def arena(buffers) -> dict[str, np.ndarray]:
    """Return uninitialised arrays for `buffers`, by name, side by side in one piece of memory."""
    buffers = list(buffers)
    starts = [0, *accumulate(-(-prod(buffer.shape) // LINE) * LINE for buffer in buffers)]
    piece = aligned_empty((starts[-1],), HUGE_PAGE if FLOAT_BYTES * starts[-1] >= HUGE_PAGE else ALIGNMENT)
    return {buffer.name: piece[start:start + prod(buffer.shape)].reshape(buffer.shape)
            for buffer, start in zip(buffers, starts[:-1], strict=True)}
