"""A layer in one direction: its buffers, and which rows follow which.

The forward and the backward plan name buffers alike, by this module: so the
backward pass finds what the forward pass has left.
"""

from __future__ import annotations

from rnnopt import cells
from rnnopt.schedule.builder import Builder, Sequence
from rnnopt.spec import NetworkSpec

#: Rows of all sequences.
ALL = slice(None)


class Layer:
    """One layer in one direction.

    Parameters
    ----------
    builder : Builder
    spec : NetworkSpec
    rules : namespace
        See :mod:`rnnopt.schedule.naive`.
    number : int
        Of the layer, from below.
    reverse : bool
        Whether it goes against the sequence.
    group : int
        Steps that share a GEMM where the rules batch them.
    role : {"scratch", "saved"}
        Of what a backward pass needs: made by this plan, or by another.
    """

    def __init__(self, builder: Builder, spec: NetworkSpec, rules, number: int, reverse: bool, group: int, role: str):
        self.emit, self.spec, self.rules, self.number, self.reverse = builder, spec, rules, number, reverse
        self.cell = cells.get(spec.cell)
        self.group, self._role = group, role
        self.name = f"l{number}_reverse" if reverse else f"l{number}"
        self.place = number * spec.directions + reverse  # in the states
        self.stacked = self.cell.gates * spec.hidden_size
        self.columns = (reverse * spec.hidden_size, (1 + reverse) * spec.hidden_size)  # in the outputs of both directions
        self.h = Sequence(spec, self.outputs_of(number), self.columns)

    def outputs_of(self, number):
        """Buffer of the outputs of layer `number`, both directions."""
        top = number == self.spec.layers - 1
        role = "saved" if self._role == "saved" else "output" if top else "scratch"
        return self.emit.buffer("outputs" if top else f"h_l{number}", Sequence.shape(self.spec, self.spec.output_size), role)

    def inputs(self, training: bool) -> Sequence:
        """What the layer reads: the network's inputs, or the outputs of the layer below, some of them dropped in training."""
        spec, number = self.spec, self.number
        if number == 0:
            role = "saved" if self._role == "saved" else "input"
            return Sequence(spec, self.emit.buffer("inputs", Sequence.shape(spec, spec.input_size), role))
        if training and spec.dropout:
            return Sequence(spec, self.emit.buffer(f"dropped_l{number - 1}", Sequence.shape(spec, spec.output_size), self._role))
        return Sequence(spec, self.outputs_of(number - 1))

    def stream(self, part: str):
        return self.rules.layer_stream(self.place), self.rules.part_stream(part)

    def kept(self, name: str, columns: int) -> Sequence:
        """A buffer with rows for every step."""
        return Sequence(self.spec, self.emit.buffer(f"{name}_{self.name}", Sequence.shape(self.spec, columns), self._role))

    def scratch(self, rows: slice):
        """Return what gives temporaries of the layer by name, as many rows of them as `rows` has."""
        start, stop, _ = rows.indices(self.spec.batch)

        def view(name):
            return self.emit.buffer(f"{name}_{self.name}", (self.spec.batch, self.spec.hidden_size))[start:stop, :]
        return view

    def weight(self, name: str):
        features = {"weight_ih": self.spec.layer_input_size(self.number), "weight_hh": self.spec.hidden_size}
        shape = (self.stacked, features[name]) if name in features else (self.stacked,)
        return self.emit.buffer(f"{name}_{self.name}", shape, "weight")

    def states(self, name: str, role: str):
        """Buffer of a state of all layers, as it comes or goes: its name has a prefix."""
        return self.emit.buffer(name, self.spec.state_shape, role)

    def in_order(self, start: int, stop: int) -> list[int]:
        """The steps from `start` to before `stop`, in the order in which the layer takes them."""
        steps = list(range(start, stop))
        return steps[::-1] if self.reverse else steps

    def before(self, step: int) -> int | None:
        """The step that the layer takes before `step`."""
        return self._inside(step + 1 if self.reverse else step - 1)

    def after(self, step: int) -> int | None:
        return self._inside(step - 1 if self.reverse else step + 1)

    def _inside(self, step):
        return step if 0 <= step < self.spec.steps else None

    def active(self, step: int | None) -> int:
        """Number of sequences that have `step`."""
        return 0 if step is None else self.spec.batch_sizes[step]

    def segments(self, step: int) -> list[tuple[slice, bool]]:
        """The rows of `step`: those that continue from the step before, and those that start from the initial state."""
        going, rows = min(self.active(self.before(step)), self.active(step)), self.active(step)
        return [(slice(start, stop), starts) for start, stop, starts in ((0, going, False), (going, rows, True)) if start < stop]

    def ending(self, step: int) -> slice | None:
        """The rows for which `step` is the last, if there are any."""
        first, rows = min(self.active(self.after(step)), self.active(step)), self.active(step)
        return slice(first, rows) if first < rows else None


def layers(builder, spec, rules, input_group, role) -> list[list[Layer]]:
    """All layers from below, each with its directions."""
    group = min(rules.input_group(input_group), spec.steps)
    return [[Layer(builder, spec, rules, number, reverse, group, role) for reverse in (False, True)[:spec.directions]]
            for number in range(spec.layers)]


def tasks(spec, rules, groups):
    """Yield (layer, direction, group of steps) in the order in which a forward pass takes them."""
    if spec.directions == 1:
        for layer, group in rules.order(spec.layers, groups):
            yield layer, 0, group
        return
    for layer in range(spec.layers):  # the layer above needs both directions, at every step
        for direction, group in rules.order(spec.directions, groups):
            yield layer, direction, groups - 1 - group if direction else group
