"""Emit a forward pass by a set of rules: the loop that all schedules share."""

from __future__ import annotations

from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder
from rnnopt.schedule.dropout import drop
from rnnopt.schedule.layer import Layer, layers, tasks
from rnnopt.schedule.operands import CellOperands
from rnnopt.spec import NetworkSpec


def emit(spec: NetworkSpec, rules, input_group: int, training: bool = False) -> Plan:
    """Return the plan of a forward pass, as `rules` would have it.

    Parameters
    ----------
    spec : NetworkSpec
    rules : namespace
        The functions of :mod:`rnnopt.schedule.naive`, some of them replaced.
    input_group : int
        Largest number of steps per input GEMM, where the rules batch them.
    training : bool
        Keep what a backward pass needs.
    """
    builder = Builder()
    dropped = set()
    stack = [[_Forward(layer, training, dropped) for layer in directions]
             for directions in layers(builder, spec, rules, input_group, "scratch")]
    group = stack[0][0].layer.group
    for number, direction, task in tasks(spec, rules, -(-spec.steps // group)):
        stack[number][direction].task(task * group, min((task + 1) * group, spec.steps))
    for directions in stack:
        for layer in directions:
            layer.finish()
    return builder.plan(cells=spec.layers * spec.directions * spec.steps)


class _Forward:
    """How the tasks of a layer are emitted."""

    def __init__(self, layer: Layer, training: bool, dropped: set):
        self.layer, self.training, self.dropped = layer, training, dropped
        emit, spec = layer.emit, layer.spec
        self.below = layer.inputs(training)
        # Two groups of input products: one is made while the other is used.
        self.inputs = emit.buffer(f"input_products_{layer.name}", (2, layer.group * spec.batch, layer.stacked))
        if training:
            self.recurrent = layer.kept("recurrent_products", layer.stacked)
        self.bias_ih, self.bias_hh = (layer.weight(name)[:] for name in ("bias_ih", "bias_hh"))
        self.weight_ih, self.weight_hh = (
            layer.rules.prepare(emit, layer.weight(name), layer.stream(part))
            for name, part in (("weight_ih", "input"), ("weight_hh", "recurrent")))

    def task(self, start, stop):
        """Emit the steps from `start` to before `stop`."""
        layer, rows = self.layer, self.layer.spec.batch_sizes
        if self.training and layer.spec.dropout and layer.number and (layer.number, start) not in self.dropped:
            self.dropped.add((layer.number, start))  # once for both directions
            drop(layer.emit, layer.spec, layer.outputs_of(layer.number - 1), self.below, layer.number - 1, start, stop,
                 layer.stream("input"))
        slot, at = start // layer.group % 2, 0
        products = {}
        for step in range(start, stop):
            products[step] = (slot, at)
            at += rows[step]
        layer.rules.products(layer.emit, self.below.steps(start, stop), self.weight_ih, self.inputs[slot, :at],
                             layer.spec.hidden_size, layer.stream("input"))
        for step in layer.in_order(start, stop):
            self.cell(step, *products[step])

    def cell(self, step, slot, at):
        """Emit the recurrence of one step, given where the product of its input is."""
        layer, stream = self.layer, self.layer.stream("recurrent")
        for rows, starts in layer.segments(step):
            previous, new = zip(*(self._state(name, step, rows, starts) for name in layer.cell.STATES), strict=True)
            recurrent = self._recurrent(step, rows)
            layer.rules.products(layer.emit, previous[0], self.weight_hh, recurrent, layer.spec.hidden_size, stream)
            layer.rules.pointwise(layer.emit, layer.cell, CellOperands(
                self.inputs[slot, at + rows.start:at + rows.stop], recurrent, self.bias_ih, self.bias_hh, previous, new,
                self._saved(step, rows), layer.scratch(rows), self.training, stream))
        for name in layer.cell.STATES[1:]:
            self._hand_out(name, step)

    def _recurrent(self, step, rows):
        if self.training:
            return self.recurrent.step(step, rows)
        layer = self.layer
        return layer.emit.buffer(f"recurrent_products_{layer.name}", (layer.spec.batch, layer.stacked))[rows]

    def _saved(self, step, rows):
        if not self.training:
            return self.layer.scratch(rows)
        return lambda name: self.layer.kept(name, self.layer.spec.hidden_size).step(step, rows)

    def _state(self, name, step, rows, starts):
        """Views of state `name` before and after `step`."""
        initial = self.layer.states(f"initial_{name}", "input")[self.layer.place, rows]
        return initial if starts else self._at(name, self.layer.before(step), rows), self._at(name, step, rows)

    def _at(self, name, step, rows):
        layer, spec = self.layer, self.layer.spec
        if name == layer.cell.STATES[0]:
            return layer.h.step(step, rows)
        if self.training:
            return layer.kept(name, spec.hidden_size).step(step, rows)
        # Only the output is kept for all steps; of the rest, two steps suffice.
        if layer.after(step) is None:
            return layer.states(f"final_{name}", "output")[layer.place, rows]
        return layer.emit.buffer(f"{name}_{layer.name}", (2, spec.batch, spec.hidden_size))[step % 2, rows]

    def _hand_out(self, name, step):
        """Copy the state of the sequences that end at `step`, if it is not there already."""
        rows, layer = self.layer.ending(step), self.layer
        final = layer.states(f"final_{name}", "output")
        if rows and (source := self._at(name, step, rows)).buffer is not final:
            layer.emit.copy(final[layer.place, rows], source, layer.stream("recurrent"))

    def finish(self):
        """Emit what hands the final hidden state out."""
        for step in range(self.layer.spec.steps):
            if self.layer.ending(step):
                self._hand_out(self.layer.cell.STATES[0], step)


