"""The public way in: compile a network for a device, then call it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from rnnopt import cells, devices, schedule
from rnnopt.locks import ProcessLock
from rnnopt.plan import Plan
from rnnopt.spec import NetworkSpec
from rnnopt.weights import checked_array, checked_weights


def compile(spec: NetworkSpec, weights, *, stage: str | Iterable[str] = "wavefront", device="auto",
            input_group: int | None = None, check_finite: bool = False) -> Network:
    """Make an executable network.

    Parameters
    ----------
    spec : NetworkSpec
    weights : mapping of str to ndarray
        float32, named and laid out as :func:`rnnopt.weights.weight_shapes` says.
        Not copied on the host; after a change to them compile again.
    stage : str or iterable of str
        A rung of :data:`rnnopt.LADDER`, or any set of :data:`rnnopt.SWITCHES`.
    device : str or device
        ``"auto"``, ``"host"``, ``"cuda"`` or ``"reference"``, or what
        :func:`rnnopt.devices.resolve` returned.
    input_group : int, optional
        Steps per input GEMM where ``batched_inputs`` is on; the device's own
        choice if not given.
    check_finite : bool
        Refuse weights that hold NaN or infinity.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message names it.
    rnnopt.devices.DeviceUnavailable
        If the device asked for is not there; the message says what to install.
    """
    if not isinstance(spec, NetworkSpec):
        raise TypeError(f"spec must be a NetworkSpec, got {type(spec).__name__}")
    weights = checked_weights(spec, weights, finite=check_finite)
    if isinstance(device, str):
        device = devices.resolve(device)
    elif not hasattr(device, "prepare"):
        raise TypeError(f"device must be a name or what rnnopt.devices.resolve returned, got {device!r}")
    if input_group is None:
        input_group = device.input_group(spec)
    return Network(spec, weights, schedule.schedule(spec, stage, input_group), device)


class Network:
    """A network on a device; call it with inputs.

    Attributes
    ----------
    spec : NetworkSpec
    weights : dict of str to ndarray
    plan : Plan
    device
    """

    def __init__(self, spec: NetworkSpec, weights, plan: Plan, device):
        self.spec, self.weights, self.plan, self.device = spec, weights, plan, device
        self._lock = ProcessLock()

    @cached_property
    def executable(self):
        """The plan, made ready on the device with the weights loaded."""
        executable = self.device.prepare(self.spec, self.plan)
        executable.load(self.weights)
        return executable

    def __call__(self, inputs, state=None):
        """Apply the network to a sequence.

        Parameters
        ----------
        inputs : ndarray of float32, shape (steps, batch, input_size)
        state : tuple of ndarray of float32, each (layers, batch, hidden_size), optional
            Initial state: (h, c) for an LSTM. Zeros if not given.

        Returns
        -------
        outputs : ndarray of float32, shape (steps, batch, hidden_size)
            Hidden states of the top layer, at every step.
        state : tuple of ndarray of float32, each (layers, batch, hidden_size)
            Final states of all layers.
        """
        names = cells.get(self.spec.cell).STATES
        arrays = self.arguments(inputs, state)
        with self._lock():
            self.executable.load(arrays)
            self.executable.replay()
            results = [self.executable.result(name) for name in ("outputs", *(f"final_{n}" for n in names))]
        return results[0], tuple(results[1:])

    def arguments(self, inputs, state=None) -> dict[str, np.ndarray]:
        """Check the arguments of a call; return them under the names of the plan's buffers."""
        spec = self.spec
        names = cells.get(spec.cell).STATES
        arrays = {"inputs": checked_array("inputs", inputs, (spec.steps, spec.batch, spec.input_size))}
        shape = (spec.layers, spec.batch, spec.hidden_size)
        if state is None:
            return arrays | {f"initial_{name}": np.zeros(shape, np.float32) for name in names}
        if not isinstance(state, (tuple, list)) or len(state) != len(names):
            got = f"{len(state)} of them" if isinstance(state, (tuple, list)) else type(state).__name__
            raise TypeError(f"state must be a tuple of {len(names)} arrays ({', '.join(names)}), got {got}")
        return arrays | {f"initial_{name}": checked_array(f"state[{k}] ({name})", part, shape)
                         for k, (name, part) in enumerate(zip(names, state, strict=True))}
