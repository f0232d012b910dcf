"""Long short-term memory: four gates, no peepholes (paper, section 2; torch's LSTM).

With σ the logistic function and ∘ the elementwise product::

    i = σ(W_i x + b_Wi + R_i h + b_Ri)        f = σ(W_f x + b_Wf + R_f h + b_Rf)
    g = tanh(W_g x + b_Wg + R_g h + b_Rg)     o = σ(W_o x + b_Wo + R_o h + b_Ro)
    c' = f ∘ c + i ∘ g                        h' = o ∘ tanh(c')
"""

from __future__ import annotations

import numpy as np

#: Order in which the gates are stacked in every parameter (torch's).
GATES = ("i", "f", "g", "o")
gates = len(GATES)

#: What a step hands to the next one; the first is also the cell's output.
STATES = ("h", "c")


def step(weight_ih, weight_hh, bias_ih, bias_hh, x, h, c):
    """One cell in NumPy, in the dtype of its arguments.

    Parameters
    ----------
    weight_ih : ndarray, shape (4 × hidden, features)
    weight_hh : ndarray, shape (4 × hidden, hidden)
    bias_ih, bias_hh : ndarray, shape (4 × hidden,)
    x : ndarray, shape (batch, features)
    h, c : ndarray, shape (batch, hidden)

    Returns
    -------
    h, c : ndarray, shape (batch, hidden)
    """
    pre = x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh
    i, f, g, o = np.split(pre, gates, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _sigmoid(x):
    # exp of a negative argument only, so that large |x| don't overflow.
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, z) / (1 + z)


def fused(emit, at):
    """Emit everything after the GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.builder.CellOperands
    """
    (_, c_prev), (h, c) = at.previous, at.new
    emit.launch("lstm_forward", h, (at.input, at.recurrent, at.bias_ih, at.bias_hh, c_prev, c, h), at.stream)


def unfused(emit, at):
    """Emit everything after the GEMMs as a framework would: one kernel per elementary operation."""
    (_, c_prev), (h, c) = at.previous, at.new

    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    gate = {name: at.gate(at.recurrent, k) for k, name in enumerate(GATES)}
    for k, name in enumerate(GATES):
        launch("add", at.gate(at.input, k), at.gate(at.bias_ih, k), at.gate(at.input, k))
        launch("add", gate[name], at.gate(at.bias_hh, k), gate[name])
        launch("add", gate[name], at.gate(at.input, k), gate[name])
    for name in GATES:
        launch("hyperbolic_tangent" if name == "g" else "sigmoid", gate[name], gate[name])
    kept, added, squashed = (at.scratch(name) for name in ("kept", "added", "squashed"))
    launch("multiply", gate["f"], c_prev, kept)
    launch("multiply", gate["i"], gate["g"], added)
    launch("add", kept, added, c)
    launch("hyperbolic_tangent", c, squashed)
    launch("multiply", gate["o"], squashed, h)
