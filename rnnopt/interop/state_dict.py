"""State dicts of ``torch.nn.LSTM``, ``GRU`` and ``RNN``: their names and layouts are those of this package."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from rnnopt import cells
from rnnopt.arrays import as_numpy
from rnnopt.weights import parameter_names

_NAME = re.compile(r"(?P<prefix>.*?)(?P<name>(?:weight|bias)_(?:ih|hh|hr)_l(?P<layer>\d+)(?:_reverse)?)$")


def from_torch(source, cell: str | None = None, prefix: str = "") -> tuple[dict, dict[str, np.ndarray]]:
    """Return what a torch module says of a network, and its weights, which share the module's memory.

    Parameters
    ----------
    source : torch.nn.LSTM, GRU or RNN, or a state dict (also as ``safetensors.numpy.load_file`` reads one)
    cell : str, optional
        Needed for a state dict of three or fewer gates, which looks alike for several cells.
    prefix : str
        What stands before the names in a state dict of a larger module, as ``"encoder.rnn."``; the rest of it is left out.

    Returns
    -------
    fields : dict
        ``cell``, ``layers``, ``input_size``, ``hidden_size``, ``bidirectional``: a :class:`rnnopt.NetworkSpec` but for batch and steps.
    weights : dict of str to ndarray of float32

    Raises
    ------
    ValueError
        If there is no such network, its shapes don't fit each other, or it has projections, which rnnopt has not.
    """
    if not isinstance(source, Mapping):
        cell = cell or _cell_of(source)
        source = source.state_dict()
    found = {match["name"]: source[name] for name in source if (match := _NAME.match(name)) and match["prefix"] == prefix}
    if not found:
        others = sorted({match["prefix"] for name in source if (match := _NAME.match(name))})
        raise ValueError(f"no recurrent network has the prefix {prefix!r}; there are {', '.join(map(repr, others)) or 'none'}")
    if any("_hr_" in name for name in found):
        raise ValueError("the network has projections (proj_size), which rnnopt has not")
    weights = {name: as_numpy(name, value.detach() if hasattr(value, "detach") else value) for name, value in found.items()}
    layers = 1 + max(int(_NAME.match(name)["layer"]) for name in weights)
    bidirectional = "weight_ih_l0_reverse" in weights
    rows, hidden = weights["weight_hh_l0"].shape
    if cell is None:
        alike = [name for name in cells.CELLS if cells.get(name).gates * hidden == rows]
        if len(alike) != 1:
            raise ValueError(f"a state dict with {rows // hidden} gates may be of {', '.join(alike) or 'no cell known here'}: give cell=")
        cell, = alike
    directions = (False, True)[:1 + bidirectional]
    expected = [name for layer in range(layers) for reverse in directions for name in parameter_names(layer, reverse)]
    for name in expected:
        if name.startswith("bias") and name not in weights:  # bias=False
            weights[name] = np.zeros(rows, np.float32)
    fields = dict(cell=cell, layers=layers, input_size=weights["weight_ih_l0"].shape[1], hidden_size=hidden, bidirectional=bidirectional)
    return fields, {name: weights[name] for name in expected}


def _cell_of(module):
    kind = type(module).__name__
    known = {"LSTM": "lstm", "GRU": "gru", "RNN": f"rnn_{getattr(module, 'nonlinearity', '')}"}
    if kind not in known:
        raise ValueError(f"expected a torch.nn.LSTM, GRU or RNN, or a state dict, got {kind}")
    return known[kind]


def to_torch(weights: Mapping[str, np.ndarray], prefix: str = "") -> dict:
    """Return `weights` as a state dict that ``load_state_dict`` takes; the tensors share their memory."""
    import torch

    return {prefix + name: torch.from_dlpack(value) for name, value in weights.items()}
