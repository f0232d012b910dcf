"""What the core's tests share: data that keeps the gates spread, when results agree, and plans taken apart."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

import rnnopt
from rnnopt import cells, devices, reference
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import blas, open_device
from rnnopt.plan import Plan

#: What the tests that compile kernels run on: "host", "standin" or "gpu" (pytest --on).
ON = "host"

TOLERANCE = reference.TOLERANCE["float32"]

#: Below this root mean square a result is what is left after cancellation, so that float32 has no relative accuracy
#: there, whoever computes it. It happens to single elements; in the mean of many, it doesn't.
CANCELLED = 0.01

def _subsets(switches):
    return tuple(frozenset(subset) for size in range(len(switches) + 1) for subset in combinations(switches, size))


#: All subsets of the switches, from none to all; and of those of training.
SUBSETS, TRAINING_SUBSETS = _subsets(rnnopt.SWITCHES), _subsets(rnnopt.TRAINING_SWITCHES)


def label(switches) -> str:
    return "+".join(switch for switch in rnnopt.TRAINING_SWITCHES if switch in switches) or "naive"


class Problem(NamedTuple):
    """A network and what it is applied to."""

    spec: rnnopt.NetworkSpec
    weights: dict
    inputs: np.ndarray
    state: tuple | None

    def solution(self):
        """All results of the float64 reference: outputs, then the final states."""
        with blas.threads(1):  # small products: a second thread would only wait
            outputs, state = reference.forward(self.spec, self.weights, self.inputs, self.state)
        return outputs, *state


def problem(spec, seed=0, with_state=True) -> Problem:
    """Draw weights, inputs and initial state, and assert that they leave the gates spread."""
    rng = np.random.default_rng([seed, 2])
    # Of unit variance, but bounded: a single feature that is large would saturate every gate there is.
    inputs = rng.uniform(-np.sqrt(3), np.sqrt(3), (*spec.rows, spec.input_size)).astype(np.float32)
    drawn = [rng.standard_normal(spec.state_shape, dtype=np.float32) for _ in cells.get(spec.cell).STATES]
    state = (np.tanh(drawn[0]), *drawn[1:])
    p = Problem(spec, rnnopt.init_weights(spec, seed), inputs, state if with_state else None)
    with blas.threads(1):
        assert_spread(pre_activations(p), spec)
    return p


def sized(layers=2, input_size=5, hidden_size=7, batch=3, steps=4, cell="lstm", **options) -> rnnopt.NetworkSpec:
    return rnnopt.NetworkSpec(cell, layers, input_size, hidden_size, batch, steps, **options)


def pre_activations(p: Problem) -> np.ndarray:
    """What the gates of all cells are applied to, in the first layer and, where it reads only that one, in the next ones."""
    spec, cell, found = p.spec, cells.get(p.spec.cell), []
    rows = spec.batch_sizes
    sequence = np.split(p.inputs.reshape(-1, spec.input_size).astype(np.float64), np.cumsum(rows)[:-1])
    for layer in range(spec.layers if spec.directions == 1 else 1):
        w, r, b, b2 = parameters = [p.weights[f"{name}_l{layer}"].astype(np.float64)
                                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        states = [(part[layer * spec.directions] if p.state else np.zeros(spec.state_shape[1:])).astype(np.float64)
                  for part in p.state or cell.STATES]
        outputs = []
        for x in sequence:
            states = [part[:len(x)] for part in states]
            found.append((x @ w.T + states[0] @ r.T + b + b2).ravel())
            states = cell.step(*parameters, x, *states)
            outputs.append(states[0])
        sequence = outputs
    return np.concatenate(found)


def assert_spread(gates: np.ndarray, spec=None):
    """Assert that hardly any gate is saturated, so that a wrong one shows in the results.

    A handful of gates is too few for a share of them to mean much, and so are those of a single unit: of
    fewer than 200, some must be free; of fewer than 16, nothing can be said.
    A ReLU saturates on one side: there it is enough that many are on the other.
    """
    if gates.size < 16:
        return
    few = gates.size < 200 or (spec is not None and spec.hidden_size == 1)
    if spec is not None and spec.cell == "rnn_relu":
        assert few or 0.1 < np.mean(gates > 0) < 0.95, f"{np.mean(gates > 0):.0%} of the gates are open"
        return
    free = np.mean(np.abs(gates) < 2.94)  # where the logistic function is within (0.05, 0.95)
    assert free >= (0.25 if few else 0.85), f"only {free:.0%} of the gates are not saturated"
    if not few:
        assert 0.2 < gates.std() < 2, f"pre-activations have the standard deviation {gates.std():.2g}"


def error(results, expected, least=CANCELLED) -> float:
    """Relative error over all results together, ‖results − expected‖ / ‖expected‖ (see CANCELLED, which is `least`)."""
    got, true = (np.concatenate([np.asarray(part, np.float64).ravel() for part in parts]) for parts in (results, expected))
    assert got.shape == true.shape
    scale = max(np.linalg.norm(true), least * np.sqrt(true.size))
    distance = np.linalg.norm(got - true)
    return float(distance / scale) if np.isfinite(distance) else float("inf")


def flat(called) -> tuple:
    """What a network returned, as one tuple: outputs, then the final states."""
    outputs, state = called
    return outputs, *state


class Training(NamedTuple):
    """A problem, and the gradients of a loss that come back to its results."""

    problem: Problem
    d_outputs: np.ndarray
    d_state: tuple | None
    seed: int = 0

    def solution(self) -> dict:
        """All gradients of the float64 reference."""
        p = self.problem
        with blas.threads(1):
            return reference.backward(p.spec, p.weights, p.inputs, self.d_outputs, self.d_state, p.state, key=(self.seed, 0))

    def run(self, device, stage="wavefront", input_group=None) -> dict:
        """The same, by a network."""
        p = self.problem
        network = rnnopt.compile(p.spec, p.weights, stage=stage, device=device, training=True, input_group=input_group, seed=self.seed)
        network(p.inputs, p.state)
        return network.backward(self.d_outputs, self.d_state)


def training(spec, seed=0, with_state=True, with_d_state=True) -> Training:
    """Draw a problem and the gradients of its results."""
    rng = np.random.default_rng([seed, 3])
    p = problem(spec, seed, with_state)
    d_outputs = rng.standard_normal((*spec.rows, spec.output_size), dtype=np.float32)
    d_state = tuple(rng.standard_normal(spec.state_shape, dtype=np.float32) for _ in cells.get(spec.cell).STATES)
    return Training(p, d_outputs, d_state if with_d_state else None, seed)


def gradient_errors(gradients: dict, expected: dict) -> dict:
    """Relative error of each gradient by its name.

    A gradient whose root mean square is less than a tenth of that of all is what is left of a sum that
    cancels, and is measured by that tenth. Of a network of single units all gradients are so few numbers
    that they are taken together.
    """
    assert gradients.keys() == expected.keys()
    parts = {name: (gradients[name], value) if name == "state" else ((gradients[name],), (value,)) for name, value in expected.items()}
    everything = [sum((part[side] for part in parts.values()), ()) for side in range(2)]
    if len(expected["weight_hh_l0"]) <= 4:  # at most four gates of one unit
        return {"all": error(*everything)}
    least = 0.1 * np.sqrt(np.mean(np.concatenate([part.ravel() for part in everything[1]])**2))
    return {name: error(*part, least) for name, part in parts.items()}


def run(executable, p: Problem) -> tuple:
    """Load, replay and take the results of an executable."""
    names = cells.get(p.spec.cell).STATES
    state = p.state or (np.zeros(p.spec.state_shape, np.float32),) * len(names)
    executable.load(p.weights)
    executable.load({"inputs": p.inputs} | {f"initial_{name}": part for name, part in zip(names, state, strict=True)})
    executable.replay()
    return tuple(executable.result(name) for name in ("outputs", *(f"final_{name}" for name in names)))


def identical(results, others) -> bool:
    """Whether all bits are the same."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(results, others, strict=True))


