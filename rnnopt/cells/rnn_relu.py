"""Elman's recurrent network with the rectifier (torch's RNN, nonlinearity "relu")::

    h' = max(0, W x + b_W + R h + b_R)
"""

from __future__ import annotations

import numpy as np

#: One pre-activation per unit; it is no gate, but is laid out as one is.
GATES = ("h",)
gates = len(GATES)

#: What a step hands to the next one; the first is also the cell's output.
STATES = ("h",)

#: Arrays of shape (batch, hidden) that training keeps per step beside the gates and the states.
SAVED = ()

#: Whether the gradient of h has a part that bypasses the recurrent product.
BYPASS = False

#: Where the gradients of ``W x + b_W`` and ``R h + b_R`` are after the backward pass: (buffer, first gate, end gate).
INPUT_PARTS = RECURRENT_PARTS = (("gates", 0, 1),)


def step(weight_ih, weight_hh, bias_ih, bias_hh, x, h):
    """One cell in NumPy, in the dtype of its arguments.

    Parameters
    ----------
    weight_ih : ndarray, shape (hidden, features)
    weight_hh : ndarray, shape (hidden, hidden)
    bias_ih, bias_hh : ndarray, shape (hidden,)
    x : ndarray, shape (batch, features)
    h : ndarray, shape (batch, hidden)

    Returns
    -------
    tuple of one ndarray of shape (batch, hidden)
        The new h.
    """
    return (np.maximum(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh, 0),)


def step_backward(weight_ih, weight_hh, bias_ih, bias_hh, x, states, d_states):
    """Gradients of one cell in NumPy, in the dtype of its arguments: δ = dh where h' > 0, else 0, with dh that of h'.

    Parameters
    ----------
    weight_ih, weight_hh, bias_ih, bias_hh, x
        As :func:`step` has them.
    states : tuple of one ndarray of shape (batch, hidden)
        h, as the step was given it.
    d_states : tuple of one ndarray of shape (batch, hidden)
        Gradient of the new h.

    Returns
    -------
    d_input : ndarray, shape (batch, hidden)
        Gradient of ``W x + b_W``.
    d_recurrent : ndarray, shape (batch, hidden)
        Gradient of ``R h + b_R``: the same array.
    d_previous : tuple of one ndarray of shape (batch, hidden)
        Zeros: all of the gradient of h goes through the recurrent product.
    """
    (h,), (d_h,) = states, d_states
    new, = step(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    d_pre = d_h * (new > 0)
    return d_pre, d_pre, (np.zeros_like(h),)


def fused(emit, at):
    """Emit everything after the GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.CellOperands
    """
    emit.launch("rnn_relu_forward", at.new[0], (at.input, at.recurrent, at.bias_ih, at.bias_hh, at.new[0]), at.stream)


def unfused(emit, at):
    """Emit everything after the GEMMs as a framework would: one kernel per elementary operation."""
    h, = at.new
    emit.launch("add", h, (at.input, at.bias_ih, at.input), at.stream)
    emit.launch("add", h, (at.recurrent, at.bias_hh, at.recurrent), at.stream)
    emit.launch("add", h, (at.recurrent, at.input, at.recurrent), at.stream)
    emit.launch("relu", h, (at.recurrent, h), at.stream)


def fused_backward(emit, at):
    """Emit everything before the backward GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.BackwardOperands
    """
    h, = at.new
    emit.launch("rnn_relu_backward", h, (h, at.d_output, *at.d_state, at.gates), at.stream)


def unfused_backward(emit, at):
    """Emit everything before the backward GEMMs, one kernel per elementary operation."""
    h, = at.new
    emit.launch("add", h, (at.d_output, *at.d_state, at.gates), at.stream)
    emit.launch("relu_gradient", h, (at.gates, h, at.gates), at.stream)
