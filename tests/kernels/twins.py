"""Each kernel's twin: what it computes, in NumPy and float64.

A twin is written from what the kernel is to do, not from its source. A kernel
without one fails the catalogue's test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rnnopt.devices.host.checked import Case

FULL = lambda rows, cols: (rows, cols)  # noqa: E731
TURNED = lambda rows, cols: (cols, rows)  # noqa: E731
GATES = lambda rows, cols: (rows, 4 * cols)  # noqa: E731
GATE_BIAS = lambda rows, cols: (4 * cols,)  # noqa: E731


@dataclass(frozen=True)
class Twin:
    """What a kernel is to do.

    Attributes
    ----------
    compute : callable
        From the arrays it reads, by name, to those it writes, in order of the signature.
    shapes : dict of str to callable
        Shape of each matrix, given rows and cols; one dimension for a row that
        is repeated (leading dimension 0).
    tolerance : float
        Largest error, relative to the value or to 1, whichever is greater; 0
        where the result must be the right one to the bit.
    """

    compute: Callable
    shapes: dict[str, Callable]
    tolerance: float


def logistic(x):
    return 1 / (1 + np.exp(-x))


def lstm_forward(input, recurrent, bias_ih, bias_hh, c_prev):
    i, f, g, o = np.split(input + recurrent + bias_ih + bias_hh, 4, axis=1)
    c = logistic(f) * c_prev + logistic(i) * np.tanh(g)
    return c, logistic(o) * np.tanh(c)


TWINS = {
    "add": Twin(lambda a, b: (a + b,), dict(a=FULL, b=FULL, y=FULL), 0),
    "multiply": Twin(lambda a, b: (a * b,), dict(a=FULL, b=FULL, y=FULL), 0),
    "sigmoid": Twin(lambda x: (logistic(x),), dict(x=FULL, y=FULL), 5e-7),
    "hyperbolic_tangent": Twin(lambda x: (np.tanh(x),), dict(x=FULL, y=FULL), 5e-7),
    "transpose": Twin(lambda x: (x.T,), dict(x=FULL, y=TURNED), 0),
    "lstm_forward": Twin(lstm_forward, dict(input=GATES, recurrent=GATES, bias_ih=GATE_BIAS, bias_hh=GATE_BIAS,
                                            c_prev=FULL, c=FULL, h=FULL), 1e-6),
}


def make_case(kernel, rows, cols, block, grid, *, pad=0, repeated=(), in_place=None, seed=0) -> Case:
    """Return a launch of `kernel` on random data.

    `pad` is what a leading dimension exceeds a row by, a row of each of `repeated`
    serves all rows, and `in_place` = (read, written) gives both the same array. What
    is not the kernel's to read is NaN, so that reading it spoils the result.
    """
    rng = np.random.default_rng(seed)
    arrays, lds = {}, {}
    for name, written in kernel.matrices:
        shape = TWINS[kernel.name].shapes[name](rows, cols)
        height, width = (1, shape[-1]) if len(shape) == 1 or name in repeated else shape
        lds[name] = 0 if len(shape) == 1 or name in repeated else width + pad
        arrays[name] = np.full((height - 1) * lds[name] + width, np.nan, np.float32)
        if not written:
            matrix(arrays[name], lds[name], (height, width))[...] = 1.5 * rng.standard_normal((height, width))
    if in_place:
        read, written = in_place
        arrays[written], lds[written] = arrays[read], lds[read]
    return Case(kernel.name, rows, cols, arrays, lds, block, grid)


def matrix(array, ld, shape):
    """View `array` as a matrix with leading dimension `ld`."""
    return np.lib.stride_tricks.as_strided(array, shape, (ld * array.itemsize, array.itemsize))


def disagreement(kernel, case, after) -> str:
    """Say how the arrays `after` a launch differ from what the twin makes of those before; nothing if they agree."""
    twin = TWINS[kernel.name]
    shapes = {name: shape(case.rows, case.cols) for name, shape in twin.shapes.items()}
    read = {name: matrix(case.arrays[name], case.lds[name], (case.rows, *shapes[name])[-2:]).astype(np.float64)
            for name, written in kernel.matrices if not written}
    expected = {name: array.copy() for name, array in case.arrays.items()}
    changed, outputs = set(), [name for name, written in kernel.matrices if written]
    for name, result in zip(outputs, twin.compute(**read), strict=True):
        for alias in (other for other, array in case.arrays.items() if array is case.arrays[name]):
            changed.add(alias)
            matrix(expected[alias], case.lds[name], shapes[name])[...] = result
    for name, right in expected.items():
        same = (after[name] == right) | (np.isnan(after[name]) & np.isnan(right))
        if twin.tolerance and name in changed:
            same |= np.abs(after[name] - right) <= twin.tolerance * np.maximum(1, np.abs(right))
        if not same.all():
            at = int(np.argmin(same))
            return f"{case}: {name}[{at}] is {after[name][at]}, its twin's {right[at]}"
    return ""
