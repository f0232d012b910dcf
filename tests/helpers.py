"""What the core's tests share: data that keeps the gates spread, when results agree, and plans taken apart."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

import rnnopt
from rnnopt import reference
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import blas, open_device
from rnnopt.plan import Plan

TOLERANCE = reference.TOLERANCE["float32"]

#: Below this root mean square a result is what is left after cancellation, so that float32 has no relative accuracy
#: there, whoever computes it. It happens to single elements; in the mean of many, it doesn't.
CANCELLED = 0.01

#: All subsets of the switches, from none to all.
SUBSETS = tuple(frozenset(subset) for size in range(len(rnnopt.SWITCHES) + 1)
                for subset in combinations(rnnopt.SWITCHES, size))


def label(switches) -> str:
    return "+".join(switch for switch in rnnopt.SWITCHES if switch in switches) or "naive"


class Problem(NamedTuple):
    """A network and what it is applied to."""

    spec: rnnopt.NetworkSpec
    weights: dict
    inputs: np.ndarray
    state: tuple | None

    def solution(self):
        """All results of the float64 reference: outputs, final h, final c."""
        with blas.threads(1):  # small products: a second thread would only wait
            outputs, state = reference.forward(self.spec, self.weights, self.inputs, self.state)
        return outputs, *state


def problem(spec, seed=0, with_state=True) -> Problem:
    """Draw weights, inputs and initial state, and assert that they leave the gates spread."""
    rng = np.random.default_rng([seed, 2])
    whole = (spec.layers, spec.batch, spec.hidden_size)
    # Of unit variance, but bounded: a single feature that is large would saturate every gate there is.
    inputs = rng.uniform(-np.sqrt(3), np.sqrt(3), (spec.steps, spec.batch, spec.input_size)).astype(np.float32)
    state = (np.tanh(rng.standard_normal(whole, dtype=np.float32)), rng.standard_normal(whole, dtype=np.float32))
    drawn = Problem(spec, rnnopt.init_weights(spec, seed), inputs, state if with_state else None)
    with blas.threads(1):
        assert_spread(pre_activations(drawn))
    return drawn


def sized(layers=2, input_size=5, hidden_size=7, batch=3, steps=4) -> rnnopt.NetworkSpec:
    return rnnopt.NetworkSpec("lstm", layers, input_size, hidden_size, batch, steps)


def pre_activations(p: Problem) -> np.ndarray:
    """What the gates of all cells are applied to; an LSTM written once more, from its equations."""
    sequence, found = p.inputs.astype(np.float64), []
    for layer in range(p.spec.layers):
        w, r, b, b2 = (p.weights[f"{name}_l{layer}"].astype(np.float64)
                       for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h, c = (p.state[k][layer].astype(np.float64) if p.state else np.zeros((p.spec.batch, p.spec.hidden_size))
                for k in range(2))
        outputs = []
        for x in sequence:
            gates = (x @ w.T + h @ r.T + b + b2).reshape(p.spec.batch, 4, p.spec.hidden_size)
            found.append(gates.ravel())
            i, f, o = (1 / (1 + np.exp(-gates[:, k])) for k in (0, 1, 3))
            c = f * c + i * np.tanh(gates[:, 2])
            h = o * np.tanh(c)
            outputs.append(h)
        sequence = np.array(outputs)
    return np.concatenate(found)


def assert_spread(gates: np.ndarray):
    """Assert that hardly any gate is saturated, so that a wrong one shows in the results.

    A handful of gates is too few for a share of them to mean much: of fewer
    than 200, some must be free.
    """
    free = np.mean(np.abs(gates) < 2.94)  # where the logistic function is within (0.05, 0.95)
    assert free >= (0.85 if gates.size >= 200 else 0.25), f"only {free:.0%} of the gates are not saturated"
    if gates.size >= 200:
        assert 0.2 < gates.std() < 2, f"pre-activations have the standard deviation {gates.std():.2g}"


def error(results, expected) -> float:
    """Relative error over all results together, ‖results − expected‖ / ‖expected‖ (see CANCELLED)."""
    got, true = (np.concatenate([np.asarray(part, np.float64).ravel() for part in parts]) for parts in (results, expected))
    assert got.shape == true.shape
    scale = max(np.linalg.norm(true), CANCELLED * np.sqrt(true.size))
    distance = np.linalg.norm(got - true)
    return float(distance / scale) if np.isfinite(distance) else float("inf")


def flat(called) -> tuple:
    """What a network returned, as one tuple: outputs, final h, final c."""
    outputs, state = called
    return outputs, *state


def run(executable, p: Problem) -> tuple:
    """Load, replay and take the results of an executable."""
    state = p.state or (np.zeros((p.spec.layers, p.spec.batch, p.spec.hidden_size), np.float32),) * 2
    executable.load(p.weights)
    executable.load({"inputs": p.inputs, "initial_h": state[0], "initial_c": state[1]})
    executable.replay()
    return tuple(executable.result(name) for name in ("outputs", "final_h", "final_c"))


def identical(results, others) -> bool:
    """Whether all bits are the same."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(results, others, strict=True))


@cache
def host(workers=None):
    """The host device; where there is none, the test that asks for it is skipped and says why."""
    try:
        device = open_device(workers)
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
