"""Long sequences in less memory: keep the states at checkpoints, and compute what lies between them again.

A sequence of T steps in segments of k: the forward pass keeps the states where
segments begin, T / k of them, and what training keeps for k steps only. The
backward pass takes the segments from the last, runs each forward again from
its checkpoint, and goes back through it: a third more arithmetic for T / k
times less memory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rnnopt.network import TrainingNetwork
from rnnopt.spec import positive_integer
from rnnopt.weights import checked_array, weight_shapes


class CheckpointedNetwork:
    """A training network that keeps states every so many steps.

    Parameters
    ----------
    spec : NetworkSpec
    every : int
        Steps of a segment; the last one may be shorter.
    compile_segment : callable
        NetworkSpec -> :class:`rnnopt.TrainingNetwork`.

    Raises
    ------
    ValueError
        If the network is bidirectional or its sequences are packed: a layer
        then needs the whole of the one below before any of its segments.

    Attributes
    ----------
    spec : NetworkSpec
    weights : dict of str to ndarray
    device
    seed, calls : int
        See :class:`rnnopt.TrainingNetwork`.
    """

    def __init__(self, spec, every: int, compile_segment):
        every = positive_integer("checkpoint_every", every)
        for name, wrong in (("bidirectional", spec.bidirectional), ("lengths", spec.lengths is not None)):
            if wrong:
                raise ValueError(f"checkpoint_every can't be used with {name}: segments of a sequence must follow each other")
        self.spec, self.calls = spec, 0
        starts = range(0, spec.steps, every)
        self._spans = [(start, min(start + every, spec.steps)) for start in starts]
        networks = {steps: compile_segment(replace(spec, steps=steps)) for steps in {stop - start for start, stop in self._spans}}
        self._networks: list[TrainingNetwork] = [networks[stop - start] for start, stop in self._spans]
        first = self._networks[0]
        self.weights, self.device, self.seed = first.weights, first.device, first.seed
        self._checkpoints = None

    def load_weights(self):
        """See :meth:`rnnopt.Network.load_weights`."""
        for network in {id(network): network for network in self._networks}.values():
            network.load_weights()

    def __call__(self, inputs, state=None):
        """Apply the network to a sequence; see :meth:`rnnopt.Network.__call__`."""
        inputs = checked_array("inputs", inputs, (*self.spec.rows, self.spec.input_size))
        self._checkpoints, checkpoints, outputs = None, [], np.empty((*self.spec.rows, self.spec.output_size), np.float32)
        for (start, stop), network in zip(self._spans, self._networks, strict=True):
            checkpoints.append(state)
            part, state = self._run(network, inputs, start, stop, state)
            outputs[start:stop] = part
        self._checkpoints, self._inputs = checkpoints, inputs
        self.calls += 1
        self._call = self.calls - 1
        return outputs, state

    def _run(self, network, inputs, start, stop, state, call=None):
        network.calls = self.calls if call is None else call
        network.first_row = start * self.spec.batch
        return network(inputs[start:stop], state)

    def backward(self, d_outputs, d_state=None) -> dict:
        """Return the gradients of a loss; see :meth:`rnnopt.TrainingNetwork.backward`."""
        if self._checkpoints is None:
            raise RuntimeError("there is nothing to go back through: call the network first; "
                               "each call can be followed by one backward pass")
        d_outputs = checked_array("d_outputs", d_outputs, (*self.spec.rows, self.spec.output_size))
        checkpoints, self._checkpoints = self._checkpoints, None
        total, d_inputs = {}, np.empty((*self.spec.rows, self.spec.input_size), np.float32)
        for number in reversed(range(len(self._spans))):
            (start, stop), network = self._spans[number], self._networks[number]
            if number < len(self._spans) - 1:  # the last segment's is still there
                self._run(network, self._inputs, start, stop, checkpoints[number], self._call)
            gradients = network.backward(d_outputs[start:stop], d_state)
            d_inputs[start:stop], d_state = gradients["inputs"], gradients["state"]
            for name in weight_shapes(self.spec):
                if name in total:
                    total[name] += gradients[name]
                else:
                    total[name] = gradients[name]
        return total | {"inputs": d_inputs, "state": d_state}
