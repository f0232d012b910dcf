"""The recurrence of a network, written into a plan."""

from __future__ import annotations

from rnnopt.time_parallel.hierarchy import Along
from rnnopt.time_parallel.planned import STREAM, Planned


class PlannedRecurrence(Planned):
    """Stacked layers, with the sequence; what is kept are the gates."""

    name, way = "h", Along

    def prepare(self):
        """Emit what is done once: the inputs' layout, and their products with the first layer's weights."""
        spec = self.spec
        natural = self.emit.buffer("inputs", (spec.steps, spec.batch, spec.input_size), "input")
        inputs = self.whole("inputs_laid_out", spec.input_size)
        self.lay_out(natural, inputs[:])
        self.product(self.whole("input_products", self.stacked)[:], inputs[:], self.weight("weight_ih", 0))

    def first(self, k):
        return self.emit.buffer("initial_h", self.spec.state_shape, "input")[k]

    def propagate(self, level, index, states, new):
        dt, rows = float(self.hierarchy.dt(level)), new[0].rows
        products = self.of_level(self.whole("input_products", self.stacked), level, index)
        for k in self.layers:
            if k:
                products = self.scratch(f"input_products_l{k}", rows, self.stacked)
                self.product(products, new[k - 1], self.weight("weight_ih", k))
            gates, saved = self.gates(level, k, index) if self.keep else (self.scratch("recurrent_products", rows, self.stacked), None)
            self.product(gates, states[k], self.weight("weight_hh", k))
            read = (products, gates, self.weight("bias_ih", k)[:], self.weight("bias_hh", k)[:], states[k])
            if self.keep:
                self.launch("implicit_gru_forward_training", (*read, gates, saved, new[k]), dt)
            else:
                self.launch("implicit_gru_forward", (*read, new[k]), dt)

    def linearise(self, level):
        """Emit the gates of all steps of `level` about the states that level 0 has at its points, and the states they lead to."""
        self.propagate(level, (), [self.of_level(self.state(0, k), level) for k in self.layers],
                       [self.linearised(level, k)[:] for k in self.layers])

    def results(self):
        """Emit the outputs in their order, and the final states."""
        spec, hierarchy = self.spec, self.hierarchy
        top = self.state(0, spec.layers - 1)
        self.put_in_order(top[1:], self.emit.buffer("outputs", (spec.steps, spec.batch, spec.hidden_size), "output"))
        place, *rest = hierarchy.place(spec.steps - 1)
        for k in self.layers:
            self.emit.copy(self.emit.buffer("final_h", spec.state_shape, "output")[k], self.state(0, k)[(place + 1, *rest)], STREAM)
