"""A recurrence and its adjoint on all levels, in float64 NumPy: what the plans' solver is compared with.

Arrays of a level have the axes (slot, ..., unit, batch, hidden), see :mod:`rnnopt.time_parallel.hierarchy`.
"""

from __future__ import annotations

import numpy as np

from rnnopt import cells
from rnnopt.time_parallel.hierarchy import Against, Along, Hierarchy, pieces
from rnnopt.weights import parameter_names


class System:
    """What the recurrence and the adjoint share.

    Parameters
    ----------
    hierarchy : Hierarchy
    way : Along or Against
    shapes : list of tuple
        Of each part of a state: for a network one (batch, hidden) per layer.
    first : list of ndarray
        The given state, one array for each part.
    source : list of ndarray or None
        f of level 0, laid out as the points are, one for each part.

    Attributes
    ----------
    u : list of list of ndarray
        Of each level the parts of its states, axes (slot, ..., unit, *shape). Zeros but for the given state.
    norms : list of float
        Of the residual, and of the C-points that it belongs to, at every call of :meth:`norm`.
    evaluated : int
        Steps that were taken so far, each point of an interval counted.
    """

    def __init__(self, hierarchy: Hierarchy, way, shapes, first, source=None):
        self.hierarchy, self.way, self._first = hierarchy, way, first
        self.u = [[np.zeros((places + 1, *rest, *shape)) for shape in shapes]
                  for places, *rest in map(hierarchy.shape, range(hierarchy.levels))]
        self._rhs = [source] + [None] * hierarchy.coarsest
        self.norms, self.evaluated = [], 0
        start = tuple(way.edges(count)[0] for count in hierarchy.shape(0)[1:])
        for part, value in zip(self.u[0], first, strict=True):
            part[(way.c_point(hierarchy.places(0)), *start)] = value

    def propagate(self, level, states, index):
        """Φ of `level`: from `states`, one array for each part, by what the steps at `index` read."""
        raise NotImplementedError

    def go_on(self, other: System):
        """Take the states of level 0 from `other`, but for the given one."""
        start = tuple(self.way.edges(count)[0] for count in self.hierarchy.shape(0)[1:])
        for part, before, value in zip(self.u[0], other.u[0], self._first, strict=True):
            part[:] = before
            part[(self.way.c_point(self.hierarchy.places(0)), *start)] = value

    def step(self, level, number, corrected=True):
        source, target, place = self.way.slots(self.hierarchy.places(level), number)
        new = self._propagate(level, [part[source] for part in self.u[level]], (place,))
        rhs = self._rhs[level] if corrected or level == 0 else None
        for k, (part, value) in enumerate(zip(self.u[level], new, strict=True)):
            part[target] = value if rhs is None or rhs[k] is None else value + rhs[k][place]

    def exchange(self, level):
        places, *rest = self.hierarchy.shape(level)
        for part in self.u[level]:
            c_points, candidates = part[self.way.c_point(places)], part[self.way.candidate(places)]
            for before, after in pieces(self.way, tuple(rest)):
                c_points[after] = candidates[before]

    def norm(self):
        places, *rest = self.hierarchy.shape(0)
        residual = size = 0
        for part in self.u[0]:
            c_points, candidates = part[self.way.c_point(places)], part[self.way.candidate(places)]
            for before, after in pieces(self.way, tuple(rest)):
                residual += np.sum((candidates[before] - c_points[after]) ** 2)
                size += np.sum(c_points[after] ** 2)
        self.norms.append((np.sqrt(residual), np.sqrt(size)))

    def restrict(self, level):
        places, below = self.hierarchy.places(level), self.way.points(self.hierarchy.places(level + 1))
        self._take(level)
        new = self._propagate(level + 1, [part[below] for part in self.u[level + 1]], ())
        self._rhs[level + 1] = [part[self.way.candidate(places)] - value for part, value in zip(self.u[level], new, strict=True)]

    def inject(self, level):
        below = self.way.points(self.hierarchy.places(level + 1))
        for part, coarse in zip(self.u[level], self.u[level + 1], strict=True):
            part[self.way.c_point(self.hierarchy.places(level))] = coarse[below]

    def first_coarse(self):
        places = self.hierarchy.places(self.hierarchy.coarsest)
        for part, value in zip(self.u[-1], self._first, strict=True):
            part[self.way.c_point(places)] = value

    def _take(self, level):
        below = self.way.points(self.hierarchy.places(level + 1))
        for part, coarse in zip(self.u[level], self.u[level + 1], strict=True):
            coarse[below] = part[self.way.c_point(self.hierarchy.places(level))]

    def _propagate(self, level, states, index):
        self.evaluated += int(np.prod(states[0].shape[:-2]))
        return self.propagate(level, states, index)


class Recurrence(System):
    """Stacked layers of a cell.

    Parameters
    ----------
    hierarchy : Hierarchy
    step : callable
        ``step(weight_ih, weight_hh, bias_ih, bias_hh, x, h, dt=...)``, as :func:`rnnopt.cells.implicit_gru.step`.
    parameters : list of tuple
        The four arrays of each layer.
    inputs : ndarray, shape (steps, batch, features)
    initial : ndarray, shape (layers, batch, hidden)
    """

    def __init__(self, hierarchy, step, parameters, inputs, initial):
        super().__init__(hierarchy, Along, [part.shape for part in initial], list(initial))
        self._step, self._parameters = step, parameters
        self.inputs = laid_out(hierarchy, np.asarray(inputs, np.float64))

    def propagate(self, level, states, index):
        below = self.inputs[(*(0,) * level, *index)]
        new = []
        for h, parameters in zip(states, self._parameters, strict=True):
            rows = self._step(*parameters, below.reshape(-1, below.shape[-1]), h.reshape(-1, h.shape[-1]), dt=self.hierarchy.dt(level))[0]
            below = rows.reshape(h.shape)
            new.append(below)
        return new

    def outputs(self):
        """Hidden states after every step, in order: of each layer (steps, batch, hidden)."""
        return [in_order(self.hierarchy, part[1:]) for part in self.u[0]]


