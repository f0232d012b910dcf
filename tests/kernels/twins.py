"""Each kernel's twin: what it computes, in NumPy and float64.

A twin is written from what the kernel is to do, not from its source. A kernel
without one fails the catalogue's test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rnnopt.devices.host.checked import Case
from rnnopt.random_numbers import dropout_mask

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


def lstm_forward_training(input, recurrent, bias_ih, bias_hh, c_prev):
    i, f, g, o = np.split(input + recurrent + bias_ih + bias_hh, 4, axis=1)
    i, f, g, o = logistic(i), logistic(f), np.tanh(g), logistic(o)
    c = f * c_prev + i * g
    return np.hstack([i, f, g, o]), c, o * np.tanh(c)


def lstm_backward(gates, c_prev, c, d_output, d_h, d_c):
    i, f, g, o = np.split(gates, 4, axis=1)
    dh = d_output + d_h
    dc = d_c + dh * o * (1 - np.tanh(c)**2)
    return np.hstack([dc * g * i * (1 - i), dc * c_prev * f * (1 - f), dc * i * (1 - g**2), dh * np.tanh(c) * o * (1 - o)]), dc * f


def gru_forward_training(input, recurrent, bias_ih, bias_hh, h_prev, dt=None):
    """With `dt`, that of the implicit GRU."""
    (a_r, a_z, a_n), (q_r, q_z, q) = np.split(input + bias_ih, 3, axis=1), np.split(recurrent + bias_hh, 3, axis=1)
    r, z = logistic(a_r + q_r), logistic(a_z + q_z)
    n = np.tanh(a_n + r * q)
    h = (1 - z) * n + z * h_prev if dt is None else (h_prev + dt * (1 - z) * n) / (1 + dt * (1 - z))
    return np.hstack([r, z, n]), q, h


def gru_backward(gates, recurrent_n, h_prev, d_output, d_h):
    r, z, n = np.split(gates, 3, axis=1)
    d = d_output + d_h
    dn = d * (1 - z) * (1 - n**2)
    return np.hstack([dn * recurrent_n * r * (1 - r), d * (h_prev - n) * z * (1 - z), dn]), dn * r, d * z


def implicit_gru_backward(gates, recurrent_n, h, d_output, d_h, dt):
    """From h' (1 + dt (1 - z)) = h + dt (1 - z) n."""
    r, z, n = np.split(gates, 3, axis=1)
    past = (d_output + d_h) / (1 + dt * (1 - z))
    dn = past * dt * (1 - z) * (1 - n**2)
    return np.hstack([dn * recurrent_n * r * (1 - r), past * dt * (h - n) * z * (1 - z), dn]), dn * r, past


def dropped(x, key, first, layer, threshold, scale):
    seed, call, begin = (sum(int(piece) << 16 * k for k, piece in enumerate(part)) for part in np.split(key[0], [4, 6]))
    mask = dropout_mask(x.shape, threshold % 2**32 / 2**32, seed=seed, call=call, layer=layer, first=first + begin * x.shape[1])
    return ((mask != 0) * x * np.float32(scale),)


def sgd(settings, gradient, velocity, weight):
    rate, momentum, decay, factor, *_ = settings[0]
    velocity = momentum * velocity + factor * gradient + decay * weight
    return velocity, weight - rate * velocity


def adam(settings, gradient, mean, square, weight):
    rate, beta1, beta2, epsilon, decay, factor, correction, _ = settings[0]
    d = factor * gradient + decay * weight
    mean, square = beta1 * mean + (1 - beta1) * d, beta2 * square + (1 - beta2) * d**2
    return mean, square, weight - rate * mean / (np.sqrt(square) * correction + epsilon)


def exchange_steps(source, batch, inner, radix, offset, valid):
    rows = np.arange(len(source))
    steps, sequences = rows // batch, rows % batch
    blocks, places = np.divmod(steps, inner * radix)
    d, k = np.divmod(places, inner)
    origin = (blocks * inner + k) * radix + d - offset
    there = (origin >= 0) & (origin < valid)
    return (np.where(there[:, None], source[np.where(there, origin * batch + sequences, 0)], 0),)


def squared_sums(x, y):
    return ((x - y)**2).sum(axis=1, keepdims=True), (y**2).sum(axis=1, keepdims=True)


