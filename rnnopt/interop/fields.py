"""What the names and shapes of weights say of their network."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from rnnopt import cells

_NAME = re.compile(r"(?:weight|bias)_(?:ih|hh)_l(?P<layer>[0-9]+)(?P<reverse>_reverse)?")


def fields_of(weights: Mapping[str, np.ndarray], cell: str | None = None) -> dict:
    """Return the fields of a :class:`rnnopt.NetworkSpec`, but for batch and steps, that weights under torch's names are of.

    What is read is layer 0 and the names: :func:`rnnopt.weights.checked_weights` compares all the rest with it.

    Parameters
    ----------
    weights : mapping of str to ndarray
    cell : str, optional
        Needed where several cells have as many gates.

    Raises
    ------
    TypeError
        If `weights` is no mapping.
    ValueError
        If layer 0 is missing or has shapes of no network, the cell has another number of gates, or several have and none is given.
    """
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights must be a mapping from names to arrays, got {type(weights).__name__}")
    for name in ("weight_ih_l0", "weight_hh_l0"):
        if name not in weights:
            raise ValueError(f"weights lack {name}, from which sizes are read; there are {', '.join(map(str, weights)) or 'none'}: "
                             f"give those of all layers, from layer 0")
        if weights[name].ndim != 2 or 0 in weights[name].shape:
            raise ValueError(f"{name} must have shape (gates × hidden, features), none of them 0, got {weights[name].shape}")
    rows, hidden = weights["weight_hh_l0"].shape
    alike = [known for known in cells.CELLS if cells.get(known).gates * hidden == rows]
    if cell is None:
        if len(alike) != 1:
            raise ValueError(f"a state dict with {rows / hidden:g} gates may be of {', '.join(alike) or 'no cell known here'}: give cell=")
        cell, = alike
    elif cells.get(cell).gates * hidden != rows:
        raise ValueError(f"weight_hh_l0 must have shape ({cells.get(cell).gates} × hidden, hidden) for a {cell}, got {(rows, hidden)}, "
                         f"which {' or '.join(alike) or 'no cell known here'} has: give the cell that the weights are of")
    matches = [match for name in weights if (match := _NAME.fullmatch(str(name)))]
    return dict(cell=cell, layers=len({match["layer"] for match in matches}), input_size=weights["weight_ih_l0"].shape[1],
                hidden_size=hidden, bidirectional=any(match["reverse"] for match in matches))
