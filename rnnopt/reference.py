"""The definition of right: the plain recurrence, in float64 NumPy.

Nothing is timed before it has agreed with this. It is written to be read, not
to be fast: one cell after the other, in the order of the equations.
"""

from __future__ import annotations

import numpy as np

from rnnopt import cells
from rnnopt.spec import NetworkSpec


def forward(spec: NetworkSpec, weights, inputs, state=None):
    """Apply the network to a sequence, in float64.

    Parameters
    ----------
    spec : NetworkSpec
    weights : mapping of str to ndarray
        As :func:`rnnopt.weights.weight_shapes` names them.
    inputs : ndarray, shape (steps, batch, input_size)
    state : tuple of ndarray, each of shape (layers, batch, hidden_size), optional
        Initial state, one array per entry of the cell's ``STATES``; zeros if not given.

    Returns
    -------
    outputs : ndarray of float64, shape (steps, batch, hidden_size)
        Hidden states of the top layer.
    state : tuple of ndarray of float64, each of shape (layers, batch, hidden_size)
        Final states of every layer.
    """
    cell = cells.get(spec.cell)
    if state is None:
        state = [np.zeros((spec.layers, spec.batch, spec.hidden_size)) for _ in cell.STATES]
    final = tuple(np.array(part, dtype=np.float64) for part in state)
    sequence = np.asarray(inputs, dtype=np.float64)
    for layer in range(spec.layers):
        parameters = [np.asarray(weights[f"{name}_l{layer}"], dtype=np.float64)
                      for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        outputs = np.empty((spec.steps, spec.batch, spec.hidden_size))
        for step in range(spec.steps):
            new = cell.step(*parameters, sequence[step], *(part[layer] for part in final))
            for part, value in zip(final, new, strict=True):
                part[layer] = value
            outputs[step] = final[0][layer]
        sequence = outputs
    return sequence, final


def relative_error(value, reference) -> float:
    """Return ‖value − reference‖ / ‖reference‖ over all elements (NaN counts as infinitely wrong)."""
    value, reference = (np.asarray(a, dtype=np.float64) for a in (value, reference))
    error = np.linalg.norm((value - reference).ravel())
    scale = np.linalg.norm(reference.ravel())
    ratio = error / scale if scale else error
    return float(ratio) if np.isfinite(ratio) else float("inf")


#: Largest accepted :func:`relative_error` against the float64 reference.
TOLERANCE = {"float32": 1e-5}