EIGHT = lambda rows, cols: (8,)  # noqa: E731
G3, B3 = (lambda rows, cols: (rows, 3 * cols)), (lambda rows, cols: (3 * cols,))
ROW = lambda rows, cols: (cols,)  # noqa: E731
COLUMN = lambda rows, cols: (rows, 1)  # noqa: E731
LSTM = dict(input=GATES, recurrent=GATES, bias_ih=GATE_BIAS, bias_hh=GATE_BIAS, c_prev=FULL)
GRU = dict(input=G3, recurrent=G3, bias_ih=B3, bias_hh=B3, h_prev=FULL)
RNN = dict(input=FULL, recurrent=FULL, bias_ih=ROW, bias_hh=ROW, h=FULL)
RNN_BACK = dict(h=FULL, d_output=FULL, d_h=FULL, d_gates=FULL)


def two(compute, tolerance, names=("a", "b", "y")):
    """Twin of a kernel that makes a matrix from two of its shape."""
    return Twin(lambda **read: (compute(*read.values()),), dict.fromkeys(names, FULL), tolerance)


def one(compute, tolerance):
    return Twin(lambda x: (compute(x),), dict(x=FULL, y=FULL), tolerance)


def gru_shapes(state, after):
    return {"gates": G3, "recurrent_n": FULL, state: FULL, "d_output": FULL, "d_h": FULL, "d_gates": G3, "d_recurrent_n": FULL, after: FULL}


TWINS = {
    "add": two(np.add, 0), "subtract": two(np.subtract, 0), "multiply": two(np.multiply, 0), "divide": two(np.divide, 2e-7),
    "sigmoid": one(logistic, 5e-7), "hyperbolic_tangent": one(np.tanh, 5e-7), "relu": one(lambda x: np.maximum(x, 0), 0),
    "one_minus": one(lambda x: 1 - x, 0), "one_plus": one(lambda x: 1 + x, 0),
    "sigmoid_gradient": two(lambda d, y: d * y * (1 - y), 5e-7, ("d", "y", "dx")),
    "hyperbolic_tangent_gradient": two(lambda d, y: d * (1 - y**2), 5e-7, ("d", "y", "dx")),
    "relu_gradient": two(lambda d, y: d * (y > 0), 0, ("d", "y", "dx")),
    "transpose": Twin(lambda x: (x.T,), dict(x=FULL, y=TURNED), 0),
    "lstm_forward": Twin(lambda **read: lstm_forward_training(**read)[1:], dict(**LSTM, c=FULL, h=FULL), 1e-6),
    "lstm_forward_training": Twin(lstm_forward_training, dict(**LSTM, gates=GATES, c=FULL, h=FULL), 1e-6),
    "lstm_backward": Twin(lstm_backward, dict(gates=GATES, c_prev=FULL, c=FULL, d_output=FULL, d_h=FULL, d_c=FULL,
                                              d_gates=GATES, d_c_prev=FULL), 1e-5),
    "gru_forward": Twin(lambda **read: gru_forward_training(**read)[2:], dict(**GRU, h=FULL), 1e-6),
    "gru_forward_training": Twin(gru_forward_training, dict(**GRU, gates=G3, recurrent_n=FULL, h=FULL), 1e-6),
    "gru_backward": Twin(gru_backward, gru_shapes("h_prev", "d_h_prev"), 1e-5),
    "implicit_gru_forward": Twin(lambda **read: gru_forward_training(**read)[2:], dict(**GRU, h=FULL), 1e-6),
    "implicit_gru_forward_training": Twin(gru_forward_training, dict(**GRU, gates=G3, recurrent_n=FULL, h=FULL), 1e-6),
    "implicit_gru_backward": Twin(implicit_gru_backward, gru_shapes("h", "d_h_prev"), 1e-5),
    "rnn_tanh_forward": Twin(lambda input, recurrent, bias_ih, bias_hh: (np.tanh(input + recurrent + bias_ih + bias_hh),), RNN, 1e-6),
    "rnn_tanh_backward": Twin(lambda h, d_output, d_h: ((d_output + d_h) * (1 - h**2),), RNN_BACK, 1e-6),
    "rnn_relu_forward": Twin(lambda input, recurrent, bias_ih, bias_hh: (np.maximum(input + recurrent + bias_ih + bias_hh, 0),), RNN, 1e-6),
    "rnn_relu_backward": Twin(lambda h, d_output, d_h: ((d_output + d_h) * (h > 0),), RNN_BACK, 1e-6),
    "column_sum": Twin(lambda x: (x.sum(axis=0),), dict(x=FULL, y=ROW), 1e-5),
    "column_sum_add": Twin(lambda x, before: (before[0] + x.sum(axis=0),), dict(x=FULL, before=ROW, y=ROW), 1e-5),
    "sgd": Twin(sgd, dict(settings=EIGHT, gradient=FULL, velocity=FULL, weight=FULL, new_velocity=FULL, new_weight=FULL), 2e-6),
    "adam": Twin(adam, dict(settings=EIGHT, gradient=FULL, mean=FULL, square=FULL, weight=FULL,
                            new_mean=FULL, new_square=FULL, new_weight=FULL), 5e-6),
    "exchange_steps": Twin(exchange_steps, dict(source=FULL, out=FULL), 0),
    "squared_sums": Twin(squared_sums, dict(x=FULL, y=FULL, residual=COLUMN, size=COLUMN), 1e-5),
    "dropout": Twin(dropped, dict(x=FULL, key=EIGHT, y=FULL), 2e-7),
}

