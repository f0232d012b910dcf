"""State dicts of ``torch.nn.LSTM``, ``GRU`` and ``RNN``: their names and layouts are those of this package."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

import numpy as np

from rnnopt.arrays import as_numpy
from rnnopt.interop.fields import fields_of
from rnnopt.spec import NetworkSpec
from rnnopt.weights import checked_weights, weight_shapes

_NAME = re.compile(r"(?P<prefix>.*?)(?P<name>(?:weight|bias)_(?:ih|hh|hr)_l[0-9]+(?:_reverse)?)")


def from_torch(source, cell: str | None = None, prefix: str = "") -> tuple[dict, dict[str, np.ndarray]]:
    """Return what a torch module says of a network, and its weights, which share the module's memory.

    So training here, which is in place, trains the module too: to keep it as it is, give ``copy.deepcopy(module)``.
    Only biases of a module that has none (``bias=False``), zeros here, and arrays that are not C-contiguous are new.

    Parameters
    ----------
    source : torch.nn.LSTM, GRU or RNN, or a state dict (also as ``safetensors.numpy.load_file`` reads one)
        A class derived from them is taken for what it is derived from.
    cell : str, optional
        Needed for a state dict of three or fewer gates, which looks alike for several cells.
    prefix : str
        What stands before the names in a state dict of a larger module, as ``"encoder.rnn."``; the rest of it is left out.

    Returns
    -------
    fields : dict
        ``cell``, ``layers``, ``input_size``, ``hidden_size``, ``bidirectional``: a :class:`rnnopt.NetworkSpec` but for batch, steps
        and dropout, which weights say nothing of.
    weights : dict of str to ndarray of float32

    Raises
    ------
    TypeError
        If an array is not float32 (nothing is rounded silently), or can't be shared with NumPy.
    ValueError
        If there is no such network, parameters are missing, shapes don't fit each other or the cell, the module is of
        another cell, or it has projections, which rnnopt has not.
    """
    if not isinstance(source, Mapping):
        of_module = _cell_of(source)
        if cell not in (None, of_module):
            raise ValueError(f"the module is of cell {of_module!r}, not {cell!r}: leave cell out, "
                             f"or give the module's state_dict() to use its weights in another cell")
        cell, source = of_module, source.state_dict()
    named = [match for name in source if isinstance(name, str) and (match := _NAME.fullmatch(name))]
    found = {match["name"]: source[match[0]] for match in named if match["prefix"] == prefix}
    if not found:
        others = sorted({match["prefix"] for match in named})
        raise ValueError(f"no recurrent network has the prefix {prefix!r}; there are {', '.join(map(repr, others)) or 'none'}")
    if any("_hr_" in name for name in found):
        raise ValueError("the network has projections (proj_size), which rnnopt has not")
    weights = {name: as_numpy(name, value.detach() if hasattr(value, "detach") else value) for name, value in found.items()}
    fields = fields_of(weights, cell)
    spec = NetworkSpec(**fields, batch=1, steps=1)
    if not any(name.startswith("bias") for name in weights):  # bias=False; a single one that is missing was lost
        weights |= {name: np.zeros(shape, np.float32) for name, shape in weight_shapes(spec).items() if name.startswith("bias")}
    return fields, checked_weights(spec, weights)


def _cell_of(module):
    torch = sys.modules.get("torch")  # without it there is no module of torch
    for kind, cell in (("LSTM", "lstm"), ("GRU", "gru"), ("RNN", f"rnn_{getattr(module, 'nonlinearity', '')}")):
        if torch is not None and isinstance(module, getattr(torch.nn, kind)):
            return cell
    raise ValueError(f"expected a torch.nn.LSTM, GRU or RNN, or a state dict, got {type(module).__name__}: "
                     f"of a larger module give the state_dict(), and prefix= to say where the network is in it")


def to_torch(weights: Mapping[str, np.ndarray], prefix: str = "") -> dict:
    """Return `weights` as a state dict that ``load_state_dict`` takes.

    The tensors share their memory, but for arrays that torch can't have as they are:
    those that are read-only, which a tensor would write into, or have negative strides, are copied.

    Raises
    ------
    TypeError
        If an array is not float32: ``load_state_dict`` would round it silently.
    """
    import torch

    state = {}
    for name, value in weights.items():
        array = as_numpy(name, value)
        if array.dtype != np.float32:
            raise TypeError(f"{name} must be float32, got {array.dtype}: convert it with .astype(np.float32)")
        shareable = array.flags.writeable and min(array.strides, default=0) >= 0
        state[prefix + name] = torch.from_dlpack(array if shareable else array.copy())
    return state