def recurrence(spec, weights, inputs, hierarchy: Hierarchy, step=None, state=None) -> Recurrence:
    """Return the recurrence of a network from its weights by name; `step` and the initial `state` are the cell's and zeros if not given."""
    parameters = [[np.asarray(weights[name], np.float64) for name in parameter_names(layer, False)] for layer in range(spec.layers)]
    return Recurrence(hierarchy, step or cells.get(spec.cell).step, parameters, inputs,
                      np.zeros(spec.state_shape) if state is None else np.asarray(state, np.float64))


class Adjoint(System):
    """The gradients of a recurrence's states, against the sequence, about the states that it has.

    Parameters
    ----------
    recurrence : Recurrence
        After :meth:`Cycle.finish`.
    step_backward : callable
        As :func:`rnnopt.cells.implicit_gru.step_backward`.
    d_outputs : ndarray, shape (steps, batch, hidden)
        Gradients of the outputs of the top layer.
    d_state : ndarray, shape (layers, batch, hidden)
        Gradients of the final states.
    source : ndarray, optional
        Instead of both: as :func:`sources` returns it, for these steps of a longer sequence.
    """

    def __init__(self, recurrence: Recurrence, step_backward, d_outputs, d_state, source=None):
        hierarchy = recurrence.hierarchy
        if source is None:
            source = sources(hierarchy, d_outputs, d_state)
        super().__init__(hierarchy, Against, [part.shape for part in d_state], list(source[:, -1]),
                         [laid_out(hierarchy, part[:-1]) for part in source])
        self._recurrence, self._step_backward = recurrence, step_backward

    def propagate(self, level, states, index):
        new, _ = self.vjp(level, states, index)
        return new

    def vjp(self, level, states, index):
        """Gradients of the states before the steps at `index`, and of both products of each layer."""
        recurrence = self._recurrence
        at = (*(0,) * level, *index)
        below, before, inside = recurrence.inputs[at], [], []
        places = self.hierarchy.places(0)
        for part, parameters in zip(recurrence.u[0], recurrence._parameters, strict=True):
            h = part[:places][at]
            before.append((below, h))
            rows = recurrence._step(*parameters, below.reshape(-1, below.shape[-1]), h.reshape(-1, h.shape[-1]),
                                    dt=self.hierarchy.dt(level))[0]
            below = rows.reshape(h.shape)
        new, d_above = [], 0
        for k in reversed(range(len(before))):
            x, h = before[k]
            weight_ih, weight_hh, *_ = parameters = recurrence._parameters[k]
            d_input, d_recurrent, (d_past,) = self._step_backward(
                *parameters, x.reshape(-1, x.shape[-1]), (h.reshape(-1, h.shape[-1]),),
                ((states[k] + d_above).reshape(-1, h.shape[-1]),), dt=self.hierarchy.dt(level))
            new.append((d_past + d_recurrent @ weight_hh).reshape(h.shape))
            inside.append((d_input, d_recurrent, x.reshape(-1, x.shape[-1]), h.reshape(-1, h.shape[-1])))
            d_above = (d_input @ weight_ih).reshape(*h.shape[:-1], -1)
        return new[::-1], inside[::-1]

    def d_inputs(self):
        """Gradients of the inputs, (steps, batch, features), after :meth:`Cycle.finish`."""
        places = self.hierarchy.places(0)
        _, inside = self.vjp(0, [part[1:places + 1] for part in self.u[0]], ())
        d_inputs = inside[0][0] @ self._recurrence._parameters[0][0]
        return in_order(self.hierarchy, d_inputs.reshape(self._recurrence.inputs.shape))

    def gradients(self):
        """Of each layer's parameters (its four arrays), after :meth:`Cycle.finish`."""
        places = self.hierarchy.places(0)
        _, inside = self.vjp(0, [part[1:places + 1] for part in self.u[0]], ())
        return [(d_input.T @ x, d_recurrent.T @ h, d_input.sum(axis=0), d_recurrent.sum(axis=0)) for d_input, d_recurrent, x, h in inside]


def sources(hierarchy: Hierarchy, d_outputs, d_state):
    """What is added to the gradients of the states, (layers, steps + 1, batch, hidden): of the output before it, of the final states."""
    found = np.zeros((len(d_state), hierarchy.padded + 1, *d_state.shape[1:]))
    found[-1, 1:hierarchy.steps + 1] = d_outputs
    found[:, hierarchy.steps] += d_state
    return found


def laid_out(hierarchy: Hierarchy, array):
    """Steps in their order -> as the points of level 0 are laid out, zeros where steps were added."""
    padded = np.zeros((hierarchy.padded, *array.shape[1:]), array.dtype)
    padded[:len(array)] = array
    digits = hierarchy.shape(0)[::-1]
    axes = [*range(len(digits))[::-1], *range(len(digits), len(digits) + array.ndim - 1)]
    return padded.reshape(*digits, *array.shape[1:]).transpose(axes).copy()


def in_order(hierarchy: Hierarchy, array):
    """The inverse of :func:`laid_out`."""
    count = hierarchy.levels
    axes = [*range(count)[::-1], *range(count, array.ndim)]
    return array.transpose(axes).reshape(hierarchy.padded, *array.shape[count:])[:hierarchy.steps]
