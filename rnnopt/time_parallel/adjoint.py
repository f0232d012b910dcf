"""The gradients of a network's states, written into a plan."""

from __future__ import annotations

from rnnopt.schedule.builder import part
from rnnopt.time_parallel.hierarchy import Against
from rnnopt.time_parallel.planned import STREAM, Planned
from rnnopt.time_parallel.recurrence import PlannedRecurrence


class PlannedAdjoint(Planned):
    """Gradients of the states, against the sequence; what is kept are those of the gates.

    Finds in buffers of the same names the states, inputs, gates and products that a :class:`PlannedRecurrence` has left.
    """

    name, way = "d_h", Against

    def __init__(self, emit, spec, hierarchy, keep=False):
        super().__init__(emit, spec, hierarchy, keep)
        self.forward = PlannedRecurrence(emit, spec, hierarchy)

    def prepare(self):
        """Emit the sources, laid out, and the gates of the coarse levels."""
        spec, hierarchy = self.spec, self.hierarchy
        # By the step that leads to it: step t from the state before it, so one later than the outputs.
        self.lay_out(self._d_outputs, self.rhs(0, spec.layers - 1)[:], offset=1)
        self.zero(self._no_gradient)
        if hierarchy.padded > spec.steps:
            for k in self.layers:
                if k < spec.layers - 1:
                    self.zero(self.rhs(0, k)[:])
                last = self.rhs(0, k)[hierarchy.place(spec.steps)]
                self._elementwise("add", last, self._d_final(k), last)
                self.zero(self.first(k))
        else:
            self.add_last_source()
        self.forward.keep = True
        for level in range(1, hierarchy.levels):
            self.forward.linearise(level)

    def add_last_source(self):
        """Emit the first state, against the sequence: the given gradient of the final states and that of the last output."""
        natural, top = self._d_outputs, self.spec.layers - 1
        self._elementwise("add", natural[self.spec.steps - 1], self._d_final(top), self.first(top))
        for k in range(top):
            self.emit.copy(self.first(k), self._d_final(k), STREAM)

    @property
    def _d_outputs(self):
        return self.emit.buffer("d_outputs", (self.spec.steps, self.spec.batch, self.spec.hidden_size), "input")

    def _d_final(self, k):
        return self.emit.buffer("d_final_h", self.spec.state_shape, "input")[k]

    @property
    def _no_gradient(self):
        """A row that stands for the gradient from above where there is no layer above."""
        return self.emit.buffer("no_gradient", (self.spec.hidden_size,))[:]

    def first(self, k):
        return self.emit.buffer("d_h_first", self.spec.state_shape)[k]

    def rhs(self, level, k):
        if level:
            return super().rhs(level, k)
        if k == self.spec.layers - 1 or self.hierarchy.padded > self.spec.steps:
            return self.whole(f"d_h0_rhs_l{k}", self.spec.hidden_size)
        return None

    def propagate(self, level, index, states, new):
        dt, rows, hidden = float(self.hierarchy.dt(level)), new[0].rows, self.spec.hidden_size
        d_above = self._no_gradient
        for k in reversed(self.layers):
            gates, saved = self.gates(level, k, index)
            after = self.linearised(level, k)[index] if level else self.state_after(k, index)
            d_gates, d_saved = self._gradients(k, index, rows)
            self.launch("implicit_gru_backward", (gates, saved, after, d_above, states[k], d_gates, d_saved, new[k]), dt)
            for name, first, end in self.cell.RECURRENT_PARTS:
                d = part(d_gates, first * hidden, end * hidden) if name == "gates" else d_saved
                self.emit.gemm(new[k], d, self.weight("weight_hh", k)[first * hidden:end * hidden, :], STREAM, accumulate=True)
            if k:
                d_above = self.scratch(f"d_below_{k % 2}", rows, hidden)
                self.emit.gemm(d_above, d_gates, self.weight("weight_ih", k)[:, :], STREAM)

    def state_after(self, k, index):
        """What the steps of level 0 at `index` lead to."""
        return self.forward.state(0, k)[(index[0] + 1, *index[1:])] if index else self.forward.state(0, k)[1:]

    def _gradients(self, k, index, rows):
        if self.keep:
            return self.whole(f"d_gates_l{k}", self.stacked)[index], self.whole(f"d_saved_l{k}", self.spec.hidden_size)[index]
        return self.scratch("d_gates", rows, self.stacked), self.scratch("d_saved", rows, self.spec.hidden_size)

    def results(self):
        """Emit the gradients of weights, inputs and initial states, from those of the gates that the end has kept."""
        spec, places = self.spec, self.hierarchy.places(0)
        for k in self.layers:
            below = self.forward.state(0, k - 1)[1:] if k else self.whole("inputs_laid_out", spec.input_size)[:]
            before = self.forward.state(0, k)[:places]
            for of, parts, x in (("ih", self.cell.INPUT_PARTS, below), ("hh", self.cell.RECURRENT_PARTS, before)):
                for d, rows in self._parts(k, parts):
                    self.emit.gemm(self._gradient(f"weight_{of}", k)[rows, :], d, x, STREAM, transpose_a=True)
                    self.emit.launch("column_sum", d, (d, self._gradient(f"bias_{of}", k)[rows]), STREAM)
        d_inputs = self.whole("d_inputs_laid_out", spec.input_size)
        self.emit.gemm(d_inputs[:], self.whole("d_gates_l0", self.stacked)[:], self.weight("weight_ih", 0)[:, :], STREAM)
        self.put_in_order(d_inputs[:], self.emit.buffer("d_inputs", (spec.steps, spec.batch, spec.input_size), "output"))
        start = (0,) * self.hierarchy.levels
        for k in self.layers:
            self.emit.copy(self.emit.buffer("d_initial_h", spec.state_shape, "output")[k], self.state(0, k)[start], STREAM)

    def _parts(self, k, parts):
        """The gradient of a product of layer `k`, in parts: a view, and the rows of the weight that it belongs to."""
        hidden = self.spec.hidden_size
        d_gates, d_saved = self._gradients(k, (), None)
        return [(part(d_gates, first * hidden, end * hidden) if name == "gates" else d_saved, slice(first * hidden, end * hidden))
                for name, first, end in parts]

    def _gradient(self, name, k):
        weight = self.weight(name, k)
        return self.emit.buffer(f"d_{weight.name}", weight.shape, "output")
