"""Weights of Keras' LSTM, GRU and SimpleRNN, as ``layer.get_weights()`` returns them.

Keras multiplies from the right, so its matrices are this package's transposed.
Its order of gates is i f c o for the LSTM, which is torch's, and z r h for the
GRU, where torch has r z n. It has one bias where torch has two, but for a GRU
with ``reset_after=True`` (the default), whose bias has two rows
(keras/src/layers/rnn/lstm.py, gru.py, simple_rnn.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnnopt import cells
from rnnopt.weights import parameter_names

#: Cell -> order of this package's gates in Keras' arrays.
ORDER = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def from_keras(layers: Sequence[Sequence[np.ndarray]], cell: str) -> dict[str, np.ndarray]:
    """Return the weights of a stack of Keras layers under this package's names.

    Parameters
    ----------
    layers : sequence of [kernel, recurrent_kernel, bias] or, without bias, [kernel, recurrent_kernel]
        What ``get_weights()`` of each layer returned, from below.
    cell : str
        ``"lstm"``, ``"gru"``, ``"rnn_tanh"`` or ``"rnn_relu"``.

    Raises
    ------
    ValueError
        If Keras has no such cell, shapes don't fit, or a GRU applies its reset gate before the product (``reset_after=False``).
    """
    order = _order(cell)
    weights = {}
    for number, (kernel, recurrent, *rest) in enumerate(layers):
        hidden = recurrent.shape[0]
        if recurrent.shape[1] != len(order) * hidden or kernel.shape[1] != len(order) * hidden:
            raise ValueError(f"layer {number} has a kernel of shape {kernel.shape} and a recurrent kernel of {recurrent.shape}; "
                             f"a {cell} has (features, {len(order)} × units) and (units, {len(order)} × units)")
        bias = rest[0] if rest else np.zeros((2, len(order) * hidden) if cell == "gru" else len(order) * hidden, np.float32)
        if cell == "gru" and bias.ndim != 2:
            raise ValueError(f"layer {number} is a GRU with reset_after=False, whose reset gate comes before the recurrent product; "
                             f"here, as in torch and cuDNN, it comes after it, and these weights would compute something else")
        of_input, of_recurrent = bias if cell == "gru" else (bias, np.zeros_like(bias))
        values = (_turned(kernel, order, hidden), _turned(recurrent, order, hidden),
                  _sorted(of_input, order, hidden), _sorted(of_recurrent, order, hidden))
        weights |= zip(parameter_names(number, False), values, strict=True)
    return weights


def to_keras(weights: dict[str, np.ndarray], cell: str) -> list[list[np.ndarray]]:
    """Return for each layer what Keras' ``set_weights`` takes.

    Where Keras has one bias, it is the sum of both.
    """
    order = np.argsort(_order(cell))
    if any(name.endswith("_reverse") for name in weights):
        raise ValueError("Keras keeps the directions of a Bidirectional layer apart: convert each by itself, without '_reverse'")
    layers = []
    while f"weight_ih_l{len(layers)}" in weights:
        w, r, b, b2 = (weights[name] for name in parameter_names(len(layers), False))
        hidden = r.shape[1]
        bias = np.stack([_sorted(b, order, hidden), _sorted(b2, order, hidden)]) if cell == "gru" else _sorted(b + b2, order, hidden)
        layers.append([np.ascontiguousarray(_sorted(w, order, hidden).T), np.ascontiguousarray(_sorted(r, order, hidden).T), bias])
    return layers


def _order(cell):
    if cell not in ORDER:
        cells.get(cell)
        raise ValueError(f"Keras has no {cell}; it has {', '.join(ORDER)}")
    return ORDER[cell]


def _sorted(stacked, order, hidden):
    """The gates of `stacked`, along axis 0, in another order."""
    gates = stacked.reshape(len(order), hidden, *stacked.shape[1:])[list(order)]
    return np.ascontiguousarray(gates.reshape(stacked.shape), dtype=np.float32)


def _turned(kernel, order, hidden):
    return _sorted(np.ascontiguousarray(kernel.T), order, hidden)
