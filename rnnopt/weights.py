"""Parameters of a network, under torch's names and in torch's layouts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rnnopt import cells
from rnnopt.arrays import as_numpy
from rnnopt.spec import NetworkSpec


def parameter_names(layer: int, reverse: bool = False) -> tuple[str, str, str, str]:
    """Names of a layer's parameters in one direction, in the order in which a cell takes them: torch's."""
    suffix = f"_l{layer}_reverse" if reverse else f"_l{layer}"
    return "weight_ih" + suffix, "weight_hh" + suffix, "bias_ih" + suffix, "bias_hh" + suffix


def weight_shapes(spec: NetworkSpec) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters, as ``torch.nn.LSTM.state_dict()`` has them.

    Gates are stacked along axis 0 in the order of the cell's ``GATES``:
    ``weight_ih_l{k}`` is (gates × hidden, features), ``weight_hh_l{k}``
    (gates × hidden, hidden), ``bias_ih_l{k}`` and ``bias_hh_l{k}`` (gates × hidden,).
    A bidirectional layer has the same again with the suffix ``_reverse``.
    """
    rows = cells.get(spec.cell).gates * spec.hidden_size
    shapes = {}
    for layer in range(spec.layers):
        for reverse in range(spec.directions):
            of_one = ((rows, spec.layer_input_size(layer)), (rows, spec.hidden_size), (rows,), (rows,))
            shapes |= zip(parameter_names(layer, bool(reverse)), of_one, strict=True)
    return shapes


def init_weights(spec: NetworkSpec, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw float32 parameters that keep the gates spread instead of saturated.

    Matrices are N(0, 1 / features), so that pre-activations of inputs with
    unit variance have unit variance themselves; biases are N(0, 1/16). (The
    sample that accompanies the paper draws from U(0, 1): every gate saturates,
    and its check sums then check almost nothing.)

    Returns
    -------
    dict of str to ndarray
        As :func:`weight_shapes`, C-contiguous float32.
    """
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in weight_shapes(spec).items():
        scale = 0.25 if len(shape) == 1 else 1 / np.sqrt(shape[1])
        weights[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
    return weights


def checked_weights(spec: NetworkSpec, weights: Mapping[str, np.ndarray], *, finite: bool = False):
    """Return `weights` as C-contiguous float32 arrays, or say what is wrong with them.

    Raises
    ------
    TypeError
        If `weights` is no mapping or an array is not float32 (float64 is not
        rounded silently).
    ValueError
        If a name is missing or unknown, a shape is wrong, or, where `finite`
        is asked for, a value is NaN or infinite.
    """
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights must be a mapping from names to arrays, got {type(weights).__name__}")
    shapes = weight_shapes(spec)
    missing, unknown = shapes.keys() - weights.keys(), weights.keys() - shapes.keys()
    if missing or unknown:
        wrong = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        wrong += [f"has unknown {', '.join(sorted(map(str, unknown)))}"] if unknown else []
        kind = f"{spec.layers}-layer {'bidirectional ' * spec.bidirectional}{spec.cell}"
        raise ValueError(f"weights {' and '.join(wrong)}; a {kind} has {', '.join(shapes)}")
    return {name: checked_array(f"weights[{name!r}]", weights[name], shape, finite=finite)
            for name, shape in shapes.items()}


def checked_array(name, array, shape, *, finite=False):
    """Return `array` as a C-contiguous float32 array of `shape`, or raise with its `name` (see :func:`rnnopt.arrays.as_numpy`)."""
    array = as_numpy(name, array)
    if array.dtype != np.float32:
        raise TypeError(f"{name} must be float32, got {array.dtype}: convert it with .astype(np.float32), a tensor with .float()")
    if array.shape != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {array.shape}")
    if finite and not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, but holds {array[bad]} at index {bad}")
    return np.ascontiguousarray(array)
