"""On a real GPU: the device's promises once more, and those that no fake can show."""

import gc
from time import perf_counter

import numpy as np
import pytest
from helpers import SUBSETS, TOLERANCE, error, flat, identical, label, problem, random_order, run, sized

import rnnopt
from rnnopt.devices import resolve
from rnnopt.devices.cuda import context
from rnnopt.devices.cuda.executable import CudaExecutable
from rnnopt.devices.cuda.memory import OutOfDeviceMemory
from rnnopt.schedule import schedule

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device():
    return resolve("cuda")


@pytest.fixture(scope="module")
def primary(device):
    return context.of(device.gpu)


def free_bytes(primary):
    gc.collect()
    with primary.current():
        return context.driver().mem_get_info()[0]


@pytest.mark.parametrize("switches", SUBSETS, ids=label)
def test_every_subset_agrees_with_the_reference(device, switches):
    for spec in (sized(1, 1, 1, 1, 1), sized(2, 5, 7, 3, 4), sized(4, 32, 100, 64, 17)):
        p = problem(spec)
        network = rnnopt.compile(spec, p.weights, stage=switches, device=device)
        assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def test_same_bits_every_time_and_in_any_legal_order(primary):
    p = problem(sized(4, 64, 64, 16, 20))
    plan = schedule(p.spec, "wavefront")
    expected = run(CudaExecutable(plan, primary), p)
    for seed in range(5):
        assert identical(run(CudaExecutable(plan, primary, random_order(plan, seed)), p), expected)


def test_a_closed_executable_leaves_no_memory_behind(primary):
    plan = schedule(sized(4, 512, 512, 64, 100), "wavefront")
    CudaExecutable(plan, primary).close()  # streams, handles and modules stay
    before = free_bytes(primary)
    executable = CudaExecutable(plan, primary)
    assert free_bytes(primary) < before
    executable.close()
    assert free_bytes(primary) == before


def test_too_large_a_plan_leaves_no_memory_behind(primary):
    small = schedule(sized(), "wavefront")
    CudaExecutable(small, primary).close()
    before = free_bytes(primary)
    hidden = 16384  # a layer's two matrices of 4 hidden × hidden floats, each twice: 16 GiB
    layers = before // (64 * hidden * hidden) + 1
    with pytest.raises(OutOfDeviceMemory, match="bytes of GPU memory"):
        CudaExecutable(schedule(sized(layers, hidden, hidden, 1, 1), "wavefront"), primary)
    assert free_bytes(primary) == before


def test_the_time_is_that_of_the_work_not_of_its_issue(device):
    spec = sized(1, 2048, 2048, 256, 20)
    network = rnnopt.compile(spec, rnnopt.init_weights(spec), stage="fused_pointwise", device=device)
    network(np.zeros((spec.steps, spec.batch, spec.input_size), np.float32))
    start = perf_counter()
    seconds = network.executable.replay()
    assert seconds <= perf_counter() - start
    # No card multiplies in float32 at 10 PFLOP/s.
    assert network.plan.flops / seconds < 1e16


def test_a_context_of_someone_else_is_current_again_afterwards(device):
    cuda = context.driver()
    theirs = device.gpu.make_context()
    try:
        p = problem(sized())
        network = rnnopt.compile(p.spec, p.weights, device=device)
        assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE
        assert cuda.Context.get_current() == theirs
        assert cuda.mem_alloc(16).free() is None
    finally:
        theirs.pop()
        theirs.detach()