#: Pairs of matrices that a kernel takes twice: it reads one element of the first, then writes it as one of the second.
IN_PLACE = {
    "lstm_forward_training": (("recurrent", "gates"),), "lstm_backward": (("gates", "d_gates"), ("d_c", "d_c_prev")),
    "gru_forward_training": (("recurrent", "gates"),), "implicit_gru_forward_training": (("recurrent", "gates"),),
    "gru_backward": (("gates", "d_gates"), ("recurrent_n", "d_recurrent_n"), ("d_h", "d_h_prev")),
    "implicit_gru_backward": (("gates", "d_gates"), ("recurrent_n", "d_recurrent_n"), ("d_h", "d_h_prev")),
    "sgd": (("velocity", "new_velocity"), ("weight", "new_weight")),
    "adam": (("mean", "new_mean"), ("square", "new_square"), ("weight", "new_weight")),
    "column_sum_add": (("before", "y"),), "dropout": (("x", "y"),),
}

#: Values of scalars that are not any number: a probability of 0.4, and its scale; where it depends on them, by the number of rows.
SCALARS = {"dt": 0.5, "first": 1000, "layer": 3, "threshold": round(0.4 * 2**32), "scale": 1 / 0.6,
           "batch": 2, "inner": 3, "radix": 2, "offset": 1, "valid": lambda rows: rows // 2}


def make_case(kernel, rows, cols, block, grid, *, pad=0, repeated=(), in_place=(), seed=0) -> Case:
    """Return a launch of `kernel` on random data.

    `pad` is what a leading dimension exceeds a row by, a row of each of `repeated`
    serves all rows, and `in_place`, pairs of (read, written), gives both the same array. What
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
        if name == "key":
            arrays[name][:] = rng.integers(2**16, size=8)
        if name in ("settings", "square"):  # rates and means of squares
            arrays[name][:] = np.abs(arrays[name]) % 0.9 + 0.05
    for read, written in in_place:
        arrays[written], lds[written] = arrays[read], lds[read]
    scalars = {name: SCALARS[name] for name, _ in kernel.scalars}
    scalars = {name: value(rows) if callable(value) else value for name, value in scalars.items()}
    return Case(kernel.name, rows, cols, arrays, lds, block, grid, scalars)


def matrix(array, ld, shape):
    """View `array` as a matrix with leading dimension `ld`."""
    return np.lib.stride_tricks.as_strided(array, shape, (ld * array.itemsize, array.itemsize)[-len(shape):])


def disagreement(kernel, case, after) -> str:
    """Say how the arrays `after` a launch differ from what the twin makes of those before; nothing if they agree."""
    twin = TWINS[kernel.name]
    shapes = {name: shape(case.rows, case.cols) for name, shape in twin.shapes.items()}
    read = {name: matrix(case.arrays[name], case.lds[name], (case.rows, *shapes[name])[-2:]).astype(np.float64)
            for name, written in kernel.matrices if not written}
    expected = {name: array.copy() for name, array in case.arrays.items()}
    changed, outputs = set(), [name for name, written in kernel.matrices if written]
    for name, result in zip(outputs, twin.compute(**read, **case.scalars), strict=True):
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
