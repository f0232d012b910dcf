"""The public way in: compile a network for a device, then call it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from rnnopt import cells, devices, schedule
from rnnopt.locks import ProcessLock
from rnnopt.plan import Plan
from rnnopt.schedule.dropout import key
from rnnopt.spec import NetworkSpec
from rnnopt.weights import checked_array, checked_weights, weight_shapes


def compile(spec: NetworkSpec, weights, *, stage: str | Iterable[str] = "wavefront", device="auto", training: bool = False,
            checkpoint_every: int | None = None, input_group: int | None = None, seed: int = 0,
            check_finite: bool = False, solver=None, comm=None) -> Network | TrainingNetwork:
    """Make an executable network.

    Parameters
    ----------
    spec : NetworkSpec
    weights : mapping of str to ndarray
        float32, named and laid out as :func:`rnnopt.weights.weight_shapes` says.
        Not copied on the host; after a change to them call :meth:`Network.load_weights`.
    stage : str or iterable of str
        A rung of :data:`rnnopt.LADDER`, or any set of :data:`rnnopt.SWITCHES`; for training
        of :data:`rnnopt.TRAINING_LADDER` and :data:`rnnopt.TRAINING_SWITCHES`.
    device : str or device
        ``"auto"``, ``"host"``, ``"cuda"`` or ``"reference"``, or what
        :func:`rnnopt.devices.resolve` returned.
    training : bool
        Return a :class:`TrainingNetwork`, which drops outputs between layers where the spec
        says so, keeps what a backward pass needs, and has one.
    checkpoint_every : int, optional
        Train with memory for so many steps only: see :mod:`rnnopt.checkpointed`.
    input_group : int, optional
        Steps per input GEMM where ``batched_inputs`` is on; the device's own
        choice if not given.
    seed : int
        What is dropped follows from it and from the number of the call.
    check_finite : bool
        Refuse weights that hold NaN or infinity.
    solver : rnnopt.MGRIT, optional
        Solve for all steps at once, along time, instead of taking one after the other: see :mod:`rnnopt.time_parallel`. `stage` and
        `input_group` are not for it; with one level it is the serial recurrence, and they are.
    comm : mpi4py.MPI.Comm or rnnopt.time_parallel.transport.Transport, optional
        With a solver: its ranks share the sequence, and each of them compiles the network at the same time; see
        :class:`rnnopt.time_parallel.distributed.SharedNetwork`.

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
    if comm is not None and solver is None:
        raise ValueError("comm is for a solver along time, whose sequence its ranks share: give solver=rnnopt.MGRIT(...) too")
    if solver is not None and (comm is not None or getattr(solver, "levels", 0) != 1):
        from rnnopt.time_parallel.distributed import compile_shared
        from rnnopt.time_parallel.network import compile_solved

        if stage != "wavefront" or input_group is not None or checkpoint_every is not None:
            raise ValueError("stage, input_group and checkpoint_every are of the serial recurrence: leave them or solver out")
        if comm is not None:
            return compile_shared(spec, weights, solver, device, training, comm)
        return compile_solved(spec, weights, solver, device, training)
    if checkpoint_every is not None:
        from rnnopt.checkpointed import CheckpointedNetwork

        if not training:
            raise ValueError("checkpoint_every is for training: give training=True, or leave it out")
        return CheckpointedNetwork(spec, checkpoint_every, lambda segment: compile(
            segment, weights, stage=stage, device=device, training=True, input_group=input_group, seed=seed))
    if input_group is None:
        input_group = device.input_group(spec)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an integer of at least 0 and less than 2**64, got {seed!r}")
    if not training:
        return Network(spec, weights, schedule.schedule(spec, stage, input_group), device)
    return TrainingNetwork(spec, weights, schedule.schedule(spec, stage, input_group, training=True),
                           schedule.schedule_backward(spec, stage, input_group), device, seed)


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

    def load_weights(self):
        """Give the device the weights as they are now: after a change, a GPU has still the old ones."""
        with self._lock():
            self.executable.load(self.weights)

    def __call__(self, inputs, state=None):
        """Apply the network to a sequence.

        Parameters
        ----------
        inputs : ndarray of float32, shape (steps, batch, input_size)
            Or (tokens, input_size), packed, where the spec has lengths.
        state : tuple of ndarray of float32, each (layers × directions, batch, hidden_size), optional
            Initial state: (h, c) for an LSTM. Zeros if not given.

        Returns
        -------
        outputs : ndarray of float32, shape (steps, batch, directions × hidden_size)
            Hidden states of the top layer, at every step; packed as the inputs are.
        state : tuple of ndarray of float32, each (layers × directions, batch, hidden_size)
            Final states of all layers: of each sequence that of its own last step.
        """
        arrays = self.arguments(inputs, state)
        with self._lock():
            return self._run(arrays)

    def backward(self, d_outputs, d_state=None):
        """Say that only a :class:`TrainingNetwork` can do this."""
        raise RuntimeError("this network keeps nothing to go back through: compile it with training=True")

    def _run(self, arrays):
        names = cells.get(self.spec.cell).STATES
        self.executable.load(arrays)
        self.executable.replay()
        outputs = self.executable.result("outputs").reshape(*self.spec.rows, self.spec.output_size)
        return outputs, tuple(self.executable.result(f"final_{name}") for name in names)

    def arguments(self, inputs, state=None) -> dict[str, np.ndarray]:
        """Check the arguments of a call; return them under the names of the plan's buffers."""
        spec = self.spec
        inputs = checked_array("inputs", inputs, (*spec.rows, spec.input_size))
        return {"inputs": inputs.reshape(self.plan.buffers["inputs"].shape), **self._states("state", "initial", state)}

    def _states(self, argument, prefix, state):
        names, shape = cells.get(self.spec.cell).STATES, self.spec.state_shape
        if state is None:
            return {f"{prefix}_{name}": np.zeros(shape, np.float32) for name in names}
        if not isinstance(state, (tuple, list)) or len(state) != len(names):
            got = f"{len(state)} of them" if isinstance(state, (tuple, list)) else type(state).__name__
            raise TypeError(f"{argument} must be a tuple of {len(names)} arrays ({', '.join(names)}), got {got}")
        return {f"{prefix}_{name}": checked_array(f"{argument}[{k}] ({name})", part, shape)
                for k, (name, part) in enumerate(zip(names, state, strict=True))}


