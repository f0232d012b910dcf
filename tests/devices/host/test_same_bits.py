"""The same bits in any legal order, on any number of workers, whatever memory held before."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import SUBSETS, TOLERANCE, error, host, identical, label, problem, random_order, run, scattered, sized
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnopt
from rnnopt.devices.host.executable import HostExecutable
from rnnopt.devices.host.memory import aligned_empty
from rnnopt.plan import Plan
from rnnopt.provenance import core_count

WORKERS = [1, 2, 3, 5, 2 * core_count() + 3]


@pytest.fixture(autouse=True)
def _compiler():
    host()


specs = st.builds(sized, layers=st.integers(1, 4), input_size=st.integers(1, 9), hidden_size=st.sampled_from([1, 7, 32]),
                  batch=st.integers(1, 3), steps=st.integers(1, 7))


@settings(max_examples=60)
@given(spec=specs, switches=st.sampled_from(SUBSETS), group=st.integers(1, 4), workers=st.sampled_from(WORKERS),
       streams=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_any_legal_order_on_any_workers_gives_the_same_bits(spec, switches, group, workers, streams, seed):
    p = problem(spec)
    plan = rnnopt.schedule(spec, switches, group)
    expected = run(HostExecutable(plan, workers=1, blas_threads=1), p)
    assert error(expected, p.solution()) <= TOLERANCE
    assert identical(run(HostExecutable(plan, workers, blas_threads=1), p), expected)
    assert identical(run(HostExecutable(plan, workers, random_order(plan, seed), blas_threads=1), p), expected)
    loose = scattered(plan, streams, seed)
    executable = HostExecutable(loose, workers, random_order(loose, seed), blas_threads=1)
    for _ in range(3):
        assert identical(run(executable, p), expected)


@pytest.mark.parametrize("switches", [(), ("wavefront", "combined_gemms"), rnnopt.SWITCHES], ids=label)
def test_the_same_bits_at_a_size_that_blas_would_share_among_threads(switches):
    p = problem(sized(layers=3, input_size=130, hidden_size=100, batch=64, steps=6))
    plan = rnnopt.schedule(p.spec, switches, 3)
    for blas_threads in (1, 2):
        expected = run(HostExecutable(plan, workers=1, blas_threads=blas_threads), p)
        for workers in (1, 2, 3):
            loose = scattered(plan, 2 * workers, workers)
            for candidate in (plan, loose):
                executable = HostExecutable(candidate, workers, random_order(candidate, workers), blas_threads)
                assert identical(run(executable, p), expected)


def test_random_orders_are_orders_and_differ():
    plan = rnnopt.schedule(sized(), rnnopt.SWITCHES)
    orders = [random_order(plan, seed) for seed in range(5)]
    assert len(set(map(tuple, orders))) == 5
    assert all(sorted(order) == list(range(len(plan.operations))) for order in orders)


def test_orders_that_a_missing_dependency_allows_change_the_bits():
    """Planted: of each of some dependencies in turn; so the test of orders can fail."""
    p = problem(sized(layers=2, steps=3))
    plan = scattered(rnnopt.schedule(p.spec, rnnopt.SWITCHES), 1, 0)  # on one stream, the order is followed to the letter
    # With two threads of BLAS products are its own, and read the weights that the plan has turned.
    expected = run(HostExecutable(plan, 1, blas_threads=2), p)
    caught = 0
    for late in range(6, len(plan.operations)):
        broken = Plan(plan.buffers, plan.operations, plan.cells)
        broken.__dict__["dependencies"] = tuple(() if n == late else waits for n, waits in enumerate(plan.dependencies))
        order = [late, *(n for n in range(len(plan.operations)) if n != late)]
        executable = HostExecutable(broken, 1, order, blas_threads=2)
        for name, buffer in plan.buffers.items():
            if buffer.role in ("scratch", "output"):
                executable._arrays[name] = filled(buffer.shape, 0)
        caught += not identical(run(executable, p), expected)
    assert caught == len(plan.operations) - 6


@pytest.mark.parametrize(("change", "said"), [
    (lambda order: order[::-1], "before 0, which it depends on"),
    (lambda order: order[:-1], "must hold each of the"),
    (lambda order: [*order, order[0]], "must hold each of the"),
    (lambda order: [order[0], *order[:-1]], "must hold each of the"),
    (lambda order: [n + 1 for n in order], "must hold each of the")])
def test_an_order_that_is_not_legal_is_refused_and_not_waited_for(change, said):
    plan = rnnopt.schedule(sized(layers=1, steps=1), "fused_pointwise")
    with pytest.raises(ValueError, match=said):
        HostExecutable(plan, 2, change(list(range(len(plan.operations)))))


@pytest.mark.parametrize("switches", SUBSETS[::3], ids=label)
def test_what_scratch_and_outputs_held_before_makes_no_difference(switches):
    """Not even what is no number: a product that is added to 0 × NaN would show."""
    for batch in (1, 3):
        p = problem(sized(batch=batch, hidden_size=33))
        executable = HostExecutable(rnnopt.schedule(p.spec, switches))
        expected = run(executable, p)
        for stale in (np.nan, np.inf, 1e30):
            for name, buffer in executable.plan.buffers.items():
                if buffer.role == "output":
                    executable._arrays[name] = filled(buffer.shape, stale)
                elif buffer.role == "scratch":
                    executable._arrays[name][...] = stale
            assert identical(run(executable, p), expected)


def filled(shape, value):
    array = aligned_empty(shape)
    array[...] = value
    return array


def test_many_replays_give_the_same_bits():
    p = problem(sized(layers=4, hidden_size=32, steps=7))
    executable = HostExecutable(rnnopt.schedule(p.spec, "wavefront"), workers=4, blas_threads=1)
    expected = run(executable, p)
    assert all(identical(run(executable, p), expected) for _ in range(200))


def test_the_count_of_replays_may_wrap():
    p = problem(sized(layers=3))
    executable = HostExecutable(rnnopt.schedule(p.spec, "wavefront"), workers=3)
    expected = run(executable, p)
    executable._program._replays = 2**32 - 3
    assert all(identical(run(executable, p), expected) for _ in range(6))
    assert executable._program._replays == 4  # after 2**32 - 1 comes 1; 0 would mean "never"


def test_moving_operations_to_other_streams_changes_no_dependency():
    plan = rnnopt.schedule(sized(), rnnopt.SWITCHES)
    loose = scattered(plan, 5, 0)
    assert loose.dependencies == plan.dependencies
    assert all(replace(a, stream=0) == replace(b, stream=0) for a, b in zip(loose.operations, plan.operations, strict=True))
