"""Gradients have the same bits in any legal order, on any number of workers, whatever memory held before."""

import numpy as np
import pytest
from helpers import TRAINING_SUBSETS, host, identical, label, random_order, run, scattered, sized, training
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnopt
from rnnopt import cells
from rnnopt.devices.host.executable import HostExecutable
from rnnopt.plan import Plan
from rnnopt.provenance import core_count
from rnnopt.schedule.dropout import key

WORKERS = [1, 2, 3, 5, 2 * core_count() + 3]


@pytest.fixture(autouse=True)
def _compiler():
    host()


specs = st.builds(sized, layers=st.integers(1, 3), input_size=st.integers(1, 9), hidden_size=st.sampled_from([1, 7, 32]),
                  batch=st.integers(1, 3), steps=st.integers(1, 6), cell=st.sampled_from(cells.CELLS), bidirectional=st.booleans(),
                  dropout=st.sampled_from([0.0, 0.3]))


def plans(spec, switches, group):
    return rnnopt.schedule(spec, switches, group, training=True), rnnopt.schedule_backward(spec, switches, group)


def gradients(drawn, forward, backward):
    """All outputs of the executable `backward`, which shares the memory of `forward`."""
    spec = drawn.problem.spec
    forward.load({"dropout_key": key(0, 0)})
    run(forward, drawn.problem)
    backward.load({"d_outputs": drawn.d_outputs} | {f"d_final_{name}": part for name, part in
                                                    zip(cells.get(spec.cell).STATES, drawn.d_state, strict=True)})
    backward.replay()
    return tuple(backward.result(name) for name, buffer in backward.plan.buffers.items() if buffer.role == "output")


def executables(forward, backward, workers=1, orders=(None, None)):
    first = HostExecutable(forward, workers, orders[0], blas_threads=1)
    return first, HostExecutable(backward, workers, orders[1], blas_threads=1, share=first)


@settings(max_examples=40)
@given(spec=specs, switches=st.sampled_from(TRAINING_SUBSETS), group=st.integers(1, 4), workers=st.sampled_from(WORKERS),
       streams=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_any_legal_order_on_any_workers_gives_the_same_bits(spec, switches, group, workers, streams, seed):
    drawn, both = training(spec), plans(spec, switches, group)
    expected = gradients(drawn, *executables(*both))
    assert identical(gradients(drawn, *executables(*both, workers)), expected)
    loose = [scattered(plan, streams, seed) for plan in both]
    pair = executables(*loose, workers, [random_order(plan, seed) for plan in loose])
    for _ in range(3):
        assert identical(gradients(drawn, *pair), expected)


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("switches", TRAINING_SUBSETS[::43], ids=label)
def test_what_scratch_and_outputs_held_before_makes_no_difference(cell, switches):
    """Not even what is no number: a product that is added to 0 × NaN would show."""
    drawn = training(sized(hidden_size=33, cell=cell, dropout=0.2))
    pair = executables(*plans(drawn.problem.spec, switches, 2))
    expected = gradients(drawn, *pair)
    for stale in (np.nan, np.inf, 1e30):
        for executable in pair:
            for name, buffer in executable.plan.buffers.items():
                if buffer.role in ("output", "scratch"):
                    executable._arrays[name] = np.full(buffer.shape, stale, np.float32)
        assert identical(gradients(drawn, *pair), expected)


def test_orders_that_a_missing_dependency_allows_change_the_bits():
    """Planted: of each dependency of the backward pass in turn; so the test of orders can fail."""
    drawn = training(sized(layers=2, steps=3))
    forward, backward = plans(drawn.problem.spec, rnnopt.TRAINING_SWITCHES, 2)
    backward = scattered(backward, 1, 0)  # on one stream, the order is followed to the letter
    expected = gradients(drawn, *executables(forward, backward))
    late = [number for number, waits in enumerate(backward.dependencies) if waits]
    missed = []
    for number in late:
        broken = Plan(backward.buffers, backward.operations, backward.cells)
        broken.__dict__["dependencies"] = tuple(() if n == number else waits for n, waits in enumerate(backward.dependencies))
        pair = executables(forward, broken, 1, (None, [number, *(n for n in range(len(backward.operations)) if n != number)]))
        for name, buffer in backward.buffers.items():
            if buffer.role in ("scratch", "output"):
                pair[1]._arrays[name] = np.zeros(buffer.shape, np.float32)
        if identical(gradients(drawn, *pair), expected):
            missed.append(str(backward.operations[number]))
    assert late
    assert not missed
