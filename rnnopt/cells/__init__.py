"""One module per cell: its gates, its parameters, its maths, its kernels."""

from __future__ import annotations

from importlib import import_module

from rnnopt.names import did_you_mean

#: Name of a cell -> the module of this folder that defines it.
CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu", "implicit_gru")


def get(name: str):
    """Return the cell module called `name`.

    Raises
    ------
    ValueError
        If there is no such cell.
    """
    if name not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(map(repr, CELLS))}, got {name!r}{did_you_mean(name, CELLS)}")
    return import_module(f"rnnopt.cells.{name}")
