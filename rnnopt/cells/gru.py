"""Gated recurrent unit: three gates, reset after the recurrent product (torch's GRU, and cuDNN's).

With σ the logistic function and ∘ the elementwise product::

    r = σ(W_r x + b_Wr + R_r h + b_Rr)        z = σ(W_z x + b_Wz + R_z h + b_Rz)
    n = tanh(W_n x + b_Wn + r ∘ (R_n h + b_Rn))
    h' = (1 - z) ∘ n + z ∘ h

The reset gate is applied to the product, not to h: so the three recurrent
products need nothing of each other and are one GEMM.
"""

from __future__ import annotations

import numpy as np

from rnnopt.cells.activations import sigmoid

#: Order in which the gates are stacked in every parameter (torch's).
GATES = ("r", "z", "n")
gates = len(GATES)

#: What a step hands to the next one; the first is also the cell's output.
STATES = ("h",)

#: Arrays of shape (batch, hidden) that training keeps per step beside the gates and the states: ``R_n h + b_Rn``, for the gradient of r.
SAVED = ("recurrent_n",)

#: Whether the gradient of h has a part that bypasses the recurrent product: through z ∘ h.
BYPASS = True

#: Where the gradients of ``W x + b_W`` and ``R h + b_R`` are after the backward pass: (buffer, first gate, end gate).
INPUT_PARTS = (("gates", 0, 3),)
RECURRENT_PARTS = (("gates", 0, 2), ("recurrent_n", 2, 3))


def step(weight_ih, weight_hh, bias_ih, bias_hh, x, h):
    """One cell in NumPy, in the dtype of its arguments.

    Parameters
    ----------
    weight_ih : ndarray, shape (3 × hidden, features)
    weight_hh : ndarray, shape (3 × hidden, hidden)
    bias_ih, bias_hh : ndarray, shape (3 × hidden,)
    x : ndarray, shape (batch, features)
    h : ndarray, shape (batch, hidden)

    Returns
    -------
    tuple of one ndarray of shape (batch, hidden)
        The new h.
    """
    _, z, n, _ = activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    return ((1 - z) * n + z * h,)


def step_backward(weight_ih, weight_hh, bias_ih, bias_hh, x, states, d_states):
    """Gradients of one cell in NumPy, in the dtype of its arguments.

    With dh the gradient of h'::

        δn = dh ∘ (1 - z) ∘ (1 - n²)        δz = dh ∘ (h - n) ∘ z (1 - z)
        δr = δn ∘ (R_n h + b_Rn) ∘ r (1 - r)

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
    d_input : ndarray, shape (batch, 3 × hidden)
        Gradient of ``W x + b_W``: δr, δz, δn.
    d_recurrent : ndarray, shape (batch, 3 × hidden)
        Gradient of ``R h + b_R``: δr, δz, δn ∘ r.
    d_previous : tuple of one ndarray of shape (batch, hidden)
        The part of the gradient of h that bypasses the recurrent product: dh ∘ z.
    """
    (h,), (d_h,) = states, d_states
    r, z, n, recurrent_n = activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    return *gate_gradients(r, z, n, recurrent_n, d_h * (h - n), d_h * (1 - z)), (d_h * z,)


def euler_step(weight_ih, weight_hh, bias_ih, bias_hh, x, h, *, dt=1.0):
    """A step of dh/dt = (1 - z) ∘ (n - h) from the old state (forward Euler), which :func:`step` is at dt = 1.

    It overshoots where dt (1 - z) > 1, and grows where it is more than 2: no step for a coarse level. Parameters and what is returned
    are those of :func:`rnnopt.cells.implicit_gru.step`.
    """
    _, z, n, _ = activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    return (h + dt * (1 - z) * (n - h),)


def activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h):
    """Return the gates r, z and n, and the product ``R_n h + b_Rn``, each of shape (batch, hidden)."""
    input_r, input_z, input_n = np.split(x @ weight_ih.T + bias_ih, gates, axis=1)
    recurrent_r, recurrent_z, recurrent_n = np.split(h @ weight_hh.T + bias_hh, gates, axis=1)
    r, z = sigmoid(input_r + recurrent_r), sigmoid(input_z + recurrent_z)
    return r, z, np.tanh(input_n + r * recurrent_n), recurrent_n


