"""Implicit gated recurrent unit: the GRU as a stable step of a differential equation (Moon & Cyr 2022).

torch's GRU is one forward Euler step, of size 1, of dh/dt = (1 - z) ∘ (n - h).
Taken at the new time, the stiff part -(1 - z) ∘ h stays stable at every step size dt::

    r = σ(W_r x + b_Wr + R_r h + b_Rr)        z = σ(W_z x + b_Wz + R_z h + b_Rz)
    n = tanh(W_n x + b_Wn + r ∘ (R_n h + b_Rn))
    h' = (h + dt (1 - z) ∘ n) / (1 + dt (1 - z))

h' lies between h and n, so no unit leaves [-1, 1], however coarse the steps:
a parallel-in-time solver takes large ones on its coarse levels. The layout of
the parameters is that of torch's GRU; the authors' cell has no b_Rr and no
b_Rz, which are 0 then.
"""

from __future__ import annotations

from rnnopt.cells.gru import activate, gate_gradients, unfused_gate_gradients, unfused_gates

#: Order in which the gates are stacked in every parameter (that of torch's GRU).
GATES = ("r", "z", "n")
gates = len(GATES)

#: What a step hands to the next one; the first is also the cell's output.
STATES = ("h",)

#: Arrays of shape (batch, hidden) that training keeps per step beside the gates and the states: ``R_n h + b_Rn``, for the gradient of r.
SAVED = ("recurrent_n",)

#: Whether the gradient of h has a part that bypasses the recurrent product: through h / (1 + dt (1 - z)).
BYPASS = True

#: Where the gradients of ``W x + b_W`` and ``R h + b_R`` are after the backward pass: (buffer, first gate, end gate).
INPUT_PARTS = (("gates", 0, 3),)
RECURRENT_PARTS = (("gates", 0, 2), ("recurrent_n", 2, 3))


#: Size of a network's steps in time.
DT = 1.0


def step(weight_ih, weight_hh, bias_ih, bias_hh, x, h, *, dt=1.0):
    """One cell in NumPy, in the dtype of its arguments.

    Parameters
    ----------
    weight_ih : ndarray, shape (3 × hidden, features)
    weight_hh : ndarray, shape (3 × hidden, hidden)
    bias_ih, bias_hh : ndarray, shape (3 × hidden,)
    x : ndarray, shape (batch, features)
    h : ndarray, shape (batch, hidden)
    dt : float
        Size of the step in time; that of networks is 1.

    Returns
    -------
    tuple of one ndarray of shape (batch, hidden)
        The new h.
    """
    _, z, n, _ = activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    rate = dt * (1 - z)
    return ((h + rate * n) / (1 + rate),)


def step_backward(weight_ih, weight_hh, bias_ih, bias_hh, x, states, d_states, *, dt=1.0):
    """Gradients of one cell in NumPy, in the dtype of its arguments.

    With dh the gradient of h' and s = 1 + dt (1 - z)::

        δn = dh ∘ dt (1 - z) / s ∘ (1 - n²)        δz = dh ∘ dt (h - n) / s² ∘ z (1 - z)
        δr = δn ∘ (R_n h + b_Rn) ∘ r (1 - r)

    Parameters
    ----------
    weight_ih, weight_hh, bias_ih, bias_hh, x, dt
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
        The part of the gradient of h that bypasses the recurrent product: dh / s.
    """
    (h,), (d_h,) = states, d_states
    r, z, n, recurrent_n = activate(weight_ih, weight_hh, bias_ih, bias_hh, x, h)
    rate = dt * (1 - z)
    d_sum = d_h / (1 + rate)
    return *gate_gradients(r, z, n, recurrent_n, d_sum * dt * (h - n) / (1 + rate), d_sum * rate), (d_sum,)


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
        emit.launch("implicit_gru_forward_training", h, (*read, at.recurrent, at.saved("recurrent_n"), h), at.stream, scalars=(DT,))
    else:
        emit.launch("implicit_gru_forward", h, (*read, h), at.stream, scalars=(DT,))


def unfused(emit, at):
    """Emit everything after the GEMMs as a framework would: one kernel per elementary operation."""
    (h_prev,), (h,) = at.previous, at.new
    z, n, kept = at.gate(at.recurrent, 1), at.gate(at.recurrent, 2), at.scratch("kept")
    unfused_gates(emit, at)
    emit.launch("one_minus", h, (z, kept), at.stream)  # times dt, which is 1
    emit.launch("multiply", h, (kept, n, h), at.stream)
    emit.launch("add", h, (h_prev, h, h), at.stream)
    emit.launch("one_plus", h, (kept, kept), at.stream)
    emit.launch("divide", h, (h, kept, h), at.stream)


def fused_backward(emit, at):
    """Emit everything before the backward GEMMs as one kernel.

    Parameters
    ----------
    emit : rnnopt.schedule.builder.Builder
    at : rnnopt.schedule.operands.BackwardOperands
    """
    (h,), (d_h,), saved = at.new, at.d_state, at.saved("recurrent_n")
    emit.launch("implicit_gru_backward", h, (at.gates, saved, h, at.d_output, d_h, at.gates, saved, d_h), at.stream, scalars=(DT,))


def unfused_backward(emit, at):
    """Emit everything before the backward GEMMs, one kernel per elementary operation."""
    (h,), (d_h,) = at.new, at.d_state

    def launch(kernel, *operands):
        emit.launch(kernel, operands[-1], operands, at.stream)

    _, z, n = (at.gate(at.gates, k) for k in range(gates))
    d_z, d_n, rate = (at.scratch(name) for name in ("d_z", "d_n", "rate"))
    launch("add", at.d_output, d_h, d_h)
    launch("one_minus", z, rate)  # times dt, which is 1
    launch("one_plus", rate, d_n)
    launch("divide", d_h, d_n, d_h)  # what reaches h_prev past the product
    launch("multiply", d_h, rate, d_n)
    launch("subtract", h, n, d_z)
    launch("multiply", d_h, d_z, d_z)
    unfused_gate_gradients(emit, at, d_z, d_n)
