"""Weights of Keras' LSTM, GRU and SimpleRNN, as ``layer.get_weights()`` returns them.

Keras multiplies from the right, so its matrices are this package's transposed.
Its order of gates is i f c o for the LSTM, which is torch's, and z r h for the
GRU, where torch has r z n. It has one bias where torch has two, but for a GRU
with ``reset_after=True`` (the default), whose bias has two rows
(keras/src/layers/rnn/lstm.py, gru.py, simple_rnn.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rnnopt import cells
from rnnopt.arrays import as_numpy
from rnnopt.interop.fields import fields_of
from rnnopt.spec import NetworkSpec
from rnnopt.weights import checked_array, checked_weights, parameter_names

#: Cell -> order of this package's gates in Keras' arrays.
ORDER = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def from_keras(layers: Sequence[Sequence[np.ndarray]], cell: str) -> dict[str, np.ndarray]:
    """Return the weights of a stack of Keras layers under this package's names.

    Parameters
    ----------
    layers : sequence of [kernel, recurrent_kernel, bias] or, without bias, [kernel, recurrent_kernel]
        What ``get_weights()`` of each layer returned, from below. Of a Bidirectional layer give each half by itself.
    cell : str
        ``"lstm"``, ``"gru"``, ``"rnn_tanh"`` or ``"rnn_relu"``. Arrays don't show the activation of a SimpleRNN, nor
        whether a GRU without bias has ``reset_after=True``, which it must have.

    Raises
    ------
    TypeError
        If `layers` or a layer is no list, or an array is not float32 (float64 is not rounded silently).
    ValueError
        If Keras has no such cell, a layer has another number of arrays, shapes don't fit each other or the layer below,
        or a GRU applies its reset gate before the product (``reset_after=False``).
    """
    order = _order(cell)
    if not isinstance(layers, (list, tuple)):
        raise TypeError(f"layers must be a list with what get_weights() of each layer returned, got {type(layers).__name__}")
    if not layers:
        raise ValueError("layers must hold what get_weights() of each layer returned, but is empty: give at least one layer")
    weights, below = {}, None
    for number, arrays in enumerate(layers):
        kernel, recurrent, bias = _checked_layer(number, arrays, cell, below)
        below = hidden = len(recurrent)
        of_input, of_recurrent = bias if cell == "gru" else (bias, np.zeros_like(bias))
        values = (_turned(kernel, order, hidden), _turned(recurrent, order, hidden),
                  _sorted(of_input, order, hidden), _sorted(of_recurrent, order, hidden))
        weights |= zip(parameter_names(number, False), values, strict=True)
    return weights


def to_keras(weights: Mapping[str, np.ndarray], cell: str) -> list[list[np.ndarray]]:
    """Return for each layer what Keras' ``set_weights`` takes.

    Where Keras has one bias, it is the sum of both.

    Raises
    ------
    TypeError
        If an array is not float32.
    ValueError
        If Keras has no such cell, weights are missing, unknown or of other shapes than the cell's, or both directions are there.
    """
    order = np.argsort(_order(cell))
    if any(str(name).endswith("_reverse") for name in weights):
        raise ValueError("Keras keeps the directions of a Bidirectional layer apart: convert each by itself, without '_reverse'")
    spec = NetworkSpec(**fields_of({name: as_numpy(name, value) for name, value in weights.items()}, cell), batch=1, steps=1)
    weights, hidden, layers = checked_weights(spec, weights), spec.hidden_size, []
    for layer in range(spec.layers):
        w, r, b, b2 = (weights[name] for name in parameter_names(layer, False))
        bias = np.stack([_sorted(b, order, hidden), _sorted(b2, order, hidden)]) if cell == "gru" else _sorted(b + b2, order, hidden)
        layers.append([np.ascontiguousarray(_sorted(w, order, hidden).T), np.ascontiguousarray(_sorted(r, order, hidden).T), bias])
    return layers


def _checked_layer(number, arrays, cell, below):
    """Kernel, recurrent kernel and bias (zeros if there is none) of a layer above one of `below` units."""
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"layer {number} must be a list [kernel, recurrent_kernel, bias], got {type(arrays).__name__}: "
                        f"give what get_weights() returned, each layer in a list of its own")
    if len(arrays) not in (2, 3):
        both = f": those of a Bidirectional layer are {len(arrays) // 2} forward and {len(arrays) // 2} backward, convert each by itself"
        raise ValueError(f"layer {number} must have 2 or 3 arrays (kernel, recurrent kernel, bias), "
                         f"got {len(arrays)}{both if len(arrays) in (4, 6) else ''}")
    names = [f"the {what} of layer {number}" for what in ("kernel", "recurrent kernel", "bias")]
    kernel, recurrent, *bias = (as_numpy(name, array) for name, array in zip(names, arrays, strict=False))
    gates, hidden = len(ORDER[cell]), recurrent.shape[0] if recurrent.ndim == 2 else 0
    if not hidden or kernel.ndim != 2 or not len(kernel) or recurrent.shape[1] != gates * hidden or kernel.shape[1] != gates * hidden:
        raise ValueError(f"layer {number} has a kernel of shape {kernel.shape} and a recurrent kernel of {recurrent.shape}; "
                         f"a {cell} has (features, {gates} × units) and (units, {gates} × units)")
    if below is not None and not len(kernel) == hidden == below:
        raise ValueError(f"layer {number} reads {len(kernel)} features and has {hidden} units, but both must be the {below} units "
                         f"of the layer below: here all layers of a network have equally many")
    if cell == "gru" and bias and bias[0].ndim == 1:
        raise ValueError(f"layer {number} is a GRU with reset_after=False, whose reset gate comes before the recurrent product; "
                         f"here, as in torch and cuDNN, it comes after it, and these weights would compute something else")
    shape = (2, gates * hidden) if cell == "gru" else (gates * hidden,)
    values = kernel, recurrent, bias[0] if bias else np.zeros(shape, np.float32)
    return [checked_array(name, value, expected)
            for name, value, expected in zip(names, values, (kernel.shape, recurrent.shape, shape), strict=True)]


def _order(cell):
    if cell not in ORDER:
        cells.get(cell)
        raise ValueError(f"Keras has no {cell}; it has {', '.join(ORDER)}")
    return ORDER[cell]


def _sorted(stacked, order, hidden):
    """The gates of `stacked`, along axis 0, in another order."""
    gates = stacked.reshape(len(order), hidden, *stacked.shape[1:])[list(order)]
    return np.ascontiguousarray(gates.reshape(stacked.shape))


def _turned(kernel, order, hidden):
    return _sorted(np.ascontiguousarray(kernel.T), order, hidden)