def gate_gradients(r, z, n, recurrent_n, d_z, d_n):
    """Return the gradients of both products, each of shape (batch, 3 × hidden), given those of the gates z and n."""
    d_n = d_n * (1 - n**2)
    d_z = d_z * z * (1 - z)
    d_r = d_n * recurrent_n * r * (1 - r)
    return np.concatenate([d_r, d_z, d_n], axis=1), np.concatenate([d_r, d_z, d_n * r], axis=1)


def fused(emit, at):
    """Emit everything after the GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.CellOperands
    """
    (h_prev,), (h,) = at.previous, at.new
    read = (at.input, at.recurrent, at.bias_ih, at.bias_hh, h_prev)
    if at.training:
        emit.launch("gru_forward_training", h, (*read, at.recurrent, at.saved("recurrent_n"), h), at.stream)
    else:
        emit.launch("gru_forward", h, (*read, h), at.stream)


def unfused(emit, at):
    """Emit everything after the GEMMs as a framework would: one kernel per elementary operation."""
    (h_prev,), (h,) = at.previous, at.new
    z, n, kept = at.gate(at.recurrent, 1), at.gate(at.recurrent, 2), at.scratch("kept")
    unfused_gates(emit, at)
    emit.launch("multiply", h, (z, h_prev, kept), at.stream)
    emit.launch("one_minus", h, (z, h), at.stream)
    emit.launch("multiply", h, (h, n, h), at.stream)
    emit.launch("add", h, (h, kept, h), at.stream)


def unfused_gates(emit, at):
    """Emit r, z and n, in the place of the recurrent products, and what is saved."""
    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    for k in range(gates):
        gate, product = at.gate(at.recurrent, k), at.gate(at.input, k)
        launch("add", product, at.gate(at.bias_ih, k), product)
        launch("add", gate, at.gate(at.bias_hh, k), gate)
        if k < 2:
            launch("add", gate, product, gate)
            launch("sigmoid", gate, gate)
    saved = at.saved("recurrent_n")
    emit.copy(saved, gate, at.stream)
    launch("multiply", at.gate(at.recurrent, 0), gate, gate)
    launch("add", gate, product, gate)
    launch("hyperbolic_tangent", gate, gate)


def fused_backward(emit, at):
    """Emit everything before the backward GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.BackwardOperands
    """
    (h_prev,), (h,), (d_h,), saved = at.previous, at.new, at.d_state, at.saved("recurrent_n")
    emit.launch("gru_backward", h, (at.gates, saved, h_prev, at.d_output, d_h, at.gates, saved, d_h), at.stream)


def unfused_backward(emit, at):
    """Emit everything before the backward GEMMs, one kernel per elementary operation."""
    (h_prev,), (d_h,) = at.previous, at.d_state

    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    _, z, n = (at.gate(at.gates, k) for k in range(gates))
    d_z, d_n = (at.scratch(name) for name in ("d_z", "d_n"))
    launch("add", at.d_output, d_h, d_h)
    launch("subtract", h_prev, n, d_z)
    launch("multiply", d_h, d_z, d_z)
    launch("one_minus", z, d_n)
    launch("multiply", d_h, d_n, d_n)
    launch("multiply", d_h, z, d_h)  # what reaches h_prev past the product
    unfused_gate_gradients(emit, at, d_z, d_n)


def unfused_gate_gradients(emit, at, d_z, d_n):
    """Emit the gradients of the pre-activations, in the place of the gates, given those of z and n."""
    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    saved = at.saved("recurrent_n")
    r, z, n = (at.gate(at.gates, k) for k in range(gates))
    launch("sigmoid_gradient", d_z, z, z)
    launch("hyperbolic_tangent_gradient", d_n, n, n)
    launch("multiply", n, saved, d_n)
    launch("multiply", n, r, saved)
    launch("sigmoid_gradient", d_n, r, r)
