"""The definition of right: the plain recurrence and its gradients, in float64 NumPy.

Nothing is timed before it has agreed with this. It is written to be read, not
to be fast: one cell after the other, in the order of the equations.

Inside, a sequence is a matrix of tokens: the rows of step 0, then those of
step 1, and so on, whether every step has all sequences of the mini-batch or,
where they are packed, only those that are still going on.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from rnnopt import cells
from rnnopt.random_numbers import dropout_mask
from rnnopt.spec import NetworkSpec
from rnnopt.weights import parameter_names, weight_shapes


def forward(spec: NetworkSpec, weights, inputs, state=None, *, key=None):
    """Apply the network to a sequence, in float64.

    Parameters
    ----------
    spec : NetworkSpec
    weights : mapping of str to ndarray
        As :func:`rnnopt.weights.weight_shapes` names them.
    inputs : ndarray, shape (steps, batch, input_size)
        Or (tokens, input_size), packed, where the spec has lengths.
    state : tuple of ndarray, each of shape (layers × directions, batch, hidden_size), optional
        Initial state, one array per entry of the cell's ``STATES``; zeros if not given.
    key : tuple of int, optional
        (seed, call): outputs are dropped between layers, as in training. A
        third number is the row of a longer sequence that this one begins with.
        Nothing is dropped if not given.

    Returns
    -------
    outputs : ndarray of float64, shape (steps, batch, directions × hidden_size)
        Hidden states of the top layer; packed as the inputs are.
    state : tuple of ndarray of float64, each of shape (layers × directions, batch, hidden_size)
        Final states of every layer: of each sequence that of its own last
        step, in the reverse direction of its first.
    """
    outputs, state, _ = _forward(spec, weights, inputs, state, key)
    return outputs.reshape(*spec.rows, -1), state


def backward(spec: NetworkSpec, weights, inputs, d_outputs, d_state=None, state=None, *, key=None) -> dict:
    """Gradients of a loss, in float64, given its gradients with respect to what :func:`forward` returns.

    Parameters
    ----------
    spec, weights, inputs, state, key
        As :func:`forward` was given them.
    d_outputs : ndarray, shape of the outputs
    d_state : tuple of ndarray, each of shape (layers × directions, batch, hidden_size), optional
        Gradients of the final states; zeros if not given.

    Returns
    -------
    dict
        An ndarray of float64 for every weight, by its name, and for
        ``"inputs"``; under ``"state"`` a tuple of them, one per initial state.
    """
    _, _, sweeps = _forward(spec, weights, inputs, state, key, keep=True)
    d_state = _states(spec, d_state)  # of the final states; becomes, in place, that of the initial ones
    d_sequence = np.asarray(d_outputs, np.float64).reshape(-1, spec.output_size)
    gradients = {}
    for layer in reversed(range(spec.layers)):
        d_outputs, d_sequence = d_sequence * _mask(spec, layer, key), 0
        for reverse in range(spec.directions):
            sweep, place = sweeps.pop((layer, reverse)), layer * spec.directions + reverse
            d_input, d_recurrent = _sweep_backward(sweep, d_outputs[:, _columns(spec, reverse)], [part[place] for part in d_state])
            weight_ih, *_ = sweep.parameters
            of_parameters = d_input.T @ sweep.inputs, d_recurrent.T @ sweep.previous[0], d_input.sum(axis=0), d_recurrent.sum(axis=0)
            gradients |= zip(parameter_names(layer, bool(reverse)), of_parameters, strict=True)
            d_sequence = d_sequence + d_input @ weight_ih
    return {name: gradients[name] for name in weight_shapes(spec)} | {"inputs": d_sequence.reshape(*spec.rows, -1), "state": d_state}


class _Sweep(NamedTuple):
    """One layer's way through a sequence, in one direction.

    Attributes
    ----------
    cell : module
    parameters : list of ndarray
    steps : list of slice
        Rows of each step, in the order in which they are visited.
    inputs : ndarray, shape (tokens, features)
    previous : tuple of ndarray, each of shape (tokens, hidden)
        What the states were before each step: only a backward pass has it.
    """

    cell: object
    parameters: list
    steps: list
    inputs: np.ndarray
    previous: tuple | None


def _forward(spec, weights, inputs, state, key, keep=False):
    """Return outputs, final states and, if they are to be kept, the sweeps by (layer, direction)."""
    sequence = np.asarray(inputs, np.float64).reshape(-1, spec.input_size)
    state = _states(spec, state)  # becomes, in place, the final ones
    sweeps = {}
    for layer in range(spec.layers):
        outputs = np.empty((len(sequence), spec.output_size))
        for reverse in range(spec.directions):
            parameters = [np.asarray(weights[name], np.float64) for name in parameter_names(layer, bool(reverse))]
            previous = tuple(np.empty((len(sequence), spec.hidden_size)) for _ in state) if keep else None
            sweep = _Sweep(cells.get(spec.cell), parameters, _steps(spec, reverse), sequence, previous)
            _sweep(sweep, [part[layer * spec.directions + reverse] for part in state], outputs[:, _columns(spec, reverse)])
            if keep:
                sweeps[layer, reverse] = sweep
        sequence = outputs * _mask(spec, layer, key)
    return sequence, state, sweeps


def _sweep(sweep, state, outputs):
    """Apply a layer to a sequence, step after step; `state` and `outputs` are written."""
    for rows in sweep.steps:
        going_on = slice(rows.stop - rows.start)
        previous = [part[going_on] for part in state]
        if sweep.previous is not None:
            for part, value in zip(sweep.previous, previous, strict=True):
                part[rows] = value
        new = sweep.cell.step(*sweep.parameters, sweep.inputs[rows], *previous)
        for part, value in zip(state, new, strict=True):
            part[going_on] = value
        outputs[rows] = new[0]


def _sweep_backward(sweep, d_outputs, d_state):
    """Go the same way back; return the gradients of both products, ``W x + b_W`` and ``R h + b_R``; `d_state` is written."""
    weight_ih, weight_hh, *_ = sweep.parameters
    d_input, d_recurrent = (np.empty((len(sweep.inputs), len(weight_ih))) for _ in range(2))
    for rows in reversed(sweep.steps):
        going_on = slice(rows.stop - rows.start)
        d_h, *d_others = (part[going_on] for part in d_state)
        d_input[rows], d_recurrent[rows], d_past = sweep.cell.step_backward(
            *sweep.parameters, sweep.inputs[rows], tuple(part[rows] for part in sweep.previous), (d_h + d_outputs[rows], *d_others))
        d_h, *d_others = d_past
        for part, value in zip(d_state, (d_h + d_recurrent[rows] @ weight_hh, *d_others), strict=True):
            part[going_on] = value
    return d_input, d_recurrent


def _steps(spec, reverse):
    """Rows of each step, as slices, in the order in which a direction visits them.

    A sequence that is shorter than others has no rows in the last steps: its
    state stays what it is there, the final one, or in reverse the initial one.
    """
    stops = list(accumulate(spec.batch_sizes))
    steps = [slice(stop - size, stop) for stop, size in zip(stops, spec.batch_sizes, strict=True)]
    return steps[::-1] if reverse else steps


def _columns(spec, reverse):
    """Where a direction's outputs are in those of its layer: first forward, then reverse."""
    return slice(reverse * spec.hidden_size, (reverse + 1) * spec.hidden_size)


def _states(spec, state):
    """Return a copy of the states in float64; zeros if there are none."""
    if state is None:
        return tuple(np.zeros(spec.state_shape) for _ in cells.get(spec.cell).STATES)
    return tuple(np.array(part, np.float64) for part in state)


def _mask(spec, layer, key):
    """Return what the outputs of a layer are multiplied with on their way up, one number for each or 1."""
    if key is None or layer == spec.layers - 1:
        return 1
    seed, call, *first_row = key
    return dropout_mask((sum(spec.batch_sizes), spec.output_size), spec.dropout, seed=seed, call=call, layer=layer,
                        first=spec.output_size * (first_row[0] if first_row else 0))


def relative_error(value, reference) -> float:
    """Return ‖value − reference‖ / ‖reference‖ over all elements (NaN counts as infinitely wrong)."""
    value, reference = (np.asarray(a, dtype=np.float64) for a in (value, reference))
    error = np.linalg.norm((value - reference).ravel())
    scale = np.linalg.norm(reference.ravel())
    ratio = error / scale if scale else error
    return float(ratio) if np.isfinite(ratio) else float("inf")


#: Largest accepted :func:`relative_error` against the float64 reference.
TOLERANCE = {"float32": 1e-5}