class TrainingNetwork(Network):
    """A network that keeps what its backward pass needs.

    A call returns outputs that can be read but not written until the backward
    pass has used them; the inputs, which are not copied, must stay as they are until then.

    Attributes
    ----------
    plan, backward_plan : Plan
    seed, calls : int
        What the next call drops follows from these two (and the spec): to go on
        exactly where a run was, restore `calls`.
    first_row : int
        Of a longer sequence, the row that the next call begins with: what is dropped goes on there.
    """

    def __init__(self, spec: NetworkSpec, weights, plan: Plan, backward_plan: Plan, device, seed: int = 0):
        super().__init__(spec, weights, plan, device)
        self.backward_plan, self.seed, self.calls, self.first_row = backward_plan, seed, 0, 0
        self._outputs = None  # of the call whose backward pass is still to come

    @cached_property
    def backward_executable(self):
        """The backward plan, made ready on the device beside the forward plan."""
        return self.device.prepare(self.spec, self.backward_plan, self.executable)

    def arguments(self, inputs, state=None) -> dict[str, np.ndarray]:
        return super().arguments(inputs, state) | {"dropout_key": key(self.seed, self.calls, self.first_row)}

    def _run(self, arrays):
        self._outputs = None
        outputs, state = super()._run(arrays)
        outputs.flags.writeable = False
        self._outputs, self._key = outputs, arrays["dropout_key"]
        self.calls += 1
        return outputs, state

    def backward(self, d_outputs, d_state=None) -> dict:
        """Return the gradients of a loss, given those of the last call's results.

        What is NaN or infinite passes through; :func:`rnnopt.training.train` looks for it.

        Parameters
        ----------
        d_outputs : ndarray of float32, shape of the outputs
        d_state : tuple of ndarray of float32, each (layers × directions, batch, hidden_size), optional
            Zeros if not given.

        Returns
        -------
        dict
            An array for every weight, by its name, and for ``"inputs"``; under
            ``"state"`` a tuple of arrays, one for every initial state.

        Raises
        ------
        RuntimeError
            If the network was not called since the last backward pass, which overwrites what the call had left.
        """
        arrays = self.backward_arguments(d_outputs, d_state)
        with self._lock():
            if self._outputs is None:
                raise RuntimeError("there is nothing to go back through: call the network first; "
                                   "each call can be followed by one backward pass")
            outputs, self._outputs = self._outputs, None
            executable = self.backward_executable
            executable.load(arrays | {"dropout_key": self._key})
            executable.replay()
            outputs.flags.writeable = True
            gradients = {name: executable.result(f"d_{name}") for name in weight_shapes(self.spec)}
            gradients["inputs"] = executable.result("d_inputs").reshape(*self.spec.rows, self.spec.input_size)
            gradients["state"] = tuple(executable.result(f"d_initial_{name}") for name in cells.get(self.spec.cell).STATES)
        return gradients

    def backward_arguments(self, d_outputs, d_state=None) -> dict[str, np.ndarray]:
        """Check the arguments of a backward pass; return them under the names of the plan's buffers."""
        d_outputs = checked_array("d_outputs", d_outputs, (*self.spec.rows, self.spec.output_size))
        return {"d_outputs": d_outputs.reshape(self.backward_plan.buffers["d_outputs"].shape),
                **self._states("d_state", "d_final", d_state)}
