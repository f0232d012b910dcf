"""Long short-term memory: four gates, no peepholes (paper, section 2; torch's LSTM).

With σ the logistic function and ∘ the elementwise product::

    i = σ(W_i x + b_Wi + R_i h + b_Ri)        f = σ(W_f x + b_Wf + R_f h + b_Rf)
    g = tanh(W_g x + b_Wg + R_g h + b_Rg)     o = σ(W_o x + b_Wo + R_o h + b_Ro)
    c' = f ∘ c + i ∘ g                        h' = o ∘ tanh(c')
"""

from __future__ import annotations

import numpy as np

from rnnopt.cells.activations import sigmoid

#: Order in which the gates are stacked in every parameter (torch's).
GATES = ("i", "f", "g", "o")
gates = len(GATES)

#: What a step hands to the next one; the first is also the cell's output.
STATES = ("h", "c")

#: Arrays of shape (batch, hidden) that training keeps per step beside the gates and the states.
SAVED = ()

#: Whether the gradient of h has a part that bypasses the recurrent product.
BYPASS = False

#: Where the gradients of ``W x + b_W`` and ``R h + b_R`` are after the backward pass: (buffer, first gate, end gate).
INPUT_PARTS = RECURRENT_PARTS = (("gates", 0, 4),)


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
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def step_backward(weight_ih, weight_hh, bias_ih, bias_hh, x, states, d_states):
    """Gradients of one cell in NumPy, in the dtype of its arguments.

    With δ the gradient of what follows it, dh and dc those of h' and c'::

        δc = dc + dh ∘ o ∘ (1 - tanh²(c'))        δo = dh ∘ tanh(c') ∘ o (1 - o)
        δi = δc ∘ g ∘ i (1 - i)    δf = δc ∘ c ∘ f (1 - f)    δg = δc ∘ i ∘ (1 - g²)

    Parameters
    ----------
    weight_ih, weight_hh, bias_ih, bias_hh, x
        As :func:`step` has them.
    states : tuple of ndarray, each of shape (batch, hidden)
        h and c, as the step was given them.
    d_states : tuple of ndarray, each of shape (batch, hidden)
        Gradients of the new h and c.

    Returns
    -------
    d_input : ndarray, shape (batch, 4 × hidden)
        Gradient of ``W x + b_W``.
    d_recurrent : ndarray, shape (batch, 4 × hidden)
        Gradient of ``R h + b_R``: the same array.
    d_previous : tuple of ndarray, each of shape (batch, hidden)
        The part of the gradients of h and c that does not go through the
        recurrent product: for h there is none.
    """
    (h, c), (d_h, d_c) = states, d_states
    i, f, g, o = np.split(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh, gates, axis=1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    squashed = np.tanh(f * c + i * g)
    d_c = d_c + d_h * o * (1 - squashed**2)
    d_pre = np.concatenate([d_c * g * i * (1 - i), d_c * c * f * (1 - f), d_c * i * (1 - g**2), d_h * squashed * o * (1 - o)], axis=1)
    return d_pre, d_pre, (np.zeros_like(h), d_c * f)


def fused(emit, at):
    """Emit everything after the GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.CellOperands
    """
    (_, c_prev), (h, c) = at.previous, at.new
    read = (at.input, at.recurrent, at.bias_ih, at.bias_hh, c_prev)
    if at.training:
        emit.launch("lstm_forward_training", h, (*read, at.recurrent, c, h), at.stream)
    else:
        emit.launch("lstm_forward", h, (*read, c, h), at.stream)


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


def fused_backward(emit, at):
    """Emit everything before the backward GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.BackwardOperands
    """
    (_, c_prev), (_, c), (d_h, d_c) = at.previous, at.new, at.d_state
    emit.launch("lstm_backward", c, (at.gates, c_prev, c, at.d_output, d_h, d_c, at.gates, d_c), at.stream)


def unfused_backward(emit, at):
    """Emit everything before the backward GEMMs, one kernel per elementary operation."""
    (_, c_prev), (_, c), (d_h, d_c) = at.previous, at.new, at.d_state

    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    i, f, g, o = (at.gate(at.gates, k) for k in range(gates))
    d_hidden, squashed, product = (at.scratch(name) for name in ("d_hidden", "squashed", "product"))
    launch("add", at.d_output, d_h, d_hidden)
    launch("hyperbolic_tangent", c, squashed)
    launch("multiply", d_hidden, o, product)
    launch("hyperbolic_tangent_gradient", product, squashed, product)
    launch("add", d_c, product, d_c)
    launch("multiply", d_hidden, squashed, product)
    launch("sigmoid_gradient", product, o, o)
    launch("multiply", d_c, c_prev, product)
    launch("multiply", d_c, i, squashed)  # before i is overwritten
    launch("multiply", d_c, g, d_hidden)
    launch("multiply", d_c, f, d_c)
    launch("sigmoid_gradient", product, f, f)
    launch("sigmoid_gradient", d_hidden, i, i)
    launch("hyperbolic_tangent_gradient", squashed, g, g)
