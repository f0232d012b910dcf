"""A system written into a plan: every step of a sweep is one matrix product of (interval × batch) rows.

Buffers of a level have the axes (slot, ..., unit, batch, columns), see :mod:`rnnopt.time_parallel.hierarchy`. The plans of a
network share theirs by name.
"""

from __future__ import annotations

from rnnopt import cells
from rnnopt.operations import View
from rnnopt.schedule.builder import Builder
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.hierarchy import Hierarchy, pieces

STREAM = 0


class Planned:
    """What the recurrence and the adjoint share: the same as :class:`rnnopt.time_parallel.systems.System` does at once.

    Parameters
    ----------
    emit : Builder
    spec : NetworkSpec
    hierarchy : Hierarchy
    keep : bool
        Keep of the steps what is needed after them, in rows of their own. (Cycles have no use for it, the end has.)

    Attributes
    ----------
    evaluated : int
        Steps that were emitted so far, each point of an interval counted.
    """

    #: What names of its buffers begin with.
    name: str
    #: :class:`~rnnopt.time_parallel.hierarchy.Along` or :class:`~rnnopt.time_parallel.hierarchy.Against`.
    way: type

    def __init__(self, emit: Builder, spec: NetworkSpec, hierarchy: Hierarchy, keep: bool = False):
        self.emit, self.spec, self.hierarchy, self.keep = emit, spec, hierarchy, keep
        self.cell = cells.get(spec.cell)
        self.layers = range(spec.layers)
        self.stacked = self.cell.gates * spec.hidden_size
        self.evaluated = 0

    # What a cycle asks for

    def step(self, level, number, corrected=True, within=()):
        """Emit a step of all intervals, or of those that `within` selects (indices of the axes after the place)."""
        source, target, place = self.way.slots(self.hierarchy.places(level), number)
        states = [self.state(level, k)[(source, *within)] for k in self.layers]
        new = [self.state(level, k)[(target, *within)] for k in self.layers]
        self.propagate(level, (place, *within), states, new)
        self._count(states[0])
        for k in self.layers if corrected or level == 0 else ():
            if (rhs := self.rhs(level, k)) is not None:
                self._elementwise("add", new[k], rhs[(place, *within)], new[k])

    def exchange(self, level):
        for c_points, candidates in self._shifted(level):
            self.emit.copy(c_points, candidates, STREAM)

    def norm(self):
        for number, (c_points, candidates) in enumerate(self.handed_over()):
            sums = [self.emit.buffer(f"{self.name}_{what}_{number}", (c_points.rows, 1), "output")[:, :] for what in ("residual", "size")]
            self.emit.launch("squared_sums", c_points, (candidates, c_points, *sums), STREAM)

    def restrict(self, level):
        below = level + 1
        slots, c_below = self.way.points(self.hierarchy.places(below)), self.way.c_point(self.hierarchy.places(below))
        new = [self._temporary(f"coarse_{k}", below)[:] for k in self.layers]
        points = [self.c_points(level, k) for k in self.layers]
        self.propagate(below, (), points, new)
        self._count(points[0])
        first = slots.start == c_below
        for k in self.layers:
            # Of the level below, only its own C-points are read before they are written.
            place = 0 if first else self.hierarchy.places(below) - 1
            state, places = self.state(level, k), self.hierarchy.places(level)
            self.emit.copy(self.state(below, k)[c_below], state[self.way.c_point(places), place], STREAM)
            self._elementwise("subtract", state[self.way.candidate(places)], new[k], self.rhs(below, k)[:])

    def inject(self, level):
        slots = self.way.points(self.hierarchy.places(level + 1))
        for k in self.layers:
            self.emit.copy(self.c_points(level, k), self.state(level + 1, k)[slots], STREAM)

    def first_coarse(self):
        self.set_first(self.hierarchy.coarsest)

    def begin(self, warm: bool):
        """Set the first point of level 0; all others too, to zero, unless they are to stay what they were."""
        for k in self.layers if not warm else ():
            self.zero(self.state(0, k)[:])
        self.set_first(0)

    def set_first(self, level):
        """Emit the copy of the given state to the first point of `level`."""
        for k in self.layers:
            self.emit.copy(self.edges(level, k)[0], self.first(k), STREAM)

    def zero(self, view):
        """Emit zeros. (Of the operand that is read, no row is.)"""
        self.launch("exchange_steps", (self.weight("bias_ih", 0)[:], view), self.spec.batch, 1, 1, 0, 0)

    def handed_over(self):
        """Pairs of views: C-points of level 0, and the candidates for them."""
        return list(self._shifted(0))

    # What the systems say

    def propagate(self, level, index, states, new):
        """Emit Φ of `level`, by what the steps at `index` read, from the views `states` to the views `new`, one of each layer."""
        raise NotImplementedError

    def first(self, k):
        """View of the given state of layer `k`."""
        raise NotImplementedError

    # Buffers and views

    def state(self, level, k):
        places, *rest = self.hierarchy.shape(level)
        return self.emit.buffer(f"{self.name}{level}_l{k}", (places + 1, *rest, self.spec.batch, self.spec.hidden_size))

    def rhs(self, level, k):
        """Right side of a level's equations, by the step that leads to it; None if it is zero."""
        if level == 0:
            return None
        return self.emit.buffer(f"{self.name}{level}_rhs_l{k}", (*self.hierarchy.shape(level), self.spec.batch, self.spec.hidden_size))

    def c_points(self, level, k):
        return self.state(level, k)[self.way.c_point(self.hierarchy.places(level))]

    def edges(self, level, k):
        """The first interval's C-point, and the last interval's candidate."""
        state, (places, *rest) = self.state(level, k), self.hierarchy.shape(level)
        first, last = ([self.way.edges(count)[which] for count in rest] for which in (0, 1))
        return state[(self.way.c_point(places), *first)], state[(self.way.candidate(places), *last)]

    def whole(self, name, columns, level=0):
        """A buffer with rows for all points of a level."""
        return self.emit.buffer(name, (*self.hierarchy.shape(level), self.spec.batch, columns))

    def of_level(self, buffer, level, index=()):
        """The rows of a buffer of level 0 that belong to the points of `level` at `index`."""
        return buffer[(*(0,) * level, *index)]

    def weight(self, name, k):
        features = {"weight_ih": self.spec.layer_input_size(k), "weight_hh": self.spec.hidden_size}
        shape = (self.stacked, features[name]) if name in features else (self.stacked,)
        return self.emit.buffer(f"{name}_l{k}", shape, "weight")

    def gates(self, level, k, index):
        """Gates, and R_n h + b_Rn, of the steps of `level` at `index`."""
        return tuple(self.whole(f"{name}{level}_l{k}", columns, level)[index]
                     for name, columns in (("gates", self.stacked), ("recurrent_n", self.spec.hidden_size)))

    def linearised(self, level, k):
        """The states that steps of a coarse level lead to from the states of level 0."""
        return self.whole(f"after{level}_l{k}", self.spec.hidden_size, level)

    def scratch(self, name, rows, columns):
        """Rows of a temporary that is used within a step."""
        most = max(self.hierarchy.points(level) for level in range(self.hierarchy.levels)) * self.spec.batch
        return self.emit.buffer(f"{self.name}_{name}", (most, 1, columns))[:rows]

    def _temporary(self, name, level):
        return self.whole(f"{self.name}_{name}_level{level}", self.spec.hidden_size, level)

    def _shifted(self, level):
        places, *rest = self.hierarchy.shape(level)
        for k in self.layers:
            state = self.state(level, k)
            for before, after in pieces(self.way, tuple(rest)):
                yield state[(self.way.c_point(places), *after)], state[(self.way.candidate(places), *before)]

    # Operations

    def product(self, out: View, x: View, weight):
        """Emit out = x · weightᵀ, as a layer applies it."""
        self.emit.gemm(out, x, weight[:, :], STREAM, transpose_b=True)

    def launch(self, kernel, operands, *scalars):
        """Emit a kernel over the last of its operands."""
        self.emit.launch(kernel, operands[-1], operands, STREAM, scalars)

    def _elementwise(self, kernel, *operands):
        self.launch(kernel, operands)

    def _count(self, view):
        self.evaluated += view.rows // self.spec.batch

    # Steps in their order, and as they are laid out

    def lay_out(self, natural, out, *, offset=0, valid=None):
        """Emit the copy of a buffer (steps, batch, columns) to a view with the axes of level 0."""
        self._passes(natural[:], out, self.hierarchy.passes, offset, self.spec.steps if valid is None else valid)

    def put_in_order(self, source, natural):
        """Emit the copy of a view with the axes of level 0 to a buffer (steps, batch, columns)."""
        passes = tuple((radix, inner) for inner, radix in reversed(self.hierarchy.passes))
        self._passes(source, natural[:], passes, 0, self.hierarchy.padded)

    def _passes(self, source, out, passes, offset, valid):
        columns, batch = out.cols, self.spec.batch
        passes = passes or ((self.hierarchy.padded, 1),)
        for number, (inner, radix) in enumerate(passes):
            last = number == len(passes) - 1
            target = out if last else self.scratch(f"order{number % 2}_{columns}", self.hierarchy.padded * batch, columns)
            self.launch("exchange_steps", (source, target), batch, inner, radix, offset, valid)
            source, offset, valid = target, 0, self.hierarchy.padded
