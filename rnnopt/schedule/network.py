"""Emit a whole network by a set of rules: the loop that all schedules share."""

from __future__ import annotations

from rnnopt import cells
from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder, CellOperands
from rnnopt.spec import NetworkSpec


def emit(spec: NetworkSpec, rules, input_group: int) -> Plan:
    """Return the plan of a forward pass, as `rules` would have it.

    Parameters
    ----------
    spec : NetworkSpec
    rules : namespace
        The functions of :mod:`rnnopt.schedule.naive`, some of them replaced.
    input_group : int
        Largest number of steps per input GEMM, where the rules batch them.
    """
    builder = Builder()
    layers = [_Layer(builder, spec, rules, number, input_group) for number in range(spec.layers)]
    below = [builder.buffer("inputs", (spec.steps, spec.batch, spec.input_size), "input"),
             *(layer.h for layer in layers)]
    group = layers[0].group
    for number, task in rules.order(spec.layers, -(-spec.steps // group)):
        layer = layers[number]
        steps = range(task * group, min((task + 1) * group, spec.steps))
        products = layer.input_products(below[number], steps)
        for step, product in zip(steps, products, strict=True):
            layer.cell(step, product)
    for layer in layers:
        layer.finish()
    return builder.plan(cells=spec.layers * spec.steps)


class _Layer:
    """Buffers of a layer, and how its tasks are emitted."""

    def __init__(self, builder, spec, rules, number, input_group):
        self.emit, self.spec, self.rules, self.number = builder, spec, rules, number
        self.definition = cells.get(spec.cell)
        self.group = min(rules.input_group(input_group), spec.steps)
        self.input_stream, self.recurrent_stream = (
            (rules.layer_stream(number), rules.part_stream(part)) for part in ("input", "recurrent"))

        hidden, stacked = spec.hidden_size, self.definition.gates * spec.hidden_size
        top = number == spec.layers - 1
        self.h = self._buffer("outputs" if top else f"h_l{number}", (spec.steps, spec.batch, hidden),
                              "output" if top else "scratch")
        # Two groups of input products: one is made while the other is used.
        self.inputs = self._buffer(f"input_products_l{number}", (2 * self.group, spec.batch, stacked))
        self.recurrent = self._buffer(f"recurrent_products_l{number}", (spec.batch, stacked))
        self.bias_ih, self.bias_hh = (
            self._buffer(f"{name}_l{number}", (stacked,), "weight") for name in ("bias_ih", "bias_hh"))
        self.weight_ih, self.weight_hh = (
            rules.prepare(builder, self._buffer(f"{name}_l{number}", (stacked, features), "weight"), stream)
            for name, features, stream in (("weight_ih", spec.layer_input_size(number), self.input_stream),
                                           ("weight_hh", hidden, self.recurrent_stream)))

    def _buffer(self, name, shape, role="scratch"):
        return self.emit.buffer(name, shape, role)

    def input_products(self, below, steps):
        """Emit the products of the layer's inputs at `steps`; return one view per step."""
        start = steps.start // self.group % 2 * self.group
        slots = self.inputs[start:start + len(steps)]
        self.rules.products(self.emit, below[steps.start:steps.stop], self.weight_ih, slots,
                            self.spec.hidden_size, self.input_stream)
        return [self.inputs[slot] for slot in range(start, start + len(steps))]

    def cell(self, step, product):
        """Emit the recurrence of one step, given the product of its input."""
        previous, new = zip(*(self._state(name, step) for name in self.definition.STATES), strict=True)
        self.rules.products(self.emit, previous[0], self.weight_hh, self.recurrent[:, :],
                            self.spec.hidden_size, self.recurrent_stream)
        self.rules.pointwise(self.emit, self.definition, CellOperands(
            product, self.recurrent[:, :], self.bias_ih[:], self.bias_hh[:], previous, new,
            scratch=lambda name: self._buffer(f"{name}_l{self.number}", (self.spec.batch, self.spec.hidden_size))[:, :],
            stream=self.recurrent_stream))

    def _state(self, name, step):
        """Views of state `name` before and after `step`."""
        spec, last = self.spec, step == self.spec.steps - 1
        whole = (spec.layers, spec.batch, spec.hidden_size)
        initial = self._buffer(f"initial_{name}", whole, "input")[self.number]
        if name == self.definition.STATES[0]:
            return (self.h[step - 1] if step else initial), self.h[step]
        # Only the output is kept for all steps; of the rest, two steps suffice.
        pair = self._buffer(f"{name}_l{self.number}", (2, spec.batch, spec.hidden_size))
        final = self._buffer(f"final_{name}", whole, "output")[self.number]
        return (pair[(step - 1) % 2] if step else initial), (final if last else pair[step % 2])

    def finish(self):
        """Emit what hands the final hidden state out."""
        spec, name = self.spec, self.definition.STATES[0]
        final = self._buffer(f"final_{name}", (spec.layers, spec.batch, spec.hidden_size), "output")
        self.emit.copy(final[self.number], self.h[spec.steps - 1], self.recurrent_stream)
