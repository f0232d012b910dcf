"""Emit a backward pass by a set of rules: gradients of inputs, initial states, weights and biases.

It walks the forward pass back. Per cell, the gradient of the pre-activations
takes the place of the gates; one product with the recurrent weight carries it
to the step before. What is left, gradients of the layer's inputs and of its
weights, are products that no step waits for.
"""

from __future__ import annotations

from collections.abc import Callable

from rnnopt.operations import View
from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder, Sequence, part
from rnnopt.schedule.dropout import drop
from rnnopt.schedule.layer import Layer, layers, tasks
from rnnopt.schedule.operands import BackwardOperands
from rnnopt.spec import NetworkSpec

#: What a backward pass consists of: gradients of inputs and states, and gradients of weights and biases.
PARTS = ("data", "weights")


def emit(spec: NetworkSpec, rules, input_group: int, parts=PARTS) -> Plan:
    """Return the plan of a backward pass, as `rules` would have it.

    Parameters
    ----------
    spec : NetworkSpec
    rules : namespace
        The functions of :mod:`rnnopt.schedule.naive`, some of them replaced.
    input_group : int
        Largest number of steps per GEMM of inputs' gradients, where the rules batch them.
    parts : sequence of str
        Those of :data:`PARTS` to emit. The weights' alone follow the data's.
    """
    builder = Builder()
    halves = {}
    stack = [[_Backward(layer, halves, parts) for layer in directions] for directions in layers(builder, spec, rules, input_group, "saved")]
    group = stack[0][0].layer.group
    groups = -(-spec.steps // group)
    for number, direction, task in tasks(spec, rules, groups):
        layer, task = stack[spec.layers - 1 - number][direction], groups - 1 - task
        layer.task(task * group, min((task + 1) * group, spec.steps))
    return builder.plan(cells=spec.layers * spec.directions * spec.steps)


class _Backward:
    """How the tasks of a layer are emitted."""

    def __init__(self, layer: Layer, halves: dict, parts):
        self.layer, self.halves = layer, halves
        self.data, self.weights = ("data" in parts), ("weights" in parts)
        emit, spec, cell = layer.emit, layer.spec, layer.cell
        self.below = layer.inputs(training=True)
        self.gates = layer.kept("recurrent_products", layer.stacked)
        if self.data:
            self.d_below = self._gradient_of_outputs(layer.number - 1)
            self.d_output = self._gradient_of_outputs(layer.number, layer.columns)
            self.d_state = {name: emit.buffer(f"d_{name}_{layer.name}", (spec.batch, spec.hidden_size)) for name in cell.STATES}
        self.weight_group = min(layer.rules.weight_group(spec.steps), spec.steps)
        self.seen = {}  # gradient of a weight -> whether something was added to it

    def _gradient_of_outputs(self, number, columns=None):
        spec = self.layer.spec
        name, role = ("d_inputs", "output") if number < 0 else (f"d_outputs_l{number}", "scratch")
        if number == spec.layers - 1:
            name, role = "d_outputs", "input"
        features = spec.input_size if number < 0 else spec.output_size
        return Sequence(spec, self.layer.emit.buffer(name, Sequence.shape(spec, features), role), columns)

    def task(self, start, stop):
        """Emit the steps from `start` to before `stop`, and what becomes possible by them."""
        layer = self.layer
        for step in reversed(layer.in_order(start, stop)):
            if self.data and layer.after(step) is None:
                self._take_state()
            if self.data:
                self.cell(step)
            if self.weights:
                self._weight_gradients_after(step)
            if self.data and layer.before(step) is None:
                self._hand_out_state()
        if self.data:
            self._input_gradient(start, stop)

    def _take_state(self):
        for name, buffer in self.d_state.items():
            self.layer.emit.copy(buffer[:, :], self.layer.states(f"d_final_{name}", "input")[self.layer.place],
                                 self.layer.stream("recurrent"))

    def _hand_out_state(self):
        for name, buffer in self.d_state.items():
            self.layer.emit.copy(self.layer.states(f"d_initial_{name}", "output")[self.layer.place], buffer[:, :],
                                 self.layer.stream("recurrent"))

    def cell(self, step):
        """Emit the gradient of one step's pre-activations, and of the hidden state before it."""
        layer, stream = self.layer, self.layer.stream("recurrent")
        for rows, starts in layer.segments(step):
            layer.rules.pointwise_backward(layer.emit, layer.cell, BackwardOperands(
                self.gates.step(step, rows),
                lambda name, rows=rows: self._saved(name).step(step, rows),
                tuple(self._previous(name, step, rows, starts) for name in layer.cell.STATES),
                tuple(self._states(name).step(step, rows) for name in layer.cell.STATES),
                self.d_output.step(step, rows),
                tuple(buffer[rows, :] for buffer in self.d_state.values()),
                layer.scratch(rows), stream))
        rows = slice(0, layer.active(step))
        layer.rules.gradient_products(layer.emit, self._parts(layer.cell.RECURRENT_PARTS, lambda kept: kept.step(step)),
                                      layer.weight("weight_hh"), self.d_state[layer.cell.STATES[0]][rows, :],
                                      layer.cell.BYPASS, layer.spec.hidden_size, stream)

    def _parts(self, parts, select: Callable[[Sequence], View]):
        """The gradient of a product, in parts: the rows that `select` takes of each, its first gate and the one after its last."""
        hidden = self.layer.spec.hidden_size
        return [(part(select(self.gates), first * hidden, end * hidden) if name == "gates" else select(self._saved(name)), first, end)
                for name, first, end in parts]

    def _saved(self, name):
        return self.layer.kept(name, self.layer.spec.hidden_size)

    def _states(self, name):
        return self.layer.h if name == self.layer.cell.STATES[0] else self.layer.kept(name, self.layer.spec.hidden_size)

    def _previous(self, name, step, rows, starts):
        if starts:
            return self.layer.states(f"initial_{name}", "saved")[self.layer.place, rows]
        return self._states(name).step(self.layer.before(step), rows)

    def _input_gradient(self, start, stop):
        layer, spec = self.layer, self.layer.spec
        out, stream = self.d_below.steps(start, stop), layer.stream("input")
        half = self.halves.pop((layer.number, start), None)
        layer.rules.gradient_products(layer.emit, self._parts(layer.cell.INPUT_PARTS, lambda kept: kept.steps(start, stop)),
                                      layer.weight("weight_ih"), out, half is not None, spec.hidden_size, stream)
        if spec.directions == 2 and half is None:
            self.halves[layer.number, start] = True  # the other direction adds its own
        elif spec.dropout and layer.number:
            drop(layer.emit, spec, self.d_below.buffer, self.d_below, layer.number - 1, start, stop, stream)

    def _weight_gradients_after(self, step):
        """Emit the weights' gradients of a group of steps, once `step` completes it."""
        layer, size = self.layer, self.weight_group
        start = step // size * size
        stop = min(start + size, layer.spec.steps)
        if step != (stop - 1 if layer.reverse else start):
            return
        self._add("weight_ih", layer.cell.INPUT_PARTS, lambda kept: kept.steps(start, stop), self.below.steps(start, stop))
        for select, previous in self._recurrences(start, stop):
            self._add("weight_hh", layer.cell.RECURRENT_PARTS, select, previous)
        self._add_bias("bias_ih", layer.cell.INPUT_PARTS, start, stop)
        if layer.cell.INPUT_PARTS != layer.cell.RECURRENT_PARTS:
            self._add_bias("bias_hh", layer.cell.RECURRENT_PARTS, start, stop)
        elif layer.before(step) is None:
            layer.emit.copy(self._gradient("bias_hh")[:], self._gradient("bias_ih")[:], layer.stream("input_weight"))

    def _gradient(self, name):
        weight = self.layer.weight(name)
        return self.layer.emit.buffer(f"d_{weight.name}", weight.shape, "output")

    def _add(self, name, parts, select, x):
        layer = self.layer
        of = "input_weight" if name == "weight_ih" else "recurrent_weight"
        layer.rules.weight_gradient(layer.emit, self._parts(parts, select), x, self._gradient(name),
                                    self.seen.get(name, False), layer.spec.hidden_size, layer.stream(of))
        self.seen[name] = True

    def _add_bias(self, name, parts, start, stop):
        layer, hidden = self.layer, self.layer.spec.hidden_size
        stream = layer.stream("input_weight" if name == "bias_ih" else "recurrent_weight")
        for view, first, end in self._parts(parts, lambda kept: kept.steps(start, stop)):
            out = self._gradient(name)[first * hidden:end * hidden]
            if self.seen.get(name, False):
                layer.emit.launch("column_sum_add", view, (view, out, out), stream)
            else:
                layer.emit.launch("column_sum", view, (view, out), stream)
        self.seen[name] = True

    def _recurrences(self, start, stop):
        """Pair the steps' gradients with the hidden states before them, in as few pieces as there are.

        The states before a run of steps are a run too, one step earlier, as long
        as it has all sequences of a step at each.
        """
        layer, runs = self.layer, []
        for step in range(start, stop):
            before = layer.before(step)
            if before is not None and layer.active(before) == layer.active(step):
                if runs and runs[-1][1] == step and runs[-1][2] == layer.active(step):
                    runs[-1][1] += 1
                else:
                    runs.append([step, step + 1, layer.active(step)])
        shift = 1 if layer.reverse else -1
        for first, end, _ in runs:
            yield (lambda kept, first=first, end=end: kept.steps(first, end)), layer.h.steps(first + shift, end + shift)
        inside = {step for first, end, _ in runs for step in range(first, end)}
        for step in range(start, stop):
            for rows, starts in layer.segments(step) if step not in inside else ():
                yield ((lambda kept, step=step, rows=rows: kept.step(step, rows)),
                       self._previous(layer.cell.STATES[0], step, rows, starts))