@cache
def host(workers=None):
    """The device that compiles the kernels, the host unless pytest's option --on says otherwise.

    Where there is none, the test that asks for it is skipped and says why; `workers` are the host's alone.
    """
    try:
        device = open_device(workers) if workers or ON == "host" else devices.resolve("cuda")
    except DeviceUnavailable as missing:
        pytest.skip(str(missing))
    device.reason = "for the tests"
    return device


def random_order(plan: Plan, seed) -> list[int]:
    """Return the operations in a random one of the orders that the dependencies allow."""
    rng = np.random.default_rng(seed)
    waiting = [len(waits) for waits in plan.dependencies]
    followers = [[] for _ in waiting]
    for number, waits in enumerate(plan.dependencies):
        for earlier in waits:
            followers[earlier].append(number)
    ready, order = [n for n, count in enumerate(waiting) if not count], []
    while ready:
        number = ready.pop(rng.integers(len(ready)))
        order.append(number)
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return order


def scattered(plan: Plan, streams: int, seed) -> Plan:
    """Return the plan with every operation on a random stream: no stream's order hides a missing dependency."""
    chosen = np.random.default_rng(seed).integers(streams, size=len(plan.operations))
    return Plan(plan.buffers, tuple(replace(operation, stream=int(stream))
                                    for operation, stream in zip(plan.operations, chosen, strict=True)), plan.cells)


def compiled(p: Problem, device, stage="wavefront") -> rnnopt.Network:
    """The network of a problem on a device."""
    return rnnopt.compile(p.spec, p.weights, stage=stage, device=device)
